package coordinator_test

import (
	"cmp"
	"context"
	"fmt"
	"path"
	"slices"
	"strings"
	"sync"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/txcoord/txcoord/coordinator"
	"github.com/txcoord/txcoord/lock"
	"github.com/txcoord/txcoord/tables/objstore"
	"github.com/txcoord/txcoord/tables/objstore/objtest"
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
			newest := w.recorded()
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

// recorded is the checkpoint that a start begins with: the newest that the journal names.
// One that was cut off before its record may lie beside it, and be newer.
func (w *world) recorded() journalCheckpoint {
	w.t.Helper()
	all := w.checkpointRecords()
	newest := all[len(all)-1].Object.Name
	for _, cp := range w.journalCheckpoints() {
		if path.Base(cp.keys[0]) == newest {
			return cp
		}
	}
	w.t.Fatalf("no checkpoint %s", newest)
	return journalCheckpoint{}
}

// storedEntry is the entry in a value of the ring.
func storedEntry(value []byte) (*twophase.Entry, error) {
	raw, err := lock.Unpack(value)
	if err != nil {
		return nil, err
	}
	return twophase.DecodeEntry(raw)
}

// checkpointRecords are those in the ring, in order of their checkpoints.
func (w *world) checkpointRecords() (all []*twophase.Checkpointed) {
	w.t.Helper()
	for _, it := range w.ringItems() {
		e, err := storedEntry(it.Value)
		if err != nil {
			w.t.Fatal(err)
		}
		for _, r := range e.Records {
			if cp, ok := r.(*twophase.Checkpointed); ok {
				all = append(all, cp)
			}
		}
	}
	slices.SortFunc(all, func(a, b *twophase.Checkpointed) int { return cmp.Compare(a.Position, b.Position) })
	return all
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

// Entries that come while a checkpoint is written do not have another one written as soon
// as it is there: that is due at its distance, as ever.
func TestCheckpointsKeepTheirDistance(t *testing.T) {
	t.Parallel()
	held, release := make(chan struct{}), make(chan struct{})
	var first sync.Once
	w := &world{wrapObjects: func(s objstore.Store) objstore.Store {
		return objtest.Faulty{Store: s, Hook: func(_ context.Context, op objtest.Op) objtest.Fate {
			if op.Kind == objtest.PutIfAbsent && strings.Contains(op.Key, "/checkpoints/index-") {
				first.Do(func() { close(held); <-release })
			}
			return objtest.Done()
		}}
	}}
	const every = 32
	w.cfg.Limits.CheckpointEvery = every
	w.open(t)
	w.create("t", twophase.ModeExclusive)
	for i := 0; ; i++ {
		w.commit(fmt.Sprint("before ", i), blind("t", fmt.Sprint("b", i)))
		select {
		case <-held:
		default:
			continue
		}
		break
	}
	w.commit("meanwhile", blind("t", "m"))
	close(release)
	for i := 0; len(w.checkpointRecords()) < 3; i++ {
		w.commit(fmt.Sprint("after ", i), blind("t", fmt.Sprint("a", i)))
	}
	var at []twophase.Position
	for _, cp := range w.checkpointRecords() {
		at = append(at, cp.Position)
	}
	for i := range at[1:] {
		if at[i+1]-at[i] < every {
			t.Errorf("checkpoints at %d", at)
		}
	}
}

// So many entries come while a checkpoint is written that the next is due, and then none: it is
// written without anybody asking once more.
func TestCheckpointIsDueBehindAWrite(t *testing.T) {
	t.Parallel()
	held, release := make(chan struct{}), make(chan struct{})
	var first sync.Once
	w := &world{wrapObjects: func(s objstore.Store) objstore.Store {
		return objtest.Faulty{Store: s, Hook: func(_ context.Context, op objtest.Op) objtest.Fate {
			if op.Kind == objtest.PutIfAbsent && strings.Contains(op.Key, "/checkpoints/index-") {
				first.Do(func() { close(held); <-release })
			}
			return objtest.Done()
		}}
	}}
	w.cfg.Limits.CheckpointEvery = 8
	w.open(t)
	w.create("t", twophase.ModeExclusive)
	for i := 0; w.status().Position < 64; i++ {
		w.commit(fmt.Sprint(i), blind("t", fmt.Sprint(i)))
	}
	<-held
	close(release)
	w.eventually("the next is written", func() bool { return len(w.checkpointRecords()) == 2 })
}

// An entry that was damaged stops a start that needs it, with the remedy, and nothing is
// appended in its place: put back, all goes on. Also the last one.
func TestStartOnADamagedEntry(t *testing.T) {
	t.Parallel()
	w := checkpointed(t, 0)
	w.stop()
	from := w.recorded().at
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
