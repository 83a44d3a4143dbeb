package datafile_test

import (
	"bytes"
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/txcoord/txcoord/tables/datafile"
)

// every has one column of each type that Write knows.
var every = []datafile.Column{
	{Name: "b", Type: "boolean", Nullable: true},
	{Name: "i8", Type: "byte", Nullable: true},
	{Name: "i16", Type: "short", Nullable: true},
	{Name: "i32", Type: "integer", Nullable: true},
	{Name: "i64", Type: "long"},
	{Name: "f32", Type: "float", Nullable: true},
	{Name: "f64", Type: "double", Nullable: true},
	{Name: "s", Type: "string", Nullable: true},
	{Name: "bin", Type: "binary", Nullable: true},
	{Name: "d", Type: "date", Nullable: true},
	{Name: "ts", Type: "timestamp", Nullable: true},
	{Name: "ntz", Type: "timestamp_ntz", Nullable: true},
	{Name: "dec", Type: "decimal(9,2)", Nullable: true},
	{Name: "wide", Type: "decimal(38,10)", Nullable: true},
}

var (
	early = time.Date(1969, 12, 31, 23, 0, 0, 1000, time.FixedZone("", 2*3600))
	late  = time.Date(2024, 2, 29, 12, 30, 0, 123456000, time.UTC)
)

var everyRows = [][]any{
	{true, int8(-128), 7, int32(1), int64(math.MaxInt64), float32(0.5), 1.5, "ü<&>", []byte{0, 255}, early, late, late, "1.50", "-12345678901234567890.0000000001"},
	{nil, nil, nil, nil, 0, nil, nil, nil, nil, nil, nil, nil, nil, nil},
	{false, int8(127), -7, int32(-1), int64(math.MinInt64), float32(-0.5), -1.5, "a", []byte{}, late, early, early, "-2.25", "1"},
}

func written(t *testing.T, columns []datafile.Column, o datafile.WriteOptions, rows ...[]any) ([]byte, datafile.File) {
	t.Helper()
	var buf bytes.Buffer
	f, err := datafile.Write(&buf, columns, o, slices.Values(rows))
	if err != nil {
		t.Fatalf("Write: %v", err)
	}
	return buf.Bytes(), f
}

func described(t *testing.T, file []byte) datafile.File {
	t.Helper()
	f, err := datafile.Describe(context.Background(), bytes.NewReader(file), int64(len(file)))
	if err != nil {
		t.Fatalf("Describe: %v", err)
	}
	return f
}

func TestWriteAndReadBack(t *testing.T) {
	want := []string{
		`{"b":true,"i8":-128,"i16":7,"i32":1,"i64":9223372036854775807,"f32":0.5,"f64":1.5,"s":"ü<&>","bin":"AP8=",` +
			`"d":"1969-12-31","ts":"2024-02-29T12:30:00.123456Z","ntz":"2024-02-29T12:30:00.123456","dec":1.50,"wide":-12345678901234567890.0000000001}`,
		`{"i64":0}`,
		`{"b":false,"i8":127,"i16":-7,"i32":-1,"i64":-9223372036854775808,"f32":-0.5,"f64":-1.5,"s":"a","bin":"",` +
			`"d":"2024-02-29","ts":"1969-12-31T21:00:00.000001Z","ntz":"1969-12-31T21:00:00.000001","dec":-2.25,"wide":1.0000000000}`,
	}
	for _, o := range []datafile.WriteOptions{{}, {Codec: datafile.Zstd}, {Codec: datafile.Uncompressed, GroupRows: 1}, {GroupRows: 2}} {
		file, _ := written(t, every, o, everyRows...)
		got, err := rowsOf(file, datafile.Select{})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%+v: %s", o, diff)
		}
	}
}

func TestStats(t *testing.T) {
	const want = `{"numRecords":3,` +
		`"minValues":{"i8":-128,"i16":-7,"i32":-1,"i64":-9223372036854775808,"f32":-0.5,"f64":-1.5,"s":"a","d":"1969-12-31",` +
		`"ts":"1969-12-31T21:00:00.000Z","ntz":"1969-12-31T21:00:00.000","dec":-2.25,"wide":-12345678901234567890.0000000001},` +
		`"maxValues":{"i8":127,"i16":7,"i32":1,"i64":9223372036854775807,"s":"ü<&>","d":"2024-02-29",` +
		`"ts":"2024-02-29T12:30:00.124Z","ntz":"2024-02-29T12:30:00.124","dec":1.50,"wide":1.0000000000},` +
		`"nullCount":{"b":1,"i8":1,"i16":1,"i32":1,"i64":0,"f32":1,"f64":1,"s":1,"bin":1,"d":1,"ts":1,"ntz":1,"dec":1,"wide":1}}`
	for _, groupRows := range []int{0, 1, 2} {
		file, f := written(t, every, datafile.WriteOptions{GroupRows: groupRows}, everyRows...)
		if diff := cmp.Diff(want, f.Stats()); diff != "" {
			t.Errorf("row groups of %d: %s", groupRows, diff)
		}
		d := described(t, file)
		if d.Stats() != f.Stats() || d.Size != int64(len(file)) || f.Size != d.Size || d.NumRecords != 3 {
			t.Errorf("row groups of %d: Describe says %d bytes, %d rows, %s; Write says %d bytes, %s",
				groupRows, d.Size, d.NumRecords, d.Stats(), f.Size, f.Stats())
		}
	}
}

