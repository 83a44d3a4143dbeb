package twophase

import "fmt"

// check compares a commit with everything decided since its read points. It
// returns an abort record when it lost, or a refusal.
func (d *decision) check(req *CommitRequest) (*Aborted, *Refused) {
	c := req.Record
	if lost, bad := d.checkCatalog(req); lost != nil || bad != nil {
		return lost, bad
	}
	for i := range c.Parts {
		p := &c.Parts[i]
		if p.Create != nil {
			continue
		}
		t, bad := d.writable(p.Table)
		if bad != nil {
			return nil, bad
		}
		if p.MetaDataID != t.MetaDataID {
			return d.lose(req, t, &Conflict{Rule: RuleTableReplaced, Detail: "staged against metaData.id " + p.MetaDataID}, nil), nil
		}
		lost, bad := d.since(req, t, p.Read, p.Facts)
		if lost != nil || bad != nil {
			return lost, bad
		}
		trial, bad := d.trial(p.Table)
		if bad != nil {
			return nil, bad
		}
		if why := trial.Fits(p.Facts); why != nil {
			return d.lose(req, t, why, nil), nil
		}
	}
	for i := range c.Reads {
		r := &c.Reads[i]
		t, ok := d.tables[r.Table]
		if !ok || t.Released {
			return nil, &Refused{Reason: ReasonUnknownTable, Table: r.Table}
		}
		if lost, bad := d.since(req, t, r.Read, r.Facts); lost != nil || bad != nil {
			return lost, bad
		}
	}
	return nil, nil
}

func (d *decision) writable(id TableID) (*Table, *Refused) {
	t, ok := d.tables[id]
	if !ok || t.Released {
		return nil, &Refused{Reason: ReasonUnknownTable, Table: id}
	}
	if f := t.Freezing(); f != nil && !d.weak.has(weakFrozenTakes) {
		return nil, &Refused{
			Reason: ReasonFrozen, Table: id, Txn: f.Txn,
			Detail: fmt.Sprintf("%s: %s", f.Cause, f.Text()),
		}
	}
	return t, nil
}

func (d *decision) trial(id TableID) (Trial, *Refused) {
	if t, ok := d.trials[id]; ok {
		return t, nil
	}
	v, ok := d.in.Views[id]
	if !ok || v == nil {
		return nil, &Refused{Reason: ReasonNeedView, Table: id}
	}
	t := v.Try()
	d.trials[id] = t
	return t, nil
}

// since compares facts with all that their read point does not cover (R14).
func (d *decision) since(req *CommitRequest, t *Table, read ReadPoint, facts Facts) (*Aborted, *Refused) {
	if read.Blind {
		return nil, nil
	}
	walked, bad := d.walked(req, t, read)
	if bad != nil {
		return nil, bad
	}
	older, bad := d.older(req, t, read)
	if bad != nil {
		return nil, bad
	}
	for _, f := range older {
		if why := d.conflict(facts, f); why != nil {
			return d.lose(req, t, why, nil), nil
		}
	}
	var missing []ObjectRef
	for p := range t.past.after(read.Version) {
		if walked[p.Txn] {
			continue
		}
		f, ok := d.facts(p.Facts, p.FactsRef)
		if !ok {
			missing = append(missing, p.FactsRef)
			continue
		}
		if why := d.conflict(facts, f); why != nil {
			return d.lose(req, t, why, p), nil
		}
	}
	if len(missing) > 0 {
		return nil, &Refused{Reason: ReasonNeedFacts, Table: t.Table, Refs: missing}
	}
	return d.sinceInGroup(req, t, facts), nil
}

// sinceInGroup compares facts with the commits in front of it in the group.
func (d *decision) sinceInGroup(req *CommitRequest, t *Table, facts Facts) *Aborted {
	if d.weak.has(weakGroupUnchecked) {
		return nil
	}
	for _, f := range d.group[t.Table] {
		if why := d.conflict(facts, f); why != nil {
			return d.lose(req, t, why, nil)
		}
	}
	return nil
}

// conflict compares for the commit that is decided.
func (d *decision) conflict(candidate, winner Facts) *Conflict {
	if d.checker == nil {
		d.checker = d.in.Rules.Checker()
	}
	return d.checker.Conflict(candidate, winner)
}

// walked are the transactions that a read point above the recorded version covers.
// The log has to be walked that far first.
func (d *decision) walked(req *CommitRequest, t *Table, read ReadPoint) (map[TxnID]bool, *Refused) {
	if read.Version <= t.Recorded {
		return nil, nil
	}
	out := map[TxnID]bool{}
	if d.weak.has(weakReadsAhead) {
		for _, c := range t.Pending {
			out[c.Txn] = true
		}
		return out, nil
	}
	next := t.Recorded + 1
	for _, v := range t.unrecorded(req.Walked[t.Table]) {
		if v.Version != next || v.Version > read.Version {
			break
		}
		for _, id := range v.Txns {
			out[id] = true
		}
		next++
	}
	if next <= read.Version {
		return nil, &Refused{
			Reason: ReasonReadPointAhead, Table: t.Table,
			Detail: fmt.Sprintf("read version %d, recorded %d", read.Version, t.Recorded),
		}
	}
	return out, nil
}

// older are the facts that the fold does not hold any more and the read point does
// not cover.
func (d *decision) older(req *CommitRequest, t *Table, read ReadPoint) ([]Facts, *Refused) {
	if read.Version >= t.PastFloor || d.weak.has(weakHistoryForgets) {
		return nil, nil
	}
	o, ok := req.Older[t.Table]
	if !ok || o.From > read.Version || o.To < t.PastFloor {
		return nil, &Refused{
			Reason: ReasonReadPointTooOld, Table: t.Table,
			Detail: fmt.Sprintf("read version %d, facts are kept from %d", read.Version, t.PastFloor),
		}
	}
	return o.Facts, nil
}

// facts are those given, or those of the object that was fetched for them.
func (d *decision) facts(f Facts, ref ObjectRef) (Facts, bool) {
	if len(f) > 0 || ref.Name == "" {
		return f, true
	}
	got, ok := d.in.Fetched[ref.Hash]
	return got, ok
}

func (d *decision) lose(req *CommitRequest, t *Table, why *Conflict, to *Past) *Aborted {
	c := req.Record
	if req.Name != nil {
		req.Name(t.Table, why)
	}
	a := &Aborted{
		Txn: c.Txn, Key: c.Key, Attempt: c.Attempt, Begun: c.Begun, Rule: why.Rule,
		Table: t.Table, Version: NoVersion, Path: why.Path, Detail: why.Detail,
	}
	if to != nil {
		a.Version, a.Winner = to.Version, to.Txn
	}
	return a
}
