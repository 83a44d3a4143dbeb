package twophase

import "slices"

// recorded checks a record about a log that counts.
func (c *checker) recorded(was marks, id TableID, r Record) {
	t := c.ref.tables[id]
	if t == nil || t.Recorded == was.recorded[id] {
		return
	}
	var at *toyState
	switch r := r.(type) {
	case *Foreign:
		if t.Recorded != r.Version {
			return
		}
		c.taken(was, t, r)
		if c.byTxn[id] == nil {
			c.byTxn[id] = map[TxnID]*item{}
		}
		c.items[id] = append(c.items[id], &item{change: c.w.changeOf(&Part{Facts: r.Facts, FactsRef: r.FactsRef}), version: r.Version})
	}
	if c.healthy(t) {
		at = c.w.placeOf(t).past[t.Recorded].state
	}
	for _, ch := range was.pending[id] {
		o := c.ref.Outcome(ch.Txn)
		if s := o.Parts[ch.place].Status; s == StatusDiverged || s == StatusNotApplied {
			c.forgetItem(id, ch.Txn)
		}
		c.counts["part "+statusNames[o.Parts[ch.place].Status]]++
		switch part := o.Parts[ch.place]; part.Status {
		case StatusDelivered:
			c.isThere(t, ch.Txn, part)
		case StatusPending, StatusDiverged:
			if at == nil {
				continue
			}
			if v, ok := c.w.placeOf(t).delivered[ch.Txn]; ok && v <= t.Recorded {
				c.w.fail(acknowledged, "%s is in %s@%d, the journal has it at %d and calls it pending", short(ch.Txn), id, v, t.Recorded)
			}
			toy := c.w.changeOf(ch.Part)
			why := at.fits(toy)
			if gaveUp := part.Status == StatusDiverged; gaveUp != (why != nil) {
				c.w.fail(possible, "change %d (%s) of %s at %d: given up %v (%v), and it is %v", ch.Number, short(ch.Txn), id, t.Recorded, gaveUp, part.Conflict, why)
			}
			if why == nil {
				at = at.after(toy)
			}
		case StatusNotApplied:
			c.fenceGivenUp(t, ch, part, at)
		case StatusPublished:
		default:
		}
	}
}

// taken checks that a foreign version is one of the registered table's log: all that the
// record stands on, recorded before or found by its walk, is below it where it stands.
// Contents are compared and not folders, since a copy of a log that was put back goes on
// as the log (R9): a table that a transaction creates has versions that were found before
// any is recorded, and a copy may be of them.
func (c *checker) taken(was marks, t *Table, r *Foreign) {
	p := c.w.placeOf(t)
	if at := p.past[r.Version]; at == nil || at.identity != r.Identity {
		return // read before another log stood there
	}
	below := r.Found
	if v := was.recorded[t.Table]; v != NoVersion {
		below = append([]FoundVersion{{Version: v, Identity: was.identity[t.Table]}}, below...)
	}
	for _, f := range below {
		if at := p.past[f.Version]; at == nil || at.identity != f.Identity && !f.Identity.IsZero() {
			c.w.fail(ownTable, "%s@%d is of another table: version %d below it is another one", t.Table, r.Version, f.Version)
		}
	}
}

// whole reports whether all that was delivered to a table is in its log. A publisher that
// lags may put version 0 of a new table once more, where somebody has emptied the folder
// meanwhile. Then what others found above the first one is lost, unless it is put again
// too, and true all the same: it is recorded by the round that closes, and the next look
// finds the table replaced (R22).
func (c *checker) whole(t *Table, p *simPlace) bool {
	for txn, v := range c.archives[p.uri] {
		if o := c.ref.Outcome(txn); o == nil || o.Commit == nil || !slices.ContainsFunc(o.Commit.Parts, func(part Part) bool { return part.Table == t.Table }) {
			continue // of another table that stood there
		}
		if at, ok := p.delivered[txn]; !ok || at != v {
			return false
		}
	}
	return true
}

// abandoned forgets what an operator's word on a replaced table has given up: no commit
// can conflict with it.
func (c *checker) abandoned(id TableID) {
	for _, it := range slices.Clone(c.items[id]) {
		o := c.ref.Outcome(it.txn)
		if o == nil || o.Commit == nil {
			continue
		}
		for i := range o.Parts {
			if o.Commit.Parts[i].Table == id && o.Parts[i].Status == StatusNotApplied {
				c.forgetItem(id, it.txn)
			}
		}
	}
}

func (c *checker) forgetItem(id TableID, txn TxnID) {
	c.items[id] = slices.DeleteFunc(c.items[id], func(it *item) bool { return it.txn == txn && !txn.IsZero() })
}

// isThere checks that what the fold calls delivered is in the log.
func (c *checker) isThere(t *Table, txn TxnID, part PartOutcome) {
	v, ok := c.delivered(t, txn)
	if !ok || v > part.Version {
		c.w.fail(acknowledged, "%s on %s is delivered at %d, the log has it at %d (%v)", short(txn), t.Table, part.Version, v, ok)
	}
}
