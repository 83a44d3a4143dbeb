package coordinator_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/txcoord/txcoord/coordinator"
	"github.com/txcoord/txcoord/lock/memstore"
	"github.com/txcoord/txcoord/tables/checkpoint"
	"github.com/txcoord/txcoord/tables/objstore"
	"github.com/txcoord/txcoord/tables/objstore/objtest"
	"github.com/txcoord/txcoord/twophase"
)

// readsAtOnce counts how many objects of a class are read at a time.
type readsAtOnce struct {
	mu        sync.Mutex
	now, most map[string]int
}

func (r *readsAtOnce) hook(_ context.Context, op objtest.Op) objtest.Fate {
	if op.Kind == objtest.Get {
		class := objtest.Layout(op.Key)
		r.count(class, 1)
		time.Sleep(time.Millisecond)
		r.count(class, -1)
	}
	return objtest.Done()
}

func (r *readsAtOnce) count(class string, by int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.now[class] += by
	r.most[class] = max(r.most[class], r.now[class])
}

// took is the most since it was asked before.
func (r *readsAtOnce) took(class string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	defer func() { r.most[class] = 0 }()
	return r.most[class]
}

// Commits of a table, and manifests, are read several at once, since each is a round trip;
// in a local folder a few at a time, since each takes a thread while the disk hangs, and
// there are as many tables as clients ask for.
func TestFewCommitsOfAFolderAtOnce(t *testing.T) {
	t.Parallel()
	reads := &readsAtOnce{now: map[string]int{}, most: map[string]int{}}
	w := &world{wrapObjects: func(s objstore.Store) objstore.Store { return objtest.Faulty{Store: s, Hook: reads.hook} }}
	w.cfg.Limits.FileReadAhead, w.cfg.Limits.FileExtractEvery, w.cfg.Limits.ManifestSnapshots = 5, 1<<30, 1
	w.open(t)
	w.create("t", twophase.ModeExclusive)
	for i := range 40 {
		w.commit(fmt.Sprint(i), blind("t", fmt.Sprint(i)))
	}
	w.stop()
	few := func(by string, classes ...string) {
		t.Helper()
		for _, class := range classes {
			if n := reads.took(class); n < 2 || n > 5 {
				t.Errorf("%s: %d of %s were read at once", by, n, class)
			}
		}
	}
	reads.took("commit")
	w.start()
	w.commit("after", blind("t", "after"))
	few("a start", "commit")
	w.stop()

	reads.took("manifests")
	cfg := w.cfg
	cfg.Store, cfg.Warehouse, cfg.ReadCheckpoint, cfg.Objects = w.store, "file://"+w.dir, checkpoint.Read, w
	if _, err := coordinator.Fsck(w.ctx(), cfg, ""); err != nil {
		t.Errorf("fsck: %v", err)
	}
	few("fsck", "commit", "manifests")
	if _, err := w.rebuild(memstore.New(memstore.Config{}), coordinator.RebuildOptions{}); err != nil {
		t.Errorf("rebuild: %v", err)
	}
	few("rebuild", "commit", "manifests")
}
