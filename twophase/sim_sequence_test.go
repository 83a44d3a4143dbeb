package twophase

import (
	"fmt"
	"slices"
	"time"
)

// ask puts a request into the queue.
func (r *replica) ask(q *request) *request {
	r.queue = append(r.queue, q)
	return q
}

// finding asks for a record and waits until it is in the journal or refused.
func (r *replica) finding(a *actor, rec Record, base Base) *request {
	q := r.ask(&request{Request: Request{Record: rec, Base: base}})
	a.until(func() bool { return q.done })
	return q
}

// foldNow waits for a fold to a head that was read from now on.
func (r *replica) foldNow(a *actor) {
	since := r.w.now
	r.poke = true
	a.until(func() bool { return r.folded >= since })
}

// sequencer turns requests into entries.
func (r *replica) sequencer(a *actor) {
	for {
		a.until(func() bool { return len(r.queue) > 0 || r.poke || r.w.now-r.folded > time.Second })
		r.poke = false
		if !r.catchUp(a) {
			return
		}
		if len(r.queue) > 0 && !r.group(a) {
			return
		}
	}
}

// group decides what waits, and appends it.
func (r *replica) group(a *actor) bool {
	group := r.queue
	r.queue = nil
	group = r.lookAt(a, group)
	group = r.checkpoint(a, group)
	group = append(r.waitedFor(), group...)
	group = stillValid(group)
	if len(group) == 0 {
		return true
	}
	d := r.decide(group)
	for range 6 {
		if len(d.Records) == 0 {
			r.took(group, &d)
			return true
		}
		e, err := r.state.Entry(d, r.clock(), fmt.Sprint("R", r.id))
		if err != nil { // the position was lost: decide again (R15)
			group = stillValid(group)
			d = r.decide(group)
			continue
		}
		carries := slices.ContainsFunc(d.Records, func(rec Record) bool {
			c, ok := rec.(*Checkpointed)
			return ok && !r.w.ring.MustCheckpoint(e.Position, c.Position)
		})
		if !r.w.ring.MayAppend(e.Position, r.state.Checkpoint().Position, carries) {
			break
		}
		app, ok := r.append(a, e)
		if !ok {
			return false
		}
		if app.Filled() == nil { // only with weakAbsentIsNo
			r.deny(group, &d)
			return true
		}
		if !r.apply(app.Filled()) {
			return false
		}
		if r.losses.Count(app) {
			r.forward(group)
		}
		if app.Won() {
			r.took(group, &d)
			return true
		}
	}
	r.queue = append(group, r.queue...)
	return true
}

func stillValid(group []*request) []*request {
	return slices.DeleteFunc(group, func(q *request) bool {
		q.done = q.done || q.valid != nil && !q.valid()
		return q.done
	})
}

func (r *replica) decide(group []*request) Decision {
	reqs := make([]Request, len(group))
	for i, q := range group {
		reqs[i] = q.Request
	}
	return Decide(r.state, reqs, DecideInput{
		Rules: toyRules{&r.w.changes}, Views: r.views(), Fetched: r.facts, MaxBytes: 2000, Reserve: r.w.reserve,
	})
}

// append carries out the append loop.
func (r *replica) append(a *actor, e *Entry) (*Append, bool) {
	w := r.w
	b := encodeAs(e, w.builds)
	app := NewAppend(e.Position, b)
	app.weak = w.weak
	for {
		a.pause()
		effect, pos, bytes := app.Next()
		var res AppendResult
		switch effect {
		case AppendDone:
			return app, !app.behind
		case AppendPut:
			res.Done, res.Refused = w.conditional(fmt.Sprintf("entry %d of R%d", pos, r.id), 0, func() bool { return w.append(pos, bytes) })
			res.Unknown = !res.Done && !res.Refused
			w.logf("R%d appends %d: %+v", r.id, pos, d3(res))
		case AppendGet:
			res = w.ring.get(pos)
		}
		app.Feed(res)
	}
}

func d3(r AppendResult) string {
	switch {
	case r.Done:
		return "done"
	case r.Refused:
		return "refused"
	}
	return "unknown"
}

// append is the store's side of an append.
func (w *world) append(pos Position, b []byte) bool {
	if !w.ring.put(pos, b) {
		return false
	}
	w.check.appended(pos, b)
	return true
}

// took hands out the answers of a decision that is folded.
func (r *replica) took(group []*request, d *Decision) {
	for i, q := range group {
		switch ans := d.Answers[i]; {
		case ans.Recorded:
			q.done, q.answer = true, ans
			if q.from != nil {
				r.waiting = append(r.waiting, q)
			}
		case ans.Deferred:
			r.standsBehind(q, ans.Behind)
			r.ask(q)
		default:
			r.refused(q, ans)
		}
	}
	r.answerWaiting()
}

// refused does what a refusal asks for, or hands it on.
func (r *replica) refused(q *request, ans Answer) {
	q.tries++
	switch ref := ans.Refused; {
	case q.tries > 4:
	case ref.Reason == ReasonNeedFacts:
		for _, o := range ref.Refs {
			r.facts[o.Hash] = r.w.objects[o.Name]
		}
		r.ask(q)
		return
	case ref.Reason == ReasonReadPointAhead, ref.Reason == ReasonAheadOfJournal, ref.Reason == ReasonNeedView:
		q.looked = false // look at the log again, and fold
		r.ask(q)
		return
	case ref.Reason == ReasonReadPointTooOld && q.Commit.Older[ref.Table].To < r.state.tables[ref.Table].PastFloor:
		if older, ok := r.w.older(r.state.tables[ref.Table], readOf(q.Commit.Record, ref.Table)); ok {
			q.Commit.Older[ref.Table] = older
			r.ask(q)
			return
		}
	}
	q.done, q.answer = true, ans
	r.w.check.counts["refused: "+ans.Refused.Reason.String()]++
	r.w.logf("R%d refuses: %v", r.id, ans.Refused)
}

