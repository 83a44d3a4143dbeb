package coordinator_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/txcoord/txcoord/coordinator"
	"github.com/txcoord/txcoord/twophase"
)

// creating is a table's part in a transaction that creates it.
func (w *world) creating(name string, actions ...[]byte) coordinator.OnceTable {
	return coordinator.OnceTable{Table: name, Actions: lines(actions...), Create: &coordinator.NewTable{URI: w.uri(name), Schema: schema}}
}

// shows are the tables of the newest snapshot, with their versions.
func (w *world) shows() map[string]twophase.Version {
	w.t.Helper()
	s, err := w.catalog.Snapshot(w.ctx(), coordinator.SnapshotRef{}, nil)
	if err != nil {
		w.t.Fatal(err)
	}
	out := map[string]twophase.Version{}
	for _, t := range s.Tables {
		out[t.Name] = t.Version
	}
	return out
}

func (w *world) wantShown(want map[string]twophase.Version) {
	w.t.Helper()
	if d := cmp.Diff(want, w.shows()); d != "" {
		w.t.Errorf("the snapshot (-want +got):\n%s", d)
	}
}

// actionNames are the actions of a version, by name and in order.
func (w *world) actionNames(table string, v int) (out []string) {
	w.t.Helper()
	for _, line := range strings.Split(strings.TrimSpace(w.read(table, v)), "\n") {
		var action map[string]json.RawMessage
		if err := json.Unmarshal([]byte(line), &action); err != nil {
			w.t.Fatalf("%s@%d: %v: %s", table, v, err, line)
		}
		for name := range action {
			out = append(out, name)
		}
	}
	return out
}

func TestTransactionCreatesTables(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.create("old", twophase.ModeOpen)
	o := w.commit("k", blind("old", "1"), w.creating("a", add("2"), add("3")), w.creating("b"))
	want := map[string]twophase.Version{"old": 1, "a": 0, "b": 0}
	if d := cmp.Diff(want, deliveries(o)); d != "" {
		t.Errorf("deliveries (-want +got):\n%s", d)
	}
	w.wantShown(want)
	if d := cmp.Diff([]string{"commitInfo", "txn", "protocol", "metaData", "add", "add"}, w.actionNames("a", 0)); d != "" {
		t.Errorf("version 0 of a (-want +got):\n%s", d)
	}
	for _, part := range []string{`"operation":"CREATE TABLE AS SELECT"`, `"createdTime":`, `"delta.multiTableTransaction.transactionId":"` + o.Txn.String()} {
		if got := w.read("a", 0); !strings.Contains(got, part) {
			t.Errorf("version 0 of a has no %s: %s", part, got)
		}
	}
	if info := w.info("a"); !strings.Contains(w.read("a", 0), `"metaData":{"id":"`+info.MetaDataID+`"`) || info.Version != 0 || info.Marker != 1 {
		t.Errorf("%+v", info)
	}
	// The same call again gives the same answer, also behind a restart and a release.
	again := w.commit("k", blind("old", "1"), w.creating("a", add("2"), add("3")), w.creating("b"))
	if again.Txn != o.Txn || !cmp.Equal(deliveries(again), want) {
		t.Errorf("again: %+v", again)
	}
	w.restart()
	w.wantShown(want)
	w.commit("next", blind("a", "4"), blind("b", "5"))
	w.wantShown(map[string]twophase.Version{"old": 1, "a": 1, "b": 1})
	if err := w.catalog.Release(w.ctx(), "b", false); err != nil {
		t.Fatal(err)
	}
	again = w.commit("k", blind("old", "1"), w.creating("a", add("2"), add("3")), w.creating("b"))
	if again.Txn != o.Txn {
		t.Errorf("again: %+v", again)
	}
	_, err := w.try("k", blind("old", "1"), w.creating("a", add("2")), w.creating("b"))
	wantReason(t, "other content under the same key", err, coordinator.OtherDigests)
	_, err = w.try("k", blind("old", "1"), coordinator.OnceTable{Table: "a", Actions: lines(add("2"), add("3")), Create: &coordinator.NewTable{URI: w.uri("a"), Schema: schema, Description: "x"}}, w.creating("b"))
	wantReason(t, "another description under the same key", err, coordinator.OtherDigests)
}

// Staged piece by piece, named by name or by id, and taken up behind a restart.
func TestStagedCreation(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := w.begin("k")
	stage := func(part coordinator.OnceTable) coordinator.Staged {
		t.Helper()
		st, err := w.catalog.Stage(w.ctx(), coordinator.StageRequest{Token: b.Token, Table: part.Table, Read: part.Read, Actions: part.Actions, Create: part.Create})
		if err != nil {
			t.Fatal(err)
		}
		return st
	}
	one, two := stage(w.creating("a", add("1"))), stage(w.creating("a", add("2")))
	other := stage(w.creating("b"))
	if one.Table != two.Table || one.Digest == two.Digest || one.Lines != 1 || other.Lines != 0 || one.MetaDataID == other.MetaDataID {
		t.Errorf("staged %+v, %+v, %+v", one, two, other)
	}
	if again := stage(w.creating("a", add("1"))); again.Digest != one.Digest {
		t.Errorf("digest %s, then %s", one.Digest, again.Digest)
	}
	w.restart()
	req := coordinator.CommitRequest{Token: b.Token, Tables: []coordinator.TableParts{
		parts("a", two.Digest, one.Digest), parts(string(other.Table), other.Digest),
	}}
	for range 2 {
		o, err := w.catalog.Commit(w.ctx(), req)
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(map[string]twophase.Version{"a": 0, "b": 0}, deliveries(o)); d != "" {
			t.Errorf("deliveries (-want +got):\n%s", d)
		}
	}
	if log := w.read("a", 0); strings.Index(log, `"2"`) > strings.Index(log, `"1"`) {
		t.Errorf("version 0 of a: %s", log)
	}
	if info := w.info("a"); info.ID != one.Table || info.MetaDataID != one.MetaDataID {
		t.Errorf("%+v, staged was %+v", info, one)
	}
}

