package coordinator

import (
	"context"
	"errors"

	"github.com/txcoord/txcoord/tables"
	"github.com/txcoord/txcoord/twophase"
)

// Release takes a table out of the catalog, and then removes its owner object. A
// crash between the two leaves an owner object of ours without a table, which the
// next Register takes over, or the same call again removes. Repeating it, also because
// the first answer was lost, finds the table out of the catalog and says so, as long as
// nobody has its name or place by then.
//
// A table whose protocol has the fence is released only with keepFence: nobody would
// write it any more.
func (c *Catalog) Release(ctx context.Context, ref string, keepFence bool) error {
	row, err := c.table(ref)
	notThere := &Error{Reason: TableNotFound}
	if errors.Is(err, notThere) {
		if was := c.releasedAs(ref); was != nil {
			c.disclaim(ctx, was.Table, was.URI)
			return nil
		}
	}
	if err != nil {
		return err
	}
	if !keepFence && c.hasFence(ctx, row) {
		return fencedRelease(row)
	}
	err = c.adminRecord(ctx, &twophase.Released{Table: row.ID})
	if err != nil && !(errors.Is(err, notThere) && c.releasedAs(string(row.ID)) != nil) { // the same call elsewhere was faster
		return err
	}
	c.disclaim(ctx, row.ID, row.URI)
	return nil
}

// releasedAs is the table that was released last under a name, id or URI; nil if none is
// known.
func (c *Catalog) releasedAs(ref string) (was *twophase.Table) {
	if isURI(ref) {
		if uri, err := canonicalTable(ref); err == nil {
			ref = uri
		}
	}
	c.ledger.read(func(s *twophase.State) {
		if t := s.ReleasedAs(ref); t != nil {
			row := *t
			was = &row
		}
	})
	return was
}

func fencedRelease(row TableInfo) error {
	return wrongMode(row, "its protocol has the fence, and no engine would write it; lift it first with: tables unfence "+
		row.Name+", or release it by itself with --keep-fence")
}

// hasFence: a log that cannot be read keeps no table in the catalog.
func (c *Catalog) hasFence(ctx context.Context, row TableInfo) bool {
	if row.Mode == twophase.ModeFenced {
		return true
	}
	_, profile, err := c.tables.loaded(ctx, row.ID)
	return err == nil && profile.Fenced()
}

// disclaim removes the owner object of a released table, unless another table of this
// catalog has its place by now. Should one come to have it between the look and the removal, it
// gets its object back: from here, or, if it was not recorded yet, from who registers it.
func (c *Catalog) disclaim(ctx context.Context, id twophase.TableID, uri string) {
	extracts{c, id}.drop(ctx)
	log, err := c.tables.open(uri, func() twophase.Mode { return twophase.ModeOpen })
	if err == nil {
		_, err = c.table(uri)
		if err == nil {
			return
		}
		err = errors.Join(log.Disclaim(ctx, c.owner(id)), c.claimAgain(log, uri))
	}
	if err != nil && ctx.Err() == nil {
		c.log.Warn("remove the owner object of a released table", "table", uri, "error", err)
	}
}

// claimAgain writes the owner object of the table that has a place by now, should it be gone:
// also for a removal that was given up, or got no answer, and may have been done all the same.
func (c *Catalog) claimAgain(log *tables.Log, uri string) error {
	row, err := c.table(uri)
	if err != nil {
		return nil // there is none
	}
	ctx, cancel := context.WithTimeout(c.life, c.cfg.Limits.PutDeadline)
	defer cancel()
	return log.Claim(ctx, c.ownerOf(row), false)
}
