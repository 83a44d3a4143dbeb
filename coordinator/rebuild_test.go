package coordinator_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/txcoord/txcoord/coordinator"
	"github.com/txcoord/txcoord/lock"
	"github.com/txcoord/txcoord/lock/memstore"
	"github.com/txcoord/txcoord/tables/checkpoint"
	"github.com/txcoord/txcoord/tables/objstore"
	"github.com/txcoord/txcoord/twophase"
)

// rebuild makes a journal for the world's warehouse in a store.
func (w *world) rebuild(store lock.Store, opts coordinator.RebuildOptions) (*coordinator.RebuildReport, error) {
	w.t.Helper()
	return w.rebuildUntil(w.ctx(), store, opts)
}

func (w *world) rebuildUntil(ctx context.Context, store lock.Store, opts coordinator.RebuildOptions) (*coordinator.RebuildReport, error) {
	w.t.Helper()
	cfg := w.cfg
	cfg.Store, cfg.Warehouse, cfg.ReadCheckpoint, cfg.Objects = store, "file://"+w.dir, checkpoint.Read, bare{w}
	if w.wrapObjects != nil {
		w.seen = w.wrapObjects(w.objects)
		cfg.Objects = w
	}
	return coordinator.Rebuild(ctx, cfg, opts)
}

// rebuilt is a rebuild that has to succeed, and the catalog that is served from it.
func (w *world) rebuilt(opts coordinator.RebuildOptions) *coordinator.RebuildReport {
	w.t.Helper()
	opts.Write = true
	store := memstore.New(memstore.Config{})
	r, err := w.rebuild(store, opts)
	if err != nil {
		w.t.Fatal(err)
	}
	if !r.Written {
		w.t.Fatalf("not written: %+v", r.Findings)
	}
	w.store = store
	w.start()
	return r
}

func rebuildFindings(r *coordinator.RebuildReport) []string {
	var out []string
	for _, f := range r.Findings {
		line := string(f.Code)
		if f.Table != "" {
			line += " " + f.Table
		}
		if !f.Txn.IsZero() {
			line += " " + f.Txn.String()
		}
		out = append(out, line)
	}
	return out
}

// lived is a catalog with some history, at rest, whose journal is about to be lost. Each
// of its snapshots has a manifest of its own.
func lived(t *testing.T) (w *world, committed []coordinator.Outcome) {
	w = &world{}
	w.cfg.Limits.ManifestSnapshots = 1
	w.open(t)
	w.create("a", twophase.ModeOpen)
	w.create("b", twophase.ModeExclusive)
	w.create("c", twophase.ModeFenced)
	for i := range 5 {
		name := fmt.Sprint("t", i)
		committed = append(committed, w.commit(name, blind("a", name), blind("b", name)))
	}
	w.foreign("a", 6, add("theirs"))
	committed = append(committed, w.commit("t5", blind("a", "t5"), blind("b", "t5"), blind("c", "t5")))
	if err := w.tag(w.catalog.Tag(w.ctx(), "month-end", 5)); err != nil {
		t.Fatal(err)
	}
	w.settle()
	return w, committed
}

