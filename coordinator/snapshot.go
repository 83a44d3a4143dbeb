package coordinator

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sort"

	"github.com/txcoord/txcoord/tables"
	"github.com/txcoord/txcoord/twophase"
)

// Snapshot answers which versions of the tables belong together.
func (c *Catalog) Snapshot(ctx context.Context, ref SnapshotRef, filter []string) (Snapshot, error) {
	set, err := c.resolveSnapshot(ctx, ref)
	if err != nil {
		return Snapshot{}, err
	}
	out := Snapshot{Version: set.version, Time: set.time.Std(), Added: set.added}
	c.ledger.read(func(s *twophase.State) {
		for id, v := range set.tables {
			t, ok := s.Table(id)
			if !ok {
				continue
			}
			out.Tables = append(out.Tables, SnapshotTable{
				ID: id, Name: t.Name, URI: t.URI, Version: v,
				Frozen: t.Freezing() != nil && set.version == s.Shown(),
			})
		}
		for name, v := range s.Tags() {
			if v == set.version {
				out.Tags = append(out.Tags, name)
			}
		}
	})
	slices.Sort(out.Tags)
	slices.SortFunc(out.Tables, func(a, b SnapshotTable) int { return compare(a.Name, b.Name) })
	if len(filter) == 0 {
		return out, nil
	}
	return c.only(out, filter)
}

// only keeps the tables that a filter names; each must be there.
func (c *Catalog) only(s Snapshot, filter []string) (Snapshot, error) {
	var kept []SnapshotTable
	for _, ref := range filter {
		uri := ref
		if isURI(ref) {
			if u, err := canonicalTable(ref); err == nil {
				uri = u
			}
		}
		i := slices.IndexFunc(s.Tables, func(t SnapshotTable) bool { return t.Name == ref || string(t.ID) == ref || t.URI == uri })
		if i < 0 {
			return Snapshot{}, &Error{
				Reason: TableNotFound, Message: fmt.Sprintf("table %q is not in snapshot %d", clip(tables.WithoutPassword(ref), 256), s.Version),
				Field: &FieldDetail{Field: "tables", Value: clip(tables.WithoutPassword(ref), 256), Remedy: "name a table of that snapshot"},
			}
		}
		kept = append(kept, s.Tables[i])
	}
	s.Tables = kept
	return s, nil
}

func (c *Catalog) resolveSnapshot(ctx context.Context, ref SnapshotRef) (*tableSet, error) {
	version := ref.Version
	if err := c.reach(ctx, version); err != nil {
		return nil, err
	}
	switch {
	case ref.Tag != "":
		if version = c.tagged(ref.Tag); version == 0 {
			return nil, &Error{Reason: SnapshotNotFound, Message: fmt.Sprintf("there is no tag %q", clip(ref.Tag, 256))}
		}
	case !ref.Time.IsZero():
		return c.asOf(ctx, ref.Time)
	case version == 0:
		return c.latest(), nil
	}
	return c.at(ctx, version)
}

// reach folds what other replicas have appended where a snapshot is not known here, or the
// latest is meant (0), whatever is then asked about it.
func (c *Catalog) reach(ctx context.Context, v twophase.SnapshotVersion) error {
	if v > 0 && v <= c.Shown() {
		return nil
	}
	return c.freshLatest(ctx)
}

// change describes a snapshot; before is the set of the one below.
func (c *Catalog) change(s *twophase.Snapshot, before *tableSet) SnapshotChange {
	out := SnapshotChange{Version: s.Version, Time: s.Time.Std(), Kind: s.Kind}
	c.ledger.read(func(st *twophase.State) {
		for _, t := range s.Tables {
			from, ok := before.tables[t.Table]
			if !ok {
				from = twophase.NoVersion
			}
			out.Tables = append(out.Tables, tableChange(st, t.Table, from, t.Version))
		}
		for _, id := range s.Removed {
			out.Tables = append(out.Tables, tableChange(st, id, before.tables[id], twophase.NoVersion))
		}
		out.Txns = snapshotTxns(st, s)
	})
	slices.SortFunc(out.Tables, func(a, b TableChange) int { return compare(a.Name, b.Name) })
	return out
}

func tableChange(st *twophase.State, id twophase.TableID, from, to twophase.Version) TableChange {
	ch := TableChange{ID: id, From: from, To: to}
	if t, ok := st.Table(id); ok {
		ch.Name, ch.URI = t.Name, t.URI
	}
	return ch
}

