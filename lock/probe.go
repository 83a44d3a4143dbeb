package lock

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"
)

// probers race for one key.
const probers = 16

// probeKeys are what probes race for. A process that dies in one leaves its key.
const probeKeys = "probe/"

// Probe sees that a store honours conditions, also those of writers that race: there
// are servers that accept a condition and do not look at it. It writes one key of
// its own and removes it. ErrUnfit if two writers can win. Of an Upkept store it sees that
// it can be kept up.
func Probe(ctx context.Context, store Store) (err error) {
	key := probeKeys + rand.Text()
	rev, err := race(ctx, store, key)
	if err == nil {
		err = probeRevision(ctx, store, key, rev)
	}
	err = errors.Join(err, store.Delete(ctx, key))
	if u, ok := store.(Upkept); ok && err == nil {
		err = u.CheckUpkeep(ctx)
	}
	return err
}

// race has writers put one absent key; exactly one may win.
func race(ctx context.Context, store Store, key string) (won Revision, err error) {
	errs := make([]error, probers)
	revs := make([]Revision, probers)
	var all sync.WaitGroup
	for i := range errs {
		all.Go(func() { revs[i], errs[i] = store.Put(ctx, key, []byte{byte(i)}, IfAbsent()) })
	}
	all.Wait()
	winners := 0
	for i, err := range errs {
		switch {
		case err == nil:
			winners, won = winners+1, revs[i]
		case !errors.Is(err, ErrConflict):
			return "", fmt.Errorf("probe conditions: %w", err)
		}
	}
	if winners != 1 {
		return "", Mark(ErrUnfit, fmt.Errorf("the store does not honour conditions: %d of %d writers won a race that one can win; use another server", winners, probers))
	}
	return won, nil
}

// probeRevision: a revision that was replaced is refused, and what was written is read.
func probeRevision(ctx context.Context, store Store, key string, rev Revision) error {
	want := []byte("second")
	if _, err := store.Put(ctx, key, want, IfRevision(rev)); err != nil {
		return fmt.Errorf("probe conditions: replace the newest revision: %w", err)
	}
	_, err := store.Put(ctx, key, []byte("stale"), IfRevision(rev))
	if err == nil {
		return Mark(ErrUnfit, errors.New("the store does not honour conditions: it replaces a value of another revision; use another server"))
	}
	if !errors.Is(err, ErrConflict) {
		return fmt.Errorf("probe conditions: %w", err)
	}
	item, err := store.Get(ctx, key)
	if err != nil {
		return fmt.Errorf("probe reads: %w", err)
	}
	if !bytes.Equal(item.Value, want) {
		return Mark(ErrUnfit, fmt.Errorf("the store is not consistent: it reads %q after %q was written; use another server", item.Value, want))
	}
	return nil
}
