package dynamostore

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"

	"github.com/txcoord/txcoord/lock"
)

// probers race for one key when a store is opened at a server that is not AWS.
const probers = 16

// probe sees that the server honours conditions, also those of writers that race:
// there are servers that accept a condition and do not look at it.
func (s *Store) probe(ctx context.Context) error {
	key := "probe/" + rand.Text()
	errs := make([]error, probers)
	revs := make([]lock.Revision, probers)
	var all sync.WaitGroup
	for i := range errs {
		all.Go(func() { revs[i], errs[i] = s.Put(ctx, key, nil, lock.IfAbsent()) })
	}
	all.Wait()
	won, rev := 0, lock.Revision("")
	for i, err := range errs {
		switch {
		case err == nil:
			won++
			rev = revs[i]
		case errors.Is(err, lock.ErrUnknown):
			return fmt.Errorf("probe conditions: %w", err)
		case !errors.Is(err, lock.ErrConflict):
			return err
		}
	}
	if won != 1 {
		return fmt.Errorf("the server does not honour conditions: %d of %d writers won a race that one can win; use another server", won, probers)
	}
	if err := s.probeRevision(ctx, key, rev); err != nil {
		return err
	}
	return s.Delete(ctx, key)
}

func (s *Store) probeRevision(ctx context.Context, key string, rev lock.Revision) error {
	_, stale := s.Put(ctx, key, nil, lock.IfRevision("stale"))
	_, fresh := s.Put(ctx, key, nil, lock.IfRevision(rev))
	if fresh == nil && errors.Is(stale, lock.ErrConflict) {
		return nil
	}
	if stale == nil {
		return errors.New("the server does not honour conditions: it replaces an item of another version; use another server")
	}
	return errors.Join(stale, fresh)
}
