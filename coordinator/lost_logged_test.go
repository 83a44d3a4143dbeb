package coordinator_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/txcoord/txcoord/coordinator"
	"github.com/txcoord/txcoord/twophase"
)

// Both parts of a transaction are lost, and one of them stands in its table's log already,
// not recorded yet: that one needs no part. Neither why nor a resolve nor fsck says that it
// is lost, and the other table's word settles both.
func TestLostPartThatIsInTheLog(t *testing.T) {
	t.Parallel()
	gate := newGate()
	w := &world{wrapObjects: gate.over}
	w.cfg.Limits.FreezeAfter = 20 * time.Millisecond
	w.open(t)
	w.create("t", twophase.ModeOpen)
	w.create("beside", twophase.ModeOpen)
	w.commit("seed", blind("t", "1"), blind("beside", "1"))
	w.settle()
	gate.hold(commitKey("t", 2))
	w.abandoned("t", once("k", blind("t", "2"), blind("beside", "2")))
	w.eventually("the other table has its version", func() bool { return w.versions("beside") == 3 })
	w.stop()
	gate.release()
	for key := range w.keys() {
		if name, ok := strings.CutPrefix(key, "store: "); ok && strings.HasPrefix(name, "pay/") {
			if err := w.store.Delete(w.ctx(), name); err != nil {
				t.Fatal(err)
			}
		}
		if name, ok := strings.CutPrefix(key, "object: "); ok && strings.Contains(name, "/staged/") {
			w.drop(name)
		}
	}
	if w.versions("t") != 2 {
		t.Fatalf("t has %d versions", w.versions("t"))
	}
	missing := 0
	for _, f := range findings(w.fsck("")) {
		if strings.HasPrefix(f, "PAYLOAD_MISSING") {
			missing++
			if !strings.HasPrefix(f, "PAYLOAD_MISSING t ") {
				t.Errorf("%s", f)
			}
		}
	}
	if missing != 1 {
		t.Errorf("%d parts are missing", missing)
	}
	w.start()
	w.eventually("both are frozen", func() bool { return w.info("t").Frozen != nil && w.info("beside").Frozen != nil })
	if slices.ContainsFunc(w.explain("beside").Findings, func(f coordinator.Finding) bool { return f.Code == coordinator.FoundPartLost }) {
		t.Errorf("%+v", w.explain("beside").Findings)
	}
	found(t, w.explain("t"), coordinator.FoundPartLost)
	plan, err := w.catalog.Resolve(w.ctx(), coordinator.ResolveRequest{Table: "beside", GiveUp: true, Preview: true})
	if err != nil || len(plan.GivenUp) != 1 || plan.GivenUp[0].Table != "t" {
		t.Fatalf("%+v, %v", plan, err)
	}
	if _, err := w.catalog.Resolve(w.ctx(), coordinator.ResolveRequest{Table: "beside", GiveUp: true, Plan: plan.Plan}); err != nil {
		t.Fatal(err)
	}
	w.eventually("the round is published", func() bool { return len(w.status().Rounds) == 0 })
	w.commit("3", blind("t", "3"), blind("beside", "3"))
}
