package checkpoint_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/pqarrow"
	"github.com/google/go-cmp/cmp"

	"github.com/txcoord/txcoord/tables"
	"github.com/txcoord/txcoord/tables/checkpoint"
	"github.com/txcoord/txcoord/tables/goldentest"
)

var rowsFlag = flag.Int("rows", 200_000, "rows of the large checkpoint")

func text(name string) arrow.Field {
	return arrow.Field{Name: name, Type: arrow.BinaryTypes.String, Nullable: true}
}

func long(name string) arrow.Field {
	return arrow.Field{Name: name, Type: arrow.PrimitiveTypes.Int64, Nullable: true}
}

func number(name string) arrow.Field {
	return arrow.Field{Name: name, Type: arrow.PrimitiveTypes.Int32, Nullable: true}
}

func flagged(name string) arrow.Field {
	return arrow.Field{Name: name, Type: arrow.FixedWidthTypes.Boolean, Nullable: true}
}

func group(name string, fields ...arrow.Field) arrow.Field {
	return arrow.Field{Name: name, Type: arrow.StructOf(fields...), Nullable: true}
}

func texts(name string) arrow.Field {
	return arrow.Field{Name: name, Type: arrow.ListOf(arrow.BinaryTypes.String), Nullable: true}
}

func pairs(name string) arrow.Field {
	return arrow.Field{Name: name, Type: arrow.MapOf(arrow.BinaryTypes.String, arrow.BinaryTypes.String), Nullable: true}
}

var (
	vector  = group("deletionVector", text("storageType"), text("pathOrInlineDv"), number("offset"), number("sizeInBytes"), long("cardinality"))
	txn     = group("txn", text("appId"), long("version"), long("lastUpdated"))
	add     = group("add", text("path"), pairs("partitionValues"), long("size"), long("modificationTime"), flagged("dataChange"), text("stats"), pairs("tags"), vector, long("baseRowId"))
	remove  = group("remove", text("path"), long("deletionTimestamp"), flagged("dataChange"), flagged("extendedFileMetadata"), pairs("partitionValues"), long("size"), vector)
	meta    = group("metaData", text("id"), group("format", text("provider"), pairs("options")), text("schemaString"), texts("partitionColumns"), pairs("configuration"), long("createdTime"))
	proto   = group("protocol", number("minReaderVersion"), number("minWriterVersion"), texts("readerFeatures"), texts("writerFeatures"))
	domain  = group("domainMetadata", text("domain"), text("configuration"), flagged("removed"))
	about   = group("checkpointMetadata", long("version"), pairs("tags"))
	sidecar = group("sidecar", text("path"), long("sizeInBytes"), long("modificationTime"), pairs("tags"))
)

// file writes rows, given in Arrow's JSON (maps as lists of pairs), as Parquet.
func file(t testing.TB, columns []arrow.Field, rows ...string) []byte {
	t.Helper()
	return fileWith(t, nil, columns, rows...)
}

func fileWith(t testing.TB, options []parquet.WriterProperty, columns []arrow.Field, rows ...string) []byte {
	t.Helper()
	schema := arrow.NewSchema(columns, nil)
	rec, _, err := array.RecordFromJSON(memory.DefaultAllocator, schema, strings.NewReader("["+strings.Join(rows, ",")+"]"))
	if err != nil {
		t.Fatalf("rows: %v", err)
	}
	var buf bytes.Buffer
	w, err := pqarrow.NewFileWriter(schema, &buf, parquet.NewWriterProperties(options...), pqarrow.NewArrowWriterProperties())
	if err != nil {
		t.Fatalf("writer: %v", err)
	}
	if err := errors.Join(w.Write(rec), w.Close()); err != nil {
		t.Fatalf("write: %v", err)
	}
	return buf.Bytes()
}

func read(data []byte) ([]string, error) {
	var lines []string
	err := checkpoint.Read(context.Background(), bytes.NewReader(data), int64(len(data)), tables.AllActions, func(line []byte) error {
		lines = append(lines, string(line))
		return nil
	})
	return lines, err
}

