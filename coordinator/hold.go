package coordinator

import (
	"context"
	"errors"

	"github.com/txcoord/txcoord/twophase"
)

// FreezeTable is an operator's word that a table takes no commits. Reads and the
// publication of what is decided go on. A table that is held already stays as it is.
func (c *Catalog) FreezeTable(ctx context.Context, table, reason string) (TableInfo, error) {
	return c.hold(ctx, table, &twophase.Held{Detail: reason})
}

// UnfreezeTable takes that back, and nothing else.
func (c *Catalog) UnfreezeTable(ctx context.Context, table, reason string) (TableInfo, error) {
	return c.hold(ctx, table, &twophase.Held{Off: true, Detail: reason})
}

// hold appends the record unless the fold, at a head that was read, says that it changes
// nothing. Whoever is refused because somebody else was faster finds that, too.
func (c *Catalog) hold(ctx context.Context, ref string, r *twophase.Held) (TableInfo, error) {
	if err := checkText("reason", r.Detail); err != nil {
		return TableInfo{}, err
	}
	r.Detail = clip(r.Detail, 1024)
	for {
		if err := c.catchUp(ctx); err != nil {
			return TableInfo{}, err
		}
		row, err := c.table(ref)
		if err != nil {
			return TableInfo{}, err
		}
		r.Table = row.ID
		if c.isHeld(row.ID) != r.Off {
			return c.full(row.ID), nil
		}
		err = c.adminRecord(ctx, r)
		if err == nil {
			return c.full(row.ID), nil
		}
		if !errors.Is(err, &Error{Reason: BrokenInvariant}) || c.isHeld(row.ID) == r.Off {
			return TableInfo{}, err
		}
	}
}

func (c *Catalog) isHeld(id twophase.TableID) (held bool) {
	c.ledger.read(func(s *twophase.State) {
		t, ok := s.Table(id)
		held = ok && t.Held != nil
	})
	return held
}
