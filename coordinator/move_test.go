package coordinator_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/txcoord/txcoord/coordinator"
	"github.com/txcoord/txcoord/lock"
	"github.com/txcoord/txcoord/lock/memstore"
	"github.com/txcoord/txcoord/tables/checkpoint"
	"github.com/txcoord/txcoord/twophase"
)

// A catalog moves while two replicas commit: what was answered as committed is in the
// new place, what was refused as moved is not, and nothing more is decided in the old.
func TestMove(t *testing.T) {
	t.Parallel()
	one := (&world{}).open(t)
	two := &world{objects: one.objects, shared: one.store}
	two.open(t)
	one.create("a", twophase.ModeOpen)
	one.create("b", twophase.ModeExclusive)
	open := one.begin("open")
	staged := one.stage(open.Token, blind("a", "late"))
	if err := two.catalog.AtLeast(two.ctx(), one.catalog.Shown()); err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	var run closedRun
	var gone []string
	var all sync.WaitGroup
	begun := make(chan struct{}, 100)
	for p, w := range []*world{one, two} {
		all.Go(func() {
			for i := 0; ; i++ {
				key := fmt.Sprintf("%d-%d", p, i)
				o, _, err := w.catalog.CommitOnce(w.ctx(), once(key, blind("a", key), blind("b", key)))
				var e *coordinator.Error
				mu.Lock()
				switch {
				case err == nil && o.Committed.Snapshot == 0:
					gone = append(gone, key) // decided, and to be published at the new place
				case err == nil:
					run.committed = append(run.committed, o)
				case errors.As(err, &e) && e.Reason == coordinator.StoreUnavailable && strings.Contains(e.Message, "moved to elsewhere"):
					gone = append(gone, key)
					mu.Unlock()
					return
				default:
					t.Errorf("%s: %v", key, err)
					mu.Unlock()
					return
				}
				mu.Unlock()
				begun <- struct{}{}
			}
		})
	}
	for range 20 {
		<-begun
	}
	go func() {
		for range begun {
		}
	}()
	if err := one.catalog.Leave(one.ctx(), "elsewhere"); err != nil {
		t.Fatal(err)
	}
	if err := one.catalog.Leave(one.ctx(), "elsewhere"); err == nil {
		t.Error("a catalog leaves twice")
	}
	all.Wait()
	close(begun)
	one.stop()
	two.stop()
	target := memstore.New(memstore.Config{})
	if _, err := lock.Copy(one.ctx(), one.store, target, coordinator.StaysBehind); err != nil {
		t.Fatal(err)
	}
	three := &world{objects: one.objects, shared: target}
	three.open(t)
	if three.catalog.MovedTo() != "elsewhere" {
		t.Fatal("the copy does not know that it was moved")
	}
	if _, _, err := three.catalog.CommitOnce(three.ctx(), once("early", blind("a", "early"))); err == nil {
		t.Error("something is decided before the catalog has arrived")
	}
	if err := three.catalog.Arrive(three.ctx(), "here"); err != nil {
		t.Fatal(err)
	}
	for _, key := range gone { // the same calls, at the new place
		o, _, err := three.catalog.CommitOnce(three.ctx(), once(key, blind("a", key), blind("b", key)))
		if err != nil {
			t.Fatalf("%s: %v", key, err)
		}
		run.committed = append(run.committed, o)
	}
	o, err := three.catalog.Commit(three.ctx(), coordinator.CommitRequest{Token: open.Token, Tables: []coordinator.TableParts{parts("a", staged.Digest)}})
	if err != nil {
		t.Fatalf("what was staged in the old place: %v", err)
	}
	run.committed = append(run.committed, o)
	three.check(run)
	cfg := coordinator.Config{Store: one.store, Objects: bare{one}, Warehouse: "file://" + one.dir, ReadCheckpoint: checkpoint.Read}
	if _, err := coordinator.Fsck(one.ctx(), cfg, ""); !errors.Is(err, lock.ErrUnfit) || !strings.Contains(err.Error(), "elsewhere") {
		t.Errorf("fsck of the old place: %v", err)
	}
}

// A server of a store that the catalog has left has nothing to wait for: what it has under
// way cannot be recorded there, and it does not go on trying.
func TestStopAfterAMove(t *testing.T) {
	t.Parallel()
	gate := newGate()
	w := &world{wrapObjects: gate.over}
	w.open(t)
	w.create("t", twophase.ModeExclusive)
	gate.hold("t/_delta_log/00000000000000000001.json")
	t.Cleanup(gate.release)
	committed := w.background("a", blind("t", "a"))
	w.eventually("its round is open", func() bool { return w.catalog.RoundsAtWork() == 1 })
	if err := w.catalog.Leave(w.ctx(), "elsewhere"); err != nil {
		t.Fatal(err)
	}
	if err := <-committed; err != nil {
		t.Errorf("the call that waits is answered: %v", err)
	}
	if err := w.catalog.Drain(w.ctx()); err != nil {
		t.Errorf("drained: %v", err)
	}
	gate.release()
	w.eventually("nobody works on the round", func() bool { return w.catalog.RoundsAtWork() == 0 })
	if n := w.catalog.Publishing(); n != 0 {
		t.Errorf("%d rounds are to be worked on", n)
	}
	if n := w.info("t").Pending; n != 1 {
		t.Errorf("%d transactions wait, want the one", n)
	}
}
