package objstore_test

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/txcoord/txcoord/tables/objstore"
	"github.com/txcoord/txcoord/tables/objstore/memobj"
)

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
		{objstore.RequestPutIfAbsent, "a", 3, nil}, {objstore.RequestPutIfAbsent, "a", 3, objstore.ErrExists}, {objstore.RequestPut, "b", 4, nil},
		{objstore.RequestGet, "b", 4, nil}, {objstore.RequestStat, "none", 0, objstore.ErrNotFound}, {objstore.RequestList, "", 0, nil}, {objstore.RequestDelete, "a", 0, nil},
	}
	same := cmp.Comparer(func(a, b error) bool { return errors.Is(a, b) || errors.Is(b, a) })
	if diff := cmp.Diff(want, got, same); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
