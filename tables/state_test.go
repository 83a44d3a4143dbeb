package tables_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/txcoord/txcoord/tables"
	"github.com/txcoord/txcoord/tables/objstore"
	"github.com/txcoord/txcoord/twophase"
)

func TestState(t *testing.T) {
	f := vectored(t).
		commit(`{"commitInfo":{"inCommitTimestamp":77}}`, removeLine("a.parquet"), addDV("a.parquet", "v1"), txnLine("job", 1)).
		commit(removeDV("a.parquet", "v1"), addDV("a.parquet", "v2"), txnLine("job", 2), txnLine("txcoord/cat", 6), domainLine("d1"), domainLine("d2")).
		commit(strings.Replace(addLine("b.parquet"), `"size":100`, `"size":150`, 1), removeLine("never.parquet"), strings.Replace(domainLine("d1"), "false", "true", 1)).
		commit(metaOf(schemaJSON, []string{"region"}, `"k":"v"`), txnLine("job", 1))
	s := f.state()
	if s.Version() != 4 || s.NumFiles() != 2 || s.TotalSize() != 250 {
		t.Errorf("version %d, %d files, %d bytes; want 4, 2, 250", s.Version(), s.NumFiles(), s.TotalSize())
	}
	if diff := cmp.Diff(map[string]int64{"job": 1, "txcoord/cat": 6}, s.Txns()); diff != "" {
		t.Errorf("txns (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[string]string{"d2": "{}"}, s.Domains()); diff != "" {
		t.Errorf("domains (-want +got):\n%s", diff)
	}
	if s.Marker("cat") != 6 || s.Marker("dog") != 0 {
		t.Errorf("markers %d, %d", s.Marker("cat"), s.Marker("dog"))
	}
	p := s.Profile()
	if p.Version != 4 || p.MetaData.ID != tableID || p.Property("k") != "v" || p.Protocol.MinWriter != 7 {
		t.Errorf("profile: version %d, %+v", p.Version, p.MetaData)
	}
	if diff := cmp.Diff([]string{"region"}, p.PartitionKeys()); diff != "" {
		t.Errorf("partition keys (-want +got):\n%s", diff)
	}
	if _, ok := s.InCommitTimestamp(); ok {
		t.Error("version 4 has no in-commit timestamp")
	}
	one, err := f.log.State(t.Context(), 1)
	if ict, ok := one.InCommitTimestamp(); err != nil || !ok || ict != 77 {
		t.Errorf("version 1: in-commit timestamp %d, %t, %v", ict, ok, err)
	}
	files, err := f.log.LiveFiles(t.Context(), tables.Latest)
	if err != nil {
		t.Fatal(err)
	}
	want := []tables.LiveFile{{Path: "a.parquet", DV: "u" + vectorName("v2") + "@1", Size: 100}, {Path: "b.parquet", Size: 150}}
	if diff := cmp.Diff(want, files, cmpopts.IgnoreFields(tables.LiveFile{}, "Raw")); diff != "" {
		t.Errorf("live files (-want +got):\n%s", diff)
	}
	live := map[tables.PathHash]tables.DVHash{}
	for path, dv := range s.Live() {
		live[path] = dv
	}
	if len(live) != 2 || live[tables.HashPath("a.parquet")] == 0 || live[tables.HashPath("b.parquet")] != 0 {
		t.Errorf("live: %v", live)
	}
}

func TestStateKeepsPairs(t *testing.T) {
	f := vectored(t).commit(addDV("a.parquet", "x")).commit(addDV("a.parquet", "y"))
	if s := f.state(); s.NumFiles() != 4 || s.TotalSize() != 400 {
		t.Errorf("%d files, %d bytes; want 4, 400", s.NumFiles(), s.TotalSize())
	}
	f.commit(removeLine("a.parquet")).commit(removeDV("a.parquet", "x"), removeLine("b.parquet"))
	if s := f.state(); s.NumFiles() != 1 || s.TotalSize() != 100 {
		t.Errorf("%d files, %d bytes; want 1, 100", s.NumFiles(), s.TotalSize())
	}
}

func TestStateFromCheckpoints(t *testing.T) {
	head := []string{plainProtocol, metaOf(schemaJSON, nil, ""), txnLine("txcoord/cat", 3), removeLine("tombstone.parquet")}
	classic := text(append(head, addLine("a.parquet"), addLine("c.parquet"))...)
	// The log as its JSON commits tell it: a.parquet, c.parquet, d.parquet at 3.
	full := func(t *testing.T) *fixture {
		return plain(t).commit(addLine("b.parquet"), txnLine("txcoord/cat", 3)).
			commit(removeLine("b.parquet"), addLine("c.parquet")).commit(addLine("d.parquet"))
	}
	cleaned := func(f *fixture) *fixture {
		return f.drop("00000000000000000000.json").drop("00000000000000000001.json")
	}
	for name, f := range map[string]*fixture{
		"commits alone": full(t),
		"classic":       cleaned(full(t)).put("00000000000000000002.checkpoint.parquet", classic),
		"hint":          cleaned(full(t)).put("00000000000000000002.checkpoint.parquet", classic).put("_last_checkpoint", []byte(`{"version":2,"size":5}`)),
		"hint is torn":  cleaned(full(t)).put("00000000000000000002.checkpoint.parquet", classic).put("_last_checkpoint", []byte(`{"version":2,"si`)),
		"hint is empty": cleaned(full(t)).put("00000000000000000002.checkpoint.parquet", classic).put("_last_checkpoint", nil),
		"hint is junk":  cleaned(full(t)).put("00000000000000000002.checkpoint.parquet", classic).put("_last_checkpoint", []byte("\x00\x01")),
		"hint too high": cleaned(full(t)).put("00000000000000000002.checkpoint.parquet", classic).put("_last_checkpoint", []byte(`{"version":9}`)),
		"hint too low":  cleaned(full(t)).put("00000000000000000002.checkpoint.parquet", classic).put("_last_checkpoint", []byte(`{"version":1}`)),
		"two parts": cleaned(full(t)).
			put("00000000000000000002.checkpoint.0000000001.0000000002.parquet", text(head...)).
			put("00000000000000000002.checkpoint.0000000002.0000000002.parquet", text(addLine("a.parquet"), addLine("c.parquet"))),
		"an incomplete one above": cleaned(full(t)).put("00000000000000000002.checkpoint.parquet", classic).
			put("00000000000000000003.checkpoint.0000000001.0000000002.parquet", text(head...)),
		"V2 in JSON": cleaned(full(t)).
			put("00000000000000000002.checkpoint.11-22.json", text(append([]string{
				`{"checkpointMetadata":{"version":2}}`,
				sidecarLine("s%201.parquet", text(addLine("a.parquet"))), sidecarLine("s2.parquet", text(addLine("c.parquet"))),
			}, head...)...)).
			put("_sidecars/s 1.parquet", text(addLine("a.parquet"))).put("_sidecars/s2.parquet", text(addLine("c.parquet"))),
		"V2 in Parquet, whole":   cleaned(full(t)).put("00000000000000000002.checkpoint.11-22.parquet", append(text(`{"checkpointMetadata":{"version":2}}`), classic...)),
		"V2 by its classic name": cleaned(full(t)).put("00000000000000000002.checkpoint.parquet", append(text(`{"checkpointMetadata":{"version":2}}`), classic...)),
		"at the newest version":  full(t).put("00000000000000000003.checkpoint.parquet", text(append(head, addLine("a.parquet"), addLine("c.parquet"), addLine("d.parquet"))...)),
	} {
		t.Run(name, func(t *testing.T) {
			s := f.state()
			if s.Version() != 3 || s.NumFiles() != 3 || s.TotalSize() != 300 || s.Marker("cat") != 3 {
				t.Errorf("version %d, %d files, %d bytes, marker %d; want 3, 3, 300, 3", s.Version(), s.NumFiles(), s.TotalSize(), s.Marker("cat"))
			}
			files, err := f.log.LiveFiles(t.Context(), 3)
			if err != nil || len(files) != 3 || files[0].Path != "a.parquet" || files[1].Path != "c.parquet" {
				t.Errorf("live files: %v, %v", files, err)
			}
		})
	}
}

func TestStateRefuses(t *testing.T) {
	meta := metaOf(schemaJSON, nil, "")
	for name, c := range map[string]struct {
		f       *fixture
		at      twophase.Version
		fault   tables.Fault
		file    string
		version twophase.Version
	}{
		"nothing there":               {newFixture(t), tables.Latest, tables.NotATable, "_delta_log", -1},
		"only other files":            {newFixture(t).put("_last_checkpoint", nil).put("00000000000000000000.crc", nil), tables.Latest, tables.NotATable, "_delta_log", -1},
		"a gap":                       {plain(t).commit(addLine("b")).commit(addLine("c")).drop("00000000000000000001.json"), tables.Latest, tables.Gap, "00000000000000000001.json", 1},
		"no beginning":                {plain(t).commit(addLine("b")).drop("00000000000000000000.json"), tables.Latest, tables.Gap, "00000000000000000000.json", 0},
		"gap after checkpoint":        {newFixture(t).put("00000000000000000002.checkpoint.parquet", text(plainProtocol, meta)).put("00000000000000000004.json", text(addLine("a"))), tables.Latest, tables.Gap, "00000000000000000003.json", 3},
		"too new":                     {plain(t), 5, tables.NoVersion, "", 5},
		"negative":                    {plain(t), -7, tables.NoVersion, "", -7},
		"cleaned away":                {newFixture(t).put("00000000000000000002.checkpoint.parquet", text(plainProtocol, meta)), 1, tables.Gap, "00000000000000000000.json", 0},
		"no protocol":                 {newFixture(t).commit(meta), tables.Latest, tables.NoProtocol, "00000000000000000000.json", 0},
		"no metaData":                 {newFixture(t).commit(plainProtocol), tables.Latest, tables.NoMetaData, "00000000000000000000.json", 0},
		"checkpoint without protocol": {plain(t).commit(addLine("b")).put("00000000000000000001.checkpoint.parquet", text(meta, addLine("b"))), tables.Latest, tables.NoProtocol, "00000000000000000001.checkpoint.parquet", -1},
		"checkpoint without metaData": {plain(t).commit(addLine("b")).put("00000000000000000001.checkpoint.parquet", text(plainProtocol)), tables.Latest, tables.NoMetaData, "00000000000000000001.checkpoint.parquet", -1},
		"damaged checkpoint":          {plain(t).commit(addLine("b")).drop("00000000000000000000.json").put("00000000000000000001.checkpoint.parquet", []byte("PAR1")), tables.Latest, tables.BadCheckpoint, "00000000000000000001.checkpoint.parquet", 1},
		"damaged JSON checkpoint":     {plain(t).commit(addLine("b")).drop("00000000000000000000.json").put("00000000000000000001.checkpoint.u.json", []byte("{")), tables.Latest, tables.BadCheckpoint, "00000000000000000001.checkpoint.u.json", 1},
		"sidecar missing":             {plain(t).commit(addLine("b")).drop("00000000000000000000.json").put("00000000000000000001.checkpoint.u.json", text(`{"checkpointMetadata":{"version":1}}`, plainProtocol, meta, sidecarLine("gone.parquet", nil))), tables.Latest, tables.BadCheckpoint, "_sidecars/gone.parquet", 1},
		"sidecar without path":        {plain(t).commit(addLine("b")).drop("00000000000000000000.json").put("00000000000000000001.checkpoint.u.json", text(plainProtocol, meta, `{"sidecar":{}}`)), tables.Latest, tables.BadCheckpoint, "00000000000000000001.checkpoint.u.json", 1},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := c.f.log.State(t.Context(), c.at)
			e, ok := errors.AsType[*tables.LogError](err)
			if !ok || s != nil {
				t.Fatalf("got %v, %v, want a LogError", s, err)
			}
			file := strings.TrimPrefix(e.File, "_delta_log/")
			if e.Fault != c.fault || file != c.file || e.Version != c.version || e.Table != tableURI || !strings.Contains(e.Error(), tableURI) {
				t.Errorf("got %v, file %q, version %d: %v\nwant %v, %q, %d", e.Fault, file, e.Version, e, c.fault, c.file, c.version)
			}
		})
	}
}

