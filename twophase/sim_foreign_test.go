package twophase

import (
	"slices"
	"time"
)

// foreignAct is what some other engine does to a table's log.
func (w *world) foreignAct() {
	p := pick(w, w.places)
	switch {
	case p.latest == NoVersion:
		if w.chance(w.replace) {
			w.newTable(p)
			w.logf("%s: another engine creates a table", p.name)
		}
	case p.outages && w.chance(0.3):
		p.outage = w.now + time.Duration(w.rng.IntN(90))*time.Second
		w.logf("%s refuses requests until %s", p.name, p.outage)
	case w.chance(w.replace):
		w.replaceTable(p)
	case w.chance(w.clean) || p.cleaner && w.chance(0.5):
		w.maintain(p)
	case w.chance(w.slow) && !p.state.fenced:
		p.writers = append(p.writers, w.now) // it has read the table, and will commit later
	case !p.exclusive || w.chance(0.01):
		w.foreignCommit(p)
	}
}

// foreignCommit puts a version of another engine at the end of the log.
func (w *world) foreignCommit(p *simPlace) {
	if !w.mayCommit(p) {
		return
	}
	s := p.state
	c := &toyChange{meta: s.meta, dataChange: true}
	what := ""
	switch n := w.rng.IntN(20); {
	case s.fenced || w.chance(w.overwrite):
		what, c.removes, c.adds = "overwrites", slices.Clone(s.live), w.newPairs(3)
	case n < 6:
		what, c.adds = "appends", w.newPairs(1)
	case n < 9:
		what, c.dataChange = "optimizes", false
		c.removes = w.someOf(s.live, 3)
		c.adds = w.newPairs(1)
	case n < 11:
		what, c.removes = "deletes", w.someOf(s.live, 1)
	case n < 14:
		what, c.removes = "deletes rows", w.someOf(s.live, 1)
		for _, q := range c.removes {
			c.adds = append(c.adds, toyPair{q.path, q.dv + 10 + int32(w.rng.IntN(2))})
		}
	case n < 15:
		what, c.adds, c.dataChange = "collects statistics of", w.someOf(s.live, 1), false
	case n < 16:
		what = "restores"
		if old := p.past[Version(w.rng.IntN(int(p.latest)+1))]; old != nil {
			c.adds, c.removes = difference(old.state.live, s.live), difference(s.live, old.state.live)
		}
	case n < 18:
		what, c.app = "streams into", 1+w.rng.IntN(toyApps)
		c.appVersion = s.apps[c.app] + 1 + int64(w.rng.IntN(2))
		c.adds = w.newPairs(1)
	case n < 19 && w.chance(0.3):
		what = "changes the schema of"
		w.schemas++
		c.setsSchema = 1000 + w.schemas
	case w.chance(0.3):
		what = "changes the protocol of"
		w.schemas++
		c.setsProtocol = w.schemas
	case w.chance(0.3):
		what = "creates anew, in its log,"
		w.nextMeta++
		w.schemas++
		c.setsMeta, c.setsSchema = w.nextMeta, 2000+w.schemas
		c.removes, c.adds = slices.Clone(s.live), w.newPairs(1)
	default:
		what = "sets properties of"
	}
	w.newChange(c)
	w.logf("foreign %s %s@%d +%v -%v", what, p.name, p.latest+1, c.adds, c.removes)
	w.put(p, &simCommit{version: p.latest + 1, changes: []*toyChange{c}, identity: w.nonce()})
}

func difference(a, b []toyPair) []toyPair {
	var out []toyPair
	for _, p := range a {
		if !slices.Contains(b, p) {
			out = append(out, p)
		}
	}
	return out
}

// maintain writes checkpoints, complete or not, and cleans a log, partially and in
// any order; also what a retention of a day keeps stays.
func (w *world) maintain(p *simPlace) {
	switch n := w.rng.IntN(10); {
	case n < 4:
		w.logf("%s: checkpoint %d", p.name, p.latest)
		p.ckpts[p.latest] = p.state
	case n < 5:
		p.incomplete[p.latest] = true // no reader takes it, so nothing else knows of it
	default:
		if w.chance(0.5) {
			w.now += time.Duration(w.rng.IntN(int(2*retention/time.Minute))) * time.Minute
		}
		w.cleanLog(p)
	}
}

