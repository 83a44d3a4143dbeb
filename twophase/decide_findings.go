package twophase

import "fmt"

// finding answers a request that carries a record. What the fold would ignore is
// refused as stale, so that its writer looks again.
func (d *decision) finding(r *Request) Answer {
	if ans, gone := d.gone(r.Record); gone {
		return ans
	}
	switch rec := r.Record.(type) {
	case *Foreign:
		return d.foreign(rec)
	case *Range:
		return d.ranged(rec, r.Base)
	case *Barrier:
		return d.barrier(rec)
	case *Replaced:
		return d.onTable(rec, rec.Table, func(t *Table) bool { return t.Recorded == rec.Recorded && !t.isReplaced() })
	case *Published:
		return d.published(rec)
	case *Registered:
		return d.register(rec, rec)
	case *Created:
		return d.register(&rec.Registered, rec)
	case *Released:
		return d.release(rec)
	case *ModeSet:
		return d.onTable(rec, rec.Table, func(t *Table) bool { return t.setsMode(rec) })
	case *FenceCounted:
		return d.onTable(rec, rec.Table, func(t *Table) bool { return t.mayCount(rec) })
	case *Thawed:
		return d.onTable(rec, rec.Table, func(t *Table) bool { return t.thaws(rec) })
	case *Held:
		return d.onTable(rec, rec.Table, func(t *Table) bool { return t.holds(rec) })
	case *Frozen:
		return d.freeze(rec)
	case *Checkpointed:
		return d.checkpointed(rec)
	case *Moved:
		return d.move(rec)
	case *Rebuilt:
		return refuse(Refused{Reason: ReasonStale, Detail: "the journal has begun"})
	case *Leased:
		return d.lease(rec)
	case *LeaseEnded:
		return d.leaseEnd(rec)
	case *LogCut:
		return d.cutLog(rec)
	case *Reserved:
		return refuse(Refused{Reason: ReasonStale, Detail: "a reservation is given to who loses"})
	case *ReservationEnded:
		return d.reservationEnd(rec)
	case *Turned:
		return d.turn(rec)
	}
	return d.add(r.Record)
}

// onTable adds a record about a table, once per group.
func (d *decision) onTable(r Record, id TableID, fits func(*Table) bool) Answer {
	t, ok := d.tables[id]
	switch {
	case !ok || t.Released:
		return refuse(Refused{Reason: ReasonUnknownTable, Table: id})
	case t.isReplaced() && aboutLog(r):
		return refuse(Refused{Reason: ReasonFrozen, Table: id, Detail: t.Frozen.Cause.String()})
	case d.found[id]:
		return Answer{Deferred: true}
	case fits != nil && !fits(t):
		return refuse(Refused{Reason: ReasonStale, Table: id})
	}
	ans := d.add(r)
	if ans.Recorded {
		d.found[id], d.touched[id] = true, true
	}
	return ans
}

// aboutLog reports whether the record makes something in a log history, which
// on a replaced table is another table's log.
func aboutLog(r Record) bool {
	switch r.(type) {
	case *Foreign, *Barrier, *Range:
		return true
	}
	return false
}

// foreign fills in the verdicts on what is pending at this very state (R4).
func (d *decision) foreign(r *Foreign) Answer {
	stored := *r
	fits := func(t *Table) bool { return d.next1(t, r.Version, r.Found) }
	judge := func(facts []Facts, changes []*Change) []*Conflict {
		why := make([]*Conflict, len(facts))
		for i, f := range facts {
			why[i] = d.in.Rules.Impossible(f, r.Facts)
		}
		return d.cascade(facts, why)
	}
	if t := d.judgeable(r.Table, fits); t != nil && (!d.weak.has(weakVerdictsStay) || r.Verdicts == nil) {
		verdicts, bad := d.verdicts(t, foundTxns(r.Found), 0, judge)
		if bad != nil {
			return refuse(*bad)
		}
		stored.Verdicts = verdicts
		if d.weak.has(weakVerdictsStay) {
			r.Verdicts = append([]Verdict{}, verdicts...)
		}
	}
	if stored.FactsRef.Name != "" {
		stored.Facts = nil
	}
	return d.onTable(&stored, r.Table, fits)
}

// barrier judges what is pending besides the changes that an operator gives up.
func (d *decision) barrier(r *Barrier) Answer {
	stored := *r
	fits := func(t *Table) bool { return d.next1(t, r.Version, r.Found) }
	named := txnSet(r.NotApplied)
	judge := func(facts []Facts, changes []*Change) []*Conflict {
		why := make([]*Conflict, len(facts))
		for i, c := range changes {
			if named[c.Txn] {
				why[i] = &Conflict{Rule: RuleOperator}
			}
		}
		return d.cascade(facts, why)
	}
	if t := d.judgeable(r.Table, fits); t != nil {
		verdicts, bad := d.verdicts(t, foundTxns(r.Found), 0, judge)
		if bad != nil {
			return refuse(*bad)
		}
		for _, v := range verdicts {
			if v.Conflict.Rule != RuleOperator {
				stored.Verdicts = append(stored.Verdicts, v)
			}
		}
	}
	return d.onTable(&stored, r.Table, fits)
}

