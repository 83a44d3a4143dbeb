package scenario

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/txcoord/txcoord/bench/contend"
)

// each has every writer make so many transactions, and returns how many were committed.
func (e *entry) each(ctx context.Context, writers, transactions int, tables shape) (committed int, err error) {
	counts, errs := make([]int, writers), make([]error, writers)
	first := make([]int, writers)
	for w := range writers {
		first[w] = e.numbers[w]
		e.numbers[w] += transactions
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var running sync.WaitGroup
	for w := range writers {
		running.Go(func() {
			for n := first[w] + 1; n <= first[w]+transactions; n++ {
				err := e.session.Commit(ctx, contend.Work{Writer: w, Number: n, Tables: tables(w, n)})
				switch {
				case err == nil:
					counts[w]++
				case !errors.Is(err, contend.ErrAborted):
					errs[w] = fmt.Errorf("writer %d: %w", w, err)
					cancel()
					return
				}
			}
		})
	}
	running.Wait()
	for _, n := range counts {
		committed += n
	}
	return committed, errors.Join(errs...)
}

// apart has one writer make transactions, each when all that the one before left to be
// done is done, so that their requests are exact. A manifest that is written after the
// answer, when the next transaction has come already, would cover both.
func (e *entry) apart(ctx context.Context, transactions int, tables shape) (committed int, err error) {
	for range transactions {
		n, err := e.each(ctx, 1, 1, tables)
		if err != nil {
			return committed, err
		}
		committed += n
		if err := e.session.Settle(ctx); err != nil {
			return committed, err
		}
	}
	return committed, nil
}

// counting is the contender whose requests can be seen.
func counting(k contend.Contender) contend.Contender {
	if c, ok := k.(contend.Counted); ok {
		return c.Counted()
	}
	return k
}
