package ahead_test

import (
	"context"
	"errors"
	"math"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/txcoord/txcoord/internal/ahead"
)

// asked is what a reader did with gets of 20 ms, of which each tenth takes 60.
func asked(t *testing.T, sizes []int64, fails int) (took time.Duration, most, mostBytes int64, used []int, err error) {
	synctest.Test(t, func(t *testing.T) {
		var now, bytes, peak, peakBytes atomic.Int64
		a := ahead.Reader[int, int]{
			AtOnce: 64, Bytes: 1000, Size: func(i int) int64 { return sizes[i] },
			Get: func(ctx context.Context, i int) (int, error) {
				peak.Store(max(peak.Load(), now.Add(1)))
				peakBytes.Store(max(peakBytes.Load(), bytes.Add(sizes[i])))
				defer func() { now.Add(-1); bytes.Add(-sizes[i]) }()
				wait := 20 * time.Millisecond
				if i%10 == 9 {
					wait *= 3
				}
				select {
				case <-time.After(wait):
				case <-ctx.Done():
					return 0, ctx.Err()
				}
				if i == fails {
					return 0, errFails
				}
				return i, nil
			},
		}
		items := make([]int, len(sizes))
		for i := range items {
			items[i] = i
		}
		began := time.Now()
		err = a.Each(t.Context(), items, func(_, i int) error {
			used = append(used, i)
			return nil
		})
		took, most, mostBytes = time.Since(began), peak.Load(), peakBytes.Load()
		if n := now.Load(); n != 0 {
			t.Errorf("%d are on their way at the end", n)
		}
	})
	return took, most, mostBytes, used, err
}

var errFails = errors.New("fails")

// Slow ones hold up nobody but those behind them, and those are there when they have come:
// in batches, each of which waits for its slowest, 640 would take 600 ms.
func TestSlowOnes(t *testing.T) {
	took, most, _, used, err := asked(t, slices.Repeat([]int64{1}, 640), -1)
	if err != nil || len(used) != 640 || !slices.IsSorted(used) {
		t.Errorf("%d were used: %v", len(used), err)
	}
	if most > 64 || took > 300*time.Millisecond {
		t.Errorf("at most %d at once, and it took %s", most, took)
	}
}

// Large ones go a few at a time, and one that is larger than all that there is room for
// goes alone.
func TestLargeOnes(t *testing.T) {
	_, most, bytes, used, err := asked(t, slices.Repeat([]int64{300}, 30), -1)
	if err != nil || len(used) != 30 || most > 3 || bytes > 1000 {
		t.Errorf("%d were used, %d with %d bytes at once: %v", len(used), most, bytes, err)
	}
	_, most, _, used, err = asked(t, []int64{5000, 1, 1, 5000, 5000}, -1)
	if err != nil || len(used) != 5 || most > 2 {
		t.Errorf("%d were used, %d at once: %v", len(used), most, err)
	}
}

func TestError(t *testing.T) {
	_, _, _, used, err := asked(t, slices.Repeat([]int64{1}, 640), 100)
	if !errors.Is(err, errFails) || len(used) != 100 {
		t.Errorf("%d were used: %v", len(used), err)
	}
}

// Any number may be given for how many are on their way, as by an operator who wants no bound.
func TestAnyNumberAtOnce(t *testing.T) {
	a := ahead.Reader[int, int]{AtOnce: math.MaxInt, Get: func(_ context.Context, i int) (int, error) { return i, nil }}
	n := 0
	if err := a.Each(t.Context(), []int{1, 2, 3}, func(_, i int) error { n += i; return nil }); err != nil || n != 6 {
		t.Errorf("%d: %v", n, err)
	}
	if err := a.Each(t.Context(), nil, func(int, int) error { return nil }); err != nil {
		t.Error(err)
	}
}
