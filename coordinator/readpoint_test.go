package coordinator_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/txcoord/txcoord/coordinator"
	"github.com/txcoord/txcoord/tables"
	"github.com/txcoord/txcoord/tables/objstore"
	"github.com/txcoord/txcoord/twophase"
)

// A reader of a snapshot is checked against what came after the snapshot's versions.
func TestReadPointsBySnapshot(t *testing.T) {
	t.Parallel()
	w := (&world{}).open(t)
	w.create("t", twophase.ModeExclusive)
	w.create("other", twophase.ModeExclusive)
	early := w.commit("1", blind("t", "1")).Committed.Snapshot
	w.commit("2", blind("other", "1"))
	late := w.commit("3", blind("t", "2")).Committed.Snapshot
	whole := func(s twophase.SnapshotVersion) tables.ReadDeclaration {
		return tables.ReadDeclaration{Snapshot: &s, Kind: tables.ReadWholeTable}
	}
	_, err := w.try("stale", change("t", whole(early), add("3")))
	_ = wantReason(t, "read at the earlier snapshot", err, coordinator.Conflicted)
	_, err = w.try("between", change("t", whole(late-1), add("3")))
	_ = wantReason(t, "read at the snapshot before the last", err, coordinator.Conflicted)
	w.commit("fresh", change("t", whole(late), add("3")))
}

// The fold keeps so much of a table's history; what is older is read from its log,
// and where that is cleaned the client has to read again (R14).
func TestOldReadPointsAreCheckedFromTheLog(t *testing.T) {
	t.Parallel()
	w := &world{}
	w.cfg.Limits.FactsBytes = 1 << 20
	w.open(t)
	w.create("t", twophase.ModeExclusive)
	w.commit("seed", change("t", blindRead, add("old"), add("other")))
	w.commit("gone", change("t", readAt(1), remove("old")))
	many := make([]string, 80_000)
	for i := range many {
		many[i] = fmt.Sprint("nothing there ", i)
	}
	for i := range 3 { // facts of more than 600 KB each push the older ones out
		w.commit(fmt.Sprint("bulk ", i), change("t", readFiles(2, many...), add(fmt.Sprint("bulk ", i))))
	}
	_, err := w.try("read old", change("t", readFiles(1, "old"), add("n1")))
	if got := wantReason(t, "a reader of what was removed long ago", err, coordinator.Conflicted).Conflict; got.Rule != twophase.RuleDeleteRead || got.Path != "old" {
		t.Errorf("%+v", got)
	}
	w.commit("read other", change("t", readFiles(1, "other"), add("n2")))
	w.commit("writes only", change("t", readAt(1), remove("other")))

	for v := range 4 { // somebody cleans the log
		if err := w.objects.Delete(w.ctx(), commitKey("t", v)); err != nil {
			t.Fatal(err)
		}
	}
	w.unchanged("the commit", func() {
		_, err = w.try("too old", change("t", readFiles(1, "other"), add("n3")))
		own := wantReason(t, "a reader at a version that is gone", err, coordinator.ReadPointTooOld)
		if own.Table == nil || own.Table.Table != "t" || own.Table.Version != 1 {
			t.Errorf("%+v", own.Table)
		}
	})
	w.commit("reads nothing", change("t", readAt(1), add("n4"))) // its read point protects nothing
	_, err = w.try("removes twice", change("t", readAt(1), remove("old")))
	if got := wantReason(t, "a removal of what is gone", err, coordinator.Conflicted).Conflict; got.Rule != twophase.RulePathMissing {
		t.Errorf("%+v", got)
	}
}

// What is read of a log to check an old read point is bounded: a version may have a million
// files, and there may be 10,000 of them.
func TestOldReadPointBehindTooMuch(t *testing.T) {
	t.Parallel()
	for what, limits := range map[string]coordinator.Limits{"bytes": {OlderBytes: 300}, "versions": {OlderVersions: 2}} {
		w := &world{}
		w.cfg.Limits = limits
		w.cfg.Limits.FactsBytes = 1 << 20
		w.open(t)
		w.create("t", twophase.ModeExclusive)
		w.commit("seed", change("t", blindRead, add("old"), add("other")))
		many := make([]string, 80_000)
		for i := range many {
			many[i] = fmt.Sprint("nothing there ", i)
		}
		for i := range 6 {
			w.commit(fmt.Sprint("bulk ", i), change("t", readFiles(twophase.Version(1+i), many...), add(fmt.Sprint("bulk ", i))))
		}
		_, err := w.try("read old", change("t", readFiles(1, "old"), add("n1")))
		_ = wantReason(t, what+": a reader of long ago", err, coordinator.ReadPointTooOld)
		w.commit("reads nothing", change("t", readAt(1), remove("other")))
	}
}

// The same of facts that the fold knows by name alone, since they lie in objects: thousands of
// names are little to keep, and what they name may be gigabytes.
func TestReadPointBehindLargeObjects(t *testing.T) {
	t.Parallel()
	w := &world{}
	w.cfg.Limits.FactsBytes = 16
	w.cfg.Limits.OlderBytes = 600
	w.open(t)
	w.create("t", twophase.ModeExclusive)
	w.commit("seed", change("t", blindRead, add("old")))
	for i := range 20 {
		w.commit(fmt.Sprint("bulk ", i), blind("t", fmt.Sprint("bulk ", i)))
	}
	w.stop()
	w.start() // what was at hand was at hand for all
	_, err := w.try("read old", change("t", readFiles(1, "old"), add("n1")))
	_ = wantReason(t, "a reader of long ago", err, coordinator.ReadPointTooOld)
	w.commit("read late", change("t", readFiles(17, "old"), add("n2")))
}

// A client reads by path a version that is put and not recorded yet: its round waits
// for another table. What is in the version was read, what is pending behind it was
// not (R14).
func TestReadPointAheadOfTheJournal(t *testing.T) {
	t.Parallel()
	gate := newGate()
	w := &world{wrapObjects: func(s objstore.Store) objstore.Store { return gate.over(s) }}
	w.open(t)
	w.create("a", twophase.ModeExclusive)
	w.create("b", twophase.ModeExclusive)
	gate.hold(commitKey("b", 1))
	first := w.background("first", blind("a", "1"), blind("b", "1"))
	w.eventually("a's version is put", func() bool { return w.versions("a") == 2 })
	if v := w.info("a").Version; v != 0 {
		t.Fatalf("recorded is %d", v)
	}
	second := w.background("second", blind("a", "2"))
	w.eventually("the second is decided", func() bool { return w.info("a").Pending == 2 })
	_, err := w.try("read ahead", change("a", readWhole(2), add("x")))
	_ = wantReason(t, "a version that does not exist", err, coordinator.InvalidRequest)
	_, err = w.try("read it", change("a", readWhole(1), add("3")))
	if got := wantReason(t, "a reader of version 1, before the second", err, coordinator.Conflicted).Conflict; got.Rule != twophase.RuleAppendRead || got.Winner != twophase.DeriveTxnID(w.status().CatalogID, "second", 1) {
		t.Errorf("%+v", got)
	}
	third := w.background("read the file", change("a", readFiles(1, "1"), remove("1"), add("4")))
	w.eventually("the third is decided", func() bool { return w.info("a").Pending == 3 })
	gate.release()
	for _, done := range []chan error{first, second, third} {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	if log := w.read("a", 3); !strings.Contains(log, `"remove"`) {
		t.Errorf("version 3: %s", log)
	}
}
