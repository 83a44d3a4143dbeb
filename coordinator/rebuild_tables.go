package coordinator

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/txcoord/txcoord/lock"
	"github.com/txcoord/txcoord/tables"
	"github.com/txcoord/txcoord/tables/objstore"
	"github.com/txcoord/txcoord/twophase"
)

// rebuiltTable is a table as its log shows it.
type rebuiltTable struct {
	row twophase.Registered
	// shown is what the newest manifest names; NoVersion if it does not.
	shown twophase.Version
	log   *tables.Log
	// versions of ours that were read, ascending.
	versions []ourVersion
	// unbroken: every commit above shown was read. known is the time since which every
	// version was read; 0 if all were.
	unbroken bool
	known    twophase.Time
	// leftOut: it is not taken over. left is what the log still has of each transaction, if
	// that is since it went back; else nil.
	leftOut bool
	left    map[twophase.TxnID][]*tables.Tags
}

// ourVersion is a version of this catalog, of whatever incarnation.
type ourVersion struct {
	version twophase.Version
	marker  twophase.ChangeNumber
	time    twophase.Time // of its round: the same in all tables of a transaction
	tags    *tables.Tags
}

func (t *rebuiltTable) transactions() (n int) {
	for _, v := range t.versions {
		n += len(v.tags.Txns())
	}
	return n
}

// open is a table's log, through the log store where the table's mode wants that.
func (r *rebuilding) open(uri string, mode twophase.Mode) (*tables.Log, error) {
	store, key, err := r.cfg.Objects.Open(uri)
	if err != nil {
		return nil, lock.Mark(lock.ErrUnfit, fmt.Errorf("table at %s: %w", uri, err))
	}
	if !r.opts.Write {
		store = objstore.ReadOnly(store)
	}
	if mode == twophase.ModeDeltaStorage {
		store = r.c.modalStore(store, key, uri, func() twophase.Mode { return mode })
	}
	return tables.NewLog(tables.LogConfig{Store: store, Key: key, URI: uri, ReadCheckpoint: r.cfg.ReadCheckpoint, ReadAhead: r.cfg.Limits.readAhead(uri)}), nil
}

// readTables reads the candidates, and keeps those that can be taken over.
func (r *rebuilding) readTables(ctx context.Context, all []*rebuiltTable) error {
	err := parallelIndex(len(all), fsckTables, func(i int) error { return r.readTable(ctx, all[i]) })
	if err != nil {
		return err
	}
	used := map[string]bool{}
	for _, t := range all {
		if !t.leftOut && (used["id "+string(t.row.Table)] || used["name "+t.row.Name] || used["uri "+t.row.URI]) {
			r.leave(t, RebuildTwice, "another table has its id %s, its name or its place %s", t.row.Table, t.row.URI)
		}
		if t.left != nil {
			r.back = append(r.back, t)
		}
		if t.leftOut {
			continue
		}
		used["id "+string(t.row.Table)], used["name "+t.row.Name], used["uri "+t.row.URI] = true, true, true
		r.tables = append(r.tables, t)
	}
	r.left()
	return nil
}

// left are the tables that manifests name and that are not taken over.
func (r *rebuilding) left() {
	kept := map[twophase.TableID]bool{}
	for _, t := range r.tables {
		kept[t.row.Table] = true
	}
	for id, t := range r.before.seen {
		if kept[id] {
			continue
		}
		row := twophase.Registered{Table: id, Name: t.Name, URI: t.URI, Mode: twophase.ModeOpen, Version: twophase.NoVersion}
		if now, ok := r.before.tables[id]; ok {
			row.Version = now.Version
		}
		r.gone = append(r.gone, row)
	}
	slices.SortFunc(r.gone, func(a, b twophase.Registered) int { return compare(a.Table, b.Table) })
}

// leave leaves a table out.
func (r *rebuilding) leave(t *rebuiltTable, code RebuildCode, what string, args ...any) {
	t.leftOut = true
	r.found(RebuildFinding{Code: code, Table: t.row.Name, TableID: t.row.Table, What: fmt.Sprintf(what, args...)})
}

// readTable reads owner object, state and versions of a table.
func (r *rebuilding) readTable(ctx context.Context, t *rebuiltTable) (err error) {
	if t.log, err = r.open(t.row.URI, twophase.ModeOpen); err != nil {
		return err
	}
	owner, ok, err := r.readOwner(ctx, t)
	if !ok || err != nil {
		return err
	}
	t.row.Mode, t.row.OneTxnPerVersion = r.modeOf(t, owner), owner.OneTxnPerVersion
	if t.log, err = r.open(t.row.URI, t.row.Mode); err != nil {
		return err
	}
	err = r.readLog(ctx, t)
	if bad, ok := errors.AsType[*tables.LogError](err); ok {
		r.leave(t, RebuildUnreadable, "%v", bad)
		return nil
	}
	if err != nil {
		return fmt.Errorf("table %s: %w", t.row.Name, err)
	}
	return nil
}

// readOwner sees that the table is this catalog's.
func (r *rebuilding) readOwner(ctx context.Context, t *rebuiltTable) (*tables.Owner, bool, error) {
	owner, err := t.log.Owner(ctx)
	bad, isBad := errors.AsType[*tables.LogError](err)
	switch {
	case errors.Is(err, objstore.ErrNotFound):
		r.leave(t, RebuildNotOwned, "it has no owner object: it was released, or dropped, or somebody took the object away")
	case isBad:
		r.leave(t, RebuildUnreadable, "%v", bad)
	case err != nil:
		return nil, false, fmt.Errorf("table %s: %w", t.row.Name, err)
	case owner.Catalog != r.report.Catalog:
		r.leave(t, RebuildOwnedElsewhere, "it belongs to catalog %s", owner.Catalog)
	case owner.Table != t.row.Table:
		r.leave(t, RebuildNotOwned, "its place is that of table %s of this catalog now", owner.Table)
	}
	return owner, !t.leftOut, nil
}

