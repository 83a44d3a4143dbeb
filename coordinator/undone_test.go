package coordinator_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/txcoord/txcoord/coordinator"
	"github.com/txcoord/txcoord/tables/objstore"
	"github.com/txcoord/txcoord/tables/objstore/objtest"
	"github.com/txcoord/txcoord/twophase"
)

// What the fold says of an earlier snapshot is what the manifests say, with tables that come
// and go; where it has forgotten what it needs for that, it says nothing.
func TestUndone(t *testing.T) {
	t.Parallel()
	for what, limits := range map[string]coordinator.Limits{
		"all of it": {MapEvery: 7}, "the rest": {MapEvery: 7, OutcomeCount: 15, PollInterval: 2 * time.Millisecond},
	} {
		w := &world{}
		w.cfg.Limits = limits
		w.open(t)
		rng := rand.New(rand.NewPCG(1, 2))
		var names [6]string // of the tables that there are
		for i := range 300 {
			at := rng.IntN(6)
			switch name, other := names[at], names[rng.IntN(6)]; {
			case name == "":
				names[at] = fmt.Sprint("t", i)
				w.create(names[at], twophase.ModeExclusive)
			case rng.IntN(8) == 0:
				w.must(w.catalog.Release(w.ctx(), name, false))
				names[at] = ""
			case other != "" && other != name:
				w.commit(fmt.Sprint(i), blind(name, fmt.Sprint(i)), blind(other, fmt.Sprint(i)))
			default:
				w.commit(fmt.Sprint(i), blind(name, fmt.Sprint(i)))
			}
		}
		w.settle()
		if limits.OutcomeCount > 0 {
			w.eventually("old snapshots are forgotten", func() bool { return w.status().RememberedSince.After(time.Unix(1, 0)) })
		}
		told, newest := 0, w.catalog.Shown()
		for v := twophase.SnapshotVersion(1); v < newest; v++ {
			undone, read, err := w.catalog.Undone(w.ctx(), v)
			if err != nil {
				t.Fatal(err)
			}
			if undone == nil {
				continue
			}
			told++
			if diff := cmp.Diff(read, undone); diff != "" {
				t.Errorf("%s: snapshot %d of %d (-read +undone):\n%s", what, v, newest, diff)
			}
		}
		if all := int(newest) - 1; told == 0 || (told == all) != (limits.OutcomeCount == 0) {
			t.Errorf("%s: the fold tells %d of %d", what, told, all)
		}
	}
}

// A start after which some snapshots have no manifest yet reads no more than the newest one:
// since the last full map there may be a thousand, each a round trip.
func TestStartReadsNoManifestsButTheNewest(t *testing.T) {
	t.Parallel()
	var n atomic.Int64
	var away atomic.Bool
	w := &world{wrapObjects: func(s objstore.Store) objstore.Store {
		return requests{objtest.Faulty{Store: s, Hook: func(_ context.Context, op objtest.Op) objtest.Fate {
			if away.Load() && op.Kind == objtest.PutIfAbsent && strings.Contains(op.Key, "/manifests/") {
				return objtest.Refused()
			}
			return objtest.Done()
		}}, &n}
	}}
	w.cfg.Limits = coordinator.Limits{OutcomeCount: 20, PollInterval: 2 * time.Millisecond, ManifestSnapshots: 1}
	w.open(t)
	w.create("t", twophase.ModeExclusive)
	w.create("idle", twophase.ModeExclusive)
	for i := range 300 {
		w.commit(fmt.Sprint(i), blind("t", fmt.Sprint(i)))
	}
	w.eventually("old snapshots are forgotten", func() bool { return w.status().RememberedSince.After(time.Unix(1, 0)) })
	w.settle()
	want := w.snapshot(40)
	if all := w.manifests(); len(all) < 100 {
		t.Fatalf("there are %d manifests", len(all))
	}
	away.Store(true)
	for i := range 3 {
		w.commit(fmt.Sprint("late ", i), blind("t", fmt.Sprint("late ", i)))
	}
	w.stop()
	away.Store(false)
	before := n.Load()
	w.start()
	if got := n.Load() - before; got > 20 {
		t.Errorf("the start took %d requests for manifests", got)
	}
	w.eventually("there are manifests of all", func() bool { return w.status().ManifestSnapshot == w.catalog.Shown() })
	if diff := cmp.Diff(want, w.snapshot(40)); diff != "" {
		t.Errorf("snapshot 40 (-before +after):\n%s", diff)
	}
}
