package tables

import (
	"fmt"

	"github.com/txcoord/txcoord/internal/number"
	"github.com/txcoord/txcoord/twophase"
)

// definition is what of a table's protocol and metadata a change is checked against.
type definition struct {
	id, keys, look, config uint64
	features               featureSet
	appendOnly, counts     bool
	unsupported            bool
	// earlier are metadata of before, beside which parts may still be right.
	earlier []earlier
}

func definitionOf(p *Profile) definition {
	return definition{
		id: p.idHash, keys: p.keysHash, look: p.look, config: p.config, features: p.inForce,
		appendOnly: p.appendOnly(), counts: p.counts(), unsupported: p.writable != nil, earlier: p.earlier,
	}
}

// after is the definition that a change leaves behind.
func (d definition) after(f *facts) definition {
	if f.is(flagProtocol) {
		d.features, d.unsupported = f.nextFeatures, f.is(flagUnsupported)
	}
	if f.is(flagProtocol | flagMetaData) {
		d.appendOnly, d.counts = f.is(flagAppendOnly), f.is(flagCounts)
	}
	if f.is(flagMetaData) {
		d.earlier = d.follow(f.step())
		d.id, d.keys, d.look, d.config = f.nextID, f.nextKeys, f.nextLook, f.nextConfig
	}
	return d
}

func (d *definition) follow(taken step) []earlier {
	out := []earlier{{look: d.look, config: d.config, step: taken}}
	for _, e := range d.earlier {
		e.step = min(e.step, taken)
		out = append(out, e)
	}
	return out[:min(len(out), maxEarlier)]
}

// step is what the new metaData is to writers that did not know of it.
func (f *facts) step() step {
	switch {
	case f.is(flagMetaDataSame):
		return stepSame
	case f.is(flagMetaHarmless):
		return stepHarmless
	case f.is(flagMetaAdditive):
		return stepAdditive
	}
	return stepOther
}

// stands reports that a part is right although the metadata went this step.
func (f *facts) stands(taken step) bool {
	switch taken {
	case stepSame:
		return true
	case stepHarmless:
		return !f.is(flagMetaData)
	case stepAdditive:
		return f.is(flagAppends)
	default:
		return false
	}
}

// knows reports that a part was made under the definition, or under an earlier one
// beside which it is still right.
func (d *definition) knows(f *facts) bool {
	if f.baseLook == d.look && f.baseConfig == d.config {
		return true
	}
	for _, e := range d.earlier {
		if e.look == f.baseLook && e.config == f.baseConfig {
			return f.stands(e.step)
		}
	}
	return false
}

// View is a table after everything that is decided and recorded on it. It
// implements twophase.View. Not safe for concurrent use; the driver owns it.
type View struct {
	def   definition
	files viewFiles
	apps  map[string]int64
	// pending are the paths that undelivered changes add, by change.
	pending map[PathHash]twophase.ChangeNumber
	queue   []undelivered
}

type undelivered struct {
	change twophase.ChangeNumber
	adds   hashes
}

var (
	_ twophase.View  = (*View)(nil)
	_ twophase.Trial = (*trial)(nil)
)

// NewView takes the state over: its live set becomes the view's, and the caller
// must not use the state any more, save for Profile.
func NewView(s *State) *View {
	return &View{def: definitionOf(s.profile), files: newViewFiles(s.files), apps: s.txns, pending: map[PathHash]twophase.ChangeNumber{}}
}

// Apply advances the view by a decided change (with its number) or by a recorded
// foreign version (number 0), in the fold's order. The facts must not be changed
// afterwards.
//
// rebuild says that the change touched protocol or metaData: Fits goes on being
// right, but the Profile that clients are validated against has to be read from
// the log again once the change is there. A change that is given up (R4) cannot be
// taken back: build a new view from the log and apply what is pending.
func (v *View) Apply(change twophase.ChangeNumber, blob twophase.Facts) (rebuild bool, err error) {
	f, err := decode(blob)
	if err != nil {
		return false, fmt.Errorf("apply change %d to a table's view: %w", change, err)
	}
	for i := range f.removes.len() {
		v.files.remove(PathHash(f.removes.at(i)), dvAt(f.removeDVs, i))
	}
	for i := range f.adds.len() {
		path := PathHash(f.adds.at(i))
		v.files.add(path, dvAt(f.addDVs, i))
		if change > 0 {
			v.pending[path] = change
		}
	}
	if change > 0 && f.adds.len() > 0 {
		v.queue = append(v.queue, undelivered{change, f.adds})
	}
	f.eachApp(func(app []byte, version int64) bool {
		v.apps[string(app)] = version
		return true
	})
	v.def = v.def.after(&f)
	return f.is(flagProtocol|flagMetaData) || f.domains.has(clusteringHash), nil
}

