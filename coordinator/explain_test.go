package coordinator_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/txcoord/txcoord/coordinator"
	"github.com/txcoord/txcoord/tables/checkpoint"
	"github.com/txcoord/txcoord/tables/objstore"
	"github.com/txcoord/txcoord/tables/objstore/objtest"
	"github.com/txcoord/txcoord/twophase"
)

func (w *world) explain(table string) coordinator.Explanation {
	w.t.Helper()
	e, err := w.catalog.Explain(w.ctx(), table, nil)
	if err != nil {
		w.t.Fatal(err)
	}
	return e
}

// found is the finding of a code; it has to be there.
func found(t *testing.T, e coordinator.Explanation, code coordinator.FindingCode) coordinator.Finding {
	t.Helper()
	i := slices.IndexFunc(e.Findings, func(f coordinator.Finding) bool { return f.Code == code })
	if i < 0 {
		t.Fatalf("no finding %d in %+v", code, e.Findings)
	}
	return e.Findings[i]
}

func codes(e coordinator.Explanation) (out []coordinator.FindingCode) {
	for _, f := range e.Findings {
		out = append(out, f.Code)
	}
	return out
}

func TestExplainNothing(t *testing.T) {
	t.Parallel()
	w := (&world{}).open(t)
	w.create("t", twophase.ModeOpen)
	w.commit("1", blind("t", "1"))
	if e := w.explain("t"); len(e.Findings) != 0 || e.Table.Name != "t" {
		t.Errorf("%+v", e)
	}
	_, err := w.catalog.Explain(w.ctx(), "nope", nil)
	wantReason(t, "no table", err, coordinator.TableNotFound)
}

