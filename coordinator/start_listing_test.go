package coordinator_test

import (
	"testing"

	"github.com/txcoord/txcoord/coordinator"
	"github.com/txcoord/txcoord/tables/objstore"
	"github.com/txcoord/txcoord/tables/objstore/objtest"
	"github.com/txcoord/txcoord/twophase"
)

// After a start a table with an open round is read for its tail, by a listing of its log. The
// publisher sees the log's end in that one (R9): a folder of 20,000 versions is not read twice.
func TestStartListsALogOnce(t *testing.T) {
	t.Parallel()
	gate := newGate()
	var counts *objtest.Counting
	w := &world{}
	w.wrapObjects = func(s objstore.Store) objstore.Store {
		counts = objtest.NewCounting(gate.over(s), nil)
		return counts
	}
	w.open(t)
	w.create("t", twophase.ModeExclusive)
	w.commit("before", blind("t", "1"))
	w.settle()
	gate.refuse()
	w.abandoned("t", once("k", blind("t", "2")))
	w.restart()
	gate.release()
	w.eventually("it is published", func() bool { return w.snapshot(0)["t"] == 2 })
	if n := counts.Counts()[objtest.Call{Kind: objtest.List, Class: "log"}]; n != 1 {
		t.Errorf("the log was listed %d times", n)
	}
	w.check(closedRun{committed: []coordinator.Outcome{w.commit("k", blind("t", "2"))}})
}