// A catalog whose journal is lost goes on from what its logs and manifests say: every
// published transaction is there and known by its key, snapshots and change numbers go on
// rising, old tokens are refused, and what cannot be known is named.
func TestRebuild(t *testing.T) {
	t.Parallel()
	w, committed := lived(t)
	token := w.begin("open").Token
	shown := w.catalog.Shown()
	w.stop()
	store := memstore.New(memstore.Config{})
	var plan *coordinator.RebuildReport
	w.unchangedNow("a plan", func() {
		var err error
		if plan, err = w.rebuild(store, coordinator.RebuildOptions{}); err != nil {
			t.Fatal(err)
		}
	})
	if plan.Written || plan.Incarnation != "" || plan.Manifest != shown || plan.Snapshot != shown+1 || plan.Known != 6 || !plan.Since.IsZero() || len(plan.Torn) > 0 {
		t.Errorf("%+v", plan)
	}
	if diff := cmp.Diff([]string{"FENCE_COUNTS_ANEW c", "MODE_OPENED b", "TAGS_AND_LEASES_LOST"}, rebuildFindings(plan)); diff != "" {
		t.Errorf("findings (-want +got):\n%s", diff)
	}
	r := w.rebuilt(coordinator.RebuildOptions{})
	if got := w.catalog.Shown(); got != r.Snapshot {
		t.Errorf("it goes on from snapshot %d, not %d", got, r.Snapshot)
	}
	if diff := cmp.Diff(map[string]twophase.Version{"a": 7, "b": 6, "c": 1}, w.snapshot(r.Snapshot)); diff != "" {
		t.Errorf("snapshot (-want +got):\n%s", diff)
	}
	if old := w.snapshot(5); len(old) != 3 || old["a"] != 2 {
		t.Errorf("an old snapshot: %v", old)
	}
	for i, o := range committed {
		key := fmt.Sprint("t", i)
		again := w.try2(key, i)
		if again.Committed == nil || again.Txn != o.Txn {
			t.Errorf("%s again: %+v", key, again)
		}
		b, err := w.catalog.Begin(w.ctx(), coordinator.BeginRequest{Key: key})
		if err != nil || len(b.Known) != 1 || b.Known[0].Committed == nil || b.Known[0].Key != key || b.Known[0].Attempt != 1 {
			t.Errorf("begin %s: %+v, %v", key, b.Known, err)
		}
		got, _, err := w.catalog.Outcome(w.ctx(), coordinator.OutcomeRequest{OutcomeRef: coordinator.OutcomeRef{Key: key}})
		if err != nil || got.Committed == nil || got.Key != key || got.Committed.Snapshot != o.Committed.Snapshot {
			t.Errorf("outcome of %s: %+v, %v", key, got, err)
		}
	}
	_, err := w.catalog.Stage(w.ctx(), coordinator.StageRequest{Token: token, Table: "a", Read: blindRead, Actions: add("x")})
	wantReason(t, "a token of the life before", err, coordinator.TokenStale)
	if info := w.info("c"); info.Mode != twophase.ModeFenced || info.OffersDecided {
		t.Errorf("c: %+v", info)
	}
	if o := w.owner("b"); o.Incarnation != r.Incarnation || o.Mode != "open" {
		t.Errorf("the owner of b: %+v", o)
	}
	after := w.commit("after", blind("a", "after"), blind("b", "after"), blind("c", "after"))
	if after.Committed.Snapshot != r.Snapshot+1 {
		t.Errorf("the next snapshot is %d", after.Committed.Snapshot)
	}
	w.check(closedRun{committed: append(committed, after)})
	w.stop()
	w.start() // from a journal that goes on
	w.commit("later", blind("a", "later"))
	w.check(closedRun{})
}

// try2 is the call that lived made.
func (w *world) try2(key string, i int) coordinator.Outcome {
	w.t.Helper()
	parts := []coordinator.OnceTable{blind("a", key), blind("b", key)}
	if i == 5 {
		parts = append(parts, blind("c", key))
	}
	return w.commit(key, parts...)
}

// A rebuild that breaks off at any write leaves the store with the journal that it held, or
// with none, or with the new one; the same command once more ends with a whole catalog.
func TestRebuildBreaksOff(t *testing.T) {
	t.Parallel()
	for _, supersede := range []bool{false, true} {
		t.Run(fmt.Sprintf("supersede=%t", supersede), func(t *testing.T) {
			t.Parallel()
			at := 0
			for breaksOff(t, supersede, at, diesBefore) {
				breaksOff(t, supersede, at, diesAfter)
				at++
			}
			if at < 9 { // three owner objects, a manifest, four entries, the meta key
				t.Errorf("a rebuild makes %d writes", at)
			}
		})
	}
}

// breaksOff lets one write meet its fate; false if there are not as many.
func breaksOff(t *testing.T, supersede bool, at int, what fate) bool {
	w, committed := lived(t)
	w.stop()
	store, opts := lock.Store(memstore.New(memstore.Config{})), coordinator.RebuildOptions{Write: true}
	if supersede {
		meta, _, err := lock.Present(w.ctx(), w.store)
		if err != nil {
			t.Fatal(err)
		}
		store, opts.Supersede = w.store, meta.Incarnation
	}
	f := &faults{}
	w.wrapObjects = f.overObjects
	f.arm(at, what)
	ctx, cancel := context.WithCancel(w.ctx())
	defer cancel()
	go func() { // a process that is dead repeats nothing
		select {
		case <-f.died:
			cancel()
		case <-ctx.Done():
		}
	}()
	_, err := w.rebuildUntil(ctx, f.overStore(store), opts)
	hit := f.isHit()
	f.disarm()
	if !hit && err != nil {
		t.Fatalf("%d writes: %v", at, err)
	}
	if hit {
		r, err := w.rebuild(store, opts)
		if err != nil || !r.Written {
			t.Fatalf("%s %s: %+v, %v", what, f.hit, r, err)
		}
	}
	if again, err := w.rebuild(store, opts); err != nil || !again.Already || again.Incarnation == "" {
		t.Fatalf("a third time: %+v, %v", again, err)
	}
	w.store = store
	w.start()
	for i := range committed {
		w.try2(fmt.Sprint("t", i), i)
	}
	after := w.commit("after", blind("a", "after"), blind("b", "after"), blind("c", "after"))
	w.check(closedRun{committed: append(committed, after)})
	return hit
}