func TestRead(t *testing.T) {
	all := []arrow.Field{sidecar, domain, remove, add, about, txn, meta, proto}
	tests := []struct {
		name    string
		columns []arrow.Field
		row     string
		want    string
	}{
		{
			"protocol", all,
			`{"protocol":{"minReaderVersion":3,"minWriterVersion":7,"readerFeatures":[],"writerFeatures":["appendOnly","x"]}}`,
			`{"protocol":{"minReaderVersion":3,"minWriterVersion":7,"readerFeatures":[],"writerFeatures":["appendOnly","x"]}}`,
		},
		{
			"nulls are left out", all,
			`{"protocol":{"minReaderVersion":1,"minWriterVersion":2,"readerFeatures":null,"writerFeatures":null}}`,
			`{"protocol":{"minReaderVersion":1,"minWriterVersion":2}}`,
		},
		{
			"metaData", all,
			`{"metaData":{"id":"i","format":{"provider":"parquet","options":[]},"schemaString":"{\"a\":\"\\u003c\"}","partitionColumns":["p"],"configuration":[{"key":"k","value":"v"}],"createdTime":1}}`,
			`{"metaData":{"id":"i","format":{"provider":"parquet","options":{}},"schemaString":"{\"a\":\"\\u003c\"}","partitionColumns":["p"],"configuration":{"k":"v"},"createdTime":1}}`,
		},
		{
			"add with vector, null partition value and large integers", all,
			`{"add":{"path":"a%20b","partitionValues":[{"key":"p","value":null},{"key":"q","value":"é"}],"size":9223372036854775807,"modificationTime":9007199254740993,"dataChange":false,"stats":"{\"numRecords\":1}","tags":null,"deletionVector":{"storageType":"u","pathOrInlineDv":"ab^-aqEH.-t@S}K{vb[*k^","offset":1,"sizeInBytes":34,"cardinality":2},"baseRowId":-1}}`,
			`{"add":{"path":"a%20b","partitionValues":{"p":null,"q":"é"},"size":9223372036854775807,"modificationTime":9007199254740993,"dataChange":false,"stats":"{\"numRecords\":1}","deletionVector":{"storageType":"u","pathOrInlineDv":"ab^-aqEH.-t@S}K{vb[*k^","offset":1,"sizeInBytes":34,"cardinality":2},"baseRowId":-1}}`,
		},
		{
			"remove", all,
			`{"remove":{"path":"x","deletionTimestamp":5,"dataChange":true,"extendedFileMetadata":true,"partitionValues":[],"size":3,"deletionVector":null}}`,
			`{"remove":{"path":"x","deletionTimestamp":5,"dataChange":true,"extendedFileMetadata":true,"partitionValues":{},"size":3}}`,
		},
		{"txn", all, `{"txn":{"appId":"a","version":-9223372036854775808,"lastUpdated":null}}`, `{"txn":{"appId":"a","version":-9223372036854775808}}`},
		{"domain", all, `{"domainMetadata":{"domain":"d","configuration":"{}","removed":false}}`, `{"domainMetadata":{"domain":"d","configuration":"{}","removed":false}}`},
		{"checkpointMetadata", all, `{"checkpointMetadata":{"version":2,"tags":[{"key":"k","value":"v"}]}}`, `{"checkpointMetadata":{"version":2,"tags":{"k":"v"}}}`},
		{"sidecar", all, `{"sidecar":{"path":"s.parquet","sizeInBytes":1,"modificationTime":2}}`, `{"sidecar":{"path":"s.parquet","sizeInBytes":1,"modificationTime":2}}`},
		{"unknown action", append([]arrow.Field{group("novel", text("x")), text("flat")}, txn), `{"novel":{"x":"1"},"flat":"y"}`, ""},
		{"unknown column beside an action", []arrow.Field{group("novel", text("x")), txn}, `{"novel":{"x":"1"},"txn":{"appId":"a","version":1}}`, `{"txn":{"appId":"a","version":1}}`},
		{"unknown field of an action", []arrow.Field{group("txn", text("appId"), long("version"), long("epoch"))}, `{"txn":{"appId":"a","version":1,"epoch":2}}`, `{"txn":{"appId":"a","version":1,"epoch":2}}`},
		{
			"text without its mark",
			[]arrow.Field{group("txn", arrow.Field{Name: "appId", Type: arrow.BinaryTypes.Binary, Nullable: true}, long("version"))},
			`{"txn":{"appId":"YXBw","version":1}}`, `{"txn":{"appId":"app","version":1}}`,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := read(file(t, tt.columns, tt.row))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, strings.Join(got, "\n")); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestStatsAsStruct: with writeStatsAsJson=false only stats_parsed is there.
func TestStatsAsStruct(t *testing.T) {
	bounds := []arrow.Field{
		long("n"), text("s"),
		{Name: "d", Type: arrow.FixedWidthTypes.Date32, Nullable: true},
		{Name: "ts", Type: &arrow.TimestampType{Unit: arrow.Microsecond, TimeZone: "UTC"}, Nullable: true},
		{Name: "dec", Type: &arrow.Decimal128Type{Precision: 10, Scale: 2}, Nullable: true},
		{Name: "f", Type: arrow.PrimitiveTypes.Float64, Nullable: true},
	}
	parsed := group("stats_parsed", long("numRecords"), group("minValues", bounds...), group("nullCount", long("n"), long("s")))
	partition := group("partitionValues_parsed", number("p"))
	const values = `{"numRecords":3,"minValues":{"n":9007199254740993,"s":"a\"b","d":"2024-01-01","ts":"2024-01-01 00:00:00.5Z","dec":"1.10","f":2},"nullCount":{"n":0,"s":null}}`
	const want = `{"add":{"path":"x","partitionValues":{"p":"1"},"stats":"{\"numRecords\":3,\"minValues\":{\"n\":9007199254740993,\"s\":\"a\\\"b\",\"d\":\"2024-01-01\",\"ts\":\"2024-01-01T00:00:00.500Z\",\"dec\":1.10,\"f\":2.0},\"nullCount\":{\"n\":0}}"}}`

	only := []arrow.Field{group("add", text("path"), parsed, pairs("partitionValues"), partition)}
	got, err := read(file(t, only, `{"add":{"path":"x","stats_parsed":`+values+`,"partitionValues":[{"key":"p","value":"1"}],"partitionValues_parsed":{"p":1}}}`))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{want}, got); diff != "" {
		t.Errorf("stats_parsed alone: %s", diff)
	}

	both := []arrow.Field{group("add", text("path"), parsed, text("stats"))}
	got, err = read(file(t, both,
		`{"add":{"path":"x","stats_parsed":{"numRecords":3},"stats":"own"}}`,
		`{"add":{"path":"y","stats_parsed":{"numRecords":4},"stats":null}}`,
		`{"add":{"path":"z","stats_parsed":null,"stats":null}}`))
	if err != nil {
		t.Fatal(err)
	}
	wantBoth := []string{
		`{"add":{"path":"x","stats":"own"}}`,
		`{"add":{"path":"y","stats":"{\"numRecords\":4}"}}`,
		`{"add":{"path":"z"}}`,
	}
	if diff := cmp.Diff(wantBoth, got); diff != "" {
		t.Errorf("stats and stats_parsed: %s", diff)
	}
}

func TestReadRefuses(t *testing.T) {
	tests := []struct {
		name string
		data []byte
		want string
	}{
		{"two actions in a row", file(t, []arrow.Field{txn, add}, `{"txn":null,"add":{"path":"x"}}`, `{"txn":{"appId":"a,]}\""},"add":{"path":"x"}}`), "row 1: holds more than one action"},
		{"no column of an action", file(t, []arrow.Field{text("x")}, `{"x":"1"}`), "none of the columns"},
		{"text that is not UTF-8", file(t, []arrow.Field{group("add", arrow.Field{Name: "path", Type: arrow.BinaryTypes.Binary})}, `{"add":{"path":"/w=="}}`), "column add.path: text is not UTF-8"},
		{"empty", nil, "footer"},
		{"no Parquet", []byte("PAR1 but not really"), "footer"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			lines, err := read(tt.data)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %q, %v; want …%s…", lines, err, tt.want)
			}
		})
	}
}

