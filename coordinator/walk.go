package coordinator

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/txcoord/txcoord/tables"
	"github.com/txcoord/txcoord/tables/objstore"
	"github.com/txcoord/txcoord/twophase"
)

// errLookAgain: what a walk rests on has become too old for a put (R9, R10). A new
// walk begins.
var errLookAgain = errors.New("the walk's sight or its fold is too old for a put")

// errMoved: the folder that a version was to go into is not the table's log. A new walk
// finds out what became of that.
var errMoved = errors.New("the log is not where it was")

// movedAtMost is how often in a row a walk may find a log in place that a put then does
// not: folders come and go under it.
const movedAtMost = 3

// walk carries out a walk through a table's log (twophase.Walk) to its end: for a
// round it puts what is missing, for a look-up it makes foreign versions history.
// What has to be recorded first is recorded, and a new walk begins.
func (c *Catalog) walk(ctx context.Context, t *handle, lookUp bool) (twophase.WalkDone, error) {
	return c.walkFor(ctx, t, aim{lookUp: lookUp})
}

// aim is what a walk is for: to look only, or to put what is missing, with a barrier for
// the changes that an operator gives up (R4). It ends when none of those is pending.
type aim struct {
	lookUp bool
	giveUp map[twophase.TxnID]bool
}

func (c *Catalog) walkFor(ctx context.Context, t *handle, what aim) (twophase.WalkDone, error) {
	none := twophase.WalkDone{}
	unfit, moved := "", 0
	for {
		if what.giveUp != nil && !c.needsAny(t.id, what.giveUp) {
			return none, nil
		}
		sight, glance := t.lastSight()
		in, at, err := c.walkFrom(t, what, sight)
		if err != nil {
			return none, err
		}
		end, err := c.walkOnce(ctx, t, in, glance)
		if errors.Is(err, errMoved) {
			if moved++; moved == movedAtMost {
				return none, c.objectsError(t.uri, err)
			}
		}
		if errors.Is(err, errLookAgain) || errors.Is(err, errMoved) {
			if err := c.catchUp(ctx); err != nil {
				return none, err
			}
			continue
		}
		if err != nil {
			return none, err
		}
		switch end := end.(type) {
		case twophase.WalkDone:
			t.stop(nil)
			return end, nil
		case twophase.AppendRecord:
			if err := c.record(ctx, t, end, at); err != nil {
				return none, err
			}
		case twophase.WalkUnfit:
			// Fold to a head that is read now, and walk again; the same finding twice
			// is a contradiction (R3, A17).
			if end.Reason == unfit {
				return none, c.contradiction(ctx, t, end.Reason)
			}
			unfit = end.Reason
			if err := c.catchUp(ctx); err != nil {
				return none, err
			}
		}
	}
}

// walkFrom is what a walk starts from, and the position of the fold that says so.
func (c *Catalog) walkFrom(t *handle, what aim, sight twophase.Sight) (in twophase.WalkInput, at twophase.Position, err error) {
	c.ledger.read(func(s *twophase.State) {
		row, ok := s.Table(t.id)
		switch {
		case !ok || row.Released:
			err = &Error{Reason: TableNotFound, Message: "table " + string(t.id) + " is not in the catalog"}
		case closed(row):
			err = frozenError(infoOf(row))
		default:
			in, at = s.WalkInput(t.id, sight.Ended(row)), s.Next()
			in.LookUp, in.GiveUp = what.lookUp, what.giveUp
		}
	})
	return in, at, err
}

// closed reports whether a table's log is not looked at, and not written, until an
// operator has said what is to become of it (R12).
func closed(t *twophase.Table) bool {
	return t.Frozen != nil && t.Frozen.Origin == t.Table &&
		(t.Frozen.Cause == twophase.CauseReplaced || t.Frozen.Cause == twophase.CauseContradiction)
}

// record appends what a walk found, from a fold at a position. That the fold has
// moved meanwhile is no error.
func (c *Catalog) record(ctx context.Context, t *handle, found twophase.AppendRecord, at twophase.Position) error {
	rec := found.Record
	if f, ok := rec.(*twophase.Foreign); ok {
		c.log.Debug("foreign commit", "table", t.uri, "version", f.Version, "engine", f.Engine)
		if n := t.foreign.count(c.cfg.Boot()); n > 0 {
			c.log.Info("foreign commits", "table", t.uri, "count", n, "newest", f.Version, "engine", f.Engine)
		}
		c.learnPaths(ctx, t, f)
		stored, err := c.spill(ctx, f)
		if err != nil {
			return err
		}
		rec = stored
	}
	was := c.row(t.id).Mode
	err := c.submitFetching(ctx, twophase.Request{Record: rec, Base: found.Base})
	var refused *twophase.Refused
	if errors.As(err, &refused) && refused.Reason == twophase.ReasonStale {
		if c.next() > at {
			return nil
		}
		return c.tableError(t, BrokenInvariant, "the fold does not take what its log shows", refused)
	}
	if errors.As(err, &refused) {
		return c.refusal(txnRef{}, refused)
	}
	if err != nil {
		return c.storeError(err)
	}
	if f, ok := found.Record.(*twophase.Foreign); ok {
		c.cfg.Telemetry.Foreign(f.Engine)
	}
	c.alarm(t, was)
	if _, ok := rec.(*twophase.Replaced); ok {
		c.log.Error("the log at the table's place is not the table's any more; the table is frozen", "table", t.uri)
	}
	return nil
}

