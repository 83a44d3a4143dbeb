package twophase

import (
	"fmt"
	"math"
	"slices"

	"pgregory.net/rapid"
)

// modelRun is one random journal, with both versions of it.
type modelRun struct {
	*rapid.T
	m *model
	s *State
	n int
	// now is the time of entries.
	now Time
}

func (r *modelRun) path() toyPath { return toyPath(r.integer(1, 12, "path")) }

func (r *modelRun) integer(lo, hi int, what string) int {
	return rapid.IntRange(lo, hi).Draw(r.T, what)
}

func (r *modelRun) change(id TableID) *toyChange {
	ch := &toyChange{meta: r.m.tables[id].state.meta, dataChange: true, blind: r.integer(0, 1, "blind") == 0}
	for range r.integer(0, 2, "adds") {
		p := toyPair{r.path(), int32(r.integer(0, 3, "vector") / 3)}
		if !hasPath(ch.adds, p.path) && !r.m.tables[id].state.has(p) {
			ch.adds = append(ch.adds, p)
		}
	}
	if !ch.blind {
		for range r.integer(0, 2, "removes") {
			if p := r.path(); !hasPath(ch.removes, p) && !hasPath(ch.adds, p) {
				ch.removes = append(ch.removes, toyPair{path: p})
				ch.reads = append(ch.reads, p)
			}
		}
		ch.readsAll = r.integer(0, 4, "reads all") == 0
	}
	if r.integer(0, 3, "app") == 0 {
		ch.app, ch.appVersion = 1, int64(r.integer(1, 6, "app version"))
	}
	if r.integer(0, 9, "schema") == 0 {
		ch.setsSchema = r.integer(1, 3, "schema version")
	}
	return r.m.w.newChange(ch)
}

// commit is a request to commit an attempt of one of a few jobs.
func (r *modelRun) commit() *Committed {
	key, attempt := fmt.Sprint("job", r.integer(0, 9, "job")), uint32(r.integer(1, modelAttempts, "attempt"))
	c := &Committed{Txn: DeriveTxnID(simCatalog, key, attempt), Key: key, Attempt: attempt, Begun: Position(r.integer(0, int(r.s.Next())+1, "begun"))}
	for _, id := range modelTables {
		if len(c.Parts) > 0 && r.integer(0, 1, "more tables") == 0 {
			continue
		}
		ch := r.change(id)
		part := Part{
			Table: id, MetaDataID: metaName(ch.meta), Digests: []Digest{digestOf(id, ch)}, Read: ReadPoint{Blind: ch.blind},
			Facts: ch.facts(), Shape: ch.shape(),
		}
		if !ch.blind {
			part.Read.Version = Version(r.integer(0, int(r.m.tables[id].recorded)+1, "read point"))
		}
		c.Parts = append(c.Parts, part)
	}
	return c
}

// group decides some requests in both versions, and folds the entry.
func (r *modelRun) group() {
	var reqs []Request
	for range r.integer(1, 4, "requests") {
		c := r.commit()
		if r.integer(0, 4, "abort") == 0 {
			reqs = append(reqs, Request{Abort: &Aborted{Txn: c.Txn, Key: c.Key, Attempt: c.Attempt, Begun: c.Begun, Rule: RuleClient}})
			continue
		}
		reqs = append(reqs, Request{Commit: &CommitRequest{Record: c}})
	}
	views := map[TableID]View{}
	for _, id := range modelTables {
		views[id] = &toyView{toyRules{&r.m.w.changes}, r.m.view(id), r.m.undelivered(id)}
	}
	d := Decide(r.s, reqs, DecideInput{Rules: toyRules{&r.m.w.changes}, Views: views, Reserve: modelReserve})

	r.m.first = slices.Clone(r.m.standing)
	seen := map[TxnID]*Committed{}
	var group []*Committed
	records := d.Records
	for i := range reqs {
		want := r.m.want(&reqs[i], group, seen, r.s.Next())
		got := "deferred"
		switch a := d.Answers[i]; {
		case a.Behind != nil:
			got = "deferred behind " + a.Behind.Key
		case a.Refused != nil:
			got = "refused " + a.Refused.Reason.String()
		case a.Recorded:
			got = "decided"
			if txn := (&request{Request: reqs[i]}).txn(); len(records) > 0 && recordOf(records[0]) == txn && !hasKey(seen, txn) {
				got = describeDecision(records[0])
				seen[txn], _ = decisionOf(records[0])
				if got == "commit" {
					group = append(group, reqs[i].Commit.Record)
				}
				records = r.reserved(&reqs[i], records)
			}
		}
		if got != want {
			r.Fatalf("request %d (%+v): %s, want %s", i, reqs[i].Commit, got, want)
		}
	}
	r.fold(d)
}

func recordOf(rec Record) TxnID {
	switch rec := rec.(type) {
	case *Committed:
		return rec.Txn
	case *Aborted:
		return rec.Txn
	}
	return TxnID{}
}

func decisionOf(rec Record) (*Committed, bool) {
	c, ok := rec.(*Committed)
	return c, ok
}

func describeDecision(rec Record) string {
	if a, ok := rec.(*Aborted); ok {
		return "abort " + a.Rule.String()
	}
	return "commit"
}