var errStop = errors.New("enough")

func TestReadStops(t *testing.T) {
	data := file(t, []arrow.Field{txn}, `{"txn":{"appId":"a","version":1}}`)
	stop := func([]byte) error { return errStop }
	if err := checkpoint.Read(context.Background(), bytes.NewReader(data), int64(len(data)), tables.AllActions, stop); !errors.Is(err, errStop) {
		t.Errorf("Read: got %v", err)
	}
	if err := checkpoint.ReadJSON(context.Background(), strings.NewReader("{}\n"), stop); !errors.Is(err, errStop) {
		t.Errorf("ReadJSON: got %v", err)
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(errStop)
	none := func([]byte) error { return nil }
	if err := checkpoint.Read(ctx, bytes.NewReader(data), int64(len(data)), tables.AllActions, none); !errors.Is(err, errStop) {
		t.Errorf("Read, cancelled: got %v", err)
	}
	if err := checkpoint.ReadJSON(ctx, strings.NewReader("{}\n"), none); !errors.Is(err, errStop) {
		t.Errorf("ReadJSON, cancelled: got %v", err)
	}
}

func TestReadJSON(t *testing.T) {
	wide := `{"add":{"path":"` + strings.Repeat("x", 1<<20) + `"}}`
	var got []string
	err := checkpoint.ReadJSON(context.Background(), strings.NewReader("{\"txn\":{}}\r\n\n  \n"+wide), func(line []byte) error {
		got = append(got, string(line))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{`{"txn":{}}`, wide}, got); diff != "" {
		t.Error(diff)
	}
}

// TestMemory: what a large checkpoint takes is bounded by pages, not by rows.
func TestMemory(t *testing.T) {
	data := large(t, *rowsFlag)
	runtime.GC()
	var before, now runtime.MemStats
	runtime.ReadMemStats(&before)
	n, peak := 0, uint64(0)
	err := checkpoint.Read(context.Background(), bytes.NewReader(data), int64(len(data)), tables.AllActions, func([]byte) error {
		if n++; n%20_000 == 0 {
			runtime.GC()
			runtime.ReadMemStats(&now)
			peak = max(peak, now.HeapAlloc)
		}
		return nil
	})
	if err != nil || n != *rowsFlag {
		t.Fatalf("read %d rows of %d: %v", n, *rowsFlag, err)
	}
	const most = 24 << 20
	if used := int64(peak) - int64(before.HeapAlloc); used > most {
		t.Errorf("%d rows, %d bytes: %d bytes of memory in use, want at most %d", n, len(data), used, most)
	}
}

func large(t testing.TB, rows int) []byte {
	t.Helper()
	schema := arrow.NewSchema([]arrow.Field{txn, add, remove}, nil)
	var buf bytes.Buffer
	w, err := pqarrow.NewFileWriter(schema, &buf, parquet.NewWriterProperties(parquet.WithMaxRowGroupLength(int64(rows))), pqarrow.NewArrowWriterProperties())
	if err != nil {
		t.Fatal(err)
	}
	b := array.NewRecordBuilder(memory.DefaultAllocator, schema)
	a := b.Field(1).(*array.StructBuilder)
	for i := range rows {
		b.Field(0).AppendNull()
		b.Field(2).AppendNull()
		a.Append(true)
		a.FieldBuilder(0).(*array.StringBuilder).Append(fmt.Sprintf("day=2024-01-01/part-%08d-7b1c9a9d.snappy.parquet", i))
		m := a.FieldBuilder(1).(*array.MapBuilder)
		m.Append(true)
		m.KeyBuilder().(*array.StringBuilder).Append("day")
		m.ItemBuilder().(*array.StringBuilder).Append("2024-01-01")
		a.FieldBuilder(2).(*array.Int64Builder).Append(int64(i))
		a.FieldBuilder(3).(*array.Int64Builder).Append(int64(i))
		a.FieldBuilder(4).(*array.BooleanBuilder).Append(false)
		a.FieldBuilder(5).(*array.StringBuilder).Append(fmt.Sprintf(`{"numRecords":%d,"minValues":{"id":%d}}`, i, i*7))
		for f := 6; f < a.NumField(); f++ {
			a.FieldBuilder(f).AppendNull()
		}
	}
	rec := b.NewRecordBatch()
	defer rec.Release()
	if err := errors.Join(w.Write(rec), w.Close()); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

func BenchmarkRead(b *testing.B) {
	data := large(b, 100_000)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := read(data); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/100_000, "ns/row")
}

// TestGoldenCheckpointsAreWellFormed: each line of each golden checkpoint and
// sidecar is one JSON object with one known action. What the actions say is
// compared with the JSON commits by the tests of package tables.
func TestGoldenCheckpointsAreWellFormed(t *testing.T) {
	files := 0
	for _, table := range goldentest.Tables(t) {
		log := filepath.Join(table.Dir, "_delta_log")
		paths, _ := filepath.Glob(filepath.Join(log, "*.checkpoint*.parquet"))
		sidecars, _ := filepath.Glob(filepath.Join(log, "_sidecars", "*.parquet"))
		for _, path := range append(paths, sidecars...) {
			data, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			lines, err := read(data)
			if err != nil || len(lines) == 0 {
				t.Errorf("%s: %s: %d lines, %v", table.Name, filepath.Base(path), len(lines), err)
			}
			for _, line := range lines {
				var action map[string]map[string]any
				if err := json.Unmarshal([]byte(line), &action); err != nil || len(action) != 1 {
					t.Errorf("%s: %s: %s: %v", table.Name, filepath.Base(path), line, err)
				}
			}
			files++
		}
	}
	if files < 18 {
		t.Errorf("read %d files, which is fewer than there are", files)
	}
}
