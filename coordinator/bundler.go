package coordinator

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/txcoord/txcoord/lock"
	"github.com/txcoord/txcoord/twophase"
)

// bundler makes small pieces durable ahead of the entries that will name them, where the
// store takes one key per request. While some batches are on their way calls queue, and when
// one is there all that waits goes into the next: a lone one never waits, and many share.
// The sequencer's entries go on meanwhile.
type bundler struct {
	c     *Catalog
	ready chan struct{} // holds a token once something waits

	mu      sync.Mutex
	waiting []*bundling
}

// bundling is a call that waits.
type bundling struct {
	chunks [][]packed
	done   chan struct{} // closed when in or err are set
	in     []twophase.BundleID
	err    error
}

func newBundler(c *Catalog) *bundler { return &bundler{c: c, ready: make(chan struct{}, 1)} }

// put returns the bundles in which the chunks are durable. After an error they may be, or
// come to be.
func (b *bundler) put(ctx context.Context, chunks [][]packed) ([]twophase.BundleID, error) {
	call := &bundling{chunks: chunks, done: make(chan struct{})}
	b.mu.Lock()
	b.waiting = append(b.waiting, call)
	b.mu.Unlock()
	select {
	case b.ready <- struct{}{}:
	default:
	}
	select {
	case <-call.done:
		return call.in, call.err
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-b.c.life.Done():
		return nil, errClosing
	}
}

func (b *bundler) run(ctx context.Context) {
	var carrying sync.WaitGroup
	defer carrying.Wait()
	room := make(chan struct{}, batchesAtOnce)
	for {
		select {
		case room <- struct{}{}:
		case <-ctx.Done():
			return
		}
		select {
		case <-b.ready:
		case <-ctx.Done():
			return
		}
		b.c.seq.gathering.entering(ctx)
		b.mu.Lock()
		calls := b.waiting
		b.waiting = nil
		b.mu.Unlock()
		carrying.Go(func() {
			b.carry(ctx, calls)
			<-room
		})
	}
}

// batchesAtOnce is how many batches of calls are on their way together: more make calls wait
// less, and share less.
const batchesAtOnce = 4

// bundlePutLimit ends the put of a bundle that hangs: what is in it then goes with its entry.
const bundlePutLimit = 10 * time.Second

func (b *bundler) carry(ctx context.Context, calls []*bundling) {
	ctx, cancel := context.WithTimeout(ctx, bundlePutLimit)
	defer cancel()
	p := packer{room: b.c.cfg.Limits.BundleBytes}
	in := make([][]*bundle, len(calls))
	for i, call := range calls {
		in[i] = p.add(call.chunks)
	}
	errs := make(map[*bundle]error, len(p.bundles))
	ids := make(map[*bundle]twophase.BundleID, len(p.bundles))
	var mu sync.Mutex
	_ = parallel(p.bundles, bundlesAtOnce, func(made *bundle) error {
		id := made.id()
		err := b.putOne(ctx, id, made)
		mu.Lock()
		defer mu.Unlock()
		ids[made], errs[made] = id, err
		return nil
	})
	for i, call := range calls {
		for _, made := range in[i] {
			call.in, call.err = append(call.in, ids[made]), errors.Join(call.err, errs[made])
		}
		close(call.done)
	}
}

// bundlesAtOnce is how many bundles are on their way together.
const bundlesAtOnce = 16

func (b *bundler) putOne(ctx context.Context, id twophase.BundleID, made *bundle) error {
	w := made.write(id)
	b.c.payloads.holds(id, made.ids())
	_, err := b.c.cfg.Store.Put(ctx, w.Key, w.Value, lock.IfAbsent())
	if errors.Is(err, lock.ErrConflict) {
		return nil // the key names what is in it
	}
	if err != nil {
		return fmt.Errorf("put a bundle of staged payloads: %w", err)
	}
	return nil
}
