package lock_test

import (
	"context"
	"errors"
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/txcoord/txcoord/lock"
	"github.com/txcoord/txcoord/lock/memstore"
)

// bare is a store and nothing beside.
type bare struct{ lock.Store }

type watched struct{ lock.Store }

func (watched) Watch(context.Context, string, func(lock.Item)) {}

type watchedBatches struct {
	watched
	lock.Batcher
}

type sized struct{ lock.Store }

func (sized) MaxValue() int                { return 7 }
func (sized) Ahead() (time.Duration, bool) { return time.Second, true }

// An observed store can do what the store can, and no more.
func TestObservedKeepsWhatAStoreCanDo(t *testing.T) {
	mem := memstore.New(memstore.Config{})
	for name, c := range map[string]struct {
		s                lock.Store
		batches, watches bool
	}{
		"bare":    {bare{mem}, false, false},
		"batches": {mem, true, false},
		"watches": {watched{bare{mem}}, false, true},
		"both":    {watchedBatches{watched{bare{mem}}, mem}, true, true},
	} {
		o := lock.Observe(c.s, func(context.Context, lock.Request) {})
		_, batches := o.(lock.Batcher)
		_, watches := o.(lock.Watcher)
		if batches != c.batches || watches != c.watches {
			t.Errorf("%s: batches %v, watches %v", name, batches, watches)
		}
		if n := o.(lock.Sized).MaxValue(); n != math.MaxInt {
			t.Errorf("%s: takes %d bytes", name, n)
		}
		if _, told := o.(lock.Clocked).Ahead(); told {
			t.Errorf("%s: tells the time", name)
		}
	}
	o := lock.Observe(sized{mem}, func(context.Context, lock.Request) {})
	if n := o.(lock.Sized).MaxValue(); n != 7 {
		t.Errorf("takes %d bytes, want 7", n)
	}
	if ahead, told := o.(lock.Clocked).Ahead(); !told || ahead != time.Second {
		t.Errorf("its clock says %s, %v", ahead, told)
	}
}

// Each request is told once, with its kind and its answer, after it was answered.
func TestObserveTellsRequests(t *testing.T) {
	type told struct {
		Kind  lock.RequestKind
		Key   string
		Along int
		Err   error
	}
	var got []told
	s := lock.Observe(memstore.New(memstore.Config{}), func(_ context.Context, r lock.Request) {
		got = append(got, told{r.Kind, r.Key, r.Along, r.Err})
		if r.Took < 0 {
			t.Errorf("%s took %s", r.Kind, r.Took)
		}
	})
	ctx := t.Context()
	_, _ = s.Put(ctx, "a", []byte("1"), lock.IfAbsent())
	_, _ = s.Put(ctx, "a", []byte("2"), lock.IfAbsent())
	_, _ = s.(lock.Batcher).PutBatch(ctx, "b", []byte("1"), lock.IfAbsent(), []lock.Write{{Key: "c"}, {Key: "d"}})
	_, _ = s.Get(ctx, "none")
	items, _ := s.Scan(ctx, "", "", 0)
	_ = s.Delete(ctx, "a")
	if len(items) != 4 {
		t.Errorf("the store holds %v", items)
	}
	want := []told{
		{lock.RequestPut, "a", 0, nil},
		{lock.RequestPut, "a", 0, lock.ErrConflict},
		{lock.RequestBatch, "b", 2, nil},
		{lock.RequestGet, "none", 0, lock.ErrNotFound},
		{lock.RequestScan, "", 0, nil},
		{lock.RequestDelete, "a", 0, nil},
	}
	same := cmp.Comparer(func(a, b error) bool { return errors.Is(a, b) || errors.Is(b, a) })
	if diff := cmp.Diff(want, got, same); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
