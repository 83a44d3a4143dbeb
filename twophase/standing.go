package twophase

import (
	"maps"
	"slices"
)

// Standing says where a decided transaction stands that is not published yet.
type Standing struct {
	// Round that it is in; nil while it waits for one.
	Round *Round
	// Ahead are the open rounds that have to close before its own opens, in order of
	// opening, and Before the transactions that wait in front of it, in their order.
	Ahead  []*Round
	Before []TxnID
	// Behind are the decided transactions that wait for it, directly or not, in their
	// order. Those that are published together with it are not among them.
	Behind []TxnID
}

// Standing is where a decided transaction stands; ok is false unless it is committed,
// writes something and is not published.
func (s *State) Standing(id TxnID) (st Standing, ok bool) {
	o := s.Outcome(id)
	if o == nil || o.Commit == nil || !o.Commit.writes() || o.Snapshot != 0 {
		return Standing{}, false
	}
	for _, r := range s.rounds {
		if slices.Contains(r.Txns, id) {
			st.Round = r
			held := map[TableID]bool{}
			for _, t := range r.tables {
				held[t] = true
			}
			st.Behind = behind(s.waiting, held)
			return st, true
		}
	}
	for i, c := range s.waiting {
		if slices.Contains(c.txns, id) {
			st.Ahead, st.Before = s.ahead(i)
			st.Behind = behind(s.waiting[i+1:], maps.Clone(c.tables))
			return st, true
		}
	}
	return Standing{}, false
}

// ahead is what the i-th component that waits has to wait for (R2): open rounds on its
// tables, and components in front of it that share one, with what those wait for.
func (s *State) ahead(i int) (rounds []*Round, txns []TxnID) {
	tables := maps.Clone(s.waiting[i].tables)
	for j := i - 1; j >= 0; j-- {
		if c := s.waiting[j]; c.touches(tables) {
			txns = append(slices.Clone(c.txns), txns...)
			for t := range c.tables {
				tables[t] = true
			}
		}
	}
	for _, r := range s.rounds {
		if slices.ContainsFunc(r.tables, func(t TableID) bool { return tables[t] }) {
			rounds = append(rounds, r)
		}
	}
	return rounds, txns
}

// behind are the transactions of the components that cannot open while tables are held:
// each holds its own against those behind it.
func behind(waiting []*component, held map[TableID]bool) (out []TxnID) {
	for _, c := range waiting {
		if c.touches(held) {
			out = append(out, c.txns...)
			for t := range c.tables {
				held[t] = true
			}
		}
	}
	return out
}
