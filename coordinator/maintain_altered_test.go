package coordinator_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/txcoord/txcoord/coordinator"
	"github.com/txcoord/txcoord/tables"
	"github.com/txcoord/txcoord/tables/checkpoint"
	"github.com/txcoord/txcoord/twophase"
)

// withoutAdds is a commit whose rows are gone and which is a commit all the same.
func withoutAdds(s string) string {
	var out []string
	for line := range strings.Lines(s) {
		if !strings.HasPrefix(line, `{"add"`) {
			out = append(out, line)
		}
	}
	return strings.Join(out, "")
}

// A version has lost its rows for a while. Maintenance does not make that last, by a
// checkpoint or by removing the commit; also where the entry that recorded it was folded by
// another process.
func TestMaintainRefusesAnAlteredVersion(t *testing.T) {
	t.Parallel()
	for _, mode := range []twophase.Mode{twophase.ModeOpen, twophase.ModeExclusive} {
		for _, restarted := range []bool{false, true} {
			t.Run(mode.String(), func(t *testing.T) {
				w := newTended(t)
				w.create("a", mode)
				w.grow("a", 3)
				if restarted {
					w.restart()
				}
				was := w.read("a", 1)
				w.overwrite("a", 1, withoutAdds(was))
				m := w.maintainer(coordinator.MaintainConfig{CleanOpen: true})
				before := w.files("a")
				_, err := m.Maintain(w.ctx(), coordinator.MaintainRequest{Table: "a", DryRun: true})
				wantReason(t, "a dry run", err, coordinator.LogContradiction)
				_, err = m.Maintain(w.ctx(), coordinator.MaintainRequest{Table: "a"})
				e := wantReason(t, "maintain", err, coordinator.LogContradiction)
				if e.Table == nil || e.Table.Version != 1 || !strings.Contains(e.Message, "Put the file back") {
					t.Errorf("%v", err)
				}
				if diff := cmp.Diff(before, w.files("a")); diff != "" {
					t.Errorf("written: %s", diff)
				}
				w.overwrite("a", 1, was)
				if r := w.maintain(m, "a", false); !r.Checkpoint.Written || r.Checkpoint.Adds != 3 {
					t.Errorf("%+v", r.Checkpoint)
				}
				// What lies below the checkpoint is altered, and expires: it stays, as evidence.
				w.overwrite("a", 2, withoutAdds(w.read("a", 2)))
				w.later.Store(int64(month))
				before = w.files("a")
				_, err = m.Maintain(w.ctx(), coordinator.MaintainRequest{Table: "a"})
				wantReason(t, "clean", err, coordinator.LogContradiction)
				if diff := cmp.Diff(before, w.files("a")); diff != "" {
					t.Errorf("removed: %s", diff)
				}
			})
		}
	}
}

// plainCheckpoint writes a checkpoint as somebody would who knows of no journal.
func (w *tended) plainCheckpoint(table string, at twophase.Version) {
	w.t.Helper()
	keeper := tables.NewKeeper(tables.KeeperConfig{
		Log: tables.LogConfig{Store: w.objects, Key: table, URI: w.uri(table)}, Format: checkpoint.Format(), TempDir: w.t.TempDir(),
	})
	survey, err := keeper.Survey(w.ctx(), at)
	if err == nil {
		_, err = keeper.Checkpoint(w.ctx(), survey, nil)
	}
	if err != nil {
		w.t.Fatal(err)
	}
}

// A checkpoint of an altered state, as builds before wrote it: fsck finds it once the
// commit is back, not before, and nothing is cleaned under it or under one that was made
// from it; its remedy mends the table.
func TestFsckFindsACheckpointOfAnAlteredState(t *testing.T) {
	t.Parallel()
	w := newTended(t)
	w.create("a", twophase.ModeExclusive)
	w.grow("a", 3)
	was := w.read("a", 1)
	w.overwrite("a", 1, withoutAdds(was))
	w.plainCheckpoint("a", 3)
	w.wantFindings("as long as the commit is altered", w.fsck("a"), "VERSION_ALTERED a 1")
	w.overwrite("a", 1, was)
	w.wantFindings("put back", w.fsck("a"), "CHECKPOINT_DIFFERS a 3")
	w.grow("a", 3)
	w.plainCheckpoint("a", 6)
	w.wantFindings("one that was made from it", w.fsck("a"), "CHECKPOINT_DIFFERS a 3", "CHECKPOINT_DIFFERS a 6")
	m := w.maintainer(coordinator.MaintainConfig{})
	w.later.Store(int64(month))
	before := w.files("a")
	_, err := m.Maintain(w.ctx(), coordinator.MaintainRequest{Table: "a"})
	wantReason(t, "clean", err, coordinator.LogContradiction)
	if diff := cmp.Diff(before, w.files("a")); diff != "" {
		t.Errorf("removed: %s", diff)
	}
	w.later.Store(0)
	for _, name := range []string{"00000000000000000003.checkpoint.parquet", "00000000000000000006.checkpoint.parquet", "_last_checkpoint"} {
		w.world.drop("a/_delta_log/" + name)
	}
	w.maintain(m, "a", false)
	if got := w.state("a"); got.NumFiles() != 6 {
		t.Errorf("%d files", got.NumFiles())
	}
	w.wantFindings("mended", w.fsck("a"))
}