// A diverged table: what froze it and since when, what cannot be delivered, which
// round waits, who did it.
func TestExplainDivergedTable(t *testing.T) {
	t.Parallel()
	gate := newGate()
	w := &world{wrapObjects: gate.over}
	w.open(t)
	w.create("t", twophase.ModeOpen)
	w.create("beside", twophase.ModeOpen)
	w.commit("seed", change("t", blindRead, add("1"), add("2")), blind("beside", "1"))
	gate.hold(commitKey("t", 2))
	w.abandoned("t", once("k", change("t", readAt(1), remove("1"), add("3")), blind("beside", "2")))
	before := time.Now().Add(-time.Second)
	if e := w.explain("t"); !slices.Contains(codes(e), coordinator.FoundChangesPending) {
		t.Errorf("pending: %+v", e.Findings)
	}
	w.foreign("t", 2, []byte(`{"commitInfo":{"engineInfo":"delta-rs:1.6.6","operation":"DELETE"}}`+"\n"), remove("1"), add("4"))
	gate.release()
	w.eventually("it diverged", func() bool { return w.info("t").Frozen != nil })
	w.eventually("the other version is put", func() bool { return w.versions("beside") == 3 })

	e := w.explain("t")
	frozen := found(t, e, coordinator.FoundFrozen)
	if !frozen.Blocks || frozen.Key != "k" || frozen.Rule != twophase.RulePathMissing || frozen.Path != "1" || frozen.Since.Before(before) || !cmp.Equal(frozen.Tables, []string{"beside"}) ||
		!strings.Contains(frozen.Text, "diverged") || !strings.Contains(frozen.Remedy, "resolve t") {
		t.Errorf("%+v", frozen)
	}
	given := found(t, e, coordinator.FoundGivenUp)
	if given.Rule != twophase.RulePathMissing || given.Path != "1" || !strings.Contains(given.Text, "path missing 1") || given.Winner != "delta-rs:1.6.6" || given.Key != "k" {
		t.Errorf("%+v", given)
	}
	if round := found(t, e, coordinator.FoundRoundOpen); !strings.Contains(round.Text, "t is frozen (diverged)") {
		t.Errorf("%+v", round)
	}
	guest := found(t, e, coordinator.FoundForeignCommits)
	if guest.Winner != "delta-rs:1.6.6" || guest.Version != 2 || guest.Blocks {
		t.Errorf("%+v", guest)
	}
	if beside := found(t, w.explain("beside"), coordinator.FoundFrozen); !strings.Contains(beside.Text, "on table t") || !strings.Contains(beside.Remedy, "resolve beside") {
		t.Errorf("%+v", beside)
	}
	hidden, err := w.catalog.Explain(w.ctx(), "beside", func(name string) bool { return name == "beside" })
	if err != nil {
		t.Fatal(err)
	}
	if f := found(t, hidden, coordinator.FoundFrozen); strings.Contains(f.Text, "path") || strings.Contains(f.Text, "table t,") || f.Path != "" || f.Rule != 0 || len(f.Tables) > 0 {
		t.Errorf("to who may not see t: %+v", f)
	}
	if f := w.info("beside").Frozen; f.Origin != w.info("t").ID || !strings.Contains(f.Detail, "path") {
		t.Errorf("%+v", f)
	}
	if f := w.status().Frozen[0]; f.Since.Before(before) {
		t.Errorf("since %s", f.Since)
	}

	// It stays after a restart, since the fold holds it; a plan that has become another
	// one is not carried out.
	w.stop()
	w.start()
	if f := found(t, w.explain("t"), coordinator.FoundForeignCommits); f.Version != 2 {
		t.Errorf("after a restart: %+v", f)
	}
	plan, err := w.catalog.Resolve(w.ctx(), coordinator.ResolveRequest{Table: "t", Preview: true})
	if err != nil || plan.GivenUp[0].Conflict.Path != "1" {
		t.Fatalf("%+v, %v", plan, err)
	}
	_, err = w.catalog.Resolve(w.ctx(), coordinator.ResolveRequest{Table: "t", Plan: "another"})
	wantReason(t, "another plan", err, coordinator.PlanChanged)
	_, err = w.catalog.Resolve(w.ctx(), coordinator.ResolveRequest{Table: "t", GiveUp: true})
	wantReason(t, "giving up what diverged", err, coordinator.InvalidRequest)
	done, err := w.catalog.Resolve(w.ctx(), coordinator.ResolveRequest{Table: "t", Plan: plan.Plan})
	if err != nil || done.Plan != plan.Plan || done.Table.Frozen != nil || !cmp.Equal(done.GivenUp, plan.GivenUp) {
		t.Errorf("%+v, %v", done, err)
	}
	w.eventually("published", func() bool { return len(w.status().Rounds) == 0 })
	if got := codes(w.explain("t")); !cmp.Equal(got, []coordinator.FindingCode{coordinator.FoundForeignCommits}) {
		t.Errorf("afterwards: %v", got)
	}
}

