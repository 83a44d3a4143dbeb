package coordinator

import (
	"context"

	"github.com/txcoord/txcoord/twophase"
)

// SetMode changes who else may write a table.
func (c *Catalog) SetMode(ctx context.Context, ref string, m twophase.Mode) (TableInfo, error) {
	row, err := c.table(ref)
	if err != nil {
		return TableInfo{}, err
	}
	switch {
	case m == twophase.ModeFenced:
		return TableInfo{}, wrongMode(row, "fences are raised with: tables fence "+row.Name)
	case row.Mode == twophase.ModeFenced:
		return TableInfo{}, wrongMode(row, "lift the fence first, with: tables unfence "+row.Name)
	}
	if err := c.checkMode(ctx, row.URI, m); err != nil {
		return TableInfo{}, err
	}
	if row.Mode == m {
		return row, nil
	}
	t, err := c.tables.of(row.ID)
	if err != nil {
		return TableInfo{}, err
	}
	if _, err := c.lookUp(ctx, t); err != nil { // what others wrote until now is history first
		return TableInfo{}, err
	}
	// A rebuild must never take a table for open that others write by the log store's
	// protocol: so its owner object says so first, and stops saying so last.
	if m == twophase.ModeDeltaStorage {
		now := row
		now.Mode = m
		if err := t.log.Claim(ctx, c.ownerOf(now), false); err != nil {
			return TableInfo{}, c.logErrorAt(row, err)
		}
	}
	if err := c.adminRecord(ctx, &twophase.ModeSet{Table: row.ID, Mode: m}); err != nil {
		return TableInfo{}, err
	}
	row = c.full(row.ID)
	if owner, err := t.log.Owner(ctx); err == nil && owner.Table == row.ID && owner.Catalog == c.journal.Meta().Catalog {
		c.describeOwner(ctx, t, row, owner)
	}
	return row, nil
}
