package coordinator

import (
	"context"
	"errors"
	"time"

	"github.com/txcoord/txcoord/twophase"
)

// every calls do now and then until ctx ends.
func every(ctx context.Context, d time.Duration, do func(context.Context)) {
	t := time.NewTicker(d)
	defer t.Stop()
	for {
		select {
		case <-t.C:
			do(ctx)
		case <-ctx.Done():
			return
		}
	}
}

// expire aborts open transactions whose deadline has passed here (R16): a deadline
// only permits the abort record, and the record decides.
func (c *Catalog) expire(ctx context.Context) {
	every(ctx, time.Second, func(ctx context.Context) {
		_ = parallel(c.openTxns.overdue(), 64, func(ref txnRef) error {
			if c.openTxns.extended(ctx, ref.id) {
				return nil
			}
			_, err := c.abort(ctx, ref, twophase.RuleExpired, "the deadline passed")
			switch {
			case err == nil, errors.Is(err, &Error{Reason: OutcomeExpired}), errors.Is(err, &Error{Reason: TokenStale}):
				c.openTxns.done([]twophase.TxnID{ref.id})
			case ctx.Err() == nil:
				c.log.Warn("expire a transaction", TxnAttr(ref.id), "error", err)
			}
			return nil
		})
	})
}

// poll looks at open tables now and then, so that what others commit appears in
// snapshots (R18).
func (c *Catalog) poll(ctx context.Context) {
	every(ctx, c.cfg.Limits.PollInterval, func(ctx context.Context) {
		rows, _ := c.Tables(ctx)
		_ = parallelIndex(len(rows), 8, func(i int) error {
			if !c.tableDuty(string(rows[i].ID), rows[i]) || !rows[i].Watched || rows[i].Frozen.found() || ctx.Err() != nil {
				return nil
			}
			t, err := c.tables.of(rows[i].ID)
			if err == nil {
				_, err = c.lookUp(ctx, t)
			}
			if err != nil && ctx.Err() == nil {
				c.log.Warn("look at an open table", "table", rows[i].URI, "error", err)
			}
			return nil
		})
	})
}