// Who judges a foreign commit knows hashes of paths: it reads the staged part for the path, so
// that the record has it, and it is there when the part is gone. If the part could not be
// read then, it is read when somebody asks.
func TestPathOfALostChange(t *testing.T) {
	t.Parallel()
	for _, readable := range []bool{true, false} {
		t.Run(fmt.Sprintf("readable %v", readable), func(t *testing.T) {
			t.Parallel()
			w := &world{}
			w.cfg.Limits.InlineBytes = 1
			gate := newGate()
			w.wrapObjects = gate.over
			w.open(t)
			w.create("t", twophase.ModeOpen)
			w.commit("seed", change("t", blindRead, add("a%20b"), add("2")))
			w.settle()
			gate.refuse()
			w.abandoned("t", once("k", change("t", readAt(1), remove("a%20b"), add("3"))))
			w.stop()
			w.foreign("t", 2, remove("a%20b"), add("4"))
			var down atomic.Bool
			down.Store(!readable)
			w.wrapObjects = func(s objstore.Store) objstore.Store {
				return objtest.Faulty{Store: s, Hook: func(_ context.Context, op objtest.Op) objtest.Fate {
					if op.Kind == objtest.Get && strings.Contains(op.Key, "/staged/") && down.Load() {
						return objtest.Refused()
					}
					return objtest.Done()
				}}
			}
			w.start() // by a process that has not staged it
			w.eventually("it diverged", func() bool { f := w.info("t").Frozen; return f != nil && f.Cause == twophase.CauseDiverged })
			if detail := w.info("t").Frozen.Detail; strings.Contains(detail, "sha256:") == readable {
				t.Errorf("the record says %s", detail)
			}
			down.Store(false)
			want := func(what, path string) {
				t.Helper()
				if path != "a b" {
					t.Errorf("%s: path %q", what, path)
				}
			}
			e := w.explain("t")
			want("why", found(t, e, coordinator.FoundGivenUp).Path)
			want("why frozen", found(t, e, coordinator.FoundFrozen).Path)
			if f := found(t, e, coordinator.FoundGivenUp); strings.Contains(f.Text, "sha256") {
				t.Errorf("%s", f.Text)
			}
			plan, err := w.catalog.Resolve(w.ctx(), coordinator.ResolveRequest{Table: "t", Preview: true})
			if err != nil {
				t.Fatal(err)
			}
			want("resolve", plan.GivenUp[0].Conflict.Path)
			asked := func() string {
				o, _, err := w.catalog.Outcome(w.ctx(), coordinator.OutcomeRequest{OutcomeRef: coordinator.OutcomeRef{Key: "k"}})
				if err != nil {
					t.Fatal(err)
				}
				return o.Committed.Tables[0].Conflict.Path
			}
			want("the outcome", asked())
			if err := w.resolve("t"); err != nil {
				t.Fatal(err)
			}
			w.settle()
			if readable {
				want("the outcome, when the part is swept", asked())
			}
		})
	}
}

func TestExplainUnexpectedWriter(t *testing.T) {
	t.Parallel()
	w := (&world{}).open(t)
	w.create("t", twophase.ModeExclusive)
	w.commit("1", blind("t", "1"))
	w.foreign("t", 2, add("x"))
	w.commit("2", blind("t", "2"))
	f := found(t, w.explain("t"), coordinator.FoundUnexpectedWriter)
	if f.Version != 2 || !strings.Contains(f.Text, "exclusive") || !strings.Contains(f.Text, "other/1") {
		t.Errorf("%+v", f)
	}
}

// Settings that refuse commits, that are ignored, and that are short.
func TestExplainSettings(t *testing.T) {
	t.Parallel()
	w := (&world{}).open(t)
	w.create("t", twophase.ModeOpen)
	id := w.info("t").MetaDataID
	w.foreign("t", 1, fmt.Appendf(nil, `{"metaData":{"id":%q,"format":{"provider":"parquet","options":{}},"schemaString":%q,"partitionColumns":[],"configuration":{`+
		`"delta.logRetentionDuration":"interval 2 hours","delta.checkpointInterval":"often","delta.deletedFileRetentionDuration":"interval 1 hour"},"createdTime":1}}`+"\n", id, schema))
	wantReason(t, "staged before", second(w.try("1", blind("t", "1"))), coordinator.Conflicted)
	own := wantReason(t, "a commit", second(w.try("2", blind("t", "1"))), coordinator.TableProperty)
	e := w.explain("t")
	property := found(t, e, coordinator.FoundTableProperty)
	if !property.Blocks || property.Property != "delta.logRetentionDuration" || property.Remedy != own.Field.Remedy {
		t.Errorf("%+v", property)
	}
	if f := found(t, e, coordinator.FoundPropertyIgnored); f.Blocks || f.Property != "delta.checkpointInterval" || !strings.Contains(f.Text, "10 is used") {
		t.Errorf("%+v", f)
	}
	found(t, e, coordinator.FoundRetention)
}

