package twophase

import "slices"

// modelReserve is how the rule against starvation is set in the model.
var modelReserve = Reserve{After: 2, Positions: 6}

// modelReserves are the reservations as the naive version knows them.
type modelReserves struct {
	standing []*modelReservation // in order
	first    []*modelReservation // for the next request of a group
	spans    map[TableID]*modelSpan
	rules    map[TxnID]Rule // that aborted ones were aborted by
}

type modelReservation struct {
	key         string
	attempt     uint32
	tables      map[TableID]*toyChange
	from, until Position
	over        bool // with this entry
	unused      bool
}

// modelSpan is the last time that a table was reserved.
type modelSpan struct {
	since, open, end, rest Position // end is 0 while it is
	sinceAt, restsAt       Time
	rested                 bool
}

// lostModel lists the rules by which attempts lose to others, and may win another time.
func lostModel(r Rule) bool {
	return slices.Contains([]Rule{
		RuleProtocol, RuleMetadata, RuleDeleteDelete, RuleDeleteRead, RuleAppendRead, RuleDomain, RuleSchema,
		RulePathExists, RulePathMissing, RuleTableReplaced,
	}, r)
}

// behind is the key that a commit has to wait for.
func (m *model) behind(c *Committed) string {
	for _, r := range m.first {
		if r.key == c.Key {
			return ""
		}
		for i := range c.Parts {
			lost, ok := r.tables[c.Parts[i].Table]
			ch := m.w.changeOf(&c.Parts[i])
			if ok && (len(ch.removes) > 0 || ch.setsSchema > 0 || conflictBefore(lost, ch) != nil) {
				return r.key
			}
		}
	}
	return ""
}

// reserved takes the record of a request out of those that a decision made, and a
// reservation if there has to be one.
func (r *modelRun) reserved(q *Request, records []Record) []Record {
	m := r.m
	key := func(key string) {
		m.first = slices.DeleteFunc(slices.Clone(m.first), func(o *modelReservation) bool { return o.key == key })
	}
	a, aborted := records[0].(*Aborted)
	records = records[1:]
	if !aborted || !lostModel(a.Rule) {
		switch {
		case q.Abort != nil:
			m.gaveUp(q.Abort.Key, q.Abort.Attempt)
		case !aborted:
			key(q.Commit.Record.Key)
		}
		return records
	}
	want := m.deserves(q.Commit.Record, r.s.Next())
	var got *Reserved
	if len(records) > 0 {
		got, _ = records[0].(*Reserved)
	}
	if (got != nil) != (want != nil) || got != nil && (got.Key != want.key || got.Until != want.until || len(got.Tables) != len(want.tables)) {
		r.Fatalf("%s/%d lost: reservation %+v, want %+v", a.Key, a.Attempt, got, want)
	}
	if got == nil {
		return records
	}
	m.first = append(slices.Clone(m.first), want)
	return records[1:]
}

// gaveUp ends a reservation for the rest of a group.
func (m *model) gaveUp(key string, attempt uint32) {
	m.first = slices.DeleteFunc(slices.Clone(m.first), func(o *modelReservation) bool { return o.key == key && attempt > o.attempt })
}

// deserves is the reservation that a commit which lost gets at a position.
func (m *model) deserves(c *Committed, at Position) *modelReservation {
	lost := 1
	for n := uint32(1); n < c.Attempt; n++ {
		id := DeriveTxnID(simCatalog, c.Key, n)
		if lostModel(m.rules[id]) && !m.gone[id] {
			lost++
		}
	}
	if lost < modelReserve.After || slices.ContainsFunc(m.standing, func(r *modelReservation) bool { return r.key == c.Key }) {
		return nil
	}
	out := &modelReservation{key: c.Key, attempt: c.Attempt, tables: map[TableID]*toyChange{}, from: at, until: at + modelReserve.Positions}
	for i := range c.Parts {
		id := c.Parts[i].Table
		if s := m.spans[id]; s != nil && (s.end > 0 && !s.rested || s.end == 0 && at >= s.open) {
			return nil
		}
		out.tables[id] = m.w.changeOf(&c.Parts[i])
	}
	return out
}

// reserve takes a record.
func (m *model) reserve(r *Reserved, at Position, now Time) {
	res := &modelReservation{key: r.Key, attempt: r.Attempt, tables: map[TableID]*toyChange{}, from: at, until: r.Until}
	for _, t := range r.Tables {
		res.tables[t.Table] = toyRules{&m.w.changes}.change(t.Facts)
		if s := m.spans[t.Table]; s == nil || s.end > 0 {
			m.spans[t.Table] = &modelSpan{since: at, open: r.Until, sinceAt: now}
		}
	}
	m.standing = append(m.standing, res)
}

// end ends a key's reservation with the entry; unused if its key did not come back.
func (m *model) end(key string, attempt uint32, unused bool) {
	for _, r := range m.standing {
		if r.key == key && attempt > r.attempt {
			r.over, r.unused = true, r.unused || unused
		}
	}
}

// rest is the end of an entry.
func (m *model) rest(next Position, now Time) {
	for _, r := range m.standing {
		r.over = r.over || next >= r.until
		for id := range r.tables {
			s := m.spans[id]
			if r.over && r.unused {
				s.rest = max(s.rest, r.until-s.since)
			}
			if r.over && r.from == s.since {
				s.open = min(s.open, next)
			}
		}
	}
	m.standing = slices.DeleteFunc(m.standing, func(r *modelReservation) bool { return r.over })
	for id, s := range m.spans {
		held := slices.ContainsFunc(m.standing, func(r *modelReservation) bool { return r.tables[id] != nil })
		if s.end == 0 && !held {
			s.end, s.rest, s.restsAt = next, max(s.rest, next-s.since), now+(now-s.sinceAt)
		}
		s.rested = s.rested || s.end > 0 && s.end < next && next >= s.end+s.rest && now >= s.restsAt
	}
}
