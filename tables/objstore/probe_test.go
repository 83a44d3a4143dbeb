package objstore_test

import (
	"context"
	"errors"
	"iter"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/txcoord/txcoord/tables/objstore"
	"github.com/txcoord/txcoord/tables/objstore/memobj"
)

func TestProbePassesAndLeavesNothing(t *testing.T) {
	s := memobj.New()
	for _, prefix := range []string{"", "a", "a/"} {
		if err := objstore.Probe(t.Context(), s, prefix); err != nil {
			t.Errorf("%q: %v", prefix, err)
		}
	}
	for e := range s.List(t.Context(), objstore.ListOptions{}) {
		t.Errorf("%s is left", e.Key)
	}
}

// overwrites is a store that accepts conditions and does not look at them.
type overwrites struct{ objstore.Store }

func (s overwrites) PutIfAbsent(ctx context.Context, key string, data []byte) error {
	return s.Put(ctx, key, data)
}

// confuses lets one writer win and another's bytes stand.
type confuses struct {
	objstore.Store
	mu    *sync.Mutex
	first map[string]bool
}

func (s confuses) PutIfAbsent(ctx context.Context, key string, data []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	err := s.Put(ctx, key, append(data, " of somebody else"...))
	if err == nil && s.first[key] {
		return objstore.ErrExists
	}
	s.first[key] = true
	return err
}

// replaces whatever is there.
type replaces struct{ objstore.Conditional }

func (s replaces) PutIf(ctx context.Context, key string, data []byte, _ objstore.Condition) (string, error) {
	return s.Conditional.PutIf(ctx, key, data, objstore.Always())
}

func TestProbeFindsStoresThatIgnoreConditions(t *testing.T) {
	for what, s := range map[string]objstore.Store{
		"overwrites": overwrites{memobj.New()},
		"confuses":   confuses{memobj.New(), &sync.Mutex{}, map[string]bool{}},
		"replaces":   replaces{memobj.New()},
	} {
		if err := objstore.Probe(t.Context(), s, "p"); !errors.Is(err, objstore.ErrUnconditional) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// lags is a store that shows what was written or removed only later: in listings, or to
// readers.
type lags struct {
	objstore.Store
	list, get bool
	mu        *sync.Mutex
	was       map[string][]byte // what readers still see; nil for nothing
}

func (s lags) remember(ctx context.Context, key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if data, _, err := s.Store.Get(ctx, key, objstore.Range{}); err == nil {
		s.was[key] = data
	}
}

func (s lags) Delete(ctx context.Context, key string) error {
	s.remember(ctx, key)
	return s.Store.Delete(ctx, key)
}

func (s lags) Get(ctx context.Context, key string, r objstore.Range) ([]byte, objstore.Info, error) {
	if data := s.was[key]; s.get && data != nil {
		return data, objstore.Info{Key: key}, nil
	}
	return s.Store.Get(ctx, key, r)
}

func (s lags) List(ctx context.Context, o objstore.ListOptions) iter.Seq2[objstore.Entry, error] {
	if !s.list {
		return s.Store.List(ctx, o)
	}
	return func(yield func(objstore.Entry, error) bool) {
		for key := range s.was {
			yield(objstore.Entry{Info: objstore.Info{Key: key}}, nil)
		}
	}
}

// late shows a new object to readers only at the second look.
type late struct {
	objstore.Store
	looks *atomic.Int32
}

func (s late) Get(ctx context.Context, key string, r objstore.Range) ([]byte, objstore.Info, error) {
	if s.looks.Add(1) == 1 {
		return nil, objstore.Info{}, objstore.ErrNotFound
	}
	return s.Store.Get(ctx, key, r)
}

func TestProbeFindsStoresThatLag(t *testing.T) {
	for what, s := range map[string]objstore.Store{
		"listings lag":               lags{memobj.New(), true, false, &sync.Mutex{}, map[string][]byte{}},
		"removed objects are read":   lags{memobj.New(), false, true, &sync.Mutex{}, map[string][]byte{}},
		"written ones are not there": late{memobj.New(), &atomic.Int32{}},
	} {
		if err := objstore.Probe(t.Context(), s, "p"); !errors.Is(err, objstore.ErrInconsistent) {
			t.Errorf("%s: %v", what, err)
		}
	}
}
