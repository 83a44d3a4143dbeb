package twophase

import (
	"fmt"
	"time"
)

// publisher publishes open rounds, one after the other in no order, and looks at
// tables that are in none.
func (r *replica) publisher(a *actor) {
	w := r.w
	for {
		a.until(func() bool {
			return len(r.state.rounds) > 0 || r.state.Gathering() || w.now-r.folded < time.Second && w.step%16 == 0
		})
		if rounds := r.state.Rounds(); len(rounds) > 0 {
			r.publish(a, pick(w, rounds).ID)
			continue
		}
		if r.state.Gathering() { // after a while: without a record of its own, nothing might open it
			a.pause()
			r.finding(a, &Turned{}, nil)
			continue
		}
		if tables := r.state.Tables(); len(tables) > 0 && w.chance(w.polls) {
			r.publishTable(a, pick(w, tables).Table, RoundID{})
		}
	}
}

// publish walks the tables of a round and, when every change is in a log, asks for
// the record that closes it.
func (r *replica) publish(a *actor, id RoundID) {
	w := r.w
	if _, ok := r.firstSaw[id]; !ok {
		r.firstSaw[id] = w.now
	}
	round, ok := r.state.Round(id)
	if !ok {
		return
	}
	p := &Published{Round: id}
	plans := r.state.Plan(round)
	w.rng.Shuffle(len(plans), func(i, j int) { plans[i], plans[j] = plans[j], plans[i] })
	for _, plan := range plans {
		if plan.Closed {
			continue
		}
		table := plan.Table.Table
		done, ok := r.publishTable(a, table, id)
		if !ok {
			return
		}
		if len(done.Found) > 0 {
			p.Tables = append(p.Tables, PublishedTable{Table: table, Versions: done.Found})
		}
	}
	if round, ok := r.state.Round(id); ok && !r.state.Held(round) {
		r.finding(a, p, nil)
	}
	a.pause()
}

// publishTable walks a table's log to its end. False: somebody has to do something
// first, or the round is closed.
func (r *replica) publishTable(a *actor, id TableID, round RoundID) (WalkDone, bool) {
	unfit := ""
	for range 6 {
		t, ok := r.state.Table(id)
		on, busy := r.state.RoundOn(id)
		if !ok || t.Released || t.isReplaced() || busy != (round != RoundID{}) || busy && on.ID != round {
			return WalkDone{}, false
		}
		in := r.state.WalkInput(id, r.sightOf(id))
		in.GiveUp, in.LookUp = r.giveUp[id], !busy
		switch end := r.walk(a, id, in).(type) {
		case WalkDone:
			return end, true
		case AppendRecord:
			r.finding(a, end.Record, end.Base)
		case WalkUnfit:
			if end.Reason == unfit {
				r.finding(a, &Frozen{Table: id, Cause: CauseContradiction, Detail: r.w.check.looked(end.Reason, r.own)}, nil)
				return WalkDone{}, false
			}
			unfit = end.Reason
			r.foldNow(a)
		case lostPayload:
			r.impeded(a, round, &Frozen{Table: id, Cause: CauseLost, Txn: end.txn, Detail: "its payload is gone"})
			return WalkDone{}, false
		default:
			r.impeded(a, round, &Frozen{Table: id, Cause: CauseStalled, Detail: "requests are refused"})
			return WalkDone{}, false
		}
	}
	return WalkDone{}, false
}

// impeded freezes the round of a table whose requests are refused for long, or that lacks
// a payload for long (R12).
func (r *replica) impeded(a *actor, round RoundID, why *Frozen) {
	t, ok := r.state.Table(why.Table)
	saw, open := r.firstSaw[round]
	if ok && open && t.MayFreeze(why.Cause) && r.w.now-saw > 30*time.Second {
		why.Round = round
		r.finding(a, why, nil)
	}
	a.pause()
}

// lostPayload ends a walk that cannot put a version, since a payload is lost.
type lostPayload struct{ txn TxnID }

func (lostPayload) walkEffect() {}

