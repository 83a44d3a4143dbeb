package coordinator_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/txcoord/txcoord/tables/objstore"
	"github.com/txcoord/txcoord/tables/objstore/objtest"
	"github.com/txcoord/txcoord/twophase"
)

// A start reads the commits of a table in a local folder a few at a time: each takes a thread
// while the disk hangs, and there are as many tables as clients ask for.
func TestFewCommitsOfAFolderAtOnce(t *testing.T) {
	t.Parallel()
	var now, most atomic.Int64
	w := &world{wrapObjects: func(s objstore.Store) objstore.Store {
		return objtest.Faulty{Store: s, Hook: func(_ context.Context, op objtest.Op) objtest.Fate {
			if op.Kind == objtest.Get && objtest.Layout(op.Key) == "commit" {
				most.Store(max(most.Load(), now.Add(1)))
				time.Sleep(time.Millisecond)
				now.Add(-1)
			}
			return objtest.Done()
		}}
	}}
	w.cfg.Limits.FileReadAhead, w.cfg.Limits.FileExtractEvery = 5, 1<<30
	w.open(t)
	w.create("t", twophase.ModeExclusive)
	for i := range 40 {
		w.commit(fmt.Sprint(i), blind("t", fmt.Sprint(i)))
	}
	w.stop()
	most.Store(0)
	w.start()
	w.commit("after", blind("t", "after"))
	if n := most.Load(); n < 2 || n > 5 {
		t.Errorf("%d commits were read at once", n)
	}
}
