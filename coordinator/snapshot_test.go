package coordinator_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/txcoord/txcoord/coordinator"
	"github.com/txcoord/txcoord/tables/objstore"
	"github.com/txcoord/txcoord/twophase"
)

func TestSnapshots(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.create("a", twophase.ModeExclusive)
	w.create("b", twophase.ModeExclusive)
	first := w.commit("1", blind("a", "1"), blind("b", "1"))
	second := w.commit("2", blind("a", "2"))
	if diff := cmp.Diff(map[string]twophase.Version{"a": 2, "b": 1}, w.snapshot(0)); diff != "" {
		t.Errorf("latest (-want +got):\n%s", diff)
	}
	for v, want := range []map[string]twophase.Version{1: {"a": 0}, 2: {"a": 0, "b": 0}, 3: {"a": 1, "b": 1}, 4: {"a": 2, "b": 1}} {
		if v == 0 {
			continue
		}
		if diff := cmp.Diff(want, w.snapshot(twophase.SnapshotVersion(v))); diff != "" {
			t.Errorf("snapshot %d (-want +got):\n%s", v, diff)
		}
	}
	ask := func(ref coordinator.SnapshotRef, filter ...string) (coordinator.Snapshot, error) {
		return w.catalog.Snapshot(w.ctx(), ref, filter)
	}
	s, err := ask(coordinator.SnapshotRef{}, w.uri("b"), "a")
	if err != nil || len(s.Tables) != 2 || s.Tables[0].Name != "b" || s.Tables[1].URI != w.uri("a") {
		t.Errorf("filtered: %+v, %v", s, err)
	}
	_, err = ask(coordinator.SnapshotRef{}, "nowhere")
	wantReason(t, "filter", err, coordinator.TableNotFound)
	_, err = ask(coordinator.SnapshotRef{Version: 5})
	wantReason(t, "not made yet", err, coordinator.SnapshotNotFound)
	_, err = ask(coordinator.SnapshotRef{Time: time.Unix(0, 0)})
	wantReason(t, "nothing that old", err, coordinator.SnapshotNotFound)
	_, err = ask(coordinator.SnapshotRef{Tag: "none"})
	wantReason(t, "tag", err, coordinator.SnapshotNotFound)

	if err := w.tag(w.catalog.Tag(w.ctx(), "good", first.Committed.Snapshot)); err != nil {
		t.Fatal(err)
	}
	wantReason(t, "tag of nothing", w.tag(w.catalog.Tag(w.ctx(), "bad", 99)), coordinator.SnapshotNotFound)
	wantReason(t, "tag without a name", w.tag(w.catalog.Tag(w.ctx(), "", 1)), coordinator.InvalidRequest)
	wantReason(t, "tag that is no text", w.tag(w.catalog.Tag(w.ctx(), "a\xff", 1)), coordinator.InvalidRequest)
	w.restart()
	if s, err = ask(coordinator.SnapshotRef{Tag: "good"}); err != nil || s.Version != first.Committed.Snapshot || !cmp.Equal(s.Tags, []string{"good"}) {
		t.Errorf("tagged: %+v, %v", s, err)
	}
	if err := w.tag(w.catalog.Tag(w.ctx(), "good", second.Committed.Snapshot)); err != nil { // moved
		t.Fatal(err)
	}
	if s, err = ask(coordinator.SnapshotRef{Tag: "good"}); err != nil || s.Version != second.Committed.Snapshot {
		t.Errorf("moved: %+v, %v", s, err)
	}
	if err := w.tag(w.catalog.Tag(w.ctx(), "good", 0)); err != nil { // taken away
		t.Fatal(err)
	}
	_, err = ask(coordinator.SnapshotRef{Tag: "good"})
	wantReason(t, "tag that was taken away", err, coordinator.SnapshotNotFound)

	d, err := w.catalog.Diff(w.ctx(), 2, 4)
	if err != nil || d.From != 2 || d.To != 4 {
		t.Fatalf("%+v, %v", d, err)
	}
	var changes, txns []string
	for _, c := range d.Tables {
		changes = append(changes, fmt.Sprintf("%s %d-%d", c.Name, c.From, c.To))
	}
	for _, x := range d.Txns {
		txns = append(txns, fmt.Sprintf("%s@%d %d", x.Key, x.Snapshot, len(x.Tables)))
	}
	if diff := cmp.Diff([]string{"a 0-2", "b 0-1"}, changes); diff != "" {
		t.Errorf("diff's tables (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"1@3 2", "2@4 1"}, txns); diff != "" {
		t.Errorf("diff's transactions (-want +got):\n%s", diff)
	}
	if d, err = w.catalog.Diff(w.ctx(), 0, 0); err != nil || d.To != 4 || len(d.Tables) != 2 || d.Tables[0].From != twophase.NoVersion {
		t.Errorf("from nothing: %+v, %v", d, err)
	}
	_, err = w.catalog.Diff(w.ctx(), 4, 2)
	wantReason(t, "backwards", err, coordinator.InvalidRequest)
	w.check(closedRun{committed: []coordinator.Outcome{first, second}})
}

// TestSnapshotsByTime: of old snapshots too, each in a manifest of its own, or several in one.
func TestSnapshotsByTime(t *testing.T) {
	t.Parallel()
	for _, most := range []int{1, 5} {
		t.Run(fmt.Sprint(most), func(t *testing.T) {
			t.Parallel()
			snapshotsByTime(t, most)
		})
	}
}

// slowManifests takes a while for each, so that others gather behind it.
type slowManifests struct{ objstore.Store }

func (s slowManifests) PutIfAbsent(ctx context.Context, key string, b []byte) error {
	if strings.Contains(key, "/manifests/") {
		time.Sleep(3 * time.Millisecond)
	}
	return s.Store.PutIfAbsent(ctx, key, b)
}

func snapshotsByTime(t *testing.T, most int) {
	w := &world{}
	w.cfg.Limits = coordinator.Limits{OutcomeCount: 20, PollInterval: 2 * time.Millisecond, MapEvery: 7, ManifestSnapshots: most}
	if most > 1 {
		w.wrapObjects = func(s objstore.Store) objstore.Store { return slowManifests{s} }
	}
	// No two moments are the same millisecond, as they are when 400 rounds follow each
	// other: what is opened after a snapshot is not of its time.
	var moments atomic.Int64
	began := time.Now()
	w.cfg.Now = func() time.Time { return began.Add(time.Duration(moments.Add(1)) * time.Millisecond) }
	w.open(t)
	w.create("t", twophase.ModeExclusive)
	for n := range 400 {
		w.commit(fmt.Sprint(n), blind("t", fmt.Sprint(n)))
	}
	w.eventually("old snapshots are forgotten", func() bool { return w.status().RememberedSince.After(time.Unix(1, 0)) })
	w.settle()
	page, err := w.catalog.Snapshots(w.ctx(), "", 1000, "")
	if err != nil {
		t.Fatal(err)
	}
	oldest := page.Snapshots[len(page.Snapshots)-1].Version
	if oldest < 10 {
		t.Fatalf("the fold still holds snapshot %d", oldest)
	}
	for _, v := range []twophase.SnapshotVersion{2, 6, 7, 8, oldest - 1, oldest, oldest + 5, 401} {
		s, err := w.catalog.Snapshot(w.ctx(), coordinator.SnapshotRef{Version: v}, nil)
		if err != nil || s.Version != v || len(s.Tables) != 1 || s.Tables[0].Version != twophase.Version(v-1) {
			t.Errorf("snapshot %d: %+v, %v", v, s, err)
		}
		byTime, err := w.catalog.Snapshot(w.ctx(), coordinator.SnapshotRef{Time: s.Time}, nil)
		if err != nil || byTime.Version != v || byTime.Added != 0 {
			t.Errorf("at the time of snapshot %d: %d of %s, %v; want %s", v, byTime.Version, byTime.Time, err, s.Time)
		}
	}
	_, err = w.catalog.Snapshot(w.ctx(), coordinator.SnapshotRef{Time: time.Unix(0, 0)}, nil)
	if !errors.Is(err, &coordinator.Error{Reason: coordinator.SnapshotOutOfRange}) && !errors.Is(err, &coordinator.Error{Reason: coordinator.SnapshotNotFound}) {
		t.Errorf("nothing that old: %v", err)
	}
	// What is only in manifests can be read, not watched.
	first := twophase.SnapshotVersion(1)
	err = w.catalog.Watch(w.ctx(), &first, func(coordinator.SnapshotChange) error { return nil })
	wantReason(t, "a watch from before the floor", err, coordinator.SnapshotOutOfRange)
	_, err = w.catalog.Diff(w.ctx(), 1, 0)
	wantReason(t, "a diff from before the floor", err, coordinator.SnapshotOutOfRange)
	// Somebody takes old manifests away.
	for v := range 5 {
		for _, suffix := range []string{".json", ".checkpoint.json"} {
			if err := w.objects.Delete(w.ctx(), fmt.Sprintf("_txcoord/default/manifests/%020d%s", v, suffix)); err != nil {
				t.Fatal(err)
			}
		}
	}
	w.restart()
	_, err = w.catalog.Snapshot(w.ctx(), coordinator.SnapshotRef{Version: 3}, nil)
	wantReason(t, "a manifest that is gone", err, coordinator.SnapshotOutOfRange)
	if s, err := w.catalog.Snapshot(w.ctx(), coordinator.SnapshotRef{Version: 9}, nil); err != nil || s.Tables[0].Version != 8 {
		t.Errorf("above a full map: %+v, %v", s, err)
	}
}

func TestListOfSnapshots(t *testing.T) {
	t.Parallel()
	w := (&world{}).open(t)
	w.create("a", twophase.ModeExclusive)
	w.create("b", twophase.ModeExclusive)
	for i := range 5 {
		w.commit(fmt.Sprint("a", i), blind("a", fmt.Sprint(i)))
		w.commit(fmt.Sprint("b", i), blind("b", fmt.Sprint(i)))
	}
	list := func(table string, size int) []string {
		var out []string
		for page, n := "", 0; n < 20; n++ {
			p, err := w.catalog.Snapshots(w.ctx(), table, size, page)
			if err != nil {
				t.Fatal(err)
			}
			for _, s := range p.Snapshots {
				var c []string
				for _, ch := range s.Tables {
					c = append(c, fmt.Sprintf("%s %d-%d", ch.Name, ch.From, ch.To))
				}
				out = append(out, fmt.Sprintf("%d %s", s.Version, strings.Join(c, ", ")))
			}
			if page = p.NextPage; page == "" {
				return out
			}
		}
		t.Fatal("no end of pages")
		return nil
	}
	want := []string{"11 a 4-5", "9 a 3-4", "7 a 2-3", "5 a 1-2", "3 a 0-1", "1 a -1-0"}
	if diff := cmp.Diff(want, list("a", 2)); diff != "" {
		t.Errorf("those of a (-want +got):\n%s", diff)
	}
	if all := list("", 5); len(all) != 12 || all[0] != "12 b 4-5" || all[11] != "1 a -1-0" {
		t.Errorf("all: %q", all)
	}
	_, err := w.catalog.Snapshots(w.ctx(), "", 0, "no page")
	wantReason(t, "page", err, coordinator.InvalidRequest)
	_, err = w.catalog.Snapshots(w.ctx(), "nowhere", 0, "")
	wantReason(t, "table", err, coordinator.TableNotFound)
}

func TestWatch(t *testing.T) {
	t.Parallel()
	w := (&world{}).open(t)
	w.create("a", twophase.ModeExclusive)
	w.create("b", twophase.ModeExclusive)
	for i := range 10 {
		w.commit(fmt.Sprint(i), blind("a", fmt.Sprint(i)))
	}
	// From the first, broken off now and then, resumed behind the last one seen.
	var seen []twophase.SnapshotVersion
	at := twophase.SnapshotVersion(0)
	enough := errors.New("enough")
	tables := map[string]twophase.Version{}
	go func() {
		for i := 10; i < 30; i++ {
			_, _, _ = w.catalog.CommitOnce(context.Background(), once(fmt.Sprint(i), blind("a", fmt.Sprint(i)), blind("b", fmt.Sprint(i))))
		}
	}()
	for len(seen) < 32 {
		n := 0
		err := w.catalog.Watch(w.ctx(), &at, func(c coordinator.SnapshotChange) error {
			seen = append(seen, c.Version)
			at = c.Version
			for _, ch := range c.Tables {
				if was, ok := tables[ch.Name]; ok && ch.From != was || !ok && ch.From != twophase.NoVersion {
					t.Errorf("snapshot %d: %s from %d, it was at %d", c.Version, ch.Name, ch.From, was)
				}
				tables[ch.Name] = ch.To
			}
			if n++; n == 7 || len(seen) == 32 {
				return enough
			}
			return nil
		})
		if !errors.Is(err, enough) {
			t.Fatal(err)
		}
	}
	for i, v := range seen {
		if v != twophase.SnapshotVersion(i+1) {
			t.Fatalf("saw %v", seen)
		}
	}
	if diff := cmp.Diff(w.snapshot(0), tables); diff != "" {
		t.Errorf("what the watch adds up to (-latest +watched):\n%s", diff)
	}
	above := twophase.SnapshotVersion(99)
	wantReason(t, "from above", w.catalog.Watch(w.ctx(), &above, nil), coordinator.SnapshotOutOfRange)
	// It ends with its caller, and with the catalog.
	ctx, cancel := context.WithCancel(w.ctx())
	cancel()
	if err := w.catalog.Watch(ctx, nil, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("ended by the caller: %v", err)
	}
	c := w.catalog
	done := make(chan error, 1)
	go func() { done <- c.Watch(context.Background(), nil, nil) }()
	time.Sleep(10 * time.Millisecond)
	w.stop()
	wantReason(t, "ended by the catalog", <-done, coordinator.ShuttingDown)
	w.start()
}

func TestAtLeast(t *testing.T) {
	t.Parallel()
	w := (&world{}).open(t)
	w.create("t", twophase.ModeExclusive)
	if err := w.catalog.AtLeast(w.ctx(), w.catalog.Shown()); err != nil {
		t.Error(err)
	}
	done := make(chan error, 1)
	next := w.catalog.Shown() + 1
	go func() { done <- w.catalog.AtLeast(context.Background(), next) }()
	w.commit("1", blind("t", "1"))
	if err := <-done; err != nil {
		t.Error(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if err := w.catalog.AtLeast(ctx, 99); !errors.Is(err, &coordinator.Error{Reason: coordinator.ReplicaBehind}) && !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a snapshot that never comes: %v", err)
	}
}

// Manifests conform to their schema, one for each snapshot, with full maps now and
// then; and they say what the catalog says.
func TestManifests(t *testing.T) {
	t.Parallel()
	w := &world{files: true}
	w.cfg.Limits.MapEvery = 4
	w.open(t)
	var run closedRun
	for i := range 3 {
		w.create(fmt.Sprint("t", i), twophase.ModeOpen)
	}
	for i := range 20 {
		run.committed = append(run.committed, w.commit(fmt.Sprint(i), blind(fmt.Sprint("t", i%3), fmt.Sprint(i)), blind(fmt.Sprint("t", (i+1)%3), fmt.Sprint(i))))
		if i%6 == 0 {
			w.foreign("t0", w.versions("t0"), add(fmt.Sprint("x", i)))
		}
	}
	w.settle()
	if err := w.catalog.Release(w.ctx(), "t2", false); err != nil {
		t.Fatal(err)
	}
	w.check(run)
	full := 0
	for key, content := range w.keys() {
		if !strings.HasSuffix(key, ".checkpoint.json") || !strings.Contains(key, "/manifests/") {
			continue
		}
		full++
		var file struct {
			Full      bool
			Snapshots []struct {
				Snapshot twophase.SnapshotVersion
				Tables   []struct {
					Name    string
					Version twophase.Version
				}
			}
		}
		if err := json.Unmarshal([]byte(content), &file); err != nil || !file.Full || len(file.Snapshots) != 1 || file.Snapshots[0].Snapshot%4 != 0 {
			t.Fatalf("%s: %v", content, err)
		}
		m := file.Snapshots[0]
		got := map[string]twophase.Version{}
		for _, row := range m.Tables {
			got[row.Name] = row.Version
		}
		if diff := cmp.Diff(w.snapshot(m.Snapshot), got); diff != "" {
			t.Errorf("full map %d (-catalog +manifest):\n%s", m.Snapshot, diff)
		}
	}
	if want := int(w.catalog.Shown()) / 4; full != want {
		t.Errorf("%d full maps of %d snapshots, want %d", full, w.catalog.Shown(), want)
	}
}
