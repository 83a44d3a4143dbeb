package objstore_test

import (
	"context"
	"errors"
	"sync"
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
