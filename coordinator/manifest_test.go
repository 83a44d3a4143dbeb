package coordinator_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/txcoord/txcoord/coordinator"
	"github.com/txcoord/txcoord/tables/objstore"
	"github.com/txcoord/txcoord/twophase"
)

// gatedManifests holds puts of manifests back while it is closed, and says when one has
// come.
type gatedManifests struct {
	mu   sync.Mutex
	gate chan struct{} // nil while it is open
	came chan struct{}
}

func newManifestGate() *gatedManifests { return &gatedManifests{came: make(chan struct{}, 1000)} }

func (g *gatedManifests) close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.gate = make(chan struct{})
}

func (g *gatedManifests) open() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.gate != nil {
		close(g.gate)
		g.gate = nil
	}
}

func (g *gatedManifests) over(s objstore.Store) objstore.Store { return gatedStore{s, g} }

type gatedStore struct {
	objstore.Store
	g *gatedManifests
}

func (s gatedStore) PutIfAbsent(ctx context.Context, key string, b []byte) error {
	if strings.Contains(key, "/manifests/") {
		s.g.mu.Lock()
		gate := s.g.gate
		s.g.mu.Unlock()
		if gate != nil {
			s.g.came <- struct{}{}
			select {
			case <-gate:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
	}
	return s.Store.PutIfAbsent(ctx, key, b)
}

// held closes the gate and makes a snapshot, whose manifest waits at it from here on.
func (g *gatedManifests) held(w *world, key string) {
	w.t.Helper()
	g.close()
	w.t.Cleanup(g.open)
	w.commit(key, blind("t", key))
	select {
	case <-g.came:
	case <-w.ctx().Done():
		w.t.Fatal("no manifest comes")
	}
}

// gather opens a world with the table t, whose manifest 1 is put, and makes n more
// snapshots behind a first one whose put is held: their manifests wait until the gate
// opens.
func gather(t *testing.T, w *world, n int) (*gatedManifests, closedRun) {
	t.Helper()
	g := newManifestGate()
	w.wrapObjects = g.over
	w.open(t)
	w.create("t", twophase.ModeExclusive)
	w.settle()
	g.held(w, "first")
	var run closedRun
	for i := range n {
		run.committed = append(run.committed, w.commit(fmt.Sprint(i), blind("t", fmt.Sprint(i))))
	}
	return g, run
}

// manifests lists the files by what their names end with.
func (w *world) manifests() (out []string) {
	for key := range w.keys() {
		if _, name, ok := strings.Cut(key, "/manifests/"); ok {
			out = append(out, name[16:])
		}
	}
	slices.Sort(out)
	return out
}

// TestManifestsGather: while one is put, what is closed meanwhile waits for the next, which
// holds all of it within the limits, and ends where a full map is due. Everything is read
// from them, by version, by time, and after a start.
func TestManifestsGather(t *testing.T) {
	t.Parallel()
	w := &world{}
	w.cfg.Limits.ManifestSnapshots, w.cfg.Limits.MapEvery = 6, 10
	g, run := gather(t, w, 24)
	if st := w.status(); st.ManifestSnapshot != 1 || st.Shown != 26 {
		t.Fatalf("manifest %d of %d", st.ManifestSnapshot, st.Shown)
	}
	if got := w.fsck(""); !got.Proven() {
		t.Errorf("while they wait: %v", findings(got))
	}
	g.open()
	w.settle()
	want := []string{"0001.json", "0002.json", "0003.json", "0009.json", "0010.checkpoint.json", "0011.json", "0017.json", "0020.checkpoint.json", "0021.json"}
	if diff := cmp.Diff(want, w.manifests()); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
	w.check(run)
	for range 2 {
		for v := range twophase.SnapshotVersion(26) {
			if diff := cmp.Diff(map[string]twophase.Version{"t": twophase.Version(v)}, w.snapshot(v+1)); diff != "" {
				t.Errorf("snapshot %d:\n%s", v+1, diff)
			}
		}
		w.restart()
	}
	w.commit("last", blind("t", "last"))
	w.settle()
	if got := w.manifests(); got[len(got)-1] != "0027.json" {
		t.Errorf("after a start: %v", got)
	}
}

// TestManifestBytes: a file ends before it has too many bytes.
func TestManifestBytes(t *testing.T) {
	t.Parallel()
	w := &world{}
	w.cfg.Limits.ManifestBytes = 1
	g, _ := gather(t, w, 2)
	g.open()
	w.settle()
	if diff := cmp.Diff([]string{"0001.json", "0002.json", "0003.json", "0004.json"}, w.manifests()); diff != "" {
		t.Error(diff)
	}
	w.check(closedRun{})
}

// TestManifestsAfterAKill: a process dies with a tail of snapshots that are in no manifest,
// its put on the way. The next one writes them, in as few files as it likes; the put that
// comes late finds its name taken, and nobody finds anything wrong.
func TestManifestsAfterAKill(t *testing.T) {
	t.Parallel()
	for _, lands := range []string{"before the start", "after it"} {
		t.Run(lands, func(t *testing.T) {
			t.Parallel()
			var mu sync.Mutex
			late := map[string][]byte{}
			lose := false
			w := &world{wrapObjects: func(s objstore.Store) objstore.Store {
				return lateManifests{s, func(key string, b []byte) bool {
					mu.Lock()
					defer mu.Unlock()
					if lose && late[key] == nil {
						late[key] = b
					}
					return lose
				}}
			}}
			w.open(t)
			w.create("t", twophase.ModeExclusive)
			w.settle()
			mu.Lock()
			lose = true
			mu.Unlock()
			w.commit("0", blind("t", "0"))
			w.eventually("a put is lost", func() bool { mu.Lock(); defer mu.Unlock(); return len(late) > 0 })
			for i := range 5 {
				w.commit(fmt.Sprint("k", i), blind("t", fmt.Sprint("k", i)))
			}
			w.stop()
			mu.Lock()
			lose = false
			mu.Unlock()
			land := func() {
				for key, b := range late {
					_ = w.objects.PutIfAbsent(w.ctx(), key, b)
				}
			}
			if lands == "before the start" {
				land()
			}
			w.start()
			w.settle()
			land()
			want := []string{"0001.json", "0002.json"}
			if lands == "before the start" {
				want = append(want, "0003.json")
			}
			if diff := cmp.Diff(want, w.manifests()); diff != "" {
				t.Errorf("files (-want +got):\n%s", diff)
			}
			w.check(closedRun{})
		})
	}
}

// lateManifests loses puts of manifests that a hook names: nobody knows, and they may land.
type lateManifests struct {
	objstore.Store
	lose func(key string, b []byte) bool
}

func (l lateManifests) PutIfAbsent(ctx context.Context, key string, b []byte) error {
	if strings.Contains(key, "/manifests/") && l.lose(key, b) {
		return objstore.ErrUnknown
	}
	return l.Store.PutIfAbsent(ctx, key, b)
}

// TestReplicasDivideDifferently: a replica waits with a manifest of its own snapshot; another
// one takes over, and puts a range under the same name. The first finds it there, goes on
// behind it, and so does the second.
func TestReplicasDivideDifferently(t *testing.T) {
	t.Parallel()
	one := sharedWorld("one:1", time.Millisecond)
	g, _ := gather(t, one, 5)
	two := one.replica(t, func(r *world) { r.cfg.Address, r.wrapObjects = "two:1", nil })
	eventually(t, "the other replica's manifests", func() bool { return two.status().ManifestSnapshot == one.catalog.Shown() })
	if diff := cmp.Diff([]string{"0001.json", "0002.json"}, two.manifests()); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
	g.open()
	eventually(t, "the first to go on", func() bool { return one.status().ManifestSnapshot == one.catalog.Shown() })
	one.commit("x", blind("t", "x"))
	two.commit("y", blind("t", "y"))
	for _, w := range []*world{one, two} {
		eventually(t, "all manifests", func() bool { return w.status().ManifestSnapshot >= one.catalog.Shown() })
	}
	one.check(closedRun{})
}

// TestManifestsCatchUp: what was closed while the object store was away gets into a few
// files, not one for each snapshot.
func TestManifestsCatchUp(t *testing.T) {
	t.Parallel()
	g := newManifestGate()
	w := &world{wrapObjects: g.over}
	w.open(t)
	for i := range 3 {
		w.create(fmt.Sprint("t", i), twophase.ModeExclusive)
	}
	w.create("t", twophase.ModeExclusive)
	w.settle()
	had := len(w.manifests())
	g.held(w, "first")
	for i := range 60 {
		w.commit(fmt.Sprint(i), blind(fmt.Sprint("t", i%3), fmt.Sprint(i)))
	}
	g.open()
	w.settle()
	if n := len(w.manifests()) - had; n != 2 {
		t.Errorf("%d files for 61 snapshots, want 2: %v", n, w.manifests())
	}
	if !maps.Equal(w.snapshot(w.catalog.Shown()), map[string]twophase.Version{"t": 1, "t0": 20, "t1": 20, "t2": 20}) {
		t.Error(w.snapshot(w.catalog.Shown()))
	}
	w.check(closedRun{})
}

// TestManifestsThatWereRemoved: the newest ones, of snapshots that the journal has forgotten.
// Nothing can make them again, so none is put behind the hole; it is said once in a while,
// and when the files are back the rest follows.
func TestManifestsThatWereRemoved(t *testing.T) {
	t.Parallel()
	log := &logged{}
	w := &world{}
	w.cfg.Log = log.logger()
	w.cfg.Limits = coordinator.Limits{OutcomeCount: 20, PollInterval: 2 * time.Millisecond}
	w.open(t)
	w.create("t", twophase.ModeExclusive)
	for n := range 400 {
		w.commit(fmt.Sprint(n), blind("t", fmt.Sprint(n)))
	}
	w.eventually("old snapshots are forgotten", func() bool { return w.status().RememberedSince.After(time.Unix(1, 0)) })
	w.settle()
	w.stop()
	kept := map[string]string{}
	for i, name := range w.manifests() {
		key := "_txcoord/default/manifests/0000000000000000" + name
		if i > 0 {
			kept[key] = w.object(key)
			w.drop(key)
		}
	}
	w.start()
	w.eventually("it is said", func() bool { return log.has("put it and those behind it back") })
	w.commit("after", blind("t", "after"))
	if got := w.manifests(); len(got) != 1 {
		t.Errorf("behind the hole: %v", got)
	}
	for key, content := range kept {
		w.put(key, content)
	}
	w.check(closedRun{})
}
