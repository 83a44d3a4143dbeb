package locktest_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/txcoord/txcoord/lock"
	"github.com/txcoord/txcoord/lock/locktest"
	"github.com/txcoord/txcoord/lock/memstore"
)

func fated(under lock.Store, fate locktest.Fate) *locktest.Faulty {
	return locktest.NewFaulty(under, func(context.Context, locktest.Op) locktest.Fate { return fate })
}

func value(t *testing.T, s lock.Store, key string) string {
	t.Helper()
	item, err := s.Get(t.Context(), key)
	if err != nil && !errors.Is(err, lock.ErrNotFound) {
		t.Fatal(err)
	}
	return string(item.Value)
}

func TestFates(t *testing.T) {
	for _, c := range []struct {
		what            string
		fate            locktest.Fate
		err, unknown    bool
		landed, landing bool
	}{
		{what: "done", fate: locktest.Done, landed: true},
		{what: "refused", fate: locktest.Refused, err: true},
		{what: "lost", fate: locktest.Lost, err: true, unknown: true},
		{what: "landed", fate: locktest.Landed, err: true, unknown: true, landed: true},
		{what: "later", fate: locktest.Later, err: true, unknown: true, landing: true},
	} {
		under := memstore.New(memstore.Config{})
		s := fated(under, c.fate)
		rev, err := s.Put(t.Context(), "k", []byte("v"), lock.IfAbsent())
		if errors.Is(err, locktest.ErrInjected) != c.err || errors.Is(err, lock.ErrUnknown) != c.unknown || (rev != "") == c.err {
			t.Errorf("%s: got %q, %v", c.what, rev, err)
		}
		if landed := value(t, under, "k") == "v"; landed != c.landed {
			t.Errorf("%s: landed: %v", c.what, landed)
		}
		if landing := s.Land(0); landing != c.landing || landing && value(t, under, "k") != "v" {
			t.Errorf("%s: landed later: %v", c.what, landing)
		}
	}
}

// A write that lands later meets the condition as it is then, after the death of
// its caller's context, in any order.
func TestLaterLandsUnderItsCondition(t *testing.T) {
	under := memstore.New(memstore.Config{})
	s := fated(under, locktest.Later)
	ctx, cancel := context.WithCancel(t.Context())
	for _, v := range []string{"first", "second"} {
		if _, err := s.Put(ctx, "k", []byte(v), lock.IfAbsent()); !errors.Is(err, lock.ErrUnknown) {
			t.Fatal(err)
		}
	}
	if err := s.Delete(ctx, "k"); !errors.Is(err, lock.ErrUnknown) {
		t.Fatal(err)
	}
	cancel()
	if s.Held() != 3 {
		t.Fatalf("%d are held, want 3", s.Held())
	}
	for _, step := range []struct {
		land int
		want string
	}{{1, "second"}, {0, "second"}, {0, ""}} {
		if !s.Land(step.land) || value(t, under, "k") != step.want {
			t.Errorf("after %+v: %q", step, value(t, under, "k"))
		}
	}
	if s.Land(0) || s.Land(-1) {
		t.Error("something is left")
	}
}

// A batch has one fate.
func TestFatesOfBatches(t *testing.T) {
	for fate, landed := range map[locktest.Fate]bool{
		locktest.Done: true, locktest.Refused: false, locktest.Lost: false, locktest.Landed: true, locktest.Later: false,
	} {
		under := memstore.New(memstore.Config{})
		s := fated(under, fate)
		_, err := s.Batching().(lock.Batcher).PutBatch(t.Context(), "k", []byte("v"), lock.IfAbsent(), []lock.Write{{Key: "w", Value: []byte("v")}})
		if (err == nil) != (fate == locktest.Done) || errors.Is(err, lock.ErrUnknown) != (fate >= locktest.Lost) {
			t.Errorf("fate %d: %v", fate, err)
		}
		for _, key := range []string{"k", "w"} {
			if got := value(t, under, key) == "v"; got != landed {
				t.Errorf("fate %d: %s landed: %v", fate, key, got)
			}
		}
		if s.Land(0) != (fate == locktest.Later) || fate == locktest.Later && value(t, under, "k")+value(t, under, "w") != "vv" {
			t.Errorf("fate %d: landing later", fate)
		}
	}
}

