package objstore_test

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/txcoord/txcoord/tables/objstore"
	"github.com/txcoord/txcoord/tables/objstore/memobj"
)

// bare is a store and nothing beside.
type bare struct{ objstore.Store }

// guarded refuses what it is to guard.
type guarded struct{ bare }

func (guarded) PutBeside(context.Context, string, []byte, objstore.Neighbour) error {
	return objstore.ErrMoved
}

type conditional struct{ bare }

func (conditional) PutIf(context.Context, string, []byte, objstore.Condition) (string, error) {
	return "e", nil
}

// An observed store can do what the store can, and no more.
func TestObservedKeepsWhatAStoreCanDo(t *testing.T) {
	mem, told := bare{memobj.New()}, 0
	observe := func(s objstore.Store) objstore.Store {
		return objstore.Observe(s, func(context.Context, objstore.Request) { told++ })
	}
	ctx := t.Context()
	if _, ok := observe(mem).(objstore.Conditional); ok {
		t.Error("a bare store has become conditional")
	}
	if etag, err := observe(conditional{mem}).(objstore.Conditional).PutIf(ctx, "k", nil, objstore.IfAbsent()); etag != "e" || err != nil || told != 1 {
		t.Errorf("a put on a condition answers %q, %v, and %d requests were told", etag, err, told)
	}
	if err := objstore.PutBeside(ctx, observe(mem), "k", nil, objstore.Neighbour{}); err != nil || told != 2 {
		t.Errorf("a put into a store that does not guard: %v, and %d requests were told", err, told)
	}
	if err := objstore.PutBeside(ctx, observe(guarded{mem}), "l", nil, objstore.Neighbour{}); !errors.Is(err, objstore.ErrMoved) || told != 3 {
		t.Errorf("a guarded put: %v, and %d requests were told", err, told)
	}
}

// Each request is told once, with its kind and its answer; a listing when its reader
// has had enough.
func TestObserveTellsRequests(t *testing.T) {
	type told struct {
		Kind  objstore.RequestKind
		Key   string
		Bytes int
		Err   error
	}
	var got []told
	s := objstore.Observe(memobj.New(), func(_ context.Context, r objstore.Request) {
		got = append(got, told{r.Kind, r.Key, r.Bytes, r.Err})
	})
	ctx := t.Context()
	_ = s.PutIfAbsent(ctx, "a", []byte("one"))
	_ = s.PutIfAbsent(ctx, "a", []byte("one"))
	_ = s.Put(ctx, "b", []byte("two!"))
	b, _, _ := s.Get(ctx, "b", objstore.Range{})
	_, _ = s.Stat(ctx, "none")
	for e, err := range s.List(ctx, objstore.ListOptions{}) {
		if err != nil || e.Key != "a" || len(got) != 5 {
			t.Errorf("lists %v, %v; %d were told before", e, err, len(got))
		}
		break
	}
	_ = s.Delete(ctx, "a")
	if string(b) != "two!" {
		t.Errorf("reads %q", b)
	}
	want := []told{
		{objstore.RequestPutIfAbsent, "a", 3, nil},
		{objstore.RequestPutIfAbsent, "a", 3, objstore.ErrExists},
		{objstore.RequestPut, "b", 4, nil},
		{objstore.RequestGet, "b", 4, nil},
		{objstore.RequestStat, "none", 0, objstore.ErrNotFound},
		{objstore.RequestList, "", 0, nil},
		{objstore.RequestDelete, "a", 0, nil},
	}
	same := cmp.Comparer(func(a, b error) bool { return errors.Is(a, b) || errors.Is(b, a) })
	if diff := cmp.Diff(want, got, same); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