func (d *decision) ranged(r *Range, base Base) Answer {
	stored := *r
	fits := func(t *Table) bool { return t.takes(r) }
	judge := func(facts []Facts, _ []*Change) []*Conflict { return d.in.Rules.ImpossibleAt(facts, base) }
	if t := d.judgeable(r.Table, fits); t != nil {
		verdicts, bad := d.verdicts(t, nil, r.Marker, judge)
		if bad != nil {
			return refuse(*bad)
		}
		stored.Verdicts = verdicts
	}
	return d.onTable(&stored, r.Table, fits)
}

// judgeable is the table, if a finding on it can be recorded in this entry.
func (d *decision) judgeable(id TableID, fits func(*Table) bool) *Table {
	t, ok := d.tables[id]
	if !ok || d.found[id] || !fits(t) {
		return nil
	}
	return t
}

// cascade adds what cannot stand without the changes that are lost (R13).
func (d *decision) cascade(facts []Facts, why []*Conflict) []*Conflict {
	lost := make([]bool, len(why))
	any := false
	for i, c := range why {
		lost[i] = c != nil
		any = any || lost[i]
	}
	if !any || d.weak.has(weakNoCascade) {
		return why
	}
	for i, c := range d.in.Rules.Without(facts, lost) {
		if why[i] == nil {
			why[i] = c
		}
	}
	return why
}

// verdicts judges the pending changes that are neither found nor at or below a marker.
func (d *decision) verdicts(t *Table, found []TxnID, above ChangeNumber,
	judge func([]Facts, []*Change) []*Conflict,
) ([]Verdict, *Refused) {
	var (
		below   = txnSet(found)
		changes []*Change
		facts   []Facts
		missing []ObjectRef
	)
	for _, c := range t.Pending {
		if c.Number <= above || below[c.Txn] {
			continue
		}
		f, ok := d.facts(c.Part.Facts, c.Part.FactsRef)
		if !ok {
			missing = append(missing, c.Part.FactsRef)
			continue
		}
		changes, facts = append(changes, c), append(facts, f)
	}
	if len(missing) > 0 {
		return nil, &Refused{Reason: ReasonNeedFacts, Table: t.Table, Refs: missing}
	}
	out := make([]Verdict, len(changes))
	for i, why := range judge(facts, changes) {
		out[i].Change = changes[i].Number
		if why != nil && !d.weak.has(weakNeverDiverges) {
			out[i].Conflict = *why
		}
	}
	return out, nil
}

func foundTxns(found []FoundVersion) []TxnID {
	var out []TxnID
	for _, v := range found {
		out = append(out, v.Txns...)
	}
	return out
}

func (d *decision) published(r *Published) Answer {
	round, ok := d.Round(r.Round)
	if !ok || d.held(round) || !d.accounts(round, r) {
		return refuse(Refused{Reason: ReasonStale, Detail: "round " + r.Round.String()})
	}
	for i := range r.Tables {
		if d.found[r.Tables[i].Table] {
			return Answer{Deferred: true}
		}
	}
	ans := d.add(r)
	for i := range r.Tables {
		d.found[r.Tables[i].Table] = ans.Recorded
	}
	return ans
}

func (d *decision) register(r *Registered, rec Record) Answer {
	if d.taken(r) || d.names[r.Name] || d.names[r.URI] {
		return refuse(Refused{Reason: ReasonAlreadyRegistered, Table: r.Table, Detail: r.Name + " at " + r.URI})
	}
	ans := d.add(rec)
	if ans.Recorded {
		d.names[r.Name], d.names[r.URI] = true, true
	}
	return ans
}

func (d *decision) release(r *Released) Answer {
	if t, ok := d.tables[r.Table]; ok && d.engaged(t) {
		return refuse(Refused{Reason: ReasonPendingChanges, Table: r.Table})
	}
	return d.onTable(r, r.Table, nil)
}

func (d *decision) freeze(r *Frozen) Answer {
	if r.Cause == CauseOperator {
		return refuse(Refused{Reason: ReasonStale, Table: r.Table, Detail: "an operator's freeze is a hold"})
	}
	if r.Round != (RoundID{}) {
		if _, ok := d.Round(r.Round); !ok {
			return refuse(Refused{Reason: ReasonStale, Detail: "round " + r.Round.String()})
		}
		if r.Cause == CauseLost && !d.Needs(r.Table, r.Txn) {
			return refuse(Refused{Reason: ReasonStale, Table: r.Table})
		}
		return d.add(r)
	}
	return d.onTable(r, r.Table, func(t *Table) bool { return !t.isReplaced() })
}

// checkpointed refuses a checkpoint that was made without knowledge of the newest one:
// whoever wrote that may already be removing objects which this one counts on.
func (d *decision) checkpointed(r *Checkpointed) Answer {
	if d.checkpoint != (Checkpointed{}) && r.Position <= d.checkpointAt {
		return refuse(Refused{Reason: ReasonStale, Detail: fmt.Sprintf("a checkpoint at %d, when %d records another", r.Position, d.checkpointAt)})
	}
	return d.add(r)
}
