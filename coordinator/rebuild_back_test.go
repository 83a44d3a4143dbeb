package coordinator_test

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/txcoord/txcoord/coordinator"
	"github.com/txcoord/txcoord/lock/memstore"
	"github.com/txcoord/txcoord/tables/objstore/memobj"
	"github.com/txcoord/txcoord/twophase"
)

// wentBackFindings are those about a table that went back: "txn: what", in order.
func wentBackFindings(r *coordinator.RebuildReport) (out []string) {
	for _, f := range r.Findings {
		if f.Code == coordinator.RebuildWentBack && !f.Txn.IsZero() {
			out = append(out, f.Txn.String()+": "+f.What)
		}
	}
	slices.Sort(out)
	return out
}

// A log that went back has lost parts of transactions that other logs have: they are named,
// with where they are, by the plan and for ever after by their outcomes, and nobody's word is
// needed but that about the table. Those that no log has any more are named, too.
func TestRebuildNamesWhatWentBack(t *testing.T) {
	t.Parallel()
	w := &world{}
	w.cfg.Limits.ManifestSnapshots = 1
	w.open(t)
	w.create("a", twophase.ModeExclusive)
	w.create("b", twophase.ModeExclusive)
	w.create("c", twophase.ModeExclusive)
	kept := w.commit("kept", blind("a", "1"), blind("b", "1"))
	half := w.commit("half", blind("a", "2"), blind("b", "2"), blind("c", "2"))
	whole := w.commit("whole", blind("b", "3"))
	alone := w.commit("alone", blind("a", "4"))
	w.settle()
	shown := w.catalog.Shown()
	newest := w.commit("newest", blind("a", "5"), blind("c", "5"))
	w.settle()
	w.stop()
	w.drop(manifestKey(int(shown) + 1)) // as if it had not been written
	for v := 2; w.read("a", v) != ""; v++ {
		w.drop(commitKey("a", v))
	}
	plan, err := w.rebuild(memstore.New(memstore.Config{}), coordinator.RebuildOptions{})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		fmt.Sprint(half.Txn, ": in b@2, c@1; missing in a"),
		fmt.Sprint(newest.Txn, ": in c@2; missing in a"),
		fmt.Sprintf("%s: snapshot %d shows it, with version 3 of the table, and no log that was read has it; its key is not known any more", alone.Txn, alone.Committed.Snapshot),
	}
	slices.Sort(want)
	if diff := gocmp.Diff(want, wentBackFindings(plan)); diff != "" || plan.Refused() != 4 || len(plan.Torn) != 2 {
		t.Errorf("%d refused, torn %+v (-want +got):\n%s", plan.Refused(), plan.Torn, diff)
	}
	w.rebuilt(coordinator.RebuildOptions{Accept: []coordinator.RebuildCode{coordinator.RebuildWentBack}})
	w.wantPlaces(map[string]string{"kept": "b@1", "half": "a given up, b@2, c@1", "whole": "b@3", "newest": "a given up, c@2"})
	if x := w.explainTxn(coordinator.OutcomeRef{Key: "half"}, nil); x.State != coordinator.TxnGivenUp || !strings.Contains(x.Text, "applied on a (no log had it when the catalog was rebuilt)") {
		t.Errorf("why half: %s", x.Text)
	} else if strings.Contains(x.Remedy, "tables resolve") || !strings.Contains(x.Remedy, "lost/"+half.Txn.String()+"/") || !strings.Contains(x.Remedy, "another key") {
		t.Errorf("what to do about half: %s", x.Remedy)
	}
	wantReason(t, "the rest of the same call", second(w.try("half", blind("b", "2"), blind("c", "2"))), coordinator.OtherDigests)
	if o := w.commit("whole", blind("b", "3")); o.Txn != whole.Txn || w.versions("b") != 4 {
		t.Errorf("whole again: %+v", o)
	}
	if o := w.commit("kept", blind("b", "1")); o.Txn != kept.Txn || w.versions("b") != 4 {
		t.Errorf("kept again: %+v", o)
	}
	w.commit("after", blind("b", "after"), blind("c", "after"))
	w.settle()
	r := w.fsck("")
	given := []string{fmt.Sprint("GIVEN_UP a ", half.Txn), fmt.Sprint("GIVEN_UP a ", newest.Txn)}
	slices.Sort(given)
	w.wantFindings("rebuilt", r, given...)
	for _, f := range r.Findings {
		if f.What != "the change was given up: no log had it when the catalog was rebuilt" {
			t.Errorf("fsck says %q", f.What)
		}
	}
}