// What was decided and is not in all of its logs is named, with its tables and versions,
// and nothing is written until somebody accepts it. Then its key is known, and it is not
// run again.
func TestRebuildNamesTornTransactions(t *testing.T) {
	t.Parallel()
	gate := newGate()
	w := &world{wrapObjects: gate.over}
	w.cfg.Limits.InlineBytes = 1 // parts are objects
	w.open(t)
	w.create("a", twophase.ModeExclusive)
	w.create("b", twophase.ModeExclusive)
	w.commit("whole", blind("a", "1"), blind("b", "1"))
	w.settle()
	gate.hold(commitKey("b", 2))
	pending := w.background("torn", blind("a", "2"), blind("b", "2"))
	w.eventually("it is in a's log", func() bool { return w.versions("a") == 3 })
	w.stop()
	if err := <-pending; err != nil {
		t.Log("what the client was told:", err)
	}
	w.wrapObjects = nil
	store := memstore.New(memstore.Config{})
	w.unchangedNow("a refused rebuild", func() {
		r, err := w.rebuild(store, coordinator.RebuildOptions{Write: true})
		if err != nil || r.Written || r.Refused() != 1 || len(r.Torn) != 1 {
			t.Fatalf("%+v, %v", r, err)
		}
		torn := r.Torn[0]
		if len(torn.In) != 1 || torn.In[0].Name != "a" || torn.In[0].Version != 2 || len(torn.Missing) != 1 || torn.Missing[0].Name != "b" || torn.More != 0 {
			t.Errorf("%+v", torn)
		}
		if got := torn.String(); got != "in a@2; missing in b (1 piece is staged)" {
			t.Errorf("it says %q", got)
		}
	})
	done := w.rebuilt(coordinator.RebuildOptions{Accept: []coordinator.RebuildCode{coordinator.RebuildTorn}})
	missing := done.Torn[0].Missing[0]
	if len(missing.Kept) != 1 || len(missing.Staged) != 1 {
		t.Fatalf("kept %v of %v", missing.Kept, missing.Staged)
	}
	o, _, err := w.catalog.Outcome(w.ctx(), coordinator.OutcomeRequest{OutcomeRef: coordinator.OutcomeRef{Key: "torn"}})
	if err != nil || o.Committed == nil || len(o.Committed.Tables) != 2 {
		t.Fatalf("%+v, %v", o, err)
	}
	if one, two := o.Committed.Tables[0], o.Committed.Tables[1]; one.Status+two.Status != twophase.StatusPublished+twophase.StatusNotApplied {
		t.Errorf("%+v", o.Committed.Tables)
	}
	wantReason(t, "the same call", second(w.try("torn", blind("a", "2"), blind("b", "2"))), coordinator.OtherDigests)
	w.commit("after", blind("a", "3"), blind("b", "3"))
	w.settle()
	kept, _, err := w.objects.Get(w.ctx(), missing.Kept[0], objstore.Range{})
	if _, actions, ok := strings.Cut(string(kept), "\n"); err != nil || !ok || actions != string(add("2")) {
		t.Errorf("the lost part: %q, %v", kept, err)
	}
	if w.versions("a") != 4 || w.versions("b") != 3 {
		t.Errorf("%d versions of a, %d of b", w.versions("a"), w.versions("b"))
	}
	if r := w.fsck(""); !r.Proven() {
		t.Errorf("fsck: %v", findings(r))
	}
	// Lost once more: the manifests show by now what is there of it, and it is as torn as before.
	w.stop()
	if again := w.rebuilt(coordinator.RebuildOptions{}); len(again.Torn) > 0 {
		t.Errorf("torn once more: %+v", again.Torn)
	}
	wantReason(t, "the same call", second(w.try("torn", blind("a", "2"), blind("b", "2"))), coordinator.OtherDigests)
	o, _, err = w.catalog.Outcome(w.ctx(), coordinator.OutcomeRequest{OutcomeRef: coordinator.OutcomeRef{Key: "torn"}})
	if err != nil || o.Committed == nil || len(o.Committed.Tables) != 2 {
		t.Fatalf("%+v, %v", o, err)
	}
	if one, two := o.Committed.Tables[0], o.Committed.Tables[1]; one.Status+two.Status != twophase.StatusPublished+twophase.StatusNotApplied {
		t.Errorf("%+v", o.Committed.Tables)
	}
}

