package twophase

import "slices"

// published closes a round (R2). A finding about a round does not age: it is
// ignored only if the round is no longer open, or if it does not account for
// every change of the round.
func (f *fold) published(p *Published) {
	r, ok := f.Round(p.Round)
	if !ok || f.held(r) || !f.accounts(r, p) {
		return
	}
	for i := range p.Tables {
		t := f.tables[p.Tables[i].Table]
		f.deliver(t, p.Tables[i].Versions)
	}
	var tables []SnapshotTable
	var removed []TableID
	for _, id := range r.tables {
		t := f.tables[id]
		switch {
		case !t.Leaving.IsZero() && slices.Contains(r.Txns, t.Leaving):
			if t.Shown != NoVersion {
				removed = append(removed, id)
			}
			f.dismiss(t)
		case t.Recorded > t.Shown:
			tables = append(tables, SnapshotTable{id, t.Recorded})
		}
	}
	f.close(r, f.snapshot("publication", r.Txns, tables, removed))
	f.snapshots[len(f.snapshots)-1].AsOf = r.Time
}

// held reports whether a round may not close: an operator has to say what becomes
// of a change that was given up, and a snapshot keeps to the last closed version (R12).
func (s *State) held(r *Round) bool {
	if s.weak.has(weakHeldCloses) {
		return false
	}
	for _, id := range r.tables {
		if s.tables[id].Frozen.blocks() {
			return true
		}
	}
	return false
}

// accounts reports whether the publication leaves no change of the round behind.
func (s *State) accounts(r *Round, p *Published) bool {
	claimed := map[TableID][]FoundVersion{}
	for _, pt := range p.Tables {
		if s.busy[pt.Table] != r || claimed[pt.Table] != nil {
			return false
		}
		claimed[pt.Table] = pt.Versions
	}
	for _, id := range r.tables {
		t := s.tables[id]
		news := t.unrecorded(claimed[id])
		if !s.follows(t, news) || t.pendingIn(r) != countTxns(news) {
			return false
		}
	}
	return true
}

func countTxns(found []FoundVersion) int {
	n := 0
	for _, v := range found {
		n += len(v.Txns)
	}
	return n
}

func (t *Table) pendingIn(r *Round) int {
	n := 0
	for _, c := range t.Pending {
		if c.Round == r {
			n++
		}
	}
	return n
}

// unrecorded cuts off the versions that another record made history already.
func (t *Table) unrecorded(found []FoundVersion) []FoundVersion {
	for len(found) > 0 && found[0].Version <= t.Recorded {
		found = found[1:]
	}
	return found
}

// follows reports whether the versions come right after the recorded one and
// deliver the open round's pending changes on the table in their order (R2): a
// version that skipped one would let the marker speak for it.
func (s *State) follows(t *Table, found []FoundVersion) bool {
	r := s.busy[t.Table]
	if len(found) > 0 && r == nil {
		return false
	}
	next := 0
	for i, v := range found {
		if v.Version != t.Recorded+1+Version(i) || len(v.Txns) == 0 {
			return false
		}
		for _, txn := range v.Txns {
			for next < len(t.Pending) && t.Pending[next].Round != r {
				next++
			}
			if next == len(t.Pending) || t.Pending[next].Txn != txn {
				return false
			}
			next++
		}
	}
	return true
}

