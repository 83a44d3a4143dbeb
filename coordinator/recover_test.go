package coordinator_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/txcoord/txcoord/coordinator"
	"github.com/txcoord/txcoord/twophase"
)

// Closed at any moment under load, and opened again: each transaction is in all its
// tables or in none, and the same call gets the same answer.
func TestClosedUnderLoad(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, name := range []string{"a", "b", "c"} {
		w.create(name, twophase.ModeOpen)
	}
	seed := rand.Uint64()
	rnd := rand.New(rand.NewPCG(seed, 0))
	defer func() {
		if t.Failed() {
			t.Logf("seed %d", seed)
		}
	}()
	requests := map[string]coordinator.OnceRequest{}
	n := 0
	for range 8 {
		c := w.catalog
		var wg sync.WaitGroup
		for range 6 {
			var mine []coordinator.OnceRequest
			for range 30 {
				name := fmt.Sprint("txn ", n)
				n++
				r := once(name, blind([]string{"a", "b", "c"}[n%3], name), blind([]string{"a", "b", "c"}[(n+1)%3], name))
				requests[name] = r
				mine = append(mine, r)
			}
			wg.Go(func() {
				for _, r := range mine {
					if _, _, err := c.CommitOnce(context.Background(), r); err != nil {
						return // the catalog is closing
					}
				}
			})
		}
		time.Sleep(time.Duration(rnd.IntN(60)) * time.Millisecond)
		w.close()
		wg.Wait()
		w.openStore()
		w.start()
	}
	var run closedRun
	var mu sync.Mutex
	var wg sync.WaitGroup
	for _, r := range requests {
		wg.Go(func() {
			o, _, err := w.catalog.CommitOnce(context.Background(), r)
			if err != nil {
				t.Errorf("%s: %v", r.Key, err)
				return
			}
			mu.Lock()
			run.committed = append(run.committed, o)
			mu.Unlock()
		})
	}
	wg.Wait()
	w.check(run)
}

// The journal is a small ring: it goes round many times, checkpoints keep up, and
// whoever starts finds everything.
func TestTinyRings(t *testing.T) {
	t.Parallel()
	for _, slots := range []int{16, 64} {
		t.Run(fmt.Sprint(slots), func(t *testing.T) {
			t.Parallel()
			w := &world{}
			w.cfg.Slots = slots
			w.open(t)
			w.create("a", twophase.ModeExclusive)
			w.create("b", twophase.ModeOpen)
			if err := second(w.catalog.Tag(w.ctx(), "start", 2)); err != nil {
				t.Fatal(err)
			}
			var run closedRun
			open := w.begin("open")
			staged := w.stage(open.Token, blind("a", "late"))
			for i := range 12 * slots {
				name := fmt.Sprint(i)
				run.committed = append(run.committed, w.commit(name, blind("a", name), blind("b", name)))
				if i%(4*slots) == 3 {
					w.foreign("b", w.versions("b"), add("x"+name))
					before, shown := w.status(), w.snapshot(0)
					w.restart()
					after := w.status()
					if before.Position > after.Position || before.Shown > after.Shown || !cmp.Equal(shown, w.snapshot(before.Shown)) {
						t.Fatalf("position %d, snapshot %d became %d, %d", before.Position, before.Shown, after.Position, after.Shown)
					}
				}
			}
			st := w.status()
			if st.Position < twophase.Position(20*slots) || st.Position-st.Checkpoint >= twophase.Position(slots) {
				t.Errorf("position %d, newest checkpoint at %d", st.Position, st.Checkpoint)
			}
			ring := 0
			for key := range w.keys() {
				if strings.HasPrefix(key, "store: ring/") {
					ring++
				}
			}
			if ring != slots {
				t.Errorf("the ring has %d slots of %d", ring, slots)
			}
			// What was begun many laps ago still commits, and what was answered stays.
			if _, err := w.catalog.Commit(w.ctx(), coordinator.CommitRequest{Token: open.Token, Tables: []coordinator.TableParts{parts("a", staged.Digest)}}); err != nil {
				t.Error(err)
			}
			first := w.commit("0", blind("a", "0"), blind("b", "0"))
			if first.Txn != run.committed[0].Txn || first.Committed.Snapshot != run.committed[0].Committed.Snapshot {
				t.Errorf("the first one again: %+v", first)
			}
			if slots == 16 { // thousands of files for the larger one
				w.check(run)
			}
		})
	}
}

// What a dead process had published and not swept is swept by the next one (R20).
func TestSweepAfterRestart(t *testing.T) {
	t.Parallel()
	for _, inline := range []int{1, 1 << 20} {
		w := &world{}
		w.cfg.Limits.InlineBytes = inline
		w.open(t)
		w.create("t", twophase.ModeExclusive)
		open := w.begin("open")
		w.stage(open.Token, blind("t", "open"))
		w.commit("k", blind("t", "1"))
		w.restart()
		w.eventually("only the open one's payload is left", func() bool { return w.payloads() == 1 })
		w.restart()
		time.Sleep(20 * time.Millisecond)
		if n := w.payloads(); n != 1 {
			t.Errorf("%d payloads", n)
		}
	}
}

// Few entries of many records are as much to fold at a start as many of few.
func TestCheckpointIsDueByRecords(t *testing.T) {
	t.Parallel()
	w := &world{}
	w.cfg.Limits.CheckpointRecords = 20
	w.open(t)
	w.create("a", twophase.ModeExclusive)
	for i := range 15 { // one record decides, and one publishes
		w.commit(fmt.Sprint("k", i), blind("a", fmt.Sprint(i)))
	}
	w.eventually("there is a checkpoint", func() bool { return w.status().Checkpoint > 0 })
	w.restart()
	if o := w.commit("k3", blind("a", "3")); o.Committed == nil {
		t.Errorf("%+v", o)
	}
}

// A checkpoint that writes much, as long histories of tables are written anew with each, is
// made for more records.
func TestHeavyCheckpointsAreFewer(t *testing.T) {
	t.Parallel()
	w := &world{}
	w.cfg.Limits.CheckpointRecords = 20
	w.open(t)
	w.create("a", twophase.ModeExclusive)
	for i := range 100 {
		var files [][]byte
		for f := range 1000 {
			files = append(files, add(fmt.Sprintf("%d-%d", i, f)))
		}
		w.commit(fmt.Sprint("k", i), change("a", blindRead, files...))
	}
	w.settle()
	if n := len(w.checkpointRecords()); n < 2 || n > 5 {
		t.Errorf("%d checkpoints of 200 records", n)
	}
}
