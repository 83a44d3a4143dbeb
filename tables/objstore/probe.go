package objstore

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"
)

// ErrUnconditional: the store does not honour the conditions of puts, so that two
// writers can both believe to have written a version.
var ErrUnconditional = errors.New("the object store does not honour conditional puts; use another one")

// ErrInconsistent: reads or listings of the store lag behind its writes, so that what
// is seen of a log may not be its end.
var ErrInconsistent = errors.New("the object store's reads and listings lag behind its writes; use another one")

// probers race for one key in a probe.
const probers = 16

// Probe sees that a store honours conditions, also those of writers that race: there
// are stores that accept a condition and do not look at it. It sees as well that what
// was written or removed shows at once when it is read and when it is listed. It writes
// one small object below the prefix, in `_txcoord/probe/`, and removes it again.
func Probe(ctx context.Context, s Store, prefix string) error {
	key := strings.TrimPrefix(strings.TrimSuffix(prefix, "/")+"/_txcoord/probe/"+rand.Text(), "/")
	err := probeRace(ctx, s, key)
	if c, ok := s.(Conditional); ok && err == nil {
		err = probeETag(ctx, c, key)
	}
	if err == nil {
		err = probeListing(ctx, s, key, true)
	}
	if gone := s.Delete(ctx, key); gone != nil || err != nil {
		return errors.Join(err, gone)
	}
	if _, _, err := s.Get(ctx, key, Range{}); err == nil {
		return fmt.Errorf("%w: an object was removed, and can be read", ErrInconsistent)
	} else if !errors.Is(err, ErrNotFound) {
		return fmt.Errorf("probe reads: %w", err)
	}
	return probeListing(ctx, s, key, false)
}

// probeListing lists the key's folder, with and without a delimiter.
func probeListing(ctx context.Context, s Store, key string, there bool) error {
	folder := key[:strings.LastIndexByte(key, '/')+1]
	for _, delimiter := range []bool{false, true} {
		seen := false
		for e, err := range s.List(ctx, ListOptions{Prefix: folder, Delimiter: delimiter}) {
			if err != nil {
				return fmt.Errorf("probe listings: %w", err)
			}
			seen = seen || e.Key == key
		}
		switch {
		case there && !seen:
			return fmt.Errorf("%w: an object was written, and is in no listing", ErrInconsistent)
		case !there && seen:
			return fmt.Errorf("%w: an object was removed, and is in a listing", ErrInconsistent)
		}
	}
	return nil
}

func probeRace(ctx context.Context, s Store, key string) error {
	errs := make([]error, probers)
	var all sync.WaitGroup
	for i := range errs {
		all.Go(func() { errs[i] = s.PutIfAbsent(ctx, key, fmt.Appendf(nil, "probe %d", i)) })
	}
	all.Wait()
	won, winner := 0, 0
	var other error // A store may limit the rate of writes to one key.
	for i, err := range errs {
		switch {
		case err == nil:
			won++
			winner = i
		case !errors.Is(err, ErrExists):
			other = err
		}
	}
	if won == 0 && other != nil {
		return fmt.Errorf("probe conditional puts: %w", other)
	}
	if won != 1 {
		return fmt.Errorf("%w: %d of %d writers won a race that one can win", ErrUnconditional, won, probers)
	}
	got, _, err := s.Get(ctx, key, Range{})
	if errors.Is(err, ErrNotFound) {
		return fmt.Errorf("%w: an object was written, and cannot be read", ErrInconsistent)
	}
	if err != nil {
		return fmt.Errorf("probe conditional puts: %w", err)
	}
	if want := fmt.Sprintf("probe %d", winner); string(got) != want {
		return fmt.Errorf("%w: %q won, and %q was written", ErrUnconditional, want, got)
	}
	return nil
}

// probeETag replaces the object on the right ETag, and then on the one of before.
func probeETag(ctx context.Context, s Conditional, key string) error {
	held, err := s.Stat(ctx, key)
	if err != nil {
		return fmt.Errorf("probe conditional puts: %w", err)
	}
	if err := patiently(ctx, s, key, "second", held.ETag); err != nil {
		return fmt.Errorf("probe conditional puts: replace: %w", err)
	}
	err = patiently(ctx, s, key, "third", held.ETag)
	if err == nil {
		return fmt.Errorf("%w: it replaces an object that has changed", ErrUnconditional)
	}
	if !errors.Is(err, ErrChanged) {
		return fmt.Errorf("probe conditional puts: replace: %w", err)
	}
	return nil
}

// patiently replaces, and again where that was certainly not carried out.
func patiently(ctx context.Context, s Conditional, key, data, etag string) error {
	for n := 1; ; n++ {
		_, err := s.PutIf(ctx, key, []byte(data), IfETag(etag))
		if err == nil || errors.Is(err, ErrChanged) || errors.Is(err, ErrUnknown) || n == 4 {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(time.Second):
		}
	}
}
