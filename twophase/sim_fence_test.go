package twophase

import (
	"fmt"
	"slices"
	"time"
)

// Fences in the simulator (R11). Other engines look at the fence when they read a
// table, and commit a while later: those that read it before the fence are the older
// writers of B1. No one of them works longer than writerLife, which the grace time
// exceeds. Where a profile says so, some ignore features altogether.
const (
	writerLife = 14 * time.Second
	fenceGrace = 15 * time.Second
)

// mayCommit reports whether another engine gets a commit into the log.
func (w *world) mayCommit(p *simPlace) bool {
	p.writers = slices.DeleteFunc(p.writers, func(read time.Duration) bool { return w.now-read > writerLife })
	switch {
	case !p.state.fenced:
		return true
	case len(p.writers) > 0:
		p.writers = p.writers[1:]
		w.check.counts["foreign: read before the fence"]++
		return true
	case w.chance(w.ignores):
		w.check.unprotect(p)
		w.check.counts["foreign: ignores the fence"]++
		return true
	}
	w.check.counts["foreign: kept out"]++
	return false
}

// fenceAct raises or lifts a fence by a transaction of its own.
func (w *world) fenceAct(r *replica) {
	all := r.state.Tables()
	if len(all) == 0 {
		return
	}
	t := pick(w, all)
	at := w.placeOf(t).past[t.Recorded]
	if at == nil || metaName(at.state.meta) != t.MetaDataID {
		return
	}
	what := FenceRaised
	switch {
	case at.state.fenced && w.chance(w.lift):
		what = FenceLifted
	case t.Mode == ModeFenced:
		if !t.Fence.Counts && w.chance(0.5) { // all other engines are stopped; the operator says so
			w.placeOf(t).writers = nil
			r.fences[t.Table] = sawFence{version: t.Fence.Version, vouched: true}
		}
		return
	}
	ch := w.newChange(&toyChange{meta: at.state.meta, needsProtocol: at.state.protocol, fence: what, dataChange: true})
	j := &job{key: fmt.Sprint("fence", len(w.jobs)), attempt: 1, begun: r.state.Next()}
	j.txn = DeriveTxnID(simCatalog, j.key, 1)
	j.commit = &Committed{Txn: j.txn, Key: j.key, Attempt: 1, Begun: j.begun, Parts: []Part{{
		Table: t.Table, MetaDataID: t.MetaDataID, Digests: []Digest{digestOf(t.Table, ch)}, Read: ReadPoint{Version: t.Recorded},
		Facts: ch.facts(), Shape: ch.shape(), Fence: what,
	}}}
	w.jobs = append(w.jobs, j)
	w.stage(payloadKey{j.txn, t.Table, j.commit.Parts[0].Digest()}, j.begun)
	w.logf("job %s is %s: fence change %d of %s on R%d", j.key, short(j.txn), what, t.Table, r.id)
	j.send(w, r, j.commit)
}

// offersDecided is the check when a request comes.
func (r *replica) offersDecided(c *Committed) bool {
	for i := range c.Parts {
		if t, ok := r.state.Table(c.Parts[i].Table); !ok || !t.OffersDecided() {
			return false
		}
	}
	return len(c.Parts) > 0
}

// sawFence is since when a replica has known of a fence.
type sawFence struct {
	version Version
	at      time.Duration
	vouched bool // an operator's word
}

// countFence counts grace times on the replica's own clock (R16). When one has passed
// it looks at the log, and asks for the record.
func (r *replica) countFence(a *actor) bool {
	w := r.w
	for _, t := range r.state.Tables() {
		if t.Mode != ModeFenced || t.Fence.Counts {
			continue
		}
		v := t.Fence.Version
		if saw, ok := r.fences[t.Table]; !ok || saw.version != v {
			r.fences[t.Table] = sawFence{version: v, at: w.now}
			continue
		}
		saw := r.fences[t.Table]
		if !saw.vouched && w.now-saw.at < fenceGrace {
			continue
		}
		if !r.lookToTheEnd(a, t.Table) {
			return false
		}
		w.check.counts["fence counts"]++
		r.finding(a, &FenceCounted{Table: t.Table, Version: v, Operator: saw.vouched}, nil)
		return true
	}
	return false
}

// lookToTheEnd makes what is in a table's log history, until it has seen its end.
func (r *replica) lookToTheEnd(a *actor, id TableID) bool {
	for range 6 {
		if t, ok := r.state.Table(id); !ok || t.Released || t.isReplaced() {
			return false
		}
		in := r.state.WalkInput(id, r.sightOf(id))
		in.LookUp = true
		switch end := r.walk(a, id, in).(type) {
		case WalkDone:
			return true
		case AppendRecord:
			r.finding(a, end.Record, end.Base)
		case WalkUnfit:
			r.foldNow(a)
		default:
			return false
		}
	}
	return false
}

// promise notes that a client was answered before the logs have its transaction.
func (c *checker) promise(txn TxnID) {
	c.counts["answered as decided"]++
	c.promises[txn] = true
	c.keeps(txn)
}

// unprotect: what is done to the table is none of what a fence keeps out.
func (c *checker) unprotect(p *simPlace) {
	if t, ok := c.ref.TableNamed(p.uri); ok {
		c.exposed[t.Table] = true
	}
}

// fencesHold looks at all that was promised after an entry.
func (c *checker) fencesHold(e *Entry) {
	for _, r := range e.Records {
		if b, ok := r.(*Barrier); ok {
			c.exposed[b.Table] = true // an operator gave something up, and what needs it goes along
		}
	}
	for _, j := range c.w.jobs {
		if c.promises[j.txn] {
			c.keeps(j.txn)
		}
	}
}

func (c *checker) keeps(txn TxnID) {
	o := c.ref.Outcome(txn)
	if o == nil || o.settled() && o.Snapshot == 0 {
		delete(c.promises, txn)
		return
	}
	for i, part := range o.Parts {
		if part.Status != StatusDiverged && part.Status != StatusNotApplied {
			continue
		}
		t := c.ref.tables[o.Commit.Parts[i].Table]
		switch {
		case part.Conflict.Rule == RuleOperator:
		case !c.exposed[t.Table]:
			c.w.fail(keepsDecided, "%s was answered as decided, and is not in %s: %v", short(txn), t.Table, part.Conflict)
		case part.Status == StatusDiverged && t.Frozen == nil:
			c.w.fail(keepsDecided, "%s was answered as decided, is not in %s, and nobody is told", short(txn), t.Table)
		}
	}
	if o.settled() {
		delete(c.promises, txn)
	}
}

// fenceGivenUp: a fence change that is not applied, by nobody's word, was impossible.
func (c *checker) fenceGivenUp(t *Table, ch *Change, part PartOutcome, at *toyState) {
	if at == nil || ch.Part.Fence == FenceKept || part.Conflict.Rule == RuleOperator {
		return
	}
	if at.fits(c.w.changeOf(ch.Part)) == nil {
		c.w.fail(possible, "fence change %d of %s at %d: given up (%v), and it is possible", ch.Number, t.Table, t.Recorded, part.Conflict)
	}
}
