package datafile_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/pqarrow"
	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/txcoord/txcoord/tables/datafile"
)

// parquetOf writes rows, given as JSON, by Arrow's own writer.
func parquetOf(t require, schema *arrow.Schema, rows []string, opts ...parquet.WriterProperty) []byte {
	t.Helper()
	rec, _, err := array.RecordFromJSON(memory.DefaultAllocator, schema, strings.NewReader("["+strings.Join(rows, ",")+"]"))
	if err != nil {
		t.Fatalf("rows: %v", err)
	}
	var buf bytes.Buffer
	w, err := pqarrow.NewFileWriter(schema, &buf, parquet.NewWriterProperties(opts...), pqarrow.NewArrowWriterProperties())
	if err != nil {
		t.Fatalf("writer: %v", err)
	}
	if err := w.Write(rec); err != nil {
		t.Fatalf("write: %v", err)
	}
	if err := w.Close(); err != nil {
		t.Fatalf("close: %v", err)
	}
	return buf.Bytes()
}

// require is what *testing.T and *rapid.T share here.
type require interface {
	Helper()
	Fatalf(string, ...any)
}

func rowsOf(file []byte, sel datafile.Select) ([]string, error) {
	var rows []string
	err := datafile.Rows(context.Background(), bytes.NewReader(file), int64(len(file)), sel, func(row []byte) error {
		rows = append(rows, string(row))
		return nil
	})
	return rows, err
}

// TestRowsAgreeWithTheirJSON writes random rows of random nested schemas and
// expects to read them back, nulls in structs left out.
func TestRowsAgreeWithTheirJSON(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		root := genStruct(t, 3)
		schema := arrow.NewSchema(root.arrow.(*arrow.StructType).Fields(), nil)
		var want []string
		for range rapid.IntRange(0, 40).Draw(t, "rows") {
			want = append(want, root.value(t))
		}
		file := parquetOf(t, schema, want,
			parquet.WithDataPageSize(int64(rapid.IntRange(1, 300).Draw(t, "page"))),
			parquet.WithBatchSize(3),
			parquet.WithMaxRowGroupLength(int64(rapid.IntRange(1, 50).Draw(t, "group"))),
			parquet.WithDictionaryDefault(rapid.Bool().Draw(t, "dictionary")))
		got, err := rowsOf(file, datafile.Select{})
		if err != nil {
			t.Fatalf("Rows: %v", err)
		}
		if diff := cmp.Diff(decoded(t, want), decoded(t, got)); diff != "" {
			t.Fatalf("rows differ (-want +got):\n%s\nschema %s", diff, schema)
		}
	})
}

// shape is a type with a generator of its values as JSON.
type shape struct {
	arrow arrow.DataType
	value func(*rapid.T) string
}

func genShape(t *rapid.T, depth int) shape {
	if depth > 0 {
		switch rapid.IntRange(0, 5).Draw(t, "nest") {
		case 0:
			return genStruct(t, depth-1)
		case 1:
			return genList(t, depth-1)
		case 2:
			return genMap(t, depth-1)
		}
	}
	if rapid.Bool().Draw(t, "leaf") {
		return shape{arrow.PrimitiveTypes.Int64, func(t *rapid.T) string {
			return fmt.Sprint(rapid.Int64().Draw(t, "int"))
		}}
	}
	return shape{arrow.BinaryTypes.String, func(t *rapid.T) string {
		b, _ := json.Marshal(rapid.String().Draw(t, "text"))
		return string(b)
	}}
}

func genStruct(t *rapid.T, depth int) shape {
	var fields []arrow.Field
	var shapes []shape
	for i := range rapid.IntRange(1, 3).Draw(t, "fields") {
		s := genShape(t, depth)
		shapes = append(shapes, s)
		fields = append(fields, arrow.Field{Name: fmt.Sprint("f", i), Type: s.arrow, Nullable: rapid.Bool().Draw(t, "nullable")})
	}
	return shape{arrow.StructOf(fields...), func(t *rapid.T) string {
		var members []string
		for i, f := range fields {
			if f.Nullable && rapid.Bool().Draw(t, "null") {
				members = append(members, fmt.Sprintf("%q:null", f.Name))
				continue
			}
			members = append(members, fmt.Sprintf("%q:%s", f.Name, shapes[i].value(t)))
		}
		return "{" + strings.Join(members, ",") + "}"
	}}
}

