package coordinator_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/txcoord/txcoord/coordinator"
	"github.com/txcoord/txcoord/tables"
	"github.com/txcoord/txcoord/tables/checkpoint"
	"github.com/txcoord/txcoord/twophase"
)

// TestMaintainCleansTheLog: what has expired goes, but for a checkpoint and its
// commit, and the catalog goes on from there, after a restart too.
func TestMaintainCleansTheLog(t *testing.T) {
	w := newTended(t)
	w.create("own", twophase.ModeExclusive)
	w.create("open", twophase.ModeOpen)
	m := w.maintainer(coordinator.MaintainConfig{})
	for _, table := range []string{"own", "open"} {
		w.grow(table, 4)
		w.maintain(m, table, false)
		w.grow(table, 2)
	}
	if r := w.maintain(m, "own", false); r.CleanUp.Commits != 0 || r.CleanUp.Skipped == "" {
		t.Errorf("young: %+v", r.CleanUp)
	}
	w.later.Store(int64(month))
	if r := w.maintain(m, "open", false); r.CleanUp.Commits != 0 || r.CleanUp.Skipped == "" {
		t.Errorf("open: %+v", r.CleanUp)
	}
	if r := w.maintain(m, "own", false); r.CleanUp.Cut != 6 || r.CleanUp.Commits != 6 || r.CleanUp.Checkpoints != 1 {
		t.Errorf("own: %+v", r.CleanUp)
	}
	if diff := cmp.Diff([]string{"6.checkpoint.parquet", "6.json", "_last_checkpoint", "_txcoord/owner.json"}, w.files("own")); diff != "" {
		t.Error(diff)
	}
	w.restart()
	w.grow("own", 2)
	if s := w.state("own"); s.NumFiles() != 8 || s.Version() != 8 {
		t.Errorf("after that: version %d, %d files", s.Version(), s.NumFiles())
	}
	keep := w.maintainer(coordinator.MaintainConfig{KeepLogs: true})
	if r := w.maintain(keep, "own", false); r.CleanUp.Skipped == "" {
		t.Errorf("logs are kept: %+v", r.CleanUp)
	}
	free := w.maintainer(coordinator.MaintainConfig{CleanOpen: true})
	if r := w.maintain(free, "open", false); r.CleanUp.Commits != 6 {
		t.Errorf("open tables too: %+v", r.CleanUp)
	}
}

// TestMaintainHonoursTags: the versions of a tagged snapshot stay readable.
func TestMaintainHonoursTags(t *testing.T) {
	w := newTended(t)
	w.create("a", twophase.ModeExclusive)
	w.create("other", twophase.ModeExclusive)
	m := w.maintainer(coordinator.MaintainConfig{})
	w.grow("a", 3)
	w.maintain(m, "a", false)
	w.grow("a", 2)
	tagged := w.catalog.Shown()
	if err := second(w.catalog.Tag(w.ctx(), "month-end", tagged)); err != nil {
		t.Fatal(err)
	}
	w.grow("a", 2)
	w.maintain(m, "a", false)
	w.grow("a", 1)
	w.later.Store(int64(month))
	r := w.maintain(m, "a", false)
	if r.CleanUp.Cut != 3 || r.CleanUp.HeldBy != "tag month-end" {
		t.Errorf("report: %+v", r.CleanUp)
	}
	snap, err := w.catalog.Snapshot(w.ctx(), coordinator.SnapshotRef{Tag: "month-end"}, []string{"a"})
	if err != nil {
		t.Fatal(err)
	}
	log := tables.NewLog(tables.LogConfig{Store: w.objects, Key: "a", URI: w.uri("a"), ReadCheckpoint: checkpoint.Read})
	if s, err := log.State(w.ctx(), snap.Tables[0].Version); err != nil || s.NumFiles() != 5 {
		t.Errorf("the tagged version: %v", err)
	}
	if err := second(w.catalog.Tag(w.ctx(), "month-end", 0)); err != nil {
		t.Fatal(err)
	}
	if r := w.maintain(m, "a", false); r.CleanUp.Cut != 8 || r.CleanUp.HeldBy != "" {
		t.Errorf("without the tag: %+v", r.CleanUp)
	}
}