// Delivered says that all changes up to a number are in the log. Until then a path
// that a change adds may not be added again, not even as the same pair (R19).
func (v *View) Delivered(upTo twophase.ChangeNumber) {
	n := 0
	for n < len(v.queue) && v.queue[n].change <= upTo {
		q := v.queue[n]
		for i := range q.adds.len() {
			if path := PathHash(q.adds.at(i)); v.pending[path] == q.change {
				delete(v.pending, path)
			}
		}
		n++
	}
	v.queue = v.queue[n:]
	if len(v.queue) == 0 {
		v.queue = nil // lets go of the facts behind it
	}
}

// Try implements twophase.View. A trial costs nothing until something is taken.
func (v *View) Try() twophase.Trial { return &trial{base: v, def: v.def} }

func (v *View) lookup(path PathHash, want DVHash) (dv DVHash, alive, fresh bool) {
	_, fresh = v.pending[path]
	dv, alive = v.files.prefer(path, want)
	return dv, alive, fresh
}

func (v *View) reached(app []byte) (int64, bool) {
	version, ok := v.apps[string(app)]
	return version, ok
}

// baseline is the table below a trial: a View, or a State.
type baseline interface {
	// lookup returns the vector under which a path is live, the wanted one if it is
	// among several. fresh: a change that is in no log yet adds the path.
	lookup(path PathHash, want DVHash) (dv DVHash, alive, fresh bool)
	// reached is the version that an application is at.
	reached(app []byte) (int64, bool)
	// count is the number of live files.
	count() int
}

// trial is a baseline with candidates on top.
type trial struct {
	base baseline
	def  definition
	// files are the paths that the trial changed: live under a vector, or gone.
	files map[PathHash]change
	apps  map[string]int64
	// more is how many live files there are more than in the baseline.
	more int
}

type change struct {
	dv    DVHash
	alive bool
}

func (t *trial) lookup(path PathHash, want DVHash) (dv DVHash, alive, fresh bool) {
	if c, ok := t.files[path]; ok {
		return c.dv, c.alive, true
	}
	return t.base.lookup(path, want)
}

func (v *View) count() int { return v.files.len() }

func (t *trial) count() int { return t.base.count() + t.more }

func (t *trial) reached(app []byte) (int64, bool) {
	if v, ok := t.apps[string(app)]; ok {
		return v, true
	}
	return t.base.reached(app)
}

// Take implements twophase.Trial.
func (t *trial) Take(blob twophase.Facts) {
	if f, err := decode(blob); err == nil { // else Fits refused it
		t.take(&f)
	}
}

func (t *trial) take(f *facts) {
	if t.files == nil {
		t.files, t.apps = map[PathHash]change{}, map[string]int64{}
	}
	for i := range f.removes.len() {
		path := PathHash(f.removes.at(i))
		if _, alive, _ := t.lookup(path, dvAt(f.removeDVs, i)); alive {
			t.more--
		}
		t.files[path] = change{}
	}
	for i := range f.adds.len() {
		if _, alive, _ := t.lookup(PathHash(f.adds.at(i)), dvAt(f.addDVs, i)); !alive {
			t.more++
		}
		t.files[PathHash(f.adds.at(i))] = change{dvAt(f.addDVs, i), true}
	}
	f.eachApp(func(app []byte, version int64) bool {
		t.apps[string(app)] = version
		return true
	})
	t.def = t.def.after(f)
}

