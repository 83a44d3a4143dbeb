package twophase

import (
	"cmp"
	"slices"
)

// Naive versions of Decide, of the rounds and of Share, written from RULES.md alone:
// everything is looked up in one list of what happened. rapid compares them with
// the shipped ones after each entry of a random journal.

// modelTable is a table as the naive version knows it.
type modelTable struct {
	id       TableID
	recorded Version
	state    *toyState // at the recorded version
	past     []*modelItem
	next     ChangeNumber
	frozen   bool
	held     bool    // by an operator
	floor    Version // read points below it cannot be checked any more
}

// modelItem is a change or a foreign version, in the order of the journal.
type modelItem struct {
	change  *toyChange
	txn     TxnID
	number  ChangeNumber
	version Version  // NoVersion while pending
	at      Position // of the entry that recorded the version
	lost    bool
}

func (t *modelTable) pending() []*modelItem {
	var out []*modelItem
	for _, it := range t.past {
		if it.number > 0 && it.version == NoVersion && !it.lost {
			out = append(out, it)
		}
	}
	return out
}

// model is the naive journal.
type model struct {
	w       *world // changes only
	tables  map[TableID]*modelTable
	decided map[TxnID]*Committed // nil: aborted
	gone    map[TxnID]bool       // forgotten
	at      map[TxnID]Position
	index   map[TxnID]int // of the record in its entry
	floor   Position
	waiting []*modelComponent
	rounds  []*modelRound
	gather  bool
	modelReserves
}

type modelComponent struct {
	txns     []TxnID
	sealed   bool
	gathered bool
}

type modelRound struct {
	id   RoundID
	txns []TxnID
}

// modelAttempts is the highest attempt of a job.
const modelAttempts = 3

var modelTables = []TableID{"A", "B", "C"}

func newModel() (*model, *State) {
	w := &world{}
	m := &model{w: w, tables: map[TableID]*modelTable{}, decided: map[TxnID]*Committed{}, gone: map[TxnID]bool{}, at: map[TxnID]Position{}, index: map[TxnID]int{}, modelReserves: modelReserves{spans: map[TableID]*modelSpan{}, rules: map[TxnID]Rule{}}}
	s := NewState(simCatalog, simIncarnation)
	s.roundParts = 6
	e := &Entry{Header: Header{Catalog: simCatalog, Incarnation: simIncarnation}}
	for _, id := range modelTables {
		e.Records = append(e.Records, &Registered{Table: id, Name: string(id), URI: "mem:/" + string(id), MetaDataID: metaName(1), Mode: ModeOpen, Identity: HashOf([]byte(id))})
		m.tables[id] = &modelTable{id: id, state: &toyState{meta: 1, schema: 1}, next: 1}
	}
	if err := s.Apply(e, HashOf(e.Encode())); err != nil {
		panic(err)
	}
	return m, s
}

// view is a table with everything pending on it.
func (m *model) view(id TableID) *toyState {
	s := m.tables[id].state
	for _, it := range m.tables[id].pending() {
		s = s.after(it.change)
	}
	return s
}

// undelivered are the changes that no version holds.
func (m *model) undelivered(id TableID) []*toyChange {
	var out []*toyChange
	for _, it := range m.tables[id].pending() {
		out = append(out, it.change)
	}
	return out
}

// want is what the naive version says of a request: "commit", "abort" and the rule,
// "decided", "deferred" or "refused" and the reason.
func (m *model) want(r *Request, group []*Committed, seen map[TxnID]*Committed, next Position) string {
	if a := r.Abort; a != nil {
		switch _, ok := m.decided[a.Txn]; {
		case ok && !m.gone[a.Txn] || hasKey(seen, a.Txn):
			return "decided"
		case a.Begun < m.floor:
			return "refused " + ReasonExpiredOutcome.String()
		case a.Begun > next:
			return "refused " + ReasonAheadOfJournal.String()
		}
		return "abort " + a.Rule.String()
	}
	c := r.Commit.Record
	if was, ok := m.decided[c.Txn]; ok && !m.gone[c.Txn] {
		if was != nil && !was.samePieces(c) {
			return "refused " + ReasonOtherDigests.String()
		}
		return "decided"
	}
	if was, ok := seen[c.Txn]; ok {
		if was != nil && !was.samePieces(c) {
			return "deferred"
		}
		return "decided"
	}
	switch {
	case c.Begun < m.floor:
		return "refused " + ReasonExpiredOutcome.String()
	case c.Begun > next:
		return "refused " + ReasonAheadOfJournal.String()
	}
	for n := c.Attempt + 1; n <= modelAttempts; n++ {
		id := DeriveTxnID(simCatalog, c.Key, n)
		if m.decided[id] != nil && !m.gone[id] {
			return "refused " + ReasonEarlierAttempt.String()
		}
	}
	for n := uint32(1); n < c.Attempt; n++ {
		id := DeriveTxnID(simCatalog, c.Key, n)
		if was, ok := m.decided[id]; !ok || m.gone[id] || was != nil {
			return "refused " + ReasonEarlierAttempt.String()
		}
	}
	want := m.check(c, group)
	if key := m.behind(c); want == "commit" && key != "" {
		return "deferred behind " + key
	}
	return want
}