// deliver records versions of ours that follow the recorded one.
func (f *fold) deliver(t *Table, found []FoundVersion) {
	found = t.unrecorded(found)
	if len(found) == 0 {
		return
	}
	type at struct {
		version Version
		place   uint32
	}
	places := make(map[TxnID]at, len(t.Pending))
	for _, v := range found {
		for i, txn := range v.Txns {
			places[txn] = at{v.Version, uint32(i)}
		}
	}
	last := found[len(found)-1]
	fence := NoVersion
	t.Pending = slices.DeleteFunc(t.Pending, func(c *Change) bool {
		p, ok := places[c.Txn]
		if !ok {
			return false
		}
		f.mark(t, c, PartOutcome{Change: c.Number, Status: StatusDelivered, Version: p.version, Place: p.place})
		switch {
		case c.Part.Fence == FenceRaised:
			fence = p.version
		case c.Part.Fence == FenceLifted && f.weak.has(weakLiftPublished):
			t.Mode, t.Fence = ModeOpen, nil
		}
		if c.Txn == last.Txns[len(last.Txns)-1] {
			t.Marker = c.Number
		}
		return true
	})
	t.Recorded, t.Identity = last.Version, last.Identity
	f.pack(t)
	f.fencePublished(t, fence)
}

// mark notes what became of a change. After giving changes up the table is swept.
func (f *fold) mark(t *Table, c *Change, what PartOutcome) {
	f.touched(f.unsettled[c.Txn]).Parts[c.place] = what
	if what.Status == StatusDelivered {
		c.past.Version = what.Version
		return
	}
	c.past.gone = true
	t.past.bytes -= c.past.cost()
}

// sweep takes changes that were given up out of the history: no version holds them.
func (f *fold) sweep(t *Table) {
	t.past.tail = slices.DeleteFunc(t.past.tail, func(p *Past) bool { return p.gone })
	f.pack(t)
}

// present is a live table whose log still is its own: what stands in the place of a
// replaced table is none of its history (R22).
func (f *fold) present(id TableID) *Table {
	if t := f.live(id); t != nil && !t.isReplaced() {
		return t
	}
	return nil
}

// foreign makes a foreign version history (R4): the first record for a version
// counts, and only one that leaves no pending change without a verdict.
func (f *fold) foreign(r *Foreign) {
	t := f.present(r.Table)
	if t == nil || !f.next1(t, r.Version, r.Found) || !f.covered(t, foundTxns(r.Found), r.Verdicts, 0) {
		return
	}
	f.deliver(t, r.Found)
	f.judge(t, r.Verdicts)
	t.Recorded, t.Identity = r.Version, r.Identity
	if r.MetaDataID != "" {
		t.MetaDataID = r.MetaDataID // CREATE OR REPLACE inside one log (R13)
	}
	f.remember(t, &Past{Version: r.Version, Facts: r.Facts, FactsRef: r.FactsRef})
	t.visited(r, f.entry.Time)
	f.openUp(t, r.Engine)
	if f.moved(t, "foreign") && r.InCommit != 0 {
		f.snapshots[len(f.snapshots)-1].AsOf = r.InCommit
	}
}

// barrier makes an empty version of ours history (R4). It repeats the marker
// below it, so it leaves the marker alone (A16).
func (f *fold) barrier(r *Barrier) {
	t := f.present(r.Table)
	if t == nil || !f.next1(t, r.Version, r.Found) || !f.covered(t, append(foundTxns(r.Found), r.NotApplied...), r.Verdicts, 0) {
		return
	}
	f.deliver(t, r.Found)
	named := txnSet(r.NotApplied)
	t.Pending = slices.DeleteFunc(t.Pending, func(c *Change) bool {
		if named[c.Txn] {
			f.mark(t, c, PartOutcome{
				Change: c.Number, Status: StatusNotApplied, Version: r.Version,
				Conflict: Conflict{Rule: RuleOperator, Detail: "given up by an operator"},
			})
		}
		return named[c.Txn]
	})
	f.sweep(t)
	f.judge(t, r.Verdicts)
	t.Recorded, t.Identity = r.Version, r.Identity
	f.moved(t, "barrier")
}

func txnSet(ids []TxnID) map[TxnID]bool {
	out := make(map[TxnID]bool, len(ids))
	for _, id := range ids {
		out[id] = true
	}
	return out
}

// next1 reports whether the found versions and then v come right after the
// recorded one. Version 0 of a table that a transaction creates is ours or none.
func (s *State) next1(t *Table, v Version, found []FoundVersion) bool {
	return v > 0 && v == t.Recorded+1+Version(len(found)) && s.follows(t, found)
}