// A damaged checkpoint is passed over while older files tell the same.
func TestStatePassesOverDamage(t *testing.T) {
	meta := metaOf(schemaJSON, nil, "")
	const newest = "00000000000000000003.checkpoint.parquet"
	for name, f := range map[string]*fixture{
		"to the commits": plain(t).commit(addLine("b")).commit(addLine("c")).commit(removeLine("b")),
		"to an older checkpoint": plain(t).commit(addLine("b")).put("00000000000000000001.checkpoint.parquet", text(plainProtocol, meta, addLine("a.parquet"), addLine("b"))).
			commit(addLine("c")).commit(removeLine("b")).drop("00000000000000000000.json").drop("00000000000000000001.json").
			put("_last_checkpoint", []byte(`{"version":3}`)),
		"over two": plain(t).commit(addLine("b")).put("00000000000000000001.checkpoint.parquet", []byte("PAR1")).
			commit(addLine("c")).commit(removeLine("b")),
		"half read": plain(t).commit(addLine("b")).commit(addLine("c")).commit(removeLine("b")),
	} {
		t.Run(name, func(t *testing.T) {
			content := []byte("PAR1")
			if name == "half read" {
				content = text(plainProtocol, meta, addLine("ghost"), txnLine("ghost", 1), "{")
			}
			f.put(newest, content)
			s := f.state()
			if s.NumFiles() != 2 || s.Version() != 3 || len(s.Txns()) != 0 {
				t.Errorf("%d files at version %d, txns %v, want 2 at 3", s.NumFiles(), s.Version(), s.Txns())
			}
			damage, ok := errors.AsType[*tables.LogError](s.Skipped())
			if !ok || damage.Fault != tables.BadCheckpoint || damage.File != "_delta_log/"+newest {
				t.Errorf("skipped: %v, want %s", s.Skipped(), newest)
			}
			files, err := f.log.LiveFiles(t.Context(), tables.Latest)
			if err != nil || len(files) != 2 || files[0].Path != "a.parquet" || files[1].Path != "c" {
				t.Errorf("live files %v, %v", files, err)
			}
		})
	}
	if err := plain(t).state().Skipped(); err != nil {
		t.Errorf("nothing skipped: %v", err)
	}
}

