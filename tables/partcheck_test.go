package tables_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/txcoord/txcoord/tables"
	"github.com/txcoord/txcoord/twophase"
)

// partitionForms were tried with delta-rs 1.x and DuckDB, whose kernel reads the values
// of every file of a table: one that it cannot parse, and the table cannot be read.
var partitionForms = map[string]struct{ good, bad []string }{
	"byte":           {[]string{"-128", "127", "+1", "007"}, []string{"128", "-129", "1.0", "a"}},
	"short":          {[]string{"-32768", "0"}, []string{"32768"}},
	"integer":        {[]string{"2147483647", "-0"}, []string{"2147483648", "1e3"}},
	"long":           {[]string{"9223372036854775807", "-9223372036854775808"}, []string{"abc", " 1", "1 ", "1.5", "9223372036854775808", "1_0", "0x1", "+"}},
	"float":          {[]string{"0.0", "1.0", "1E10", "NaN", "Infinity", "-Infinity"}, []string{"x", "1f"}},
	"double":         {[]string{"1", "1e5", "inf", "-inf", "1e999", ".5", "5.", "+1.0"}, []string{"1d", "0x1p-2", "1_0", " 1", "e5", "."}},
	"boolean":        {[]string{"true", "false", "TRUE", "True"}, []string{"t", "1", "yes", " true"}},
	"date":           {[]string{"2020-02-29", "2020-1-1", "+10000-01-01", "-0044-03-15", "0000-01-01", "1582-10-10"}, []string{"2019-02-29", "2020-13-01", "2020-00-01", "2020-01-00", "20200101", "99999-01-01", "2020-01-01 00:00:00", "yesterday"}},
	"timestamp":      {[]string{"1969-01-01 00:00:00", "2020-01-01 08:09:10.001", "2024-01-01T10:00:00.000000Z", "2020-01-01T01:02:03.123456+01:00", "2020-01-01 01:02:03Z", "2020-01-01 1:2:3"}, []string{"2020-01-01", "2020-01-01T01:02:03", "2020-01-01 01:02", "2020-01-01 24:00:00", "2020-01-01 00:60:00", "2020-02-30 00:00:00", "now"}},
	"timestamp_ntz":  {[]string{"2013-07-05 17:01:00.123456", "2021-11-18 02:30:00"}, []string{"2021-11-18T02:30:00", "2021-11-18T02:30:00Z", "2021-11-18"}},
	"decimal(10,2)":  {[]string{"1.20", "+1.20", "-1.20", ".50", "12345678.99", "00012345678.99"}, []string{"1.2", "1", "1.234", "1E1", "123456789.12", "x", "", "."}},
	"decimal(38,18)": {[]string{"0E-18", "0.000000000000000000"}, []string{"0E-17", "0"}},
	"string":         {[]string{" ", "é", "\u0001"}, nil},
	"binary":         {[]string{"\u0001", "abc"}, nil},
}

func TestPartitionValuesFitTheirColumn(t *testing.T) {
	for kind, c := range partitionForms {
		schema := fmt.Sprintf(`{"type":"struct","fields":[{"name":"p","type":%q,"nullable":true,"metadata":{}},{"name":"v","type":"long","nullable":true,"metadata":{}}]}`, kind)
		protocol := plainProtocol
		if kind == "timestamp_ntz" {
			protocol = featureProtocol([]string{"timestampNtz"}, []string{"timestampNtz"})
		}
		f := newFixture(t).commit(protocol, metaOf(schema, []string{"p"}, ""))
		p := f.profile()
		check := func(line string) error {
			t.Helper()
			a, err := tables.ParseActions(tableURI, tables.Limits{}, text(strings.Replace(addLine("ok"), `"partitionValues":{}`, `"partitionValues":{"p":null}`, 1), line))
			if err != nil {
				t.Fatal(err)
			}
			return tables.Validate(a, p)
		}
		add := func(v string) string {
			return strings.Replace(addLine("a"), `"partitionValues":{}`, `"partitionValues":{"p":`+quote(v)+`}`, 1)
		}
		for _, v := range append(c.good, "") {
			if err := check(add(v)); err != nil {
				t.Errorf("%s %q: %v", kind, v, err)
			}
		}
		for _, v := range c.bad {
			if v == "" {
				continue // null
			}
			in, ok := errors.AsType[*tables.InputError](check(add(v)))
			if !ok || in.Line != 2 || in.Field != "add.partitionValues.p" || in.Value != v || in.Rule != twophase.RuleSchema || in.Remedy == "" {
				t.Errorf("%s %q: got %#v", kind, v, in)
			}
			remove := removeLine("a", `"partitionValues":{"p":`+quote(v)+`}`)
			if err := check(remove); err != nil {
				t.Errorf("a file that is there with %s %q cannot be removed: %v", kind, v, err)
			}
		}
	}
}

func quote(s string) string {
	return `"` + strings.ReplaceAll(s, "\u0001", `\u0001`) + `"`
}