// spill moves the facts of a large foreign commit into an object (R8).
func (c *Catalog) spill(ctx context.Context, f *twophase.Foreign) (*twophase.Foreign, error) {
	if len(f.Facts) <= c.cfg.Limits.FactsBytes {
		return f, nil
	}
	ref, err := c.facts.store(ctx, f.Facts)
	if err != nil {
		return nil, c.objectsError("", err)
	}
	out := *f
	out.FactsRef = ref
	return &out, nil
}

// alarm says that a table that others were said not to write has become open (R11).
func (c *Catalog) alarm(t *handle, was twophase.Mode) {
	if is := c.row(t.id); was != twophase.ModeOpen && is.Mode == twophase.ModeOpen && is.ModeReason != "" {
		article := "a "
		if was == twophase.ModeExclusive {
			article = "an "
		}
		c.log.Error("somebody else wrote "+article+was.String()+" table; its mode is open from now on", "table", t.uri, "reason", is.ModeReason)
	}
}

// contradiction stops a table whose log and journal disagree, for everybody and
// until an operator has looked (R3, R12).
func (c *Catalog) contradiction(ctx context.Context, t *handle, why string) error {
	err := c.tableError(t, LogContradiction, "journal and log disagree: "+why, nil)
	t.stop(err)
	c.log.Error("journal and log disagree; the table is frozen", "table", t.uri, "reason", why)
	rec := &twophase.Frozen{Table: t.id, Cause: twophase.CauseContradiction, Detail: clip(why, 500)}
	if failed := c.adminRecord(ctx, rec); failed != nil {
		return failed
	}
	return err
}

// walkOnce carries out effects until the walk ends. A walk that puts something holds
// one of the places for puts all the while, so that waiting for it does not make
// its sight old.
func (c *Catalog) walkOnce(ctx context.Context, t *handle, in twophase.WalkInput, glance uint64) (twophase.WalkEffect, error) {
	if !in.LookUp && len(in.Changes) > 0 {
		leave, err := c.publisher.puts.take(ctx, t.uri, in.GiveUp != nil || c.urgent.any(in.Changes))
		if err != nil {
			return nil, err
		}
		defer leave()
		// A whole state may have to be read for it. If it fails, a put says so.
		c.tables.warm(ctx, t, in.Recorded)
		_ = t.tail.on(ctx, t.listed, in.Recorded, nil)
	}
	listed := t.listed.before(&in)
	w := twophase.NewWalk(in, listed.at)
	for {
		var result twophase.WalkResult
		limit := c.limitOf(w.Next())
		err := c.within(ctx, t, limit, func(ctx context.Context) (err error) {
			step := func() error { result, err = c.carryOut(ctx, t, w, in, listed.Listing); return err }
			if puts(w.Next()) {
				return step() // which is more than one request
			}
			return c.awaited(t, read, limit, step)
		})
		if err != nil {
			return nil, err
		}
		if result == nil {
			return w.Next(), nil
		}
		listed = madeListing{}
		w.Feed(result, c.cfg.Boot())
		t.keepSight(glance, w.Sight())
	}
}

func puts(e twophase.WalkEffect) bool {
	switch e.(type) {
	case twophase.PutVersion, twophase.PutBarrier:
		return true
	}
	return false
}

// carryOut does what a walk needs next; nil at its end. listed is a listing of the log that
// was made when this was handed out, for something else; nil if there is none.
func (c *Catalog) carryOut(ctx context.Context, t *handle, w *twophase.Walk, in twophase.WalkInput, listed *tables.Listing) (twophase.WalkResult, error) {
	switch e := w.Next().(type) {
	case twophase.ClaimPlace:
		return c.claimPlace(ctx, t)
	case twophase.ReadVersion:
		return c.readVersion(ctx, t, e.Version)
	case twophase.ListFrom:
		return c.listFrom(ctx, t, e.Version, in.Identity, listed)
	case twophase.ReadCleaned:
		return c.readCleaned(ctx, t, in.Recorded)
	case twophase.PutVersion:
		return c.putVersion(ctx, t, w, &in, e)
	case twophase.PutBarrier:
		return c.putBarrier(ctx, t, w, &in, e)
	}
	return nil, nil
}

// limitOf is how long one effect of a walk may take.
func (c *Catalog) limitOf(effect twophase.WalkEffect) time.Duration {
	if _, ok := effect.(twophase.ReadCleaned); ok {
		return 10 * c.cfg.Limits.PutDeadline // a whole state
	}
	return c.cfg.Limits.PutDeadline
}

// within bounds a step of a walk, so that a request that hangs is a failure of its
// table, which R12 can count, and not the end of all looking.
func (c *Catalog) within(ctx context.Context, t *handle, limit time.Duration, step func(context.Context) error) error {
	short, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	err := step(short)
	if isContext(err) && ctx.Err() == nil {
		return c.objectsError(t.uri, fmt.Errorf("%w within %s", objstore.ErrNoAnswer, limit))
	}
	return err
}
