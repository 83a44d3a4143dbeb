package twophase

import (
	"fmt"
	"slices"
	"time"
)

// bootstrap writes the first entry: every table is registered.
func (w *world) bootstrap() {
	e := &Entry{Header: Header{Catalog: simCatalog, Incarnation: simIncarnation, Time: Time(w.now / time.Millisecond)}}
	for _, p := range w.places {
		if !p.vacant {
			e.Records = append(e.Records, w.registration(p, p.name))
		}
	}
	w.append(0, e.Encode())
}

// registration puts the owner object and makes the record (R21).
func (w *world) registration(p *simPlace, id string) *Registered {
	p.owner, p.own = true, nil
	p.registers++
	mode := ModeOpen
	if p.exclusive {
		mode = ModeExclusive
	}
	w.check.epochs[TableID(id)] = p.epoch
	return &Registered{
		Table: TableID(id), Name: id, URI: p.uri, MetaDataID: metaName(p.state.meta), Mode: mode, Version: p.latest,
		Identity: p.past[p.latest].identity, Marker: p.state.marker, OneTxnPerVersion: p.single,
	}
}

// operatorAct is one act of an operator, or of an administrator.
func (w *world) operatorAct() {
	r := pick(w, w.replicas)
	if !r.up || len(r.actors) < 2 {
		return
	}
	switch {
	case w.chance(w.giveUp):
		w.operatorGivesUp(r)
	case w.chance(w.release):
		w.releaseOrRegister(r)
	case w.hold > 0 && w.chance(w.hold): // other worlds draw as they did
		w.holdAct(r)
	case w.chance(w.fence):
		w.fenceAct(r)
	case w.chance(w.twice):
		if p := pick(w, w.places); p.latest != NoVersion {
			r.register(p, fmt.Sprint(p.name, "-twin", w.step))
		}
	default:
		w.thaw(r)
	}
}

// holdAct freezes a table by an operator's word, or takes the word back, or says it again.
func (w *world) holdAct(r *replica) {
	if all := r.state.Tables(); len(all) > 0 {
		t := pick(w, all)
		off := t.Held != nil != w.chance(0.1)
		w.logf("an operator holds %s on R%d: %v", t.Table, r.id, !off)
		w.check.counts["held or let go"]++
		r.ask(&request{Request: Request{Record: &Held{Table: t.Table, Off: off, Detail: "an operator"}}})
	}
}

// letGo ends one operator's freeze, on a table that has published all: it never had to
// wait for that.
func (w *world) letGo(r *replica) {
	for _, t := range r.state.Tables() {
		if t.Held != nil && len(t.Pending) == 0 {
			r.ask(&request{Request: Request{Record: &Held{Table: t.Table, Off: true}}})
			return
		}
	}
}

// thaw settles one frozen table. A replaced one not before every put that was under
// way has landed or never will (R4).
func (w *world) thaw(r *replica) {
	for _, t := range r.state.Tables() {
		if t.Frozen == nil || t.Frozen.Origin != t.Table || t.Frozen.Resolved || t.Frozen.Cause == CauseStalled {
			continue
		}
		if t.Frozen.Cause == CauseLost {
			if w.mendLoss(r, t) {
				return
			}
			continue
		}
		if t.Frozen.Cause == CauseContradiction && w.chance(0.5) {
			// It will not go away: the operator gives the table up.
			w.check.unprotect(w.placeOf(t))
			r.ask(&request{Request: Request{Record: &Replaced{Table: t.Table, Recorded: t.Recorded, Detail: "given up"}}})
			return
		}
		if t.Frozen.Cause == CauseReplaced && !w.calm && w.chance(0.3) {
			// If nothing was put back the operator is wrong: the next walk has to see that.
			w.check.counts["said to be mended"]++
			if p := w.placeOf(t); p.ownFits(t) && p.own.epoch == w.check.epochs[t.Table] && w.chance(0.7) {
				w.putBack(p)
			}
			r.ask(&request{Request: Request{Record: &Thawed{Table: t.Table, Mended: true}}})
			return
		}
		if t.Frozen.Cause == CauseReplaced {
			w.now += putDeadline + storeGrace + FoldLimit + time.Second
			w.late = slices.DeleteFunc(w.late, func(l lateWrite) bool { return l.expires != 0 })
		}
		w.logf("an operator thaws %s (%s) on R%d", t.Table, t.Frozen.Cause, r.id)
		r.ask(&request{Request: Request{Record: &Thawed{Table: t.Table}}})
		return
	}
}

