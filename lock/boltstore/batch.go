package boltstore

import (
	"context"
	"errors"
	"fmt"

	"github.com/txcoord/txcoord/lock"
)

var _ lock.Batcher = (*Store)(nil)

// PutBatch carries out all puts in one commit: they are queued together, and the
// committer takes all that waits.
func (s *Store) PutBatch(ctx context.Context, key string, value []byte, c lock.Condition, with []lock.Write) (lock.Revision, error) {
	group := make([]*write, 0, len(with)+1)
	for _, w := range with {
		group = append(group, &write{key: w.Key, stored: encode(w.Value), cond: lock.Always()})
	}
	group = append(group, &write{key: key, stored: encode(value), cond: c})
	for _, w := range group {
		if err := check(ctx, w.key); err != nil {
			return "", fmt.Errorf("put %s: %w", w.key, err)
		}
		if n := len(w.stored) - len(encode(nil)); n > s.maxValue {
			return "", fmt.Errorf("put %s: %d bytes, limit %d: %w", w.key, n, s.maxValue, lock.ErrTooLarge)
		}
		w.done = make(chan answer, 1)
	}
	if err := s.enqueue(group...); err != nil {
		return "", err
	}
	var last answer
	var failed error
	for i, w := range group {
		select {
		case last = <-w.done:
		case <-ctx.Done():
			return "", fmt.Errorf("put %s: %w: %w", key, lock.ErrUnknown, ctx.Err())
		}
		if i < len(with) {
			failed = errors.Join(failed, last.err)
		}
	}
	if failed != nil {
		return "", fmt.Errorf("put beside %s: %w", key, failed)
	}
	if last.err != nil {
		return "", fmt.Errorf("put %s: %w", key, last.err)
	}
	return last.rev, nil
}
