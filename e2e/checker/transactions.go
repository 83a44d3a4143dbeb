package checker

import (
	"maps"
	"slices"
)

// What clients were told, against what the logs hold.

func (c *check) checkTransactions() {
	listed := map[string]bool{}
	for _, x := range c.run.Committed {
		listed[x.ID] = true
		c.checkCommitted(x)
	}
	for _, x := range c.run.Unresolved {
		listed[x.ID] = true
		c.checkUnresolved(x)
	}
	for _, x := range c.run.Refused {
		listed[x.ID] = true
		for _, table := range slices.Sorted(maps.Keys(c.places[x.ID])) {
			c.fail(TransactionRefused, Violation{Table: table, Version: c.places[x.ID][table].version, Txn: x.ID}, "was refused, and is in the log")
		}
	}
	if c.run.Closed {
		c.checkStray(listed)
	}
}

// checkCommitted: in each of its tables, where the client was told.
func (c *check) checkCommitted(x Transaction) {
	for _, p := range x.Parts {
		at := Violation{Table: p.Table, Version: p.Version, Txn: x.ID}
		got, found := c.places[x.ID][p.Table]
		switch {
		case p.NotApplied && found:
			at.Version = got.version
			c.fail(TransactionGivenUp, at, "the client was told that this part was not applied")
		case p.NotApplied, !found && p.Pending && !c.run.Settled:
		case !found && c.maybeCleaned(p):
			c.report.Unverified++
		case !found:
			c.fail(TransactionLost, at, "acknowledged, and not in the log")
		default:
			c.checkPlace(x.ID, p, got)
		}
	}
	c.checkExtra(x)
}

// maybeCleaned: the part may have been in a version that is gone. Without the
// version from the server's answer any such version will do.
func (c *check) maybeCleaned(p Part) bool {
	l := c.logs[p.Table]
	if l == nil {
		return false
	}
	if p.Version != 0 {
		return l.unseen(p.Version)
	}
	for n := range l.checkpoint + 1 {
		if l.unseen(n) {
			return true
		}
	}
	return false
}

func (c *check) checkPlace(id string, p Part, got place) {
	at := Violation{Table: p.Table, Version: got.version, Txn: id}
	if c.takenOver(p, got) {
		return
	}
	if p.Version != 0 && p.Version != got.version {
		c.fail(TransactionMisplaced, at, "the client was told version %d", p.Version)
	}
	if p.Place != nil && *p.Place != got.index {
		c.fail(TransactionMisplaced, at, "place %d in the version, the client was told %d", got.index, *p.Place)
	}
	if len(p.Digests) > 0 && !slices.Equal(p.Digests, got.digests) {
		c.fail(TransactionMisplaced, at, "digests %v, committed were %v", got.digests, p.Digests)
	}
}

// takenOver: the version was cleaned before the server came to record it. It then
// knows from a checkpoint that the part was delivered, and tells that checkpoint's
// version, the end of what it took over at once; the place there means nothing.
func (c *check) takenOver(p Part, got place) bool {
	l := c.logs[p.Table]
	return p.Version > got.version && l != nil && l.cleaned[got.version] && p.Version <= l.checkpoint
}

// checkExtra: in no table that the transaction did not name.
func (c *check) checkExtra(x Transaction) {
	for _, table := range slices.Sorted(maps.Keys(c.places[x.ID])) {
		if !slices.ContainsFunc(x.Parts, func(p Part) bool { return p.Table == table }) {
			c.fail(TransactionStray, Violation{Table: table, Version: c.places[x.ID][table].version, Txn: x.ID}, "has no part on this table")
		}
	}
}

// checkUnresolved: all or nothing.
func (c *check) checkUnresolved(x Transaction) {
	c.checkExtra(x)
	if len(c.places[x.ID]) == 0 {
		return
	}
	for _, p := range x.Parts {
		got, found := c.places[x.ID][p.Table]
		switch {
		case found:
			c.checkPlace(x.ID, p, got)
		case p.NotApplied:
		case c.maybeCleaned(p):
			c.report.Unverified++
		default:
			c.fail(TransactionTorn, Violation{Table: p.Table, Txn: x.ID}, "missing here, and in %d other tables", len(c.places[x.ID]))
		}
	}
}

func (c *check) checkStray(listed map[string]bool) {
	for _, id := range slices.Sorted(maps.Keys(c.places)) {
		if listed[id] {
			continue
		}
		for _, table := range slices.Sorted(maps.Keys(c.places[id])) {
			c.fail(TransactionStray, Violation{Table: table, Version: c.places[id][table].version, Txn: id}, "no client knows it")
		}
	}
}

// checkPaths compares every added path that a client named with the versions of
// ours that add it: as often, and in those versions, as the transactions that
// name it were found.
func (c *check) checkPaths() {
	for _, t := range c.run.Tables {
		got := c.ownAdds(t)
		want, named := c.namedAdds(t.Name)
		for _, path := range slices.Sorted(maps.Keys(named)) {
			if !slices.Equal(got[path], want[path]) {
				c.fail(PathWrong, Violation{Table: t.Name, Version: first(got[path], want[path]), Txn: named[path]},
					"path %q is added by versions %v, want %v", path, got[path], want[path])
			}
		}
		if c.run.Closed {
			c.checkStrayPaths(t, got, named)
		}
	}
}

func (c *check) checkStrayPaths(t Table, got map[string][]int64, named map[string]string) {
	for _, path := range slices.Sorted(maps.Keys(got)) {
		if _, ok := named[path]; !ok {
			c.fail(PathWrong, Violation{Table: t.Name, Version: got[path][0]}, "no client's transaction adds path %q", path)
		}
	}
}

func first(lists ...[]int64) int64 {
	for _, l := range lists {
		if len(l) > 0 {
			return l[0]
		}
	}
	return 0
}

// ownAdds lists, per path, the versions of ours that add it.
func (c *check) ownAdds(t Table) map[string][]int64 {
	l := c.logs[t.Name]
	adds := map[string][]int64{}
	for _, n := range l.numbers() {
		v := l.versions[n]
		if v.problem != nil || !c.ours(v) {
			continue
		}
		for _, path := range v.adds {
			adds[path] = append(adds[path], n)
		}
	}
	return adds
}

// namedAdds lists the paths that any client named on a table, with one of the
// transactions that name it, and the versions in which those transactions lie.
func (c *check) namedAdds(table string) (want map[string][]int64, named map[string]string) {
	want, named = map[string][]int64{}, map[string]string{}
	for _, list := range [][]Transaction{c.run.Committed, c.run.Unresolved, c.run.Refused} {
		for _, x := range list {
			for _, p := range x.Parts {
				if p.Table != table {
					continue
				}
				got, found := c.places[x.ID][table]
				for _, path := range p.Adds {
					path = decodePath(path)
					named[path] = x.ID
					if found {
						want[path] = append(want[path], got.version)
					}
				}
			}
		}
	}
	for _, versions := range want {
		slices.Sort(versions)
	}
	return want, named
}