// operatorGivesUp asks a replica to give up the first pending change of a table by
// a barrier (R4).
func (w *world) operatorGivesUp(r *replica) {
	for _, t := range r.state.Tables() {
		if len(t.Pending) > 0 && t.Pending[0].Round != nil {
			txn := t.Pending[0].Txn
			w.logf("an operator gives up %s on %s at R%d", short(txn), t.Table, r.id)
			r.giveUp[t.Table] = map[TxnID]bool{txn: true}
			return
		}
	}
}

// releaseOrRegister takes a table out of the catalog, or brings back one that is out.
func (w *world) releaseOrRegister(r *replica) {
	p := pick(w, w.places)
	if t, ok := r.state.TableNamed(p.uri); ok {
		r.ask(&request{Request: Request{Record: &Released{Table: t.Table}}})
		return
	}
	if _, ok := w.check.ref.TableNamed(p.uri); !ok && p.latest != NoVersion {
		r.register(p, fmt.Sprint(p.name, "#", p.registers))
	}
}

// register asks for a table to be registered as its log is now. The request is
// dropped if another registration of the place comes first: what it read is old.
func (r *replica) register(p *simPlace, id string) {
	rec := r.w.registration(p, id)
	before := r.registeredAt(p)
	r.w.logf("%s is to be registered at %d, marker %d", id, rec.Version, rec.Marker)
	r.ask(&request{
		Request: Request{Record: rec},
		valid:   func() bool { return r.registeredAt(p) == before },
	})
}

// registeredAt counts the tables that were or are registered at a place, and those
// of them that left.
func (r *replica) registeredAt(p *simPlace) int {
	n := 0
	for _, t := range r.state.tables {
		if t.URI == p.uri {
			n++
		}
		if t.URI == p.uri && t.Released {
			n += 1000
		}
	}
	return n
}

// restoreJournal puts the journal back to an older state while every replica is
// down (R7). Only where a manifest shows it: nothing else could.
func (w *world) restoreJournal() {
	b := w.backup
	if b == nil || w.chance(0.1) {
		w.backup = &ringBackup{slots: slices.Clone(w.ring.slots), at: slices.Clone(w.ring.at), shown: w.check.ref.Shown()}
		return
	}
	if w.manifest[b.shown+1] == "" {
		return
	}
	for _, r := range w.replicas {
		r.crash()
	}
	w.logf("the journal is put back")
	w.ring.slots, w.ring.at = b.slots, b.at
	w.late, w.backup = nil, nil
	w.restored = true
}

// ringBackup is an older state of the journal.
type ringBackup struct {
	slots [][]byte
	at    []Position
	shown SnapshotVersion
}

// janitor writes manifests, sweeps payloads, raises the floor, changes settings.
func (r *replica) janitor(a *actor) {
	w := r.w
	for {
		a.until(func() bool { return (w.step+5*r.id)%11 == 0 || w.calm && r.written < r.state.Shown() })
		switch {
		case r.countFence(a):
		case w.chance(0.2):
			r.sweep(a)
		case w.chance(w.floor) && !w.calm:
			floor := min(r.state.MayForget(r.written), r.state.Next()-min(r.state.Next(), Position(w.keep)))
			r.ask(&request{Request: Request{Record: &FloorRaised{Floor: floor}}})
		case w.chance(w.settings) && !w.calm:
			caps := Caps{MaxVersionBytes: uint64(20 + w.rng.IntN(80)), MaxVersionTxns: uint32(1 + w.rng.IntN(4)), Coalesce: w.chance(0.8), Renderer: 1}
			caps.Gather = caps.MaxVersionBytes%3 > 0
			r.ask(&request{Request: Request{Record: &SettingChanged{Caps: caps}}})
		case w.builds && r.build == 2 && w.chance(0.1) && !w.calm:
			r.ask(&request{Request: Request{Record: &Tagged{Name: newKind + fmt.Sprint(w.rng.IntN(3)), Snapshot: r.state.Shown()}}})
		default:
			r.writeManifest(a)
		}
	}
}

