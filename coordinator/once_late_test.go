package coordinator_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/txcoord/txcoord/lock"
	"github.com/txcoord/txcoord/twophase"
)

// lateStore holds the first batch with a staged part back until it is told to go on,
// and the one that then wins a position until something staged was removed.
type lateStore struct {
	lock.Store
	held, release, removed chan struct{}
	batches                int
	once                   sync.Once
}

func (s *lateStore) PutBatch(ctx context.Context, key string, value []byte, c lock.Condition, with []lock.Write) (lock.Revision, error) {
	if len(with) > 0 {
		_, lost := s.Store.Get(ctx, key) // nothing stands there yet: it will win
		switch s.batches++; {
		case s.batches == 1:
			close(s.held)
			<-s.release
		case errors.Is(lost, lock.ErrNotFound):
			select {
			case <-s.removed:
			case <-time.After(20 * time.Second): // or the test would hang instead of failing
			}
		}
	}
	return s.Store.(lock.Batcher).PutBatch(ctx, key, value, c, with)
}

func (s *lateStore) Delete(ctx context.Context, key string) error {
	err := s.Store.Delete(ctx, key)
	if strings.HasPrefix(key, "pay/") {
		s.once.Do(func() { close(s.removed) })
	}
	return err
}

// The same call is under way at two servers. One of them decides, publishes and sweeps
// while it waits in the other's queue, which folds all that and then appends others'
// transactions: the part does not come back with them.
func TestPartThatComesAfterTheSweep(t *testing.T) {
	one := (&world{}).open(t)
	one.create("t", twophase.ModeExclusive)
	late := &lateStore{held: make(chan struct{}), release: make(chan struct{}), removed: make(chan struct{})}
	two := &world{objects: one.objects, shared: one.store, wrapStore: func(s lock.Store) lock.Store {
		late.Store = s
		return late
	}}
	two.open(t)
	done := make(chan error, 3)
	call := func(key string) {
		_, _, err := two.catalog.CommitOnce(two.ctx(), once(key, blind("t", key)))
		done <- err
	}
	go call("first")
	<-late.held
	go call("same")
	go call("other")
	two.eventually("both wait behind the first", func() bool { return two.catalog.Queued() == 2 })
	one.commit("same", blind("t", "same"))
	one.settle() // swept
	close(late.release)
	for range 3 {
		if err := <-done; err != nil {
			t.Fatal(err)
		}
	}
	two.eventually("nothing staged is left", func() bool { return !two.stores("store: pay/") })
}

func (w *world) stores(prefix string) bool {
	w.t.Helper()
	for key := range w.keys() {
		if strings.HasPrefix(key, prefix) {
			return true
		}
	}
	return false
}
