package tables_test

import (
	"errors"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/txcoord/txcoord/tables"
	"github.com/txcoord/txcoord/tables/checkpoint"
	"github.com/txcoord/txcoord/tables/goldentest"
	"github.com/txcoord/txcoord/tables/objstore/memobj"
	"github.com/txcoord/txcoord/twophase"
)

// goldenLog is a golden table's log in memory. Only what keep says goes in.
func goldenLog(t *testing.T, dir string, keep func(name string) bool) *kept {
	t.Helper()
	uri, err := tables.CanonicalURI(dir)
	if err != nil {
		t.Fatal(err)
	}
	store := memobj.New()
	entries, err := os.ReadDir(filepath.Join(dir, "_delta_log"))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if e.IsDir() || !keep(e.Name()) {
			continue
		}
		data, err := os.ReadFile(filepath.Join(dir, "_delta_log", e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		if err := store.Put(t.Context(), tableKey+"/_delta_log/"+e.Name(), data); err != nil {
			t.Fatal(err)
		}
	}
	cfg := tables.LogConfig{Store: store, Key: tableKey, URI: uri, ReadCheckpoint: checkpoint.Read}
	return &kept{fixture: &fixture{t: t, store: store, log: tables.NewLog(cfg)}, cfg: tables.KeeperConfig{Log: cfg, Format: checkpoint.Format()}}
}

var maintainAll = flag.Bool("maintain.all", false, "checkpoint golden tables at every version, and not only at the newest")

// TestGoldenCheckpoints: for every golden table that we may write, replay from our
// checkpoint alone equals replay from the JSON commits. What the
// commits say is compared with an independent replayer in package goldentest.
func TestGoldenCheckpoints(t *testing.T) {
	written, refused := 0, 0
	for _, table := range goldentest.Tables(t) {
		if table.MustFail != "" {
			continue
		}
		versions := len(goldenLog(t, table.Dir, isCommit).names())
		for v := range versions {
			switch {
			case !*maintainAll && v < versions-1:
			case checkpointed(t, table, twophase.Version(v)):
				written++
			default:
				refused++
			}
		}
	}
	if want := []int{99, 2}; !*maintainAll && !slices.Equal([]int{written, refused}, want) {
		t.Errorf("%d tables were checkpointed and %d refused, want %v", written, refused, want)
	}
}

// checkpointed writes a checkpoint of a version and compares; false if the table's
// protocol forbids it, which has to be so exactly where a commit is refused.
func checkpointed(t *testing.T, table goldentest.Table, v twophase.Version) bool {
	t.Helper()
	k := goldenLog(t, table.Dir, func(n string) bool { return isCommit(n) && n <= name(int(v), "json") })
	want := k.seen()
	keeper, s := k.survey(v)
	c, err := keeper.Checkpoint(t.Context(), s, nil)
	var feature *tables.FeatureError
	if errors.As(err, &feature) {
		if table.Refused == "" {
			t.Errorf("%s: version %d: refused: %v", table.Name, v, err)
		}
		return false
	}
	if err != nil {
		t.Errorf("%s: version %d: %v", table.Name, v, err)
		return true
	}
	if diff := cmp.Diff(want, k.without(isCommit).seen()); diff != "" || c.Adds != int64(len(want.Files)) {
		t.Errorf("%s: version %d: %d adds: %s", table.Name, v, c.Adds, diff)
	}
	return true
}
