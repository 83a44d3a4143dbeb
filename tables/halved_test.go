package tables_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/txcoord/txcoord/tables"
)

// TestHalfAPairIsRefused: wherever a client stages one.
func TestHalfAPairIsRefused(t *testing.T) {
	add := func(more string) string { return addLine("a", more) }
	for line, field := range map[string]string{
		strings.Replace(addLine("a"), `"path":"a"`, `"path":"a\ud800b"`, 1):                           "add.path",
		strings.Replace(addLine("a"), `"path":"a"`, `"path":"\udc00\ud800"`, 1):                       "add.path",
		strings.Replace(addLine("a"), `"path":"a"`, `"path":"\ud800\u0041"`, 1):                       "add.path",
		strings.Replace(addLine("a"), `"partitionValues":{}`, `"partitionValues":{"id":"\udc00"}`, 1): "add.partitionValues.id",
		add(`"tags":{"a":"\ud800"}`): "add.tags.a",
		add(`"new":[{"\ud800":1}]`):  "add.new",
		add(`"stats":"{\"numRecords\":1,\"minValues\":{\"id\":\"\ud800\"}}"`):                                  "add.stats",
		add(`"stats":"{\"numRecords\":1,\"minValues\":{\"id\":\"\\ud800\"}}"`):                                 "add.stats.minValues.id",
		`{"txn":{"appId":"a\ud800","version":1}}`:                                                              "txn.appId",
		`{"commitInfo":{"operation":"\ud800"}}`:                                                                "commitInfo.operation",
		`{"metaData":{"id":"x","schemaString":"\ud800","partitionColumns":[],"format":{"provider":"\udfff"}}}`: "metaData.schemaString",
		removeLine("a", `"tags":{"a":"\ud800"}`):                                                               "remove.tags.a",
	} {
		_, err := tables.ParseActions(tableURI, tables.Limits{}, text(line))
		in, ok := errors.AsType[*tables.InputError](err)
		if !ok || in.Line != 1 || in.Field != field || !strings.Contains(in.Reason, "half a surrogate pair") || in.Remedy == "" {
			t.Errorf("%s\ngot %#v, want field %s", line, err, field)
		}
	}
	whole := strings.Replace(addLine("a"), `"path":"a"`, `"path":"\ud83d\ude00"`, 1)
	a, err := tables.ParseActions(tableURI, tables.Limits{}, text(whole))
	if err != nil || a.Adds[0].Path != "😀" {
		t.Errorf("a whole pair: %v, %v", a, err)
	}
}

// TestHalfAPairOfOthers: of what others wrote no two files become one, nor one the file
// whose name has U+FFFD in it.
func TestHalfAPairOfOthers(t *testing.T) {
	named := func(line, path string) string { return strings.Replace(line, `"path":"a"`, `"path":"`+path+`"`, 1) }
	f := plain(t)
	before := f.state().NumFiles()
	f.commit(named(addLine("a"), `x\ud800`), named(addLine("a"), `x\ud801`), named(addLine("a"), "x\ufffd"), named(addLine("a"), `x\udc00\ud800`))
	f.commit(addLine("a", `"tags":{"\ud800":"\ud801","\ud802":"x"}`), `{"commitInfo":{"\ud800":1,"\ud801":2}}`)
	if got := f.state().NumFiles() - before; got != 5 {
		t.Errorf("%d files were added, want 5", got)
	}
	f.commit(named(removeLine("a"), `x\ud801`))
	if got := f.state().NumFiles() - before; got != 4 {
		t.Errorf("%d files are left, want 4", got)
	}
}

func TestCheckJSON(t *testing.T) {
	for text, says := range map[string]string{
		`{"a":1,"a":2}`:                    "a: ",
		`{"t":[{"x":{"a":1,"\u0061":2}}]}`: "t.x.a",
		`{"k":"\ud800"}`:                   "k: \\ud800: has half",
		"{\"k\":\"\xff\"}":                 "UTF-8",
	} {
		if err := tables.CheckJSON([]byte(text)); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: got %v, want %q", text, err, says)
		}
	}
	for _, text := range []string{`{"a":{"a":1},"A":2}`, `{"k":"\ud83d\ude00"}`, `{`, ``, `[] {}`} {
		if err := tables.CheckJSON([]byte(text)); err != nil {
			t.Errorf("%s: %v", text, err)
		}
	}
}
