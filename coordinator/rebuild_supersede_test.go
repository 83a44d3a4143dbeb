package coordinator_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/txcoord/txcoord/coordinator"
	"github.com/txcoord/txcoord/lock"
	"github.com/txcoord/txcoord/lock/memstore"
	"github.com/txcoord/txcoord/twophase"
)

// A journal that was put back to an older copy is given up in its own store, when that is
// said; a server that still follows it stops.
func TestRebuildSupersedes(t *testing.T) {
	t.Parallel()
	w, committed := lived(t)
	older := memstore.New(memstore.Config{})
	if _, err := lock.Copy(w.ctx(), w.store, older, coordinator.StaysBehind); err != nil {
		t.Fatal(err)
	}
	committed = append(committed, w.commit("t6", blind("a", "t6")))
	w.settle()
	w.stop()
	w.store = older
	wantReason(t, "the older copy", w.tryStart(), coordinator.JournalContradiction)
	w.catalog = nil
	meta, _, err := lock.Present(w.ctx(), older)
	if err != nil {
		t.Fatal(err)
	}
	for _, supersede := range []string{"", strings.Repeat("0", 32)} {
		if _, err := w.rebuild(older, coordinator.RebuildOptions{Write: true, Supersede: supersede}); err == nil || !strings.Contains(err.Error(), meta.Incarnation) {
			t.Errorf("superseding %q: %v", supersede, err)
		}
	}
	r, err := w.rebuild(older, coordinator.RebuildOptions{Write: true, Supersede: meta.Incarnation})
	if err != nil || !r.Written || r.Incarnation == meta.Incarnation {
		t.Fatalf("%+v, %v", r, err)
	}
	if again, err := w.rebuild(older, coordinator.RebuildOptions{Write: true, Supersede: meta.Incarnation}); err != nil || !again.Already || again.Incarnation != r.Incarnation {
		t.Errorf("the same command again: %+v, %v", again, err)
	}
	w.start()
	w.try2("t3", 3)
	if o := w.commit("t6", blind("a", "t6")); o.Txn != committed[6].Txn {
		t.Errorf("t6: %+v", o)
	}
	after := w.commit("after", blind("a", "after"), blind("b", "after"))
	w.check(closedRun{committed: append(committed, after)})
}

// The journal of a store that the catalog has left is not the one to start a server on, and
// neither is it one to be made anew: the store is named where it goes on.
func TestRebuildNamesWhereTheCatalogMoved(t *testing.T) {
	t.Parallel()
	w, _ := lived(t)
	if err := w.catalog.Leave(w.ctx(), "bolt:elsewhere.db"); err != nil {
		t.Fatal(err)
	}
	w.stop()
	_, err := w.rebuild(w.store, coordinator.RebuildOptions{})
	if !errors.Is(err, lock.ErrUnfit) || !strings.Contains(err.Error(), "has moved to bolt:elsewhere.db") || strings.Contains(err.Error(), "start a server on it") {
		t.Errorf("a plan for the old store: %v", err)
	}
	meta, _, err := lock.Present(w.ctx(), w.store)
	if err != nil {
		t.Fatal(err)
	}
	if r, err := w.rebuild(w.store, coordinator.RebuildOptions{Supersede: meta.Incarnation}); err != nil {
		t.Errorf("a plan that gives it up: %+v, %v", r, err)
	}
}

