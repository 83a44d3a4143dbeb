package tables

import (
	"cmp"
	"fmt"

	"github.com/txcoord/txcoord/internal/number"
	"github.com/txcoord/txcoord/twophase"
)

// Rules implements twophase.Rules with Delta's rules.
type Rules struct{}

var _ twophase.Rules = Rules{}

func conflict(rule twophase.Rule, format string, args ...any) *twophase.Conflict {
	return &twophase.Conflict{Rule: rule, Detail: fmt.Sprintf(format, args...)}
}

func onPath(rule twophase.Rule, path uint64, detail string) *twophase.Conflict {
	return &twophase.Conflict{Rule: rule, Path: PathHash(path).String(), Detail: detail}
}

// unreadable refuses what cannot be judged: facts of another build, or cut ones.
func unreadable(err error) *twophase.Conflict {
	return conflict(twophase.RuleProtocol, "%v", err)
}

// Checker implements twophase.Rules.
func (Rules) Checker() twophase.Checker { return &checker{} }

// Conflict follows Spark's checker in its order: protocol, metadata, domains,
// applications, concurrent append, delete/read, delete/delete. Paths are compared
// without deletion vectors: two deletes on one file must not both land.
func (k *checker) Conflict(candidate, winner twophase.Facts) *twophase.Conflict {
	c, err := k.decoded(candidate)
	if err != nil {
		return unreadable(err)
	}
	w, err := decode(winner)
	if err != nil {
		return unreadable(err)
	}
	// Called one by one and not from a list, so that the winner's facts stay on the stack.
	found := protocolConflict(c, &w)
	if found == nil {
		found = metadataConflict(c, &w)
	}
	if found == nil {
		found = domainConflict(c, &w)
	}
	if found == nil {
		found = k.appConflict(c, &w)
	}
	if found == nil {
		found = k.appendConflict(c, &w)
	}
	if found == nil {
		found = k.deleteConflict(c, &w)
	}
	if found == nil {
		found = pathConflict(c, &w)
	}
	return found
}

func protocolConflict(c, w *facts) *twophase.Conflict {
	if !w.is(flagProtocol) {
		return nil
	}
	lost, gained := c.baseFeatures&^w.nextFeatures&^fenceBit, w.nextFeatures&^c.baseFeatures
	switch {
	case w.is(flagUnsupported):
		return conflict(twophase.RuleProtocol, "the protocol was changed to one that is not supported here")
	case c.is(flagProtocol):
		return conflict(twophase.RuleProtocol, "both change the protocol")
	case lost != 0:
		return conflict(twophase.RuleProtocol, "feature %s was dropped", lost.first())
	case gained&unsafeFeatures != 0:
		return conflict(twophase.RuleProtocol, "feature %s was switched on", (gained & unsafeFeatures).first())
	}
	return c.uncountedBeside(w)
}

func metadataConflict(c, w *facts) *twophase.Conflict {
	if !w.is(flagMetaData) {
		return nil
	}
	switch {
	case c.is(flagMetaData):
		return conflict(twophase.RuleMetadata, "both change the metadata")
	case !c.stands(w.step()):
		return conflict(twophase.RuleMetadata, "the metadata was changed")
	}
	return c.uncountedBeside(w)
}

const uncounted = "adds need stats.numRecords now, and some have none"

// uncountedBeside: the winner makes row counts a duty, which the candidate missed.
func (f *facts) uncountedBeside(w *facts) *twophase.Conflict {
	if w.is(flagCounts) && f.adds.len() > 0 && !f.is(flagCounted) {
		return conflict(twophase.RuleProtocol, uncounted)
	}
	return nil
}

func domainConflict(c, w *facts) *twophase.Conflict {
	if _, ok := meet(c.domains, w.domains); ok {
		return conflict(twophase.RuleDomain, "both write one metadata domain")
	}
	return nil
}

func (k *checker) appConflict(c, w *facts) *twophase.Conflict {
	if w.numApps == 0 || c.numApps == 0 && c.readApps.len() == 0 {
		return nil
	}
	if k.steps += lookUpSteps * c.numApps; k.spent() {
		return conflict(twophase.RuleProtocol, "its applications would have to be compared with those of too many changes since its read point")
	}
	var found *twophase.Conflict
	if c.readApps.len() > 0 {
		w.eachApp(func(app []byte, reached int64) bool {
			if _, read := c.readApps.find(hashTexts("app", string(app))); read {
				found = conflict(twophase.RuleAppVersion, "application %s, which was read, went to version %d", cut(app), reached)
			}
			return found == nil
		})
	}
	return cmp.Or(found, appPassed(c, w))
}

