package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"

	client "github.com/txcoord/txcoord/clients/go"
	txcoordv1 "github.com/txcoord/txcoord/proto/txcoord/v1"
)

// writers commit transactions over the demo's tables, several at once.
type writers struct {
	api       *client.Client
	warehouse string
	count     int // of writers
	each      int // transactions of each, at least
	// more says whether writers go on past that, until the crash was shown.
	more func() bool

	committed atomic.Int64
	conflicts atomic.Int64 // attempts that lost one

	mu      sync.Mutex
	sold    []*batch // what is in the tables; corrections change the last ones
	results []result
}

// result is an acknowledged transaction with the tables that it wrote.
type result struct {
	id     string
	tables []int
}

// run returns when every writer is done.
func (w *writers) run(ctx context.Context, customers []int64) error {
	var group sync.WaitGroup
	failed := make(chan error, w.count)
	for i := range w.count {
		group.Go(func() {
			if err := w.writer(ctx, i, newShop(i+1, w.count+1, customers)); err != nil {
				failed <- fmt.Errorf("writer %d: %w", i+1, err)
			}
		})
	}
	group.Wait()
	close(failed)
	var all []error
	for err := range failed {
		all = append(all, err)
	}
	return errors.Join(all...)
}

// writer sells, and every few sales corrects the prices of an earlier one.
func (w *writers) writer(ctx context.Context, number int, s *shop) error {
	for i := 0; i < w.each || w.more(); i++ {
		key := fmt.Sprintf("writer-%d-%d", number+1, i)
		var err error
		if i%5 == 4 {
			err = w.correct(ctx, key, s.random)
		} else {
			err = w.sell(ctx, key, s.orders(1+s.random.IntN(8), 0.3))
		}
		if err != nil {
			return fmt.Errorf("transaction %s: %w", key, err)
		}
	}
	return nil
}

// sell adds a batch to all tables that it has rows for. Nothing was read, so it
// never conflicts.
func (w *writers) sell(ctx context.Context, key string, b *batch) error {
	if err := b.write(w.warehouse); err != nil {
		return err
	}
	err := w.transact(ctx, key, func(tx *client.Tx) ([]int, error) {
		return stageBatch(ctx, tx, client.Blind(), [3]shopFile{}, b)
	})
	if err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.sold = append(w.sold, b)
	return nil
}

// correct replaces the files of a recent batch. It depends on what it has read:
// when two writers correct the same batch, one of them loses, reads again, and
// corrects what is there then.
func (w *writers) correct(ctx context.Context, key string, r *rand.Rand) error {
	var place int
	var fresh *batch
	err := w.transact(ctx, key, func(tx *client.Tx) ([]int, error) {
		var old *batch
		place, old = w.pick(r)
		snapshot, err := w.api.Snapshot(ctx)
		if err != nil {
			return nil, err
		}
		fresh = old.repriced(int64(r.IntN(21) - 10))
		if err := fresh.write(w.warehouse); err != nil {
			return nil, err
		}
		replaced := old.files
		replaced[customersTable] = shopFile{}
		return stageBatch(ctx, tx, client.AtSnapshot(snapshot.GetVersion(), nil), replaced, fresh)
	}, client.MaxRuns(maxRuns))
	if err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.sold[place] = fresh
	return nil
}

const (
	// hot is how many of the last batches are corrected: few, so that writers meet.
	hot = 3
	// maxRuns is far more than a correction ever needs.
	maxRuns = 100
)

// pick chooses a batch to correct.
func (w *writers) pick(r *rand.Rand) (place int, b *batch) {
	w.mu.Lock()
	defer w.mu.Unlock()
	place = len(w.sold) - 1 - r.IntN(min(hot, len(w.sold)))
	return place, w.sold[place]
}

func stageBatch(
	ctx context.Context, tx *client.Tx, read *txcoordv1.ReadDeclaration, old [3]shopFile, fresh *batch,
) (tables []int, err error) {
	for i := range shopTables {
		actions := replacing(old[i], fresh.files[i])
		if len(actions) == 0 {
			continue
		}
		if _, err := tx.Stage(ctx, shopTables[i].name, read, actions); err != nil {
			return nil, err
		}
		tables = append(tables, i)
	}
	return tables, nil
}

// transact runs one transaction and takes down what came of it.
func (w *writers) transact(
	ctx context.Context, key string, stage func(*client.Tx) ([]int, error), opts ...client.TransactOption,
) error {
	runs := 0
	var written []int
	done, err := w.api.Transact(ctx, key, func(tx *client.Tx) (err error) {
		runs++
		written, err = stage(tx)
		return err
	}, opts...)
	if err != nil {
		return err
	}
	w.committed.Add(1)
	w.conflicts.Add(int64(runs - 1))
	w.mu.Lock()
	defer w.mu.Unlock()
	w.results = append(w.results, result{done.Outcome.GetTransactionId(), written})
	return nil
}
