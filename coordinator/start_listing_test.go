package coordinator_test

import (
	"testing"

	"github.com/txcoord/txcoord/coordinator"
	"github.com/txcoord/txcoord/tables/objstore"
	"github.com/txcoord/txcoord/tables/objstore/objtest"
	"github.com/txcoord/txcoord/twophase"
)

// After a start a table is read for the calls that were repeated, and for the publisher of an
// open round, who has to see the log's end as well (R9). One listing serves for all: a folder
// of 20,000 versions is read as a whole for each.
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
	w.abandoned("t", once("k", blind("t", "k")))
	w.restart()
	var done []chan error
	for _, key := range []string{"k", "a", "b", "c"} {
		done = append(done, w.background(key, blind("t", key)))
	}
	w.eventually("all are decided", func() bool { return w.info("t").Pending == 4 })
	gate.release() // a view that is read after the publication wants a version that was not listed
	for _, d := range done {
		w.must(<-d)
	}
	if n := counts.Counts()[objtest.Call{Kind: objtest.List, Class: "log"}]; n != 1 {
		t.Errorf("the log was listed %d times", n)
	}
	w.check(closedRun{committed: []coordinator.Outcome{w.commit("k", blind("t", "k"))}})
}