// appPassed objects if a change writes an application's version that another one has reached.
// Either may write very many, and most write one: those of the one with fewer are looked up.
func appPassed(change, other *facts) (found *twophase.Conflict) {
	passes := func(app []byte, version, reached int64) bool {
		if version <= reached {
			found = conflict(twophase.RuleAppVersion, "application %s is at version %d, this is version %d", cut(app), reached, version)
		}
		return found == nil
	}
	if change.numApps <= other.numApps {
		mine := change.appVersions(func(a, b int64) int64 { return min(a, b) })
		other.eachApp(func(app []byte, reached int64) bool {
			version, ok := mine[string(app)]
			return !ok || passes(app, version, reached)
		})
		return found
	}
	theirs := other.appVersions(func(a, b int64) int64 { return max(a, b) })
	change.eachApp(func(app []byte, version int64) bool {
		reached, ok := theirs[string(app)]
		return !ok || passes(app, version, reached)
	})
	return found
}

// appVersions are those of the applications that a change writes; of one that is there twice,
// which of the two is for the caller to say.
func (f *facts) appVersions(which func(a, b int64) int64) map[string]int64 {
	out := make(map[string]int64, f.numApps)
	f.eachApp(func(app []byte, version int64) bool {
		if before, twice := out[string(app)]; twice {
			version = which(before, version)
		}
		out[string(app)] = version
		return true
	})
	return out
}

// appendConflict: files were added to what the candidate read.
func (k *checker) appendConflict(c, w *facts) *twophase.Conflict {
	if w.adds.len() == 0 || c.is(flagSnapshot) {
		return nil
	}
	if c.is(flagWriteSerializable) && w.is(flagBlind) && !c.is(flagMetaData) {
		return nil
	}
	switch {
	case c.is(flagReadWhole):
		return conflict(twophase.RuleAppendRead, "%s %s added to the table, which was read whole", number.Of(w.adds.len(), "file"), number.Verb(w.adds.len(), "was", "were"))
	case c.is(flagReadPartitions) && (w.is(flagAddsAnywhere) || k.fits(c, w.columns, w.addTuples)):
		return conflict(twophase.RuleAppendRead, "files were added to partitions that were read")
	}
	return nil
}

// deleteConflict: a file that the candidate read is gone, rearranged ones included.
func (k *checker) deleteConflict(c, w *facts) *twophase.Conflict {
	if w.removes.len() == 0 {
		return nil
	}
	switch {
	case c.is(flagReadWhole):
		return conflict(twophase.RuleDeleteRead, "%s %s removed from the table, which was read whole", number.Of(w.removes.len(), "file"), number.Verb(w.removes.len(), "was", "were"))
	case c.is(flagReadPartitions) && (w.is(flagRemovesAnywhere) || k.fits(c, w.columns, w.removeTuples)):
		return conflict(twophase.RuleDeleteRead, "files were removed from partitions that were read")
	}
	if path, ok := meet(c.readFiles, w.removes); ok {
		return onPath(twophase.RuleDeleteRead, path, "a file that was read was removed")
	}
	return nil
}

// pathConflict: both remove a path, or both add one, or the candidate adds again
// what was removed: it would come back to life.
func pathConflict(c, w *facts) *twophase.Conflict {
	if path, ok := meet(c.removes, w.removes); ok {
		return onPath(twophase.RuleDeleteDelete, path, "both remove the file")
	}
	if found := bothAdd(c, w); found != nil {
		return found
	}
	if path, ok := meet(c.adds, w.removes); ok {
		return onPath(twophase.RuleDeleteRead, path, "the file was removed, and is added again")
	}
	return nil
}

// bothAdd: a file that the candidate removes may be added again by the winner, which
// only writes it anew (a backfill of row ids, statistics).
func bothAdd(c, w *facts) (found *twophase.Conflict) {
	shared(c.adds, w.adds, func(i, j int) bool {
		at, removed := c.removes.find(c.adds.at(i))
		if !removed || dvAt(c.removeDVs, at) != dvAt(w.addDVs, j) {
			found = onPath(twophase.RulePathExists, c.adds.at(i), "both add the file")
		}
		return found == nil
	})
	return found
}

// Impossible judges a decided change after a foreign version, by (path, deletion
// vector) and by nothing that only isolation would ask for (R13).
func (Rules) Impossible(decided, foreign twophase.Facts) *twophase.Conflict {
	d, err := decode(decided)
	if err != nil {
		return unreadable(err)
	}
	f, err := decode(foreign)
	if err != nil {
		return unreadable(err)
	}
	if found := definitionImpossible(&d, &f); found != nil {
		return found
	}
	found := appPassed(&d, &f)
	if found != nil {
		return found
	}
	shared(d.removes, f.removes, func(i, j int) bool {
		if dvAt(d.removeDVs, i) == dvAt(f.removeDVs, j) {
			found = onPath(twophase.RulePathMissing, d.removes.at(i), "the file that is removed was removed")
		}
		return found == nil
	})
	if found != nil {
		return found
	}
	shared(d.adds, f.adds, func(i, j int) bool {
		if !d.replaces(d.adds.at(i), dvAt(d.addDVs, i), dvAt(f.addDVs, j)) {
			found = onPath(twophase.RulePathExists, d.adds.at(i), "the file that is added was added")
		}
		return found == nil
	})
	return found
}