func genList(t *rapid.T, depth int) shape {
	s := genShape(t, depth)
	return shape{arrow.ListOf(s.arrow), func(t *rapid.T) string {
		var elements []string
		for range rapid.IntRange(0, 3).Draw(t, "elements") {
			if rapid.IntRange(0, 3).Draw(t, "null") == 0 {
				elements = append(elements, "null")
				continue
			}
			elements = append(elements, s.value(t))
		}
		return "[" + strings.Join(elements, ",") + "]"
	}}
}

func genMap(t *rapid.T, depth int) shape {
	s := genShape(t, depth)
	return shape{arrow.MapOf(arrow.BinaryTypes.String, s.arrow), func(t *rapid.T) string {
		var pairs []string
		for i := range rapid.IntRange(0, 3).Draw(t, "pairs") {
			v := "null"
			if rapid.Bool().Draw(t, "value") {
				v = s.value(t)
			}
			pairs = append(pairs, fmt.Sprintf(`{"key":"k%d","value":%s}`, i, v))
		}
		return "[" + strings.Join(pairs, ",") + "]"
	}}
}

// decoded brings rows into one form: nulls of objects left out, and maps, which
// Arrow's JSON has as lists of pairs, as objects.
func decoded(t require, rows []string) []any {
	t.Helper()
	var out []any
	for _, r := range rows {
		d := json.NewDecoder(strings.NewReader(r))
		d.UseNumber()
		var v any
		if err := d.Decode(&v); err != nil {
			t.Fatalf("row %s: %v", r, err)
		}
		out = append(out, normal(v))
	}
	return out
}

func normal(v any) any {
	switch v := v.(type) {
	case map[string]any:
		out := map[string]any{}
		for k, x := range v {
			// f0, f1: fields; k0, k1: keys of a map, whose nulls stay.
			if x != nil || strings.HasPrefix(k, "k") {
				out[k] = normal(x)
			}
		}
		return out
	case []any:
		return normalList(v)
	}
	return v
}

func normalList(v []any) any {
	out, pairs := []any{}, map[string]any{}
	for _, x := range v {
		if m, ok := x.(map[string]any); ok {
			if k, ok := m["key"].(string); ok {
				pairs[k] = normal(m["value"])
				continue
			}
		}
		out = append(out, normal(x))
	}
	if len(pairs) > 0 {
		return pairs
	}
	// An empty map and an empty list look alike in Arrow's JSON.
	if len(out) == 0 {
		return map[string]any{}
	}
	return out
}

