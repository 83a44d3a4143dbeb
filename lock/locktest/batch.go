package locktest

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/txcoord/txcoord/lock"
)

func batchCases() []Case {
	batching := []Capability{Batching}
	return []Case{
		{Name: "BatchWritesAll", Needs: batching, Run: batchWritesAll},
		{Name: "RefusedBatchWritesTheRest", Needs: batching, Run: refusedBatchWritesTheRest},
		{Name: "RacingBatchesHaveOneWinner", Needs: batching, Run: racingBatchesHaveOneWinner},
		{Name: "TooLargeBatchIsRefused", Needs: batching, Run: tooLargeBatchIsRefused},
		{Name: "UnknownBatchIsNotRefused", Needs: append(batching, LosingReplies), Run: unknownBatchIsNotRefused},
		{Name: "BatchesSurviveReopen", Needs: append(batching, Reopening), Run: batchesSurviveReopen},
	}
}

func batcher(t T, s lock.Store) lock.Batcher {
	t.Helper()
	b, ok := s.(lock.Batcher)
	if !ok {
		t.Fatalf("the store is no lock.Batcher, and Config.Without gives no reason")
	}
	return b
}

// beside makes the writes that go along with one.
func beside(name string, n int) []lock.Write {
	with := make([]lock.Write, n)
	for i := range with {
		with[i] = lock.Write{Key: fmt.Sprintf("pay/%s/%d", name, i), Value: fmt.Append(nil, name, i)}
	}
	return with
}

// wantWritten checks that they are there.
func wantWritten(t T, s lock.Store, with []lock.Write) {
	t.Helper()
	for _, w := range with {
		if item, err := s.Get(t.Context(), w.Key); err != nil || string(item.Value) != string(w.Value) {
			t.Errorf("get %s: %s, %v, want %q", w.Key, show(item), err, w.Value)
		}
	}
}

func batchWritesAll(t T, c Config) {
	s := c.New(t)
	cond := lock.IfAbsent()
	for i, n := range []int{0, 1, 50, 1} {
		with := beside("same", n)
		rev, err := batcher(t, s).PutBatch(t.Context(), "k", fmt.Append(nil, i), cond, with)
		must(t, err)
		wantItem(t, s, "k", fmt.Sprint(i), rev)
		wantWritten(t, c.client(t, s), with)
		cond = lock.IfRevision(rev)
	}
}

func refusedBatchWritesTheRest(t T, c Config) {
	s := c.New(t)
	rev := put(t, s, "k", "stands", lock.IfAbsent())
	with := beside("refused", 3)
	_, err := batcher(t, s).PutBatch(t.Context(), "k", []byte("refused"), lock.IfAbsent(), with)
	wantErr(t, "batch under a condition that does not hold", err, lock.ErrConflict)
	wantItem(t, s, "k", "stands", rev)
	wantWritten(t, s, with)
}

func racingBatchesHaveOneWinner(t T, c Config) {
	s := c.New(t)
	for round := range rounds {
		key := fmt.Sprintf("k/%d", round)
		outcomes := make([]outcome, racers)
		race(racers, func(i int) {
			value := fmt.Sprintf("%d.%d", round, i)
			rev, err := batcher(t, s).PutBatch(t.Context(), key, []byte(value), lock.IfAbsent(), beside(value, 2))
			outcomes[i] = outcome{value, rev, err}
		})
		if winner, ok := oneWinner(t, key, outcomes); ok {
			wantItem(t, s, key, winner.value, winner.rev)
		}
		for _, o := range outcomes {
			wantWritten(t, s, beside(o.value, 2))
		}
	}
}

func tooLargeBatchIsRefused(t T, c Config) {
	s := c.New(t)
	large := make([]byte, c.MaxValue+1)
	_, err := batcher(t, s).PutBatch(t.Context(), "k", large, lock.IfAbsent(), beside("a", 1))
	wantErr(t, "batch with a value that is too large", err, lock.ErrTooLarge)
	_, err = batcher(t, s).PutBatch(t.Context(), "k", nil, lock.IfAbsent(), []lock.Write{{Key: "large", Value: large}})
	wantErr(t, "batch beside a value that is too large", err, lock.ErrTooLarge)
	wantMissing(t, s, "k")
	wantMissing(t, s, "large")
}

func unknownBatchIsNotRefused(t T, c Config) {
	s, lose := c.Lossy(t)
	lose()
	_, err := batcher(t, s).PutBatch(t.Context(), "k", []byte("v"), lock.IfAbsent(), beside("lost", 2))
	if err != nil && !errors.Is(err, lock.ErrUnknown) || errors.Is(err, lock.ErrConflict) {
		t.Errorf("batch: got %v after a reply was lost, want %v", err, lock.ErrUnknown)
	}
}

// batchesSurviveReopen: what goes along with a refused write too.
func batchesSurviveReopen(t T, c Config) {
	s := c.New(t)
	won, lost := beside("won", 5), beside("lost", 5)
	rev, err := batcher(t, s).PutBatch(t.Context(), "k", []byte("won"), lock.IfAbsent(), won)
	must(t, err)
	_, err = batcher(t, s).PutBatch(t.Context(), "k", []byte("lost"), lock.IfAbsent(), lost)
	wantErr(t, "second batch", err, lock.ErrConflict)
	s = c.Reopen(t, s)
	wantItem(t, s, "k", "won", rev)
	wantWritten(t, s, append(won, lost...))
}

// batching adds PutBatch to a wrapper.
type batching struct {
	lock.Store
	put func(ctx context.Context, key string, value []byte, c lock.Condition, with []lock.Write) (lock.Revision, error)
}

var _ lock.Batcher = batching{}

// PutBatch implements lock.Batcher.
func (b batching) PutBatch(ctx context.Context, key string, value []byte, c lock.Condition, with []lock.Write) (lock.Revision, error) {
	return b.put(ctx, key, value, c, with)
}

// Batching is the wrapper as a lock.Batcher, over a store that is one. The hook sees
// a batch as one operation, of kind PutBatch on the key that has the condition, and
// decides it as a whole.
func (f *Faulty) Batching() lock.Store {
	return batching{f, f.putBatch}
}

func (f *Faulty) putBatch(ctx context.Context, key string, value []byte, c lock.Condition, with []lock.Write) (lock.Revision, error) {
	value, with = slices.Clone(value), slices.Clone(with)
	for i := range with {
		with[i].Value = slices.Clone(with[i].Value)
	}
	var rev lock.Revision
	err := f.write(ctx, Op{Kind: PutBatch, Key: key, Value: value, Condition: c, With: with}, func(ctx context.Context) error {
		r, err := f.Store.(lock.Batcher).PutBatch(ctx, key, value, c, with)
		rev = r
		return err
	})
	if err != nil {
		return "", err
	}
	return rev, nil
}

// Batching is the wrapper as a lock.Batcher, over a store that is one. A batch
// counts as one PutBatch on the key that has the condition, and one Batched on each
// of the others.
func (c *Counting) Batching() lock.Store {
	return batching{c, func(ctx context.Context, key string, value []byte, cond lock.Condition, with []lock.Write) (lock.Revision, error) {
		c.count(PutBatch, key)
		for _, w := range with {
			c.count(Batched, w.Key)
		}
		return c.Store.(lock.Batcher).PutBatch(ctx, key, value, cond, with)
	}}
}
