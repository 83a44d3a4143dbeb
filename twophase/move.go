package twophase

// gone answers a request in a catalog that has moved, or moves in this very group:
// nothing may be decided behind the record, since the copy of the journal ends with it.
func (d *decision) gone(r Record) (Answer, bool) {
	_, arrives := r.(*Arrived)
	switch {
	case d.rebuilding:
		return refuse(Refused{Reason: ReasonStale, Detail: "the catalog's rebuild is not complete"}), true
	case d.moving:
		return Answer{Deferred: true}, true
	case d.movedTo != "" && !arrives:
		return refuse(Refused{Reason: ReasonMoved, Detail: d.movedTo}), true
	case d.movedTo == "" && arrives:
		return refuse(Refused{Reason: ReasonStale, Detail: "the catalog has not moved"}), true
	}
	return Answer{}, false
}

func (d *decision) move(r *Moved) Answer {
	if r.To == "" {
		return refuse(Refused{Reason: ReasonStale, Detail: "a move to nowhere"})
	}
	ans := d.add(r)
	d.moving = ans.Recorded
	return ans
}
