package memstore

import (
	"context"

	"github.com/txcoord/txcoord/lock"
)

var _ lock.Batcher = (*Store)(nil)

// PutBatch writes the values of with and then key under its condition. Memory is as
// durable as it gets at once, so nothing is lost by doing one after the other.
func (s *Store) PutBatch(ctx context.Context, key string, value []byte, c lock.Condition, with []lock.Write) (lock.Revision, error) {
	for _, w := range with {
		if _, err := s.Put(ctx, w.Key, w.Value, lock.Always()); err != nil {
			return "", err
		}
	}
	return s.Put(ctx, key, value, c)
}
