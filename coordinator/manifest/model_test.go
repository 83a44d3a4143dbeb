package manifest_test

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"github.com/txcoord/txcoord/twophase"
)

// TestModel: replicas that divide the snapshots as their limits and the moment have it,
// pause between any two requests, die, start again, and do not hear what became of a put,
// which may land much later; and readers that list page by page meanwhile. There is always
// one chain, and every reader gets a snapshot that was, not older than when it came. When
// the faults stop, all of them are written.
func TestModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t, rapid.IntRange(1, 30).Draw(t, "snapshots"))
		n := 0
		replica := func() {
			n++
			most, bytes := rapid.IntRange(1, 6).Draw(t, "most"), rapid.SampledFrom([]int{1, 400, 1 << 20}).Draw(t, "bytes")
			every := twophase.SnapshotVersion(rapid.IntRange(2, 9).Draw(t, "every"))
			w.start(fmt.Sprint("writer ", n), func(a *actor) { w.writer(a, most, bytes, every) })
		}
		for range rapid.IntRange(1, 3).Draw(t, "writers") {
			replica()
		}
		for range rapid.IntRange(20, 300).Draw(t, "steps") {
			switch what := rapid.IntRange(0, 19).Draw(t, "what"); {
			case what < 3 && int(w.closed) < len(w.h):
				w.closed += twophase.SnapshotVersion(rapid.IntRange(1, min(4, len(w.h)-int(w.closed))).Draw(t, "closed"))
			case what == 3 && len(w.late) > 0:
				w.landLate(rapid.IntRange(0, len(w.late)-1).Draw(t, "late"))
			case what == 4:
				want := twophase.SnapshotVersion(rapid.IntRange(0, len(w.h)).Draw(t, "want"))
				w.start("reader", func(a *actor) { w.reader(a, want) })
			case what == 5 && len(w.actors) > 0: // a crash, and another one in its place
				a := rapid.SampledFrom(w.actors).Draw(t, "dies")
				a.stop()
				w.step(a)
				replica()
			case len(w.actors) > 0:
				w.step(rapid.SampledFrom(w.actors).Draw(t, "actor"))
			}
		}
		w.calm(replica)
	})
}

func (w *world) landLate(i int) {
	put := w.late[i]
	w.late = append(w.late[:i], w.late[i+1:]...)
	put()
}

// calm: what is under way lands, nobody dies, and everything that there is gets written.
func (w *world) calm(replica func()) {
	w.faults = false
	w.closed = twophase.SnapshotVersion(len(w.h))
	for len(w.late) > 0 {
		w.landLate(0)
	}
	replica()
	w.start("reader", func(a *actor) { w.reader(a, 0) })
	for range 400 {
		for _, a := range append([]*actor(nil), w.actors...) {
			w.step(a)
		}
	}
	for _, a := range w.actors {
		a.stop()
	}
	if got := w.durable(); got != w.closed {
		w.t.Fatalf("%d of %d snapshots are written", got, w.closed)
	}
	last := &world{t: w.t, h: w.h, objects: w.objects, closed: w.closed}
	for k := range w.closed + 1 {
		a := last.start("reader", func(a *actor) { last.reader(a, k) })
		for len(last.actors) > 0 {
			last.step(a)
		}
	}
}