// replaces reports that adding (path, dv) is sound although (path, live) is there:
// it is the same pair, or the change removes that pair.
func (f *facts) replaces(path uint64, dv, live DVHash) bool {
	if dv == live {
		return true
	}
	i, ok := f.removes.find(path)
	return ok && dvAt(f.removeDVs, i) == live
}

// definitionImpossible: what a foreign protocol or metaData does to a decided change.
func definitionImpossible(d, f *facts) *twophase.Conflict {
	if f.is(flagProtocol) {
		switch {
		case f.is(flagUnsupported):
			return conflict(twophase.RuleProtocol, "the protocol was changed to one that is not supported here")
		case d.is(flagProtocol) && d.drops(f.nextFeatures) != 0:
			return conflict(twophase.RuleProtocol, "the change would drop feature %s", d.drops(f.nextFeatures).first())
		}
	}
	if found := d.uncountedBeside(f); found != nil || !f.is(flagMetaData) {
		return found
	}
	switch {
	case d.id != 0 && f.nextID != d.id:
		return conflict(twophase.RuleTableReplaced, "the table was replaced: its metaData.id is another one")
	case d.keys != 0 && f.nextKeys != d.keys && !d.is(flagMetaData):
		return conflict(twophase.RuleSchema, "the table is partitioned by other columns now")
	case d.is(flagRemovesData) && f.is(flagAppendOnly):
		return conflict(twophase.RuleAppendOnly, "the table is append-only now")
	case d.adds.len() > 0 && f.unfit.has(d.baseLook):
		return conflict(twophase.RuleSchema, "the schema was changed so that the files that are added do not fit")
	case d.is(flagMetaData) && !f.is(flagMetaDataSame):
		return conflict(twophase.RuleMetadata, "the change would undo another change of the metadata")
	}
	return nil
}

// ImpossibleAt judges pending changes against a whole state (R22), each on top of
// those before it that are possible. Base is a *State.
func (Rules) ImpossibleAt(decided []twophase.Facts, at twophase.Base) []*twophase.Conflict {
	out := make([]*twophase.Conflict, len(decided))
	s, ok := at.(*State)
	if !ok || s == nil {
		for i := range out {
			out[i] = conflict(twophase.RuleProtocol, "no state of the table to judge against")
		}
		return out
	}
	t := &trial{base: s, def: definitionOf(s.profile)}
	for i, blob := range decided {
		f, err := decode(blob)
		if err != nil {
			out[i] = unreadable(err)
			continue
		}
		if out[i] = impossibleAt(&f, t); out[i] == nil {
			t.take(&f)
		}
	}
	return out
}

// Without says which pending changes fall with those that are given up.
func (Rules) Without(decided []twophase.Facts, lost []bool) []*twophase.Conflict {
	out := make([]*twophase.Conflict, len(decided))
	var gone []facts
	for i, blob := range decided {
		f, err := decode(blob)
		if err != nil {
			if !lost[i] {
				out[i] = unreadable(err)
			}
			continue
		}
		if !lost[i] {
			out[i] = f.restsOn(gone)
		}
		if lost[i] || out[i] != nil {
			gone = append(gone, f)
		}
	}
	return out
}

// restsOn says why a change cannot stand without earlier ones.
func (f *facts) restsOn(gone []facts) *twophase.Conflict {
	for i := range gone {
		if found := f.restsOnOne(&gone[i]); found != nil {
			return found
		}
	}
	return nil
}

func (f *facts) restsOnOne(g *facts) (found *twophase.Conflict) {
	if g.is(flagProtocol) && g.nextFeatures&^g.baseFeatures&^fenceBit&f.baseFeatures != 0 {
		return conflict(twophase.RuleProtocol, "rests on a protocol change that was given up")
	}
	if g.is(flagMetaData) && (g.nextLook != g.baseLook && g.nextLook == f.baseLook ||
		g.nextConfig != g.baseConfig && g.nextConfig == f.baseConfig) {
		return conflict(twophase.RuleMetadata, "rests on a metadata change that was given up")
	}
	shared(f.removes, g.adds, func(i, j int) bool {
		if dvAt(f.removeDVs, i) == dvAt(g.addDVs, j) {
			found = onPath(twophase.RulePathMissing, f.removes.at(i), "the file that is removed is added by a change that was given up")
		}
		return found == nil
	})
	if found != nil {
		return found
	}
	shared(f.adds, g.removes, func(i, j int) bool {
		if !f.replaces(f.adds.at(i), dvAt(f.addDVs, i), dvAt(g.removeDVs, j)) {
			found = onPath(twophase.RulePathExists, f.adds.at(i), "the file that is added is removed by a change that was given up")
		}
		return found == nil
	})
	return found
}
