package tables_test

import (
	"encoding/json"
	"errors"
	"flag"
	"maps"
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
	k := &kept{fixture: &fixture{t: t, store: store}, cfg: tables.KeeperConfig{Log: cfg, Format: checkpoint.Format()}}
	k.shelved(&shelf{})
	return k
}

var maintainAll = flag.Bool("maintain.all", false, "checkpoint golden tables at every version, and not only at the newest")

// TestGoldenCheckpoints: for every golden table that we may write, replay from our
// checkpoint alone equals replay from the JSON commits. What the
// commits say is compared with an independent replayer in package goldentest.
func TestGoldenCheckpoints(t *testing.T) {
	t.Parallel()
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

// TestGoldenSidecars: the same for checkpoints with sidecars. The tables are moved to
// them by one more version, which says so in protocol and properties.
func TestGoldenSidecars(t *testing.T) {
	t.Parallel()
	written := 0
	for _, table := range goldentest.Tables(t) {
		if table.MustFail != "" || table.Refused != "" {
			continue
		}
		k := goldenLog(t, table.Dir, isCommit)
		k.next = twophase.Version(len(k.names()))
		p := k.profile()
		var meta map[string]any
		if err := json.Unmarshal(p.MetaData.Raw, &meta); err != nil {
			t.Fatal(err)
		}
		config := maps.Clone(p.MetaData.Configuration)
		if config == nil {
			config = map[string]string{}
		}
		config["delta.checkpointPolicy"] = "v2"
		meta["configuration"] = config
		k.commit(withSidecars(p.Protocol), `{"metaData":`+marshal(t, meta)+`}`)
		want := k.seen()
		keeper, s := k.survey(tables.Latest)
		c, err := keeper.Checkpoint(t.Context(), s, nil)
		if err != nil || !c.V2 {
			t.Errorf("%s: %+v, %v", table.Name, c, err)
			continue
		}
		written++
		if diff := cmp.Diff(want, k.without(isCommit).seen()); diff != "" || c.Adds != int64(len(want.Files)) {
			t.Errorf("%s: %d adds: %s", table.Name, c.Adds, diff)
		}
	}
	if written < 90 {
		t.Errorf("%d tables were checkpointed", written)
	}
}

// withSidecars is a protocol line that has all that another protocol has, and V2
// checkpoints.
func withSidecars(p tables.Protocol) string {
	reader, writer := []string{"v2Checkpoint"}, []string{"v2Checkpoint"}
	for i, features := range [][]string{2: {"appendOnly", "invariants"}, 3: {"checkConstraints"}, 4: {"changeDataFeed", "generatedColumns"}, 5: {"columnMapping"}, 6: {"identityColumns"}} {
		if p.MinWriter < 7 && i <= p.MinWriter {
			writer = append(writer, features...)
		}
	}
	if p.MinReader == 2 {
		reader = append(reader, "columnMapping")
	}
	add := func(to, more []string) []string {
		for _, f := range more {
			if !slices.Contains(to, f) {
				to = append(to, f)
			}
		}
		return to
	}
	return featureProtocol(add(reader, p.ReaderFeatures), add(writer, p.WriterFeatures))
}
