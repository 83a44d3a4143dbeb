package tables_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/txcoord/txcoord/tables"
	"github.com/txcoord/txcoord/twophase"
)

// tracked is a table with row tracking: a.parquet has ids 0 to 9, and the mark is 9.
func tracked(t testing.TB, config string) *fixture {
	return newFixture(t).commit(
		featureProtocol([]string{"deletionVectors"}, []string{"deletionVectors", "rowTracking", "domainMetadata"}),
		metaOf(schemaJSON, nil, `"delta.enableDeletionVectors":"true"`+config), domainOf("delta.rowTracking", `{"rowIdHighWaterMark":9,"new":[1e3]}`),
		addRows("a.parquet", 10, `"baseRowId":0,"defaultRowCommitVersion":0`))
}

func addRows(path string, rows int, more ...string) string {
	return addLine(path, append([]string{fmt.Sprintf(`"stats":"{\"numRecords\":%d}"`, rows)}, more...)...)
}

// rowsOf reads what a version says of row ids: "path base+records@version", in order,
// and the mark.
func rowsOf(t *testing.T, raw []byte) (got []string) {
	t.Helper()
	for line := range strings.Lines(string(raw)) {
		var l map[string]struct {
			Path          string
			BaseRowID     *int64 `json:"baseRowId"`
			Version       *int64 `json:"defaultRowCommitVersion"`
			Domain        string
			Configuration string
		}
		if strings.HasPrefix(line, `{"txn"`) {
			continue
		}
		if err := json.Unmarshal([]byte(line), &l); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		for kind, a := range l {
			switch {
			case a.Path != "" && a.BaseRowID == nil:
				got = append(got, kind+" "+a.Path)
			case a.Path != "":
				got = append(got, fmt.Sprintf("%s %s %d@%d", kind, a.Path, *a.BaseRowID, *a.Version))
			case a.Domain == "delta.rowTracking":
				got = append(got, a.Configuration)
			}
		}
	}
	return got
}

