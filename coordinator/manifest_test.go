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
	"github.com/txcoord/txcoord/lock/memstore"
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
	g := newManifestGate()
	w := &world{wrapObjects: g.over}
	w.cfg.Limits.ManifestSnapshots, w.cfg.Limits.MapEvery = 6, 10
	w.open(t)
	w.create("t", twophase.ModeExclusive)
	w.settle()
	g.held(w, "first")
	var run closedRun
	for i := range 24 {
		run.committed = append(run.committed, w.commit(fmt.Sprint(i), blind("t", fmt.Sprint(i))))
	}
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
	g := newManifestGate()
	w := &world{wrapObjects: g.over}
	w.cfg.Limits.ManifestBytes = 1
	w.open(t)
	w.create("t", twophase.ModeExclusive)
	w.settle()
	g.held(w, "first")
	w.commit("a", blind("t", "a"))
	w.commit("b", blind("t", "b"))
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
	g := newManifestGate()
	one := sharedWorld("one:1", time.Millisecond)
	one.wrapObjects = g.over
	one.open(t)
	one.create("t", twophase.ModeExclusive)
	one.settle()
	g.held(one, "first")
	for i := range 5 {
		one.commit(fmt.Sprint(i), blind("t", fmt.Sprint(i)))
	}
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

// gathered is a catalog whose files hold the snapshots 1, 2, 3-7 and 8.
func gathered(t *testing.T) *world {
	g := newManifestGate()
	w := &world{wrapObjects: g.over}
	w.open(t)
	w.create("t", twophase.ModeExclusive)
	w.settle()
	g.held(w, "first")
	for i := range 5 {
		w.commit(fmt.Sprint(i), blind("t", fmt.Sprint(i)))
	}
	g.open()
	w.settle()
	w.commit("last", blind("t", "last"))
	w.settle()
	if diff := cmp.Diff([]string{"0001.json", "0002.json", "0003.json", "0008.json"}, w.manifests()); diff != "" {
		t.Fatal(diff)
	}
	return w
}

// TestFsckNamesWhatARangeLacks: a file of several snapshots that is gone, torn, altered in
// the middle, there twice, or not the end of what a full map lists.
func TestFsckNamesWhatARangeLacks(t *testing.T) {
	t.Parallel()
	w := gathered(t)
	w.stop()
	third := w.object(manifestKey(3))
	seventh := third[strings.Index(third, `{"snapshot":7`):]
	fullMap := strings.Replace(strings.Replace(w.object(manifestKey(2)), `"snapshots"`, `"full":true,"snapshots"`, 1), `"snapshot":2`, `"snapshot":5`, 1)
	for name, c := range map[string]struct {
		key, content string
		want         []string
	}{
		"gone":                   {manifestKey(3), "", []string{"MANIFEST_MISSING snapshot 3"}},
		"the newest":             {manifestKey(8), "", []string{"MANIFEST_PENDING snapshot 8"}},
		"torn":                   {manifestKey(3), third[:300], []string{"MANIFEST_ALTERED snapshot 3"}},
		"one of them is another": {manifestKey(3), strings.Replace(third, `"version":4`, `"version":3`, 1), []string{"MANIFEST_ALTERED snapshot 5"}},
		"one of them is left out": {manifestKey(3), third[:strings.Index(third, ",\n{\"snapshot\":7")] + "\n]}\n", []string{
			"MANIFEST_MISSING snapshot 7",
		}},
		"there twice": {manifestKey(7), third[:strings.Index(third, `{"snapshot":3`)] + seventh, []string{"MANIFEST_ALTERED snapshot 7"}},
		"a full map within": {
			strings.Replace(manifestKey(5), ".json", ".checkpoint.json", 1), strings.Replace(fullMap, `"version":1`, `"version":4`, 1),
			[]string{"MANIFEST_ALTERED snapshot 5"},
		},
		"beyond the journal": {manifestKey(8), beyond(w.object(manifestKey(8))), []string{"MANIFEST_AHEAD snapshot 9"}},
	} {
		before := w.object(c.key)
		if c.content == "" {
			w.drop(c.key)
		} else {
			w.put(c.key, c.content)
		}
		w.wantFindings(name, w.fsck(""), c.want...)
		if before == "" {
			w.drop(c.key)
		} else {
			w.put(c.key, before)
		}
	}
	w.wantFindings("whole again", w.fsck(""))
}

// beyond is manifest 8 with snapshot 9 in it, too.
func beyond(newest string) string {
	lines := strings.SplitAfter(newest, "\n")
	ninth := strings.NewReplacer(`"snapshot":8`, `"snapshot":9`, `"version":7`, `"version":8`).Replace(lines[1])
	return lines[0] + strings.TrimSuffix(lines[1], "\n") + ",\n" + ninth + lines[2]
}

// TestANewerRangeStopsTheStart: R7. The newest manifest begins at or below what the journal
// knows, and ends above it: the journal went back.
func TestANewerRangeStopsTheStart(t *testing.T) {
	t.Parallel()
	w := gathered(t)
	w.stop()
	w.put(manifestKey(8), beyond(w.object(manifestKey(8))))
	if e := wantReason(t, "a start", w.tryStart(), coordinator.JournalContradiction); !strings.Contains(e.Message, "manifest 9") {
		t.Error(e)
	}
}

