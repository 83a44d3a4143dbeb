package goldentest_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/txcoord/txcoord/tables"
	"github.com/txcoord/txcoord/tables/checkpoint"
	"github.com/txcoord/txcoord/tables/goldentest"
	"github.com/txcoord/txcoord/tables/objstore/fileobj"
	"github.com/txcoord/txcoord/twophase"
)

// openLog opens the log of a table in a local folder.
func openLog(t *testing.T, dir string) *tables.Log {
	t.Helper()
	store, err := fileobj.New(dir, fileobj.Config{SettleWithin: -1})
	if err != nil {
		t.Fatal(err)
	}
	uri, err := tables.CanonicalURI(dir)
	if err != nil {
		t.Fatal(err)
	}
	return tables.NewLog(tables.LogConfig{Store: store, URI: uri, ReadCheckpoint: checkpoint.Read})
}

func stateOf(t *testing.T, dir string, at twophase.Version) (*tables.State, []tables.LiveFile) {
	t.Helper()
	log := openLog(t, dir)
	state, err := log.State(context.Background(), at)
	if err != nil {
		t.Fatalf("State: %v", err)
	}
	files, err := log.LiveFiles(context.Background(), at)
	if err != nil {
		t.Fatalf("LiveFiles: %v", err)
	}
	return state, files
}

// TestGoldenTablesReplay replays every golden table, at every version, and
// compares all of the state with the naive replayer's.
func TestGoldenTablesReplay(t *testing.T) {
	all := goldentest.Tables(t)
	if got, want := len(all), 109; got != want {
		t.Errorf("there are %d golden tables, want %d", got, want)
	}
	for _, table := range all {
		if table.MustFail != "" {
			continue
		}
		t.Run(table.Name, func(t *testing.T) {
			t.Parallel()
			replaysAtEveryVersion(t, table.Dir)
		})
	}
}

func replaysAtEveryVersion(t *testing.T, dir string) {
	newest, err := naiveReplay(dir, -1)
	if err != nil {
		t.Fatal(err)
	}
	agrees(t, dir, tables.Latest, newest)
	for v := newest.Version; v >= 0; v-- {
		want, err := naiveReplay(dir, v)
		if err != nil {
			t.Fatal(err)
		}
		agrees(t, dir, twophase.Version(v), want)
	}
}

// agrees compares all that a State says with what the naive replayer found.
func agrees(t *testing.T, dir string, at twophase.Version, want *naive) {
	t.Helper()
	state, files := stateOf(t, dir, at)
	if got := int64(state.Version()); got != want.Version {
		t.Errorf("version: got %d, want %d", got, want.Version)
	}
	if diff := cmp.Diff(want.Txns, state.Txns()); diff != "" {
		t.Errorf("version %d: txns: %s", want.Version, diff)
	}
	if diff := cmp.Diff(want.Domains, state.Domains()); diff != "" {
		t.Errorf("version %d: domains: %s", want.Version, diff)
	}
	agreesOnProfile(t, state.Profile(), want)
	agreesOnFiles(t, state, files, want)
	portionsAgree(t, openLog(t, dir), at, state)
}

// portionsAgree reads less of the checkpoint, which says the same.
func portionsAgree(t *testing.T, log *tables.Log, at twophase.Version, all *tables.State) {
	t.Helper()
	live, err := log.LiveState(t.Context(), at)
	if err != nil {
		t.Fatalf("LiveState: %v", err)
	}
	if !reflect.DeepEqual(live, all) {
		t.Errorf("version %d: LiveState says %+v, and State %+v", at, live, all)
	}
	tail, err := log.Tail(t.Context(), at)
	if err != nil {
		t.Fatalf("Tail: %v", err)
	}
	want, err := log.TailOf(t.Context(), all)
	if err != nil {
		t.Fatalf("TailOf: %v", err)
	}
	if !reflect.DeepEqual(tail, want) {
		t.Errorf("version %d: Tail says %+v, and TailOf the whole state %+v", at, tail, want)
	}
}