type unreachable struct {
	objstore.Store
	key string
}

var errDown = errors.New("connection refused")

func (u unreachable) Get(ctx context.Context, key string, r objstore.Range) ([]byte, objstore.Info, error) {
	if strings.Contains(key, u.key) {
		return nil, objstore.Info{}, errDown
	}
	return u.Store.Get(ctx, key, r)
}

func (u unreachable) List(ctx context.Context, o objstore.ListOptions) iter.Seq2[objstore.Entry, error] {
	if u.key == "list" {
		return func(yield func(objstore.Entry, error) bool) { yield(objstore.Entry{}, errDown) }
	}
	return u.Store.List(ctx, o)
}

func TestStateWithoutStore(t *testing.T) {
	f := plain(t).commit(addLine("b")).put("00000000000000000001.checkpoint.parquet", text(plainProtocol, metaOf(schemaJSON, nil, ""))).commit(addLine("c"))
	for _, key := range []string{"list", "_last_checkpoint", "0002.json", "checkpoint.parquet"} {
		log := tables.NewLog(tables.LogConfig{Store: unreachable{f.store, key}, Key: tableKey, URI: tableURI, ReadCheckpoint: readLines})
		_, err := log.State(t.Context(), tables.Latest)
		if _, fault := errors.AsType[*tables.LogError](err); fault || !errors.Is(err, errDown) {
			t.Errorf("%s: %v, want the store's own error", key, err)
		}
	}
	log := tables.NewLog(tables.LogConfig{Store: f.store, Key: tableKey, URI: tableURI})
	if _, err := log.State(t.Context(), tables.Latest); err == nil || !strings.Contains(err.Error(), "no reader for Parquet") {
		t.Errorf("without a checkpoint reader: %v", err)
	}
}

