package coordinator_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/txcoord/txcoord/coordinator"
	"github.com/txcoord/txcoord/tables"
	"github.com/txcoord/txcoord/tables/checkpoint"
	"github.com/txcoord/txcoord/tables/objstore"
	"github.com/txcoord/txcoord/tables/objstore/objtest"
	"github.com/txcoord/txcoord/twophase"
)

// TestCleanUpStopsForALease: a clean-up of thousands of files takes minutes, and its process may
// be halted meanwhile. What another replica leases or tags then, as it can still be read, stays
// so.
func TestCleanUpStopsForALease(t *testing.T) {
	t.Parallel()
	for name, hold := range map[string]func(w *world, s twophase.SnapshotVersion) error{
		"lease": func(w *world, s twophase.SnapshotVersion) error {
			_, _, err := w.catalog.Lease(w.ctx(), coordinator.LeaseRequest{ID: "audit", Snapshot: s, TTL: time.Hour})
			return err
		},
		"tag": func(w *world, s twophase.SnapshotVersion) error { return second(w.catalog.Tag(w.ctx(), "audit", s)) },
	} {
		boot := &clock{}
		halted, goOn := make(chan struct{}), make(chan struct{})
		deletes := 0
		w := &tended{world: sharedWorld("", time.Minute)}
		w.cfg.Boot = boot.now
		w.cfg.Now = func() time.Time { return time.Now().Add(time.Duration(w.later.Load())) }
		w.wrapObjects = func(s objstore.Store) objstore.Store {
			return objtest.Faulty{Store: s, Hook: func(_ context.Context, op objtest.Op) objtest.Fate {
				if op.Kind == objtest.Delete && strings.HasPrefix(op.Key, "a/_delta_log/") {
					if deletes++; deletes == 2 {
						close(halted)
						<-goOn
						boot.advance(time.Minute)
					}
				}
				return objtest.Done()
			}}
		}
		w.open(t)
		w.create("a", twophase.ModeExclusive)
		m := w.maintainer(coordinator.MaintainConfig{})
		w.grow("a", 4)
		w.maintain(m, "a", false)
		w.grow("a", 1)
		snapshot := w.catalog.Shown()
		w.grow("a", 2)
		w.maintain(m, "a", false)
		two := w.replica(t, nil)
		w.later.Store(int64(month))
		cleaned := make(chan error, 1)
		go func() {
			_, err := m.Maintain(w.ctx(), coordinator.MaintainRequest{Table: "a"})
			cleaned <- err
		}()
		<-halted
		if err := hold(two, snapshot); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		close(goOn)
		t.Logf("%s: the clean-up ended with %v", name, <-cleaned)
		log := tables.NewLog(tables.LogConfig{Store: w.objects, Key: "a", URI: w.uri("a"), ReadCheckpoint: checkpoint.Read})
		if _, err := log.State(w.ctx(), 5); err != nil {
			t.Errorf("%s: what it names: %v", name, err)
		}
	}
}
