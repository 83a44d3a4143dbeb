package coordinator_test

import (
	"context"
	"fmt"
	"iter"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/txcoord/txcoord/coordinator"
	"github.com/txcoord/txcoord/tables/objstore"
	"github.com/txcoord/txcoord/twophase"
)

// requests counts those for manifests.
type requests struct {
	objstore.Store
	n *atomic.Int64
}

func (s requests) Get(ctx context.Context, key string, r objstore.Range) ([]byte, objstore.Info, error) {
	s.count(key)
	return s.Store.Get(ctx, key, r)
}

func (s requests) List(ctx context.Context, o objstore.ListOptions) iter.Seq2[objstore.Entry, error] {
	s.count(o.Prefix)
	return s.Store.List(ctx, o)
}

func (s requests) count(key string) {
	if strings.Contains(key, "/manifests/") {
		s.n.Add(1)
	}
}

// TestMapEveryChanges: history that begins with a full map stays readable from there with
// any other distance of maps, and the map is found by few requests.
func TestMapEveryChanges(t *testing.T) {
	t.Parallel()
	var n atomic.Int64
	w := &world{wrapObjects: func(s objstore.Store) objstore.Store { return requests{s, &n} }}
	w.cfg.Limits = coordinator.Limits{OutcomeCount: 20, MapEvery: 75, PollInterval: 2 * time.Millisecond}
	w.open(t)
	w.create("t", twophase.ModeExclusive)
	for i := range 300 {
		w.commit(fmt.Sprint(i), blind("t", fmt.Sprint(i)))
	}
	w.eventually("old snapshots are forgotten", func() bool { return w.status().RememberedSince.After(time.Unix(1, 0)) })
	w.settle()
	w.stop()
	for _, name := range w.manifests() {
		var k int
		if _, err := fmt.Sscanf(name, "%d.", &k); err != nil {
			t.Fatal(err)
		}
		if k < 75 || k == 75 && !strings.Contains(name, "checkpoint") {
			w.drop("_txcoord/default/manifests/0000000000000000" + name)
		}
	}
	for _, every := range []int{1000, 1, 7} {
		w.cfg.Limits.MapEvery = every
		w.start()
		for _, v := range []twophase.SnapshotVersion{75, 86, 149, 150, 151} {
			before := n.Load()
			if diff := cmp.Diff(map[string]twophase.Version{"t": twophase.Version(v) - 1}, w.snapshot(v)); diff != "" {
				t.Errorf("maps every %d: snapshot %d:\n%s", every, v, diff)
			}
			if got := n.Load() - before; every == 1 && v == 75 && got > 2 {
				t.Errorf("snapshot %d took %d requests", v, got)
			}
		}
		w.stop()
	}
}