func agreesOnProfile(t *testing.T, p *tables.Profile, want *naive) {
	t.Helper()
	protocol, err := object(p.Protocol.Raw)
	if err != nil {
		t.Fatal(err)
	}
	meta, err := object(p.MetaData.Raw)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want.Protocol, protocol); diff != "" {
		t.Errorf("version %d: protocol: %s", want.Version, diff)
	}
	// What a checkpoint leaves out of the metadata is empty.
	if diff := cmp.Diff(withoutEmpty(want.MetaData), withoutEmpty(meta)); diff != "" {
		t.Errorf("version %d: metaData: %s", want.Version, diff)
	}
	parsed := []any{
		p.Protocol.MinReader, p.Protocol.MinWriter, len(p.Protocol.ReaderFeatures), len(p.Protocol.WriterFeatures),
		p.MetaData.ID, p.MetaData.Schema, len(p.MetaData.PartitionColumns), len(p.MetaData.Configuration),
	}
	expected := []any{
		int(whole(want.Protocol["minReaderVersion"])), int(whole(want.Protocol["minWriterVersion"])),
		count(want.Protocol["readerFeatures"]), count(want.Protocol["writerFeatures"]),
		want.MetaData["id"], str(want.MetaData["schemaString"]), count(want.MetaData["partitionColumns"]), count(want.MetaData["configuration"]),
	}
	if diff := cmp.Diff(expected, parsed); diff != "" {
		t.Errorf("version %d: parsed profile: %s", want.Version, diff)
	}
}

func count(v any) int {
	switch v := v.(type) {
	case []any:
		return len(v)
	case map[string]any:
		return len(v)
	}
	return 0
}

func str(v any) string {
	s, _ := v.(string)
	return s
}

func withoutEmpty(m map[string]any) map[string]any {
	m = maps.Clone(m)
	maps.DeleteFunc(m, func(_ string, v any) bool { return v == nil || v == "" })
	return m
}

func agreesOnFiles(t *testing.T, state *tables.State, files []tables.LiveFile, want *naive) {
	t.Helper()
	var got []naiveFile
	live := map[tables.PathHash]bool{}
	for _, f := range files {
		got = append(got, naiveFile{f.Path, f.DV})
		live[tables.HashPath(f.Path)] = true
	}
	if diff := cmp.Diff(want.sortedFiles(), got); diff != "" {
		t.Fatalf("version %d: live files: %s", want.Version, diff)
	}
	for _, f := range files {
		sameAdd(t, want.Version, want.Files[naiveFile{f.Path, f.DV}], f)
	}
	n := 0
	for path := range state.Live() {
		n++
		if !live[path] {
			t.Errorf("version %d: State has a live file that LiveFiles has not", want.Version)
		}
	}
	if n != len(files) || state.NumFiles() != n || state.TotalSize() != want.totalSize() {
		t.Errorf("version %d: State counts %d files of %d bytes and yields %d, want %d of %d",
			want.Version, state.NumFiles(), state.TotalSize(), n, len(files), want.totalSize())
	}
}

// sameAdd compares what identifies and describes a file. dataChange is always
// false in checkpoints, and statistics may be written anew there.
func sameAdd(t *testing.T, version int64, want map[string]any, f tables.LiveFile) {
	t.Helper()
	got, err := object(f.Raw)
	if err != nil {
		t.Fatal(err)
	}
	for _, field := range []string{"path", "partitionValues", "size", "modificationTime", "deletionVector", "tags", "baseRowId"} {
		if diff := cmp.Diff(want[field], got[field]); diff != "" {
			t.Errorf("version %d: %s: %s: %s", version, f.Path, field, diff)
		}
	}
	if f.Size != whole(want["size"]) {
		t.Errorf("version %d: %s: size %d, want %v", version, f.Path, f.Size, want["size"])
	}
	if numRecords(want) != numRecords(got) {
		t.Errorf("version %d: %s: numRecords %v, want %v", version, f.Path, numRecords(got), numRecords(want))
	}
}

