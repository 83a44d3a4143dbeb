package twophase

import "slices"

// finding answers a request that carries a record. What the fold would ignore is
// refused as stale, so that its writer looks again.
func (d *decision) finding(r *Request) Answer {
	switch rec := r.Record.(type) {
	case *Foreign:
		return d.foreign(rec)
	case *Range:
		return d.ranged(rec, r.Base)
	case *Barrier:
		return d.onTable(rec, rec.Table, func(t *Table) bool { return d.next1(t, rec.Version, rec.Found) })
	case *Replaced:
		return d.onTable(rec, rec.Table, func(t *Table) bool { return t.Recorded == rec.Recorded })
	case *Published:
		return d.published(rec)
	case *Registered:
		return d.register(rec, rec)
	case *Created:
		return d.register(&rec.Registered, rec)
	case *Released:
		return d.release(rec)
	case *ModeSet:
		return d.onTable(rec, rec.Table, nil)
	case *Thawed:
		return d.onTable(rec, rec.Table, func(t *Table) bool { return t.Frozen != nil && t.Frozen.Origin == t.Table })
	case *Frozen:
		return d.freeze(rec)
	}
	return d.add(r.Record)
}

// onTable adds a record about a table, once per group.
func (d *decision) onTable(r Record, id TableID, fits func(*Table) bool) Answer {
	t, ok := d.tables[id]
	switch {
	case !ok || t.Released:
		return refuse(Refused{Reason: ReasonUnknownTable, Table: id})
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

// foreign fills in the verdicts on what is pending at this very state (R4).
func (d *decision) foreign(r *Foreign) Answer {
	stored := *r
	t, ok := d.tables[r.Table]
	if ok && !d.found[r.Table] && d.next1(t, r.Version, r.Found) {
		verdicts, bad := d.verdicts(t, foundTxns(r.Found), 0, func(f Facts) *Conflict { return d.in.Rules.Impossible(f, r.Facts) })
		if bad != nil {
			return refuse(*bad)
		}
		stored.Verdicts = verdicts
	}
	if stored.FactsRef.Name != "" {
		stored.Facts = nil
	}
	return d.onTable(&stored, r.Table, func(t *Table) bool { return d.next1(t, r.Version, r.Found) })
}

func (d *decision) ranged(r *Range, base Base) Answer {
	stored := *r
	fits := func(t *Table) bool { return r.From == t.Recorded+1 && r.To >= r.From && r.Marker >= t.Marker }
	t, ok := d.tables[r.Table]
	if ok && !d.found[r.Table] && fits(t) {
		verdicts, bad := d.verdicts(t, nil, r.Marker, func(f Facts) *Conflict { return d.in.Rules.ImpossibleAt(f, base) })
		if bad != nil {
			return refuse(*bad)
		}
		stored.Verdicts = verdicts
	}
	return d.onTable(&stored, r.Table, fits)
}

// verdicts judges each pending change that is neither found nor at or below a marker.
func (d *decision) verdicts(t *Table, found []TxnID, above ChangeNumber, judge func(Facts) *Conflict) ([]Verdict, *Refused) {
	var out []Verdict
	for _, c := range t.Pending {
		if c.Number <= above || slices.Contains(found, c.Txn) {
			continue
		}
		f, bad := d.facts(c.Part.Facts, c.Part.FactsRef)
		if bad != nil {
			return nil, bad
		}
		v := Verdict{Change: c.Number}
		if why := judge(f); why != nil {
			v.Conflict = *why
		}
		out = append(out, v)
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
	_, used := d.tables[r.Table]
	if used || d.byName[r.Name] != "" || d.byURI[r.URI] != "" || d.names[r.Name] || d.names[r.URI] {
		return refuse(Refused{Reason: ReasonAlreadyRegistered, Table: r.Table, Detail: r.Name + " at " + r.URI})
	}
	ans := d.add(rec)
	if ans.Recorded {
		d.names[r.Name], d.names[r.URI] = true, true
	}
	return ans
}

func (d *decision) release(r *Released) Answer {
	if t, ok := d.tables[r.Table]; ok && (len(t.Pending) > 0 || d.busy[r.Table] != nil) {
		return refuse(Refused{Reason: ReasonPendingChanges, Table: r.Table})
	}
	return d.onTable(r, r.Table, nil)
}

func (d *decision) freeze(r *Frozen) Answer {
	if r.Round != (RoundID{}) {
		if _, ok := d.Round(r.Round); !ok {
			return refuse(Refused{Reason: ReasonStale, Detail: "round " + r.Round.String()})
		}
		return d.add(r)
	}
	return d.onTable(r, r.Table, nil)
}
