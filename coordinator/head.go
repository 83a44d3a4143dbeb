package coordinator

import (
	"context"
	"errors"
	"time"

	"github.com/txcoord/txcoord/internal/ahead"
	"github.com/txcoord/txcoord/lock"
	"github.com/txcoord/txcoord/twophase"
)

// catchUp folds to a head that is read after the call (R3, R5, R6).
func (c *Catalog) catchUp(ctx context.Context) error {
	called := c.cfg.Boot()
	if err := c.catching.take(ctx); err != nil {
		return err // who reads the head meanwhile may be waiting for a store that does not answer
	}
	defer c.catching.give()
	if time.Duration(c.headAt.Load()) > called {
		return nil // whoever was before has read the head for all who waited
	}
	for {
		at := c.cfg.Boot()
		raw, err := c.journal.Read(ctx, c.next())
		switch {
		case errors.Is(err, lock.ErrNotFilled):
			c.atHead(at)
			return nil
		case stopsLedger(err):
			return c.ledgerError(c.lapped(err))
		case err != nil:
			return c.storeError(err)
		}
		if err := c.ledger.fold(decode(raw)); err != nil {
			return c.ledgerError(err)
		}
	}
}

// entriesAhead is how many entries a start reads at once.
const entriesAhead = 64

// begunEntries are what the journal held behind a checkpoint when it was opened. A start
// that read one entry after the other would wait for as many round trips; so the next ones
// are read and decoded while those before are folded, and the first ones while the
// checkpoint is loaded.
type begunEntries struct {
	entries chan readEntry
	stop    context.CancelFunc
	err     error // why no more come, once entries is closed
}

// beginEntries starts to read. Who calls it ends it.
func (c *Catalog) beginEntries(ctx context.Context, from twophase.Position) *begunEntries {
	var positions []twophase.Position
	for p := from; p < c.startHead; p++ {
		positions = append(positions, p)
	}
	ctx, stop := context.WithCancel(ctx)
	b := &begunEntries{entries: make(chan readEntry), stop: stop}
	reading := ahead.Reader[twophase.Position, readEntry]{
		AtOnce: entriesAhead,
		Get: func(ctx context.Context, p twophase.Position) (readEntry, error) {
			raw, err := c.journal.Read(ctx, p)
			if err != nil {
				return readEntry{}, err
			}
			return decode(raw), nil
		},
	}
	go func() {
		defer close(b.entries)
		b.err = reading.Each(ctx, positions, func(_ twophase.Position, e readEntry) error {
			select {
			case b.entries <- e:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		})
	}()
	return b
}

// end ends the reading; nothing is on its way then.
func (b *begunEntries) end() {
	b.stop()
	for range b.entries { // until it is closed
	}
}

// foldBegun folds them. Others may fold meanwhile, and get ahead of it: what follows a
// transaction that released a table reads the head (disclaim). So it goes by the entries
// that were read, and not by the fold.
func (c *Catalog) foldBegun(b *begunEntries) error {
	for e := range b.entries {
		if err := c.ledger.fold(e); err != nil {
			return c.ledgerError(err)
		}
	}
	switch {
	case stopsLedger(b.err):
		return c.ledgerError(c.lapped(b.err))
	case b.err != nil:
		return c.storeError(b.err)
	}
	return nil
}

// atHead notes that the fold held the whole journal at a time: a read behind it
// found nothing, or an entry of ours was put there.
func (c *Catalog) atHead(at time.Duration) {
	for {
		was := c.headAt.Load()
		if was >= int64(at) || c.headAt.CompareAndSwap(was, int64(at)) {
			return
		}
	}
}

// freshFold makes sure that the fold is young enough for a put (R10).
func (c *Catalog) freshFold(ctx context.Context) error {
	if c.cfg.Boot()-time.Duration(c.headAt.Load()) <= twophase.FoldLimit/2 {
		return nil
	}
	return c.catchUp(ctx)
}
