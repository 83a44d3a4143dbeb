package coordinator_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/txcoord/txcoord/coordinator"
	"github.com/txcoord/txcoord/tables"
	"github.com/txcoord/txcoord/twophase"
)

// Another table turns up at the place between decision and publication: it is not
// touched, and an operator gives the creation up. The rest of the transaction stands.
func TestAnotherTableAtThePlace(t *testing.T) {
	t.Parallel()
	gate := newGate()
	clock, wall := &clock{}, &wallClock{}
	w := &world{wrapObjects: gate.over}
	w.cfg.Boot, w.cfg.Now = clock.now, wall.now
	w.open(t)
	w.create("old", twophase.ModeOpen)
	gate.refuse()
	first := w.background("k", blind("old", "1"), w.creating("a", add("2")))
	w.eventually("it is decided", func() bool { return w.exists("a") })
	w.foreign("a", 0, []byte(`{"protocol":{"minReaderVersion":1,"minWriterVersion":2}}`+"\n"), metaData("22222222-2222-4222-8222-222222222222", schema))
	theirs := w.read("a", 0)
	gate.release()
	w.eventually("the new table counts as replaced", func() bool {
		f := w.info("a").Frozen
		return f != nil && f.Cause == twophase.CauseReplaced
	})
	wantReason(t, "a commit on it", second(w.try("late", blind("a", "3"))), coordinator.TableFrozen)
	w.wantShown(map[string]twophase.Version{"old": 0})
	clock.advance(time.Hour)
	wall.advance(time.Hour)
	if _, err := w.catalog.Resolve(w.ctx(), coordinator.ResolveRequest{Table: "a", Reason: "somebody else's"}); err != nil {
		t.Fatal(err)
	}
	if err := <-first; err != nil {
		t.Fatal(err)
	}
	o := w.commit("k", blind("old", "1"), w.creating("a", add("2")))
	got := map[string]twophase.Status{}
	for _, d := range o.Committed.Tables {
		got[d.Name] = d.Status
	}
	if d := cmp.Diff(map[string]twophase.Status{"old": twophase.StatusPublished, "a": twophase.StatusNotApplied}, got); d != "" {
		t.Errorf("deliveries (-want +got):\n%s", d)
	}
	w.wantShown(map[string]twophase.Version{"old": 1})
	if w.read("a", 0) != theirs || w.versions("a") != 1 {
		t.Error("the other table was written")
	}
	if err := w.catalog.Release(w.ctx(), "a", false); err != nil {
		t.Fatal(err)
	}
	if _, _, err := w.catalog.Register(w.ctx(), coordinator.RegisterRequest{Name: "a", URI: w.uri("a"), TakeOver: true}); err != nil {
		t.Errorf("the table that is there: %v", err)
	}
}

func TestCreationRefuses(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.create("old", twophase.ModeOpen)
	w.rawCommit("there", 0, `{"protocol":{"minReaderVersion":1,"minWriterVersion":2}}`)
	id := w.info("old").MetaDataID
	with := func(change func(*coordinator.NewTable), actions ...[]byte) coordinator.OnceTable {
		p := w.creating("a", actions...)
		change(p.Create)
		return p
	}
	same := func(*coordinator.NewTable) {}
	for name, c := range map[string]struct {
		part coordinator.OnceTable
		says string
	}{
		"no place":          {with(func(n *coordinator.NewTable) { n.URI = "" }), "uri"},
		"no schema":         {with(func(n *coordinator.NewTable) { n.Schema = "" }), "schema"},
		"a broken schema":   {with(func(n *coordinator.NewTable) { n.Schema = "{" }), "schema"},
		"outside the roots": {with(func(n *coordinator.NewTable) { n.URI = "file:///elsewhere/a" }), "elsewhere"},
		"in another table":  {with(func(n *coordinator.NewTable) { n.URI = w.uri("old/a") }), "old"},
		"a log is there":    {with(func(n *coordinator.NewTable) { n.URI = w.uri("there") }), "already"},
		"no such column":    {with(func(n *coordinator.NewTable) { n.PartitionColumns = []string{"x"} }), "partition_columns"},
		"a short retention": {with(func(n *coordinator.NewTable) {
			n.Properties = map[string]string{"delta.logRetentionDuration": "interval 1 hours"}
		}), "logRetentionDuration"},
		"a fenced one's remedy": {with(func(n *coordinator.NewTable) { n.Mode = twophase.ModeFenced }), "tables fence a"},
		"a fenced one":          {with(func(n *coordinator.NewTable) { n.Mode = twophase.ModeFenced }), "create.mode"},
		"a remove":              {with(same, remove("1")), "remove"},
		"its own metadata":      {with(same, metaData(id, schema)), "metaData"},
		"a partition value":     {with(same, []byte(strings.Replace(string(add("1")), `"partitionValues":{}`, `"partitionValues":{"x":"1"}`, 1))), "partitionValues"},
		"a broken line":         {with(same, []byte("{\"add\":\n")), "line"},
		"what was read":         {coordinator.OnceTable{Table: "a", Read: readAt(3), Create: with(same).Create}, "read"},
		"altered as well":       {coordinator.OnceTable{Table: "a", Create: with(same).Create, Alter: &tables.Alteration{SetProperties: map[string]string{"x": "1"}}}, "alter"},
		"a name of another":     {coordinator.OnceTable{Table: "old", Create: with(same).Create}, "registered already"},
		"a table id":            {coordinator.OnceTable{Table: "t-0123456789abcdef", Create: with(same).Create}, "looks like a table id"},
	} {
		w.unchanged(name, func() {
			if _, err := w.try(name, blind("old", "1"), c.part); err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("%s: got %v, want %q in it", name, err, c.says)
			}
		})
	}
	b := w.creating("b")
	b.Create.URI = w.uri("a")
	_, err := w.try("two in one place", w.creating("a"), b)
	if got := wantReason(t, "two tables in one place", err, coordinator.Conflicted).Conflict; got.Rule != twophase.RuleTableExists {
		t.Errorf("%+v", got)
	}
	if w.versions("a") != 0 || w.exists("a") || w.exists("b") {
		t.Error("one of them is there")
	}
}
