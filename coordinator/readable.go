package coordinator

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/txcoord/txcoord/twophase"
)

// youngSnapshot is the age below which nobody can have cleaned the log of a table past the
// version that is its newest one still: retention below a day is refused (R21).
const youngSnapshot = 12 * time.Hour

// unreadable says of which tables a snapshot's version cannot be read any more: commits
// were cleaned, or are about to be, or the checkpoint that they rest on is gone, or the
// place is another table's. What VACUUM took of its files is not looked for. The error is a
// store's.
func (c *Catalog) unreadable(ctx context.Context, set *tableSet) (gone error, err error) {
	young := c.cfg.Now().Sub(set.time.Std()) < youngSnapshot
	ids := make([]twophase.TableID, 0, len(set.tables))
	for id := range set.tables {
		ids = append(ids, id)
	}
	lost := make([]bool, len(ids))
	err = parallelIndex(len(ids), 8, func(i int) error {
		row, v := c.row(ids[i]), set.tables[ids[i]]
		if lost[i] = v < c.logCut(ids[i]); lost[i] {
			return nil // also where this server cannot look
		}
		t, err := c.tables.of(ids[i])
		if err != nil || young && row.Version == v {
			return nil
		}
		l, err := t.log.List(ctx, 0)
		if err != nil {
			return c.objectsError(row.URI, err)
		}
		lost[i] = !l.Reads(v) || c.isReplaced(ids[i])
		return nil
	})
	var of []twophase.TableID
	for i, id := range ids {
		if lost[i] {
			of = append(of, id)
		}
	}
	if len(of) == 0 {
		return nil, err
	}
	return c.notReadable(set, of), err
}

// isReplaced: what stands at the table's place is another one's log.
func (c *Catalog) isReplaced(id twophase.TableID) (is bool) {
	c.ledger.read(func(s *twophase.State) {
		t, ok := s.Table(id)
		is = ok && closed(t) && t.Frozen.Cause == twophase.CauseReplaced
	})
	return is
}

// notReadable names the tables, by name.
func (c *Catalog) notReadable(set *tableSet, of []twophase.TableID) error {
	rows := make([]TableInfo, len(of))
	for i, id := range of {
		rows[i] = c.row(id)
	}
	slices.SortFunc(rows, func(a, b TableInfo) int { return compare(a.Name, b.Name) })
	var said []string
	for _, r := range rows[:min(len(rows), namedInOneLine)] {
		said = append(said, fmt.Sprintf("version %d of table %s", set.tables[r.ID], r.Name))
	}
	if more := len(rows) - len(said); more > 0 {
		said = append(said, fmt.Sprintf("those of %d more tables", more))
	}
	first := rows[0]
	why := "commits of the log, or the checkpoint that they rest on, are gone. Name a newer snapshot, or put the files back"
	switch {
	case slices.ContainsFunc(of, c.isReplaced):
		why = "a table was closed because another one's log stands at its place, or is gone from there, and nothing vouches for what can be read there. Name a newer snapshot"
	case slices.ContainsFunc(of, func(id twophase.TableID) bool { return set.tables[id] < c.logCut(id) }):
		why = "a clean-up has removed, or is removing, that part of the log. Name a newer snapshot"
	}
	return &Error{
		Reason:  SnapshotOutOfRange,
		Message: fmt.Sprintf("snapshot %d cannot be read any more: %s; %s", set.version, strings.Join(said, ", "), why),
		Table:   &TableDetail{Table: first.Name, TableID: first.ID, URI: first.URI, Version: set.tables[first.ID]},
	}
}