// fold appends a decision, through the codec, and brings the naive version along.
func (r *modelRun) fold(d Decision) {
	r.now += Time(r.s.Next() % 7) // uneven, and now and then it stands still
	e, err := r.s.Entry(d, r.now, "R")
	if err != nil {
		r.Fatal(err)
	}
	b := e.Encode()
	decoded, err := DecodeEntry(b)
	if err != nil {
		r.Fatal(err)
	}
	if err := r.s.Apply(decoded, HashOf(b)); err != nil {
		r.Fatal(err)
	}
	var closed []TableID
	for i, rec := range decoded.Records {
		r.Logf("entry %d: %s", e.Position, describeRecord(rec))
		switch rec := rec.(type) {
		case *Committed:
			r.m.index[rec.Txn] = i
			delete(r.m.gone, rec.Txn) // begun anew, after it was forgotten
			r.m.commit(rec, e.Position)
			r.m.join(rec, 6)
			r.m.end(rec.Key, rec.Attempt, false)
		case *Aborted:
			delete(r.m.gone, rec.Txn)
			r.m.decided[rec.Txn], r.m.at[rec.Txn] = nil, e.Position
			if r.m.rules[rec.Txn] = rec.Rule; !lostModel(rec.Rule) {
				r.m.end(rec.Key, rec.Attempt, false)
			}
		case *Published:
			closed = r.m.publish(rec, e.Position)
		case *Foreign:
			r.m.foreign(rec, e.Position)
		case *FloorRaised:
			r.m.raise(rec.Floor)
		case *Reserved:
			r.m.reserve(rec, e.Position, e.Time)
		case *ReservationEnded:
			r.m.end(rec.Key, math.MaxUint32, true)
		case *SettingChanged:
			r.m.gather = rec.Caps.Gather
		case *Held:
			r.m.tables[rec.Table].held = !rec.Off
		}
	}
	r.m.turn(e.Position, closed)
	r.m.rest(e.Position+1, e.Time)
	r.compare()
}

func (m *model) commit(c *Committed, pos Position) {
	m.decided[c.Txn], m.at[c.Txn] = c, pos
	for i := range c.Parts {
		t := m.tables[c.Parts[i].Table]
		t.past = append(t.past, &modelItem{change: m.w.changeOf(&c.Parts[i]), txn: c.Txn, number: t.next, version: NoVersion})
		t.next++
	}
}

func (m *model) deliver(t *modelTable, found []FoundVersion, pos Position) {
	for _, v := range found {
		for _, txn := range v.Txns {
			for _, it := range t.past {
				if it.txn == txn && it.version == NoVersion && !it.lost { // not an older life of the id
					it.version, it.at = v.Version, pos
					t.state = t.state.after(it.change)
				}
			}
		}
		t.recorded = v.Version
	}
}

func (m *model) publish(p *Published, pos Position) []TableID {
	var closed []TableID
	for _, pt := range p.Tables {
		m.deliver(m.tables[pt.Table], pt.Versions, pos)
	}
	m.rounds = slices.DeleteFunc(m.rounds, func(r *modelRound) bool {
		if r.id == p.Round {
			closed = m.tablesOfAll(r.txns)
		}
		return r.id == p.Round
	})
	return closed
}

// foreign applies a foreign version and judges what is pending by the whole state.
func (m *model) foreign(f *Foreign, pos Position) {
	t := m.tables[f.Table]
	m.deliver(t, f.Found, pos)
	ch := toyRules{&m.w.changes}.change(f.Facts)
	t.state, t.recorded = t.state.after(ch), f.Version
	s := t.state
	for _, it := range t.pending() {
		if s.fits(it.change) == nil {
			s = s.after(it.change)
			continue
		}
		it.lost = true
		m.freeze(it.txn)
	}
	t.past = append(t.past, &modelItem{change: ch, version: f.Version, at: pos})
}

// freeze refuses commits on the tables of the change's round, or of its transaction.
func (m *model) freeze(txn TxnID) {
	txns := []TxnID{txn}
	for _, r := range m.rounds {
		if slices.Contains(r.txns, txn) {
			txns = r.txns
		}
	}
	for _, id := range m.tablesOfAll(txns) {
		m.tables[id].frozen = true
	}
	m.chill()
}

// chill freezes every open round that has a frozen table, since it may not close (R12).
func (m *model) chill() {
	for _, r := range m.rounds {
		tables := m.tablesOfAll(r.txns)
		if !slices.ContainsFunc(tables, func(id TableID) bool { return m.tables[id].frozen }) {
			continue
		}
		for _, id := range tables {
			m.tables[id].frozen = true
		}
	}
}

// raise forgets what is settled: aborted, or published in a closed round; and of each
// table's history what was recorded before, up to the first that was not.
func (m *model) raise(floor Position) {
	if floor <= m.floor {
		return
	}
	m.floor = floor
	for txn, c := range m.decided {
		if m.at[txn] < floor && m.settled(txn, c) {
			m.gone[txn] = true
		}
	}
	for _, t := range m.tables {
		for _, it := range t.past {
			if it.lost {
				continue
			}
			if it.version == NoVersion || it.at >= floor {
				break
			}
			t.floor = max(t.floor, it.version)
		}
	}
}

func (m *model) settled(txn TxnID, c *Committed) bool {
	if c == nil {
		return true
	}
	open := func(txns []TxnID) bool { return slices.Contains(txns, txn) }
	for _, r := range m.rounds {
		if open(r.txns) {
			return false
		}
	}
	for _, w := range m.waiting {
		if open(w.txns) {
			return false
		}
	}
	return true
}
