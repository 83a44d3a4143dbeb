package twophase

import (
	"cmp"
	"slices"
)

// join puts a decided transaction into the components that wait (R2): it merges
// all unsealed ones that share a written table with it. One that has grown large
// is sealed, so that later transactions gather behind it.
func (f *fold) join(c *Committed) {
	into := f.merge(f.touching(c))
	into.txns = append(into.txns, c.Txn)
	into.parts += len(c.Parts) + len(c.Releases)
	for id := range c.written {
		into.tables[id] = true
		f.joining[id] = into
	}
	if into.parts >= f.roundParts {
		f.seal(into)
		f.sealedFirst() // at once: what is sealed later in this entry comes behind it
	}
}

// touching are the unsealed components that hold a table of the transaction, in
// the order in which they wait.
func (f *fold) touching(c *Committed) []*component {
	var out []*component
	for id := range c.written {
		if w := f.joining[id]; w != nil && !slices.Contains(out, w) {
			out = append(out, w)
		}
	}
	if len(out) > 1 {
		slices.SortFunc(out, func(a, b *component) int {
			return cmp.Compare(slices.Index(f.waiting, a), slices.Index(f.waiting, b))
		})
	}
	return out
}

// merge makes one component of several; it takes the first one's place.
func (f *fold) merge(touching []*component) *component {
	if len(touching) == 0 {
		into := &component{tables: map[TableID]bool{}}
		f.waiting = append(f.waiting, into)
		return into
	}
	into, rest := touching[0], touching[1:]
	for _, w := range rest {
		into.txns = append(into.txns, w.txns...)
		into.parts += w.parts
		into.gathered = into.gathered || w.gathered
		for id := range w.tables {
			into.tables[id] = true
			f.joining[id] = into
		}
	}
	if len(rest) > 0 {
		slices.SortFunc(into.txns, f.byDecision)
		f.waiting = slices.DeleteFunc(f.waiting, func(w *component) bool { return slices.Contains(rest, w) })
	}
	return into
}

// seal closes a component to later transactions.
func (f *fold) seal(c *component) {
	c.sealed = true
	for id := range c.tables {
		if f.joining[id] == c {
			delete(f.joining, id)
		}
	}
}

func (c *component) touches(tables map[TableID]bool) bool {
	for id := range tables {
		if c.tables[id] {
			return true
		}
	}
	return false
}

// turnRounds opens what can be opened after an entry and seals what was passed
// over (R2): a component becomes a round when none of its tables is in an open
// round or in a component that waits in front of it (A15).
func (f *fold) turnRounds() {
	if len(f.waiting) == 0 {
		return
	}
	front := map[TableID]bool{}
	waiting := f.waiting[:0]
	index := uint32(0)
	var gathering []*component
	for _, c := range f.waiting {
		switch may := f.mayOpen(c, front); {
		case may && f.gathers(c):
			c.gathered, gathering = true, append(gathering, c)
		case may:
			f.seal(c)
			f.open(c, RoundID{Opened: f.entry.Position, Index: index})
			index++
			continue
		}
		for id := range c.tables {
			front[id] = true
		}
		waiting = append(waiting, c)
	}
	clear(f.waiting[len(waiting):])
	f.waiting = waiting
	for _, c := range f.waiting {
		if !c.sealed && c.touches(f.closed) && !slices.Contains(gathering, c) {
			f.seal(c)
		}
	}
	f.sealedFirst()
}

// gathers reports whether what could open gathers for one entry more (Caps.Gather). What is
// sealed gathers nothing, and what has gathered was passed by another round since: both
// open.
func (f *fold) gathers(c *component) bool {
	return f.caps.Gather && !c.sealed && !c.gathered && c.touches(f.closed)
}

// Gathering reports whether a component waits for nothing but the next entry, whatever that
// holds: somebody has to append one.
func (s *State) Gathering() bool {
	if !slices.ContainsFunc(s.waiting, func(c *component) bool { return c.gathered }) {
		return false // as a rule, and asked after each entry
	}
	front := map[TableID]bool{}
	for _, c := range s.waiting {
		if c.gathered && s.mayOpen(c, front) {
			return true
		}
		for id := range c.tables {
			front[id] = true
		}
	}
	return false
}

// turn adds the record that opens what gathers, if nothing else does.
func (d *decision) turn(r *Turned) Answer {
	if !d.Gathering() {
		return refuse(Refused{Reason: ReasonStale, Detail: "nothing gathers"})
	}
	return d.add(r)
}

// sealedFirst keeps the order of sealing, and of waiting among the unsealed.
func (f *fold) sealedFirst() {
	slices.SortStableFunc(f.waiting, func(a, b *component) int {
		switch {
		case a.sealed && !b.sealed:
			return -1
		case b.sealed && !a.sealed:
			return 1
		}
		return 0
	})
}

func (s *State) mayOpen(c *component, front map[TableID]bool) bool {
	for id := range c.tables {
		if s.busy[id] != nil || front[id] && !s.weak.has(weakOvertaking) {
			return false
		}
	}
	return true
}

func (f *fold) open(c *component, id RoundID) {
	r := &Round{ID: id, Time: f.entry.Time, Txns: c.txns, Caps: f.caps, tables: sortedKeys(c.tables)}
	f.rounds = append(f.rounds, r)
	f.enter(r)
	f.chill(r)
}

// enter binds the round's tables and changes to it.
func (s *State) enter(r *Round) {
	members := make(map[TxnID]bool, len(r.Txns))
	for _, txn := range r.Txns {
		members[txn] = true
	}
	for _, id := range r.tables {
		t := s.tables[id]
		s.busy[id] = r
		for _, list := range [][]*Change{t.Pending, t.Diverged} {
			for _, c := range list {
				if members[c.Txn] {
					c.Round = r
				}
			}
		}
	}
}

// close ends a round: its delivered changes are published, its tables are free.
func (f *fold) close(r *Round, snapshot SnapshotVersion) {
	for _, txn := range r.Txns {
		o := f.touched(f.unsettled[txn])
		o.Snapshot = snapshot
		for i := range o.Parts {
			if o.Parts[i].Status == StatusDelivered {
				o.Parts[i].Status = StatusPublished
			}
		}
		if !o.settled() {
			o.Commit = o.Commit.bare() // the history keeps the facts that rules still need (R14)
		}
		f.changed = append(f.changed, txn)
	}
	if f.closed == nil {
		f.closed = map[TableID]bool{}
	}
	for _, id := range r.tables {
		delete(f.busy, id)
		f.closed[id] = true
		if t := f.tables[id]; t.Frozen != nil && t.Frozen.Cause.Passes() {
			t.Frozen = nil
		}
	}
	f.rounds = slices.DeleteFunc(f.rounds, func(o *Round) bool { return o == r })
}

// bare is the commit without its facts. A copy: others may hold the record.
func (c *Committed) bare() *Committed {
	out := *c
	out.Parts, out.Reads = slices.Clone(c.Parts), slices.Clone(c.Reads)
	for i := range out.Parts {
		out.Parts[i].Facts = nil
	}
	for i := range out.Reads {
		out.Reads[i].Facts = nil
	}
	return &out
}

func sortedKeys[K ~string, V any](m map[K]V) []K {
	out := make([]K, 0, len(m))
	for k := range m {
		out = append(out, k)
	}
	slices.Sort(out)
	return out
}