// A key whose first attempts were aborted is known by any of them: their aborts were lost with
// the journal, and a job that begins anew would run twice.
func TestRebuildKnowsLaterAttempts(t *testing.T) {
	t.Parallel()
	w := (&world{}).open(t)
	w.create("a", twophase.ModeExclusive)
	r := once("k", blind("a", "1"))
	for r.Attempt = 1; r.Attempt < 4; r.Attempt++ {
		b, err := w.catalog.Begin(w.ctx(), coordinator.BeginRequest{Key: "k", Attempt: r.Attempt})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.catalog.Abort(w.ctx(), coordinator.OutcomeRef{Token: b.Token}, ""); err != nil {
			t.Fatal(err)
		}
	}
	done, _, err := w.catalog.CommitOnce(w.ctx(), r)
	if err != nil {
		t.Fatal(err)
	}
	w.settle()
	w.stop()
	w.rebuilt(coordinator.RebuildOptions{})
	for attempt := uint32(1); attempt < 4; attempt++ {
		b, err := w.catalog.Begin(w.ctx(), coordinator.BeginRequest{Key: "k", Attempt: attempt})
		if err != nil || len(b.Known) != 1 || b.Known[0].Txn != done.Txn || b.Known[0].Attempt != 4 {
			t.Errorf("begin of attempt %d knows %+v, %v", attempt, b.Known, err)
		}
		r.Attempt = attempt
		_, _, err = w.catalog.CommitOnce(w.ctx(), r)
		wantReason(t, fmt.Sprint("attempt ", attempt), err, coordinator.KeyCommitted)
	}
	o, _, err := w.catalog.Outcome(w.ctx(), coordinator.OutcomeRequest{OutcomeRef: coordinator.OutcomeRef{Key: "k"}})
	if err != nil || o.Txn != done.Txn || w.versions("a") != 2 {
		t.Errorf("the key's outcome: %+v, %v; %d versions", o, err, w.versions("a"))
	}
}

// Tables that came after the newest manifest are found by their owner objects; those that
// left, or that are another's by now, are left out, when that is accepted.
func TestRebuildFindsTables(t *testing.T) {
	t.Parallel()
	w, _ := lived(t)
	w.create("new", twophase.ModeExclusive)
	w.createWith(coordinator.CreateRequest{Name: "deep", URI: w.uri("some/where/no 1 deep"), Schema: schema, Mode: twophase.ModeOpen, OneTxnPerVersion: true})
	w.commit("n", blind("new", "n"), blind("deep", "n"))
	w.settle()
	newest := w.catalog.Shown()
	w.stop()
	for k := newest; k > newest-3; k-- { // as if they had not been written
		w.drop(manifestKey(int(k)))
	}
	w.drop(ownerKey("b"))
	w.put(ownerKey("c"), `{"format":1,"catalog":"x","incarnation":"y","table":"t-1"}`)
	look := coordinator.RebuildOptions{Look: []string{"file://" + w.dir}}
	plan, err := w.rebuild(memstore.New(memstore.Config{}), look)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"TABLE_NOT_OWNED b", "TABLE_OWNED_ELSEWHERE c", "TAGS_AND_LEASES_LOST"}
	got := slices.DeleteFunc(rebuildFindings(plan), func(f string) bool { return strings.HasPrefix(f, "MODE_OPENED") })
	if diff := cmp.Diff(want, got); diff != "" || plan.Refused() != 2 {
		t.Errorf("findings (-want +got):\n%s", diff)
	}
	look.Accept = []coordinator.RebuildCode{coordinator.RebuildNotOwned, coordinator.RebuildOwnedElsewhere}
	look.Modes = map[string]twophase.Mode{"new": twophase.ModeExclusive}
	r := w.rebuilt(look)
	if diff := cmp.Diff(map[string]twophase.Version{"a": 7, "new": 1, "deep": 1}, w.snapshot(r.Snapshot)); diff != "" || r.Snapshot <= newest {
		t.Errorf("snapshot %d (-want +got):\n%s", r.Snapshot, diff)
	}
	if deep := w.info("deep"); !deep.OneTxnPerVersion || deep.Mode != twophase.ModeOpen || w.info("new").Mode != twophase.ModeExclusive {
		t.Errorf("%+v, %+v", deep, w.info("new"))
	}
	if old := w.snapshot(5); len(old) != 3 {
		t.Errorf("an old snapshot: %v", old)
	}
	w.commit("n", blind("new", "n"), blind("deep", "n"))
	w.commit("after", blind("new", "after"), blind("deep", "after"), blind("a", "after"))
	w.settle()
	if r := w.fsck(""); !r.Proven() {
		t.Errorf("fsck: %v", findings(r))
	}
}