func readOf(c *Committed, id TableID) ReadPoint {
	for i := range c.Parts {
		if c.Parts[i].Table == id {
			return c.Parts[i].Read
		}
	}
	for i := range c.Reads {
		if c.Reads[i].Table == id {
			return c.Reads[i].Read
		}
	}
	return ReadPoint{Blind: true}
}

// older rebuilds facts from the table's log (R14).
func (w *world) older(t *Table, read ReadPoint) (Older, bool) {
	p := w.placeOf(t)
	out := Older{From: read.Version, To: t.PastFloor}
	for v := read.Version + 1; v <= t.PastFloor; v++ {
		c := p.commits[v]
		if c == nil {
			return Older{}, false
		}
		for _, ch := range c.changes {
			out.Facts = append(out.Facts, ch.facts())
		}
	}
	return out, true
}

// deny is what a server does that takes an absent entry for a refusal (A5 b).
func (r *replica) deny(group []*request, d *Decision) {
	for i, q := range group {
		q.done, q.answer = true, d.Answers[i]
		if q.from != nil && d.Answers[i].Recorded {
			r.w.check.answered(q, answerAborted)
		}
	}
}

// answerWaiting answers from the fold what is decided there (R5).
func (r *replica) answerWaiting() {
	r.waiting = slices.DeleteFunc(r.waiting, func(q *request) bool {
		o := r.state.Outcome(q.txn())
		switch {
		case o == nil:
			return true // forgotten, or ignored: never a final answer
		case o.Abort != nil:
			r.w.check.answered(q, answerAborted)
			return true
		case q.decided && r.state.DecidedSuffices(q.txn()):
			r.w.check.answered(q, answerCommitted)
			r.w.check.promise(q.txn())
			return true
		case o.Snapshot > 0 || !o.Commit.writes() || q.from.impatient:
			r.w.check.answered(q, answerCommitted)
			return true
		}
		return false
	})
}

func (q *request) txn() TxnID {
	if q.Abort != nil {
		return q.Abort.Txn
	}
	return q.Commit.Record.Txn
}

// forward hands the queue to the writer of the last entry, and keeps it (R15).
func (r *replica) forward(group []*request) {
	for _, o := range r.w.replicas {
		if o == r || !o.up || o.state == nil || fmt.Sprint("R", o.id) != r.state.Writer() {
			continue
		}
		for _, q := range group {
			if q.from != nil {
				copied := *q
				o.ask(&copied)
			}
		}
	}
}

// checkpoint makes one when it is time (R1); its objects are durable before the
// record is asked for.
func (r *replica) checkpoint(a *actor, group []*request) []*request {
	w, s := r.w, r.state
	if !w.ring.MustCheckpoint(s.Next(), s.Checkpoint().Position) || !w.calm && w.chance(0.3) {
		return group
	}
	index, segments := s.EncodeCheckpoint("")
	pos := s.Next()
	for _, o := range append(segments, index) {
		a.pause()
		w.objects[o.Ref.Name] = o.Bytes
	}
	w.logf("R%d has a checkpoint of %d", r.id, pos)
	return append([]*request{{Request: Request{Record: &Checkpointed{Position: pos, Object: index.Ref}}}}, group...)
}

// lookAt looks at the logs of open tables before a decision, and adds what has to
// be recorded first.
func (r *replica) lookAt(a *actor, group []*request) []*request {
	done := map[TableID][]FoundVersion{}
	for _, q := range slices.Clone(group) {
		if q.Commit == nil || q.looked {
			continue
		}
		q.looked = true
		if w := r.w; w.taken(q.Commit.Record) {
			q.done, q.answer = true, Answer{Refused: &Refused{Reason: ReasonStale, Detail: "a log is there already"}}
			continue
		}
		for _, id := range tablesOf(q.Commit.Record) {
			t, ok := r.state.Table(id)
			if !ok || t.Released {
				continue
			}
			ahead := readOf(q.Commit.Record, id).Version > t.Recorded
			if !t.Watched() && !ahead {
				continue
			}
			if _, ok := done[id]; !ok {
				end := r.look(a, id)
				switch end := end.(type) {
				case WalkDone:
					done[id] = end.Found
				case AppendRecord:
					done[id] = nil
					group = append(group, &request{Request: Request{Record: end.Record, Base: end.Base}})
				default:
					q.done, q.answer = true, Answer{Refused: &Refused{Reason: ReasonStale, Detail: "unavailable"}}
				}
			}
			q.Commit.Walked[id] = done[id]
		}
	}
	return slices.DeleteFunc(group, func(q *request) bool { return q.done })
}

func tablesOf(c *Committed) []TableID {
	var out []TableID
	for i := range c.Parts {
		out = append(out, c.Parts[i].Table)
	}
	for i := range c.Reads {
		out = append(out, c.Reads[i].Table)
	}
	return out
}

// look is a look-up by the sequencer; nil: the table's requests are refused.
func (r *replica) look(a *actor, id TableID) WalkEffect {
	unfit := ""
	for range 4 {
		in := r.state.WalkInput(id, r.sightOf(id))
		in.LookUp = true
		end := r.walk(a, id, in)
		bad, ok := end.(WalkUnfit)
		if !ok {
			return end
		}
		if bad.Reason == unfit {
			return AppendRecord{Record: &Frozen{Table: id, Cause: CauseContradiction, Detail: r.w.check.looked(bad.Reason, r.own)}}
		}
		unfit = bad.Reason
		if !r.catchUp(a) {
			return nil
		}
	}
	return nil
}
