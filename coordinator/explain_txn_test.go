package coordinator_test

import (
	"strings"
	"testing"
	"time"

	"github.com/txcoord/txcoord/coordinator"
	"github.com/txcoord/txcoord/twophase"
)

func (w *world) explainTxn(ref coordinator.OutcomeRef, sees func(string) bool) coordinator.TxnExplanation {
	w.t.Helper()
	x, err := w.catalog.ExplainTxn(w.ctx(), ref, sees)
	if err != nil {
		w.t.Fatal(err)
	}
	return x
}

// A change that another engine made impossible: before and after the operator's word.
func TestExplainTxnGivenUp(t *testing.T) {
	t.Parallel()
	gate := newGate()
	w := &world{wrapObjects: gate.over}
	w.open(t)
	w.create("t", twophase.ModeOpen)
	w.create("beside", twophase.ModeOpen)
	w.commit("seed", change("t", blindRead, add("1"), add("2")), blind("beside", "1"))
	gate.hold(commitKey("t", 2))
	w.abandoned("t", once("k", change("t", readAt(1), remove("1"), add("3")), blind("beside", "2")))
	key := coordinator.OutcomeRef{Key: "k"}
	if x := w.explainTxn(key, nil); x.State != coordinator.TxnWaiting || x.Round == nil || len(x.Round.Tables) != 2 {
		t.Errorf("waiting: %+v", x)
	}
	w.foreign("t", 2, []byte(`{"commitInfo":{"engineInfo":"delta-rs:1.6.6","operation":"DELETE"}}`+"\n"), remove("1"), add("4"))
	gate.release()
	w.eventually("it diverged", func() bool { return w.info("t").Frozen != nil })
	x := w.explainTxn(key, nil)
	if x.State != coordinator.TxnGivenUp || x.Winner == nil || x.Winner.Engine != "delta-rs:1.6.6" || x.Winner.Version != 2 || x.Winner.Operation != "DELETE" || !x.Winner.Probable || !strings.Contains(x.Remedy, "txcoord tables resolve t,") ||
		!strings.Contains(x.Text, "t (a file that it removes is not in the table: 1") || len(x.Obstacles) == 0 {
		t.Errorf("given up: %+v", x)
	}
	// Who may not see the table is told nothing of it.
	hidden := w.explainTxn(key, func(name string) bool { return name == "beside" })
	if strings.Contains(hidden.Text, "t (") || hidden.Winner != nil || hidden.Round == nil || len(hidden.Round.Tables) != 1 {
		t.Errorf("hidden: %+v", hidden)
	}
	for _, o := range hidden.Obstacles {
		if o.Table != "beside" {
			t.Errorf("names %s", o.Table)
		}
	}
	if err := w.resolve("t"); err != nil {
		t.Fatal(err)
	}
	w.eventually("it is published", func() bool { return w.explainTxn(key, nil).Outcome.Committed.Snapshot != 0 })
	if x := w.explainTxn(key, nil); x.State != coordinator.TxnGivenUp || len(x.Obstacles) != 0 || x.Round != nil {
		t.Errorf("settled: %+v", x)
	}
}

// A token from before what the catalog remembers.
func TestExplainTxnForgotten(t *testing.T) {
	t.Parallel()
	w := (&world{}).open(t)
	w.create("t", twophase.ModeOpen)
	old := w.begin("old")
	w.commit("old", blind("t", "1"))
	w.eventually("the manifest is written", func() bool { return w.status().ManifestSnapshot == w.status().Shown })
	if err := w.catalog.Append(w.ctx(), &twophase.FloorRaised{Floor: w.status().Position}); err != nil {
		t.Fatal(err)
	}
	if x := w.explainTxn(coordinator.OutcomeRef{Token: old.Token}, nil); x.State != coordinator.TxnForgotten || !strings.Contains(x.Text, "older than what the catalog remembers") {
		t.Errorf("by token: %+v", x)
	}
	if x := w.explainTxn(coordinator.OutcomeRef{Txn: old.Txn}, nil); x.State != coordinator.TxnUnknown || x.Outcome.Txn != old.Txn {
		t.Errorf("by id: %+v", x)
	}
}

// A commit that a frozen table refuses is in no record: what tells more is named, be it
// staged or not.
func TestExplainTxnOfARefusedCommit(t *testing.T) {
	t.Parallel()
	w := (&world{}).open(t)
	w.create("t", twophase.ModeOpen)
	staged := w.begin("staged")
	if _, err := w.catalog.Stage(w.ctx(), coordinator.StageRequest{Token: staged.Token, Table: "t", Read: blindRead, Actions: []byte(add("1"))}); err != nil {
		t.Fatal(err)
	}
	if _, err := w.catalog.FreezeTable(w.ctx(), "t", "no writes"); err != nil {
		t.Fatal(err)
	}
	wantReason(t, "a commit", second(w.try("refused", blind("t", "2"))), coordinator.TableFrozen)
	for key, want := range map[string]string{
		"staged": "mended (txcoord tables why t)", "refused": "txcoord tables why NAME", w.begin("empty").Key: "txcoord tables why NAME",
	} {
		x := w.explainTxn(coordinator.OutcomeRef{Key: key}, nil)
		if !strings.Contains(x.Text+"; "+x.Remedy, want) {
			t.Errorf("%s: %s\n%s", key, x.Text, x.Remedy)
		}
	}
}

