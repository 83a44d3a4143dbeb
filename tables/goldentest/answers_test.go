package goldentest_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/txcoord/txcoord/tables"
	"github.com/txcoord/txcoord/tables/goldentest"
	"github.com/txcoord/txcoord/tables/objstore"
	"github.com/txcoord/txcoord/twophase"
)

// TestGoldenAnswers asserts the answers that the golden README states.
func TestGoldenAnswers(t *testing.T) {
	const any = -1
	tests := []struct {
		table   string
		version twophase.Version
		files   int
		paths   []string
	}{
		{"canonicalized-paths-normal-a", 1, 0, nil},
		{"canonicalized-paths-normal-b", 1, 0, nil},
		{"canonicalized-paths-special-a", 1, 0, nil},
		{"canonicalized-paths-special-b", 1, 0, nil},
		{"log-replay-special-characters", any, 0, nil},
		{"log-replay-special-characters-a", any, 0, nil},
		{"log-replay-special-characters-b", any, 1, []string{"special p@#h"}},
		{"delete-re-add-same-file-different-transactions", 3, 2, []string{"bar", "foo"}},
		{"log-replay-dv-key-cases", 3, 1, nil},
		{"deltalog-getChanges", any, 0, nil},
		{"checkpoint", 14, 1, nil},
		{"multi-part-checkpoint", 1, any, nil},
		{"only-checkpoint-files", 2, any, nil},
		{"corrupted-last-checkpoint-kernel", 11, 2, nil},
		{"v2-checkpoint-json", 2, 4, nil},
		{"v2-checkpoint-parquet", 2, 4, nil},
		{"update-deleted-directory", 0, any, nil},
		{"log-replay-latest-metadata-protocol", 2, any, nil},
	}
	for _, tt := range tests {
		t.Run(tt.table, func(t *testing.T) {
			s, files := stateOf(t, goldentest.Get(t, tt.table).Dir, tables.Latest)
			if tt.version != any && s.Version() != tt.version {
				t.Errorf("version %d, want %d", s.Version(), tt.version)
			}
			if tt.files != any && len(files) != tt.files {
				t.Errorf("%d live files, want %d", len(files), tt.files)
			}
			if tt.paths != nil {
				if diff := cmp.Diff(tt.paths, pathsOf(files)); diff != "" {
					t.Error(diff)
				}
			}
		})
	}
}

func pathsOf(files []tables.LiveFile) (paths []string) {
	for _, f := range files {
		paths = append(paths, f.Path)
	}
	return paths
}

func TestGoldenReAddedFile(t *testing.T) {
	_, files := stateOf(t, goldentest.Get(t, "delete-re-add-same-file-different-transactions").Dir, tables.Latest)
	i := slices.IndexFunc(files, func(f tables.LiveFile) bool { return f.Path == "foo" })
	if i < 0 || !strings.Contains(string(files[i].Raw), `"modificationTime":1700000000000`) {
		t.Errorf("live file foo is not the one added last: %s", files[max(i, 0)].Raw)
	}
}

func TestGoldenTxnAndProtocol(t *testing.T) {
	s, _ := stateOf(t, goldentest.Get(t, "deltalog-getChanges").Dir, tables.Latest)
	if v, ok := s.Txn("fakeAppId"); !ok || v != 3 {
		t.Errorf("fakeAppId is at %d, %v; want 3", v, ok)
	}
	s, _ = stateOf(t, goldentest.Get(t, "log-replay-latest-metadata-protocol").Dir, tables.Latest)
	if p := s.Profile().Protocol; p.MinReader != 3 || p.MinWriter != 7 {
		t.Errorf("protocol %d/%d, want 3/7", p.MinReader, p.MinWriter)
	}
}

// TestGoldenEscapedDirectories: a live file's path, decoded once, is the file's
// name on disk.
func TestGoldenEscapedDirectories(t *testing.T) {
	names := []string{"data-reader-escaped-chars", "data-reader-partition-values", "hive/deltatbl-special-chars-in-partition-column"}
	for _, table := range goldentest.Tables(t) {
		if strings.HasPrefix(table.Name, "kernel-timestamp-") || strings.HasPrefix(table.Name, "data-reader-timestamp_ntz") {
			names = append(names, table.Name)
		}
	}
	found := 0
	for _, name := range names {
		table := goldentest.Get(t, name)
		_, files := stateOf(t, table.Dir, tables.Latest)
		for _, f := range files {
			if _, err := os.Stat(filepath.Join(table.Dir, f.Path)); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			found++
		}
	}
	if found < 20 {
		t.Errorf("found %d files, which is fewer than there are", found)
	}

	_, files := stateOf(t, goldentest.Get(t, "data-reader-escaped-chars").Dir, tables.Latest)
	for _, f := range files {
		if strings.HasPrefix(f.Path, "_2=bar+%2521/") && strings.Contains(string(f.Raw), `"partitionValues":{"_2":"bar+%21"}`) {
			return
		}
	}
	t.Errorf("no live file has the path _2=bar+%%2521/… and the value bar+%%21: %q", pathsOf(files))
}