// walk carries out a walk's effects to its end; nil: the table's requests are
// refused, or a put was too old to be sent. own: the table's own log stood at its place
// when the walk was told the last thing; r.own says so of one that does not fit.
func (r *replica) walk(a *actor, id TableID, in WalkInput) WalkEffect {
	w := r.w
	t, _ := r.state.Table(id)
	p := w.placeOf(t)
	wk, own := NewWalk(in, w.now), false
	for {
		effect := wk.Next()
		a.pause()
		if w.now < p.outage && !w.calm {
			return nil
		}
		var res WalkResult
		switch e := effect.(type) {
		case ClaimPlace:
			if !r.claims(p) {
				return WalkUnfit{Reason: fmt.Sprint("the claim has no answer ", w.step)}
			}
			res = PlaceClaimed{}
		case ReadVersion:
			res = AbsentVersion{}
			if c := p.commits[e.Version]; c != nil {
				res = w.seen(c)
			}
		case ListFrom:
			res = p.listing(e.Version)
		case ReadCleaned:
			res = p.cleanedLog(in.Recorded)
		case PutVersion:
			if !wk.MayPut(w.now, r.folded) {
				r.waitFold(a)
				return WalkUnfit{Reason: fmt.Sprint("too old to put ", w.step)}
			}
			var lost TxnID
			if res, lost = r.putVersion(a, p, in, e); !lost.IsZero() {
				return lostPayload{lost}
			}
		case PutBarrier:
			if !wk.MayPut(w.now, r.folded) {
				r.waitFold(a)
				return WalkUnfit{Reason: fmt.Sprint("too old to put ", w.step)}
			}
			res = r.put(p, renderBarrier(e, id), in)
		case AppendRecord:
			if gone, ok := e.Record.(*Replaced); ok {
				gone.Detail = w.check.looked(gone.Detail, own)
			}
			return e
		case WalkUnfit:
			r.own = own
			return e
		default:
			return effect
		}
		if res == nil {
			return WalkUnfit{Reason: fmt.Sprint("the round is gone ", w.step)}
		}
		own = w.check.own(id)
		a.pause()
		wk.Feed(res, w.now)
		r.saw(id, wk.Sight())
	}
}

// waitFold folds again before a put (R10); the walk begins anew.
func (r *replica) waitFold(a *actor) { r.foldNow(a) }

// putVersion renders a version and puts it. nil: its payloads are gone since the
// round is closed, or that of a transaction is lost.
func (r *replica) putVersion(a *actor, p *simPlace, in WalkInput, e PutVersion) (WalkResult, TxnID) {
	w, id := r.w, in.Table
	round := e.Changes[0].Round
	if round == nil { // only with weakOwnRoundEnd
		round = &Round{}
	}
	toy := make([]*toyChange, len(e.Changes))
	for i, c := range e.Changes {
		toy[i] = w.changeOf(c.Part)
		if !w.payloads[payloadKey{c.Txn, id, c.Part.Digest()}] {
			return nil, r.missing(a, c, id)
		}
	}
	prev := p.state.ict
	if below := p.past[e.Version-1]; below != nil {
		prev = below.state.ict
	} else if e.Version == 0 {
		prev = 0
	}
	c := rendering(e.Version, round, id, e.Changes, toy, prev)
	w.check.rendered(p, c)
	return r.put(p, c, in), TxnID{}
}

// missing: a payload that is not there makes a publisher fold again first (R20). If it is
// needed still, it is lost.
func (r *replica) missing(a *actor, c *Change, id TableID) (lost TxnID) {
	r.foldNow(a)
	key := payloadKey{c.Txn, id, c.Part.Digest()}
	switch {
	case !r.state.Needs(id, c.Txn) || r.w.payloads[key]:
		return TxnID{}
	case !r.w.lost[key]:
		r.w.fail(payloadThere, "the payload of %s on %s is gone, and it is pending", short(c.Txn), id)
	}
	return c.Txn
}

func (r *replica) put(p *simPlace, c *simCommit, in WalkInput) PutResult {
	w := r.w
	epoch := p.epoch
	c.from, c.fromIdentity = in.Recorded, in.Identity
	what := fmt.Sprintf("%s@%d of R%d", p.name, c.version, r.id)
	done, exists := w.conditional(what, w.now+putDeadline+storeGrace, func() bool {
		if p.there(c.version) {
			return false
		}
		own := *c
		w.land(p, &own)
		return true
	})
	w.logf("R%d puts %s@%d/%d %d changes, marker %d: done %v, exists %v", r.id, p.name, c.version, epoch, len(c.txns), c.marker, done, exists)
	return PutResult{Done: done, Exists: exists, Unknown: !done && !exists, Identity: c.identity}
}
