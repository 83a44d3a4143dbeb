package tables

import (
	"context"

	"golang.org/x/sync/semaphore"
)

// ahead gets things before they are used, in their order. Over a network each get is a round
// trip, and some take three times as long as most: so the next one is sent when one is used,
// and not when all that were sent together have come.
type ahead[T, R any] struct {
	// atOnce is how many are on their way, and bytes is how much those take that are on
	// their way, or came and were not used yet; size is what one takes.
	atOnce int
	bytes  int64
	size   func(T) int64
	get    func(context.Context, T) (R, error)
}

// waiting is how many may have come and wait for a slow one before them, for each that is on
// its way.
const waiting = 4

// each hands what came to use, and ends with the first error. By then nothing is on its way.
func (a ahead[T, R]) each(ctx context.Context, items []T, use func(T, R) error) error {
	ctx, cancel := context.WithCancel(ctx)
	type result struct {
		value R
		err   error
	}
	window := make(chan chan result, waiting*a.atOnce)
	sent, room := make(chan struct{}, a.atOnce), semaphore.NewWeighted(a.bytes)
	cost := func(t T) int64 { return min(a.size(t), a.bytes) }
	go func() {
		defer close(window)
		for _, t := range items {
			if ctx.Err() != nil || room.Acquire(ctx, cost(t)) != nil {
				return
			}
			got := make(chan result, 1)
			window <- got
			sent <- struct{}{}
			go func() {
				v, err := a.get(ctx, t)
				<-sent
				got <- result{v, err}
			}()
		}
	}()
	defer func() {
		cancel()
		for got := range window {
			<-got
		}
	}()
	for _, t := range items {
		got, ok := <-window
		if !ok {
			return ctx.Err()
		}
		r := <-got
		if r.err == nil {
			r.err = use(t, r.value)
		}
		if r.err != nil {
			return r.err
		}
		room.Release(cost(t))
	}
	return nil
}
