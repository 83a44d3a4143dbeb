package twophase

import "slices"

// reservedFacts bounds the facts in one reservation. A table whose facts do not fit is
// reserved against everybody.
const reservedFacts = 64 << 10

// behind is the reservation that a commit has to wait for: the oldest one in its way
// that is older than its own key's, so two keys never wait for each other.
func (d *decision) behind(c *Committed) *Reservation {
	for _, r := range d.first {
		switch {
		case d.weak.has(weakOvertakesReserved), c.Key != "" && c.Key == r.Key:
			return nil
		case d.inTheWay(r, c):
			return r
		}
	}
	return nil
}

// inTheWay reports whether a commit could make the key lose that goes first: it changes a
// table in another way than by appending to it, or by an append that the attempt which
// lost would have lost to.
func (d *decision) inTheWay(r *Reservation, c *Committed) bool {
	for i := range c.Parts {
		p := &c.Parts[i]
		t, ok := r.Reserves(p.Table)
		if ok && (!p.Shape.Appends || len(t.Facts) == 0 || d.conflict(t.Facts, p.Facts) != nil) {
			return true
		}
	}
	return slices.ContainsFunc(c.Releases, func(id TableID) bool { _, ok := r.Reserves(id); return ok })
}

// reserve is what the key of a commit that lost gets; nil if it has not lost often
// enough, or has a reservation, or if its tables rest, or have as many as they can. It
// holds nobody up on tables that its caller may only read, so there is none for a loss
// there.
func (d *decision) reserve(req *CommitRequest, lost *Aborted) *Reserved {
	c := req.Record
	if c.Key == "" || d.in.Reserve.After <= 0 || !lost.Rule.lost() || d.losses(c) < d.in.Reserve.After || req.Bystander[lost.Table] {
		return nil
	}
	if slices.ContainsFunc(d.reservations, func(r *Reservation) bool { return r.Key == c.Key }) {
		return nil
	}
	out := &Reserved{Key: c.Key, Attempt: c.Attempt, Tables: reservedTables(c, req.Bystander), Until: d.next + d.in.Reserve.Positions}
	for _, t := range out.Tables {
		if !d.reservable(t.Table, d.next) || heldEnough(t.Table, d.stood) {
			return nil
		}
	}
	if len(out.Tables) == 0 || out.Until <= d.next || d.in.Limit > 0 && recordSize(out) > d.in.Limit/2 {
		return nil
	}
	return out
}

// losses counts the attempts of a commit's key that lost, this one included.
func (d *decision) losses(c *Committed) int {
	n := 1
	for a := uint32(1); a < c.Attempt; a++ {
		if o := d.Outcome(DeriveTxnID(d.catalog, c.Key, a)); o != nil && o.Abort != nil && o.Abort.Rule.lost() {
			n++
		}
	}
	return n
}

// reservedTables are those that a commit depends on, by id: a table that it creates
// cannot have been lost to anybody. Without those that its caller may only read.
func reservedTables(c *Committed, bystander map[TableID]bool) []ReservedTable {
	facts := map[TableID]Facts{}
	for i := range c.Parts {
		if p := &c.Parts[i]; p.Create == nil {
			facts[p.Table] = p.Facts
		}
	}
	for i := range c.Reads {
		if id := c.Reads[i].Table; !bystander[id] {
			facts[id] = c.Reads[i].Facts
		}
	}
	for _, id := range c.Releases {
		facts[id] = nil // it suffers nobody
	}
	var out []ReservedTable
	left := reservedFacts
	for _, id := range sortedKeys(facts) {
		t := ReservedTable{Table: id}
		if f := facts[id]; len(f) <= left {
			t.Facts, left = f, left-len(f)
		}
		out = append(out, t)
	}
	return out
}

// reserved has the requests behind a loss in the same group wait for its key already.
func (d *decision) reserved(r *Reserved) {
	if r != nil {
		given := &Reservation{Reserved: *r, From: d.next, Since: d.time}
		d.first, d.stood = append(slices.Clip(d.first), given), append(slices.Clip(d.stood), given)
	}
}

// goesOn: who stood behind a reservation in the same group does so no longer.
func (d *decision) goesOn(key string, attempt uint32, rule Rule) {
	ended := func(r *Reservation) bool { return r.endedBy(key, attempt, rule) }
	if slices.ContainsFunc(d.first, ended) {
		d.first = slices.DeleteFunc(slices.Clone(d.first), ended)
	}
}

// reservationEnd ends one that stands, once.
func (d *decision) reservationEnd(e *ReservationEnded) Answer {
	ends := func(r *Reservation) bool { return r.Key == e.Key && r.From == e.From }
	if !slices.ContainsFunc(d.first, ends) || d.weak.has(weakReservedForever) {
		return refuse(Refused{Reason: ReasonStale, Detail: "the reservation of key " + e.Key + " has ended"})
	}
	ans := d.add(e)
	if ans.Recorded {
		d.first = slices.DeleteFunc(slices.Clone(d.first), ends)
	}
	return ans
}
