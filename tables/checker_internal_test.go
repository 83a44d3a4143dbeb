package tables

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"testing"

	"github.com/txcoord/txcoord/twophase"
)

// TestCheckedAgainstMany: a read point may be 10,000 changes behind. What one commit has read is
// compared with all of them in a bounded time, and conflicts when it would take more.
func TestCheckedAgainstMany(t *testing.T) {
	columns, tuples := partitions(1, 1)
	added := &facts{columns: columns, addTuples: tuples, adds: appendHashes(nil, 7)}
	wrote := &facts{numApps: 1, apps: applications("mine", 1, 1).apps}
	for _, c := range []struct {
		name      string
		candidate *facts
		winner    *facts
		changes   int
		want      twophase.Rule
	}{
		{"a predicate, few changes", withFlags(elsewhere(1000, 1, 1), flagReadPartitions), added, 100, twophase.RuleNone},
		{"a predicate, many changes", withFlags(elsewhere(10_000, 1, 1), flagReadPartitions), added, 10_000, twophase.RuleAppendRead},
		{"applications, few changes", applications("yours", 1000, 1), wrote, 1000, twophase.RuleNone},
		{"applications, many changes", applications("yours", 100_000, 1), wrote, 10_000, twophase.RuleProtocol},
	} {
		k, got := &checker{}, twophase.RuleNone
		for i := 0; i < c.changes && got == twophase.RuleNone; i++ {
			if found := cmp.Or(k.appConflict(c.candidate, c.winner), k.appendConflict(c.candidate, c.winner)); found != nil {
				got = found.Rule
			}
		}
		if got != c.want || k.steps > checkSteps+1_000_000 {
			t.Errorf("%s: rule %v after %d steps, want %v", c.name, got, k.steps, c.want)
		}
	}
}

func withFlags(f *facts, flags flag) *facts {
	f.flags |= flags
	return f
}

// applications are so many txn actions.
func applications(name string, n int, version uint64) *facts {
	f := &facts{numApps: n}
	for i := range n {
		app := fmt.Sprintf("%s%d", name, i)
		f.apps = appendHashes(append(binary.AppendUvarint(f.apps, uint64(len(app))), app...), version)
	}
	return f
}
