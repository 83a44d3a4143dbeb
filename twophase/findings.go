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
	for _, id := range f.roundTables(r) {
		if t := f.tables[id]; t.Recorded > t.Shown {
			tables = append(tables, SnapshotTable{id, t.Recorded})
		}
	}
	f.close(r, f.snapshot("publication", r.Txns, tables, nil))
}

// held reports whether a round may not close: an operator has to say what becomes
// of a change that was given up, and a snapshot keeps to the last closed version (R12).
func (s *State) held(r *Round) bool {
	for _, id := range s.roundTables(r) {
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
	for _, id := range s.roundTables(r) {
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
// hold only pending changes of the open round on the table, each once.
func (s *State) follows(t *Table, found []FoundVersion) bool {
	if len(found) == 0 {
		return true
	}
	r := s.busy[t.Table]
	if r == nil {
		return false
	}
	open := make(map[TxnID]bool, len(t.Pending))
	for _, c := range t.Pending {
		if c.Round == r {
			open[c.Txn] = true
		}
	}
	for i, v := range found {
		if v.Version != t.Recorded+1+Version(i) || len(v.Txns) == 0 {
			return false
		}
		for _, txn := range v.Txns {
			if !open[txn] {
				return false
			}
			delete(open, txn)
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
	t.Pending = slices.DeleteFunc(t.Pending, func(c *Change) bool {
		p, ok := places[c.Txn]
		if !ok {
			return false
		}
		f.mark(t, c, PartOutcome{Change: c.Number, Status: StatusDelivered, Version: p.version, Place: p.place})
		if c.Txn == last.Txns[len(last.Txns)-1] {
			t.Marker = c.Number
		}
		return true
	})
	t.Recorded, t.Identity = last.Version, last.Identity
}

// mark notes what became of a change.
func (f *fold) mark(t *Table, c *Change, what PartOutcome) {
	o := f.outcomes[c.Txn]
	for i := range o.Parts {
		if o.Commit.Parts[i].Table == t.Table {
			o.Parts[i] = what
		}
	}
	if what.Status == StatusDelivered {
		c.past.Version = what.Version
	} else {
		t.forget(c.past)
	}
}

// foreign makes a foreign version history (R4): the first record for a version
// counts, and only one that leaves no pending change without a verdict.
func (f *fold) foreign(r *Foreign) {
	t := f.live(r.Table)
	if t == nil || !f.next1(t, r.Version, r.Found) || !t.covered(r.Found, r.Verdicts, 0) {
		return
	}
	f.deliver(t, r.Found)
	f.judge(t, r.Verdicts)
	t.Recorded, t.Identity = r.Version, r.Identity
	if r.MetaDataID != "" {
		t.MetaDataID = r.MetaDataID // CREATE OR REPLACE inside one log (R13)
	}
	t.remember(&Past{Version: r.Version, Facts: r.Facts, FactsRef: r.FactsRef})
	f.moved(t, "foreign")
}

// barrier makes an empty version of ours history (R4). It repeats the marker
// below it, so it leaves the marker alone (A16).
func (f *fold) barrier(r *Barrier) {
	t := f.live(r.Table)
	if t == nil || !f.next1(t, r.Version, r.Found) {
		return
	}
	f.deliver(t, r.Found)
	t.Pending = slices.DeleteFunc(t.Pending, func(c *Change) bool {
		if !slices.Contains(r.NotApplied, c.Txn) {
			return false
		}
		f.mark(t, c, PartOutcome{Change: c.Number, Status: StatusNotApplied, Version: r.Version,
			Conflict: Conflict{Rule: RuleOperator, Detail: "given up by an operator"}})
		return true
	})
	t.Recorded, t.Identity = r.Version, r.Identity
	f.moved(t, "barrier")
}

// next1 reports whether the found versions and then v come right after the
// recorded one.
func (s *State) next1(t *Table, v Version, found []FoundVersion) bool {
	return v == t.Recorded+1+Version(len(found)) && s.follows(t, found)
}

// covered reports whether each pending change above a marker has a verdict or is found.
func (t *Table) covered(found []FoundVersion, verdicts []Verdict, above ChangeNumber) bool {
	has := make(map[ChangeNumber]bool, len(verdicts))
	for _, v := range verdicts {
		has[v.Change] = true
	}
	below := map[TxnID]bool{}
	for _, v := range found {
		for _, txn := range v.Txns {
			below[txn] = true
		}
	}
	for _, c := range t.Pending {
		if c.Number > above && !has[c.Number] && !below[c.Txn] {
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
}

func (f *fold) giveUp(t *Table, c *Change, why Conflict) {
	f.mark(t, c, PartOutcome{Change: c.Number, Status: StatusDiverged, Version: NoVersion, Conflict: why})
	t.Diverged = append(t.Diverged, c)
	tables := []TableID{t.Table}
	if c.Round != nil {
		tables = f.roundTables(c.Round)
	} else {
		for _, p := range f.outcomes[c.Txn].Commit.Parts {
			tables = append(tables, p.Table)
		}
	}
	ice := Freeze{Cause: CauseDiverged, Origin: t.Table, Txn: c.Txn, Detail: why.Rule.String() + " " + why.Path}
	if c.Round != nil {
		ice.Round = c.Round.ID
	}
	f.freeze(tables, ice)
}

// freeze refuses commits on tables; what is frozen for a graver reason stays so.
func (f *fold) freeze(tables []TableID, ice Freeze) {
	for _, id := range tables {
		if t := f.tables[id]; t.Frozen == nil || t.Frozen.Cause == CauseStalled {
			own := ice
			t.Frozen = &own
		}
	}
}

// ranged takes over what a cleaned log does not show version by version (R22 b).
func (f *fold) ranged(r *Range) {
	t := f.live(r.Table)
	if t == nil || r.From != t.Recorded+1 || r.To < r.From || r.Marker < t.Marker || !t.covered(nil, r.Verdicts, r.Marker) {
		return
	}
	t.Pending = slices.DeleteFunc(t.Pending, func(c *Change) bool {
		if c.Number > r.Marker {
			return false
		}
		f.mark(t, c, PartOutcome{Change: c.Number, Status: StatusDelivered, Version: r.To})
		return true
	})
	f.judge(t, r.Verdicts)
	t.Recorded, t.Identity, t.Marker, t.MetaDataID = r.To, r.Identity, r.Marker, r.MetaDataID
	t.Next = max(t.Next, r.Marker+1)
	t.PastFloor = r.To // no facts exist for the span
	f.moved(t, "range")
}

// moved makes the snapshot that a record on a table outside an open round makes (R18).
func (f *fold) moved(t *Table, kind string) {
	if f.busy[t.Table] == nil {
		f.snapshot(kind, nil, []SnapshotTable{{t.Table, t.Recorded}}, nil)
	}
}

// replaced freezes a table whose place holds another one, unless it has moved meanwhile (R22 c).
func (f *fold) replaced(r *Replaced) {
	t := f.live(r.Table)
	if t == nil || r.Recorded != t.Recorded || t.Frozen != nil && t.Frozen.Cause == CauseReplaced {
		return
	}
	t.Frozen = nil // graver than what stood there
	f.freezeWithRound(t, Freeze{Cause: CauseReplaced, Origin: t.Table, Detail: r.Detail})
}

func (f *fold) frozen(r *Frozen) {
	ice := Freeze{Cause: r.Cause, Origin: r.Table, Round: r.Round, Txn: r.Txn, Detail: r.Detail}
	if r.Round == (RoundID{}) && r.Table != "" {
		if t := f.live(r.Table); t != nil {
			f.freezeWithRound(t, ice)
		}
		return
	}
	if round, ok := f.Round(r.Round); ok {
		f.freeze(f.roundTables(round), ice)
	}
}

func (f *fold) freezeWithRound(t *Table, ice Freeze) {
	tables := []TableID{t.Table}
	if r := f.busy[t.Table]; r != nil {
		ice.Round = r.ID
		tables = append(tables, f.roundTables(r)...)
	}
	f.freeze(tables, ice)
}

// thawed is the operator's word (R12). What was given up on the table stays so;
// on a replaced table everything pending is given up, and the table stays closed.
func (f *fold) thawed(r *Thawed) {
	t := f.live(r.Table)
	if t == nil || t.Frozen == nil || t.Frozen.Origin != t.Table {
		return
	}
	keep := t.Frozen.Cause == CauseReplaced
	if keep {
		t.Pending = slices.DeleteFunc(t.Pending, func(c *Change) bool {
			f.mark(t, c, PartOutcome{Change: c.Number, Status: StatusNotApplied, Version: NoVersion,
				Conflict: Conflict{Rule: RuleTableReplaced}})
			return true
		})
	}
	for _, o := range f.tables {
		if o.Frozen == nil || o.Frozen.Origin != t.Table {
			continue
		}
		for _, c := range o.Diverged {
			f.settle(o, c)
		}
		o.Diverged = nil
		if !keep || o != t {
			o.Frozen = nil
		}
	}
	if keep {
		t.Frozen.Resolved = true
	}
}

// settle turns "diverged" into "not applied".
func (f *fold) settle(t *Table, c *Change) {
	o := f.outcomes[c.Txn]
	for i := range o.Parts {
		if o.Commit.Parts[i].Table == t.Table && o.Parts[i].Status == StatusDiverged {
			o.Parts[i].Status = StatusNotApplied
		}
	}
}
