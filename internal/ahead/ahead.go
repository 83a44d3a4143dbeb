// Package ahead reads things before they are used, and uses them in their order.
package ahead

import (
	"context"

	"golang.org/x/sync/semaphore"
)

// Reader gets things one after the other. Over a network each get is a round trip, and some
// take three times as long as most: so the next one is sent as soon as one has come, and not
// when all that were sent together have.
type Reader[T, R any] struct {
	// AtOnce is how many are on their way at most. Waiting times as many may have come and
	// wait for a slow one before them.
	AtOnce int
	// Bytes bounds what those take together that are on their way, or came and were not used
	// yet, by Size. One that takes more goes alone. There is no bound if Size is nil.
	Bytes int64
	Size  func(T) int64
	Get   func(context.Context, T) (R, error)
}

// Waiting is how many may have come and wait, for each that is on its way.
const Waiting = 4

// Each hands what came to use, in the order of the items, and ends with the first error, of
// either. By then nothing is on its way.
func (r Reader[T, R]) Each(ctx context.Context, items []T, use func(T, R) error) error {
	r.AtOnce = min(r.AtOnce, len(items)) // any number may stand for no bound
	ctx, cancel := context.WithCancel(ctx)
	w := window[R]{order: make(chan chan answer[R], Waiting*r.AtOnce), room: semaphore.NewWeighted(max(r.Bytes, 1))}
	go r.send(ctx, items, w)
	defer func() {
		cancel()
		for one := range w.order {
			<-one
		}
	}()
	for _, item := range items {
		one, ok := <-w.order
		if !ok {
			return ctx.Err()
		}
		a := <-one
		if a.err == nil {
			a.err = use(item, a.value)
		}
		if a.err != nil {
			return a.err
		}
		w.room.Release(r.cost(item))
	}
	return nil
}

// window is what is on its way, or came and was not used yet.
type window[R any] struct {
	order chan chan answer[R]
	room  *semaphore.Weighted
}

type answer[R any] struct {
	value R
	err   error
}

func (r Reader[T, R]) send(ctx context.Context, items []T, w window[R]) {
	defer close(w.order)
	sent := make(chan struct{}, r.AtOnce)
	for _, item := range items {
		if ctx.Err() != nil || w.room.Acquire(ctx, r.cost(item)) != nil {
			return
		}
		one := make(chan answer[R], 1)
		w.order <- one
		sent <- struct{}{}
		go func() {
			v, err := r.Get(ctx, item)
			<-sent
			one <- answer[R]{v, err}
		}()
	}
}

func (r Reader[T, R]) cost(item T) int64 {
	if r.Size == nil {
		return 0
	}
	return min(r.Size(item), r.Bytes)
}
