package coordinator_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/txcoord/txcoord/coordinator"
	"github.com/txcoord/txcoord/tables"
	"github.com/txcoord/txcoord/twophase"
)

func altering(table string, a tables.Alteration, actions ...[]byte) coordinator.OnceTable {
	return coordinator.OnceTable{Table: table, Alter: &a, Actions: lines(actions...)}
}

// columns are a table's as Describe has them, each with its type.
func (w *world) columns(table string) map[string]string {
	w.t.Helper()
	d, err := w.catalog.Describe(w.ctx(), table)
	if err != nil {
		w.t.Fatal(err)
	}
	var s struct {
		Fields []struct {
			Name string
			Type json.RawMessage
		}
	}
	if err := json.Unmarshal([]byte(d.State.Profile.MetaData.Schema), &s); err != nil {
		w.t.Fatal(err)
	}
	out := map[string]string{}
	for _, f := range s.Fields {
		out[f.Name] = string(f.Type)
	}
	return out
}

// A column, properties and rows of two tables change together; the table's name,
// description and creation stay as they were.
func TestAlterInATransaction(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.createWith(coordinator.CreateRequest{Name: "a", Schema: schema, Mode: twophase.ModeOpen, Description: "what it is", Properties: map[string]string{"x": "1", "y": "2"}})
	w.create("b", twophase.ModeOpen)
	o := w.commit("k",
		altering("a", tables.Alteration{
			AddColumns:      []tables.NewColumn{{Name: "c", Type: "DECIMAL(10, 2)", Comment: "it's new"}, {Name: "d", Type: "struct<p: int, q: array<string>>"}},
			SetProperties:   map[string]string{"delta.enableChangeDataFeed": "true", "x": "3"},
			UnsetProperties: []string{"y"},
		}, add("1")),
		blind("b", "1"))
	if d := cmp.Diff(map[string]twophase.Version{"a": 1, "b": 1}, deliveries(o)); d != "" {
		t.Errorf("deliveries (-want +got):\n%s", d)
	}
	want := map[string]string{
		"id": `"long"`, "c": `"decimal(10,2)"`,
		"d": `{"type":"struct","fields":[{"name":"p","type":"integer","nullable":true,"metadata":{}},{"name":"q","type":{"type":"array","elementType":"string","containsNull":true},"nullable":true,"metadata":{}}]}`,
	}
	if d := cmp.Diff(want, w.columns("a")); d != "" {
		t.Errorf("columns (-want +got):\n%s", d)
	}
	d, err := w.catalog.Describe(w.ctx(), "a")
	if err != nil {
		t.Fatal(err)
	}
	m := d.State.Profile.MetaData
	if diff := cmp.Diff(map[string]string{"delta.enableChangeDataFeed": "true", "x": "3"}, m.Configuration); diff != "" {
		t.Errorf("properties (-want +got):\n%s", diff)
	}
	if m.Description != "what it is" || m.ID != w.info("a").MetaDataID || d.State.Profile.Protocol.MinWriter < 4 {
		t.Errorf("%+v %+v", m, d.State.Profile.Protocol)
	}
	if again := w.commit("k", altering("a", tables.Alteration{AddColumns: []tables.NewColumn{{Name: "c", Type: "DECIMAL(10,2)"}}}), blind("b", "1")); again.Txn != o.Txn {
		t.Errorf("the same key again: %+v", again)
	}
	// An append that was staged before the column goes on beside it.
	b := w.begin("before")
	st := w.stage(b.Token, blind("a", "2"))
	w.commit("one more", altering("a", tables.Alteration{AddColumns: []tables.NewColumn{{Name: "e", Type: "date"}}}))
	if _, err := w.catalog.Commit(w.ctx(), coordinator.CommitRequest{Token: b.Token, Tables: []coordinator.TableParts{parts("a", st.Digest)}}); err != nil {
		t.Errorf("an append beside a new column: %v", err)
	}
}

func TestWidening(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.createWith(coordinator.CreateRequest{Name: "a", Schema: strings.Replace(schema, "long", "integer", 1), Mode: twophase.ModeOpen})
	_, err := w.try("not yet", altering("a", tables.Alteration{WidenColumns: map[string]string{"id": "bigint"}}))
	wantReason(t, "without type widening", err, coordinator.InvalidRequest)
	w.commit("k", altering("a", tables.Alteration{
		SetProperties: map[string]string{"delta.enableTypeWidening": "true"}, WidenColumns: map[string]string{"id": "bigint"},
		ColumnComments: map[string]string{"id": "wide"},
	}))
	if got := w.columns("a")["id"]; got != `"long"` {
		t.Errorf("type %s", got)
	}
	for _, part := range []string{`\"fromType\":\"integer\"`, `\"comment\":\"wide\"`, `"typeWidening"`} {
		if got := w.read("a", 1); !strings.Contains(got, part) {
			t.Errorf("version 1 has no %s: %s", part, got)
		}
	}
	_, err = w.try("narrower", altering("a", tables.Alteration{WidenColumns: map[string]string{"id": "int"}}))
	wantReason(t, "back", err, coordinator.InvalidRequest)
}