// A contradiction: the operator mends the log and resolves, or gives the table up.
func TestContradictionIsGivenUp(t *testing.T) {
	t.Parallel()
	clock := &clock{}
	w := &world{}
	w.cfg.Boot = clock.now
	w.open(t)
	w.create("t", twophase.ModeOpen)
	w.create("beside", twophase.ModeOpen)
	w.commit("1", blind("t", "1"))
	w.rawCommit("t", 2, strings.ReplaceAll(w.read("t", 1), "1.parquet", "forged.parquet"))
	wantReason(t, "a commit on it", second(w.try("2", blind("t", "2"), blind("beside", "2"))), coordinator.LogContradiction)
	f := found(t, w.explain("t"), coordinator.FoundFrozen)
	if !strings.Contains(f.Remedy, "--give-up") || !strings.Contains(f.Text, "contradict") {
		t.Errorf("%+v", f)
	}
	q := coordinator.ResolveRequest{Table: "t", GiveUp: true, Preview: true, Reason: "nobody has the file"}
	plan, err := w.catalog.Resolve(w.ctx(), q)
	if err != nil || len(plan.Steps) != 1 || plan.Steps[0].Kind != "replaced" || w.info("t").Frozen.Cause != twophase.CauseContradiction {
		t.Fatalf("%+v, %v", plan, err)
	}
	q.Preview, q.Plan = false, plan.Plan
	if _, err := w.catalog.Resolve(w.ctx(), q); err != nil {
		t.Fatal(err)
	}
	if f := w.info("t").Frozen; f.Cause != twophase.CauseReplaced || !strings.Contains(f.Detail, "nobody has the file") {
		t.Errorf("%+v", f)
	}
	wantReason(t, "at once", w.resolve("t"), coordinator.TooEarly)
	if plan, err := w.catalog.Resolve(w.ctx(), coordinator.ResolveRequest{Table: "t", Preview: true}); err != nil || plan.NotBefore.IsZero() {
		t.Errorf("preview: %+v, %v", plan, err)
	}
	clock.advance(11 * time.Minute)
	if err := w.resolve("t"); err != nil {
		t.Fatal(err)
	}
	if f := found(t, w.explain("t"), coordinator.FoundClosed); !strings.Contains(f.Remedy, "release t") {
		t.Errorf("%+v", f)
	}
	wantReason(t, "again", w.resolve("t"), coordinator.NothingToResolve)
	w.commit("beside goes on", blind("beside", "3"))
	if err := w.catalog.Release(w.ctx(), "t", false); err != nil {
		t.Error(err)
	}
}

// Maintenance by the catalog's own configuration, and where there is none.
func TestMaintainByRequest(t *testing.T) {
	t.Parallel()
	w := (&world{}).open(t)
	w.create("t", twophase.ModeOpen)
	_, err := w.catalog.Maintain(w.ctx(), coordinator.MaintainRequest{Table: "t"})
	wantReason(t, "no maintenance", err, coordinator.MaintenanceOff)
	w.stop()
	w.cfg.Maintain = &coordinator.MaintainConfig{Format: checkpoint.Format(), TempDir: t.TempDir()}
	w.start()
	w.commit("1", blind("t", "1"))
	r, err := w.catalog.Maintain(w.ctx(), coordinator.MaintainRequest{Table: "t", DryRun: true})
	if err != nil || !r.Checkpoint.Written || w.explain("t").Table.Version != 1 {
		t.Errorf("%+v, %v", r, err)
	}
	if r, err = w.catalog.Maintain(w.ctx(), coordinator.MaintainRequest{Table: "t"}); err != nil || r.Checkpoint.Adds != 1 {
		t.Errorf("%+v, %v", r, err)
	}
	_, err = w.catalog.Maintain(w.ctx(), coordinator.MaintainRequest{Table: "nope"})
	wantReason(t, "no table", err, coordinator.TableNotFound)
}