// Manifests were lost, and the journal is lost again before any server has written one: the
// snapshots that stood for what readers may have seen are known by then, and numbers rise.
func TestSnapshotsRiseOverRebuildsInARow(t *testing.T) {
	t.Parallel()
	for name, bytes := range map[string]int{"one file": 1 << 20, "a file each": 1} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, _ := lived(t)
			newest := w.catalog.Shown()
			w.stop()
			for k := newest; k > newest-3; k-- { // as if they had not been written
				w.drop(manifestKey(int(k)))
			}
			w.cfg.Limits.ManifestSnapshots, w.cfg.Limits.ManifestBytes = 0, bytes
			for range 3 {
				r, err := w.rebuild(memstore.New(memstore.Config{}), coordinator.RebuildOptions{Write: true})
				if err != nil || !r.Written {
					t.Fatalf("%+v, %v", r, err)
				}
				if r.Snapshot <= newest {
					t.Errorf("it goes on from snapshot %d, and %d was shown", r.Snapshot, newest)
				}
				newest = r.Snapshot
			}
			r := w.rebuilt(coordinator.RebuildOptions{})
			if diff := cmp.Diff(map[string]twophase.Version{"a": 7, "b": 6, "c": 1}, w.snapshot(r.Snapshot)); diff != "" || r.Snapshot <= newest {
				t.Errorf("snapshot %d after %d (-want +got):\n%s", r.Snapshot, newest, diff)
			}
			w.commit("after", blind("a", "after"), blind("b", "after"))
			w.settle()
			if r := w.fsck(""); !r.Proven() {
				t.Errorf("fsck: %v", findings(r))
			}
		})
	}
}

// What was staged in a life whose journal was longer than this one is no open transaction
// here: nobody lists or aborts it, and after the longest life of a transaction it is gone.
func TestStagedInALongerLife(t *testing.T) {
	t.Parallel()
	w := &world{}
	w.cfg.Limits.MaxTTL, w.cfg.Limits.TTL = 50*time.Millisecond, 50*time.Millisecond
	w.open(t)
	w.create("t", twophase.ModeExclusive)
	inStore := fmt.Sprintf("pay/00/%020d/%032x/t-1/%064x", 1_000_000, 5, 6)
	inObject := fmt.Sprintf("_txcoord/default/staged/%020d/%032x/t-1/%064x", 1_000_000, 7, 8)
	if _, err := w.store.Put(w.ctx(), inStore, []byte("x"), lock.Always()); err != nil {
		t.Fatal(err)
	}
	w.put(inObject, "x")
	there := func() (n int) {
		for key := range w.keys() {
			if strings.HasSuffix(key, inStore) || strings.HasSuffix(key, inObject) {
				n++
			}
		}
		return n
	}
	sweep := w.catalog.SweepAgain(w.ctx())
	sweep()
	if n := there(); n != 2 {
		t.Fatalf("%d of 2 pieces are there at first", n)
	}
	list, err := w.catalog.List(w.ctx(), coordinator.ListRequest{})
	if err != nil || len(list.Open) > 0 {
		t.Errorf("open: %+v, %v", list.Open, err)
	}
	w.eventually("they are gone", func() bool {
		sweep()
		return there() == 0
	})
}
