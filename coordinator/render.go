package coordinator

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/txcoord/txcoord/tables"
	"github.com/txcoord/txcoord/twophase"
)

// render makes the version's bytes on top of the one below it, which this walk has
// read or put, or which is recorded. *unwritable if it cannot be made, which is what all
// publishers of this build find (R2).
func (c *Catalog) render(ctx context.Context, t *handle, v twophase.Version, in tables.RenderInput) ([]byte, error) {
	var out tables.Rendered
	err := t.tail.on(ctx, t.listed, v-1, func(below *tables.Tail) (err error) {
		if err := t.log.Prepare(ctx, below, &in); err != nil {
			return err
		}
		out, err = c.cfg.render(in)
		switch {
		case err != nil && len(in.Txns) > 0:
			return c.blame(in, err)
		case err != nil:
			return c.tableError(t, BrokenInvariant, "a barrier cannot be rendered", err)
		}
		return nil
	})
	var own *Error
	var bad *unwritable
	switch {
	case errors.As(err, &own), errors.As(err, &bad):
		return nil, err
	case err != nil:
		return nil, c.logFailed(ctx, t, err)
	}
	if !out.Aligned {
		c.log.Warn("a version's in-commit timestamp is not its round's: the table's time is ahead",
			"table", t.uri, "version", v, "round", in.Round, versionAttr(&in), timeAttr("in_commit_timestamp", out.InCommitTimestamp))
	}
	return out.Data, nil
}

// timeAttr is a time from a table's log, which may be any number of milliseconds. As a text it can
// be said: of one past the year 9999 JSON has no time, and a log line instead of it !ERROR.
func timeAttr(name string, t twophase.Time) slog.Attr {
	return slog.String(name, t.Std().Format(time.RFC3339Nano))
}

// unwritable: a decided change of which no version of its table can be made. Nothing that
// was decided should be like that: either this build has a defect, or the decision
// overlooked something.
type unwritable struct {
	txn twophase.TxnID
	err error
}

func (u *unwritable) Error() string { return u.err.Error() }

func (u *unwritable) Unwrap() error { return u.err }

// blame finds the transaction because of which a version cannot be made: the first one up
// to which it cannot.
func (c *Catalog) blame(in tables.RenderInput, err error) *unwritable {
	all := in.Txns
	for n := 1; n < len(all); n++ {
		in.Txns = all[:n]
		if _, err := c.cfg.render(in); err != nil {
			return &unwritable{all[n-1].ID, err}
		}
	}
	return &unwritable{all[len(all)-1].ID, err}
}

// cannotWrite is what that means for the table: the same as a lost part, which nobody can
// publish either. The publisher folds again first (R20).
func (c *Catalog) cannotWrite(ctx context.Context, t *handle, bad *unwritable) error {
	if err := c.catchUp(ctx); err != nil {
		return err
	}
	if !c.needsAny(t.id, map[twophase.TxnID]bool{bad.txn: true}) {
		return errLookAgain
	}
	l := &lack{id: located{payloadID: payloadID{Txn: bad.txn, Table: t.id}}, why: bad}
	l.bytes = c.partBytes(l.id.payloadID)
	return c.tableError(t, BrokenInvariant, c.lackText(l), l)
}

// unwritten tries what a walk would put next, and puts nothing: nil if that can be made, or
// nothing is to be put. A round may be published by another replica, of another build: so
// it is not what the publisher found, but what is so here and now.
func (c *Catalog) unwritten(ctx context.Context, id twophase.TableID) (*lack, error) {
	t, err := c.tables.of(id)
	if err != nil {
		return nil, err
	}
	sight, _ := t.lastSight()
	in, _, err := c.walkFrom(t, aim{}, sight)
	if err != nil {
		return nil, err
	}
	w := twophase.NewWalk(in, c.cfg.Boot())
	for {
		var result twophase.WalkResult
		err := c.within(ctx, t, c.limitOf(w.Next()), func(ctx context.Context) (err error) {
			if next, ok := w.Next().(twophase.PutVersion); ok {
				return c.tryVersion(ctx, t, &in, next)
			}
			result, err = c.carryOut(ctx, t, w, in, nil)
			return err
		})
		switch l := lackOf(err); {
		case l != nil:
			return l, nil
		case errors.Is(err, errLookAgain):
			return nil, nil
		case err != nil || result == nil:
			return nil, err
		}
		w.Feed(result, c.cfg.Boot())
	}
}

// tryVersion renders a version for nothing.
func (c *Catalog) tryVersion(ctx context.Context, t *handle, from *twophase.WalkInput, e twophase.PutVersion) error {
	in, err := c.versionOf(ctx, t, from, e)
	if err == nil {
		_, err = c.render(ctx, t, e.Version, in)
	}
	if bad, ok := errors.AsType[*unwritable](err); ok {
		err = c.cannotWrite(ctx, t, bad)
	}
	return err
}

// cannotWriteWords are in the text of what cannot be written, wherever that ends up.
const cannotWriteWords = "cannot be made a version of the table"

func unwritableText(l *lack) string {
	return fmt.Sprintf("decided transaction %s %s by this build: %v", l.id.Txn, cannotWriteWords, l.why)
}

// isUnwritable tells such a lack from a part that is gone.
func isUnwritable(l *lack) bool {
	_, is := errors.AsType[*unwritable](l.why)
	return is
}

func unwritableRemedy(table string) string {
	return fmt.Sprintf("report it with the text above, it is a defect; a build that can write it publishes it by itself. If there is none: txcoord tables resolve %s --give-up records that the change is not applied here", table)
}