func TestStatsOfNoRows(t *testing.T) {
	_, f := written(t, every[4:5], datafile.WriteOptions{})
	if got, want := f.Stats(), `{"numRecords":0,"minValues":{},"maxValues":{},"nullCount":{"i64":0}}`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestStatsCutTexts(t *testing.T) {
	tests := []struct {
		name, text, low, high string
	}{
		{"short", strings.Repeat("x", 32), strings.Repeat("x", 32), strings.Repeat("x", 32)},
		{"long", strings.Repeat("x", 33), strings.Repeat("x", 32), strings.Repeat("x", 32) + "\x7f"},
		{"cut before a letter that is not ASCII", strings.Repeat("x", 32) + "ü", strings.Repeat("x", 32), strings.Repeat("x", 32) + "\U0010FFFF"},
		{"cut before DEL", strings.Repeat("x", 32) + "\x7fa", strings.Repeat("x", 32), strings.Repeat("x", 32) + "\U0010FFFF"},
		{"cut before the last character there is", strings.Repeat("x", 32) + "\U0010FFFFab", strings.Repeat("x", 32), strings.Repeat("x", 32) + "\U0010FFFF\x7f"},
		{"wide characters", strings.Repeat("€", 40), strings.Repeat("€", 32), strings.Repeat("€", 32) + "\U0010FFFF"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, f := written(t, []datafile.Column{{Name: "s", Type: "string"}}, datafile.WriteOptions{}, []any{tt.text})
			s := parsedStats(t, f)
			if s.MinValues["s"] != tt.low || s.MaxValues["s"] != tt.high {
				t.Errorf("got %q, %q; want %q, %q", s.MinValues["s"], s.MaxValues["s"], tt.low, tt.high)
			}
			if tt.high < tt.text {
				t.Errorf("upper bound %q is below the text", tt.high)
			}
		})
	}
}

func TestStatsLeaveOut(t *testing.T) {
	farAway := time.Date(12345, 1, 1, 0, 0, 0, 0, time.UTC)
	tests := []struct {
		name   string
		typ    string
		values []any
		want   string
	}{
		{"infinity", "double", []any{1.0, math.Inf(1)}, `{"numRecords":2,"minValues":{},"maxValues":{},"nullCount":{"v":0}}`},
		{"NaN", "double", []any{1.0, math.NaN()}, `{"numRecords":2,"minValues":{"v":1.0},"maxValues":{},"nullCount":{"v":0}}`},
		{"only nulls", "long", []any{nil, nil}, `{"numRecords":2,"minValues":{},"maxValues":{},"nullCount":{"v":2}}`},
		{"years past 9999", "date", []any{late, farAway}, `{"numRecords":2,"minValues":{"v":"2024-02-29"},"maxValues":{},"nullCount":{"v":0}}`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var rows [][]any
			for _, v := range tt.values {
				rows = append(rows, []any{v})
			}
			_, f := written(t, []datafile.Column{{Name: "v", Type: tt.typ, Nullable: true}}, datafile.WriteOptions{}, rows...)
			if diff := cmp.Diff(tt.want, f.Stats()); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestWriteRefuses(t *testing.T) {
	tests := []struct {
		name   string
		column datafile.Column
		row    []any
		want   string
	}{
		{"null", datafile.Column{Name: "v", Type: "long"}, []any{nil}, "row 0: column v: is null"},
		{"other type", datafile.Column{Name: "v", Type: "long"}, []any{"1"}, "column v: 1 (string) is not a value of type long"},
		{"too large", datafile.Column{Name: "v", Type: "byte"}, []any{128}, "128 (int) is not a value of type byte"},
		{"too many digits", datafile.Column{Name: "v", Type: "decimal(4,2)"}, []any{"100"}, "is not a value of type decimal(4,2)"},
		{"too many decimals", datafile.Column{Name: "v", Type: "decimal(4,2)"}, []any{"0.001"}, "is not a value of type decimal(4,2)"},
		{"too few values", datafile.Column{Name: "v", Type: "long"}, []any{}, "row 0: has 0 values for 1 columns"},
		{"unknown type", datafile.Column{Name: "v", Type: "struct"}, []any{1}, `column v: type "struct" cannot be written`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := datafile.Write(&bytes.Buffer{}, []datafile.Column{tt.column}, datafile.WriteOptions{}, slices.Values([][]any{tt.row}))
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want …%s…", err, tt.want)
			}
		})
	}
}

type failing struct{}

var errDisk = errors.New("disk full")

func (failing) Write([]byte) (int, error) { return 0, errDisk }

func TestWriteReportsTheWriter(t *testing.T) {
	_, err := datafile.Write(failing{}, every[4:5], datafile.WriteOptions{}, slices.Values([][]any{{1}}))
	if !errors.Is(err, errDisk) {
		t.Errorf("got %v", err)
	}
}
