package rivals

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"

	"github.com/txcoord/txcoord/lock"
)

const counter = "rivals/counter"

func key(i int) string { return fmt.Sprintf("rivals/%04d", i) }

// told is what the writers of one process were told.
type told struct {
	// Won has value and revision of each acknowledged put, Lost the number of unknown
	// ones, by key.
	Won  map[string][]string
	Lost map[string]int
	// Increments that were acknowledged, and those of which nothing is known.
	Increments, Unknown int
	Problems            []string

	mu sync.Mutex
}

func race(ctx context.Context, s spec, store lock.Store) *told {
	got := &told{Won: map[string][]string{}, Lost: map[string]int{}}
	var all sync.WaitGroup
	for w := range s.Writers {
		all.Go(func() {
			for i := range s.Keys {
				got.put(ctx, store, key(i), fmt.Sprintf("%d.%d", s.ID, w))
			}
			for range s.Increments {
				got.increment(ctx, store)
			}
		})
	}
	all.Wait()
	return got
}

func (g *told) problem(format string, args ...any) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.Problems = append(g.Problems, fmt.Sprintf(format, args...))
}

func (g *told) put(ctx context.Context, store lock.Store, key, value string) {
	rev, err := store.Put(ctx, key, []byte(value), lock.IfAbsent())
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case err == nil:
		g.Won[key] = append(g.Won[key], value+"@"+string(rev))
	case errors.Is(err, lock.ErrUnknown):
		g.Lost[key]++
	case !errors.Is(err, lock.ErrConflict):
		g.Problems = append(g.Problems, err.Error())
	}
}

// increment tries until it is not refused.
func (g *told) increment(ctx context.Context, store lock.Store) {
	for ctx.Err() == nil {
		item, err := store.Get(ctx, counter)
		if err != nil {
			g.problem("%v", err)
			return
		}
		n, err := strconv.Atoi(string(item.Value))
		if err != nil {
			g.problem("the counter holds %q", item.Value)
			return
		}
		_, err = store.Put(ctx, counter, []byte(strconv.Itoa(n+1)), lock.IfRevision(item.Revision))
		switch {
		case err == nil:
			g.count(&g.Increments)
			return
		case errors.Is(err, lock.ErrUnknown):
			g.count(&g.Unknown)
			return
		case !errors.Is(err, lock.ErrConflict):
			g.problem("%v", err)
			return
		}
	}
	g.problem("%v", ctx.Err())
}

func (g *told) count(n *int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	*n++
}
