package goldentest

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
)

// Archive is a golden table with the rows of its newest version.
type Archive struct {
	Name string
	// File is the archive, a zstd-compressed tar.
	File string
	// MustFail is as in Table.
	MustFail string
}

const archiveSuffix = ".tar.zst"

// Archives lists the archives by name.
func Archives(t testing.TB) []Archive {
	t.Helper()
	dir := filepath.Join(Dir(t), archivesDir)
	files, err := filepath.Glob(filepath.Join(dir, "*"+archiveSuffix))
	if err != nil || len(files) == 0 {
		t.Fatalf("golden archives: none found in %s (%v)", archivesDir, err)
	}
	var all []Archive
	for _, f := range files {
		name := strings.TrimSuffix(filepath.Base(f), archiveSuffix)
		all = append(all, Archive{Name: name, File: f, MustFail: mustFail[name]})
	}
	return all
}

// Unpack unpacks an archive into the test's own directory. table is the root of
// the Delta table, expected the folder of Parquet files with its rows, empty if
// the archive has none. An archive can hold several tables: table is then the
// folder above them.
func Unpack(t testing.TB, a Archive) (table, expected string) {
	t.Helper()
	dir := t.TempDir()
	if err := unpack(a.File, dir); err != nil {
		t.Fatalf("unpack %s: %v", a.Name, err)
	}
	top := onlyEntry(t, dir)
	table, expected = filepath.Join(top, "delta"), filepath.Join(top, "expected")
	if _, err := os.Stat(table); err != nil {
		table = top
	}
	if _, err := os.Stat(expected); err != nil {
		expected = ""
	}
	return table, expected
}

// onlyEntry: an archive has one folder, whose name is the table's in another case at times.
func onlyEntry(t testing.TB, dir string) string {
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 1 {
		t.Fatalf("archive holds %d entries, want one folder (%v)", len(entries), err)
	}
	return filepath.Join(dir, entries[0].Name())
}

func unpack(file, dir string) error {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	z, err := zstd.NewReader(f)
	if err != nil {
		return err
	}
	defer z.Close()
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := extract(r, h, dir); err != nil {
			return fmt.Errorf("%s: %w", h.Name, err)
		}
	}
}

func extract(r io.Reader, h *tar.Header, dir string) error {
	if !filepath.IsLocal(h.Name) {
		return errors.New("leaves the archive")
	}
	path := filepath.Join(dir, h.Name)
	if h.Typeflag != tar.TypeReg {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	data, err := io.ReadAll(r)
	if err != nil {
		return err
	}
	return os.WriteFile(path, data, 0o644)
}
