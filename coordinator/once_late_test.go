package coordinator_test

import (
	"context"
	"strings"
	"testing"

	"github.com/txcoord/txcoord/lock"
	"github.com/txcoord/txcoord/twophase"
)

// lateStore holds the first batch with a staged part back until it is told to go on.
type lateStore struct {
	lock.Store
	held, release chan struct{}
}

func (s *lateStore) PutBatch(ctx context.Context, key string, value []byte, c lock.Condition, with []lock.Write) (lock.Revision, error) {
	for _, w := range with {
		if strings.HasPrefix(w.Key, "pay/") && s.held != nil {
			close(s.held)
			s.held = nil
			<-s.release
		}
	}
	return s.Store.(lock.Batcher).PutBatch(ctx, key, value, c, with)
}

// The same call is under way at two servers. One of them decides, publishes and sweeps
// before the other's write with the same part arrives: that part is removed, too.
func TestPartThatComesAfterTheSweep(t *testing.T) {
	one := (&world{}).open(t)
	one.create("t", twophase.ModeExclusive)
	late := &lateStore{held: make(chan struct{}), release: make(chan struct{})}
	held := late.held
	two := &world{objects: one.objects, shared: one.store, wrapStore: func(s lock.Store) lock.Store {
		late.Store = s
		return late
	}}
	two.open(t)
	r := once("k", blind("t", "k"))
	behind := make(chan error, 1)
	go func() {
		_, _, err := two.catalog.CommitOnce(two.ctx(), r)
		behind <- err
	}()
	<-held
	if _, _, err := one.catalog.CommitOnce(one.ctx(), r); err != nil {
		t.Fatal(err)
	}
	one.settle() // swept
	close(late.release)
	if err := <-behind; err != nil {
		t.Fatal(err)
	}
	one.eventually("nothing staged is left", func() bool { return !one.stores("store: pay/") })
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