// What was aborted before a rebuild is not known: it is said, and since when.
func TestExplainTxnAfterARebuild(t *testing.T) {
	t.Parallel()
	w := (&world{}).open(t)
	w.create("t", twophase.ModeOpen)
	if _, err := w.catalog.Abort(w.ctx(), coordinator.OutcomeRef{Token: w.begin("lost").Token}, "no more"); err != nil {
		t.Fatal(err)
	}
	w.commit("done", blind("t", "1"))
	w.settle()
	if x := w.explainTxn(coordinator.OutcomeRef{Key: "never"}, nil); strings.Contains(x.Text, "rebuilt") {
		t.Errorf("it was never rebuilt: %s", x.Text)
	}
	w.stop()
	w.rebuilt(coordinator.RebuildOptions{})
	page, err := w.catalog.Snapshots(w.ctx(), "", 1, "")
	if err != nil || len(page.Snapshots) != 1 {
		t.Fatal(page, err)
	}
	at := page.Snapshots[0].Time.UTC().Format(time.RFC3339)
	x := w.explainTxn(coordinator.OutcomeRef{Key: "lost"}, nil)
	if x.State != coordinator.TxnUnknown || !strings.Contains(x.Text, "decided since "+at) || !strings.Contains(x.Text, "the catalog was rebuilt") || !strings.Contains(x.Text, "what was aborted, or was open, is not known") {
		t.Errorf("an abort of before: %s", x.Text)
	}
	if done := w.explainTxn(coordinator.OutcomeRef{Key: "done"}, nil); done.State != coordinator.TxnPublished {
		t.Errorf("a commit of before: %s", done.Text)
	}
}

// An operator's freeze outlives a restart, is seen by other freezes' ends, and by replicas.
func TestFreezeTable(t *testing.T) {
	t.Parallel()
	w := (&world{}).open(t)
	w.create("t", twophase.ModeOpen)
	if _, err := w.catalog.FreezeTable(w.ctx(), "t", "no writes\ntonight"); err == nil {
		t.Error("a reason of two lines is taken")
	}
	for range 2 {
		info, err := w.catalog.FreezeTable(w.ctx(), "t", "no writes tonight")
		if err != nil || info.Frozen == nil || info.Frozen.Cause != twophase.CauseOperator || !info.Frozen.Held || info.Frozen.Detail != "no writes tonight" {
			t.Fatalf("%+v, %v", info.Frozen, err)
		}
	}
	position := w.status().Position
	w.stop()
	w.start()
	if w.status().Position != position {
		t.Error("freezing it again wrote something")
	}
	_, err := w.try("k", blind("t", "1"))
	wantReason(t, "a commit on a frozen table", err, coordinator.TableFrozen)
	_, err = w.catalog.FreezeTable(w.ctx(), "nope", "")
	wantReason(t, "no table", err, coordinator.TableNotFound)
	for range 2 {
		info, err := w.catalog.UnfreezeTable(w.ctx(), "t", "")
		if err != nil || info.Frozen != nil {
			t.Fatalf("%+v, %v", info.Frozen, err)
		}
	}
	w.commit("k", blind("t", "1"))
}

// What others commit on a table that an operator froze is history as before, and another
// replica refuses as well.
func TestFrozenTableIsFollowed(t *testing.T) {
	t.Parallel()
	w := sharedWorld("", time.Second)
	w.cfg.Limits.PollInterval = 20 * time.Millisecond
	w.open(t)
	w.create("t", twophase.ModeOpen)
	other := w.replica(t, nil)
	if _, err := w.catalog.FreezeTable(w.ctx(), "t", "audit"); err != nil {
		t.Fatal(err)
	}
	w.foreign("t", 1, add("f"))
	w.eventually("the foreign version is in a snapshot", func() bool { return w.info("t").Version == 1 })
	_, err := other.try("k", blind("t", "1"))
	wantReason(t, "a commit at another replica", err, coordinator.TableFrozen)
	if _, err := other.catalog.UnfreezeTable(w.ctx(), "t", "done"); err != nil {
		t.Fatal(err)
	}
	if info, err := w.catalog.UnfreezeTable(w.ctx(), "t", "done"); err != nil || info.Frozen != nil {
		t.Errorf("%+v, %v", info.Frozen, err)
	}
	w.commit("k", blind("t", "1"))
}

// A transaction that was begun at another replica is found, and ended, at this one.
func TestForceAbortElsewhere(t *testing.T) {
	t.Parallel()
	w := sharedWorld("", time.Second)
	w.cfg.Limits.Heartbeat = time.Minute // so that this one has not looked yet
	w.open(t)
	w.create("t", twophase.ModeOpen)
	other := w.replica(t, nil)
	begun := other.begin("k")
	w.eventually("it is noted", func() bool { return w.hasStoreKey("open/" + begun.Txn.String()) })
	ref := coordinator.OutcomeRef{Txn: begun.Txn}
	if x := w.explainTxn(ref, nil); x.State != coordinator.TxnOpen || x.Open == nil || x.Open.Key != "k" {
		t.Errorf("%+v", x)
	}
	o, err := w.catalog.Abort(w.ctx(), ref, "in the way")
	if err != nil || o.Aborted == nil || o.Aborted.Rule != twophase.RuleOperator || o.Key != "k" {
		t.Fatalf("%+v, %v", o, err)
	}
	_, err = other.catalog.Commit(w.ctx(), coordinator.CommitRequest{Token: begun.Token, Tables: []coordinator.TableParts{parts("t", twophase.Digest{1})}})
	wantReason(t, "its commit", err, coordinator.Aborted)
}
