package checkpoint_test

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"
	"testing"

	parquetfile "github.com/apache/arrow-go/v18/parquet/file"
	"github.com/google/go-cmp/cmp"

	"github.com/txcoord/txcoord/tables"
	"github.com/txcoord/txcoord/tables/checkpoint"
)

// columnsWith describes a table with a schema and properties.
func columnsWith(kind tables.CheckpointKind, schema string, partition []string, config map[string]string) tables.CheckpointColumns {
	return tables.CheckpointColumns{
		Kind:     kind,
		Protocol: &tables.Protocol{MinReader: 3, MinWriter: 7, ReaderFeatures: []string{"deletionVectors"}, WriterFeatures: []string{"deletionVectors"}},
		MetaData: &tables.MetaData{ID: "i", Schema: schema, PartitionColumns: partition, Configuration: config},
	}
}

func written(t testing.TB, c tables.CheckpointColumns, lines ...string) []byte {
	t.Helper()
	var buf bytes.Buffer
	w, err := checkpoint.NewWriter(&buf, c)
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range lines {
		if err := w.Write([]byte(l)); err != nil {
			t.Fatalf("%s: %v", l, err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

// object decodes a line with exact numbers; nulls count as absent.
func object(t testing.TB, line string) any {
	t.Helper()
	d := json.NewDecoder(strings.NewReader(line))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		t.Fatalf("%s: %v", line, err)
	}
	return v
}

func readObjects(t testing.TB, data []byte) (out []any) {
	t.Helper()
	lines, err := read(data)
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range lines {
		out = append(out, object(t, l))
	}
	return out
}

func TestWriteKeepsEveryField(t *testing.T) {
	tests := []struct{ name, line, want string }{
		{"protocol", `{"protocol":{"minReaderVersion":3,"minWriterVersion":7,"readerFeatures":[],"writerFeatures":["a","b"]}}`, ""},
		{"old protocol", `{"protocol":{"minReaderVersion":1,"minWriterVersion":2}}`, ""},
		{
			"metaData", `{"metaData":{"id":"i","name":"n","description":"d\"\\\u00e9\ud83d\ude00","format":{"provider":"parquet","options":{"k":"v"}},` +
				`"schemaString":"{\"type\":\"struct\"}","partitionColumns":["p","q"],"configuration":{"a":"","b":"<&>"},"createdTime":9007199254740993}}`, "",
		},
		{
			"add", `{"add":{"path":"a%20b","partitionValues":{"p":null,"q":"","r":"é"},"size":9223372036854775807,"modificationTime":9007199254740993,"dataChange":true,` +
				`"stats":"{\"numRecords\":1}","tags":{"t":"1","n":null},"deletionVector":{"storageType":"u","pathOrInlineDv":"ab^-aqEH.-t@S}K{vb[*k^","offset":1,"sizeInBytes":34,"cardinality":2},` +
				`"baseRowId":-1,"defaultRowCommitVersion":4,"clusteringProvider":"liquid"}}`, "",
		},
		{
			"explicit nulls", `{"add":{"path":"x","partitionValues":{},"size":1,"modificationTime":2,"dataChange":true,"stats":null,"tags":null,"deletionVector":null,"baseRowId":null}}`,
			`{"add":{"path":"x","partitionValues":{},"size":1,"modificationTime":2,"dataChange":false}}`,
		},
		{"null actions beside", `{"txn":null,"add":{"path":"x"}}`, `{"add":{"path":"x","dataChange":false}}`},
		{"white space", "  { \"txn\" : {\t\"appId\" : \"a\" , \"version\" : 1 }\r } \r", `{"txn":{"appId":"a","version":1}}`},
		{
			"remove", `{"remove":{"path":"x","deletionTimestamp":5,"dataChange":true,"extendedFileMetadata":true,"partitionValues":{"p":"1"},"size":3,"baseRowId":5,"defaultRowCommitVersion":6,` +
				`"deletionVector":{"storageType":"i","pathOrInlineDv":"x","sizeInBytes":1,"cardinality":1}}}`, "",
		},
		{"what removes lose", `{"remove":{"path":"x","dataChange":true,"stats":"{}","tags":{"a":"b"}}}`, `{"remove":{"path":"x","dataChange":false}}`},
		{"what has no column", `{"add":{"path":"x","novel":{"a":[1,{"b":2}]},"dataChange":true}}`, `{"add":{"path":"x","dataChange":false}}`},
		{"tags that are no strings", `{"add":{"path":"x","tags":{"n":1,"b":true,"o":{"x":1}},"dataChange":true}}`, `{"add":{"path":"x","tags":{"n":"1","b":"true","o":"{\"x\":1}"},"dataChange":false}}`},
		{"marker", `{"txn":{"appId":"txcoord/c","version":12}}`, ""},
		{"txn", `{"txn":{"appId":"a","version":-9223372036854775808,"lastUpdated":7}}`, ""},
		{"domain", `{"domainMetadata":{"domain":"d","configuration":"{\"a\":1}","removed":false}}`, ""},
		{"the last of two counts", `{"txn":{"appId":"a","version":1,"version":2}}`, `{"txn":{"appId":"a","version":2}}`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			want := tt.want
			if want == "" {
				want = strings.Replace(tt.line, `"dataChange":true`, `"dataChange":false`, 1)
			}
			got := readObjects(t, written(t, columnsWith(tables.ClassicFile, "", nil, nil), tt.line))
			if diff := cmp.Diff([]any{object(t, want)}, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestWriteOfV2Files(t *testing.T) {
	lines := []string{
		`{"checkpointMetadata":{"version":2,"tags":{"k":"v"}}}`,
		`{"sidecar":{"path":"s.parquet","sizeInBytes":1,"modificationTime":2,"tags":{"a":"b"}}}`,
	}
	got := readObjects(t, written(t, columnsWith(tables.MainFile, "", nil, nil), lines...))
	if diff := cmp.Diff([]any{object(t, lines[0]), object(t, lines[1])}, got); diff != "" {
		t.Error(diff)
	}
	var buf bytes.Buffer
	w, err := checkpoint.NewWriter(&buf, columnsWith(tables.SidecarFile, "", nil, nil))
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Write([]byte(`{"txn":{"appId":"a","version":1}}`)); err == nil || !strings.Contains(err.Error(), `"txn" has no place`) {
		t.Errorf("a txn in a sidecar: got %v", err)
	}
}

func TestWriteRefuses(t *testing.T) {
	tests := []struct{ name, line, want string }{
		{"two actions", `{"txn":{"appId":"a","version":1},"add":{"path":"x"}}`, `"add" has no place`},
		{"no action", `{}`, "holds no action"},
		{"unknown action", `{"novel":{}}`, `"novel" has no place`},
		{"wrong type", `{"txn":{"appId":1,"version":1}}`, "txn: appId: is not a string"},
		{"number past its size", `{"protocol":{"minReaderVersion":2147483648}}`, "protocol: minReaderVersion: 2147483648 is not a 32-bit integer"},
		{"half a surrogate pair", `{"add":{"path":"a\ud800b"}}`, "add: path: is not valid UTF-8"},
		{"the second half alone", `{"add":{"path":"\udc00\ud83d"}}`, "add: path: is not valid UTF-8"},
		{"not UTF-8", "{\"add\":{\"path\":\"\xff\"}}", "add: path: is not valid UTF-8"},
		{"breaks off", `{"add":{"path":"x","tags":{}`, "is not JSON"},
		{"breaks off in a string", `{"add":{"path":"x`, "is not JSON"},
		{"empty", ``, "is not an object"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w, err := checkpoint.NewWriter(&bytes.Buffer{}, columnsWith(tables.ClassicFile, "", nil, nil))
			if err != nil {
				t.Fatal(err)
			}
			if err := w.Write([]byte(tt.line)); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want …%s…", err, tt.want)
			}
		})
	}
}

const typedSchema = `{"type":"struct","fields":[` +
	`{"name":"id","type":"long","nullable":true,"metadata":{"delta.columnMapping.physicalName":"col-id"}},` +
	`{"name":"s","type":"string","nullable":true,"metadata":{}},` +
	`{"name":"d","type":"date","nullable":true,"metadata":{}},` +
	`{"name":"ts","type":"timestamp","nullable":true,"metadata":{}},` +
	`{"name":"tn","type":"timestamp_ntz","nullable":true,"metadata":{}},` +
	`{"name":"dec","type":"decimal(10, 2)","nullable":true,"metadata":{}},` +
	`{"name":"f","type":"double","nullable":true,"metadata":{}},` +
	`{"name":"b","type":"boolean","nullable":true,"metadata":{}},` +
	`{"name":"n","type":{"type":"struct","fields":[{"name":"x","type":"short","nullable":true,"metadata":{}},` +
	`{"name":"l","type":{"type":"array","elementType":"string","containsNull":true},"nullable":true,"metadata":{}}]},"nullable":true,"metadata":{}},` +
	`{"name":"p","type":"integer","nullable":true,"metadata":{}},` +
	`{"name":"day","type":"date","nullable":true,"metadata":{}}]}`

// statsOnly keeps statistics as columns alone, so that what is read back was in them.
func statsOnly(more ...string) map[string]string {
	c := map[string]string{"delta.checkpoint.writeStatsAsJson": "false", "delta.checkpoint.writeStatsAsStruct": "true"}
	for i := 0; i < len(more); i += 2 {
		c[more[i]] = more[i+1]
	}
	return c
}

func addWithStats(stats string) string {
	quoted, _ := json.Marshal(stats) // a string: cannot err
	return `{"add":{"path":"x","partitionValues":{"p":"7","day":"2024-01-02"},"size":1,"modificationTime":2,"dataChange":false,"stats":` + string(quoted) + `}}`
}

func statsOf(t testing.TB, data []byte) any {
	t.Helper()
	add := readObjects(t, data)[0].(map[string]any)["add"].(map[string]any)
	stats, ok := add["stats"].(string)
	if !ok {
		return nil
	}
	return object(t, stats)
}

func TestWriteTypesStats(t *testing.T) {
	mapping := []string{"delta.columnMapping.mode", "name"}
	tests := []struct {
		name, stats, want string
		config            map[string]string
	}{
		{
			"all types",
			`{"numRecords":3,"tightBounds":false,"minValues":{"id":-9007199254740993,"s":"a\"é","d":"2024-01-01","ts":"2024-01-01T00:00:00.500+02:00","tn":"2024-01-01T00:00:00","dec":1.1,"f":1e-7,"n":{"x":-3}},` +
				`"maxValues":{"id":9007199254740993},"nullCount":{"id":1,"b":2,"n":{"x":0,"l":4}}}`,
			`{"numRecords":3,"tightBounds":false,"minValues":{"id":-9007199254740993,"s":"a\"é","d":"2024-01-01","ts":"2023-12-31T22:00:00.500Z","tn":"2024-01-01T00:00:00.000","dec":1.10,"f":1e-07,"n":{"x":-3}},` +
				`"maxValues":{"id":9007199254740993},"nullCount":{"id":1,"b":2,"n":{"x":0,"l":4}}}`,
			statsOnly(),
		},
		{
			"upper bounds of times that were cut are widened", `{"maxValues":{"ts":"2024-01-01T00:00:00.500Z","tn":"2024-01-01 00:00:00.000001"}}`,
			`{"maxValues":{"ts":"2024-01-01T00:00:00.500999Z","tn":"2024-01-01T00:00:00.000001"}}`, statsOnly(),
		},
		{"physical names", `{"minValues":{"id":1,"col-id":2}}`, `{"minValues":{"col-id":2}}`, statsOnly(mapping...)},
		{"partition columns have none", `{"minValues":{"p":1,"id":2}}`, `{"minValues":{"id":2}}`, statsOnly()},
		{
			"what does not fit is left out", `{"numRecords":"x","minValues":{"id":1.5,"d":"yesterday","ts":"2024-01-01T00:00:00","dec":123456789.123,"f":{},"n":3,"s":[]},"maxValues":7,"nullCount":{"id":1}}`,
			`{"minValues":{},"nullCount":{"id":1}}`, statsOnly(),
		},
		{"numbers that are none", `{"minValues":{"f":"-Infinity"},"maxValues":{"f":"NaN"}}`, `{"minValues":{"f":"-Infinity"},"maxValues":{"f":"NaN"}}`, statsOnly()},
		{"exponents", `{"minValues":{"dec":1.5E+2},"maxValues":{"dec":1E999999999}}`, `{"minValues":{"dec":150.00},"maxValues":{}}`, statsOnly()},
		{"no more than so many columns", `{"minValues":{"id":1,"s":"a","d":"2024-01-01"}}`, `{"minValues":{"id":1,"s":"a"}}`, statsOnly("delta.dataSkippingNumIndexedCols", "2")},
		{"all columns", `{"nullCount":{"n":{"l":1}}}`, `{"nullCount":{"n":{"l":1}}}`, statsOnly("delta.dataSkippingNumIndexedCols", "-1")},
		{
			"named columns", `{"minValues":{"id":1,"s":"a","n":{"x":1}},"nullCount":{"n":{"x":1,"l":1}}}`, `{"minValues":{"s":"a","n":{"x":1}},"nullCount":{"n":{"x":1}}}`,
			statsOnly("delta.dataSkippingStatsColumns", "`s`, n.x"),
		},
		{"no JSON", `{"numRecords":`, ``, statsOnly()},
		{"JSON as it came", `{"numRecords":1.0, "own":[1]}`, `{"numRecords":1.0,"own":[1]}`, map[string]string{"delta.checkpoint.writeStatsAsStruct": "true"}},
		{"neither", `{"numRecords":1}`, ``, map[string]string{"delta.checkpoint.writeStatsAsJson": "FALSE"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := statsOf(t, written(t, columnsWith(tables.ClassicFile, typedSchema, []string{"p", "day"}, tt.config), addWithStats(tt.stats)))
			var want any
			if tt.want != "" {
				want = object(t, tt.want)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// leafPaths are the columns of a file.
func leafPaths(t testing.TB, data []byte) map[string]bool {
	t.Helper()
	f, err := parquetfile.NewParquetReader(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	out := map[string]bool{}
	for i := range f.MetaData().Schema.NumColumns() {
		out[f.MetaData().Schema.Column(i).Path()] = true
	}
	return out
}

func TestWriteTypesPartitionValues(t *testing.T) {
	column := func(typ string) string {
		return `{"type":"struct","fields":[{"name":"p","type":"` + typ + `","nullable":true,"metadata":{}},{"name":"id","type":"long","nullable":true,"metadata":{}}]}`
	}
	for typ, there := range map[string]bool{
		"integer": true, "string": true, "date": true, "boolean": true, "decimal(3,1)": true, "timestamp_ntz": true, "double": true,
		"timestamp": false, "binary": false, "variant": false,
	} {
		data := written(t, columnsWith(tables.ClassicFile, column(typ), []string{"P"}, statsOnly()), `{"add":{"path":"x","partitionValues":{"p":"1"}}}`)
		if got := leafPaths(t, data)["add.partitionValues_parsed.p"]; got != there {
			t.Errorf("%s: typed is %v, want %v", typ, got, there)
		}
	}
	plain := leafPaths(t, written(t, columnsWith(tables.ClassicFile, column("integer"), []string{"p"}, nil)))
	if plain["add.partitionValues_parsed.p"] || plain["add.stats_parsed.numRecords"] || !plain["add.stats"] {
		t.Errorf("columns without the property: %v", plain)
	}
}

// TestWriteReadsBackInPieces: many row groups, and what portions leave out.
func TestWriteReadsBackInPieces(t *testing.T) {
	const n = 70_000
	lines := []string{`{"txn":{"appId":"a","version":1}}`}
	for i := range n {
		lines = append(lines, `{"add":{"path":"`+strings.Repeat("x", i%7)+`","deletionVector":{"storageType":"u","pathOrInlineDv":"v","sizeInBytes":1,"cardinality":1},"stats":"{}"}}`)
	}
	data := written(t, columnsWith(tables.ClassicFile, "", nil, nil), lines...)
	count := func(what tables.Portion) (rows int, last string) {
		err := checkpoint.Read(context.Background(), bytes.NewReader(data), int64(len(data)), what, func(line []byte) error {
			rows, last = rows+1, string(line)
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		return rows, last
	}
	if rows, _ := count(tables.AllActions); rows != n+1 {
		t.Errorf("all: %d rows, want %d", rows, n+1)
	}
	if rows, last := count(tables.HeadActions); rows != 1 || last != lines[0] {
		t.Errorf("head: %d rows, the last is %s", rows, last)
	}
	if rows, last := count(tables.FileKeys); rows != n || strings.Contains(last, "stats") || !strings.Contains(last, `"pathOrInlineDv":"v"`) {
		t.Errorf("keys: %d rows, the last is %s", rows, last)
	}
}

func BenchmarkWrite(b *testing.B) {
	line := []byte(`{"add":{"path":"day=2024-01-01/part-00000000-7b1c9a9d.snappy.parquet","partitionValues":{"day":"2024-01-01"},"size":1,"modificationTime":2,"dataChange":true,"stats":"{\"numRecords\":3,\"minValues\":{\"id\":3}}"}}`)
	var buf bytes.Buffer
	w, err := checkpoint.NewWriter(&buf, columnsWith(tables.ClassicFile, "", nil, nil))
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if err := w.Write(line); err != nil {
			b.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		b.Fatal(err)
	}
}
