package coordinator

import (
	"context"
	"fmt"
	"slices"

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
	if err := c.adminRecord(ctx, &twophase.ModeSet{Table: row.ID, Mode: m}); err != nil {
		return TableInfo{}, err
	}
	return c.row(row.ID), nil
}

// Thaw is the operator's word that what was given up on a frozen table stays so
// (R12). With preview it only says what that is.
func (c *Catalog) Thaw(ctx context.Context, ref string, preview bool, reason string) (Thaw, error) {
	row, err := c.table(ref)
	if err != nil {
		return Thaw{}, err
	}
	out, origin, err := c.thawPreview(row)
	if err != nil || preview {
		return out, err
	}
	if err := c.adminRecord(ctx, &twophase.Thawed{Table: origin, Detail: clip(reason, 1024)}); err != nil {
		return Thaw{}, err
	}
	out.Table = c.row(row.ID)
	return out, nil
}

func (c *Catalog) thawPreview(row TableInfo) (out Thaw, origin twophase.TableID, err error) {
	out.Table = row
	err = &Error{Reason: NothingToThaw, Message: fmt.Sprintf("table %s is not frozen, or thaws by itself", row.Name)}
	c.ledger.read(func(s *twophase.State) {
		t, ok := s.Table(row.ID)
		if !ok || t.Frozen == nil || t.Frozen.Cause == twophase.CauseStalled || t.Frozen.Resolved {
			return
		}
		err, origin = nil, t.Frozen.Origin
		for _, o := range s.Tables() {
			if o.Frozen == nil || o.Frozen.Origin != origin {
				continue
			}
			changes := slices.Clone(o.Diverged)
			if o.Table == origin && o.Frozen.Cause == twophase.CauseReplaced {
				changes = append(changes, o.Pending...)
			}
			for _, ch := range changes {
				out.GivenUp = append(out.GivenUp, givenUp(s, ch, o.Table))
			}
		}
	})
	return out, origin, err
}

func givenUp(s *twophase.State, ch *twophase.Change, id twophase.TableID) GivenUp {
	g := GivenUp{Txn: ch.Txn, Conflict: twophase.Conflict{Rule: twophase.RuleOperator}}
	o := s.Outcome(ch.Txn)
	if o == nil || o.Commit == nil {
		return g
	}
	g.Key = o.Commit.Key
	for i := range o.Parts {
		switch {
		case o.Commit.Parts[i].Table == id:
			if o.Parts[i].Conflict.Rule != twophase.RuleNone {
				g.Conflict = o.Parts[i].Conflict
			}
		case o.Parts[i].Status != twophase.StatusDiverged && o.Parts[i].Status != twophase.StatusNotApplied:
			g.AppliedOn = append(g.AppliedOn, nameOf(s, o.Commit.Parts[i].Table))
		}
	}
	return g
}
