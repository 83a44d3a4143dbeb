package coordinator

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"sync/atomic"
	"time"

	"github.com/txcoord/txcoord/tables/objstore"
	"github.com/txcoord/txcoord/twophase"
)

// factsCache holds conflict facts that are too large for an entry and lie in an
// object of their own (R8). An object is durable before the entry that names it.
type factsCache struct {
	own   *ownObjects
	cache atomic.Pointer[map[twophase.Hash]twophase.Facts]
}

// The bounds of the cache; what falls out is fetched again when a decision needs it.
const (
	factsKept      = 256
	factsKeptBytes = 64 << 20
)

func newFactsCache(own *ownObjects) *factsCache {
	f := &factsCache{own: own}
	f.cache.Store(&map[twophase.Hash]twophase.Facts{})
	return f
}

// all is what is at hand; immutable.
func (f *factsCache) all() map[twophase.Hash]twophase.Facts { return *f.cache.Load() }

// with is what is at hand for a group of requests; immutable.
func (f *factsCache) with(group []*submission) map[twophase.Hash]twophase.Facts {
	out, own := f.all(), false
	for _, sub := range group {
		if len(sub.facts) > 0 && !own {
			out, own = maps.Clone(out), true
		}
		maps.Copy(out, sub.facts)
	}
	return out
}

func (f *factsCache) keep(h twophase.Hash, facts twophase.Facts) {
	for {
		old := f.cache.Load()
		next := maps.Clone(*old)
		next[h] = facts
		bytes := 0
		for _, v := range next {
			bytes += len(v)
		}
		for k, v := range next {
			if len(next) <= factsKept && bytes <= factsKeptBytes {
				break
			}
			if k != h {
				delete(next, k)
				bytes -= len(v)
			}
		}
		if f.cache.CompareAndSwap(old, &next) {
			return
		}
	}
}

// known returns facts that stand in a record, or that are at hand.
func (f *factsCache) known(facts twophase.Facts, ref twophase.ObjectRef) (twophase.Facts, bool) {
	if ref.Name == "" || len(facts) > 0 {
		return facts, true
	}
	got, ok := f.all()[ref.Hash]
	return got, ok
}

// of returns facts, fetched if need be.
func (f *factsCache) of(ctx context.Context, facts twophase.Facts, ref twophase.ObjectRef) (twophase.Facts, error) {
	if got, ok := f.known(facts, ref); ok {
		return got, nil
	}
	b, err := f.own.get(ctx, "facts/"+ref.Name)
	if err != nil {
		return nil, fmt.Errorf("conflict facts %s: %w", ref.Name, err)
	}
	if err := ref.Check(b); err != nil {
		return nil, err
	}
	f.keep(ref.Hash, b)
	return b, nil
}

// store makes facts durable as an object and returns its name. Each call writes an
// object of its own: one that the sweep may be about to remove, since no record names
// it any more, is never named again.
func (f *factsCache) store(ctx context.Context, facts twophase.Facts) (twophase.ObjectRef, error) {
	var nonce [8]byte
	_, _ = rand.Read(nonce[:])
	h := twophase.HashOf(facts)
	ref := twophase.ObjectRef{Name: h.String() + "-" + hex.EncodeToString(nonce[:]), Size: uint64(len(facts)), Hash: h}
	if err := f.own.putOnce(ctx, "facts/"+ref.Name, facts); err != nil {
		return ref, fmt.Errorf("store conflict facts: %w", err)
	}
	f.keep(h, facts)
	return ref, nil
}

// ownObjects are the catalog's own objects, below <warehouse>/_txcoord/<catalog>/.
type ownObjects struct {
	store  objstore.Store
	prefix string
}

func (o *ownObjects) key(name string) string { return o.prefix + "/" + name }

func (o *ownObjects) get(ctx context.Context, name string) ([]byte, error) {
	b, _, err := o.store.Get(ctx, o.key(name), objstore.Range{})
	return b, err
}

// putOnce writes an object whose name says its content, or whose content is a
// pure function of its name: an existing one is the same.
func (o *ownObjects) putOnce(ctx context.Context, name string, b []byte) error {
	for wait := 5 * time.Millisecond; ; wait = min(2*wait, time.Second) {
		err := o.store.PutIfAbsent(ctx, o.key(name), b)
		switch {
		case err == nil, errors.Is(err, objstore.ErrExists):
			return nil
		case !errors.Is(err, objstore.ErrUnknown):
			return err
		}
		if _, err := o.store.Stat(ctx, o.key(name)); err == nil {
			return nil
		}
		if pause(ctx, wait); ctx.Err() != nil {
			return ctx.Err()
		}
	}
}
