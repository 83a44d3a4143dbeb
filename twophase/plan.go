package twophase

import "slices"

// TablePlan is what an open round still has to put on one table.
type TablePlan struct {
	Table *Table
	// Changes that are in no recorded version and not given up, in order.
	Changes []*Change
	// Closed: nothing may be put into the table (R12).
	Closed bool
}

// Plan says what an open round still has to publish, per table, by id. A round
// whose plan has no change left and is not Held wants its publication record.
func (s *State) Plan(r *Round) []TablePlan {
	out := make([]TablePlan, 0, len(r.tables))
	for _, id := range r.tables {
		t := s.tables[id]
		p := TablePlan{Table: t}
		for _, c := range t.Pending {
			if c.Round == r {
				p.Changes = append(p.Changes, c)
			}
		}
		if t.Frozen != nil && t.Frozen.Origin == id {
			p.Closed = t.Frozen.Cause == CauseReplaced || t.Frozen.Cause == CauseContradiction
		}
		out = append(out, p)
	}
	return out
}

// Held reports whether the round may not close yet, because an operator has to
// say what becomes of a change that was given up (R12).
func (s *State) Held(r *Round) bool { return s.held(r) }

// Needs reports whether the payload of a transaction's change on a table has still to be
// published: it is pending there, in the open round. Asked of a fold to a head that was
// read after the payload was seen missing, yes means that it is lost (R20): whoever
// removes one does so behind the record that settles the change.
func (s *State) Needs(table TableID, txn TxnID) bool {
	if s.weak.has(weakLostUnasked) {
		return true
	}
	t, ok := s.tables[table]
	return ok && slices.ContainsFunc(t.Pending, func(c *Change) bool { return c.Txn == txn && c.Round != nil })
}

// Share says how many of the changes, from the first, make up the next version
// (R19). The answer depends on the arguments alone, which every publisher of the
// round has alike; R17 is why the caps are the round's.
func Share(changes []*Change, caps Caps, oneTxnPerVersion bool) int {
	return share(changes, caps, oneTxnPerVersion, 0)
}

func share(changes []*Change, caps Caps, oneTxnPerVersion bool, weak weakness) int {
	if len(changes) == 0 {
		return 0
	}
	first := &changes[0].Part.Shape
	if oneTxnPerVersion || !caps.Coalesce || !first.Appends || changes[0].Part.Create != nil {
		return 1
	}
	apps := map[string]bool{}
	bytes := uint64(0)
	for i, c := range changes {
		sh := &c.Part.Shape
		bytes += sh.Bytes
		switch {
		case i == 0:
		case !sh.Appends || sh.DataChange != first.DataChange,
			bytes > caps.MaxVersionBytes, uint64(i) >= uint64(caps.MaxVersionTxns),
			anyIn(apps, sh.Apps) && !weak.has(weakSharesApps):
			return i
		}
		for _, a := range sh.Apps {
			apps[a.App] = true
		}
	}
	return len(changes)
}

func anyIn(apps map[string]bool, of []AppVersion) bool {
	for _, a := range of {
		if apps[a.App] {
			return true
		}
	}
	return false
}

// Digest is the part's digest as the tags of its version name it (CONTRACT.md
// section 5): that of its only piece, or the hash over those of all pieces in order.
func (p *Part) Digest() Digest {
	if len(p.Digests) == 1 {
		return p.Digests[0]
	}
	var all []byte
	for _, d := range p.Digests {
		all = append(all, d[:]...)
	}
	return HashOf(all)
}
