package twophase

import "slices"

// Thawing says what an operator's word on a frozen table would do: the preview of a
// Thawed record.
type Thawing struct {
	// Origin is the table to be named in the record: the one at which the freeze began.
	Origin *Table
	// GivenUp are the changes that Origin will not get.
	GivenUp []*Change
	// Freed are the tables that may be written again, by id.
	Freed []TableID
	// Left is empty if the table itself is freed, or closed for good. Otherwise
	// something else freezes it as well, and the operator has to speak of these next.
	Left []TableID
}

// Thawing is what thawing a table would do; ok is false if it is not frozen, thaws
// by itself, or is closed for good.
func (s *State) Thawing(id TableID) (t Thawing, ok bool) {
	origin := s.thawable(id)
	if origin == nil {
		return Thawing{}, false
	}
	t = Thawing{Origin: origin, GivenUp: slices.Clone(origin.Diverged)}
	if origin.isReplaced() {
		t.GivenUp = append(t.GivenUp, origin.Pending...)
	}
	s.freed(&t, id, true)
	return t, true
}

// Mending is what it would do to say that a replaced table's own log is back: nothing is
// given up.
func (s *State) Mending(id TableID) (t Thawing, ok bool) {
	origin := s.thawable(id)
	if origin == nil || !origin.isReplaced() {
		return Thawing{}, false
	}
	t = Thawing{Origin: origin}
	s.freed(&t, id, false)
	return t, true
}

// thawable is the table at which a freeze began that an operator can speak of.
func (s *State) thawable(id TableID) *Table {
	at, there := s.tables[id]
	if !there || at.Released || at.Frozen == nil || at.Frozen.Resolved || at.Frozen.Cause.Passes() {
		return nil
	}
	return s.origin(at)
}

func (s *State) freed(t *Thawing, id TableID, settled bool) {
	origin := t.Origin
	closed := settled && origin.isReplaced()
	after := s.frozenWithout(origin, settled)
	for _, o := range sortedKeys(s.tables) {
		f := s.tables[o].Frozen
		if f != nil && f.Origin == origin.Table && len(after[o]) == 0 && (o != origin.Table || !closed) {
			t.Freed = append(t.Freed, o)
		}
	}
	t.Left = after[id]
}

// origin follows a freeze to the table at which it began. That table may be frozen
// for something graver by now.
func (s *State) origin(t *Table) *Table {
	for seen := map[TableID]bool{}; t.Frozen.Origin != t.Table && !seen[t.Table]; {
		seen[t.Table] = true
		next := s.tables[t.Frozen.Origin]
		if next == nil || next.Frozen == nil {
			break
		}
		t = next
	}
	return t
}

// frozenWithout says which tables stay frozen when what froze at one is settled, and
// at which tables those freezes began. Not settled: what was given up there still is.
func (s *State) frozenWithout(origin *Table, settled bool) map[TableID][]TableID {
	out := map[TableID][]TableID{}
	add := func(id, by TableID) {
		if !slices.Contains(out[id], by) {
			out[id] = append(out[id], by)
		}
	}
	holds := map[TableID]TableID{} // tables that freeze a round, and where that began
	for _, id := range sortedKeys(s.tables) {
		t := s.tables[id]
		if f := t.Frozen; f != nil && f.Origin != origin.Table {
			add(id, f.Origin)
			if f.blocks() {
				holds[id] = f.Origin
			}
		}
		if t == origin && settled {
			continue
		}
		for _, c := range t.Diverged {
			for _, o := range s.scope(t, c) {
				add(o, id)
				if f := s.tables[o].Frozen; f == nil || !f.Resolved && (o != origin.Table || !settled || !origin.isReplaced()) {
					holds[o] = id // a replaced table that is settled holds nothing up
				}
			}
		}
	}
	for _, r := range s.rounds {
		for _, id := range r.tables {
			if by, ok := holds[id]; ok {
				for _, o := range r.tables {
					add(o, by)
				}
				break
			}
		}
	}
	return out
}

// scope are the tables that a change freezes when it is given up: its round's, or its
// transaction's while it is in none (R12).
func (s *State) scope(t *Table, c *Change) []TableID {
	if r := s.busy[t.Table]; r != nil && c.Round == r {
		return r.tables
	}
	var tables []TableID
	parts := s.unsettled[c.Txn].Commit.Parts
	for i := range parts {
		tables = append(tables, parts[i].Table)
	}
	return tables
}