func TestRowTracking(t *testing.T) {
	const ids, gone = `"baseRowId":%d,"defaultRowCommitVersion":%d`, `"rowIdHighWaterMark":%d,"new":[1e3]}`
	mark := func(n int) string { return fmt.Sprintf(`{`+gone, n) }
	withIDs := func(base, version int) string { return fmt.Sprintf(ids, base, version) }
	stats := `"stats":"{\"numRecords\":10}"`
	for name, c := range map[string]struct {
		in   tables.RenderInput
		want []string
	}{
		"new files": {
			blindly(addRows("x", 5), addRows("y", 1), addRows("empty", 0), addRows("z", 3)),
			[]string{"add x 10@1", "add y 15@1", "add empty 16@1", "add z 16@1", mark(18)},
		},
		"nulls and unknown fields": {
			blindly(addRows("x", 5, `"baseRowId":null,"defaultRowCommitVersion" : null,"odd":[{}]`)),
			[]string{"add x 10@1", mark(14)},
		},
		"a blind writer's own ids mean nothing": {
			blindly(addRows("x", 5, withIDs(3, 0))),
			[]string{"add x 10@1", mark(14)},
		},
		"a vector": {
			staged(0, removeLine("a.parquet"), addLine("a.parquet", stats, vector("v"))),
			[]string{"remove a.parquet 0@0", "add a.parquet 0@0"},
		},
		"a removal and a rewritten file": {
			staged(0, removeLine("a.parquet", withIDs(0, 0)), addRows("x", 4)),
			[]string{"remove a.parquet 0@0", "add x 10@1", mark(13)},
		},
		"a file written again": {staged(0, addRows("a.parquet", 10, withIDs(77, 77))), []string{"add a.parquet 0@0"}},
		"ids that the client gave out from the mark that it read": {
			staged(0, addRows("x", 5, withIDs(4, 3)), domainOf("delta.rowTracking", `{"rowIdHighWaterMark":8}`)),
			[]string{"add x 10@1", `{"rowIdHighWaterMark":14,"new":[1e3]}`},
		},
		"some given out, some brought back": {
			staged(7, addRows("new2", 2, withIDs(23, 8)), addRows("back", 5, withIDs(2, 4)), addRows("new1", 3, withIDs(20, 8)), domainOf("delta.rowTracking", `{"rowIdHighWaterMark":24}`)),
			[]string{"add new2 10@1", "add back 2@4", "add new1 12@1", mark(14)},
		},
		"reserved ids":            {staged(0, addRows("x", 5, withIDs(5, 1))), []string{"add x 5@1"}},
		"reserved, not the whole": {staged(0, addRows("x", 6, withIDs(5, 1))), []string{"add x 10@1", mark(15)}},
		"above the mark":          {staged(0, addRows("x", 5, withIDs(50, 1))), []string{"add x 10@1", mark(14)}},
		"several": {
			renderOf(9, tables.RenderTxn{ID: txnID(1), Digests: []twophase.Digest{digestOf(1)}, Pieces: [][]byte{text(addRows("x", 5))}, Blind: true},
				tables.RenderTxn{ID: txnID(2), Digests: []twophase.Digest{digestOf(2)}, Pieces: [][]byte{text(addRows("y", 5))}, Blind: true}),
			[]string{"add x 10@1", "add y 15@1", mark(19)},
		},
		"nothing about files":             {staged(0, txnLine("a", 1)), nil},
		"removal of a file that has none": {staged(0, removeLine("b")), []string{"remove b"}},
	} {
		t.Run(name, func(t *testing.T) {
			f := tracked(t, "")
			out := f.publish(c.in)
			if diff := cmp.Diff(c.want, rowsOf(t, out.Data)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if name == "nulls and unknown fields" && !strings.Contains(string(out.Data), `"baseRowId":10,"defaultRowCommitVersion" : 1,"odd":[{}]`) {
				t.Errorf("bytes: %s", out.Data)
			}
		})
	}
}

// What another engine left as the mark may be no mark at all. What was decided has to be
// published all the same, with ids that no live file has, by every publisher alike.
func TestRowTrackingWithoutMark(t *testing.T) {
	for name, c := range map[string]struct {
		domain string
		want   []string
	}{
		"no object":       {`junk`, []string{"add x 68719476746@2", `{"rowIdHighWaterMark":68719476750}`}},
		"no number":       {`{"rowIdHighWaterMark":"9","new":[1e3]}`, []string{"add x 68719476746@2", `{"rowIdHighWaterMark":68719476750,"new":[1e3]}`}},
		"a fraction":      {`{"rowIdHighWaterMark":1.5}`, []string{"add x 68719476746@2", `{"rowIdHighWaterMark":68719476750}`}},
		"there twice":     {`{"rowIdHighWaterMark":"","rowIdHighWaterMark":9}`, []string{"add x 68719476746@2", `{"rowIdHighWaterMark":68719476750}`}},
		"no mark":         {`{"new":[1e3]}`, []string{"add x 68719476746@2", `{"new":[1e3],"rowIdHighWaterMark":68719476750}`}},
		"below -1":        {`{"rowIdHighWaterMark":-7}`, []string{"add x 68719476746@2", `{"rowIdHighWaterMark":68719476750}`}},
		"nothing left":    {`{"rowIdHighWaterMark":9223372036854775807}`, []string{"add x 68719476746@2", `{"rowIdHighWaterMark":68719476750}`}},
		"as much as goes": {`{"rowIdHighWaterMark":4611686018427387899}`, []string{"add x 4611686018427387900@2", `{"rowIdHighWaterMark":4611686018427387904}`}},
	} {
		t.Run(name, func(t *testing.T) {
			f := tracked(t, "").commit(domainOf("delta.rowTracking", c.domain), addRows("b.parquet", 3, `"baseRowId":10,"defaultRowCommitVersion":1`),
				addRows("absurd", 3, `"baseRowId":9223372036854775800,"defaultRowCommitVersion":1`))
			out := f.publish(blindly(addRows("x", 5)))
			if diff := cmp.Diff(c.want, rowsOf(t, out.Data)); diff != "" {
				t.Fatalf("(-want +got):\n%s", diff)
			}
			if got := rowsOf(t, f.publish(blindly(addRows("y", 1))).Data); !strings.HasPrefix(got[1], c.want[1][:22]) || strings.Contains(got[0], " -") {
				t.Errorf("the next version: %q", got)
			}
		})
	}
}

// Files without rows take no ids. Those that come after them get the first ones, and never any
// above the mark that the log has.
func TestRowTrackingOfEmptyFiles(t *testing.T) {
	const none = `{"rowIdHighWaterMark":-1}`
	unmarked := func() *fixture {
		return newFixture(t).commit(featureProtocol(nil, []string{"rowTracking", "domainMetadata"}), metaOf(schemaJSON, nil, ""))
	}
	f := unmarked()
	for i, c := range []struct {
		rows int
		want []string
	}{
		{0, []string{"add f0 0@1", none}}, {0, []string{"add f1 0@2"}}, {3, []string{"add f2 0@3", `{"rowIdHighWaterMark":2}`}}, {0, []string{"add f3 3@4"}},
	} {
		if diff := cmp.Diff(c.want, rowsOf(t, f.publish(blindly(addRows(fmt.Sprint("f", i), c.rows))).Data)); diff != "" {
			t.Errorf("file %d (-want +got):\n%s", i, diff)
		}
	}

	f = unmarked().commit(addRows("theirs", 0, `"baseRowId":0,"defaultRowCommitVersion":1`)) // raises no mark there either
	want := []string{"add x 68719476736@2", `{"rowIdHighWaterMark":68719476735}`}
	if diff := cmp.Diff(want, rowsOf(t, f.publish(blindly(addRows("x", 0))).Data)); diff != "" {
		t.Errorf("behind another engine's (-want +got):\n%s", diff)
	}
}

// Ids would begin again below zero.
func TestRowTrackingRefusesMoreRowsThanIDs(t *testing.T) {
	for records, ok := range map[int]bool{1 << 36: true, 1<<36 + 1: false, math.MaxInt64: false} {
		_, err := tables.ParseActions(tableURI, tables.Limits{}, text(addRows("x", records)))
		var in *tables.InputError
		if ok != (err == nil) || err != nil && (!errors.As(err, &in) || in.Field != "add.stats") {
			t.Errorf("%d rows: %v", records, err)
		}
	}
}

func TestRowTrackingSuspended(t *testing.T) {
	f := tracked(t, `,"delta.rowTrackingSuspended":"true"`)
	f.parse(addLine("uncounted"))
	out := f.publish(blindly(addRows("x", 5), addRows("y", 5, `"baseRowId":3,"defaultRowCommitVersion":1`)))
	if diff := cmp.Diff([]string{"add x", "add y 3@1"}, rowsOf(t, out.Data)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// A table that begins row tracking gives ids to what is added from then on.
func TestRowTrackingBegins(t *testing.T) {
	f := plain(t)
	out := f.publish(staged(0, featureProtocol(nil, []string{"appendOnly", "invariants", "rowTracking", "domainMetadata"}), addRows("x", 5)))
	want := []string{"add x 0@1", `{"rowIdHighWaterMark":4}`}
	if diff := cmp.Diff(want, rowsOf(t, out.Data)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	// The backfill: a file that has none yet gets some.
	out = f.publish(staged(1, addRows("a.parquet", 2)))
	if diff := cmp.Diff([]string{"add a.parquet 5@2", `{"rowIdHighWaterMark":6}`}, rowsOf(t, out.Data)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// The tag says that no row lost its id, where readers may use ids.
func TestRowTrackingPreserved(t *testing.T) {
	const enabled = `,"delta.enableRowTracking":"true","delta.rowTracking.materializedRowIdColumnName":"r","delta.rowTracking.materializedRowCommitVersionColumnName":"v"`
	tag := func(out tables.Rendered) string {
		_, rest, _ := strings.Cut(string(out.Data), `"delta.rowTracking.preserved":"`)
		value, _, _ := strings.Cut(rest, `"`)
		return value
	}
	for name, c := range map[string]struct {
		table *fixture
		in    tables.RenderInput
		want  string
	}{
		"not enabled":    {tracked(t, ""), blindly(addRows("x", 1)), ""},
		"only adds":      {tracked(t, enabled), blindly(addRows("x", 1)), "true"},
		"the client's":   {tracked(t, enabled), blindly(`{"commitInfo":{"tags":{"delta.rowTracking.preserved":"false"}}}`, addRows("x", 1)), "false"},
		"rewritten":      {tracked(t, enabled), staged(0, removeLine("a.parquet"), addRows("x", 1)), ""},
		"nothing at all": {tracked(t, enabled), staged(0, txnLine("a", 1)), ""},
	} {
		if got := tag(c.table.publish(c.in)); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

func TestRenderCommitRefusesUncountedRows(t *testing.T) {
	f := tracked(t, "")
	in := blindly(addLine("x"))
	if err := f.log.Prepare(t.Context(), f.tail(), &in); err != nil {
		t.Fatal(err)
	}
	if out, err := tables.RenderCommit(in); err == nil {
		t.Errorf("got %s", out.Data)
	}
}

// Rows are counted, or the change conflicts, once a feature counts on it.
func TestUncountedRowsConflict(t *testing.T) {
	begins := featureProtocol(nil, []string{"appendOnly", "invariants", "rowTracking", "domainMetadata"})
	f := plain(t)
	read := at(0, tables.ReadNothing)
	uncounted, counted := f.part(read, addLine("x")), f.part(read, addRows("x", 1))
	winner := f.foreign(begins)
	type judge func(c, w twophase.Facts) *twophase.Conflict
	for name, j := range map[string]judge{
		"conflict": tables.Rules{}.Checker().Conflict, "impossible": tables.Rules{}.Impossible,
		"applied": func(c, w twophase.Facts) *twophase.Conflict {
			v := tables.NewView(f.state())
			if _, err := v.Apply(0, w); err != nil {
				t.Fatal(err)
			}
			return v.Try().Fits(c)
		},
		"whole state": func(c, _ twophase.Facts) *twophase.Conflict {
			return tables.Rules{}.ImpossibleAt([]twophase.Facts{c}, plain(t).commit(begins).state())[0]
		},
	} {
		if got := j(uncounted, winner); ruleOf(got) != twophase.RuleProtocol {
			t.Errorf("%s: got %+v, want protocol", name, got)
		}
		if got := j(counted, winner); got != nil {
			t.Errorf("%s: got %+v for counted rows", name, got)
		}
	}
}
