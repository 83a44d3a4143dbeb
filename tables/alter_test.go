package tables_test

import (
	"strings"
	"testing"

	"github.com/txcoord/txcoord/tables"
)

// mappedColumn is a field of a table with column mapping.
func mappedColumn(name, id, physical string) string {
	return `{"name":"` + name + `","type":"long","nullable":true,"metadata":{"delta.columnMapping.id":` + id +
		`,"delta.columnMapping.physicalName":"` + physical + `"}}`
}

func mapped(t testing.TB, columns ...string) *fixture {
	return newFixture(t).commit(`{"protocol":{"minReaderVersion":2,"minWriterVersion":5}}`, mappedMeta("9", columns...))
}

func mappedMeta(highest string, columns ...string) string {
	return metaOf(`{"type":"struct","fields":[`+strings.Join(columns, ",")+`]}`, nil,
		`"delta.columnMapping.mode":"name","delta.columnMapping.maxColumnId":"`+highest+`"`)
}

func alter(t testing.TB, f *fixture, a tables.Alteration) string {
	t.Helper()
	lines, err := tables.AlterLines(f.profile(), &a)
	if err != nil {
		t.Fatal(err)
	}
	actions, err := tables.ParseActions(tableURI, tables.Limits{}, lines)
	if err == nil {
		err = tables.Validate(actions, f.profile())
	}
	if err != nil {
		t.Errorf("%s: %v", lines, err)
	}
	return string(lines)
}

func TestAlterLines(t *testing.T) {
	column := tables.Alteration{AddColumns: []tables.NewColumn{{Name: "n", Type: "map<string, struct<a int, `b c`: decimal(5)>>"}}}
	vectors := tables.Alteration{SetProperties: map[string]string{"delta.enableDeletionVectors": "true"}}
	constraint := tables.Alteration{SetProperties: map[string]string{"delta.constraints.positive": "id > 0"}}
	for name, c := range map[string]struct {
		table  *fixture
		alter  tables.Alteration
		has    []string
		hasNot []string
	}{
		"a nested column": {plain(t), column, []string{
			`\"name\":\"n\",\"type\":{\"type\":\"map\",\"keyType\":\"string\",\"valueType\":{\"type\":\"struct\"`,
			`\"name\":\"b c\",\"type\":\"decimal(5,0)\"`, `"createdTime":1`,
		}, []string{"protocol"}},
		"a feature of an old table":  {plain(t), vectors, []string{`"minReaderVersion":3,"minWriterVersion":7`, `"deletionVectors"`, `"appendOnly"`}, nil},
		"a feature of old protocols": {plain(t), constraint, []string{`"minReaderVersion":1,"minWriterVersion":3}`}, []string{"Features"}},
		"a feature that is there":    {vectored(t), vectors, nil, []string{"protocol"}},
		"a mapped column": {
			mapped(t, mappedColumn("id", "1", "id")),
			tables.Alteration{AddColumns: []tables.NewColumn{{Name: "n", Type: "struct<a: int>"}}},
			[]string{`"delta.columnMapping.maxColumnId":"11"`, `\"delta.columnMapping.id\":10`, `\"delta.columnMapping.id\":11`, `\"delta.columnMapping.physicalName\":\"col-`},
			[]string{"protocol"},
		},
	} {
		got := alter(t, c.table, c.alter)
		for _, part := range c.has {
			if !strings.Contains(got, part) {
				t.Errorf("%s: no %s in %s", name, part, got)
			}
		}
		for _, part := range c.hasNot {
			if strings.Contains(got, part) {
				t.Errorf("%s: %s in %s", name, part, got)
			}
		}
	}
}

// Ids and physical names that a staged metaData gives out.
func TestColumnMappingIsChecked(t *testing.T) {
	first := mappedColumn("id", "1", "c1")
	f := mapped(t, first)
	for name, c := range map[string]struct{ meta, want string }{
		"as it was":          {mappedMeta("9", first), ""},
		"a column":           {mappedMeta("10", first, mappedColumn("x", "10", "c10")), ""},
		"renamed":            {mappedMeta("9", mappedColumn("other", "1", "c1")), ""},
		"no id":              {mappedMeta("9", first, `{"name":"x","type":"long","nullable":true,"metadata":{}}`), "has no id"},
		"no physical name":   {mappedMeta("9", first, `{"name":"x","type":"long","nullable":true,"metadata":{"delta.columnMapping.id":2}}`), "has no physical name"},
		"an id twice":        {mappedMeta("9", first, mappedColumn("x", "1", "c2")), "which another field has"},
		"a name twice":       {mappedMeta("9", first, mappedColumn("x", "2", "c1")), "which another field has"},
		"an id too high":     {mappedMeta("9", first, mappedColumn("x", "10", "c10")), "above delta.columnMapping.maxColumnId"},
		"an id given anew":   {mappedMeta("9", mappedColumn("x", "1", "c2")), "is the id of column c1"},
		"deep in an element": {mappedMeta("9", first, `{"name":"l","type":{"type":"array","elementType":{"type":"struct","fields":[{"name":"a","type":"long","nullable":true,"metadata":{}}]},"containsNull":true},"nullable":true,"metadata":{"delta.columnMapping.id":2,"delta.columnMapping.physicalName":"c2"}}`), "has no id"},
	} {
		a, err := tables.ParseActions(tableURI, tables.Limits{}, text(c.meta))
		if err == nil {
			err = tables.Validate(a, f.profile())
		}
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q", name, err, c.want)
		}
	}
}