func TestRowsRenderTypes(t *testing.T) {
	micros := &arrow.TimestampType{Unit: arrow.Microsecond, TimeZone: "UTC"}
	tests := []struct {
		name string
		typ  arrow.DataType
		in   string
		want string
	}{
		{"large integer", arrow.PrimitiveTypes.Int64, "9223372036854775807", "9223372036854775807"},
		{"small integer", arrow.PrimitiveTypes.Int64, "-9223372036854775808", "-9223372036854775808"},
		{"unsigned", arrow.PrimitiveTypes.Uint64, "18446744073709551615", "18446744073709551615"},
		{"byte", arrow.PrimitiveTypes.Int8, "-128", "-128"},
		{"boolean", arrow.FixedWidthTypes.Boolean, "true", "true"},
		{"whole double", arrow.PrimitiveTypes.Float64, "3", "3.0"},
		{"large double", arrow.PrimitiveTypes.Float64, "1e300", "1e+300"},
		{"float", arrow.PrimitiveTypes.Float32, "0.1", "0.1"},
		{"text with controls", arrow.BinaryTypes.String, `"<a&b>\u0001\n\"\\é"`, `"<a&b>\u0001\n\"\\é"`},
		{"binary", arrow.BinaryTypes.Binary, `"AP8="`, `"AP8="`},
		{"date", arrow.FixedWidthTypes.Date32, `"1969-12-31"`, `"1969-12-31"`},
		{"timestamp", micros, `"2024-02-29T01:02:03.000004Z"`, `"2024-02-29T01:02:03.000004Z"`},
		{"timestamp of whole ms", micros, `"1024-02-29T01:02:03.100Z"`, `"1024-02-29T01:02:03.100Z"`},
		{"timestamp without zone", &arrow.TimestampType{Unit: arrow.Microsecond}, `"2024-02-29T01:02:03"`, `"2024-02-29T01:02:03.000"`},
		{"decimal", &arrow.Decimal128Type{Precision: 38, Scale: 4}, `"-0.0012"`, "-0.0012"},
		{"wide decimal", &arrow.Decimal128Type{Precision: 38, Scale: 0}, `"12345678901234567890123456789012345678"`, "12345678901234567890123456789012345678"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			schema := arrow.NewSchema([]arrow.Field{{Name: "v", Type: tt.typ}}, nil)
			got, err := rowsOf(parquetOf(t, schema, []string{`{"v":` + tt.in + `}`}), datafile.Select{})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff([]string{`{"v":` + tt.want + `}`}, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestRowsSelect(t *testing.T) {
	schema := arrow.NewSchema([]arrow.Field{
		{Name: "a", Type: arrow.StructOf(
			arrow.Field{Name: "s_parsed", Type: arrow.StructOf(arrow.Field{Name: "n", Type: arrow.PrimitiveTypes.Int64, Nullable: true}), Nullable: true},
			arrow.Field{Name: "s", Type: arrow.BinaryTypes.String, Nullable: true},
			arrow.Field{Name: "x", Type: arrow.PrimitiveTypes.Int64, Nullable: true},
		), Nullable: true},
		{Name: "b", Type: arrow.PrimitiveTypes.Int64, Nullable: true},
	}, nil)
	file := parquetOf(t, schema, []string{
		`{"a":{"s_parsed":{"n":1},"s":"own","x":1},"b":1}`,
		`{"a":{"s_parsed":{"n":2},"s":null,"x":2},"b":2}`,
		`{"a":{"s_parsed":null,"s":null,"x":3},"b":3}`,
		`{"a":null,"b":4}`,
	})
	got, err := rowsOf(file, datafile.Select{
		Keep: func(path string) bool { return path != "b" && path != "a.x" },
		Text: map[string]string{"a.s_parsed": "s"},
	})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{`{"a":{"s":"own"}}`, `{"a":{"s":"{\"n\":2}"}}`, `{"a":{}}`, `{}`}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestRowsStop(t *testing.T) {
	schema := arrow.NewSchema([]arrow.Field{{Name: "v", Type: arrow.PrimitiveTypes.Int64}}, nil)
	file := parquetOf(t, schema, []string{`{"v":1}`, `{"v":2}`})
	stop := errors.New("enough")
	err := datafile.Rows(context.Background(), bytes.NewReader(file), int64(len(file)), datafile.Select{}, func([]byte) error { return stop })
	if !errors.Is(err, stop) {
		t.Errorf("yield's error: got %v", err)
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(stop)
	err = datafile.Rows(ctx, bytes.NewReader(file), int64(len(file)), datafile.Select{}, func([]byte) error { return nil })
	if !errors.Is(err, stop) {
		t.Errorf("cancelled: got %v", err)
	}
	if _, err := rowsOf(file, datafile.Select{Keep: func(string) bool { return false }}); err == nil {
		t.Error("no column: got no error")
	}
}

// TestDamagedFiles cuts and changes a file everywhere. Whatever that does to the
// content, it must end in rows or an error.
func TestDamagedFiles(t *testing.T) {
	schema := arrow.NewSchema([]arrow.Field{
		{Name: "l", Type: arrow.ListOf(arrow.BinaryTypes.String), Nullable: true},
		{Name: "v", Type: arrow.PrimitiveTypes.Int64, Nullable: true},
	}, nil)
	file := parquetOf(t, schema, []string{`{"l":["a","b"],"v":1}`, `{"l":null,"v":null}`, `{"l":[],"v":3}`})
	for i := range file {
		if _, err := rowsOf(file[:i], datafile.Select{}); err == nil {
			t.Fatalf("cut at %d: got no error", i)
		}
		for _, bit := range []byte{1, 0x80, 0xff} {
			bad := bytes.Clone(file)
			bad[i] ^= bit
			_, _ = rowsOf(bad, datafile.Select{})
			_, _ = datafile.Describe(context.Background(), bytes.NewReader(bad), int64(len(bad)))
		}
	}
}
