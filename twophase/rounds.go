package twophase

import (
	"cmp"
	"slices"
)

// join puts a decided transaction into the components that wait (R2): it merges
// all unsealed ones that share a written table with it.
func (f *fold) join(c *Committed) {
	merged := &component{txns: []TxnID{c.Txn}, tables: map[TableID]bool{}}
	for i := range c.Parts {
		merged.tables[c.Parts[i].Table] = true
	}
	place := -1
	rest := f.waiting[:0:0]
	for _, w := range f.waiting {
		if w.sealed || !w.touches(merged.tables) {
			rest = append(rest, w)
			continue
		}
		if place < 0 {
			place = len(rest)
			rest = append(rest, merged)
		}
		merged.txns = append(merged.txns, w.txns...)
		for id := range w.tables {
			merged.tables[id] = true
		}
	}
	if place < 0 {
		rest = append(rest, merged)
	}
	slices.SortFunc(merged.txns, f.byDecision)
	f.waiting = rest
}

func (c *component) touches(tables map[TableID]bool) bool {
	for id := range c.tables {
		if tables[id] {
			return true
		}
	}
	return false
}

func (s *State) byDecision(a, b TxnID) int {
	x, y := s.outcomes[a], s.outcomes[b]
	return cmp.Or(cmp.Compare(x.Position, y.Position), cmp.Compare(x.Index, y.Index))
}

// turnRounds opens what can be opened after an entry and seals what was passed
// over (R2): a component becomes a round when none of its tables is in an open
// round or in a component that waits in front of it (A15).
func (f *fold) turnRounds() {
	front := map[TableID]bool{}
	waiting := f.waiting[:0:0]
	index := uint32(0)
	for _, c := range f.waiting {
		if f.mayOpen(c, front) {
			f.open(c, RoundID{Opened: f.entry.Position, Index: index})
			index++
			continue
		}
		for id := range c.tables {
			front[id] = true
		}
		waiting = append(waiting, c)
	}
	for _, c := range waiting {
		if c.touches(f.closed) {
			c.sealed = true
		}
	}
	slices.SortStableFunc(waiting, func(a, b *component) int {
		switch {
		case a.sealed && !b.sealed:
			return -1
		case b.sealed && !a.sealed:
			return 1
		}
		return 0
	})
	f.waiting = waiting
}

func (f *fold) mayOpen(c *component, front map[TableID]bool) bool {
	for id := range c.tables {
		if f.busy[id] != nil || front[id] {
			return false
		}
	}
	return true
}

func (f *fold) open(c *component, id RoundID) {
	r := &Round{ID: id, Time: f.entry.Time, Txns: c.txns, Caps: f.caps}
	f.rounds = append(f.rounds, r)
	members := make(map[TxnID]bool, len(c.txns))
	for _, txn := range c.txns {
		members[txn] = true
	}
	var ice *Freeze
	for _, id := range sortedKeys(c.tables) {
		t := f.tables[id]
		f.busy[id] = r
		for _, ch := range t.Pending {
			if members[ch.Txn] {
				ch.Round = r
			}
		}
		if ice == nil && t.Frozen.blocks() {
			ice = t.Frozen
		}
	}
	if ice != nil { // a round that opens with a frozen table is frozen with it (R12)
		f.freeze(f.roundTables(r), *ice)
	}
}

// close ends a round: its delivered changes are published, its tables are free.
func (f *fold) close(r *Round, snapshot SnapshotVersion) {
	for _, txn := range r.Txns {
		o := f.outcomes[txn]
		o.Snapshot = snapshot
		for i := range o.Parts {
			if o.Parts[i].Status == StatusDelivered {
				o.Parts[i].Status = StatusPublished
			}
			// The history keeps what rules still need (R14).
			o.Commit.Parts[i].Facts = nil
		}
	}
	if f.closed == nil {
		f.closed = map[TableID]bool{}
	}
	for _, id := range f.roundTables(r) {
		delete(f.busy, id)
		f.closed[id] = true
		if t := f.tables[id]; t.Frozen != nil && t.Frozen.Cause == CauseStalled {
			t.Frozen = nil // STALLED thaws by itself
		}
	}
	f.rounds = slices.DeleteFunc(f.rounds, func(o *Round) bool { return o == r })
}

func sortedKeys[K ~string, V any](m map[K]V) []K {
	out := make([]K, 0, len(m))
	for k := range m {
		out = append(out, k)
	}
	slices.Sort(out)
	return out
}
