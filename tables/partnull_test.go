package tables_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/txcoord/txcoord/tables"
	"github.com/txcoord/txcoord/twophase"
)

// A partition value of a column that is never null: kernels read the table's files no more
// if one of them has none. Of a column that may be null it is a value like others.
func TestPartitionColumnThatIsNeverNull(t *testing.T) {
	schema := `{"type":"struct","fields":[{"name":"P","type":"string","nullable":false,"metadata":{"delta.columnMapping.id":1,"delta.columnMapping.physicalName":"c1"}},` +
		`{"name":"q","type":"long","nullable":true,"metadata":{"delta.columnMapping.id":2,"delta.columnMapping.physicalName":"c2"}},` +
		`{"name":"v","type":"long","nullable":true,"metadata":{"delta.columnMapping.id":3,"delta.columnMapping.physicalName":"c3"}}]}`
	mapped := strings.NewReplacer(`"c1"`, `"P"`, `"c2"`, `"q"`)
	for name, table := range map[string]struct{ schema, p, q, config string }{
		"by name":   {mapped.Replace(schema), "P", "q", ""},
		"by column": {schema, "c1", "c2", `"delta.columnMapping.mode":"name"`},
	} {
		protocol := plainProtocol
		if table.config != "" {
			protocol = featureProtocol([]string{"columnMapping"}, []string{"columnMapping"})
		}
		p := newFixture(t).commit(protocol, metaOf(table.schema, []string{"P", "q"}, table.config)).profile()
		values := func(pv, qv string) string {
			return `"partitionValues":{"` + table.p + `":` + pv + `,"` + table.q + `":` + qv + `}`
		}
		check := func(line string) error {
			t.Helper()
			good := strings.Replace(addLine("ok"), `"partitionValues":{}`, values(`"x"`, "null"), 1)
			a, err := tables.ParseActions(tableURI, tables.Limits{}, text(good, line))
			if err != nil {
				t.Fatal(err)
			}
			return tables.Validate(a, p)
		}
		for _, null := range []string{"null", `""`} {
			if err := check(strings.Replace(addLine("a"), `"partitionValues":{}`, values(`"y"`, null), 1)); err != nil {
				t.Errorf("%s, %s in a column that may be null: %v", name, null, err)
			}
			in, ok := errors.AsType[*tables.InputError](check(strings.Replace(addLine("a"), `"partitionValues":{}`, values(null, `"1"`), 1)))
			if !ok || in.Line != 2 || in.Field != "add.partitionValues."+table.p || in.Rule != twophase.RuleSchema || in.Remedy == "" {
				t.Errorf("%s, %s: got %#v", name, null, in)
			}
			if err := check(removeLine("a", values(null, `"1"`))); err != nil {
				t.Errorf("%s: a file that is there with %s cannot be removed: %v", name, null, err)
			}
		}
	}
}