// modeOf is the mode in which a table comes back, before its protocol was looked at.
// Nobody vouches any more that nobody else writes it. Where others write by the log
// store's protocol, forgetting that would let them overwrite us.
func (r *rebuilding) modeOf(t *rebuiltTable, owner *tables.Owner) twophase.Mode {
	for _, name := range []string{t.row.Name, string(t.row.Table)} {
		if m, given := r.opts.Modes[name]; given {
			return m
		}
	}
	if owner.Mode == twophase.ModeDeltaStorage.String() {
		return twophase.ModeDeltaStorage
	}
	if owner.Mode == twophase.ModeExclusive.String() {
		r.found(RebuildFinding{Code: RebuildMode, Table: t.row.Name, TableID: t.row.Table, What: "it was exclusive, and comes back as open"})
	}
	return twophase.ModeOpen
}

// readLog reads the newest state, and those versions whose transactions may be asked for.
func (r *rebuilding) readLog(ctx context.Context, t *rebuiltTable) error {
	listing, err := t.log.List(ctx, 0)
	if err != nil {
		return err
	}
	last := listing.Last()
	switch {
	case last == twophase.NoVersion && t.shown == twophase.NoVersion:
		t.leftOut = true
		r.found(RebuildFinding{Code: RebuildUnborn, Table: t.row.Name, TableID: t.row.Table, What: "there is an owner object and no log at " + t.row.URI})
		return nil
	case last < t.shown:
		return r.wentBack(ctx, t, listing)
	}
	state, err := t.log.State(ctx, last)
	if err != nil {
		return err
	}
	t.row.Version, t.row.MetaDataID, t.row.Marker = last, state.Profile().MetaData.ID, state.Marker(r.report.Catalog)
	if state.Profile().Fenced() {
		t.row.Mode = twophase.ModeFenced
		r.found(RebuildFinding{Code: RebuildFence, Table: t.row.Name, TableID: t.row.Table, What: "its protocol has the fence"})
	}
	if err := r.readVersions(ctx, t, listing); err != nil {
		return err
	}
	if t.known > 0 {
		r.found(RebuildFinding{
			Code: RebuildCleaned, Table: t.row.Name, TableID: t.row.Table,
			What: fmt.Sprintf("its commits are known since %s; keys of older transactions are not", t.known.Std().UTC().Format(time.RFC3339)),
		})
	}
	return nil
}

// readVersions reads the commits that are younger than what outcomes are kept for, and
// all that the newest manifest does not name.
func (r *rebuilding) readVersions(ctx context.Context, t *rebuiltTable, listing *tables.Listing) error {
	oldest := r.cfg.Now().Add(-r.cfg.Limits.OutcomeRetention)
	wanted := listing.Commits
	for len(wanted) > 0 && wanted[0].Version <= t.shown && wanted[0].Modified.Before(oldest) {
		wanted = wanted[1:]
	}
	var read []*tables.Commit
	err := t.log.EachCommit(ctx, wanted, func(_ tables.ListedCommit, c *tables.Commit, err error) error {
		c, err = slim(c, err)
		read = append(read, c)
		return err
	})
	if err != nil {
		return err
	}
	t.unbroken, t.known = true, r.sinceOf(t, read)
	next := t.shown + 1
	for _, c := range read {
		if c == nil {
			continue
		}
		if c.Version == next {
			next++
		}
		if c.Version == t.row.Version {
			t.row.Identity = c.Identity
		}
		tags, err := c.Tags(r.report.Catalog)
		if err != nil {
			return err
		}
		if tags != nil {
			marker, _ := c.Marker(r.report.Catalog)
			t.versions = append(t.versions, ourVersion{c.Version, marker, c.Timestamp, tags})
		}
	}
	t.unbroken = next > t.row.Version
	return nil
}

// slim is what is kept of a commit; nil if it was cleaned meanwhile. One that cannot be
// read counts only where readers still need it: State would have failed.
func slim(c *tables.Commit, err error) (*tables.Commit, error) {
	_, damaged := errors.AsType[*tables.LogError](err)
	switch {
	case errors.Is(err, objstore.ErrNotFound), damaged:
		return nil, nil
	case err != nil:
		return nil, err
	}
	c.Raw, c.Actions = nil, &tables.Actions{Txns: c.Actions.Txns} // the marker is among them
	return c, nil
}

// sinceOf is the time since which every version of a table was read.
func (r *rebuilding) sinceOf(t *rebuiltTable, read []*tables.Commit) twophase.Time {
	since, next := twophase.TimeOf(r.cfg.Now()), t.row.Version
	for i := len(read) - 1; i >= 0 && read[i] != nil && read[i].Version == next; i-- {
		since = read[i].Timestamp
		if tags, err := read[i].Tags(r.report.Catalog); tags == nil || err != nil {
			since = max(since, twophase.TimeOf(read[i].Object.Modified)) // another engine's clock
		}
		next--
	}
	if next == twophase.NoVersion {
		return 0
	}
	return since
}
