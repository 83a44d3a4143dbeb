package coordinator_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/txcoord/txcoord/coordinator"
	"github.com/txcoord/txcoord/twophase"
)

// A version is missing in the middle of an open table's log: that is said, the table is
// not taken for another one, and goes on when the file is put back.
func TestGapInAnOpenTable(t *testing.T) {
	t.Parallel()
	clock := &clock{}
	w := &world{}
	w.cfg.Boot = clock.now
	w.open(t)
	w.create("t", twophase.ModeOpen)
	w.create("beside", twophase.ModeOpen)
	w.commit("1", blind("t", "1"))
	w.foreign("t", 2, add("x"))
	w.foreign("t", 3, add("y"))
	lost := w.read("t", 2)
	if err := w.objects.Delete(w.ctx(), fmt.Sprintf("t/_delta_log/%020d.json", 2)); err != nil {
		t.Fatal(err)
	}
	clock.advance(time.Minute) // the sight of version 1 is too old
	own := wantReason(t, "a commit on it", second(w.try("2", blind("t", "2"))), coordinator.LogContradiction)
	if !strings.Contains(own.Message, "gap: version 2 is missing between 1 and 3") {
		t.Errorf("%s", own.Message)
	}
	frozen := w.info("t").Frozen
	if frozen == nil || frozen.Cause != twophase.CauseContradiction || !strings.Contains(frozen.Detail, "gap") {
		t.Errorf("%+v", frozen)
	}
	if f := found(t, w.explain("t"), coordinator.FoundFrozen); !strings.Contains(f.Text, "version 2 is missing") || !strings.Contains(f.Remedy, "put the file back") {
		t.Errorf("%+v", f)
	}
	w.commit("others go on", blind("beside", "1"))
	w.rawCommit("t", 2, lost)
	if err := w.resolve("t"); err != nil {
		t.Fatal(err)
	}
	w.commit("3", blind("t", "3"))
	if n := w.versions("t"); n != 5 || w.info("t").Version != 4 {
		t.Errorf("%d versions, recorded %d", n, w.info("t").Version)
	}
}

// A version is missing behind the recorded one, where no commit looks. Whatever of ours
// reads the log finds that out, and means the same by it.
func TestGapBehindTheEnd(t *testing.T) {
	finders := map[string]func(*tended){
		"describe": func(w *tended) {
			d, err := w.catalog.Describe(w.ctx(), "a")
			if err != nil || d.Frozen == nil || !strings.Contains(strings.Join(d.Warnings, "\n"), "gap in the log") {
				w.t.Errorf("%+v, %v", d, err)
			}
		},
		"maintain": func(w *tended) {
			m := w.maintainer(coordinator.MaintainConfig{})
			_, err := m.Maintain(w.ctx(), coordinator.MaintainRequest{Table: "a", DryRun: true})
			wantReason(w.t, "maintenance", err, coordinator.LogContradiction)
		},
		"why after a start": func(w *tended) {
			w.restart()
			w.explain("a")
		},
		"a commit after a start": func(w *tended) {
			w.restart()
			wantReason(w.t, "the first commit", second(w.try("1", blind("a", "1"))), coordinator.LogContradiction)
		},
	}
	for name, find := range finders {
		t.Run(name, func(t *testing.T) {
			w := newTended(t)
			w.create("a", twophase.ModeExclusive)
			w.create("beside", twophase.ModeExclusive)
			w.grow("a", 2)
			lost := w.read("a", 1)
			w.dropOne("a", 1)
			find(w)
			frozen := w.info("a").Frozen
			if frozen == nil || frozen.Cause != twophase.CauseContradiction || !strings.Contains(frozen.Detail, "version 1 is missing") {
				t.Fatalf("%+v", frozen)
			}
			wantReason(t, "a commit", second(w.try("2", blind("a", "2"), blind("beside", "2"))), coordinator.TableFrozen)
			if f := found(t, w.explain("a"), coordinator.FoundFrozen); !f.Blocks || !strings.Contains(f.Remedy, "put the file back") {
				t.Errorf("%+v", f)
			}
			if st, err := w.catalog.Status(w.ctx()); err != nil || len(st.Frozen) != 1 || st.Frozen[0].Table != "a" {
				t.Errorf("status: %+v, %v", st.Frozen, err)
			}
			w.commit("others go on", blind("beside", "1"))

			if err := w.resolve("a"); err != nil { // before the file is back
				t.Fatal(err)
			}
			wantReason(t, "a commit after a thaw", second(w.try("3", blind("a", "3"))), coordinator.LogContradiction)
			w.rawCommit("a", 1, lost)
			if err := w.resolve("a"); err != nil {
				t.Fatal(err)
			}
			w.commit("4", blind("a", "4"))
			if d, err := w.catalog.Describe(w.ctx(), "a"); err != nil || d.Version != 3 || d.Frozen != nil || len(d.Warnings) != 0 {
				t.Errorf("%+v, %v", d, err)
			}
		})
	}
}

// A gap that cannot be mended: the operator gives the table up and releases it.
func TestGapGivenUp(t *testing.T) {
	w := newTended(t)
	w.create("a", twophase.ModeOpen)
	w.grow("a", 2)
	w.dropOne("a", 1)
	if _, err := w.catalog.Describe(w.ctx(), "a"); err != nil {
		t.Fatal(err)
	}
	plan, err := w.catalog.Resolve(w.ctx(), coordinator.ResolveRequest{Table: "a", GiveUp: true, Preview: true})
	if err != nil || len(plan.Steps) != 1 {
		t.Fatalf("%+v, %v", plan, err)
	}
	if _, err := w.catalog.Resolve(w.ctx(), coordinator.ResolveRequest{Table: "a", GiveUp: true, Plan: plan.Plan}); err != nil {
		t.Fatal(err)
	}
	if err := w.catalog.Release(w.ctx(), "a", false); err != nil {
		t.Error(err)
	}
}
