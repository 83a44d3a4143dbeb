package objtest_test

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/txcoord/txcoord/tables/objstore"
	"github.com/txcoord/txcoord/tables/objstore/memobj"
	"github.com/txcoord/txcoord/tables/objstore/objtest"
)

func TestFaultyDecides(t *testing.T) {
	for _, c := range []struct {
		what         string
		fate         objtest.Fate
		err, landed  bool
		wantsUnknown bool
	}{
		{what: "done", fate: objtest.Done(), landed: true},
		{what: "refused", fate: objtest.Refused(), err: true},
		{what: "lost", fate: objtest.Lost(), err: true, wantsUnknown: true},
		{what: "landed", fate: objtest.Landed(), err: true, landed: true, wantsUnknown: true},
	} {
		under := memobj.New()
		s := objtest.Faulty{Store: under, Hook: func(context.Context, objtest.Op) objtest.Fate { return c.fate }}
		for key, put := range map[string]func(context.Context, string, []byte) error{"absent": s.PutIfAbsent, "put": s.Put} {
			err := put(t.Context(), key, []byte("x"))
			if errors.Is(err, objtest.ErrInjected) != c.err || errors.Is(err, objstore.ErrUnknown) != c.wantsUnknown {
				t.Errorf("%s: %s answers %v", c.what, key, err)
			}
			if got := holds(t.Context(), under, key); got != c.landed {
				t.Errorf("%s: %s landed: %v", c.what, key, got)
			}
		}
	}
}

// The hook sees every operation, and its error reaches the caller of every one.
func TestFaultySeesEverything(t *testing.T) {
	var seen []objtest.Kind
	s := objtest.Faulty{Store: memobj.New(), Hook: func(_ context.Context, op objtest.Op) objtest.Fate {
		seen = append(seen, op.Kind)
		return objtest.Refused()
	}}
	ctx := t.Context()
	_, _, getErr := s.Get(ctx, "k", objstore.Range{})
	_, statErr := s.Stat(ctx, "k")
	errs := []error{getErr, statErr, s.PutIfAbsent(ctx, "k", nil), s.Put(ctx, "k", nil), s.Delete(ctx, "k")}
	for _, err := range s.List(ctx, objstore.ListOptions{}) {
		errs = append(errs, err)
	}
	for i, err := range errs {
		if !errors.Is(err, objtest.ErrInjected) {
			t.Errorf("%s: %v", seen[i], err)
		}
	}
	want := []objtest.Kind{objtest.Get, objtest.Stat, objtest.PutIfAbsent, objtest.Put, objtest.Delete, objtest.List}
	if diff := cmp.Diff(want, seen); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// The wrappers are transparent.
func TestWrappersConform(t *testing.T) {
	c := config(func(s objstore.Store) objstore.Store {
		return objtest.NewCounting(objtest.Faulty{Store: s, Hook: func(context.Context, objtest.Op) objtest.Fate {
			return objtest.Done()
		}}, nil)
	})
	c.Without = map[objtest.Capability]string{objtest.Replacing: "the wrappers are for what every store has"}
	objtest.Run(t, c)
}

func TestCountingCountsByClass(t *testing.T) {
	s := objtest.NewCounting(memobj.New(), nil)
	ctx := t.Context()
	keys := []string{
		"t/_delta_log/00000000000000000001.json", "t/_delta_log/00000000000000000001.checkpoint.parquet",
		"t/_delta_log/_txcoord/owner.json", "t/part=1/f.parquet", "w/_txcoord/default/manifests/00000000000000000001.json",
		"w/_txcoord/default/staged/1/id/t/digest", "_txcoord/default/facts/hash", "_delta_log/00000000000000000002.json",
	}
	for _, key := range keys {
		_ = s.PutIfAbsent(ctx, key, nil)
		_ = s.PutIfAbsent(ctx, key, nil)
		_, _ = s.Stat(ctx, key)
	}
	for range s.List(ctx, objstore.ListOptions{Prefix: "t/_delta_log/"}) {
		break
	}
	want := map[objtest.Call]int{
		{Kind: objtest.PutIfAbsent, Class: "commit"}: 4, {Kind: objtest.Stat, Class: "commit"}: 2,
		{Kind: objtest.PutIfAbsent, Class: "log"}: 2, {Kind: objtest.Stat, Class: "log"}: 1, {Kind: objtest.List, Class: "log"}: 1,
		{Kind: objtest.PutIfAbsent, Class: "owner"}: 2, {Kind: objtest.Stat, Class: "owner"}: 1,
		{Kind: objtest.PutIfAbsent, Class: "data"}: 2, {Kind: objtest.Stat, Class: "data"}: 1,
		{Kind: objtest.PutIfAbsent, Class: "manifests"}: 2, {Kind: objtest.Stat, Class: "manifests"}: 1,
		{Kind: objtest.PutIfAbsent, Class: "staged"}: 2, {Kind: objtest.Stat, Class: "staged"}: 1,
		{Kind: objtest.PutIfAbsent, Class: "facts"}: 2, {Kind: objtest.Stat, Class: "facts"}: 1,
	}
	if diff := cmp.Diff(want, s.Counts()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	s.Reset()
	if n := len(s.Counts()); n != 0 {
		t.Errorf("%d counts after a reset", n)
	}
}
