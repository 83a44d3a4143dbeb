package datafile_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/google/go-cmp/cmp"

	"github.com/txcoord/txcoord/tables/datafile"
)

type stats struct {
	NumRecords                      int64
	MinValues, MaxValues, NullCount map[string]any
}

func parsedStats(t *testing.T, f datafile.File) (s stats) {
	t.Helper()
	if err := json.Unmarshal([]byte(f.Stats()), &s); err != nil {
		t.Fatalf("stats %s: %v", f.Stats(), err)
	}
	return s
}

var modified = time.UnixMilli(1700000000123)

// orders is a table of three columns, partitioned by the last.
var orders = []datafile.Column{
	{Name: "id", Type: "long"},
	{Name: "total", Type: "decimal(10,2)", Nullable: true},
	{Name: "day", Type: "date", Nullable: true},
}

func newTable(t *testing.T, schema string, partitions []string, config map[string]string) *datafile.Table {
	t.Helper()
	table, err := datafile.NewTable(schema, partitions, config)
	if err != nil {
		t.Fatalf("NewTable: %v", err)
	}
	return table
}

func TestAdd(t *testing.T) {
	_, f := written(t, orders[:2], datafile.WriteOptions{Modified: modified}, []any{1, "9.99"}, []any{2, nil})
	table := newTable(t, datafile.SchemaString(orders), []string{"day"}, nil)
	null := (*string)(nil)
	day := "2024-01-02"
	const stats = `,"dataChange":true,"stats":"{\"numRecords\":2,\"minValues\":{\"id\":1,\"total\":9.99},\"maxValues\":{\"id\":2,\"total\":9.99},\"nullCount\":{\"id\":0,\"total\":1}}"}}`
	tests := []struct {
		name   string
		path   string
		values map[string]*string
		want   string
	}{
		{"value from the path", "day=2024-01-02/a.parquet", nil, `"path":"day=2024-01-02/a.parquet","partitionValues":{"day":"2024-01-02"}`},
		{"null in the path", "day=__HIVE_DEFAULT_PARTITION__/a.parquet", nil, `"path":"day=__HIVE_DEFAULT_PARTITION__/a.parquet","partitionValues":{"day":null}`},
		{"value given", "x/a.parquet", map[string]*string{"day": &day}, `"path":"x/a.parquet","partitionValues":{"day":"2024-01-02"}`},
		{"value given and in the path", "day=2024-01-02/a.parquet", map[string]*string{"day": &day}, `"path":"day=2024-01-02/a.parquet","partitionValues":{"day":"2024-01-02"}`},
		{"null given and in the path", "day=__HIVE_DEFAULT_PARTITION__/a.parquet", map[string]*string{"day": null}, `"path":"day=__HIVE_DEFAULT_PARTITION__/a.parquet","partitionValues":{"day":null}`},
		{
			"path is encoded", "a b/ü%:+#?/day=2024-01-02/[a].parquet", nil,
			`"path":"a%20b/%C3%BC%25%3A+%23%3F/day=2024-01-02/%5Ba%5D.parquet","partitionValues":{"day":"2024-01-02"}`,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			line, err := table.Add(f, tt.path, tt.values)
			if err != nil {
				t.Fatal(err)
			}
			want := `{"add":{` + tt.want + fmt.Sprintf(`,"size":%d,"modificationTime":1700000000123`, f.Size) + stats
			if diff := cmp.Diff(want, string(line)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestAddUnescapesHive: the golden table data-reader-escaped-chars has this pair.
func TestAddUnescapesHive(t *testing.T) {
	table := newTable(t, datafile.SchemaString([]datafile.Column{{Name: "_1", Type: "string", Nullable: true}, {Name: "_2", Type: "string", Nullable: true}}), []string{"_2"}, nil)
	_, f := written(t, []datafile.Column{{Name: "_1", Type: "string", Nullable: true}}, datafile.WriteOptions{Modified: modified}, []any{"foo"})
	line, err := table.Add(f, "_2=bar+%2521/part.parquet", nil)
	if err != nil {
		t.Fatal(err)
	}
	if want := `{"add":{"path":"_2=bar+%252521/part.parquet","partitionValues":{"_2":"bar+%21"},`; !strings.HasPrefix(string(line), want) {
		t.Errorf("got %s, want %s…", line, want)
	}
}

func TestAddRefuses(t *testing.T) {
	long := func(name string) datafile.Column { return datafile.Column{Name: name, Type: "long", Nullable: true} }
	str := func(s string) map[string]*string { return map[string]*string{"p": &s} }
	tests := []struct {
		name        string
		table, file []datafile.Column
		path        string
		values      map[string]*string
		want        string
	}{
		{
			"other type",
			[]datafile.Column{long("a")},
			[]datafile.Column{{Name: "a", Type: "string", Nullable: true}},
			"f", nil,
			"f: column a: is string in the file and long in the table",
		},
		{
			"narrower than it looks",
			[]datafile.Column{{Name: "a", Type: "short", Nullable: true}},
			[]datafile.Column{{Name: "a", Type: "integer", Nullable: true}},
			"f", nil,
			"f: column a: is integer in the file and short in the table",
		},
		{
			"other precision",
			[]datafile.Column{{Name: "a", Type: "decimal(10,2)", Nullable: true}},
			[]datafile.Column{{Name: "a", Type: "decimal(12,2)", Nullable: true}},
			"f", nil,
			"f: column a: is decimal(12,2) in the file and decimal(10,2) in the table",
		},
		{
			"column too many",
			[]datafile.Column{long("a")},
			[]datafile.Column{long("a"), long("b")},
			"f", nil,
			"f: column b: the table has no such column",
		},
		{
			"other case",
			[]datafile.Column{long("Abc")},
			[]datafile.Column{long("abc")},
			"f", nil,
			"f: column abc: the table has no such column, but Abc",
		},
		{
			"twice",
			[]datafile.Column{long("a")},
			[]datafile.Column{long("a"), long("A")},
			"f", nil,
			"f: column A: is there twice",
		},
		{
			"required column missing",
			[]datafile.Column{{Name: "a", Type: "long"}, long("b")},
			[]datafile.Column{long("b")},
			"f", nil,
			"f: column a: is missing, and the table forbids nulls in it",
		},
		{
			"null in required column",
			[]datafile.Column{{Name: "a", Type: "long"}},
			[]datafile.Column{long("a")},
			"f", nil,
			"f: column a: the table forbids nulls in it",
		},
		{
			"no partition value",
			[]datafile.Column{long("a"), long("p")},
			[]datafile.Column{long("a")},
			"f", nil,
			"f: column p: neither the path nor the caller gives its partition value",
		},
		{
			"partition value of other type",
			[]datafile.Column{long("a"), long("p")},
			[]datafile.Column{long("a")},
			"p=x/f", nil,
			`p=x/f: column p: "x" is not a value of type long`,
		},
		{
			"value for no partition column",
			[]datafile.Column{long("a")},
			[]datafile.Column{long("a")},
			"f", str("1"),
			"f: column p: is not a partition column of the table",
		},
		{
			"null partition",
			[]datafile.Column{long("a"), {Name: "p", Type: "long"}},
			[]datafile.Column{long("a")},
			"f", str(""),
			"f: column p: is null, and the table forbids nulls in it",
		},
		{"absolute path", []datafile.Column{long("a")}, []datafile.Column{long("a")}, "/f", nil, "stay below it"},
		{"path that escapes", []datafile.Column{long("a")}, []datafile.Column{long("a")}, "a/../../f", nil, "stay below it"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var parts []string
			for _, c := range tt.table {
				if c.Name == "p" {
					parts = append(parts, "p")
				}
			}
			table := newTable(t, datafile.SchemaString(tt.table), parts, nil)
			_, f := written(t, tt.file, datafile.WriteOptions{Modified: modified}, make([]any, len(tt.file)))
			line, err := table.Add(f, tt.path, tt.values)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Fatalf("got %s, %v; want …%s…", line, err, tt.want)
			}
			var fit *datafile.FitError
			if strings.Contains(tt.want, "column") && (!errors.As(err, &fit) || fit.File != tt.path || fit.Column == "") {
				t.Errorf("got %#v, want a FitError with file and column", err)
			}
		})
	}
}

func TestAddAccepts(t *testing.T) {
	tests := []struct {
		name        string
		table, file datafile.Column
		value       any
	}{
		{"byte as integer", datafile.Column{Name: "a", Type: "integer", Nullable: true}, datafile.Column{Name: "a", Type: "byte"}, 1},
		{"optional without a null as required", datafile.Column{Name: "a", Type: "long"}, datafile.Column{Name: "a", Type: "long", Nullable: true}, 1},
		{"column that the file lacks", datafile.Column{Name: "b", Type: "long", Nullable: true}, datafile.Column{Name: "a", Type: "long"}, 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			columns := []datafile.Column{tt.table}
			if tt.table.Name == "b" {
				columns = append(columns, tt.file)
			}
			_, f := written(t, []datafile.Column{tt.file}, datafile.WriteOptions{Modified: modified}, []any{tt.value})
			if _, err := newTable(t, datafile.SchemaString(columns), nil, nil).Add(f, "f", nil); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestAddNeedsTime(t *testing.T) {
	file, _ := written(t, orders[:1], datafile.WriteOptions{}, []any{1})
	_, err := newTable(t, datafile.SchemaString(orders[:1]), nil, nil).Add(described(t, file), "f", nil)
	if err == nil || !strings.Contains(err.Error(), "modification time") {
		t.Errorf("got %v", err)
	}
}

func TestPartitionValueTypes(t *testing.T) {
	tests := []struct {
		typ       string
		good, bad []string
	}{
		{"byte", []string{"-128"}, []string{"128", "1.0"}},
		{"boolean", []string{"true"}, []string{"1", "TRUE"}},
		{"date", []string{"2024-02-29"}, []string{"2023-02-29", "2024-2-9"}},
		{"timestamp", []string{"2024-02-29 01:02:03", "2024-02-29 01:02:03.123456", "2024-02-29T01:02:03.5Z"}, []string{"2024-02-29", "noon"}},
		{"timestamp_ntz", []string{"2024-02-29 01:02:03.5"}, []string{"2024-02-29T01:02:03Z"}},
		{"decimal(5,2)", []string{"-123.45", "1"}, []string{"1234.5", "0.001", "1e2", "1/2", "x"}},
		{"double", []string{"1e10", "NaN"}, []string{"x"}},
		{"string", []string{"any thing"}, []string{"\xff"}},
	}
	for _, tt := range tests {
		columns := []datafile.Column{{Name: "a", Type: "long"}, {Name: "p", Type: tt.typ}}
		table := newTable(t, datafile.SchemaString(columns), []string{"P"}, nil)
		_, f := written(t, columns[:1], datafile.WriteOptions{Modified: modified}, []any{1})
		for _, v := range append(tt.good, tt.bad...) {
			_, err := table.Add(f, "f", map[string]*string{"p": &v})
			wantGood := !contains(tt.bad, v)
			if (err == nil) != wantGood {
				t.Errorf("%s %q: got %v", tt.typ, v, err)
			}
		}
	}
}

func contains(list []string, v string) bool {
	return strings.Contains("\n"+strings.Join(list, "\n")+"\n", "\n"+v+"\n")
}

const mapped = `{"type":"struct","fields":[
	{"name":"id","type":"long","nullable":true,"metadata":{"delta.columnMapping.id":1,"delta.columnMapping.physicalName":"col-1"}},
	{"name":"at","type":{"type":"struct","fields":[
		{"name":"x","type":"long","nullable":true,"metadata":{"delta.columnMapping.physicalName":"col-3"}}]},
		"nullable":true,"metadata":{"delta.columnMapping.physicalName":"col-2"}},
	{"name":"part","type":"string","nullable":true,"metadata":{"delta.columnMapping.physicalName":"col-4"}}]}`

func TestColumnMapping(t *testing.T) {
	at := func(id, at, x string) *arrow.Schema {
		return arrow.NewSchema([]arrow.Field{
			{Name: id, Type: arrow.PrimitiveTypes.Int64, Nullable: true},
			{Name: at, Type: arrow.StructOf(arrow.Field{Name: x, Type: arrow.PrimitiveTypes.Int64, Nullable: true}), Nullable: true},
		}, nil)
	}
	f := described(t, parquetOf(t, at("col-1", "col-2", "col-3"), []string{`{"col-1":1,"col-2":{"col-3":5}}`, `{"col-1":2,"col-2":null}`}))
	f.Modified = modified
	table := newTable(t, mapped, []string{"part"}, map[string]string{"delta.columnMapping.mode": "name"})
	line, err := table.Add(f, "ab/f", map[string]*string{"part": ptr("x")})
	if err != nil {
		t.Fatal(err)
	}
	want := `{"add":{"path":"ab/f","partitionValues":{"col-4":"x"},"size":` + fmt.Sprint(f.Size) + `,"modificationTime":1700000000123,"dataChange":true,` +
		`"stats":"{\"numRecords\":2,\"minValues\":{\"col-1\":1,\"col-2\":{\"col-3\":5}},\"maxValues\":{\"col-1\":2,\"col-2\":{\"col-3\":5}},\"nullCount\":{\"col-1\":0,\"col-2\":{\"col-3\":1}}}"}}`
	if diff := cmp.Diff(want, string(line)); diff != "" {
		t.Error(diff)
	}

	logical := described(t, parquetOf(t, at("id", "at", "x"), []string{`{"id":1,"at":null}`}))
	logical.Modified = modified
	_, err = table.Add(logical, "col-4=x/f", nil)
	if err == nil || !strings.Contains(err.Error(), "column id: the table has no such column: under column mapping files have to call it col-1") {
		t.Errorf("logical names: got %v", err)
	}
	nested := described(t, parquetOf(t, at("col-1", "col-2", "x"), []string{`{"col-1":1,"col-2":null}`}))
	nested.Modified = modified
	_, err = table.Add(nested, "col-4=x/f", nil)
	if err == nil || !strings.Contains(err.Error(), "column at.x: the table has no such column") {
		t.Errorf("logical name of a nested column: got %v", err)
	}

	plain := newTable(t, mapped, []string{"part"}, nil)
	if _, err := plain.Add(logical, "part=x/f", nil); err != nil {
		t.Errorf("without column mapping: %v", err)
	}
	if _, err := datafile.NewTable(mapped, nil, map[string]string{"delta.columnMapping.mode": "id"}); err == nil {
		t.Error("mode id: got no error")
	}
}

func ptr(s string) *string { return &s }

func TestNestedTypes(t *testing.T) {
	const schema = `{"type":"struct","fields":[
		{"name":"l","type":{"type":"array","elementType":"long","containsNull":%v},"nullable":true,"metadata":{}},
		{"name":"m","type":{"type":"map","keyType":"string","valueType":{"type":"struct","fields":[{"name":"d","type":"%s","nullable":true,"metadata":{}}]},"valueContainsNull":true},"nullable":%v,"metadata":{}}]}`
	arrowSchema := arrow.NewSchema([]arrow.Field{
		{Name: "l", Type: arrow.ListOf(arrow.PrimitiveTypes.Int64), Nullable: true},
		{Name: "m", Type: arrow.MapOf(arrow.BinaryTypes.String, arrow.StructOf(arrow.Field{Name: "d", Type: arrow.FixedWidthTypes.Date32, Nullable: true})), Nullable: true},
	}, nil)
	full := []string{`{"l":[1,2],"m":[{"key":"k","value":{"d":"2024-01-01"}}]}`}
	holes := append(full, `{"l":[null],"m":null}`)
	tests := []struct {
		name         string
		rows         []string
		containsNull bool
		date         string
		nullable     bool
		want         string
	}{
		{"fits", holes, true, "date", true, ""},
		{"no null at all", full, false, "date", false, ""},
		{"null element", holes, false, "date", true, "column l.element: the table forbids nulls"},
		{"null map", holes, true, "date", false, "column m: the table forbids nulls"},
		{"other type inside", full, true, "string", true, "column m.value.d: is date in the file and string in the table"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := described(t, parquetOf(t, arrowSchema, tt.rows))
			f.Modified = modified
			_, err := newTable(t, fmt.Sprintf(schema, tt.containsNull, tt.date, tt.nullable), nil, nil).Add(f, "f", nil)
			if got := fmt.Sprint(err); tt.want == "" && err != nil || !strings.Contains(got, tt.want) {
				t.Errorf("got %v, want …%s…", err, tt.want)
			}
		})
	}
}

func TestStatsColumns(t *testing.T) {
	columns := []datafile.Column{{Name: "a", Type: "long"}, {Name: "b", Type: "long"}, {Name: "c", Type: "long"}}
	_, f := written(t, []datafile.Column{columns[2], columns[1], columns[0]}, datafile.WriteOptions{Modified: modified}, []any{3, 2, 1})
	tests := []struct {
		config map[string]string
		want   string
	}{
		{nil, `{\"a\":0,\"b\":0,\"c\":0}`},
		{map[string]string{"delta.dataSkippingNumIndexedCols": "2"}, `{\"a\":0,\"b\":0}`},
		{map[string]string{"delta.dataSkippingNumIndexedCols": "0"}, `{}`},
		{map[string]string{"delta.dataSkippingNumIndexedCols": "-1"}, `{\"a\":0,\"b\":0,\"c\":0}`},
		{map[string]string{"delta.dataSkippingNumIndexedCols": "0", "delta.dataSkippingStatsColumns": "c, `a`"}, `{\"a\":0,\"c\":0}`},
	}
	for _, tt := range tests {
		line, err := newTable(t, datafile.SchemaString(columns), nil, tt.config).Add(f, "f", nil)
		if err != nil {
			t.Fatal(err)
		}
		if want := `\"nullCount\":` + tt.want + `}"}}`; !strings.HasSuffix(string(line), want) {
			t.Errorf("%v: got %s, want …%s", tt.config, line, want)
		}
	}
}

func TestNewTableRefuses(t *testing.T) {
	tests := []struct{ name, schema, want string }{
		{"no JSON", `{`, "parse schema"},
		{"no struct", `"long"`, "not a struct"},
		{"unknown nested type", `{"type":"struct","fields":[{"name":"a","type":{"type":"union"}}]}`, `"union"`},
		{"field without name", `{"type":"struct","fields":[{"type":"long"}]}`, "lacks its name"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if _, err := datafile.NewTable(tt.schema, nil, nil); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want …%s…", err, tt.want)
			}
		})
	}
	if _, err := datafile.NewTable(datafile.SchemaString(orders), []string{"nope"}, nil); err == nil {
		t.Error("unknown partition column: got no error")
	}
}
