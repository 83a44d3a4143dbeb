package twophase

import "fmt"

// stageCreation adds to a job a table where none is. Names are few, and so are taken
// by others meanwhile.
func (w *world) stageCreation(j *job) {
	p := pick(w, w.places)
	if p.latest != NoVersion || len(p.commits) > 0 {
		return
	}
	w.nextMeta++
	id := TableID(fmt.Sprint(p.name, "+", j.key, "/", j.attempt))
	ch := w.newChange(&toyChange{setsMeta: w.nextMeta, setsSchema: 1, dataChange: true, blind: true})
	if w.chance(0.7) {
		ch.adds = w.newPairs(1)
	}
	mode := ModeOpen
	if p.exclusive {
		mode = ModeExclusive
	}
	name := p.name
	if w.chance(0.2) {
		name = "new"
	}
	part := Part{
		Table: id, MetaDataID: metaName(ch.setsMeta), Digests: []Digest{digestOf(id, ch)}, Read: ReadPoint{Blind: true},
		Facts: ch.facts(), Shape: ch.shape(), Create: &Creation{Name: name, URI: p.uri, Mode: mode, OneTxnPerVersion: p.single},
	}
	if w.chance(0.2) {
		part.FactsRef = w.factsObject(ch)
	}
	j.commit.Parts = append(j.commit.Parts, part)
	w.stage(payloadKey{j.txn, id, part.Digest()}, j.begun)
}

// stageUnborn is an append to a table that is decided and in no log yet.
func (w *world) stageUnborn(t *Table, r *replica) (Part, bool) {
	v, ok := r.views()[t.Table].(*toyView)
	if !ok || metaName(v.state.meta) != t.MetaDataID {
		return Part{}, false
	}
	ch := w.newChange(&toyChange{meta: v.state.meta, needsSchema: v.state.schema, adds: w.newPairs(1), dataChange: true, blind: true})
	return Part{
		Table: t.Table, MetaDataID: t.MetaDataID, Digests: []Digest{digestOf(t.Table, ch)}, Read: ReadPoint{Blind: true},
		Facts: ch.facts(), Shape: ch.shape(),
	}, true
}

// taken reports whether a log stands where a commit is to create a table: the look-up
// before the decision.
func (w *world) taken(c *Committed) bool {
	for i := range c.Parts {
		if p := &c.Parts[i]; p.Create != nil {
			place := w.placeOf(&Table{Registered: Registered{URI: p.Create.URI}})
			if w.check.ref.Outcome(c.Txn) == nil && (len(place.commits) > 0 || len(place.ckpts) > 0) {
				return true
			}
		}
	}
	return false
}

// claims puts the owner object. False: there is no answer.
func (r *replica) claims(p *simPlace) bool {
	w, epoch := r.w, p.epoch
	done, refused := w.conditional("owner of "+p.name, w.now+putDeadline+storeGrace, func() bool {
		if p.owner {
			return false
		}
		p.owner = p.owner || p.epoch == epoch
		return true
	})
	return done || refused
}

// reshapes checks what a commit that counts creates and releases.
func (c *checker) reshapes(r *Committed) {
	for i := range r.Parts {
		p := &r.Parts[i]
		if p.Create == nil {
			continue
		}
		c.shown[p.Table] = NoVersion
		c.alone(p.registration())
		c.counts["creation"]++
	}
	c.counts["release in a commit"] += len(r.Releases)
}