func (w *world) cleanLog(p *simPlace) {
	_, newest := p.highest(0)
	for newest != NoVersion {
		_, ckpt := p.highest(newest + 1)
		if ckpt == NoVersion {
			break
		}
		newest = ckpt
	}
	upTo, part := newest, w.rng.Float64()
	if w.chance(0.7) {
		upTo-- // most engines keep the checkpoint's own commit
	}
	for v := Version(0); v <= upTo; v++ {
		if c := p.commits[v]; c != nil && w.now-c.landed > retention && w.chance(part) {
			w.logf("%s: commit %d is cleaned", p.name, v)
			delete(p.commits, v)
		}
		if v < newest && p.ckpts[v] != nil && w.chance(part) {
			delete(p.ckpts, v)
		}
	}
}

// replaceTable puts another table, or an older copy, where a table was. Nobody does
// that within seconds of our own work on it (R9), nor while a put may still land
// (R10): that time passes first.
func (w *world) replaceTable(p *simPlace) {
	if p.backup == nil || w.chance(0.3) {
		if w.chance(0.7) {
			p.backup = p.copied()
			return
		}
	}
	w.now += SightLimit + putDeadline + storeGrace + time.Second
	w.late = slices.DeleteFunc(w.late, func(l lateWrite) bool { return l.expires != 0 })
	w.check.archive(p)
	w.check.unprotect(p)
	if p.own == nil {
		p.own = p.copied()
	}
	if p.vacant && w.chance(0.7) {
		owner := p.owner && w.chance(0.3)
		p.empty()
		p.owner = owner
		w.logf("%s: dropped, owner object %v", p.name, owner)
		return
	}
	if b := p.backup; b != nil && w.chance(0.6) {
		w.logf("%s: an older copy of %d is put back at %d", p.name, p.latest, b.latest)
		fresh := b.copied()
		p.commits, p.ckpts, p.incomplete, p.latest, p.state = fresh.commits, fresh.ckpts, fresh.incomplete, fresh.latest, fresh.state
		p.past, p.delivered, p.owner = fresh.past, fresh.delivered, fresh.owner
		p.epoch++
		for range w.rng.IntN(4) {
			w.foreignCommit(p)
		}
		return
	}
	owner := p.owner && w.chance(0.3) // only the log's files were deleted
	w.newTable(p)
	p.owner = owner
	w.logf("%s: dropped and created again, owner object %v", p.name, owner)
	for range w.rng.IntN(8) {
		w.foreignCommit(p)
	}
}

// ownFits reports whether the log that stood at a place before is what the table's last
// version is in, and nothing of ours has come since: else nobody puts it back.
func (p *simPlace) ownFits(t *Table) bool {
	if p.own == nil {
		return false
	}
	for txn := range p.delivered {
		if _, ok := p.own.delivered[txn]; !ok {
			return false
		}
	}
	at := p.own.past[t.Recorded]
	return t.Recorded == NoVersion || at != nil && at.identity == t.Identity
}

// putBack puts the log back that stood at a place before it was replaced, whole.
func (w *world) putBack(p *simPlace) {
	w.now += SightLimit + putDeadline + storeGrace + time.Second
	w.late = slices.DeleteFunc(w.late, func(l lateWrite) bool { return l.expires != 0 })
	w.logf("%s: what stood there is put back at %d", p.name, p.own.latest)
	w.check.counts["log put back"]++
	o := p.own
	p.commits, p.ckpts, p.incomplete, p.latest, p.state = o.commits, o.ckpts, o.incomplete, o.latest, o.state
	p.past, p.delivered, p.owner, p.epoch, p.own = o.past, o.delivered, o.owner, o.epoch, nil
}

// copied is a copy of the folder.
func (p *simPlace) copied() *simPlace {
	out := *p
	out.commits, out.ckpts, out.incomplete = cloneMap(p.commits), cloneMap(p.ckpts), cloneMap(p.incomplete)
	out.past, out.delivered, out.backup, out.own = cloneMap(p.past), cloneMap(p.delivered), nil, nil
	return &out
}

func cloneMap[K comparable, V any](m map[K]V) map[K]V {
	out := make(map[K]V, len(m))
	for k, v := range m {
		out[k] = v
	}
	return out
}
