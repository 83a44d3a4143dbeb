package datafile_test

import (
	"bytes"
	"context"
	"encoding/json"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/txcoord/txcoord/tables/datafile"
	"github.com/txcoord/txcoord/tables/goldentest"
)

// TestStatsAgreeWithSpark compares what we make of the footers of the golden
// tables' files with the statistics that Spark computed from their rows.
func TestStatsAgreeWithSpark(t *testing.T) {
	files, values := 0, 0
	for _, table := range goldentest.Tables(t) {
		for path, sparks := range loggedStats(t, table) {
			file, err := os.ReadFile(filepath.Join(table.Dir, path))
			if err != nil {
				continue // removed and vacuumed
			}
			f := described(t, file)
			got := leavesOf(t, f.Stats())
			for name, spark := range leavesOf(t, sparks) {
				ours, ok := got[name]
				if !ok {
					continue
				}
				values++
				if !agree(name, spark, ours) {
					t.Errorf("%s: %s: %s: Spark says %v, we say %v", table.Name, path, name, spark, ours)
				}
			}
			files++
		}
	}
	if files < 200 || values < 1000 {
		t.Errorf("compared %d values of %d files, which is fewer than there are", values, files)
	}
}

// agree allows an upper bound in time to be the next millisecond: Spark cuts it.
func agree(name string, spark, ours any) bool {
	if cmp.Equal(spark, ours) {
		return true
	}
	text, ok := spark.(string)
	if !ok || !strings.HasPrefix(name, "maxValues") {
		return false
	}
	const layout = "2006-01-02T15:04:05.000"
	low, err := time.Parse(layout, strings.TrimSuffix(text, "Z"))
	if err != nil {
		return false
	}
	high, err := time.Parse(layout, strings.TrimSuffix(ours.(string), "Z"))
	return err == nil && high.Equal(low.Add(time.Millisecond))
}

// loggedStats are the statistics in a table's commits, by the decoded path.
func loggedStats(t *testing.T, table goldentest.Table) map[string]string {
	t.Helper()
	out := map[string]string{}
	eachLine(t, table, func(data []byte) {
		var line struct {
			Add *struct{ Path, Stats string }
		}
		if json.Unmarshal(data, &line) != nil || line.Add == nil || line.Add.Stats == "" {
			return
		}
		if path, err := url.PathUnescape(line.Add.Path); err == nil {
			out[path] = line.Add.Stats
		}
	})
	return out
}

// leavesOf flattens statistics to values by dotted name.
func leavesOf(t *testing.T, stats string) map[string]any {
	t.Helper()
	d := json.NewDecoder(strings.NewReader(stats))
	d.UseNumber()
	var v map[string]any
	if err := d.Decode(&v); err != nil {
		t.Fatalf("stats %s: %v", stats, err)
	}
	out := map[string]any{}
	flatten(out, "", v)
	return out
}

func flatten(to map[string]any, at string, v any) {
	switch v := v.(type) {
	case map[string]any:
		for k, x := range v {
			flatten(to, strings.TrimPrefix(at+"."+k, "."), x)
		}
	case json.Number:
		f, _ := v.Float64()
		to[at] = f
	default:
		to[at] = v
	}
}

// TestGoldenFilesFitTheirTables makes the add action of every live-looking file
// from its footer and expects the partition values that the log has.
func TestGoldenFilesFitTheirTables(t *testing.T) {
	adds := 0
	for _, table := range goldentest.Tables(t) {
		schema, partitions, config := lastMetaData(t, table)
		if schema == "" || config["delta.columnMapping.mode"] == "id" || !table.Writable() {
			continue
		}
		dt := newTable(t, schema, partitions, config)
		for path, logged := range partitionsOf(t, table) {
			file, err := os.ReadFile(filepath.Join(table.Dir, path))
			if err != nil {
				continue
			}
			f, err := datafile.Describe(context.Background(), bytes.NewReader(file), int64(len(file)))
			if err != nil {
				t.Errorf("%s: %s: %v", table.Name, path, err)
				continue
			}
			f.Modified = modified
			line, err := dt.Add(f, path, logged)
			if err != nil {
				t.Errorf("%s: %v", table.Name, err)
				continue
			}
			adds++
			var got struct {
				Add struct {
					Path            string
					PartitionValues map[string]*string
				}
			}
			if err := json.Unmarshal(line, &got); err != nil {
				t.Fatalf("%s: %v", line, err)
			}
			if decoded, err := url.PathUnescape(got.Add.Path); err != nil || decoded != path {
				t.Errorf("%s: path %q became %q", table.Name, path, decoded)
			}
			if diff := cmp.Diff(logged, got.Add.PartitionValues); diff != "" && len(logged) > 0 {
				t.Errorf("%s: %s: %s", table.Name, path, diff)
			}
		}
	}
	if adds < 100 {
		t.Errorf("made %d adds, which is fewer than there are files", adds)
	}
}

func lastMetaData(t *testing.T, table goldentest.Table) (schema string, partitions []string, config map[string]string) {
	eachLine(t, table, func(line []byte) {
		var l struct {
			MetaData *struct {
				SchemaString     string
				PartitionColumns []string
				Configuration    map[string]string
			}
		}
		if json.Unmarshal(line, &l) == nil && l.MetaData != nil {
			schema, partitions, config = l.MetaData.SchemaString, l.MetaData.PartitionColumns, l.MetaData.Configuration
		}
	})
	return schema, partitions, config
}

// partitionsOf are the partition values of the adds since the newest metadata.
func partitionsOf(t *testing.T, table goldentest.Table) map[string]map[string]*string {
	out := map[string]map[string]*string{}
	eachLine(t, table, func(line []byte) {
		var l struct {
			Add *struct {
				Path            string
				PartitionValues map[string]*string
			}
			MetaData json.RawMessage
		}
		if json.Unmarshal(line, &l) != nil || l.Add == nil {
			if l.MetaData != nil {
				clear(out)
			}
			return
		}
		if path, err := url.PathUnescape(l.Add.Path); err == nil {
			out[path] = l.Add.PartitionValues
		}
	})
	return out
}

func eachLine(t *testing.T, table goldentest.Table, f func(line []byte)) {
	t.Helper()
	logs, err := filepath.Glob(filepath.Join(table.Dir, "_delta_log", "*.json"))
	if err != nil {
		t.Fatal(err)
	}
	for _, log := range logs {
		data, err := os.ReadFile(log)
		if err != nil {
			t.Fatal(err)
		}
		for line := range bytes.Lines(data) {
			f(line)
		}
	}
}