type huge struct{ objstore.Store }

func (h huge) Stat(ctx context.Context, key string) (objstore.Info, error) {
	info, err := h.Store.Stat(ctx, key)
	if strings.Contains(key, ".checkpoint.") {
		info.Size = 1 << 30
	}
	return info, err
}

func TestLargeCheckpoint(t *testing.T) {
	f := plain(t).commit(addLine("b")).put("00000000000000000001.checkpoint.parquet", text(plainProtocol, metaOf(schemaJSON, nil, ""), addLine("b")))
	config := tables.LogConfig{Store: huge{f.store}, Key: tableKey, URI: tableURI, ReadCheckpoint: readLines}
	s, err := tables.NewLog(config).State(t.Context(), tables.Latest)
	if err != nil || s.NumFiles() != 1 {
		t.Errorf("got %v, %v", s, err)
	}
	config.Store = huge{unreachable{f.store, "checkpoint.parquet"}}
	if _, err := tables.NewLog(config).State(t.Context(), tables.Latest); !errors.Is(err, errDown) {
		t.Errorf("got %v, want the store's own error", err)
	}
}

// TestDamagedCommitIsDamagedForAll: a Tail and a LiveState look at less of checkpoints than
// State, and at all of a commit. Otherwise publishers would go on above a version that nobody
// else can read.
func TestDamagedCommitIsDamagedForAll(t *testing.T) {
	for name, raw := range map[string]string{
		"torn in a file":   addLine("x")[:30],
		"torn later":       addLine("x") + "\n" + addLine("y")[:30],
		"no path":          `{"add":{"size":1}}`,
		"bad path":         addLine("a%zz"),
		"two actions":      `{"add":{"path":"x","size":1},"txn":{"appId":"a","version":1}}`,
		"size is no size":  `{"add":{"path":"x","size":"1"}}`,
		"removes nothing":  `{"remove":{"path":""}}`,
		"empty":            "",
		"bad protocol":     `{"protocol":1}`,
		"half a plain add": `{"add":{"path":"x","size":1}`,
	} {
		log := plain(t).put("00000000000000000001.json", []byte(raw)).log
		_, want := log.State(t.Context(), tables.Latest)
		_, tail := log.Tail(t.Context(), tables.Latest)
		_, live := log.LiveState(t.Context(), tables.Latest)
		if want == nil {
			t.Errorf("%s: State takes it", name)
		}
		if diff := cmp.Diff([]string{fmt.Sprint(want), fmt.Sprint(want)}, []string{fmt.Sprint(tail), fmt.Sprint(live)}); diff != "" {
			t.Errorf("%s: what Tail and LiveState say (-State):\n%s", name, diff)
		}
	}
}
