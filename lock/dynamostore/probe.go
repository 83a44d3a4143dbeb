package dynamostore

import (
	"context"

	"github.com/txcoord/txcoord/lock"
)

// probe sees that the server honours conditions, also those of writers that race.
func (s *Store) probe(ctx context.Context) error { return lock.Probe(ctx, s) }
