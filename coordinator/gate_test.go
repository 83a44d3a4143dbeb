package coordinator_test

import (
	"context"
	"strings"
	"sync"

	"github.com/txcoord/txcoord/coordinator"
	"github.com/txcoord/txcoord/tables/objstore"
	"github.com/txcoord/txcoord/tables/objstore/objtest"
)

// background commits while the test goes on.
func (w *world) background(key string, parts ...coordinator.OnceTable) chan error {
	done := make(chan error, 1)
	catalog, ctx := w.catalog, w.ctx()
	go func() {
		_, _, err := catalog.CommitOnce(ctx, once(key, parts...))
		done <- err
	}()
	return done
}

// gate holds object puts up, or turns them back.
type gate struct {
	mu      sync.Mutex
	held    map[string]bool
	all     bool
	refuses bool
	opened  chan struct{}
}

// holdRing holds up the next append of an entry once hold gets a channel, until that is closed.
func holdRing(hold chan chan struct{}) func(key string) {
	return func(key string) {
		if !strings.HasPrefix(key, "ring/") {
			return
		}
		select {
		case release := <-hold:
			<-release
		default:
		}
	}
}

func newGate() *gate { return &gate{held: map[string]bool{}, opened: make(chan struct{})} }

func (g *gate) hold(keys ...string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, k := range keys {
		g.held[k] = true
	}
	g.all = g.all || len(keys) == 0
}

// refuse turns all commits of tables back, so that none is on its way.
func (g *gate) refuse() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.refuses = true
}

// release lets all go that waits, and all that comes.
func (g *gate) release() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.all, g.refuses, g.held = false, false, map[string]bool{}
	close(g.opened)
	g.opened = make(chan struct{})
}

func (g *gate) over(s objstore.Store) objstore.Store { return objtest.Faulty{Store: s, Hook: g.decide} }

func (g *gate) decide(ctx context.Context, op objtest.Op) objtest.Fate {
	for op.Kind == objtest.Put || op.Kind == objtest.PutIfAbsent {
		g.mu.Lock()
		wait, opened := g.all || g.held[op.Key], g.opened
		refused := g.refuses && objtest.Layout(op.Key) == "commit"
		g.mu.Unlock()
		if refused {
			return objtest.Refused()
		}
		if !wait {
			break
		}
		select {
		case <-opened:
		case <-ctx.Done():
			return objtest.Fate{Err: ctx.Err()}
		}
	}
	return objtest.Done()
}