func TestAlterRefuses(t *testing.T) {
	t.Parallel()
	w := (&world{}).open(t)
	w.createWith(coordinator.CreateRequest{
		Name: "a", Mode: twophase.ModeOpen, PartitionColumns: []string{"day"},
		Schema: `{"type":"struct","fields":[{"name":"id","type":"integer","nullable":true,"metadata":{}},{"name":"day","type":"integer","nullable":true,"metadata":{}}]}`,
	})
	for name, a := range map[string]tables.Alteration{
		"nothing":            {},
		"a column twice":     {AddColumns: []tables.NewColumn{{Name: "ID", Type: "int"}}},
		"two of one name":    {AddColumns: []tables.NewColumn{{Name: "n", Type: "int"}, {Name: "N", Type: "int"}}},
		"an unknown type":    {AddColumns: []tables.NewColumn{{Name: "n", Type: "integr"}}},
		"an unfinished type": {AddColumns: []tables.NewColumn{{Name: "n", Type: "array<int"}}},
		"a wide decimal":     {AddColumns: []tables.NewColumn{{Name: "n", Type: "decimal(39,1)"}}},
		"what is not set":    {UnsetProperties: []string{"delta.appendOnly"}},
		"set and unset":      {SetProperties: map[string]string{"x": "1"}, UnsetProperties: []string{"x"}},
		"a feature":          {SetProperties: map[string]string{"delta.feature.deletionVectors": "supported"}},
		"column mapping":     {SetProperties: map[string]string{"delta.columnMapping.mode": "name"}},
		"row tracking":       {SetProperties: map[string]string{"delta.enableRowTracking": "true"}},
		"a short retention":  {SetProperties: map[string]string{"delta.logRetentionDuration": "interval 1 hours"}},
		"no such column":     {ColumnComments: map[string]string{"nope": "x"}},
		"a partition column": {SetProperties: map[string]string{"delta.enableTypeWidening": "true"}, WidenColumns: map[string]string{"day": "long"}},
	} {
		w.unchanged(name, func() {
			if _, err := w.try(name, altering("a", a)); err == nil {
				t.Errorf("%s is taken", name)
			}
		})
	}
	w.unchanged("two definitions", func() {
		_, err := w.try("two", altering("a", tables.Alteration{SetProperties: map[string]string{"x": "1"}}, metaData(w.info("a").MetaDataID, schema)))
		wantReason(t, "a metaData beside an alteration", err, coordinator.InvalidRequest)
	})
}

// Releases inside a transaction: one snapshot shows what it wrote and what it took out.
func TestTransactionReleases(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, name := range []string{"a", "b", "c"} {
		w.create(name, twophase.ModeOpen)
	}
	w.settle()
	req := coordinator.OnceRequest{Key: "k", Tables: []coordinator.OnceTable{blind("a", "1")}, Releases: []string{"c", "b"}}
	o, _, err := w.catalog.CommitOnce(w.ctx(), req)
	if err != nil {
		t.Fatal(err)
	}
	w.wantShown(map[string]twophase.Version{"a": 1})
	page, err := w.catalog.Snapshots(w.ctx(), "", 1, "")
	if err != nil || len(page.Snapshots[0].Tables) != 3 || page.Snapshots[0].Version != o.Committed.Snapshot {
		t.Errorf("%+v, %v", page, err)
	}
	again, _, err := w.catalog.CommitOnce(w.ctx(), req)
	if err != nil || again.Txn != o.Txn {
		t.Errorf("again: %+v, %v", again, err)
	}
	req.Releases = []string{"b"}
	_, _, err = w.catalog.CommitOnce(w.ctx(), req)
	wantReason(t, "other releases", err, coordinator.OtherDigests)
	wantReason(t, "a released table", second(w.try("late", blind("b", "1"))), coordinator.TableNotFound)
	if w.versions("b") != 1 {
		t.Error("b was written")
	}
	w.eventually("the owner objects go", func() bool {
		return w.object("b/_delta_log/_txcoord/owner.json") == "" && w.object("c/_delta_log/_txcoord/owner.json") == ""
	})
	// Only releases, and of a table that is registered again.
	if _, _, err := w.catalog.Register(w.ctx(), coordinator.RegisterRequest{Name: "b", URI: w.uri("b")}); err != nil {
		t.Fatal(err)
	}
	if _, _, err := w.catalog.CommitOnce(w.ctx(), coordinator.OnceRequest{Key: "only", Releases: []string{"b"}}); err != nil {
		t.Errorf("releases alone: %v", err)
	}
	w.restart()
	w.wantShown(map[string]twophase.Version{"a": 1})
}
