package tables_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/txcoord/txcoord/tables"
	"github.com/txcoord/txcoord/twophase"
)

// newSchemas are what delta-rs or DuckDB cannot open (delta-kernel 0.1x: "missing field
// `nullable`", "Unsupported Delta table type", ...), with the column and the remedy.
var newSchemas = map[string]struct{ fields, column, remedy string }{
	"scale above precision": {`{"name":"a","type":"decimal(5,10)","nullable":true,"metadata":{}}`, "a", "precision from 1 to 38"},
	"precision 0":           {`{"name":"a","type":"decimal(0,0)","nullable":true,"metadata":{}}`, "a", "precision from 1 to 38"},
	"precision 39":          {`{"name":"a","type":"decimal(39,1)","nullable":true,"metadata":{}}`, "a", "precision from 1 to 38"},
	"bare decimal":          {`{"name":"a","type":"decimal","nullable":true,"metadata":{}}`, "a", "precision from 1 to 38"},
	"decimal and more":      {`{"name":"a","type":"decimals","nullable":true,"metadata":{}}`, "a", "precision from 1 to 38"},
	"no nullable":           {`{"name":"a","type":"long","metadata":{}}`, "a", `"nullable": true`},
	"null nullable":         {`{"name":"a","type":"long","nullable":null,"metadata":{}}`, "a", `"nullable": true`},
	"no metadata":           {`{"name":"a","type":"long","nullable":true}`, "a", `"metadata": {}`},
	"null metadata":         {`{"name":"a","type":"long","nullable":true,"metadata":null}`, "a", `"metadata": {}`},
	"id without mapping":    {`{"name":"a","type":"long","nullable":true,"metadata":{"delta.columnMapping.id":1}}`, "a", "leave it out"},
	"name without mapping":  {`{"name":"a","type":"long","nullable":true,"metadata":{"delta.columnMapping.physicalName":"x"}}`, "a", "leave it out"},
	"empty struct":          {`{"name":"a","type":{"type":"struct","fields":[]},"nullable":true,"metadata":{}}`, "a", "give it a field"},
	"nested":                {`{"name":"a","type":{"type":"array","containsNull":true,"elementType":{"type":"struct","fields":[{"name":"b","type":"decimal(5,10)","nullable":true,"metadata":{}}]}},"nullable":true,"metadata":{}}`, "a.element.b", "precision"},
	"no containsNull":       {`{"name":"a","type":{"type":"array","elementType":"long"},"nullable":true,"metadata":{}}`, "a", `"containsNull": true`},
	"no valueContainsNull":  {`{"name":"a","type":{"type":"map","keyType":"string","valueType":"long"},"nullable":true,"metadata":{}}`, "a", `"valueContainsNull": true`},
	"half a pair in a name": {`{"name":"a\ud800","type":"long","nullable":true,"metadata":{}}`, `a\ud800`, "whole pair"},
	"half a pair below":     {`{"name":"a","type":"long","nullable":true,"metadata":{"comment":"\udc00"}}`, `\udc00`, "whole pair"},
}

func TestNewSchemasThatEnginesCannotOpen(t *testing.T) {
	for name, c := range newSchemas {
		schema := `{"type":"struct","fields":[{"name":"id","type":"long","nullable":true,"metadata":{}},` + c.fields + `]}`
		_, created := tables.RenderCreate(tables.CreateInput{URI: tableURI, ID: tableID, Schema: schema})
		a, err := tables.ParseActions(tableURI, tables.Limits{}, text(metaOf(schema, nil, "")))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		for field, err := range map[string]error{"schema": created, "metaData.schemaString": tables.Validate(a, plain(t).profile())} {
			in, ok := errors.AsType[*tables.InputError](err)
			if !ok || !strings.HasPrefix(in.Field+" "+in.Reason, field) || !strings.Contains(in.Value+in.Reason, c.column) || !strings.Contains(in.Remedy, c.remedy) || in.Rule != twophase.RuleSchema {
				t.Errorf("%s: %s: got %#v, want column %s, remedy %s", name, field, err, c.column, c.remedy)
			}
		}
	}
}

// TestSchemaOfOthersStays: a metaData that leaves the schema as an older engine wrote it
// is not refused for it, and a change of it writes what was left out.
func TestSchemaOfOthersStays(t *testing.T) {
	const old = `{"type":"struct","fields":[{"name":"id","type":"long"}]}`
	table := newFixture(t).commit(plainProtocol, metaOf(old, nil, ""))
	p := table.profile()
	if err := tables.Validate(table.parse(metaOf(old, nil, `"a":"b"`)), p); err != nil {
		t.Errorf("the same schema: %v", err)
	}
	lines, err := tables.AlterLines(p, &tables.Alteration{AddColumns: []tables.NewColumn{{Name: "n", Type: "INT"}}})
	if err != nil {
		t.Fatal(err)
	}
	if want := `{\"name\":\"id\",\"type\":\"long\",\"nullable\":true,\"metadata\":{}}`; !strings.Contains(string(lines), want) {
		t.Errorf("got %s, want %s in it", lines, want)
	}
	if err := tables.Validate(table.parse(string(lines)), p); err != nil {
		t.Errorf("a column more: %v", err)
	}
}
