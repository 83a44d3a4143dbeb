package twophase

import (
	"fmt"
	"time"
)

// job is what a client wants done once: a key, and attempts at it.
type job struct {
	key       string
	attempt   uint32
	txn       TxnID
	begun     Position
	commit    *Committed
	other     *Committed    // the same id with other digests
	known     answer        // what the client heard
	impatient bool          // it takes COMMITTED for an answer before it is published
	stood     time.Duration // when it last stood behind a key that goes first; 0: never
	decided   bool          // it asks to be answered when it is decided, where that is offered
}

// clientAct is one act of one client.
func (w *world) clientAct() {
	r := pick(w, w.replicas)
	if !r.up || r.state == nil || len(r.actors) < 2 {
		return
	}
	if len(w.jobs) == 0 || w.unresolved() < 10 && w.chance(0.4) {
		w.newJob(r)
		return
	}
	j := pick(w, w.jobs)
	if w.chance(0.6) { // mostly a recent one; sometimes one that comes back late
		j = w.jobs[len(w.jobs)-1-w.rng.IntN(min(6, len(w.jobs)))]
	}
	switch n := w.rng.IntN(40); {
	case n < 20:
		j.send(w, r, j.commit)
	case n < 22:
		j.end(w, r, RuleClient)
	case n < 24:
		j.end(w, r, RuleResolved)
	case n < 26 && w.chance(w.other):
		j.sendOther(w, r)
	case j.known == answerAborted || n == 26:
		w.nextAttempt(j, r)
	}
}

func (w *world) unresolved() int {
	n := 0
	for _, j := range w.jobs {
		if j.known == answerNone && w.check.ref.Outcome(j.txn) == nil {
			n++
		}
	}
	return n
}

func (w *world) newJob(r *replica) {
	j := &job{key: fmt.Sprint("job", len(w.jobs)), impatient: w.chance(0.5), decided: w.chance(0.6)}
	w.jobs = append(w.jobs, j)
	w.begin(j, r)
	j.send(w, r, j.commit)
	if w.chance(0.3) { // and to another replica as well
		if o := pick(w, w.replicas); o.up && len(o.actors) > 1 {
			j.send(w, o, j.commit)
		}
	}
}

// nextAttempt runs an aborted job again, or one of which the client only thinks so.
func (w *world) nextAttempt(j *job, r *replica) {
	if j.known == answerCommitted || j.attempt > 4 && !w.chance(w.again) {
		return
	}
	w.begin(j, r)
	j.send(w, r, j.commit)
}

// begin begins and stages an attempt.
func (w *world) begin(j *job, r *replica) {
	j.attempt++
	j.txn, j.begun, j.known, j.other = DeriveTxnID(simCatalog, j.key, j.attempt), r.state.Next(), answerNone, nil
	was := j.commit
	j.commit = &Committed{Txn: j.txn, Key: j.key, Attempt: j.attempt, Begun: j.begun}
	if w.again > 0 && w.chance(w.again) && w.stageAgain(j, was, r) {
		return
	}
	tables := r.state.Tables()
	w.rng.Shuffle(len(tables), func(a, b int) { tables[a], tables[b] = tables[b], tables[a] })
	n := min(1+w.rng.IntN(3), len(tables))
	for _, t := range tables[:n] {
		if p, ok := w.stagePart(t, r); ok {
			j.commit.Parts = append(j.commit.Parts, p)
			w.stage(payloadKey{j.txn, t.Table, p.Digest()}, j.begun)
		}
	}
	if n < len(tables) && w.chance(0.15) {
		w.stageRead(j, tables[n])
	}
	if w.chance(w.create) {
		w.stageCreation(j)
	}
	if n < len(tables) && w.chance(w.leave) {
		j.commit.Releases = []TableID{tables[len(tables)-1].Table}
	}
	if w.trace.on {
		w.logf("job %s/%d is %s, begun at %d on R%d: %s", j.key, j.attempt, short(j.txn), j.begun, r.id, describeParts(w, j.commit))
	}
}

func (w *world) stage(k payloadKey, begun Position) {
	w.payloads[k] = true
	w.staged = append(w.staged, staged{k, begun})
}

// staged is a payload as the sweeper lists it.
type staged struct {
	payloadKey
	begun Position
}

func describeParts(w *world, c *Committed) string {
	out := ""
	for i := range c.Parts {
		ch := *w.changeOf(&c.Parts[i])
		out += fmt.Sprintf(" %s@%d{+%v -%v}", c.Parts[i].Table, c.Parts[i].Read.Version, ch.adds, ch.removes)
	}
	return out
}

