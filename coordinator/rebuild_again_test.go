package coordinator_test

import (
	"fmt"
	"testing"

	"github.com/txcoord/txcoord/coordinator"
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