func TestFaultySeesEverything(t *testing.T) {
	var seen []locktest.Kind
	s := locktest.NewFaulty(memstore.New(memstore.Config{}), func(_ context.Context, op locktest.Op) locktest.Fate {
		seen = append(seen, op.Kind)
		return locktest.Refused
	})
	ctx := t.Context()
	_, putErr := s.Put(ctx, "k", nil, lock.Always())
	_, getErr := s.Get(ctx, "k")
	_, scanErr := s.Scan(ctx, "", "", 0)
	for _, err := range []error{putErr, getErr, scanErr, s.Delete(ctx, "k")} {
		if !errors.Is(err, locktest.ErrInjected) || errors.Is(err, lock.ErrUnknown) {
			t.Errorf("got %v", err)
		}
	}
	if want := []locktest.Kind{locktest.Put, locktest.Get, locktest.Scan, locktest.Delete}; !slices.Equal(seen, want) {
		t.Errorf("seen %v", seen)
	}
}

// The wrappers are transparent.
func TestWrappersConform(t *testing.T) {
	locktest.Run(t, config(func(s lock.Store) lock.Store {
		return locktest.NewCounting(fated(s, locktest.Done).Batching(), nil).Batching()
	}))
}

// However the writes of a good store end, its histories can be explained. Few
// faults, because each write of which nothing is known doubles the search.
func TestHistoriesWithFaultsAreLinearizable(t *testing.T) {
	fates := []locktest.Fate{locktest.Refused, locktest.Lost, locktest.Landed, locktest.Later}
	c := config(func(s lock.Store) lock.Store {
		var f *locktest.Faulty
		f = locktest.NewFaulty(s, func(context.Context, locktest.Op) locktest.Fate {
			f.Land(rand.IntN(5))
			if rand.IntN(10) > 0 {
				return locktest.Done
			}
			return fates[rand.IntN(len(fates))]
		})
		return f
	})
	i := slices.IndexFunc(locktest.Cases(), func(kase locktest.Case) bool { return kase.Name == "HistoriesAreLinearizable" })
	for range 5 {
		for _, failure := range try(t, locktest.Cases()[i], c) {
			t.Error(failure)
		}
	}
}

func TestCountingCountsByClass(t *testing.T) {
	s := locktest.NewCounting(memstore.New(memstore.Config{}), nil)
	ctx := t.Context()
	for _, key := range []string{"meta", "ring/1/0", "ring/1/1", "pay/07/1/id/t/d"} {
		_, _ = s.Put(ctx, key, nil, lock.IfAbsent())
		_, _ = s.Put(ctx, key, nil, lock.IfAbsent())
		_, _ = s.Get(ctx, key)
	}
	with := []lock.Write{{Key: "pay/01/1/a/t/d"}, {Key: "pay/02/1/b/t/d"}}
	_, _ = s.Batching().(lock.Batcher).PutBatch(ctx, "ring/1/2", nil, lock.IfAbsent(), with)
	_, _ = s.Scan(ctx, "pay/07/", "", 0)
	_ = s.Delete(ctx, "pay/07/1/id/t/d")
	want := map[locktest.Call]int{
		{Kind: locktest.Put, Class: "meta"}: 2, {Kind: locktest.Get, Class: "meta"}: 1,
		{Kind: locktest.Put, Class: "ring"}: 4, {Kind: locktest.Get, Class: "ring"}: 2,
		{Kind: locktest.Put, Class: "pay"}: 2, {Kind: locktest.Get, Class: "pay"}: 1,
		{Kind: locktest.PutBatch, Class: "ring"}: 1, {Kind: locktest.Batched, Class: "pay"}: 2,
		{Kind: locktest.Scan, Class: "pay"}: 1, {Kind: locktest.Delete, Class: "pay"}: 1,
	}
	if diff := cmp.Diff(want, s.Counts()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	s.Reset()
	if n := len(s.Counts()); n != 0 {
		t.Errorf("%d counts after a reset", n)
	}
}
