package coordinator_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/txcoord/txcoord/coordinator"
	"github.com/txcoord/txcoord/lock"
	"github.com/txcoord/txcoord/twophase"
)

// Decided, not published, and the journal is given up (R7): another one is rebuilt from the
// logs, into another store or in its place, and does not know the transaction. Nobody hears
// from the server of the life before that it is committed, since it never is: neither who
// waits, nor who asks. What is published it goes on to answer. The call that was refused
// commits where the catalog goes on.
func TestDecidedInAJournalThatIsGivenUp(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		elsewhere bool
		owners    time.Duration // how often the old one looks whose its tables are
		reason    coordinator.Reason
		longer    int // records that the journal has beside, so that the next one is shorter
	}{
		"rebuilt into another store":      {true, 5 * time.Millisecond, coordinator.JournalContradiction, 0},
		"rebuilt in its place":            {false, time.Hour, coordinator.StoreUnavailable, 0},
		"rebuilt in a longer one's place": {false, time.Hour, coordinator.StoreUnavailable, 20},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			gate := newGate()
			old := &world{wrapObjects: gate.over}
			old.cfg.Limits = coordinator.Limits{OwnerInterval: c.owners, FreezeAfter: time.Hour}
			old.open(t)
			old.create("t", twophase.ModeExclusive)
			done := old.commit("done", blind("t", "done"))
			for i := range c.longer {
				if _, err := old.catalog.Tag(old.ctx(), fmt.Sprint("longer ", i), 0); err != nil {
					t.Fatal(err)
				}
			}
			old.settle()
			gate.refuse()
			begun, err := old.catalog.Begin(old.ctx(), coordinator.BeginRequest{Key: "pending"})
			if err != nil {
				t.Fatal(err)
			}
			pending := old.background("pending", blind("t", "pending"))
			old.eventually("it is decided", func() bool { return old.info("t").Pending == 1 })
			newest, err := old.catalog.List(old.ctx(), coordinator.ListRequest{IncludeDecided: true, PageSize: 1})
			if err != nil || len(newest.Decided) != 1 || newest.Decided[0].Committed == nil {
				t.Fatalf("while nobody doubts it: %+v, %v", newest, err)
			}

			w := &world{t: t, dir: old.dir, objects: old.objects, store: old.store}
			if c.elsewhere {
				w.rebuilt(coordinator.RebuildOptions{})
			} else {
				w.rebuiltInPlace()
			}
			t.Cleanup(w.stop)
			old.eventually("the old one knows", func() bool { return old.tag(old.catalog.Tag(old.ctx(), "x", 0)) != nil })

			old.saysNothingOf("pending", <-pending, c.reason)
			other := blind("t", "others")
			_, err = old.catalog.Stage(old.ctx(), coordinator.StageRequest{Token: begun.Token, Table: "t", Read: other.Read, Actions: other.Actions})
			wantReason(t, "who stages", err, c.reason)
			o, _, err := old.catalog.Outcome(old.ctx(), coordinator.OutcomeRequest{OutcomeRef: coordinator.OutcomeRef{Key: "done"}})
			if err != nil || o.Committed == nil || o.Txn != done.Txn {
				t.Errorf("what is published: %+v, %v", o, err)
			}
			if again, err := old.try("done", blind("t", "done")); err != nil || again.Txn != done.Txn {
				t.Errorf("what is published, again: %+v, %v", again, err)
			}

			older, err := old.catalog.List(old.ctx(), coordinator.ListRequest{IncludeDecided: true, PageToken: newest.NextPage})
			if err != nil || len(older.Decided) != 1 || older.Decided[0].Txn != done.Txn {
				t.Errorf("a page of what is published: %+v, %v", older, err)
			}
			if _, err := old.catalog.List(old.ctx(), coordinator.ListRequest{}); err != nil {
				t.Errorf("a list of what is open: %v", err)
			}

			if o, _, _ := w.catalog.Outcome(w.ctx(), coordinator.OutcomeRequest{OutcomeRef: coordinator.OutcomeRef{Key: "pending"}}); o.Committed != nil {
				t.Fatalf("the life that goes on knows of it: %+v", o)
			}
			committed := []coordinator.Outcome{done, w.commit("pending", blind("t", "pending"))}
			// What the life before has staged of it is nobody's here, until it is decided. If its
			// position is one that this journal does not have, only a listing finds it, which is
			// made every ten minutes.
			w.catalog.SweepAgain(w.ctx())()
			w.check(closedRun{committed: committed})
		})
	}
}

// rebuiltInPlace gives the journal in the world's store up, and serves the one that is
// rebuilt in its place.
func (w *world) rebuiltInPlace() {
	w.t.Helper()
	meta, _, err := lock.Present(w.ctx(), w.store)
	if err != nil {
		w.t.Fatal(err)
	}
	r, err := w.rebuild(w.store, coordinator.RebuildOptions{Write: true, Supersede: meta.Incarnation})
	if err != nil || !r.Written {
		w.t.Fatalf("%+v, %v", r, err)
	}
	w.start()
}

// saysNothingOf: who waited for a transaction that is decided and not published has heard
// the reason, and so does everybody who asks, in whichever way.
func (w *world) saysNothingOf(key string, waited error, reason coordinator.Reason) {
	w.t.Helper()
	_, _, asked := w.catalog.Outcome(w.ctx(), coordinator.OutcomeRequest{OutcomeRef: coordinator.OutcomeRef{Key: key}})
	_, begun := w.catalog.Begin(w.ctx(), coordinator.BeginRequest{Key: key})
	_, listed := w.catalog.List(w.ctx(), coordinator.ListRequest{IncludeDecided: true})
	_, explained := w.catalog.ExplainTxn(w.ctx(), coordinator.OutcomeRef{Key: key}, nil)
	for what, err := range map[string]error{
		"who waited": waited, "who asks": asked, "who begins": begun, "who lists": listed, "who asks why": explained,
		"who repeats it":     second(w.try(key, blind("t", key))),
		"who adds to it":     second(w.try(key, blind("t", key), blind("t2", key))),
		"who has other rows": second(w.try(key, blind("t", "others"))),
	} {
		if e := wantReason(w.t, what, err, reason); !strings.Contains(e.Message, "only that answer counts") {
			w.t.Errorf("%s: %v", what, e)
		}
	}
}
