package coordinator_test

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/txcoord/txcoord/coordinator"
	"github.com/txcoord/txcoord/twophase"
)

// A start without the newest checkpoint of the journal goes back to the one before it,
// or to the first entry, and writes a new one.
func TestStartWithoutTheNewestCheckpoint(t *testing.T) {
	for name, damage := range map[string]func(w *world, newest []string){
		"its index is gone": func(w *world, newest []string) { w.lose(newest[0]) },
		"its index is cut":  func(w *world, newest []string) { w.cut(newest[0]) },
		"a segment is gone": func(w *world, newest []string) { w.lose(newest[1]) },
		"a segment is cut":  func(w *world, newest []string) { w.cut(newest[1]) },
		"all of all are gone": func(w *world, _ []string) {
			for key := range w.checkpointObjects() {
				w.lose(key)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := checkpointed(t, 0)
			before := w.snapshot(0)
			w.stop()
			newest := w.journalCheckpoints()[0]
			damage(w, newest.keys)
			w.start()
			if diff := gocmp.Diff(before, w.snapshot(0)); diff != "" {
				t.Errorf("snapshot (-before +after):\n%s", diff)
			}
			w.eventually("a new checkpoint is written", func() bool {
				all := w.journalCheckpoints()
				return len(all) > 0 && all[0].at > newest.at && w.status().Checkpoint == all[0].at
			})
			w.commit("afterwards", blind("t", "afterwards"))
			w.restart()
			w.commit("at the end", blind("t", "at the end"))
		})
	}
}

// Where the ring has gone past what was before, the start says which object is missing
// and what to do.
func TestStartWithoutAnyCheckpoint(t *testing.T) {
	w := checkpointed(t, 16)
	w.stop()
	for key := range w.checkpointObjects() {
		w.lose(key)
	}
	err := w.tryStart()
	wantReason(t, "a start", err, coordinator.JournalContradiction)
	if !strings.Contains(err.Error(), "checkpoints/index-") || !strings.Contains(err.Error(), "rebuild") {
		t.Error(err)
	}
}

// checkpointed is a catalog with two checkpoints at least, and entries behind them.
func checkpointed(t *testing.T, slots int) *world {
	w := &world{}
	w.cfg.Limits.CheckpointEvery, w.cfg.Slots = 8, slots
	w.open(t)
	w.create("t", twophase.ModeExclusive)
	for i := range 40 {
		w.commit(fmt.Sprint("before ", i), blind("t", fmt.Sprint(i)))
	}
	w.settle()
	w.eventually("checkpoints are written", func() bool { return w.status().Checkpoint > 16 })
	return w
}

// journalCheckpoint is a checkpoint of the journal, as its objects are stored: the index first.
type journalCheckpoint struct {
	at   twophase.Position
	keys []string
}

// journalCheckpoints are those that can be read, newest first.
func (w *world) journalCheckpoints() (all []journalCheckpoint) {
	w.t.Helper()
	stored := w.checkpointObjects()
	for key, content := range stored {
		if !strings.Contains(key, "/index-") {
			continue
		}
		cp := journalCheckpoint{keys: []string{key}}
		s, err := twophase.DecodeCheckpoint([]byte(content), func(ref twophase.ObjectRef) ([]byte, error) {
			segment := path.Dir(key) + "/" + ref.Name
			cp.keys = append(cp.keys, segment)
			return []byte(stored[segment]), ref.Check([]byte(stored[segment]))
		})
		if err == nil {
			cp.at = s.Next()
			all = append(all, cp)
		}
	}
	slices.SortFunc(all, func(a, b journalCheckpoint) int { return -cmp.Compare(a.at, b.at) })
	return all
}

// checkpointObjects are the objects of all of them.
func (w *world) checkpointObjects() map[string]string {
	objects := map[string]string{}
	for key, content := range w.keys() {
		if key, ok := strings.CutPrefix(key, "object: "); ok && strings.Contains(key, "/checkpoints/") {
			objects[key] = content
		}
	}
	return objects
}

func (w *world) lose(key string) {
	w.t.Helper()
	if err := w.objects.Delete(w.ctx(), key); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) cut(key string) {
	w.t.Helper()
	if err := w.objects.Put(w.ctx(), key, []byte("{")); err != nil {
		w.t.Fatal(err)
	}
}

// An entry that was damaged stops a start that needs it, with the remedy, and nothing is
// appended in its place: put back, all goes on. Also the last one.
func TestStartOnADamagedEntry(t *testing.T) {
	t.Parallel()
	w := checkpointed(t, 0)
	from := w.status().Checkpoint
	w.stop()
	needed := 0
	for _, it := range w.ringItems() {
		at, err := twophase.EntryPosition(it.Value)
		if err != nil {
			t.Fatal(err)
		}
		if at < from {
			continue
		}
		needed++
		flipped := slices.Clone(it.Value)
		flipped[len(flipped)/2] ^= 1
		w.setItem(it.Key, flipped)
		before := w.keys()
		err = w.tryStart()
		wantReason(t, fmt.Sprint("a start with a damaged entry ", at), err, coordinator.JournalContradiction)
		if !strings.Contains(fmt.Sprint(err), "rebuild") {
			t.Error(err)
		}
		if diff := gocmp.Diff(before, w.keys()); diff != "" {
			t.Errorf("a start that failed changed the store (-before +after):\n%s", diff)
		}
		w.setItem(it.Key, it.Value)
	}
	if needed == 0 {
		t.Fatalf("no entry from %d on", from)
	}
	w.start()
	w.commit("after", blind("t", "after"))
}
