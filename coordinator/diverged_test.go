package coordinator_test

import (
	"context"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/txcoord/txcoord/coordinator"
	"github.com/txcoord/txcoord/twophase"
)

func TestDivergedTable(t *testing.T) {
	t.Parallel()
	gate := newGate()
	w := &world{files: true, wrapObjects: gate.over}
	w.open(t)
	for _, name := range []string{"t", "beside", "apart"} {
		w.create(name, twophase.ModeOpen)
	}
	w.commit("seed", change("t", blindRead, add("1"), add("2")), blind("beside", "1"))
	gate.hold(commitKey("t", 2))
	w.abandoned("t", once("k", change("t", readAt(1), remove("1"), add("3")), blind("beside", "2")))
	w.foreign("t", 2, remove("1"), add("4"))
	gate.release()

	// The same call again: COMMITTED, and why it is not published.
	o := w.commit("k", change("t", readAt(1), remove("1"), add("3")), blind("beside", "2"))
	if o.Committed.Snapshot != 0 || !strings.Contains(o.Committed.PendingReason, "frozen: diverged") {
		t.Fatalf("%+v", o.Committed)
	}
	var at coordinator.Delivery
	for _, d := range o.Committed.Tables {
		if d.Name == "t" {
			at = d
		}
	}
	if at.Status != twophase.StatusDiverged || at.Conflict == nil || at.Conflict.Rule != twophase.RulePathMissing {
		t.Errorf("on t: %+v", at)
	}
	w.eventually("the other table's version is put", func() bool { return w.versions("beside") == 3 })
	if log := w.read("t", 3); log != "" {
		t.Errorf("something was put over the divergence: %s", log)
	}

	// Both tables of the round take no commits; others do.
	for _, name := range []string{"t", "beside"} {
		own := wantReason(t, name, second(w.try("refused "+name, blind(name, "9"))), coordinator.TableFrozen)
		if own.Frozen == nil || own.Frozen.Cause != twophase.CauseDiverged || own.Frozen.Txn != o.Txn {
			t.Errorf("%s: %+v", name, own.Frozen)
		}
	}
	w.commit("others go on", blind("apart", "1"))
	if diff := cmp.Diff(map[string]twophase.Version{"t": 1, "beside": 1, "apart": 1}, w.snapshot(0)); diff != "" {
		t.Errorf("snapshot while frozen (-want +got):\n%s", diff)
	}
	w.restart() // it stays so
	if st := w.status(); len(st.Frozen) != 2 || len(st.Rounds) != 1 {
		t.Errorf("status %+v", st)
	}

	w.eventually("nothing but the round goes on", func() bool {
		st := w.status()
		return st.ManifestSnapshot == st.Shown && w.payloads() == 1 // the bundle of both parts
	})
	var preview coordinator.Resolution
	w.unchangedNow("a preview", func() {
		var err error
		if preview, err = w.catalog.Resolve(w.ctx(), coordinator.ResolveRequest{Table: "beside", Preview: true}); err != nil {
			t.Fatal(err)
		}
	})
	if len(preview.GivenUp) != 1 || preview.GivenUp[0].Key != "k" || preview.GivenUp[0].Conflict.Rule != twophase.RulePathMissing ||
		!cmp.Equal(preview.GivenUp[0].Elsewhere, []coordinator.ResolvedElsewhere{{Table: "beside", State: "will be published"}}) ||
		!cmp.Equal(preview.Freed, []string{"beside", "t"}) || len(preview.Steps) != 1 || preview.Steps[0].Kind != "thaw" || preview.Steps[0].Table != "t" {
		t.Errorf("preview %+v", preview)
	}
	if _, err := w.catalog.Resolve(w.ctx(), coordinator.ResolveRequest{Table: "beside", Reason: "looked at it", Plan: preview.Plan}); err != nil {
		t.Fatal(err)
	}
	again := w.commit("k", change("t", readAt(1), remove("1"), add("3")), blind("beside", "2"))
	if again.Committed.Snapshot == 0 || deliveries(again)["beside"] != 2 {
		t.Errorf("after the thaw: %+v", again.Committed)
	}
	for _, d := range again.Committed.Tables {
		if d.Name == "t" && d.Status != twophase.StatusNotApplied {
			t.Errorf("on t: %+v", d)
		}
	}
	w.commit("writable again", blind("t", "5"), blind("beside", "5"))
	wantReason(t, "thaw of what is not frozen", w.resolve("t"), coordinator.NothingToResolve)
	w.check(closedRun{})
}

func second[A any](_ A, err error) error { return err }

// abandoned has a transaction decided, the first on its table that is pending, whose
// caller then gives up.
func (w *world) abandoned(table string, r coordinator.OnceRequest) {
	w.t.Helper()
	ctx, cancel := context.WithCancel(w.ctx())
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		w.catalog.CommitOnce(ctx, r) //nolint:errcheck // its caller gives up
	}()
	w.eventually("it is decided", func() bool { return w.info(table).Pending == 1 })
	cancel()
	<-gone
}

// abandonedParts does that step by step, so that each part lies by itself.
func (w *world) abandonedParts(table string, r coordinator.OnceRequest) {
	w.t.Helper()
	w.abandonedBehind(table, 1, r)
}

// abandonedBehind is that behind others: so many changes are then pending on the table.
func (w *world) abandonedBehind(table string, pending int, r coordinator.OnceRequest) {
	w.t.Helper()
	b := w.begin(r.Key)
	call := coordinator.CommitRequest{Token: b.Token}
	for _, part := range r.Tables {
		st, err := w.catalog.Stage(w.ctx(), coordinator.StageRequest{
			Token: b.Token, Table: part.Table, Read: part.Read, Actions: part.Actions, Create: part.Create,
		})
		if err != nil {
			w.t.Fatal(err)
		}
		call.Tables = append(call.Tables, parts(part.Table, st.Digest))
	}
	ctx, cancel := context.WithCancel(w.ctx())
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		w.catalog.Commit(ctx, call) //nolint:errcheck // its caller gives up
	}()
	w.eventually("it is decided", func() bool { return w.info(table).Pending == pending })
	cancel()
	<-gone
}

// The log holds a version that claims to be ours and cannot be: stop, never guess (R3).
func TestVersionThatClaimsToBeOurs(t *testing.T) {
	t.Parallel()
	w := (&world{}).open(t)
	w.create("t", twophase.ModeOpen)
	w.create("beside", twophase.ModeOpen)
	w.commit("1", blind("t", "1"))
	forged := strings.ReplaceAll(w.read("t", 1), "1.parquet", "forged.parquet")
	w.rawCommit("t", 2, forged)
	own := wantReason(t, "a commit on it", second(w.try("2", blind("t", "2"), blind("beside", "2"))), coordinator.LogContradiction)
	if own.Table == nil || own.Table.Table != "t" {
		t.Errorf("%+v", own.Table)
	}
	own = wantReason(t, "the next one", second(w.try("3", blind("t", "2"))), coordinator.TableFrozen)
	if own.Frozen.Cause != twophase.CauseContradiction {
		t.Errorf("%+v", own.Frozen)
	}
	w.commit("others go on", blind("beside", "3"))
	if n := w.versions("t"); n != 3 {
		t.Errorf("%d versions", n)
	}
	// An operator who says that it was mended, and it was not: the same again.
	if err := w.resolve("t"); err != nil {
		t.Fatal(err)
	}
	wantReason(t, "after a thaw", second(w.try("4", blind("t", "2"))), coordinator.LogContradiction)
}
