package coordinator_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/txcoord/txcoord/coordinator"
	"github.com/txcoord/txcoord/lock/memstore"
	"github.com/txcoord/txcoord/twophase"
)

// keyOutcome is what a key's outcome is.
func (w *world) keyOutcome(key string) coordinator.Outcome {
	w.t.Helper()
	o, _, err := w.catalog.Outcome(w.ctx(), coordinator.OutcomeRequest{OutcomeRef: coordinator.OutcomeRef{Key: key}})
	if err != nil || o.Committed == nil {
		w.t.Fatalf("outcome of %s: %+v, %v", key, o, err)
	}
	return o
}

// A key that was forgotten and used again is known by the transaction that the journal knew
// last, and by nothing of the one before it.
func TestRebuildOfKeysThatWereUsedAgain(t *testing.T) {
	t.Parallel()
	w := usedAgain(t)
	weekly, thrice, narrow := w.holding("a", "weekly"), w.holding("a", "thrice"), w.holding("b", "narrow")
	r := w.rebuilt(coordinator.RebuildOptions{})
	if len(r.Torn) > 0 {
		t.Errorf("torn: %+v", r.Torn)
	}
	for key, version := range map[string]int{"weekly": weekly[1], "thrice": thrice[2]} {
		o := w.keyOutcome(key)
		if len(o.Committed.Tables) != 2 || o.Committed.Tables[0].Version != twophase.Version(version) && o.Committed.Tables[1].Version != twophase.Version(version) {
			t.Errorf("%s is in version %d of a, and said to be in %+v", key, version, o.Committed.Tables)
		}
	}
	if got := w.keyOutcome("narrow").Committed.Tables; len(got) != 1 || got[0].Version != twophase.Version(narrow[1]) {
		t.Errorf("narrow is in version %d of b alone, and said to be in %+v", narrow[1], got)
	}
	w.commit("weekly", blind("a", "weekly 2"), blind("b", "weekly 2"))
	w.commit("thrice", blind("a", "thrice 3"), blind("b", "thrice 3"))
	wantReason(t, "the forgotten call", second(w.try("weekly", blind("a", "weekly 1"), blind("b", "weekly 1"))), coordinator.OtherDigests)
	if n := len(w.holding("a", "weekly")); n != 2 {
		t.Errorf("weekly is in %d versions of a", n)
	}
	w.settle()
	w.wantFindings("rebuilt", w.fsck(""))
}

// A transaction that the manifests show, and whose part in one log was cleaned since, is not
// called given up there; the same call finds it done.
func TestRebuildOfAPartThatWasCleaned(t *testing.T) {
	t.Parallel()
	w := &world{}
	w.cfg.Limits.ManifestSnapshots = 1
	w.open(t)
	w.create("a", twophase.ModeExclusive)
	w.createWith(coordinator.CreateRequest{Name: "b", Schema: schema, Mode: twophase.ModeExclusive, Properties: map[string]string{"delta.checkpointPolicy": "v2"}})
	done := w.commit("both", blind("a", "1"), blind("b", "1"))
	for i := range 3 {
		w.commit(fmt.Sprint("later ", i), blind("b", fmt.Sprint("later ", i)))
	}
	w.settle()
	w.checkpointed("b", 2, 2, "1", "later 0")
	w.stop()
	r := w.rebuilt(coordinator.RebuildOptions{})
	if len(r.Torn) > 0 || r.Since.IsZero() {
		t.Errorf("torn %+v, known since %s", r.Torn, r.Since)
	}
	o := w.keyOutcome("both")
	if len(o.Committed.Tables) != 1 || o.Committed.Tables[0].Name != "a" || o.Committed.Tables[0].Status != twophase.StatusPublished || o.Committed.Snapshot != done.Committed.Snapshot {
		t.Errorf("it is whole, and said to be %+v", o.Committed)
	}
	again := w.commit("both", blind("a", "1"), blind("b", "1"))
	if again.Txn != done.Txn || w.versions("a") != 2 {
		t.Errorf("the same call: %+v; %d versions of a", again, w.versions("a"))
	}
	wantReason(t, "another call under its key", second(w.try("both", blind("a", "2"), blind("b", "1"))), coordinator.OtherDigests)
}

// stagedFinding reports whether a key's transaction is named as staged.
func (w *world) stagedFinding(r *coordinator.RebuildReport, key string) bool {
	id := twophase.DeriveTxnID(r.Catalog, key, 1)
	return slices.Contains(rebuildFindings(r), "STAGED "+id.String())
}

func (w *world) planned() *coordinator.RebuildReport {
	w.t.Helper()
	r, err := w.rebuild(memstore.New(memstore.Config{}), coordinator.RebuildOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	return r
}

// Positions of two lives say nothing of each other. In a longer life a key was published; in
// the next one, which is short yet, it was forgotten, begun again and staged: that is named.
func TestRebuildNamesWhatALaterLifeHasStaged(t *testing.T) {
	t.Parallel()
	w := &world{}
	w.cfg.Limits = coordinator.Limits{OutcomeCount: 10, PollInterval: 5 * time.Millisecond, CheckpointEvery: 200, InlineBytes: 1}
	w.open(t)
	w.create("a", twophase.ModeExclusive)
	for i := range 300 { // rounds
		w.commit(fmt.Sprint("long ", i), blind("a", fmt.Sprint("long ", i)))
	}
	w.commit("again", blind("a", "again 1"))
	w.settle()
	w.stop()
	w.rebuilt(coordinator.RebuildOptions{})
	w.untilForgotten("short ", "again")
	w.settle()
	w.stop()
	if w.stagedFinding(w.planned(), "again") {
		t.Error("named, and nothing is staged")
	}
	w.start()
	w.stage(w.begin("again").Token, blind("a", "again 2"))
	w.stop()
	if r := w.planned(); !w.stagedFinding(r, "again") {
		t.Errorf("it is not among %v", rebuildFindings(r))
	}
}

// In a longer life a key was staged, and never committed; in the next one it was published.
// What the first has left is no open transaction.
func TestRebuildDoesNotNameWhatALifeBeforeHasStaged(t *testing.T) {
	t.Parallel()
	w := &world{}
	w.cfg.Limits.InlineBytes = 1
	w.open(t)
	w.create("a", twophase.ModeExclusive)
	for i := range 50 {
		w.commit(fmt.Sprint("long ", i), blind("a", fmt.Sprint("long ", i)))
	}
	w.settle()
	w.stage(w.begin("later").Token, blind("a", "later"))
	w.stop()
	if r := w.planned(); !w.stagedFinding(r, "later") {
		t.Fatalf("it is open, and not among %v", rebuildFindings(r))
	}
	w.rebuilt(coordinator.RebuildOptions{})
	w.commit("later", blind("a", "later"))
	w.stop()
	left := 0
	for key := range w.keys() {
		if strings.Contains(key, "/staged/") && strings.Contains(key, twophase.DeriveTxnID(w.meta().Catalog, "later", 1).String()) {
			left++
		}
	}
	if left == 0 {
		t.Error("the first life has left nothing")
	}
	if r := w.planned(); w.stagedFinding(r, "later") {
		t.Errorf("it is published: %v", rebuildFindings(r))
	}
}