// stagePart makes a part for a table, out of what its client read.
func (w *world) stagePart(t *Table, r *replica) (Part, bool) {
	if t.Recorded == NoVersion {
		return w.stageUnborn(t, r)
	}
	p := w.placeOf(t)
	read := t.Recorded
	switch w.rng.IntN(6) {
	case 0:
		read = p.latest // opened by path
	case 1:
		read = max(0, t.Recorded-Version(w.rng.IntN(5)))
	}
	c := p.past[read]
	if c == nil || metaName(c.state.meta) != t.MetaDataID && !w.chance(0.2) {
		return Part{}, false
	}
	ch := w.clientChange(c.state, r, t)
	part := Part{
		Table: t.Table, MetaDataID: metaName(c.state.meta), Digests: []Digest{digestOf(t.Table, ch)},
		Read: ReadPoint{Version: read}, Facts: ch.facts(), Shape: ch.shape(),
	}
	if ch.blind {
		part.Read = ReadPoint{Blind: true}
	}
	if w.chance(0.2) {
		part.FactsRef = w.factsObject(ch)
	}
	return part, true
}

func (w *world) stageRead(j *job, t *Table) {
	if c := w.placeOf(t).past[t.Recorded]; c != nil {
		ch := w.newChange(&toyChange{meta: c.state.meta, readsAll: true})
		j.commit.Reads = append(j.commit.Reads, ReadPart{Table: t.Table, Read: ReadPoint{Version: t.Recorded}, Facts: ch.facts()})
	}
}

// clientChange is a change to the state that was read. Some rest on changes that
// are decided and in no log yet.
func (w *world) clientChange(s *toyState, r *replica, t *Table) *toyChange {
	c := &toyChange{meta: s.meta, dataChange: w.chance(0.9)}
	n := w.rng.IntN(19)
	if w.chance(w.rests) {
		n = 19
	}
	switch {
	case n < 8: // blind append
		c.blind = true
		c.adds, c.needsSchema = w.newPairs(1+w.rng.IntN(2)), s.schema
	case n < 11: // a stream's append
		c.app = 1 + w.rng.IntN(toyApps)
		c.appVersion = s.apps[c.app] + 1 + int64(w.rng.IntN(3))
		c.blind = w.chance(0.7)
		c.adds, c.needsSchema = w.newPairs(1), s.schema
	case n < 14: // a rewrite
		c.removes = w.someOf(s.live, 2)
		c.adds, c.needsSchema = w.newPairs(1), s.schema
		c.reads = pathsOf(c.removes)
	case n < 16: // a delete with a vector
		c.removes = w.someOf(s.live, 1)
		for _, p := range c.removes {
			c.adds = append(c.adds, toyPair{p.path, p.dv + 1 + int32(w.rng.IntN(2))})
		}
		c.reads, c.needsSchema = pathsOf(c.removes), s.schema
	case n < 17:
		c.removes = w.someOf(s.live, 1)
	case n < 18: // read all, then append
		c.readsAll = true
		c.adds, c.needsSchema = w.newPairs(1), s.schema
	case n < 19:
		c.needsSchema = s.schema
		w.schemas++
		c.setsSchema = 100 + w.schemas
	default: // rests on what is pending
		v, ok := r.views()[t.Table].(*toyView)
		if !ok {
			v = &toyView{state: s}
		}
		c.removes = w.someOf(v.state.live, 1)
		c.adds, c.needsSchema, c.meta = w.newPairs(1), v.state.schema, v.state.meta
	}
	return w.newChange(c)
}

func (w *world) newPairs(n int) []toyPair {
	out := make([]toyPair, n)
	for i := range out {
		w.nextPath++
		out[i] = toyPair{path: w.nextPath}
	}
	return out
}

func (w *world) someOf(live []toyPair, n int) []toyPair {
	var out []toyPair
	for range n {
		if len(live) > 0 {
			if p := pick(w, live); !hasPath(out, p.path) {
				out = append(out, p)
			}
		}
	}
	return out
}

func pathsOf(pairs []toyPair) []toyPath {
	var out []toyPath
	for _, p := range pairs {
		out = append(out, p.path)
	}
	return out
}

// send asks a replica to commit. A listed part that cannot be read is refused (R8).
func (j *job) send(w *world, r *replica, c *Committed) {
	for i := range c.Parts {
		if !w.payloads[payloadKey{c.Txn, c.Parts[i].Table, c.Parts[i].Digest()}] {
			return
		}
	}
	r.ask(&request{from: j, decided: j.decided && r.offersDecided(c), Request: Request{Commit: &CommitRequest{
		Record: c, Older: map[TableID]Older{}, Walked: map[TableID][]FoundVersion{},
	}}})
}

// sendOther stages other bytes under the same id and commits those (R8).
func (j *job) sendOther(w *world, r *replica) {
	if j.other == nil {
		if len(j.commit.Parts) == 0 {
			return
		}
		c := *j.commit
		c.Parts = nil
		for _, p := range j.commit.Parts {
			if t, ok := r.state.Table(p.Table); ok && !t.Released {
				if p, ok := w.stagePart(t, r); ok {
					c.Parts = append(c.Parts, p)
					w.stage(payloadKey{j.txn, p.Table, p.Digest()}, j.begun)
				}
			}
		}
		j.other = &c
	}
	j.send(w, r, j.other)
}

// end asks a replica to abort.
func (j *job) end(w *world, r *replica, why Rule) {
	r.ask(&request{from: j, Request: Request{Abort: &Aborted{Txn: j.txn, Key: j.key, Attempt: j.attempt, Begun: j.begun, Rule: why}}})
}