// A name or a place that somebody else takes before the decision aborts the transaction,
// for all its tables, and nothing is written.
func TestCreationLosesItsName(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ name, place string }{
		"the name":  {"a", "elsewhere"},
		"the place": {"other", "a"},
	} {
		w := newWorld(t)
		w.create("old", twophase.ModeOpen)
		b := w.begin("k")
		st, err := w.catalog.Stage(w.ctx(), coordinator.StageRequest{Token: b.Token, Table: "a", Actions: add("1"), Create: w.creating("a").Create})
		if err != nil {
			t.Fatal(err)
		}
		old := w.stage(b.Token, blind("old", "1"))
		if _, err := w.try("quicker", coordinator.OnceTable{Table: c.name, Create: &coordinator.NewTable{URI: w.uri(c.place), Schema: schema}}); err != nil {
			t.Fatal(err)
		}
		before := w.versions("a")
		_, err = w.catalog.Commit(w.ctx(), coordinator.CommitRequest{Token: b.Token, Tables: []coordinator.TableParts{parts("a", st.Digest), parts("old", old.Digest)}})
		if c.name == "a" {
			if got := wantReason(t, name, err, coordinator.Conflicted).Conflict; got.Rule != twophase.RuleTableExists || !strings.Contains(got.Detail, "name a is table") {
				t.Errorf("%s: %+v", name, got)
			}
		} else {
			wantReason(t, name, err, coordinator.NotATable) // the look-up sees the log
		}
		if w.versions("a") != before || w.versions("old") != 1 {
			t.Errorf("%s: something was written", name)
		}
	}
}

// While the creation is decided and not published, others write the new table; no
// snapshot shows anything of it; a crash leaves it to the next process.
func TestTableIsWrittenBeforeItIsThere(t *testing.T) {
	t.Parallel()
	gate := newGate()
	w := &world{files: true, wrapObjects: gate.over}
	w.open(t)
	w.create("old", twophase.ModeOpen)
	w.settle()
	gate.refuse()
	create := w.background("create", blind("old", "1"), w.creating("a", add("2")))
	w.eventually("the creation is decided", func() bool { return w.exists("a") })
	next := w.background("next", blind("a", "3"))
	w.eventually("the second transaction is decided", func() bool { return w.info("a").Pending == 2 })
	w.wantShown(map[string]twophase.Version{"old": 0})
	if _, err := w.try("same file", blind("a", "2")); err == nil {
		t.Error("a file of the creation was added again")
	}
	_, err := w.try("taken", w.creating("a"))
	wantReason(t, "the name is taken", err, coordinator.TableExists)
	w.stop()
	if err := errors.Join(<-create, <-next); err != nil { // both were decided: COMMITTED, and pending
		t.Error(err)
	}
	gate.release()
	w.start()
	o := w.commit("create", blind("old", "1"), w.creating("a", add("2")))
	if d := cmp.Diff(map[string]twophase.Version{"old": 1, "a": 0}, deliveries(o)); d != "" {
		t.Errorf("deliveries (-want +got):\n%s", d)
	}
	w.eventually("both are published", func() bool { return w.info("a").Pending == 0 && w.versions("a") == 2 })
	w.eventually("the snapshot shows them", func() bool { return cmp.Equal(w.shows(), map[string]twophase.Version{"old": 1, "a": 1}) })
}

func (w *world) exists(name string) bool {
	all, err := w.catalog.Tables(w.ctx())
	for _, t := range all {
		if t.Name == name {
			return true
		}
	}
	return err != nil
}

// A new table's place that some engines do not find is warned of by the call that commits it,
// as a table that is created alone is.
func TestNewTablesPlaceIsWarnedOf(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	at := func(name, folder string) coordinator.OnceTable {
		out := w.creating(name)
		out.Create.URI = w.uri(folder)
		return out
	}
	warned := func(what string, o coordinator.Outcome, want int) {
		t.Helper()
		got := o.Committed.Warnings
		if len(got) != want || want == 1 && (!strings.HasPrefix(got[0], "table odd") || !strings.Contains(got[0], "%20") || !strings.Contains(got[0], "delta-rs")) {
			t.Errorf("%s: warnings %q", what, got)
		}
	}
	once := []coordinator.OnceTable{at("odd", "a%2520b"), at("plain", "c%20d")}
	warned("in one call", w.commit("once", once...), 1)
	warned("the same call", w.commit("once", once...), 0)
	begun, new := w.begin("staged"), at("odd2", "e%2520f")
	part, err := w.catalog.Stage(w.ctx(), coordinator.StageRequest{Token: begun.Token, Table: "odd2", Create: new.Create})
	if err != nil {
		t.Fatal(err)
	}
	o, err := w.catalog.Commit(w.ctx(), coordinator.CommitRequest{
		Token: begun.Token, Tables: []coordinator.TableParts{{Table: "odd2", Digests: []twophase.Digest{part.Digest}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	warned("staged", o, 1)
}
