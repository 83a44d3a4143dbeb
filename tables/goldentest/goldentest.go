// Package goldentest finds the golden tables: real Delta tables of public
// projects that lie beside the repository and are not part of it. Tests that need
// them skip where the folder is absent. It is for tests only, and nothing here
// writes to the folder.
package goldentest

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// Env names the variable that says where the golden folder lies; without it, it
// is looked for in ../shared/golden, seen from the repository's root.
const Env = "TXCOORD_GOLDEN"

// Dir is the golden folder. The test is skipped if there is none.
func Dir(t testing.TB) string {
	t.Helper()
	dir := os.Getenv(Env)
	if dir == "" {
		dir = filepath.Join(moduleRoot(t), "..", "shared", "golden")
	}
	if _, err := os.Stat(filepath.Join(dir, tablesDir)); err != nil {
		t.Skipf("golden tables are not here (set %s to their folder): %v", Env, err)
	}
	abs, err := filepath.Abs(dir)
	if err != nil {
		t.Fatalf("golden folder: %v", err)
	}
	return abs
}

var (
	tablesDir   = filepath.Join("delta", "golden-tables")
	archivesDir = filepath.Join("delta-kernel-rs", "golden_data")
)

func moduleRoot(t testing.TB) string {
	dir, err := os.Getwd()
	if err != nil {
		t.Fatalf("working directory: %v", err)
	}
	for ; ; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir
		}
		if dir == filepath.Dir(dir) {
			t.Fatal("no go.mod above the working directory")
		}
	}
}

// Table is a golden table.
type Table struct {
	// Name is its path below golden-tables, with slashes.
	Name string
	// Dir is the table's root.
	Dir string
	// MustFail is why loading its newest version must fail; empty if it must not.
	MustFail string
	// Refused is the feature for which a commit to it must be refused; empty if it
	// may take part in transactions.
	Refused string
}

// Writable says whether the table may take part in transactions.
func (t Table) Writable() bool { return t.MustFail == "" && t.Refused == "" }

// The reasons of Table.MustFail, as the golden README gives them.
const (
	Gap           = "versions 0 and 2, no 1"
	Unsupported   = "minReaderVersion 99"
	NoProtocol    = "no protocol action"
	NoMetaData    = "no metaData action"
	NotADeltaLog  = "no _delta_log"
	BadCheckpoint = "the checkpoint lacks protocol or metaData"
)

var mustFail = map[string]string{
	"versions-not-contiguous":                                        Gap,
	"deltalog-invalid-protocol-version":                              Unsupported,
	"deltalog-state-reconstruction-without-protocol":                 NoProtocol,
	"deltalog-state-reconstruction-without-metadata":                 NoMetaData,
	"deltalog-state-reconstruction-from-checkpoint-missing-protocol": BadCheckpoint,
	"deltalog-state-reconstruction-from-checkpoint-missing-metadata": BadCheckpoint,
	"no-delta-log-folder":                                            NotADeltaLog,
	"data-reader-absolute-paths-escaped-chars":                       NoMetaData,
}

// refused is by the features of their protocols; none of the others has a feature
// that is not on the list of the allowed.
var refused = map[string]string{
	"collations-preview-table": "collations-preview",
	"collations-table":         "collations",
}

// Tables lists the folders with a log, and no-delta-log-folder, by name.
func Tables(t testing.TB) []Table {
	t.Helper()
	root := filepath.Join(Dir(t), tablesDir)
	var all []Table
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return err
		}
		if _, err := os.Stat(filepath.Join(path, "_delta_log")); err == nil || d.Name() == "no-delta-log-folder" {
			all = append(all, table(root, path))
			return fs.SkipDir
		}
		return nil
	})
	if err != nil {
		t.Fatalf("list golden tables: %v", err)
	}
	return all
}

func table(root, path string) Table {
	rel, _ := filepath.Rel(root, path) // path is below root
	name := filepath.ToSlash(rel)
	return Table{Name: name, Dir: path, MustFail: mustFail[name], Refused: refused[name]}
}

// Get returns one golden table.
func Get(t testing.TB, name string) Table {
	t.Helper()
	all := Tables(t)
	i := slices.IndexFunc(all, func(x Table) bool { return x.Name == name })
	if i < 0 {
		t.Fatalf("golden table %s: there is none of that name", name)
	}
	return all[i]
}

// Copy copies the table into a fresh directory below the given one and returns
// the copy's root. An empty dir means the test's own.
func Copy(t testing.TB, from Table, dir string) string {
	t.Helper()
	if dir == "" {
		dir = t.TempDir()
	}
	to := filepath.Join(dir, filepath.Base(from.Dir))
	if err := os.CopyFS(to, os.DirFS(from.Dir)); err != nil {
		t.Fatalf("copy golden table %s: %v", from.Name, err)
	}
	return to
}
