package coordinator_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/txcoord/txcoord/coordinator"
	"github.com/txcoord/txcoord/lock"
	"github.com/txcoord/txcoord/twophase"
)

// A slot that was damaged under a running server ends the commit that needs it, and every
// call after that, with the remedy, and the server says that it does not serve. Nothing is
// written over it. Put back, a start goes on.
func TestDamagedSlotStopsARunningCatalog(t *testing.T) {
	t.Parallel()
	for name, shared := range map[string]bool{"alone": false, "with replicas": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := &world{}
			w.cfg.SharedStore = shared
			w.cfg.Slots = 64
			w.open(t)
			w.create("t", twophase.ModeExclusive)
			w.settle()
			next := w.status().Position
			key := fmt.Sprintf("%s%08d", ringPrefix(w), next)
			w.setItem(key, []byte("garbage"))
			for i := range 2 {
				_, err := w.try(fmt.Sprint("k", i), blind("t", fmt.Sprint(i)))
				wantReason(t, "a commit onto a damaged slot", err, coordinator.JournalContradiction)
				if !strings.Contains(fmt.Sprint(err), "rebuild") || !strings.Contains(fmt.Sprint(err), "damaged") {
					t.Error(err)
				}
			}
			err := w.catalog.Ready()
			wantReason(t, "ready", err, coordinator.JournalContradiction)
			why := w.explain("t").Findings
			if i := slices.IndexFunc(why, func(f coordinator.Finding) bool { return f.Code == coordinator.FoundCatalogStopped }); i < 0 || !strings.Contains(why[i].Text, "damaged") || !strings.Contains(why[i].Remedy, "rebuild") {
				t.Errorf("tables why: %+v", why)
			}
			if st := w.status().Troubles; len(st) != 1 || st[0].Place != "store" || !strings.Contains(st[0].Text, "takes no writes") {
				t.Errorf("status: %+v", st)
			}
			if item, err := w.store.Get(w.ctx(), key); err != nil || string(item.Value) != "garbage" {
				t.Errorf("%q, %v", item.Value, err)
			}
			w.stop()
			wantReason(t, "a start", w.tryStart(), coordinator.JournalContradiction)
			if err := w.store.Delete(w.ctx(), key); err != nil {
				t.Fatal(err)
			}
			w.start()
			w.commit("after", blind("t", "after"))
		})
	}
}

func ringPrefix(w *world) string { return "ring/" + w.meta().Incarnation + "/" }

// Whatever the header of an entry says after damage, at whichever position the search for
// the head meets it: a start gives the remedy, or it did not need the entry.
func TestStartOnADamagedHeader(t *testing.T) {
	t.Parallel()
	w := checkpointed(t, 0)
	w.stop()
	for _, it := range w.ringItems() {
		for _, at := range []int{0, 1, 2, 3, 10, len(it.Value) / 2} {
			flipped := slices.Clone(it.Value)
			flipped[at] ^= 1
			w.setItem(it.Key, flipped)
			before := w.keys()
			err := w.tryStart()
			if err == nil {
				w.stop()
				w.setItem(it.Key, it.Value)
				continue
			}
			wantReason(t, fmt.Sprint("a start with ", it.Key, " damaged at ", at), err, coordinator.JournalContradiction)
			if !strings.Contains(err.Error(), "rebuild") {
				t.Error(err)
			}
			if diff := gocmp.Diff(before, w.keys()); diff != "" {
				t.Errorf("a start that failed changed the store (-before +after):\n%s", diff)
			}
			w.setItem(it.Key, it.Value)
		}
	}
	w.start()
	w.commit("after", blind("t", "after"))
}

// The lap that an entry of the journal's end is of is changed: it looks like what the next
// entry is to replace. A start does not take it for free and the history before it for all.
func TestStartOnAnEntryOfAnotherLap(t *testing.T) {
	t.Parallel()
	w := checkpointed(t, 16)
	w.stop()
	j, err := lock.ExistingJournal(w.ctx(), w.store)
	if err != nil {
		t.Fatal(err)
	}
	head, err := j.Next(w.ctx())
	if err != nil || head < 17 {
		t.Fatal(head, err)
	}
	last := head - 1
	e := twophase.Entry{Header: twophase.Header{Catalog: w.meta().Catalog, Incarnation: w.meta().Incarnation, Position: last - 16}}
	looks := e.Encode()
	looks[len(looks)-1] ^= 1
	w.setItem(fmt.Sprintf("%s%08d", j.Prefix(), last%16), looks)
	before := w.keys()
	wantReason(t, "a start", w.tryStart(), coordinator.JournalContradiction)
	if diff := gocmp.Diff(before, w.keys()); diff != "" {
		t.Errorf("a start that failed changed the store (-before +after):\n%s", diff)
	}
}