// TestADamagedNewestManifestStopsTheStart: torn, empty, or not what the journal says, whose
// snapshots the fold still knows.
func TestADamagedNewestManifestStopsTheStart(t *testing.T) {
	t.Parallel()
	w := gathered(t)
	w.stop()
	good := w.object(manifestKey(8))
	for bad, says := range map[string]string{
		good[:len(good)/2]: "cannot be read",
		"":                 "cannot be read",
		strings.Replace(good, `"version":7`, `"version":8`, 1): "snapshot 8 is not what the journal says",
	} {
		w.put(manifestKey(8), bad)
		if e := wantReason(t, "a start over "+bad, w.tryStart(), coordinator.JournalContradiction); !strings.Contains(e.Message, says) {
			t.Error(e)
		}
	}
	w.put(manifestKey(8), good)
	w.start()
}

// TestAnotherJournalsManifest: a copy of the journal went on by itself, so that a manifest
// stands there that is not what this one's record makes. The catalog stops (R7).
func TestAnotherJournalsManifest(t *testing.T) {
	t.Parallel()
	w := gathered(t)
	newest := w.object(manifestKey(8))
	w.put(manifestKey(9), strings.NewReplacer(`"snapshot":8`, `"snapshot":9`, `"version":7`, `"version":8`).Replace(newest))
	w.commit("x", blind("t", "x"))
	n := 0
	w.eventually("it stops", func() bool {
		n++ // what was committed before is answered for ever
		_, err := w.try(fmt.Sprint("y", n), blind("t", fmt.Sprint("y", n)))
		return err != nil && strings.Contains(err.Error(), "not what the journal says")
	})
}

// TestRebuildAboveARange: the tail of snapshots is in no manifest, or the newest range says
// where the life before ended; the new one goes on behind it, and its fillers share files.
func TestRebuildAboveARange(t *testing.T) {
	t.Parallel()
	for _, lost := range []int{0, 1, 2} { // of the newest files
		t.Run(fmt.Sprint(lost), func(t *testing.T) {
			t.Parallel()
			w := gathered(t)
			w.stop()
			all := w.manifests()
			for _, name := range all[len(all)-lost:] {
				w.drop("_txcoord/default/manifests/0000000000000000" + name)
			}
			newest := map[int]twophase.SnapshotVersion{0: 8, 1: 7, 2: 2}[lost]
			r := w.rebuilt(coordinator.RebuildOptions{Look: []string{"file://" + w.dir}})
			if r.Manifest != newest || r.Snapshot != newest+1+8-newest {
				t.Errorf("above %d, to %d", r.Manifest, r.Snapshot)
			}
			w.commit("after", blind("t", "after"))
			w.settle()
			if got := w.fsck(""); !got.Proven() {
				t.Error(findings(got))
			}
			w.check(closedRun{})
			for v := range newest {
				if diff := cmp.Diff(map[string]twophase.Version{"t": twophase.Version(v)}, w.snapshot(v+1)); diff != "" {
					t.Errorf("snapshot %d of the life before:\n%s", v+1, diff)
				}
			}
		})
	}
}

// TestRebuildNamesAMissingRange: a file of the middle is gone.
func TestRebuildNamesAMissingRange(t *testing.T) {
	t.Parallel()
	w := gathered(t)
	w.stop()
	w.drop(manifestKey(3))
	plan, err := w.rebuild(memstore.New(memstore.Config{}), coordinator.RebuildOptions{})
	if err != nil {
		t.Fatal(err)
	}
	broken := 0
	for _, f := range plan.Findings {
		if f.Code == coordinator.RebuildManifests {
			broken++
			if !strings.Contains(f.What, "manifest 3") {
				t.Error(f.What)
			}
		}
	}
	if broken != 1 || plan.Manifest != 8 {
		t.Errorf("%d findings, above %d: %v", broken, plan.Manifest, rebuildFindings(plan))
	}
}

// TestAServerOfTheLifeBeforeFindsItsNameTaken: it has a range of snapshots that are in no
// manifest when the catalog is rebuilt. Its put is of the name that the rebuild has taken,
// so nothing of it gets into the folder, and it stops (R7).
func TestAServerOfTheLifeBeforeFindsItsNameTaken(t *testing.T) {
	t.Parallel()
	g := newManifestGate()
	old := &world{wrapObjects: g.over}
	old.open(t)
	old.create("t", twophase.ModeExclusive)
	old.settle()
	g.held(old, "a")
	for i := range 3 {
		old.commit(fmt.Sprint(i), blind("t", fmt.Sprint(i)))
	}
	w := &world{objects: old.objects, t: t, dir: old.dir}
	r := w.rebuilt(coordinator.RebuildOptions{Look: []string{"file://" + w.dir}})
	t.Cleanup(w.stop)
	w.settle()
	before := w.manifests()
	g.open()
	old.eventually("the old one has stopped", func() bool {
		err := old.tag(old.catalog.Tag(old.ctx(), "x", 0))
		return err != nil && strings.Contains(err.Error(), r.Incarnation)
	})
	if diff := cmp.Diff(before, w.manifests()); diff != "" {
		t.Errorf("files (-before +after):\n%s", diff)
	}
	w.commit("b", blind("t", "b"))
	w.check(closedRun{})
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
