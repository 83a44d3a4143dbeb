package tables_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/txcoord/txcoord/tables"
)

// What we are the first to write has to be something that engines can read.
func TestDefinitionsThatNoEngineCouldRead(t *testing.T) {
	const schema = `{"type":"struct","fields":[{"name":"id","type":"long","nullable":true,"metadata":{}}]}`
	for _, c := range []struct{ key, value, want string }{
		{"", "x", "no name"},
		{"delta.minReaderVersion", "9", "protocol"},
		{"delta.appendOnly", "maybe", "true or false"},
		{"delta.constraints.c", " ", "says nothing"},
		{"delta.constraints.", "id > 0", "name"},
		{"delta.dataSkippingNumIndexedCols", "-7", "from -1"},
		{"delta.checkpointInterval", "often", "from 1"},
	} {
		_, err := tables.RenderCreate(tables.CreateInput{ID: "x", Schema: schema, Properties: map[string]string{c.key: c.value}})
		var in *tables.InputError
		if !errors.As(err, &in) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s=%s: %v, want %q", c.key, c.value, err, c.want)
		}
	}
	for key, value := range map[string]string{
		"delta.appendOnly": "TRUE", "delta.dataSkippingNumIndexedCols": "-1", "delta.checkpointInterval": "5", "delta.constraints.c": "id > 0", "mine": "",
	} {
		if _, err := tables.RenderCreate(tables.CreateInput{ID: "x", Schema: schema, Properties: map[string]string{key: value}}); err != nil {
			t.Errorf("%s=%s: %v", key, value, err)
		}
	}
	for _, name := range []string{"a,b", "a b", "x=", "a\\tb", "{}"} {
		_, err := tables.RenderCreate(tables.CreateInput{ID: "x", Schema: strings.Replace(schema, `"id"`, `"`+name+`"`, 1)})
		if err == nil || !strings.Contains(err.Error(), "column mapping") {
			t.Errorf("a column %q: %v", name, err)
		}
	}
}
