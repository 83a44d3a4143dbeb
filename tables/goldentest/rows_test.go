package goldentest_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"hash/maphash"
	"io/fs"
	"math/big"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/txcoord/txcoord/tables"
	"github.com/txcoord/txcoord/tables/datafile"
	"github.com/txcoord/txcoord/tables/goldentest"
)

// wrongRows are archives whose expected rows the source project itself does not
// hold to be right.
var wrongRows = map[string]string{
	"data-reader-partition-values": "its expected timestamp is off by a zone",
}

// TestArchivesReplay replays each archive at every version like a golden table,
// and where the archive has the rows of the newest version, reads the live data
// files and compares the rows.
func TestArchivesReplay(t *testing.T) {
	compared := make(chan string, 200)
	t.Run("archives", func(t *testing.T) {
		for _, a := range goldentest.Archives(t) {
			if a.MustFail != "" {
				continue
			}
			t.Run(a.Name, func(t *testing.T) {
				t.Parallel()
				dir, expected := goldentest.Unpack(t, a)
				for _, table := range tablesIn(t, dir) {
					replaysAtEveryVersion(t, table)
				}
				if expected != "" && wrongRows[a.Name] == "" {
					sameRows(t, dir, expected)
					compared <- a.Name
				}
			})
		}
	})
	if got, want := len(compared), 70; got != want {
		t.Errorf("compared the rows of %d archives, want %d", got, want)
	}
}

// tablesIn: one archive holds several tables below its folder.
func tablesIn(t *testing.T, dir string) (dirs []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Name() == "_delta_log" {
			dirs = append(dirs, filepath.Dir(path))
			return fs.SkipDir
		}
		return err
	})
	if err != nil || len(dirs) == 0 {
		t.Fatalf("%d tables found, %v", len(dirs), err)
	}
	return dirs
}

func sameRows(t *testing.T, dir, expected string) {
	t.Helper()
	state, files := stateOf(t, dir, tables.Latest)
	schema := parseSchema(t, state.Profile())
	if sameText(t, dir, files, expected) {
		return
	}
	want := expectedRows(t, schema, expected)
	var got []string
	deleted := 0
	for _, f := range files {
		rows := schema.rowsOf(t, dir, f)
		got = append(got, rows...)
		deleted += cardinality(t, f)
	}
	slices.Sort(got)
	if deleted == 0 {
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("rows (-expected +read): %s", diff)
		}
		return
	}
	// Which rows a vector deletes is data that a coordinator never reads.
	if len(got)-deleted != len(want) {
		t.Errorf("%d rows less %d deleted, want %d", len(got), deleted, len(want))
	}
	for _, row := range want {
		if i, found := slices.BinarySearch(got, row); found {
			got = slices.Delete(got, i, i+1)
		} else {
			t.Errorf("row %s is in no live file", row)
		}
	}
}

// sameText is the short way for large tables: the rows are equal as they are
// rendered. Sums of hashes do not depend on the order.
func sameText(t *testing.T, dir string, files []tables.LiveFile, expected string) bool {
	t.Helper()
	var got, want textSum
	for _, f := range files {
		if cardinality(t, f) > 0 {
			return false
		}
		got.add(t, filepath.Join(dir, f.Path))
	}
	for _, path := range parquetFiles(t, expected) {
		want.add(t, path)
	}
	return got == want
}

type textSum struct{ rows, sum uint64 }

var textSeed = maphash.MakeSeed()

func (s *textSum) add(t *testing.T, path string) {
	t.Helper()
	eachRow(t, path, func(line []byte) error {
		s.rows++
		s.sum += maphash.Bytes(textSeed, line)
		return nil
	})
}

func cardinality(t *testing.T, f tables.LiveFile) int {
	t.Helper()
	var add struct{ DeletionVector struct{ Cardinality int } }
	if err := json.Unmarshal(f.Raw, &add); err != nil {
		t.Fatal(err)
	}
	return add.DeletionVector.Cardinality
}

func expectedRows(t *testing.T, s *schema, dir string) (rows []string) {
	t.Helper()
	for _, path := range parquetFiles(t, dir) {
		for _, row := range fileRows(t, path) {
			rows = append(rows, canonical(t, s.typ.convert(row, false)))
		}
	}
	slices.Sort(rows)
	return rows
}

