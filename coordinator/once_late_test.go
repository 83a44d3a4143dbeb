package coordinator_test

import (
	"context"
	"strings"
	"sync"
	"testing"

	"github.com/txcoord/txcoord/lock"
	"github.com/txcoord/txcoord/twophase"
)

// lateStore holds the first batch with a staged part back until it is told to go on.
type lateStore struct {
	lock.Store
	held, release chan struct{}
	once          sync.Once
}

func (s *lateStore) PutBatch(ctx context.Context, key string, value []byte, c lock.Condition, with []lock.Write) (lock.Revision, error) {
	if len(with) > 0 {
		s.once.Do(func() {
			close(s.held)
			<-s.release
		})
	}
	return s.Store.(lock.Batcher).PutBatch(ctx, key, value, c, with)
}

// The same call is under way at two servers. One of them decides, publishes and sweeps
// while it waits in the other's queue, which folds all that and then appends others'
// transactions: the part does not come back with them. Nor does anything stay of the entry
// that lost its position to that, whose bundle was written all the same.
func TestPartThatComesAfterTheSweep(t *testing.T) {
	one := (&world{}).open(t)
	one.create("t", twophase.ModeExclusive)
	late := &lateStore{held: make(chan struct{}), release: make(chan struct{})}
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
