package locktest_test

import (
	"context"
	"errors"

	"github.com/txcoord/txcoord/lock"
)

// putBatch is the method that has the defect.
type putBatch func(ctx context.Context, b lock.Batcher, key string, value []byte, c lock.Condition, with []lock.Write) (lock.Revision, error)

type brokenBatcher struct {
	lock.Store
	put putBatch
}

func (b brokenBatcher) PutBatch(ctx context.Context, key string, value []byte, c lock.Condition, with []lock.Write) (lock.Revision, error) {
	return b.put(ctx, b.Store.(lock.Batcher), key, value, c, with)
}

func batches(put putBatch) func(lock.Store) lock.Store {
	return func(s lock.Store) lock.Store { return brokenBatcher{s, put} }
}

func batchWithoutTheRest(ctx context.Context, b lock.Batcher, key string, value []byte, c lock.Condition, _ []lock.Write) (lock.Revision, error) {
	return b.PutBatch(ctx, key, value, c, nil)
}

// batchAllOrNothing is what a transaction of a database does.
func batchAllOrNothing(ctx context.Context, b lock.Batcher, key string, value []byte, c lock.Condition, with []lock.Write) (lock.Revision, error) {
	rev, err := b.PutBatch(ctx, key, value, c, nil)
	if err != nil {
		return "", err
	}
	return b.PutBatch(ctx, key, value, lock.IfRevision(rev), with)
}

func batchOverwrites(ctx context.Context, b lock.Batcher, key string, value []byte, _ lock.Condition, with []lock.Write) (lock.Revision, error) {
	return b.PutBatch(ctx, key, value, lock.Always(), with)
}

func batchCuts(ctx context.Context, b lock.Batcher, key string, value []byte, c lock.Condition, with []lock.Write) (lock.Revision, error) {
	return b.PutBatch(ctx, key, value[:min(len(value), testMaxValue)], c, with)
}

func batchSaysRefused(ctx context.Context, b lock.Batcher, key string, value []byte, c lock.Condition, with []lock.Write) (lock.Revision, error) {
	rev, err := b.PutBatch(ctx, key, value, c, with)
	if errors.Is(err, lock.ErrUnknown) {
		err = lock.ErrConflict
	}
	return rev, err
}
