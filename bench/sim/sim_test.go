package sim_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/txcoord/txcoord/bench/sim"
	"github.com/txcoord/txcoord/lock"
	"github.com/txcoord/txcoord/lock/locktest"
	"github.com/txcoord/txcoord/lock/memstore"
	"github.com/txcoord/txcoord/tables/objstore"
	"github.com/txcoord/txcoord/tables/objstore/memobj"
	"github.com/txcoord/txcoord/tables/objstore/objtest"
)

// quick keeps the suites short.
var quick = sim.Profile{Put: sim.Latency{P50: 10 * time.Microsecond, P99: 50 * time.Microsecond}, Key: sim.Latency{P50: 10 * time.Microsecond}}

func TestLatencyIsLogNormal(t *testing.T) {
	l := sim.S3().Put
	var all []time.Duration
	for range 20_000 {
		all = append(all, l.Draw())
	}
	slices.Sort(all)
	p50, p99 := all[len(all)/2], all[len(all)*99/100]
	if p50 < 55*time.Millisecond || p50 > 65*time.Millisecond || p99 < 180*time.Millisecond || p99 > 225*time.Millisecond {
		t.Errorf("p50 %v, p99 %v", p50, p99)
	}
	if (sim.Latency{}).Draw() != 0 {
		t.Error("no time takes time")
	}
}

func TestSlowStoresConform(t *testing.T) {
	t.Run("objects", func(t *testing.T) {
		objtest.Run(t, objtest.Config{
			New:     func(objtest.T) objstore.Store { return sim.NewObjects(memobj.New(), quick) },
			Reopen:  func(_ objtest.T, s objstore.Store) objstore.Store { return s },
			Without: map[objtest.Capability]string{objtest.Replacing: "the benchmarks need it not"},
		})
	})
	t.Run("hedged objects", func(t *testing.T) {
		objtest.Run(t, objtest.Config{
			New: func(objtest.T) objstore.Store {
				s := sim.NewObjects(memobj.New(), quick)
				s.Hedge(time.Microsecond, func(string) {})
				return s
			},
			Reopen:  func(_ objtest.T, s objstore.Store) objstore.Store { return s },
			Without: map[objtest.Capability]string{objtest.Replacing: "the benchmarks need it not"},
		})
	})
	t.Run("keys", func(t *testing.T) {
		locktest.Run(t, locktest.Config{
			New:      func(locktest.T) lock.Store { return sim.Keys(memstore.New(memstore.Config{MaxValue: 1000}), quick.Key) },
			MaxValue: 1000,
			Without: map[locktest.Capability]string{
				locktest.Reopening: "memory", locktest.LosingReplies: "memory", locktest.Batching: "as DynamoDB has none",
			},
		})
	})
	t.Run("keys along", func(t *testing.T) {
		locktest.Run(t, locktest.Config{
			New: func(locktest.T) lock.Store {
				return sim.KeysAlong(memstore.New(memstore.Config{MaxValue: 1000}), quick.Key)
			},
			MaxValue: 1000,
			Without:  map[locktest.Capability]string{locktest.Reopening: "memory", locktest.LosingReplies: "memory"},
		})
	})
}

func TestOutage(t *testing.T) {
	s := sim.NewObjects(memobj.New(), quick)
	ctx := t.Context()
	s.Out(true)
	_, _, getErr := s.Get(ctx, "k", objstore.Range{})
	_, statErr := s.Stat(ctx, "k")
	putErr := s.PutIfAbsent(ctx, "k", nil)
	for _, err := range []error{getErr, statErr, putErr, s.Put(ctx, "k", nil), s.Delete(ctx, "k")} {
		if !errors.Is(err, sim.ErrUnavailable) {
			t.Errorf("got %v", err)
		}
	}
	for _, err := range s.List(ctx, objstore.ListOptions{}) {
		if !errors.Is(err, sim.ErrUnavailable) {
			t.Errorf("list: %v", err)
		}
	}
	if !errors.Is(putErr, objstore.ErrUnknown) {
		t.Errorf("a put is %v, and nobody can know", putErr)
	}
	s.Out(false)
	if err := s.PutIfAbsent(ctx, "k", nil); err != nil {
		t.Error(err)
	}
}

// A put that is given up lands all the same.
func TestGivenUpPutsLand(t *testing.T) {
	under := memobj.New()
	s := sim.NewObjects(under, sim.Profile{Put: sim.Latency{P50: 20 * time.Millisecond}})
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	if err := s.PutIfAbsent(ctx, "k", nil); !errors.Is(err, objstore.ErrUnknown) {
		t.Fatal(err)
	}
	for {
		if _, err := under.Stat(t.Context(), "k"); err == nil {
			return
		}
		time.Sleep(time.Millisecond)
	}
}