// wantPlaces wants transactions, by key, to be said to be in versions of tables.
func (w *world) wantPlaces(want map[string]string) {
	w.t.Helper()
	for key, where := range want {
		var got []string
		for _, d := range w.keyOutcome(key).Committed.Tables {
			name := cmp.Or(d.Name, string(d.Table))
			switch d.Status {
			case twophase.StatusPublished:
				got = append(got, fmt.Sprintf("%s@%d", name, d.Version))
			case twophase.StatusNotApplied:
				got = append(got, name+" given up")
			default:
				got = append(got, fmt.Sprint(name, " ", d.Status))
			}
		}
		if slices.Sort(got); strings.Join(got, ", ") != where {
			w.t.Errorf("%s is said to be in %v, want %s", key, got, where)
		}
	}
}

// wentBack is a catalog whose log of a has gone back, and that was rebuilt without it.
func wentBack(t *testing.T) (w *world, missing string) {
	w = &world{}
	w.cfg.Limits.ManifestSnapshots = 1
	w.open(t)
	for _, name := range []string{"a", "b", "c"} {
		w.create(name, twophase.ModeExclusive)
	}
	w.commit("kept", blind("a", "1"), blind("b", "1"))
	w.commit("half", blind("a", "2"), blind("b", "2"), blind("c", "2"))
	w.settle()
	w.stop()
	content := w.read("a", 2)
	w.drop(commitKey("a", 2))
	return w, content
}

var acceptBack = coordinator.RebuildOptions{Accept: []coordinator.RebuildCode{coordinator.RebuildWentBack}}

// TestRebuildOnceMoreWithoutWhatWentBack: the journal is lost again, and the manifests do not
// name the table any more whose log had gone back. What was given up with it stays given up,
// however often that happens, and the same call is not told that all of it is published.
func TestRebuildOnceMoreWithoutWhatWentBack(t *testing.T) {
	t.Parallel()
	w, _ := wentBack(t)
	w.rebuilt(acceptBack)
	for range 3 {
		w.commit("after", blind("b", "after"), blind("c", "after"))
		w.settle()
		w.stop()
		r := w.rebuilt(coordinator.RebuildOptions{})
		if len(r.Torn) > 0 {
			t.Errorf("torn: %+v", r.Torn)
		}
		w.wantPlaces(map[string]string{"kept": "b@1", "half": "a given up, b@2, c@1", "after": "b@3, c@2"})
		wantReason(t, "the rest of the same call", second(w.try("half", blind("b", "2"), blind("c", "2"))), coordinator.OtherDigests)
	}
}

// TestRebuildThatBreaksOffWithoutWhatWentBack: a rebuild that leaves a table out dies at each of
// its writes, and is run again, also where the manifests do not name that table any more. What
// is known afterwards is the same.
func TestRebuildThatBreaksOffWithoutWhatWentBack(t *testing.T) {
	t.Parallel()
	for at := 0; ; at++ {
		w, _ := wentBack(t)
		f := &faults{}
		w.wrapObjects = f.overObjects
		f.arm(at, diesAfter)
		ctx, cancel := context.WithCancel(w.ctx())
		go func() { // a process that is dead repeats nothing
			select {
			case <-f.died:
				cancel()
			case <-ctx.Done():
			}
		}()
		accept := acceptBack
		accept.Write = true
		_, err := w.rebuildUntil(ctx, f.overStore(memstore.New(memstore.Config{})), accept)
		hit := f.isHit()
		f.disarm()
		cancel()
		if !hit {
			if err != nil || at < 6 { // the note, owner objects, a manifest, entries, the meta key
				t.Errorf("%d writes, %v", at, err)
			}
			return
		}
		w.wrapObjects = nil
		w.rebuilt(acceptBack)
		w.wantPlaces(map[string]string{"kept": "b@1", "half": "a given up, b@2, c@1"})
		w.stop()
	}
}