// An operator's freeze does not outlive the journal that it stood in: where that one can be
// read, the plan names it, and it is no hindrance where it cannot.
func TestRebuildNamesFreezes(t *testing.T) {
	t.Parallel()
	w, _ := lived(t)
	for _, table := range []string{"a", "b"} {
		if _, err := w.catalog.FreezeTable(w.ctx(), table, "audit of "+table); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := w.catalog.UnfreezeTable(w.ctx(), "a", "done"); err != nil {
		t.Fatal(err)
	}
	w.stop()
	meta, _, err := lock.Present(w.ctx(), w.store)
	if err != nil {
		t.Fatal(err)
	}
	plan := func(store lock.Store) *coordinator.RebuildReport {
		t.Helper()
		r, err := w.rebuild(store, coordinator.RebuildOptions{Supersede: meta.Incarnation})
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	always := []string{"FENCE_COUNTS_ANEW c", "MODE_OPENED b", "TAGS_AND_LEASES_LOST"}
	r := plan(w.store)
	if diff := cmp.Diff(slices.Insert(slices.Clone(always), 1, "FREEZE_LOST b"), rebuildFindings(r)); diff != "" {
		t.Errorf("findings (-want +got):\n%s", diff)
	}
	if hold := r.Findings[1]; !strings.Contains(hold.What, "audit of b") || hold.Code.Loss() || !strings.Contains(hold.Code.Remedy(), "tables freeze") {
		t.Errorf("it says %+v", hold)
	}
	damaged := memstore.New(memstore.Config{})
	if _, err := lock.Copy(w.ctx(), w.store, damaged, coordinator.StaysBehind); err != nil {
		t.Fatal(err)
	}
	if _, err := damaged.Put(w.ctx(), "ring/"+meta.Incarnation+"/00000000", []byte("nothing"), lock.Always()); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(always, rebuildFindings(plan(damaged))); diff != "" {
		t.Errorf("findings of a damaged journal (-want +got):\n%s", diff)
	}
	done, err := w.rebuild(w.store, coordinator.RebuildOptions{Write: true, Supersede: meta.Incarnation})
	if err != nil || !done.Written || !slices.Contains(rebuildFindings(done), "FREEZE_LOST b") {
		t.Errorf("the rebuild says %+v, %v", done, err)
	}
}

// A server that runs on the store whose journal is given up decides nothing more.
func TestRebuildEndsTheJournalBefore(t *testing.T) {
	t.Parallel()
	w, _ := lived(t)
	meta, _, err := lock.Present(w.ctx(), w.store)
	if err != nil {
		t.Fatal(err)
	}
	r, err := w.rebuild(w.store, coordinator.RebuildOptions{Write: true, Supersede: meta.Incarnation})
	if err != nil || !r.Written {
		t.Fatalf("%+v, %v", r, err)
	}
	w.unchangedNow("a server of the life before", func() {
		for range 3 {
			err := w.tag(w.catalog.Tag(w.ctx(), "x", 0))
			if e := wantReason(t, "a tag", err, coordinator.StoreUnavailable); !strings.Contains(e.Message, r.Incarnation) {
				t.Errorf("it says %q", e.Message)
			}
		}
	})
	// A rebuild that breaks off behind this leaves a journal that has ended and none in its place.
	if err := coordinator.MovedError("shop", w.catalog.MovedTo()); !errors.Is(err, lock.ErrUnfit) || !strings.Contains(err.Error(), "if it broke off, run it again") {
		t.Errorf("who starts a server on it is told %v", err)
	}
	w.stop()
	w.start()
	w.commit("x", blind("a", "x"), blind("b", "x"))
	w.check(closedRun{})
}

// A server of the life before that still runs, over a journal of its own, stops when it
// sees whose its tables are; what it puts before that ends the rebuild.
func TestRebuildStopsServersOfTheLifeBefore(t *testing.T) {
	t.Parallel()
	old := &world{}
	old.cfg.Limits.OwnerInterval = 5 * time.Millisecond
	old.open(t)
	old.create("a", twophase.ModeExclusive)
	old.create("b", twophase.ModeExclusive)
	old.commit("1", blind("a", "1"), blind("b", "1"))
	old.settle()
	w := &world{t: t, dir: old.dir, objects: old.objects}
	w.rebuilt(coordinator.RebuildOptions{})
	t.Cleanup(w.stop)
	old.eventually("the old one has stopped", func() bool {
		err := old.tag(old.catalog.Tag(old.ctx(), "x", 0))
		return err != nil && strings.Contains(err.Error(), "rebuilt")
	})
	w.commit("2", blind("a", "2"), blind("b", "2"))
	w.check(closedRun{})
}
