package coordinator_test

import (
	"bytes"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/txcoord/txcoord/coordinator"
	"github.com/txcoord/txcoord/tables"
	"github.com/txcoord/txcoord/twophase"
)

// defective is a world of a build that can make no version of a part that names a file bad,
// with what is decided by key k on t and beside, and before it by key before on t.
type defective struct {
	*world
	mended atomic.Bool
}

func (d *defective) render(in tables.RenderInput) (tables.Rendered, error) {
	for _, txn := range in.Txns {
		for _, piece := range txn.Pieces {
			if bytes.Contains(piece, []byte(`"path":"bad"`)) && !d.mended.Load() {
				return tables.Rendered{}, errors.New("no room for bad")
			}
		}
	}
	return tables.RenderCommit(in)
}

func newDefective(t *testing.T) *defective {
	t.Helper()
	d, gate := newDefectiveOver(t, "t", "beside", "apart")
	d.commit("seed", blind("t", "1"), blind("beside", "1"))
	d.settle()
	gate.refuse()
	d.abandonedParts("beside", once("first", blind("beside", "first"))) // its round is open: what follows shares the next
	d.abandonedParts("t", once("k", blind("t", "bad"), blind("beside", "2")))
	d.stop()
	gate.release()
	return d
}

// newDefectiveOver has tables, and the gate over their objects.
func newDefectiveOver(t *testing.T, names ...string) (*defective, *gate) {
	t.Helper()
	d, gate := &defective{world: &world{}}, newGate()
	d.wrapObjects = gate.over
	d.cfg.Limits.FreezeAfter = 20 * time.Millisecond
	d.cfg.RenderWith(d.render)
	d.open(t)
	for _, name := range names {
		d.create(name, twophase.ModeOpen)
	}
	return d, gate
}

func (d *defective) frozen() {
	d.t.Helper()
	d.eventually("it is frozen", func() bool {
		f := d.info("t").Frozen
		return f != nil && f.Cause == twophase.CauseLost
	})
	d.eventually("the other table has its versions", func() bool { return strings.Contains(d.logOf("beside"), `"path":"2`) })
}

func (d *defective) logOf(table string) (all string) {
	d.t.Helper()
	for v := range d.versions(table) {
		all += d.read(table, v)
	}
	return all
}

func (d *defective) outcome() (o coordinator.Outcome, on map[string]twophase.Status) {
	d.t.Helper()
	o = d.commit("k", blind("t", "bad"), blind("beside", "2"))
	on = map[string]twophase.Status{}
	for _, at := range o.Committed.Tables {
		on[at.Name] = at.Status
	}
	return o, on
}

// A decided change of which no version can be made: it is said what, and other tables get
// theirs; an operator gives it up, as one whose part is lost.
func TestUnwritableGivenUp(t *testing.T) {
	t.Parallel()
	d := newDefective(t)
	d.start()
	d.frozen()
	o, on := d.outcome()
	if on["t"] != twophase.StatusPending || on["beside"] == twophase.StatusNotApplied {
		t.Errorf("%v", on)
	}
	e := d.explain("t")
	f := found(t, e, coordinator.FoundPartLost)
	if !f.Blocks || f.Txn != o.Txn || f.Key != "k" || f.File != "" || !strings.Contains(f.Text, "no room for bad") ||
		!strings.Contains(f.Remedy, "resolve t --give-up") || strings.Contains(f.Remedy, "put the part back") {
		t.Errorf("%+v", f)
	}
	if f := found(t, e, coordinator.FoundFrozen); !strings.Contains(f.Text, "cannot be published here") || !strings.Contains(f.Text, "no room for bad") ||
		strings.Contains(f.Text+f.Remedy, "location") || !strings.Contains(f.Remedy, "resolve t --give-up") {
		t.Errorf("%+v", f)
	}
	own := wantReason(t, "resolve", d.resolve("t"), coordinator.NothingToResolve)
	if !strings.Contains(own.Message, "--give-up") || !strings.Contains(own.Message, "no room for bad") {
		t.Errorf("%s", own.Message)
	}
	q := coordinator.ResolveRequest{Table: "t", GiveUp: true, Preview: true, Reason: "a defect"}
	var plan coordinator.Resolution
	d.unchangedNow("a preview", func() {
		var err error
		if plan, err = d.catalog.Resolve(d.ctx(), q); err != nil {
			t.Fatal(err)
		}
	})
	if len(plan.Steps) != 1 || plan.Steps[0].Kind != "barrier" || len(plan.GivenUp) != 1 || plan.GivenUp[0].Key != "k" ||
		plan.GivenUp[0].Conflict.Detail != "it cannot be written" || !cmp.Equal(plan.Freed, []string{"beside", "t"}) {
		t.Errorf("%+v", plan)
	}
	q.Preview, q.Plan = false, plan.Plan
	if _, err := d.catalog.Resolve(d.ctx(), q); err != nil {
		t.Fatal(err)
	}
	d.eventually("all is published", func() bool { return len(d.status().Rounds) == 0 })
	if o, on := d.outcome(); o.Committed.Snapshot == 0 || on["t"] != twophase.StatusNotApplied || on["beside"] != twophase.StatusPublished {
		t.Errorf("%+v", o.Committed)
	}
	d.commit("more", blind("t", "3"), blind("beside", "3"))
	if log := d.logOf("t"); !strings.Contains(log, "txcoord.notApplied") || strings.Contains(log, `"path":"bad"`) {
		t.Errorf("%s", log)
	}
	if e := d.explain("t"); len(e.Findings) != 0 {
		t.Errorf("%+v", e.Findings)
	}
	d.check(closedRun{})
}

