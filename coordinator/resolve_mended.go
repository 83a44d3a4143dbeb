package coordinator

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/txcoord/txcoord/tables"
	"github.com/txcoord/txcoord/twophase"
)

// mending is what stands at the place of a table that counts as replaced.
type mending struct {
	// whole: the log is its own again. damaged are its versions if it is its own and not whole.
	whole   bool
	damaged []damagedVersion
}

// isMended looks whether the log of a table that counts as replaced is its own again: all
// recorded versions that are there are what was recorded, a walk from the newest one finds
// that, or a checkpoint of this very table that covers it, and the state there can be read.
// Nothing is written. A table that an operator has given up is none.
func (c *Catalog) isMended(ctx context.Context, id twophase.TableID) (mending, error) {
	var in twophase.WalkInput
	ask := false
	c.ledger.read(func(s *twophase.State) {
		m, ok := s.Mending(id)
		if !ok || m.Origin.Recorded == twophase.NoVersion || groundOf(m.Origin.Frozen) == twophase.GroundGivenUp {
			return
		}
		in, ask = s.WalkInput(m.Origin.Table, twophase.NoSight), true
		in.LookUp = true
	})
	if !ask {
		return mending{}, nil
	}
	t, err := c.tables.of(in.Table)
	if err != nil {
		return mending{}, err
	}
	shows, err := c.compareLog(ctx, t, in)
	if err != nil {
		return mending{}, err
	}
	whole, err := c.walksAgain(ctx, t, in)
	switch {
	case err != nil:
		return mending{}, err
	case len(shows.damaged) > 0 && (whole || shows.own):
		return mending{damaged: shows.damaged}, nil
	}
	return mending{whole: whole}, nil
}

// walksAgain reports whether a walk of a table's log fits the fold, and its state can be read.
func (c *Catalog) walksAgain(ctx context.Context, t *handle, in twophase.WalkInput) (bool, error) {
	_, glance := t.lastSight()
	end, err := c.walkOnce(ctx, t, in, glance)
	if isLogsOwn(err) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	switch end := end.(type) {
	case twophase.WalkUnfit:
		return false, nil
	case twophase.AppendRecord:
		switch end.Record.(type) {
		case *twophase.Replaced:
			return false, nil
		case *twophase.Range:
			return true, nil // the state was read for it
		}
	}
	_, err = t.log.State(ctx, in.Recorded)
	if _, bad := errors.AsType[*tables.LogError](err); bad {
		return false, nil
	}
	return err == nil, c.objectsError(t.uri, err)
}

// lookFirst: a replaced table is not closed before its log was looked at.
func lookFirst(row TableInfo, err error) error {
	own, ok := errors.AsType[*Error](err)
	if !ok {
		return err
	}
	out := *own
	out.Message = fmt.Sprintf("whether the log of table %s is its own again cannot be looked at: %s. If its location is gone for good: --give-up", row.Name, own.Message)
	return &out
}

// isLogsOwn: what stands there cannot be read as this table's log, in contrast to a store
// that does not answer.
func isLogsOwn(err error) bool {
	own, ok := errors.AsType[*Error](err)
	return ok && own.Reason != ObjectsUnavailable && own.Reason != StoreUnavailable
}

// planMended lifts the freeze. Nothing is given up, so nothing has to be waited for: the next
// walk looks at the log again, whoever makes it (R9).
func (r *Resolution) planMended(s *twophase.State, id twophase.TableID, reason string) {
	m, ok := s.Mending(id)
	if !ok {
		return
	}
	name := m.Origin.Name
	r.at = m.Origin.Table
	for _, id := range m.Freed {
		r.Freed = append(r.Freed, nameOf(s, id))
	}
	slices.Sort(r.Freed)
	for _, id := range m.Left {
		r.StillFrozenBy = append(r.StillFrozenBy, nameOf(s, id))
	}
	r.Steps = append(r.Steps, ResolveStep{
		Kind: "mended", Table: name,
		Text:   fmt.Sprintf("the log at the place of table %s is its own again, whole: it may be written, what waits is published, and nothing is given up", name),
		record: &twophase.Thawed{Table: m.Origin.Table, Mended: true, Detail: clip(reason, 1024)},
	})
}