// A rebuild that breaks off before its life has begun has given nothing up: the log is put
// back, the journal too, and a leaves the catalog as it should. A rebuild after that knows of
// no part that was lost.
func TestRebuildThatGaveNothingUp(t *testing.T) {
	t.Parallel()
	w, missing := wentBack(t)
	old := w.store
	f := &faults{}
	w.wrapObjects = f.overObjects
	f.arm(0, diesAfter)
	ctx, cancel := context.WithCancel(w.ctx())
	go func() { <-f.died; cancel() }()
	accept := acceptBack
	accept.Write = true
	if _, err := w.rebuildUntil(ctx, f.overStore(memstore.New(memstore.Config{})), accept); err == nil || !strings.Contains(f.hit, "lost/") {
		t.Fatalf("%v, at %s", err, f.hit)
	}
	f.disarm()
	w.wrapObjects, w.store = nil, old
	w.put(commitKey("a", 2), missing)
	w.start()
	if err := w.catalog.Release(w.ctx(), "a", false); err != nil {
		t.Fatal(err)
	}
	w.settle()
	w.stop()
	w.rebuilt(coordinator.RebuildOptions{})
	w.wantPlaces(map[string]string{"kept": "b@1", "half": "b@2, c@1"})
}

// Of a key that was used again, what is left of the transaction before does not stand for
// the part that is lost.
func TestRebuildOfAKeyThatWentBack(t *testing.T) {
	t.Parallel()
	w := usedAgain(t)
	at := w.holding("a", "weekly")
	for v := at[1]; w.read("a", v) != ""; v++ {
		w.drop(commitKey("a", v))
	}
	plan, err := w.rebuild(memstore.New(memstore.Config{}), coordinator.RebuildOptions{})
	if err != nil {
		t.Fatal(err)
	}
	id := twophase.DeriveTxnID(w.meta().Catalog, "weekly", 1)
	want := fmt.Sprintf("%s: in b@%d; missing in a", id, w.holding("b", "weekly")[1])
	if got := wentBackFindings(plan); !slices.Contains(got, want) {
		t.Errorf("%q is not among %q", want, got)
	}
	for _, f := range wentBackFindings(plan) {
		if key := twophase.DeriveTxnID(w.meta().Catalog, "retried", 1).String(); strings.HasPrefix(f, key) {
			t.Errorf("it lost nothing: %s", f)
		}
	}
}

// What is not read of a log that went back, since it was cleaned or is old, is not taken for
// lost; what came later is.
func TestRebuildOfALogThatWentBackInParts(t *testing.T) {
	t.Parallel()
	const day = 24 * time.Hour
	for _, cleaned := range []bool{true, false} {
		t.Run(fmt.Sprintf("cleaned=%t", cleaned), func(t *testing.T) {
			t.Parallel()
			var later atomic.Int64
			now := func() time.Time { return time.Now().Add(time.Duration(later.Load())) }
			w := &world{objects: &datedObjects{Store: memobj.New(), now: now, put: map[string]time.Time{}}}
			w.cfg.Now = now
			begins := 60 * day // its logs are not read that far back
			if cleaned {
				begins = day
			}
			later.Store(-int64(begins))
			w.open(t)
			w.createWith(coordinator.CreateRequest{Name: "a", Schema: schema, Mode: twophase.ModeExclusive, Properties: map[string]string{"delta.checkpointPolicy": "v2"}})
			w.create("b", twophase.ModeExclusive)
			w.commit("old 1", blind("a", "old 1"), blind("b", "old 1"))
			w.commit("old 2", blind("a", "old 2"), blind("b", "old 2"))
			later.Store(int64(-time.Hour))
			if cleaned {
				w.commit("left", blind("a", "left"), blind("b", "left"))
			}
			later.Store(int64(-time.Minute))
			lost := w.commit("lost", blind("a", "lost"), blind("b", "lost"))
			w.settle()
			if cleaned {
				w.checkpointed("a", 2, 2, "old 1", "old 2")
			}
			w.stop()
			v := lost.Committed.Tables[0].Version
			w.drop(commitKey("a", int(v)))
			if !cleaned {
				w.drop(commitKey("a", 2)) // of a time of which no log is read
			}
			plan, err := w.rebuild(memstore.New(memstore.Config{}), coordinator.RebuildOptions{})
			if err != nil {
				t.Fatal(err)
			}
			want := []string{fmt.Sprintf("%s: in b@%d; missing in a", lost.Txn, v)}
			if diff := gocmp.Diff(want, wentBackFindings(plan)); diff != "" {
				t.Errorf("(-want +got):\n%s\n%v", diff, rebuildFindings(plan))
			}
		})
	}
}