func numRecords(add map[string]any) any {
	stats, err := object([]byte(str(add["stats"])))
	if err != nil {
		return nil
	}
	return stats["numRecords"]
}

// TestGoldenCheckpointsAgreeWithJSON replays each table that has a checkpoint
// twice more: from its JSON commits alone, and from the checkpoint with the commits
// up to it gone.
func TestGoldenCheckpointsAgreeWithJSON(t *testing.T) {
	checked := 0
	for _, table := range goldentest.Tables(t) {
		at := checkpointVersions(t, table.Dir)
		if table.MustFail != "" || len(at) == 0 {
			continue
		}
		checked++
		t.Run(table.Name, func(t *testing.T) {
			t.Parallel()
			want, err := naiveReplay(table.Dir, -1)
			if err != nil {
				t.Fatal(err)
			}
			dir := goldentest.Copy(t, table, "")
			removeFiles(t, dir, func(name string) bool { return strings.Contains(name, ".checkpoint.") || name == "_last_checkpoint" })
			agrees(t, dir, tables.Latest, want)

			for _, v := range at {
				dir := goldentest.Copy(t, table, "")
				removeFiles(t, dir, func(name string) bool {
					return len(name) == len("00000000000000000000.json") && name <= fmt.Sprintf("%020d.json", v)
				})
				agrees(t, dir, tables.Latest, want)
				then, err := naiveReplay(table.Dir, v)
				if err != nil {
					t.Fatal(err)
				}
				agrees(t, dir, twophase.Version(v), then)
			}
		})
	}
	if checked < 12 {
		t.Errorf("%d tables have checkpoints, want at least 12", checked)
	}
}

func checkpointVersions(t *testing.T, dir string) (versions []int64) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "_delta_log", "*.checkpoint.*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		var v int64
		if _, err := fmt.Sscanf(filepath.Base(f), "%020d.checkpoint", &v); err == nil && !slices.Contains(versions, v) {
			versions = append(versions, v)
		}
	}
	return versions
}