func parquetFiles(t *testing.T, dir string) (paths []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && filepath.Ext(path) == ".parquet" && !strings.HasPrefix(d.Name(), ".") {
			paths = append(paths, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return paths
}

func fileRows(t *testing.T, path string) (rows []map[string]any) {
	t.Helper()
	eachRow(t, path, func(line []byte) error {
		row, err := object(line)
		rows = append(rows, row)
		return err
	})
	return rows
}

func eachRow(t *testing.T, path string, yield func(line []byte) error) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := datafile.Rows(context.Background(), bytes.NewReader(data), int64(len(data)), datafile.Select{}, yield); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
}

func canonical(t *testing.T, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// schema is a table's schema, read with no code of package tables.
type schema struct {
	typ        *dataType
	partitions []string
	mapped     bool
}

type dataType struct {
	name    string
	fields  []schemaField
	element *dataType // of an array, and the value of a map
}

type schemaField struct {
	Name     string
	Type     *dataType
	Metadata map[string]any
}

func (t *dataType) UnmarshalJSON(b []byte) error {
	if b[0] == '"' {
		return json.Unmarshal(b, &t.name)
	}
	var n struct {
		Type                   string
		Fields                 []schemaField
		ElementType, ValueType *dataType
	}
	err := json.Unmarshal(b, &n)
	t.name, t.fields, t.element = n.Type, n.Fields, n.ElementType
	if n.ValueType != nil {
		t.element = n.ValueType
	}
	return err
}

func parseSchema(t *testing.T, p *tables.Profile) *schema {
	t.Helper()
	s := &schema{typ: &dataType{}, partitions: p.MetaData.PartitionColumns}
	s.mapped = p.MetaData.Configuration["delta.columnMapping.mode"] != ""
	if p.MetaData.Schema == "" {
		s.typ.name = "struct"
		return s
	}
	if err := json.Unmarshal([]byte(p.MetaData.Schema), s.typ); err != nil {
		t.Fatal(err)
	}
	return s
}

func (f schemaField) physical(mapped bool) string {
	if name, ok := f.Metadata["delta.columnMapping.physicalName"].(string); ok && mapped {
		return name
	}
	return f.Name
}

// rowsOf reads a live file's rows by the table's names, partition values included.
func (s *schema) rowsOf(t *testing.T, dir string, f tables.LiveFile) (rows []string) {
	t.Helper()
	var add struct{ PartitionValues map[string]*string }
	if err := json.Unmarshal(f.Raw, &add); err != nil {
		t.Fatal(err)
	}
	for _, row := range fileRows(t, filepath.Join(dir, f.Path)) {
		out := s.typ.convert(row, s.mapped).(map[string]any)
		for _, field := range s.typ.fields {
			if !slices.ContainsFunc(s.partitions, func(p string) bool { return strings.EqualFold(p, field.Name) }) {
				continue
			}
			delete(out, field.Name)
			if v := add.PartitionValues[field.physical(s.mapped)]; v != nil && *v != "" {
				out[field.Name] = field.Type.ofText(*v)
			}
		}
		rows = append(rows, canonical(t, out))
	}
	return rows
}

// convert brings a value as datafile renders it into one form: logical names,
// columns that the table has, numbers as fractions, times without spare zeros.
func (t *dataType) convert(v any, mapped bool) any {
	switch v := v.(type) {
	case map[string]any:
		return t.convertObject(v, mapped)
	case []any:
		out := []any{}
		for _, x := range v {
			out = append(out, t.element.convert(x, mapped))
		}
		return out
	case json.Number:
		return fraction(v.String())
	case string:
		return t.ofString(v)
	}
	return v
}

func (t *dataType) convertObject(v map[string]any, mapped bool) any {
	out := map[string]any{}
	if t.name == "map" {
		for k, x := range v {
			out[k] = t.element.convert(x, mapped)
		}
		return out
	}
	for _, f := range t.fields {
		if x, ok := v[f.physical(mapped)]; ok {
			out[f.Name] = f.Type.convert(x, mapped)
		}
	}
	return out
}

func (t *dataType) ofString(v string) any {
	if strings.HasPrefix(t.name, "timestamp") {
		return instant(v)
	}
	return v
}

// ofText is the same for a partition value.
func (t *dataType) ofText(v string) any {
	switch t.name {
	case "string", "date":
		return v
	case "boolean":
		return v == "true"
	case "binary":
		return base64.StdEncoding.EncodeToString([]byte(v))
	case "timestamp", "timestamp_ntz":
		return instant(v)
	}
	return fraction(v)
}

func fraction(v string) any {
	if r, ok := new(big.Rat).SetString(v); ok {
		return r.RatString()
	}
	return v
}

func instant(v string) string {
	for _, layout := range []string{"2006-01-02 15:04:05", "2006-01-02T15:04:05", time.RFC3339} {
		if at, err := time.Parse(layout, v); err == nil {
			return at.UTC().Format(time.RFC3339Nano)
		}
	}
	return fmt.Sprintf("unreadable time %q", v)
}
