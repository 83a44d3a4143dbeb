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

// foldBegun folds what the journal held when it was opened. A start that read one entry
// after the other would wait for as many round trips; so the next ones are read and
// decoded while those before are folded. Others may fold meanwhile, and get ahead of it:
// what follows a transaction that released a table reads the head (disclaim). So it goes by
// the entries that it has read, and not by the fold.
func (c *Catalog) foldBegun(ctx context.Context) error {
	var begun []twophase.Position
	for p := c.next(); p < c.startHead; p++ {
		begun = append(begun, p)
	}
	reading := ahead.Reader[twophase.Position, readEntry]{AtOnce: entriesAhead, Get: c.readBegun}
	return reading.Each(ctx, begun, func(_ twophase.Position, e readEntry) error {
		return c.ledgerError(c.ledger.fold(e))
	})
}

func (c *Catalog) readBegun(ctx context.Context, p twophase.Position) (readEntry, error) {
	raw, err := c.journal.Read(ctx, p)
	switch {
	case stopsLedger(err):
		return readEntry{}, c.ledgerError(c.lapped(err))
	case err != nil:
		return readEntry{}, c.storeError(err)
	}
	return decode(raw), nil
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
