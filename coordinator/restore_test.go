package coordinator_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/txcoord/txcoord/coordinator"
	"github.com/txcoord/txcoord/lock"
	"github.com/txcoord/txcoord/twophase"
)

// The journal was put back to an older copy, or is not the one that belongs to the
// warehouse: the catalog does not start, and writes nothing (R7).
func TestRestoredJournalIsRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.create("t", twophase.ModeExclusive)
	w.commit("1", blind("t", "1"))
	w.settle()
	w.close()
	file := filepath.Join(w.dir, "journal.db")
	older, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	w.openStore()
	w.start()
	w.commit("2", blind("t", "2"))
	w.settle()
	w.close()
	newest, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	refuse := func(what string) {
		t.Helper()
		w.openStore()
		before := w.keys()
		wantReason(t, what, w.tryStart(), coordinator.JournalContradiction)
		w.catalog = nil
		after := w.keys()
		delete(before, "store: meta")
		delete(after, "store: meta")
		if diff := cmp.Diff(before, after); diff != "" {
			t.Errorf("%s: something was written:\n%s", what, diff)
		}
		if err := w.store.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(file, older, 0o600); err != nil {
		t.Fatal(err)
	}
	refuse("an older copy")
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	refuse("an empty journal")
	if err := os.WriteFile(file, newest, 0o600); err != nil {
		t.Fatal(err)
	}
	w.openStore()
	w.start()
	w.commit("3", blind("t", "3"))
	w.check(closedRun{})
}

func TestJournalOfAnotherWarehouse(t *testing.T) {
	t.Parallel()
	one, two := newWorld(t), newWorld(t)
	for _, w := range []*world{one, two} {
		w.create("t", twophase.ModeExclusive)
		w.commit("1", blind("t", "1"))
		w.settle()
		w.close()
	}
	b, err := os.ReadFile(filepath.Join(two.dir, "journal.db"))
	if err != nil {
		t.Fatal(err)
	}
	own, err := os.ReadFile(filepath.Join(one.dir, "journal.db"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(one.dir, "journal.db"), b, 0o600); err != nil {
		t.Fatal(err)
	}
	one.openStore()
	wantReason(t, "another warehouse's journal", one.tryStart(), coordinator.JournalContradiction)
	one.catalog = nil
	if err := one.store.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(one.dir, "journal.db"), own, 0o600); err != nil {
		t.Fatal(err)
	}
	one.openStore()
	one.start()
	two.openStore()
	two.start()
}

// A journal that is put back under a running catalog: it stops, and says so to
// everybody who waits.
func TestJournalPutBackUnderARunningCatalog(t *testing.T) {
	t.Parallel()
	gate := newGate()
	w := &world{wrapObjects: gate.over}
	w.cfg.Slots = 16
	w.open(t)
	w.create("t", twophase.ModeExclusive)
	for i := range 20 {
		w.commit(fmt.Sprint("a", i), blind("t", fmt.Sprint("a", i)))
	}
	older := w.ringItems()
	for i := range 20 {
		w.commit(fmt.Sprint("b", i), blind("t", fmt.Sprint("b", i)))
	}
	w.settle()
	gate.hold(commitKey("t", 41))
	pending := w.background("pending", blind("t", "pending"))
	w.eventually("it is decided", func() bool { return w.info("t").Pending == 1 })
	for _, it := range older {
		if _, err := w.store.Put(w.ctx(), it.Key, it.Value, lock.Always()); err != nil {
			t.Fatal(err)
		}
	}
	restored := w.ringItems()
	wantReason(t, "a commit", second(w.try("k", blind("t", "1"))), coordinator.JournalContradiction)
	wantReason(t, "another one", second(w.try("k2", blind("t", "2"))), coordinator.JournalContradiction)
	_, err := w.catalog.Abort(w.ctx(), coordinator.OutcomeRef{Token: w.begin("k3").Token}, "")
	wantReason(t, "an abort", err, coordinator.JournalContradiction)
	// It was decided, and the journal does not hold that any more.
	w.saysNothingOf("pending", <-pending, coordinator.JournalContradiction)
	gate.release()
	if got := w.ringItems(); len(got) != len(restored) {
		t.Errorf("%d slots became %d", len(restored), len(got))
	} else {
		for i := range got {
			if string(got[i].Value) != string(restored[i].Value) {
				t.Errorf("slot %s was written", got[i].Key)
			}
		}
	}
}

func (w *world) ringItems() []lock.Item {
	w.t.Helper()
	items, err := w.store.Scan(w.ctx(), "ring/", "", 1000)
	if err != nil {
		w.t.Fatal(err)
	}
	return items
}
