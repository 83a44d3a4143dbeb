package twophase

import (
	"errors"
	"fmt"
	"slices"
)

// ErrHistory means that an entry does not continue the history that was folded:
// another catalog, another incarnation, or a predecessor with another hash (R7).
// The catalog stops for writes.
var ErrHistory = errors.New("the journal does not continue the folded history")

// Apply folds the next entry. hash is that of the entry's bytes. On an error the
// state is unchanged. A record that does not fit the state is ignored: every
// replica ignores the same ones, and whoever asked for it looks at the fold (R5).
func (s *State) Apply(e *Entry, hash Hash) error {
	if err := s.continues(e); err != nil {
		return err
	}
	s.time, s.writer = e.Time, e.Writer
	if e.Checkpoint.Object.Name != "" && e.Checkpoint.Position >= s.checkpoint.Position {
		s.checkpoint = e.Checkpoint
	}
	f := fold{State: s, entry: e}
	for i, r := range e.Records {
		f.index = uint32(i)
		f.apply(r)
	}
	f.turnRounds()
	f.endReservations()
	s.compact(f.changed...)
	s.next, s.previous = e.Position+1, hash
	return nil
}

func (s *State) continues(e *Entry) error {
	switch {
	case e.Catalog != s.catalog:
		return fmt.Errorf("%w: entry %d is of catalog %s, not %s", ErrHistory, e.Position, e.Catalog, s.catalog)
	case e.Incarnation != s.incarnation:
		return fmt.Errorf("%w: entry %d is of incarnation %s, not %s", ErrHistory, e.Position, e.Incarnation, s.incarnation)
	case e.Position != s.next:
		return fmt.Errorf("%w: entry %d follows entry %d", ErrHistory, e.Position, int64(s.next)-1)
	case e.Previous != s.previous:
		return fmt.Errorf("%w: entry %d names predecessor %.8s, folded was %.8s", ErrHistory, e.Position, e.Previous, s.previous)
	}
	return nil
}

// fold is the work on one entry.
type fold struct {
	*State
	entry *Entry
	index uint32
	// changed are transactions to which nothing may happen any more after this entry.
	changed []TxnID
	// closed are the tables of rounds that this entry closed.
	closed map[TableID]bool
}

func (f *fold) apply(r Record) {
	f.touches(r)
	switch r := r.(type) {
	case *Committed:
		f.committed(r)
	case *Aborted:
		f.aborted(r)
	case *Published:
		f.published(r)
	case *Foreign:
		f.foreign(r)
	case *Barrier:
		f.barrier(r)
	case *Range:
		f.ranged(r)
	case *Replaced:
		f.replaced(r)
	case *Registered:
		f.registered(r, false)
	case *Created:
		f.registered(&r.Registered, true)
	case *Released:
		f.released(r)
	case *ModeSet:
		if t := f.live(r.Table); t != nil && t.setsMode(r) {
			t.Mode, t.Opened = r.Mode, nil
		}
	case *FenceCounted:
		f.fenceCounted(r)
	case *Frozen:
		f.frozen(r)
	case *Thawed:
		f.thawed(r)
	case *Held:
		f.hold(r)
	case *FloorRaised:
		f.floorRaised(r)
	case *SettingChanged:
		f.caps = r.Caps
	case *Checkpointed:
		if r.Position >= f.checkpoint.Position {
			f.checkpoint, f.checkpointAt = *r, f.entry.Position
		}
	case *Tagged:
		f.tagged(r)
	case *Leased:
		f.leased(r)
	case *LeaseEnded:
		f.leaseEnded(r)
	case *LogCut:
		f.logCut(r)
	case *Reserved:
		f.reserved(r)
	case *ReservationEnded:
		f.reservationEnded(r)
	case *Moved:
		f.movedTo = r.To
	case *Arrived:
		f.movedTo = ""
	case *Rebuilt:
		f.rebuild(r)
	case *BuildEnabled:
		f.codec = max(f.codec, r.Codec)
	}
}

func (f *fold) live(id TableID) *Table {
	if t, ok := f.tables[id]; ok && !t.Released {
		return t
	}
	return nil
}

// committed decides a transaction, unless a record before it did (R5).
func (f *fold) committed(c *Committed) {
	if f.isDecided(c.Txn) {
		return
	}
	if !f.catalogTakes(c) {
		return
	}
	f.createTables(c)
	o := &Outcome{Commit: c, Position: f.entry.Position, Index: f.index, Time: f.entry.Time, Parts: make([]PartOutcome, len(c.Parts))}
	f.decide(c.Txn, o)
	f.changed = append(f.changed, c.Txn)
	f.goesOn(c.Key, c.Attempt, RuleNone)
	for i := range c.Parts {
		p := &c.Parts[i]
		t := f.tables[p.Table]
		o.Parts[i] = PartOutcome{Change: t.Next, Version: NoVersion}
		past := &Past{Version: NoVersion, Change: t.Next, Txn: c.Txn, Facts: p.Facts, FactsRef: p.FactsRef}
		t.Pending = append(t.Pending, &Change{Number: t.Next, Txn: c.Txn, Part: p, place: i, past: past})
		f.remember(t, past)
		f.fenceDecided(t, p.Fence)
		t.Next++
	}
	for _, id := range c.Releases {
		f.tables[id].Leaving = c.Txn
	}
	if c.writes() {
		f.join(c)
	}
}