// writeManifest writes the next manifest, k before k+1 (R18). Each holds one snapshot
// here; files that hold several are package manifest's model.
func (r *replica) writeManifest(a *actor) {
	w := r.w
	some := r.state.NextManifests(r.written, 1)
	if len(some) == 0 {
		return
	}
	sn := some[0]
	content := fmt.Sprint(sn.Version, sn.Time, sn.Txns, sn.Tables, sn.Removed)
	a.pause()
	if have := w.manifest[sn.Version]; have != "" {
		if have != content {
			w.fail(manifestOrder, "manifest %d differs", sn.Version)
		}
		r.written = sn.Version
		return
	}
	done, exists := w.conditional(fmt.Sprint("manifest ", sn.Version), w.now+putDeadline+storeGrace, func() bool {
		if w.manifest[sn.Version] != "" {
			return false
		}
		if sn.Version > 1 && w.manifest[sn.Version-1] == "" {
			w.fail(manifestOrder, "manifest %d is written, %d is not", sn.Version, sn.Version-1)
		}
		w.manifest[sn.Version] = content
		return true
	})
	if done || exists {
		r.written = sn.Version
	}
}

// sweep deletes payloads that the fold does not need (R20).
func (r *replica) sweep(a *actor) {
	w := r.w
	if len(w.staged) == 0 {
		return
	}
	i := w.rng.IntN(len(w.staged))
	for _, s := range w.staged[i:min(i+20, len(w.staged))] {
		if w.payloads[s.payloadKey] && r.state.MaySweep(s.txn, s.begun) {
			delete(w.payloads, s.payloadKey)
		}
	}
	a.pause()
}

// settle is the calm after the faults: everything has to resolve.
func (w *world) settle() {
	if w.check.stopped || w.restored {
		return
	}
	w.calm = true
	for len(w.late) > 0 {
		w.landLate(0)
	}
	for i := range 30000 {
		w.step++
		w.now += 50 * time.Millisecond
		if i%16 == 0 && w.settled() {
			w.lastLook()
			return
		}
		if i%64 == 0 {
			w.calmAct()
		}
		w.resumeOne()
	}
	w.fail(resolves, "%s", w.unsettled())
}

// calmAct is what operators and clients do at the end.
func (w *world) calmAct() {
	r := pick(w, w.replicas)
	if !r.up || len(r.actors) < 2 || len(r.queue) > 0 {
		return
	}
	w.thaw(r)
	w.letGo(r)
	for _, j := range w.jobs {
		if floor, _ := w.check.ref.Floor(); w.check.ref.Outcome(j.txn) == nil && j.begun >= floor && !j.waits(w) {
			j.end(w, r, RuleResolved)
			return
		}
	}
}

func (w *world) settled() bool { return w.unsettled() == "" }

func (w *world) unsettled() string {
	ref := w.check.ref
	floor, _ := ref.Floor()
	if len(ref.rounds) > 0 || len(ref.waiting) > 0 {
		return fmt.Sprintf("%d rounds are open, %d components wait", len(ref.rounds), len(ref.waiting))
	}
	for _, j := range w.jobs {
		o := ref.Outcome(j.txn)
		if o == nil && j.begun >= floor || o != nil && !o.settled() {
			return fmt.Sprintf("job %s, %s, is not settled", j.key, short(j.txn))
		}
	}
	for _, r := range w.replicas {
		if !r.up || len(r.actors) < 2 || r.state.Next() != ref.Next() || len(r.waiting) > 0 {
			return fmt.Sprintf("R%d is at another position", r.id)
		}
	}
	if w.manifest[ref.Shown()] == "" {
		return "the newest manifest is not written"
	}
	return ""
}

// lastLook compares all folds, and one that starts from the newest checkpoint.
func (w *world) lastLook() {
	want := w.check.sum(w.check.ref)
	for _, r := range w.replicas {
		w.check.sameFold(r.state, want, fmt.Sprint("R", r.id))
	}
	for k := SnapshotVersion(1); k <= w.check.ref.Shown(); k++ {
		if w.manifest[k] == "" {
			w.fail(manifestOrder, "manifest %d is missing", k)
		}
	}
	index, segments := w.check.ref.EncodeCheckpoint("")
	for _, o := range append(segments, index) {
		w.objects[o.Ref.Name] = o.Bytes
	}
	w.check.sameFold(w.loadCheckpoint(index.Ref), want, "a checkpoint")
}
