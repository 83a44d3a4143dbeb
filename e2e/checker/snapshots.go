package checker

import (
	"maps"
	"slices"
)

// What each snapshot shows. Snapshots are compared by when a transaction becomes
// visible in each of its tables: at one and the same snapshot, or never.

// timeline says how one table stands in the snapshots, at each change.
type timeline []moment

type moment struct {
	snapshot uint64
	// version is -1 where the table left the catalog.
	version int64
	// entered: the table came into the catalog with this snapshot, so what it
	// holds was there before.
	entered bool
}

// shows returns the first snapshot that shows a version; 0 if none does.
func (l timeline) shows(version int64) (snapshot uint64, entered bool) {
	for _, m := range l {
		if m.version >= version {
			return m.snapshot, m.entered
		}
	}
	return 0, false
}

// search is shows for timelines that never go back, in logarithmic time.
func (l timeline) search(version int64) (snapshot uint64, entered bool) {
	i, _ := slices.BinarySearchFunc(l, version, func(m moment, v int64) int { return int(min(max(m.version-v, -1), 1)) })
	if i == len(l) {
		return 0, false
	}
	return l[i].snapshot, l[i].entered
}

// timelines folds the manifests into one timeline per table of the run.
func (c *check) timelines() map[string]timeline {
	lines := map[string]timeline{}
	names := map[string]string{}
	for _, m := range c.manifests {
		for _, t := range m.Tables {
			_, known := names[t.ID]
			names[t.ID] = t.Name
			lines[t.Name] = append(lines[t.Name], moment{snapshot: m.number, version: *t.Version, entered: !known})
		}
		for _, id := range m.Removed {
			lines[names[id]] = append(lines[names[id]], moment{snapshot: m.number, version: -1})
		}
	}
	return lines
}

func (l timeline) rising() bool {
	return slices.IsSortedFunc(l, func(a, b moment) int { return int(min(max(a.version-b.version, -1), 1)) })
}

// finder returns the quickest way to ask a timeline.
func (l timeline) finder() func(int64) (uint64, bool) {
	if l.rising() {
		return l.search
	}
	return l.shows
}

func (c *check) checkSnapshots() {
	find := map[string]func(int64) (uint64, bool){}
	for name, l := range c.timelines() {
		find[name] = l.finder()
	}
	c.checkReal()
	visible := map[uint64]map[string]bool{}
	for _, id := range slices.Sorted(maps.Keys(c.places)) {
		c.checkVisible(id, find, visible)
	}
	c.checkListed(visible)
	c.checkAnswers(visible)
}

// checkReal: a snapshot names versions that exist, or that others cleaned.
func (c *check) checkReal() {
	for _, m := range c.manifests {
		for _, t := range m.Tables {
			l := c.logs[t.Name]
			if l != nil && l.versions[*t.Version] == nil && !l.unseen(*t.Version) {
				c.fail(SnapshotUnreal, Violation{Table: t.Name, Version: *t.Version, Snapshot: m.number}, "the log has no such version")
			}
		}
	}
}

// checkVisible finds the snapshot at which a transaction becomes visible, and
// wants it to be the same in all of its tables. A table that came into the
// catalog with the version already in it says nothing.
func (c *check) checkVisible(id string, find map[string]func(int64) (uint64, bool), visible map[uint64]map[string]bool) {
	at := map[uint64]string{}
	for _, table := range slices.Sorted(maps.Keys(c.places[id])) {
		f := find[table]
		if f == nil {
			f = timeline(nil).shows
		}
		if s, entered := f(c.places[id][table].version); !entered {
			at[s] = table
		}
	}
	snapshots := slices.Sorted(maps.Keys(at))
	if len(snapshots) > 1 {
		c.failTorn(id, snapshots, at)
	}
	for _, s := range snapshots {
		if visible[s] == nil {
			visible[s] = map[string]bool{}
		}
		visible[s][id] = true
	}
}

func (c *check) failTorn(id string, snapshots []uint64, at map[uint64]string) {
	if snapshots[0] == 0 {
		snapshots = append(snapshots[1:], 0)
	}
	one, other := snapshots[0], snapshots[1]
	when := "never"
	if other != 0 {
		when = "only later"
	}
	table := at[other]
	c.fail(SnapshotTorn, Violation{Table: table, Version: c.places[id][table].version, Snapshot: one, Txn: id},
		"shown here in table %s, in table %s %s", at[one], table, when)
}

// checkListed: a publication lists exactly what it makes visible, and nothing is
// listed twice or by anything else.
func (c *check) checkListed(visible map[uint64]map[string]bool) {
	listed := map[string]uint64{}
	given := c.givenUp()
	for _, m := range c.manifests {
		here := map[string]bool{}
		for _, id := range *m.Transactions {
			at := Violation{Snapshot: m.number, Txn: id}
			here[id] = true
			if before, twice := listed[id]; twice {
				c.fail(ManifestTransactions, at, "already listed by snapshot %d", before)
			}
			listed[id] = m.number
			if !visible[m.number][id] && !given[id] {
				c.fail(ManifestTransactions, at, "listed, and no version that this snapshot brings holds it")
			}
		}
		for _, id := range slices.Sorted(maps.Keys(visible[m.number])) {
			if m.Kind != "range" && !here[id] {
				c.fail(ManifestTransactions, Violation{Snapshot: m.number, Txn: id}, "becomes visible here, and is not listed")
			}
		}
	}
}

// givenUp lists the transactions of which the client was told that a part was not applied.
func (c *check) givenUp() map[string]bool {
	given := map[string]bool{}
	for _, x := range c.run.Committed {
		for _, p := range x.Parts {
			if p.NotApplied {
				given[x.ID] = true
			}
		}
	}
	return given
}

// checkAnswers: an acknowledged transaction is visible from the snapshot on that
// the client was told, and, at rest, everything that is in a log is in a snapshot.
func (c *check) checkAnswers(visible map[uint64]map[string]bool) {
	for _, x := range c.run.Committed {
		if x.Snapshot != 0 && len(c.places[x.ID]) > 0 && !visible[x.Snapshot][x.ID] && x.Snapshot <= c.lastManifest() {
			c.fail(SnapshotWrong, Violation{Snapshot: x.Snapshot, Txn: x.ID}, "the client was told that this snapshot brings it")
		}
		if c.run.Settled && x.Snapshot > c.lastManifest() {
			c.fail(SnapshotUnsettled, Violation{Snapshot: x.Snapshot, Txn: x.ID}, "the client was told this snapshot, the last manifest is %d", c.lastManifest())
		}
	}
	if !c.run.Settled {
		return
	}
	for _, id := range slices.Sorted(maps.Keys(visible[0])) {
		c.fail(SnapshotUnsettled, Violation{Txn: id}, "in a log, and in no snapshot")
	}
}

func (c *check) lastManifest() uint64 {
	if len(c.manifests) == 0 {
		return 0
	}
	return c.manifests[len(c.manifests)-1].number
}
