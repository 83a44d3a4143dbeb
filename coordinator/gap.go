package coordinator

import (
	"context"
	"errors"

	"github.com/txcoord/txcoord/tables"
	"github.com/txcoord/txcoord/twophase"
)

// isDamage reports whether a log could not be read because a version is missing in it, or
// is not what any writer leaves: empty, cut off, or no Delta commit.
func isDamage(err error) bool {
	fault, ok := errors.AsType[*tables.LogError](err)
	if !ok {
		return false
	}
	switch fault.Fault {
	case tables.Gap, tables.Empty, tables.Torn, tables.Malformed, tables.BadTags, tables.NoProtocol, tables.NoMetaData:
		return true
	default:
		return false
	}
}

// sameDamage reports whether two readings failed for the same.
func sameDamage(a, b error) bool {
	x, okX := errors.AsType[*tables.LogError](a)
	y, okY := errors.AsType[*tables.LogError](b)
	return okX && okY && x.Fault == y.Fault && x.Version == y.Version
}

// logFailed is what it means that the log of a registered table cannot be read at its
// recorded version, for whoever finds out: damage freezes the table (R12, R22).
func (c *Catalog) logFailed(ctx context.Context, t *handle, failed error) error {
	row := c.row(t.id)
	if isGone(failed) && !c.isClosed(t.id) {
		if err := c.lookAfresh(ctx, t); err != nil { // the recorded version is gone: a listing says what that means
			return err
		}
	}
	if !isDamage(failed) {
		return c.logErrorAt(row, failed)
	}
	if err := c.judgeDamage(ctx, t, row.Version, failed); err != nil {
		return err
	}
	return c.cleanedMeanwhile(row, failed)
}

// isGone reports whether the version that was asked for is not in the log.
func isGone(err error) bool {
	fault, ok := errors.AsType[*tables.LogError](err)
	return ok && fault.Fault == tables.NoVersion
}

// lookAfresh looks at a log without trusting what was seen of it shortly before: that its
// newest version has gone since shows in a listing only.
func (c *Catalog) lookAfresh(ctx context.Context, t *handle) error {
	t.forgetSight()
	_, err := c.lookUp(ctx, t)
	return err
}

// lookFor is the look of a caller who asks what is wrong with a table. That it fails is said
// where it matters, and a place that does not answer is not waited for: false then.
func (c *Catalog) lookFor(ctx context.Context, row TableInfo) (answers bool) {
	t, err := c.tables.of(row.ID)
	if err != nil || row.Version == twophase.NoVersion || row.Frozen.found() && !row.Frozen.torn() {
		return true
	}
	ctx, cancel := context.WithTimeout(ctx, latestWait)
	defer cancel()
	c.checkOwner(ctx, row)
	switch {
	case ctx.Err() != nil:
		return false
	case c.ours(row.ID) != nil:
		return true // what stands there is somebody else's, and may be put back before it is looked at
	}
	if err := c.lookAfresh(ctx, t); err != nil {
		c.log.Debug("look at a table that somebody asks about", "table", row.URI, "error", err)
	}
	return ctx.Err() == nil
}

// judgeDamage says what it means that a version at or below the recorded one is missing, or
// cannot be read as a commit, although it was whole when it was recorded. Others
// may have cleaned the log past it: a look-up makes that history (R22), or the publisher
// of the round that has put versions there. nil: read again, since the table has moved, or
// the log was cleaned while it was listed. What a second listing shows too, and no
// checkpoint covers, is damage: no reader gets past it, so nothing is committed on top
// until an operator has put the file back.
func (c *Catalog) judgeDamage(ctx context.Context, t *handle, at twophase.Version, failed error) error {
	if c.isClosed(t.id) {
		return c.logError(t.id, failed)
	}
	if _, err := c.lookUp(ctx, t); err != nil {
		return err
	}
	row := c.row(t.id)
	if row.Version != at {
		return nil
	}
	_, err := t.log.State(ctx, at)
	if err == nil {
		return nil // it was put back meanwhile, or a checkpoint covers it
	}
	fault, _ := errors.AsType[*tables.LogError](err)
	switch {
	case !isDamage(err):
		return c.logErrorAt(row, err)
	case fault.Fault != tables.Gap && sameDamage(err, failed):
		return c.freezeDamaged(ctx, t, fault)
	case fault.Fault != tables.Gap:
		return c.logErrorAt(row, err)
	}
	listing, err := t.log.List(ctx, 0)
	if err != nil {
		return c.objectsError(t.uri, err)
	}
	if _, there := listing.Commit(fault.Version); there {
		return nil
	}
	if cp, ok := listing.NewestCheckpoint(tables.Latest); ok && cp.Version >= fault.Version {
		return c.cleanedMeanwhile(row, failed)
	}
	return c.freezeDamaged(ctx, t, fault)
}

// freezeDamaged takes the table out of use for everybody, like what a walk finds (R12).
func (c *Catalog) freezeDamaged(ctx context.Context, t *handle, fault *tables.LogError) error {
	c.log.Error("the table's log is damaged; the table is frozen", "table", t.uri, "version", fault.Version, "file", fault.File)
	rec := &twophase.Frozen{Table: t.id, Cause: twophase.CauseContradiction, Detail: clip(fault.Error(), 500)}
	if err := c.adminRecord(ctx, rec); err != nil {
		return err
	}
	return c.logError(t.id, fault)
}

func (c *Catalog) isClosed(id twophase.TableID) (is bool) {
	c.ledger.read(func(s *twophase.State) {
		row, ok := s.Table(id)
		is = ok && closed(row)
	})
	return is
}

func (c *Catalog) cleanedMeanwhile(row TableInfo, cause error) error {
	return &Error{
		Reason: ObjectsUnavailable, Cause: cause,
		Message: "the table's log was cleaned while it was read, or while versions of ours wait for their record; repeat the call",
		Table:   &TableDetail{Table: row.Name, TableID: row.ID, URI: row.URI, Version: row.Version},
	}
}