func snapshotTxns(st *twophase.State, s *twophase.Snapshot) []SnapshotTxn {
	out := make([]SnapshotTxn, 0, len(s.Txns))
	for _, id := range s.Txns {
		t := SnapshotTxn{Txn: id, Snapshot: s.Version}
		if o := st.Outcome(id); o != nil && o.Commit != nil {
			t.Key = o.Commit.Key
			for i := range o.Commit.Parts {
				t.Tables = append(t.Tables, o.Commit.Parts[i].Table)
			}
		}
		out = append(out, t)
	}
	return out
}

// changes are the snapshots after one version and up to another, as the fold holds
// them; ok is false if some are only in the manifests.
func (c *Catalog) changes(after, upTo twophase.SnapshotVersion) (out []*twophase.Snapshot, ok bool) {
	c.ledger.read(func(s *twophase.State) {
		snaps := s.Snapshots()
		i := sort.Search(len(snaps), func(i int) bool { return snaps[i].Version > after })
		j := sort.Search(len(snaps), func(i int) bool { return snaps[i].Version > upTo })
		out = slices.Clone(snaps[i:j])
		ok = after >= upTo || len(out) > 0 && out[0].Version == after+1
	})
	return out, ok
}

func outOfRange(v twophase.SnapshotVersion) error {
	return &Error{Reason: SnapshotOutOfRange, Message: fmt.Sprintf("what snapshot %d changed is no longer kept in memory; read its manifest", v)}
}

// Snapshots lists snapshots, newest first, each with what it changed.
func (c *Catalog) Snapshots(ctx context.Context, table string, size int, page string) (SnapshotPage, error) {
	before, err := decodePage(page)
	if err != nil {
		return SnapshotPage{}, err
	}
	if page == "" { // which begins with the latest
		if err := c.reach(ctx, 0); err != nil {
			return SnapshotPage{}, err
		}
	}
	var filter twophase.TableID
	if table != "" {
		row, err := c.table(table)
		if err != nil {
			return SnapshotPage{}, err
		}
		filter = row.ID
	}
	var rows []*twophase.Snapshot
	more := false
	size = pageSize(size)
	c.ledger.read(func(s *twophase.State) {
		snaps := s.Snapshots()
		for i := len(snaps) - 1; i >= 0; i-- {
			sn := snaps[i]
			if uint64(sn.Version) >= before || filter != "" && !touches(sn, filter) {
				continue
			}
			if len(rows) == size {
				more = true
				return
			}
			rows = append(rows, sn)
		}
	})
	var out SnapshotPage
	if len(rows) == 0 {
		return out, nil
	}
	last := rows[len(rows)-1].Version
	if out.Snapshots, err = c.described(ctx, rows); err != nil {
		return SnapshotPage{}, err
	}
	if more {
		out.NextPage = encodePage(uint64(last))
	}
	return out, nil
}

// described says what snapshots changed. rows are newest first, and stay so.
func (c *Catalog) described(ctx context.Context, rows []*twophase.Snapshot) ([]SnapshotChange, error) {
	first, last := rows[len(rows)-1].Version, rows[0].Version
	below := &tableSet{}
	if first > 1 {
		var err error
		if below, err = c.at(ctx, first-1); err != nil {
			return nil, err
		}
	}
	between, ok := c.changes(first-1, last)
	if !ok {
		return nil, outOfRange(first)
	}
	set := below.forward(nil, first-1)
	out := make([]SnapshotChange, len(rows))
	i := len(rows) - 1
	for _, sn := range between {
		if i >= 0 && sn == rows[i] {
			out[i] = c.change(sn, set)
			i--
		}
		set.apply(sn)
	}
	return out, nil
}

func touches(s *twophase.Snapshot, id twophase.TableID) bool {
	return slices.Contains(s.Removed, id) || slices.ContainsFunc(s.Tables, func(t twophase.SnapshotTable) bool { return t.Table == id })
}

// Watch calls yield for each snapshot after a version, in order, none left out,
// until ctx ends or yield fails. after nil means from now on.
func (c *Catalog) Watch(ctx context.Context, after *twophase.SnapshotVersion, yield func(SnapshotChange) error) error {
	var from twophase.SnapshotVersion
	if after != nil {
		from = *after
	}
	if err := c.reach(ctx, from); err != nil {
		return err
	}
	at := c.Shown()
	if after != nil {
		if *after > at {
			return &Error{Reason: SnapshotOutOfRange, Message: fmt.Sprintf("snapshot %d does not exist yet; the newest is %d", *after, at)}
		}
		at = *after
	}
	set := &tableSet{}
	if at > 0 {
		var err error
		if set, err = c.at(ctx, at); err != nil {
			return err
		}
	}
	set = set.forward(nil, at) // our own from here on
	for {
		if err := c.ledger.wait(ctx, func(s *twophase.State) bool { return s.Shown() > at }); err != nil {
			return c.ledgerError(err)
		}
		rows, ok := c.changes(at, c.Shown())
		if !ok {
			return outOfRange(at + 1)
		}
		for _, sn := range rows {
			if err := yield(c.change(sn, set)); err != nil {
				return err
			}
			set.apply(sn)
			at = sn.Version
		}
	}
}