// TestGoldenSpoiledLastCheckpoint spoils the pointer as the source's own test does.
func TestGoldenSpoiledLastCheckpoint(t *testing.T) {
	table := goldentest.Get(t, "corrupted-last-checkpoint")
	want, err := naiveReplay(table.Dir, -1)
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string]string{
		"empty":                 "",
		"torn":                  `{"version":1`,
		"no JSON":               "\x00\xff",
		"version that is not":   `{"version":7,"size":1}`,
		"version to come":       `{"version":99,"size":1}`,
		"negative version":      `{"version":-5}`,
		"parts that are not":    `{"version":10,"size":1,"parts":3}`,
		"version of other type": `{"version":"10"}`,
	} {
		t.Run(name, func(t *testing.T) {
			dir := goldentest.Copy(t, table, "")
			if err := os.WriteFile(filepath.Join(dir, "_delta_log", "_last_checkpoint"), []byte(content), 0o644); err != nil {
				t.Fatal(err)
			}
			agrees(t, dir, tables.Latest, want)
		})
	}
	dir := goldentest.Copy(t, table, "")
	removeFiles(t, dir, func(name string) bool { return name == "_last_checkpoint" })
	agrees(t, dir, tables.Latest, want)
}

// TestGoldenIncompleteCheckpoint: parts of a set that is not whole do not count.
func TestGoldenIncompleteCheckpoint(t *testing.T) {
	table := goldentest.Get(t, "multi-part-checkpoint")
	want, err := naiveReplay(table.Dir, -1)
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{"0000000001.0000000002", "0000000002.0000000002"} {
		dir := goldentest.Copy(t, table, "")
		removeFiles(t, dir, func(name string) bool { return strings.Contains(name, "checkpoint."+part) })
		agrees(t, dir, tables.Latest, want)

		removeFiles(t, dir, func(name string) bool { return strings.HasSuffix(name, "0.json") })
		if _, err := openLog(t, dir).State(context.Background(), tables.Latest); err == nil {
			t.Errorf("without part %s and version 0: got no error", part)
		}
	}
}

// TestGoldenStagedCommits: without the catalog's word a staged file is no commit.
func TestGoldenStagedCommits(t *testing.T) {
	root := goldentest.Dir(t)
	for _, tt := range []struct {
		dir     string
		version twophase.Version
	}{
		{filepath.Join(root, "delta", "catalog-managed", "basic_catalog_managed", "delta"), 1},
		{filepath.Join(root, "delta-kernel-rs", "catalog-managed", "catalog_managed_0"), 0},
	} {
		replaysAtEveryVersion(t, tt.dir)
		s, _ := stateOf(t, tt.dir, tables.Latest)
		if s.Version() != tt.version {
			t.Errorf("%s: version %d, want %d", tt.dir, s.Version(), tt.version)
		}
		var feature *tables.FeatureError
		if err := s.Profile().CheckWritable(); !errors.As(err, &feature) || !strings.HasPrefix(feature.Feature, "catalog") {
			t.Errorf("%s: got %v, want it refused as catalog-managed", tt.dir, err)
		}
	}
}

// TestGoldenNoTables: the folders for listing tests hold no log.
func TestGoldenNoTables(t *testing.T) {
	for _, name := range []string{"log-store-read", "log-store-listFrom"} {
		dir := filepath.Join(goldentest.Dir(t), "delta", "golden-tables", name)
		_, err := openLog(t, dir).State(context.Background(), tables.Latest)
		var fault *tables.LogError
		if !errors.As(err, &fault) || fault.Fault != tables.NotATable {
			t.Errorf("%s: got %v, want that it is not a table", name, err)
		}
		if errors.Is(err, objstore.ErrNotFound) {
			t.Errorf("%s: %v is taken for an answer of the store", name, err)
		}
	}
}