func removeFiles(t *testing.T, dir string, which func(name string) bool) {
	t.Helper()
	entries, err := os.ReadDir(filepath.Join(dir, "_delta_log"))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if which(e.Name()) {
			if err := os.Remove(filepath.Join(dir, "_delta_log", e.Name())); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// TestGoldenChecksums compares the newest state with Delta's own checksum files.
func TestGoldenChecksums(t *testing.T) {
	checked := 0
	for _, table := range goldentest.Tables(t) {
		files, _ := filepath.Glob(filepath.Join(table.Dir, "_delta_log", "0*.crc"))
		for _, file := range files {
			checked++
			var v int64
			if _, err := fmt.Sscanf(filepath.Base(file), "%020d.crc", &v); err != nil {
				t.Fatal(err)
			}
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			var crc struct {
				NumFiles, TableSizeBytes int64
				Metadata                 struct{ ID, SchemaString string }
				Protocol                 struct{ MinReaderVersion, MinWriterVersion int }
				SetTransactions          []json.RawMessage
				DomainMetadata           []struct{ Domain, Configuration string }
			}
			if err := json.Unmarshal(data, &crc); err != nil {
				t.Fatal(err)
			}
			s, _ := stateOf(t, table.Dir, twophase.Version(v))
			domains := map[string]string{}
			for _, d := range crc.DomainMetadata {
				domains[d.Domain] = d.Configuration
			}
			want := []any{crc.NumFiles, crc.TableSizeBytes, crc.Metadata.ID, crc.Metadata.SchemaString, crc.Protocol.MinReaderVersion, crc.Protocol.MinWriterVersion, len(crc.SetTransactions), domains}
			p := s.Profile()
			got := []any{int64(s.NumFiles()), s.TotalSize(), p.MetaData.ID, p.MetaData.Schema, p.Protocol.MinReader, p.Protocol.MinWriter, len(s.Txns()), s.Domains()}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s: %s: %s", table.Name, filepath.Base(file), diff)
			}
		}
	}
	if checked != 6 {
		t.Errorf("compared %d checksum files, want 6", checked)
	}
}

// failure is what the error of a must-fail table has to say.
type failure struct {
	fault tables.Fault
	file  string
	says  string
}

var failures = map[string]failure{
	goldentest.Gap:          {tables.Gap, "_delta_log/00000000000000000001.json", "version 1 is missing"},
	goldentest.Unsupported:  {tables.Unsupported, "_delta_log/00000000000000000000.json", "minReaderVersion 99"},
	goldentest.NoProtocol:   {tables.NoProtocol, "_delta_log/00000000000000000000.json", "no protocol"},
	goldentest.NoMetaData:   {tables.NoMetaData, "_delta_log/00000000000000000000.json", "no metaData"},
	goldentest.NotADeltaLog: {tables.NotATable, "_delta_log", "not a Delta table"},
}

// failureOf: the two tables with a bad checkpoint differ in what it lacks.
func failureOf(name, why string) failure {
	f, ok := failures[why]
	if ok {
		return f
	}
	const file = "_delta_log/00000000000000000010.checkpoint.parquet"
	if strings.HasSuffix(name, "missing-protocol") {
		return failure{tables.NoProtocol, file, "no protocol"}
	}
	return failure{tables.NoMetaData, file, "no metaData"}
}

func mustFail(t *testing.T, name, dir string, want failure) {
	t.Helper()
	log := openLog(t, dir)
	state, err := log.State(context.Background(), tables.Latest)
	var got *tables.LogError
	if state != nil || !errors.As(err, &got) {
		t.Fatalf("%s: got %v, %v; want a LogError", name, state, err)
	}
	if got.Fault != want.fault || got.File != want.file {
		t.Errorf("%s: got fault %q in file %q, want %q in %q", name, got.Fault, got.File, want.fault, want.file)
	}
	for _, part := range []string{log.URI, want.file, want.says} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%s: error %q does not say %q", name, err, part)
		}
	}
	if files, err := log.LiveFiles(context.Background(), tables.Latest); err == nil {
		t.Errorf("%s: LiveFiles: got %d files and no error", name, len(files))
	}
}

func TestGoldenMustFail(t *testing.T) {
	failed := 0
	for _, table := range goldentest.Tables(t) {
		if table.MustFail != "" {
			failed++
			mustFail(t, table.Name, table.Dir, failureOf(table.Name, table.MustFail))
		}
	}
	for _, a := range goldentest.Archives(t) {
		if a.MustFail != "" {
			failed++
			dir, _ := goldentest.Unpack(t, a)
			mustFail(t, a.Name, dir, failureOf(a.Name, a.MustFail))
		}
	}
	if want := 16; failed != want {
		t.Errorf("%d tables and archives must fail, want %d", failed, want)
	}
}

// TestGoldenFeatures: which tables may be written, and by which feature the
// others are refused.
func TestGoldenFeatures(t *testing.T) {
	refused := map[string]int{}
	writable := 0
	for _, table := range goldentest.Tables(t) {
		if table.MustFail != "" {
			continue
		}
		s, _ := stateOf(t, table.Dir, tables.Latest)
		err := s.Profile().CheckWritable()
		var feature *tables.FeatureError
		switch {
		case table.Writable() && err == nil:
			writable++
		case table.Writable():
			t.Errorf("%s: got %v, want it writable", table.Name, err)
		case !errors.As(err, &feature) || feature.Feature != table.Refused || !strings.Contains(err.Error(), table.Refused):
			t.Errorf("%s: got %v, want it refused for %s", table.Name, err, table.Refused)
		default:
			refused[feature.Feature]++
		}
	}
	want := map[string]int{"collations": 1, "collations-preview": 1}
	if diff := cmp.Diff(want, refused); diff != "" {
		t.Errorf("refused by feature: %s", diff)
	}
	if writable != 99 {
		t.Errorf("%d tables are writable, want 99", writable)
	}
}
