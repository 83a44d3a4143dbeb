package coordinator

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sort"
	"sync"
	"sync/atomic"
	"time"

	"github.com/txcoord/txcoord/twophase"
)

// tableSet is the versions of all tables at one snapshot. It is never changed once
// made, so that readers share it.
type tableSet struct {
	version twophase.SnapshotVersion
	time    twophase.Time
	added   int // later snapshots that are in it, too (asOf)
	tables  map[twophase.TableID]twophase.Version
}

// latest is made from the fold's table rows, and shared until the next snapshot.
func (c *Catalog) latest() *tableSet {
	var set *tableSet
	c.ledger.read(func(s *twophase.State) {
		if set = c.sets.newest.Load(); set != nil && set.version == s.Shown() {
			return
		}
		set = &tableSet{version: s.Shown(), time: s.Time(), tables: make(map[twophase.TableID]twophase.Version)}
		if snaps := s.Snapshots(); len(snaps) > 0 {
			set.time = snaps[len(snaps)-1].Time
		}
		for _, t := range s.Tables() {
			if t.Shown != twophase.NoVersion {
				set.tables[t.Table] = t.Shown
			}
		}
		c.sets.newest.Store(set)
	})
	return set
}

// at is a snapshot by its version: from the newest one backwards as far as the fold
// goes, from the manifests before that.
func (c *Catalog) at(ctx context.Context, v twophase.SnapshotVersion) (*tableSet, error) {
	set := c.latest()
	if v == set.version {
		return set, nil
	}
	if v > set.version {
		return nil, &Error{Reason: SnapshotNotFound, Message: fmt.Sprintf("there is no snapshot %d; the newest is %d", v, set.version)}
	}
	if set := c.sets.recent(v); set != nil {
		return set, nil
	}
	base, changes, ok := c.back(v)
	if ok {
		set = base.forward(changes, v)
	} else if set = c.undone(set, v); set == nil {
		var err error
		if set, err = c.manifests.at(ctx, v); err != nil {
			return nil, err
		}
	}
	c.sets.keep(set)
	return set, nil
}

// undone is a snapshot below another by what the fold says: of each table that a snapshot
// between them changed, it is what the newest one before says. A start has no full set in
// memory, and there may be a thousand manifests since the newest in the warehouse. nil if
// the fold does not go back far enough.
func (c *Catalog) undone(from *tableSet, v twophase.SnapshotVersion) (set *tableSet) {
	c.ledger.read(func(s *twophase.State) {
		snaps := s.Snapshots()
		i := sort.Search(len(snaps), func(i int) bool { return snaps[i].Version >= v })
		if i == len(snaps) || snaps[i].Version != v {
			return
		}
		tables, unknown := maps.Clone(from.tables), map[twophase.TableID]bool{}
		for _, sn := range snaps[i+1:] {
			if sn.Version <= from.version {
				eachChange(sn, func(id twophase.TableID, _ twophase.Version) {
					unknown[id] = true
					delete(tables, id)
				})
			}
		}
		for before := i; len(unknown) > 0; before-- {
			if before < 0 {
				return
			}
			eachChange(snaps[before], func(id twophase.TableID, at twophase.Version) {
				if unknown[id] && at != twophase.NoVersion {
					tables[id] = at
				}
				delete(unknown, id)
			})
			if snaps[before].Version == s.Rebuilt()+1 {
				break // it names all tables that there were
			}
		}
		set = &tableSet{version: v, time: snaps[i].Time, tables: tables}
	})
	return set
}

// eachChange yields the tables that a snapshot changed: NoVersion of one that left.
func eachChange(sn *twophase.Snapshot, yield func(twophase.TableID, twophase.Version)) {
	for _, t := range sn.Tables {
		yield(t.Table, t.Version)
	}
	for _, id := range sn.Removed {
		yield(id, twophase.NoVersion)
	}
}

// tableSets keeps a few sets: clients that read one snapshot ask for it again and
// again, once for each table.
type tableSets struct {
	newest atomic.Pointer[tableSet]

	mu   sync.Mutex
	last [8]*tableSet
	next int
}

func (k *tableSets) recent(v twophase.SnapshotVersion) *tableSet {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, set := range k.last {
		if set != nil && set.version == v {
			return set
		}
	}
	return nil
}