// Fits implements twophase.Trial: it is what a candidate is checked for before the
// decision, besides the conflicts with single changes. Stricter than ImpossibleAt:
// a change of the metadata since the part was staged is a conflict, and a path that
// an undelivered change adds is taken.
func (t *trial) Fits(candidate twophase.Facts) *twophase.Conflict {
	c, err := decode(candidate)
	if err != nil {
		return unreadable(err)
	}
	if found := impossibleAt(&c, t); found != nil {
		return found
	}
	if found := t.sameDefinition(&c); found != nil {
		return found
	}
	if left := t.count() - c.removes.len(); c.is(flagMetaData) && c.nextKeys != t.def.keys && left > 0 {
		return conflict(twophase.RuleSchema, "the partition columns change, and %s without the new ones %s left", number.Of(left, "file"), number.Verb(left, "is", "are"))
	}
	for i := range c.adds.len() {
		dv := dvAt(c.addDVs, i)
		_, alive, fresh := t.lookup(PathHash(c.adds.at(i)), dv)
		if !alive {
			continue
		}
		if _, removed := c.removes.find(c.adds.at(i)); removed {
			continue
		}
		switch {
		case fresh:
			return onPath(twophase.RulePathExists, c.adds.at(i), "a transaction that is not published yet adds the file")
		case c.is(flagBlind):
			return onPath(twophase.RulePathExists, c.adds.at(i), "the file is part of the table already")
		}
	}
	return nil
}

// sameDefinition: since the part was staged, nothing was changed that its writer
// had to know.
func (t *trial) sameDefinition(c *facts) *twophase.Conflict {
	lost, gained := c.baseFeatures&^t.def.features, t.def.features&^c.baseFeatures
	if c.is(flagProtocol) && (lost|gained) != 0 {
		return conflict(twophase.RuleProtocol, "the protocol was changed since the part was staged")
	}
	lost &^= fenceBit
	switch {
	case lost != 0:
		return conflict(twophase.RuleProtocol, "feature %s was dropped since the part was staged", lost.first())
	case gained&unsafeFeatures != 0:
		return conflict(twophase.RuleProtocol, "feature %s was switched on since the part was staged", (gained & unsafeFeatures).first())
	case !t.def.knows(c):
		return conflict(twophase.RuleMetadata, "the metadata was changed since the part was staged")
	}
	return nil
}

// impossibleAt is R13 against a whole table.
func impossibleAt(d *facts, at *trial) *twophase.Conflict {
	def := &at.def
	switch {
	case def.id != d.id:
		return conflict(twophase.RuleTableReplaced, "the table's metaData.id is not the one that the part was staged against")
	case def.unsupported:
		return conflict(twophase.RuleProtocol, "the table's protocol is not supported here")
	case d.is(flagProtocol) && d.drops(def.features) != 0:
		return conflict(twophase.RuleProtocol, "the change would drop feature %s", d.drops(def.features).first())
	case d.keys != 0 && def.keys != d.keys && !d.is(flagMetaData):
		return conflict(twophase.RuleSchema, "the table is partitioned by other columns")
	case def.counts && d.adds.len() > 0 && !d.is(flagCounted):
		return conflict(twophase.RuleProtocol, uncounted)
	case d.is(flagRemovesData) && def.appendOnly:
		return conflict(twophase.RuleAppendOnly, "the table is append-only")
	}
	var found *twophase.Conflict
	d.eachApp(func(app []byte, version int64) bool {
		if reached, ok := at.reached(app); ok && version <= reached {
			found = conflict(twophase.RuleAppVersion, "application %s is at version %d, this is version %d", cut(app), reached, version)
		}
		return found == nil
	})
	if found != nil {
		return found
	}
	for i := range d.removes.len() {
		dv := dvAt(d.removeDVs, i)
		live, alive, _ := at.lookup(PathHash(d.removes.at(i)), dv)
		switch {
		case !alive:
			return onPath(twophase.RulePathMissing, d.removes.at(i), "the file that is removed is not part of the table")
		case live != dv:
			return onPath(twophase.RulePathMissing, d.removes.at(i), "the file that is removed has another deletion vector")
		}
	}
	for i := range d.adds.len() {
		dv := dvAt(d.addDVs, i)
		if live, alive, _ := at.lookup(PathHash(d.adds.at(i)), dv); alive && !d.replaces(d.adds.at(i), dv, live) {
			return onPath(twophase.RulePathExists, d.adds.at(i), "the file that is added is part of the table already")
		}
	}
	return nil
}