func (f *fold) aborted(a *Aborted) {
	if !f.isDecided(a.Txn) {
		f.decide(a.Txn, &Outcome{Abort: a, Position: f.entry.Position, Index: f.index, Time: f.entry.Time})
		f.changed = append(f.changed, a.Txn)
		f.goesOn(a.Key, a.Attempt, a.Rule)
	}
}

func (f *fold) registered(r *Registered, created bool) {
	if f.taken(r) {
		return
	}
	f.enroll(r, created)
	kind := "register"
	if created {
		kind = "create"
	}
	f.snapshot(kind, nil, []SnapshotTable{{r.Table, r.Version}}, nil)
}

// enroll makes the row of a table.
func (f *fold) enroll(r *Registered, created bool) {
	next := r.Marker + 1 // one above the marker that the log holds (R2, A20)
	if f.weak.has(weakNumbersRestart) {
		next = 1
	}
	f.tables[r.Table] = &Table{
		Registered: *r, Created: created,
		Recorded: r.Version, Identity: r.Identity, Marker: r.Marker,
		Next: next, Shown: r.Version, PastFloor: r.Version,
	}
	f.fenceFromStart(f.tables[r.Table], created)
	f.byName[r.Name], f.byURI[r.URI] = r.Table, r.Table
}

// taken reports whether the id was ever used, or the name or place is in use (R21).
func (s *State) taken(r *Registered) bool {
	_, used := s.tables[r.Table]
	return used || s.byName[r.Name] != "" || s.byURI[r.URI] != "" && !s.weak.has(weakOneURITwice)
}

func (f *fold) released(r *Released) {
	t := f.live(r.Table)
	if t == nil || f.engaged(t) {
		return
	}
	f.dismiss(t)
	if t.Shown != NoVersion { // else no snapshot ever had it
		f.snapshot("release", nil, nil, []TableID{r.Table})
	}
}

// dismiss takes a table out of the catalog.
func (f *fold) dismiss(t *Table) {
	t.Released, t.past, t.Leaving, t.ReleasedAt, t.Held = true, history{}, TxnID{}, f.entry.Time, nil
	delete(f.byName, t.Name)
	delete(f.byURI, t.URI)
}

// engaged reports whether a decided transaction is not settled on the table yet.
func (s *State) engaged(t *Table) bool {
	if len(t.Pending) > 0 || len(t.Diverged) > 0 || s.busy[t.Table] != nil {
		return true
	}
	return slices.ContainsFunc(s.waiting, func(c *component) bool { return c.tables[t.Table] })
}

// floorRaised forgets settled outcomes that were decided below the floor (R6),
// the snapshots of that time, which the manifests still hold, and the history of that
// time, which the logs still hold (R14).
func (f *fold) floorRaised(r *FloorRaised) {
	if r.Floor <= f.floor || r.Floor > f.next {
		return
	}
	f.floor = r.Floor
	f.forget()
	for _, t := range f.tables {
		t.forgetPastBelow(f.floor)
	}
	f.stale(tableSegments)
	keep := slices.IndexFunc(f.snapshots, func(s *Snapshot) bool { return s.Position >= f.floor })
	switch {
	case keep < 0 && len(f.snapshots) > 0:
		f.snapshots = f.snapshots[len(f.snapshots)-1:]
	case keep > 0:
		f.snapshots = slices.Clone(f.snapshots[keep:])
	}
	f.stale(snapshotSegments)
}

func (f *fold) tagged(r *Tagged) {
	switch {
	case r.Snapshot == 0:
		delete(f.tags, r.Name)
	case r.Snapshot <= f.shown:
		f.tags[r.Name] = tag{r.Snapshot, f.entry.Position}
	}
}

// snapshot makes the next snapshot. A table's version never goes back.
func (f *fold) snapshot(kind string, txns []TxnID, tables []SnapshotTable, removed []TableID) SnapshotVersion {
	f.shown++
	delete(f.encoded, segment{snapshotSegments, uint64(f.shown) / snapshotsPerSegment})
	for i, st := range tables {
		t := f.tables[st.Table]
		t.Shown = st.Version
		tables[i].Table = t.Table // no copy of the id for each snapshot
	}
	sn := &Snapshot{
		Version: f.shown, Time: f.entry.Time, Position: f.entry.Position,
		Kind: kind, Txns: slices.Clip(txns), Tables: tables, Removed: removed, AsOf: f.entry.Time,
	}
	f.nameSnapshot(sn)
	f.snapshots = append(f.snapshots, sn)
	return f.shown
}