func (k *tableSets) keep(set *tableSet) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.last[k.next%len(k.last)] = set
	k.next++
}

// back returns a full set at or below v and the changes from there up to v.
func (c *Catalog) back(v twophase.SnapshotVersion) (*tableSet, []*twophase.Snapshot, bool) {
	base := c.manifests.nearest(v)
	var changes []*twophase.Snapshot
	ok := false
	c.ledger.read(func(s *twophase.State) {
		snaps := s.Snapshots()
		if made := s.Rebuilt(); v > made && base.version < made {
			base = &tableSet{version: made} // the first snapshot of a rebuild names all tables
		}
		i := sort.Search(len(snaps), func(i int) bool { return snaps[i].Version > base.version })
		j := sort.Search(len(snaps), func(i int) bool { return snaps[i].Version > v })
		ok = j > i && snaps[i].Version == base.version+1 || base.version == v
		changes = slices.Clone(snaps[i:j])
	})
	return base, changes, ok
}

// forward is a copy with what later snapshots changed.
func (t *tableSet) forward(changes []*twophase.Snapshot, upTo twophase.SnapshotVersion) *tableSet {
	out := &tableSet{version: t.version, time: t.time, tables: maps.Clone(t.tables)}
	if out.tables == nil {
		out.tables = map[twophase.TableID]twophase.Version{}
	}
	for _, s := range changes {
		if s.Version > out.version && s.Version <= upTo {
			out.apply(s)
		}
	}
	return out
}

// apply changes the set itself.
func (t *tableSet) apply(s *twophase.Snapshot) {
	for _, st := range s.Tables {
		t.tables[st.Table] = st.Version
	}
	for _, id := range s.Removed {
		delete(t.tables, id)
	}
	t.version, t.time = s.Version, s.Time
}

// asOf is what TIMESTAMP AS OF shows on each table: the rounds and foreign commits
// whose own time is not after a time, whole. A round's own time is that of its
// opening, which its in-commit timestamps carry; rounds of other tables may have been
// opened later and published before. So the newest snapshot up to which nothing is
// younger may not be all: what follows, and is old enough, is added. Rounds that share
// a table never overlap, so the sum is one that can be read: each transaction is in it
// with all its tables, together with all that it follows on them.
//
// Of what only manifests still hold, the journal's times count.
func (c *Catalog) asOf(ctx context.Context, at time.Time) (*tableSet, error) {
	whole, added, oldest := c.notAfter(at)
	if whole == 0 && len(added) == 0 {
		if oldest <= 1 {
			return nil, &Error{Reason: SnapshotNotFound, Message: fmt.Sprintf("there is no snapshot as old as %s", at.UTC().Format(time.RFC3339Nano))}
		}
		v, err := c.manifests.atTime(ctx, at, oldest-1)
		if err != nil {
			return nil, err
		}
		return c.at(ctx, v)
	}
	set := &tableSet{}
	if whole > 0 {
		var err error
		if set, err = c.at(ctx, whole); err != nil || len(added) == 0 {
			return set, err
		}
	}
	out := set.forward(nil, whole)
	for _, s := range added {
		out.apply(s)
	}
	out.version, out.time, out.added = set.version, set.time, len(added)
	return out, nil
}

// notAfter are the newest snapshot up to which all are of a time or older, and those
// after it that are, too; oldest is the oldest that the fold holds.
func (c *Catalog) notAfter(at time.Time) (whole twophase.SnapshotVersion, added []*twophase.Snapshot, oldest twophase.SnapshotVersion) {
	c.ledger.read(func(s *twophase.State) {
		next := twophase.SnapshotVersion(0)
		for _, sn := range s.Snapshots() {
			if oldest == 0 {
				oldest, next = sn.Version, sn.Version
			}
			switch {
			case ownTime(sn).Std().After(at):
			case sn.Version == next:
				whole, next = sn.Version, next+1
			default:
				added = append(added, sn)
			}
		}
	})
	if whole == 0 && len(added) > 0 && oldest > 1 {
		whole = oldest - 1
	}
	return whole, added, oldest
}

// ownTime is the time that a snapshot's versions are of.
func ownTime(s *twophase.Snapshot) twophase.Time {
	if s.AsOf == 0 {
		return s.Time
	}
	return s.AsOf
}