// covered reports whether each pending change above a marker has a verdict, or is
// settled by the record anyway.
func (s *State) covered(t *Table, settled []TxnID, verdicts []Verdict, above ChangeNumber) bool {
	if s.weak.has(weakVerdictsStay) {
		return true
	}
	has := make(map[ChangeNumber]bool, len(verdicts))
	for _, v := range verdicts {
		has[v.Change] = true
	}
	done := txnSet(settled)
	for _, c := range t.Pending {
		if c.Number > above && !has[c.Number] && !done[c.Txn] {
			return false
		}
	}
	return true
}

// judge gives up the changes that a version in the log made impossible (R13).
func (f *fold) judge(t *Table, verdicts []Verdict) {
	lost := map[ChangeNumber]Conflict{}
	for _, v := range verdicts {
		if v.Conflict.Rule != RuleNone {
			lost[v.Change] = v.Conflict
		}
	}
	if len(lost) == 0 {
		return
	}
	t.Pending = slices.DeleteFunc(t.Pending, func(c *Change) bool {
		why, ok := lost[c.Number]
		if ok {
			f.giveUp(t, c, why)
		}
		return ok
	})
	f.sweep(t)
}

// takes reports whether a range follows the recorded version, and its marker is one
// that the table's log can hold.
func (t *Table) takes(r *Range) bool {
	return r.From == t.Recorded+1 && r.To >= r.From && r.Marker >= t.Marker && r.Marker <= t.deliverable() &&
		(t.Recorded != NoVersion || r.Marker > 0)
}

// deliverable is the highest change number that a version of ours can hold: what
// waits is in none.
func (t *Table) deliverable() ChangeNumber {
	for _, c := range t.Pending {
		if c.Round == nil {
			return c.Number - 1
		}
	}
	return t.Next - 1
}

// ranged takes over what a cleaned log does not show version by version (R22 b).
func (f *fold) ranged(r *Range) {
	t := f.present(r.Table)
	if t == nil || !t.takes(r) || !f.covered(t, nil, r.Verdicts, r.Marker) {
		return
	}
	t.Pending = slices.DeleteFunc(t.Pending, func(c *Change) bool {
		if c.Number > r.Marker || f.weak.has(weakRangeUndelivered) {
			return false
		}
		f.mark(t, c, PartOutcome{Change: c.Number, Status: StatusDelivered, Version: r.To})
		return true
	})
	f.judge(t, r.Verdicts)
	t.Recorded, t.Identity, t.Marker, t.MetaDataID = r.To, r.Identity, r.Marker, r.MetaDataID
	f.pack(t)
	t.PastFloor = r.To // no facts exist for the span
	if t.Mode == ModeFenced {
		f.openUp(t, "") // nor does anybody know who wrote in it
	}
	f.moved(t, "range")
}

// moved makes the snapshot that a record on a table outside an open round makes (R18).
func (f *fold) moved(t *Table, kind string) bool {
	if f.busy[t.Table] != nil || f.weak.has(weakForeignUnshown) {
		return false
	}
	f.snapshot(kind, nil, []SnapshotTable{{t.Table, t.Recorded}}, nil)
	return true
}

// visited notes who wrote a foreign version.
func (t *Table) visited(r *Foreign, at Time) {
	g := Guest{Engine: r.Engine}
	if i := slices.IndexFunc(t.Guests, func(g Guest) bool { return g.Engine == r.Engine }); i >= 0 {
		g = t.Guests[i]
		t.Guests = slices.Delete(t.Guests, i, i+1)
	}
	g.Version, g.Time = r.Version, at
	g.Count++
	t.Guests = append(t.Guests, g)
	if extra := len(t.Guests) - guestsKept; extra > 0 {
		t.Guests = slices.Delete(t.Guests, 0, extra)
	}
}