func hasKey[K comparable, V any](m map[K]V, k K) bool { _, ok := m[k]; return ok }

// check compares a commit with everything that its read points do not cover.
func (m *model) check(c *Committed, group []*Committed) string {
	for i := range c.Parts {
		p := &c.Parts[i]
		t := m.tables[p.Table]
		ch := m.w.changeOf(p)
		switch {
		case t.frozen || t.held:
			return "refused " + ReasonFrozen.String()
		case p.MetaDataID != metaName(t.state.meta):
			return "abort " + RuleTableReplaced.String()
		case !p.Read.Blind && p.Read.Version > t.recorded:
			return "refused " + ReasonReadPointAhead.String()
		case !p.Read.Blind && p.Read.Version < t.floor:
			return "refused " + ReasonReadPointTooOld.String()
		}
		view, undelivered := m.view(p.Table), m.undelivered(p.Table)
		var before []*toyChange
		for _, it := range t.past {
			if !it.lost && (it.version == NoVersion || it.version > p.Read.Version) {
				before = append(before, it.change)
			}
		}
		for _, g := range group {
			for j := range g.Parts {
				if g.Parts[j].Table == p.Table {
					before = append(before, m.w.changeOf(&g.Parts[j]))
					view = view.after(m.w.changeOf(&g.Parts[j]))
					undelivered = append(undelivered, m.w.changeOf(&g.Parts[j]))
				}
			}
		}
		for _, w := range before {
			if why := conflictBefore(ch, w); why != nil {
				return "abort " + why.Rule.String()
			}
		}
		if why := cmp.Or(view.fits(ch), duplicates(ch, undelivered)); why != nil {
			return "abort " + why.Rule.String()
		}
	}
	return "commit"
}

// join is R2's grouping, from scratch: all unsealed components that share a table
// with the transaction become one.
func (m *model) join(c *Committed, cap int) {
	merged := &modelComponent{}
	var rest []*modelComponent
	place := -1
	for _, w := range m.waiting {
		if w.sealed || !overlap(m.tablesOfAll(w.txns), tablesOf(c)) {
			rest = append(rest, w)
			continue
		}
		if place < 0 {
			place = len(rest)
			rest = append(rest, merged)
		}
		merged.txns = append(merged.txns, w.txns...)
		merged.gathered = merged.gathered || w.gathered
	}
	if place < 0 {
		rest = append(rest, merged)
	}
	merged.txns = append(merged.txns, c.Txn)
	m.waiting = rest
	parts := 0
	for _, txn := range merged.txns {
		parts += len(m.decided[txn].Parts)
	}
	if parts >= cap {
		merged.sealed = true
		m.order()
	}
}

func (m *model) order() {
	var sealed, open []*modelComponent
	for _, w := range m.waiting {
		if w.sealed {
			sealed = append(sealed, w)
		} else {
			open = append(open, w)
		}
	}
	m.waiting = append(sealed, open...)
}

func (m *model) tablesOfAll(txns []TxnID) []TableID {
	var out []TableID
	for _, txn := range txns {
		out = append(out, tablesOf(m.decided[txn])...)
	}
	return out
}

func overlap(a, b []TableID) bool {
	return slices.ContainsFunc(a, func(id TableID) bool { return slices.Contains(b, id) })
}

// turn opens and seals at the end of an entry.
func (m *model) turn(pos Position, closed []TableID) {
	var left []*modelComponent
	gathers := map[*modelComponent]bool{}
	index := uint32(0)
	for _, w := range m.waiting {
		var ahead []TableID
		for _, r := range m.rounds {
			ahead = append(ahead, m.tablesOfAll(r.txns)...)
		}
		for _, l := range left {
			ahead = append(ahead, m.tablesOfAll(l.txns)...)
		}
		if overlap(ahead, m.tablesOfAll(w.txns)) {
			left = append(left, w)
			continue
		}
		if m.gather && !w.sealed && !w.gathered && overlap(closed, m.tablesOfAll(w.txns)) {
			w.gathered, gathers[w] = true, true
			left = append(left, w)
			continue
		}
		m.rounds = append(m.rounds, &modelRound{RoundID{pos, index}, w.txns})
		index++
	}
	m.chill() // a round that opens with a frozen table is frozen with it
	for _, w := range left {
		w.sealed = w.sealed || overlap(m.tablesOfAll(w.txns), closed) && !gathers[w]
	}
	m.waiting = left
	m.order()
}

// gathering reports whether the next entry opens something, whatever it holds.
func (m *model) gathering() bool {
	var ahead []TableID
	for _, r := range m.rounds {
		ahead = append(ahead, m.tablesOfAll(r.txns)...)
	}
	for _, w := range m.waiting {
		tables := m.tablesOfAll(w.txns)
		if w.gathered && !overlap(ahead, tables) {
			return true
		}
		ahead = append(ahead, tables...)
	}
	return false
}