// Diff says what changed from one snapshot to another.
func (c *Catalog) Diff(ctx context.Context, from, to twophase.SnapshotVersion) (Diff, error) {
	if err := c.reach(ctx, to); err != nil {
		return Diff{}, err
	}
	if to == 0 {
		to = c.Shown()
	}
	if from > to {
		return Diff{}, fieldError("from", fmt.Sprint(from), fmt.Sprintf("is above to, %d", to), "swap them")
	}
	a := &tableSet{}
	var err error
	if from > 0 {
		if a, err = c.at(ctx, from); err != nil {
			return Diff{}, err
		}
	}
	b := &tableSet{}
	if to > 0 {
		if b, err = c.at(ctx, to); err != nil {
			return Diff{}, err
		}
	}
	rows, ok := c.changes(from, to)
	if !ok {
		return Diff{}, outOfRange(from + 1)
	}
	out := Diff{From: from, To: to}
	c.ledger.read(func(s *twophase.State) {
		for id, v := range b.tables {
			old, ok := a.tables[id]
			if !ok {
				old = twophase.NoVersion
			}
			if old != v {
				out.Tables = append(out.Tables, tableChange(s, id, old, v))
			}
		}
		for id, v := range a.tables {
			if _, ok := b.tables[id]; !ok {
				out.Tables = append(out.Tables, tableChange(s, id, v, twophase.NoVersion))
			}
		}
	})
	for _, sn := range rows { // of which there may be very many: nothing is folded while the state is read
		c.ledger.read(func(s *twophase.State) { out.Txns = append(out.Txns, snapshotTxns(s, sn)...) })
	}
	slices.SortFunc(out.Tables, func(a, b TableChange) int { return compare(a.Name, b.Name) })
	return out, nil
}

// Tag names a snapshot; version 0 takes the name away. The warnings name tables whose
// own settings would let another engine break it.
func (c *Catalog) Tag(ctx context.Context, name string, v twophase.SnapshotVersion) ([]string, error) {
	if err := c.catchUp(ctx); err != nil { // what it names until now another replica may have said
		return nil, err
	}
	if err := checkTag(name); err != nil && !(v == 0 && c.tagged(name) != 0) { // an old name can be taken away
		return nil, err
	}
	if v == 0 {
		return nil, c.adminRecord(ctx, &twophase.Tagged{Name: name})
	}
	set, err := c.at(ctx, v)
	if err != nil {
		return nil, err
	}
	if gone, _ := c.unreadable(ctx, set); gone != nil {
		return nil, gone
	}
	was := c.tagged(name)
	if err := c.adminRecord(ctx, &twophase.Tagged{Name: name, Snapshot: v}); err != nil {
		return nil, err
	}
	gone, err := c.unreadable(ctx, set)
	if gone != nil {
		return nil, errors.Join(gone, c.untag(ctx, name, v, was))
	}
	var warnings []string
	if was != 0 && was != v {
		warnings = append(warnings, fmt.Sprintf("tag %s named snapshot %d until now, and names %d", name, was, v))
	}
	warnings = append(warnings, c.holdWarnings(ctx, hold{what: "tag " + name, snapshot: v}, set)...)
	if err != nil {
		warnings = append(warnings, messageOf(err))
	}
	return warnings, nil
}

// tagged is the snapshot of a tag; 0 if there is none.
func (c *Catalog) tagged(name string) (v twophase.SnapshotVersion) {
	c.ledger.read(func(s *twophase.State) { v = s.Tag(name) })
	return v
}

// untag takes a tag back that names what was cleaned while it was made: to what it named
// before, unless somebody has moved it since.
func (c *Catalog) untag(ctx context.Context, name string, v, was twophase.SnapshotVersion) error {
	if c.tagged(name) != v || was == v {
		return nil
	}
	return c.adminRecord(ctx, &twophase.Tagged{Name: name, Snapshot: was})
}
