package coordinator

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/txcoord/txcoord/tables"
	"github.com/txcoord/txcoord/tables/objstore"
	"github.com/txcoord/txcoord/twophase"
)

// watchOwners reads each table's owner object now and then (R21). A table that
// another catalog took over takes no commits here any more; what is decided is
// published, since nothing foreign can be overwritten by it.
//
// A look that hangs is left behind, and that table is not looked at again before it is over:
// under one dead disk it would else be noticed nowhere that the catalog was rebuilt.
func (c *Catalog) watchOwners(ctx context.Context) {
	var left sync.WaitGroup
	defer left.Wait()
	var looking sync.Map // by table
	every(ctx, c.cfg.Limits.OwnerInterval, func(ctx context.Context) {
		rows, _ := c.Tables(ctx)
		_ = parallelIndex(len(rows), 8, func(i int) error {
			row := rows[i]
			if _, there := looking.LoadOrStore(row.ID, true); there || ctx.Err() != nil {
				return nil
			}
			over := make(chan struct{})
			left.Go(func() {
				defer close(over)
				defer looking.Delete(row.ID)
				c.checkOwner(ctx, row)
			})
			select {
			case <-over:
			case <-time.After(c.cfg.Limits.PutDeadline):
			}
			return nil
		})
	})
}

func (c *Catalog) checkOwner(ctx context.Context, row TableInfo) {
	t, err := c.tables.of(row.ID)
	if err != nil {
		return
	}
	var owner *tables.Owner
	err = c.awaited(t, read, c.cfg.Limits.PutDeadline, func() (err error) {
		owner, err = t.log.Owner(ctx)
		return err
	})
	if ctx.Err() == nil {
		c.troubles.look(t.uri)
	}
	var garbage *tables.LogError
	switch {
	case errors.Is(err, objstore.ErrNotFound):
		// The table was dropped, or another stands in its place. A busy table is never
		// listed, since each put is a sight of the log's end, and an idle one that nobody
		// else writes is not looked at: this look lists it, and records what that means
		// (R22), before a transaction over it is decided that it cannot get.
		t.forgetSight()
		c.lookAgain(ctx, t, row)
	case errors.As(err, &garbage):
		t.forgetSight()
		err := ownerUnreadable(row, garbage)
		if t.disown(err) {
			c.log.Error("a table's owner object makes no sense; the table takes no commits here until that is mended", "table", row.URI, "error", garbage)
		}
	case err != nil:
		c.noteWork(ctx, t.uri, read, c.logError(t.id, err))
	case owner.Catalog == c.journal.Meta().Catalog && owner.Incarnation != c.journal.Meta().Incarnation:
		_ = c.ledger.fail(superseded(row.URI, owner.Incarnation))
	case owner.Catalog == c.journal.Meta().Catalog && owner.Table == row.ID:
		c.noteWork(ctx, t.uri, read, nil)
		t.disown(nil)
		c.lookAltered(ctx, t)
		c.loadAgain(ctx, t)
		c.describeOwner(ctx, t, row, owner)
	default:
		t.forgetSight()
		err := c.ownedError(row.URI, owner)
		if t.disown(err) {
			c.log.Error("the owner object at the table's place names somebody else; it takes no commits here any more", "table", row.URI, "owner", owner.Catalog, "owner_table", owner.Table)
		}
	}
}

// ownerUnreadable: nobody knows whose a table is, so it counts as nobody's until the
// object is put back or written anew.
func ownerUnreadable(row TableInfo, bad *tables.LogError) error {
	return &Error{
		Reason: LogContradiction, Cause: bad,
		Message: fmt.Sprintf("table %s takes no commits: its owner object makes no sense (%s); put the file back, or write it anew with: %s",
			row.Name, bad.Error(), takeOver(row)),
		Table: &TableDetail{Table: row.Name, TableID: row.ID, URI: row.URI, Version: twophase.NoVersion, File: bad.File, Detail: bad.Fault.String()},
	}
}

// takeOver is the command that takes the place of a table of this catalog back. It has to say
// what the table is: another mode would be refused.
func takeOver(row TableInfo) string {
	command := fmt.Sprintf("txcoord tables register %s %s --take-over", row.Name, row.URI)
	if row.Mode != twophase.ModeOpen {
		command += " --mode " + row.Mode.String()
	}
	if row.OneTxnPerVersion {
		command += " --one-txn-per-version"
	}
	return command
}

// superseded stops a catalog whose journal is over: it was rebuilt, and whatever is
// decided here from now on would be unknown to the life that goes on (R7).
func superseded(uri, incarnation string) *Error {
	return &Error{
		Reason: JournalContradiction,
		Message: fmt.Sprintf("table %s belongs to incarnation %s of this catalog: it was rebuilt, and this journal is over; "+
			"serve the store that it was rebuilt into, or run txcoord rebuild again if that broke off", uri, incarnation),
	}
}

// describeOwner has the owner object say what the fold says of the table: what a rebuild
// finds there when the journal is lost (R7). A fence shows in the table's protocol, and
// the mode before it does no harm.
func (c *Catalog) describeOwner(ctx context.Context, t *handle, row TableInfo, have *tables.Owner) {
	want := c.ownerOf(row)
	if row.Mode == twophase.ModeFenced && have.Mode != twophase.ModeDeltaStorage.String() && have.Mode != "" {
		want.Mode = have.Mode
	}
	same := have.Name == want.Name && have.Mode == want.Mode && have.OneTxnPerVersion == want.OneTxnPerVersion
	if same || !c.tableDuty("owner "+string(row.ID), row) || c.row(row.ID).Mode != row.Mode {
		return
	}
	if err := t.log.Claim(ctx, want, false); err != nil && ctx.Err() == nil {
		c.log.Warn("bring a table's owner object up to date", "table", row.URI, "error", err)
	}
}

// lookAgain walks a table whose owner object is gone. One whose version 0 is still to
// be put has none yet.
func (c *Catalog) lookAgain(ctx context.Context, t *handle, row TableInfo) {
	if row.Version == twophase.NoVersion || row.Frozen.found() {
		return
	}
	var e *Error
	if _, err := c.lookUp(ctx, t); err != nil && ctx.Err() == nil && !(errors.As(err, &e) && e.Reason == TableFrozen) {
		c.log.Warn("look at a table whose owner object is gone", "table", row.URI, "error", err)
	}
}

// forgetSight makes the next walk list the log before it concludes or puts anything.
func (t *handle) forgetSight() {
	t.sightMu.Lock()
	defer t.sightMu.Unlock()
	t.sight, t.glances = twophase.Sight{At: twophase.NoSight}, t.glances+1
	clear(t.etags)
	t.listed.drop()
}

// disown notes why the table is not ours: another catalog owns it, or nobody knows who
// does. nil takes it back. True if that is new.
func (t *handle) disown(err error) bool {
	t.sightMu.Lock()
	defer t.sightMu.Unlock()
	news := (t.disowned == nil) != (err == nil)
	t.disowned = err
	return news
}

// ours is nil unless the table is known to be another catalog's, or nobody knows whose.
func (c *Catalog) ours(id twophase.TableID) error {
	t := c.tables.peek(id)
	if t == nil {
		return nil
	}
	t.sightMu.Lock()
	defer t.sightMu.Unlock()
	return t.disowned
}