// Another build can: it publishes, and nothing is left to be given up.
func TestUnwritableUntilAnotherBuild(t *testing.T) {
	t.Parallel()
	d := newDefective(t)
	d.start()
	d.frozen()
	plan, err := d.catalog.Resolve(d.ctx(), coordinator.ResolveRequest{Table: "t", GiveUp: true, Preview: true})
	if err != nil {
		t.Fatal(err)
	}
	d.mended.Store(true)
	_, err = d.catalog.Resolve(d.ctx(), coordinator.ResolveRequest{Table: "t", GiveUp: true, Plan: plan.Plan})
	wantReason(t, "giving up what can be written", err, coordinator.NothingToResolve)
	d.eventually("it goes on", func() bool { return d.info("t").Frozen == nil && len(d.status().Rounds) == 0 })
	if _, on := d.outcome(); on["t"] != twophase.StatusPublished || on["beside"] != twophase.StatusPublished {
		t.Errorf("%v", on)
	}
	d.check(closedRun{})
}

// Of several transactions that share a version it is the one that is named and given up.
func TestUnwritableAmongOthers(t *testing.T) {
	t.Parallel()
	d, gate := newDefectiveOver(t, "t", "beside")
	d.settle()
	gate.refuse()
	d.abandonedParts("t", once("round", blind("t", "0"))) // the round of this one is open, and those that follow share the next
	for n, key := range []string{"a", "k", "z"} {
		path := key
		if key == "k" {
			path = "bad"
		}
		d.abandonedBehind("t", n+2, once(key, blind("t", path), blind("beside", path+"2")))
	}
	d.stop()
	gate.release()
	d.start()
	d.eventually("it is frozen", func() bool {
		f := d.info("t").Frozen
		return f != nil && f.Cause == twophase.CauseLost
	})
	plan, err := d.catalog.Resolve(d.ctx(), coordinator.ResolveRequest{Table: "t", GiveUp: true})
	if err != nil || len(plan.GivenUp) != 1 || plan.GivenUp[0].Key != "k" {
		t.Fatalf("%+v, %v", plan, err)
	}
	d.eventually("all is published", func() bool { return len(d.status().Rounds) == 0 })
	log := d.logOf("t")
	for _, path := range []string{"0", "a", "z"} {
		if strings.Count(log, `"path":"`+path+`"`) != 1 {
			t.Errorf("%s is not there once:\n%s", path, log)
		}
	}
	if strings.Contains(log, `"path":"bad"`) {
		t.Error(log)
	}
	d.check(closedRun{})
}

// Of a table that was to be created there is no log that could hold a barrier.
func TestUnwritableNewTable(t *testing.T) {
	t.Parallel()
	d := &defective{world: &world{}}
	d.cfg.Limits.FreezeAfter = 20 * time.Millisecond
	d.cfg.RenderWith(d.render)
	d.open(t)
	d.create("t", twophase.ModeOpen)
	r := once("k", blind("t", "1"), coordinator.OnceTable{Table: "new", Actions: add("bad"), Create: &coordinator.NewTable{URI: d.uri("new"), Schema: schema}})
	if _, _, err := d.catalog.CommitOnce(d.ctx(), r); err != nil {
		t.Fatal(err)
	}
	d.eventually("it is frozen", func() bool {
		f := d.info("new").Frozen
		return f != nil && f.Cause == twophase.CauseLost
	})
	plan, err := d.catalog.Resolve(d.ctx(), coordinator.ResolveRequest{Table: "new", GiveUp: true, Preview: true})
	if err != nil || len(plan.Steps) != 1 || plan.Steps[0].Kind != "replaced" {
		t.Errorf("%+v, %v", plan, err)
	}
}
