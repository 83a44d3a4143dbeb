package coordinator_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/txcoord/txcoord/coordinator"
	"github.com/txcoord/txcoord/coordinator/telemetry"
	"github.com/txcoord/txcoord/lock"
	"github.com/txcoord/txcoord/tables/objstore"
	"github.com/txcoord/txcoord/twophase"
)

// littered is a world with something live of every kind, and rubbish of every kind
// beside it. Its clock is the test's.
type littered struct {
	*world
	later    atomic.Int64
	once     sync.Once
	swept    chan struct{} // closed once the sweeper has listed everything, at the start
	stuck    atomic.Bool   // puts into the log of table "stuck" are refused
	gcWrites gcWrites
	// over was committed in one call, and is published: nobody else writes a record of it.
	over   twophase.TxnID
	bundle atomic.Pointer[lock.Write] // that was put last
	// rubbish are the keys of what nothing names, as world.keys has them.
	rubbish map[string]coordinator.GarbageKind
	// killed are the quarantines of calls that did not end well.
	killed map[string]bool
}

// day is longer than a transaction lives, and the grace.
const day = 30 * time.Hour

func newLittered(t *testing.T, set func(*world)) *littered {
	w := &littered{world: &world{}, swept: make(chan struct{}), rubbish: map[string]coordinator.GarbageKind{}, killed: map[string]bool{}}
	w.cfg.Now = func() time.Time { return time.Now().Add(time.Duration(w.later.Load())) }
	w.cfg.Limits.InlineBytes, w.cfg.Limits.FactsBytes, w.cfg.Limits.CheckpointEvery = 1024, 1, 4
	w.cfg.Limits.FreezeAfter = time.Hour // nothing is appended while a test looks
	w.wrapObjects = func(s objstore.Store) objstore.Store { return &litterObjects{Store: s, w: w} }
	w.wrapStore = func(s lock.Store) lock.Store { return litterStore{s, w} }
	if set != nil {
		set(w.world)
	}
	w.open(t)
	w.history()
	w.stop()
	w.cfg.Limits.CheckpointEvery = 0 // from here on no checkpoint comes, and none goes
	w.once, w.swept = sync.Once{}, make(chan struct{})
	w.start()
	select {
	case <-w.swept: // what comes from here on the sweeper does not see for ten minutes
	case <-time.After(patient):
		t.Fatal("the sweeper has not listed what is stored")
	}
	w.live()
	w.litter()
	return w
}

// litterObjects refuses puts into the log of "stuck" while it is, and tells of the end of
// the sweeper's listings: its last is that of facts.
type litterObjects struct {
	objstore.Store
	w *littered
}

func (s *litterObjects) PutIfAbsent(ctx context.Context, key string, b []byte) error {
	if s.w.stuck.Load() && strings.HasPrefix(key, "stuck/_delta_log/0") {
		return fmt.Errorf("put %s: the disk is full", key)
	}
	if !strings.Contains(key, "/quarantine/") {
		return s.Store.PutIfAbsent(ctx, key, b)
	}
	return s.w.gcWrites.do(objstore.ErrUnknown, func() error { return s.Store.PutIfAbsent(ctx, key, b) })
}

func (s *litterObjects) Delete(ctx context.Context, key string) error {
	return s.w.gcWrites.do(objstore.ErrUnknown, func() error { return s.Store.Delete(ctx, key) })
}

// litterStore is the catalog's store.
type litterStore struct {
	lock.Store
	w *littered
}

func (s litterStore) Put(ctx context.Context, key string, value []byte, c lock.Condition) (lock.Revision, error) {
	if strings.Contains(key, "/bundle/") {
		s.w.bundle.Store(&lock.Write{Key: key, Value: bytes.Clone(value)})
	}
	return s.Store.Put(ctx, key, value, c)
}

func (s litterStore) Delete(ctx context.Context, key string) error {
	return s.w.gcWrites.do(lock.ErrUnknown, func() error { return s.Store.Delete(ctx, key) })
}

func (s *litterObjects) List(ctx context.Context, o objstore.ListOptions) iter.Seq2[objstore.Entry, error] {
	return func(yield func(objstore.Entry, error) bool) {
		for e, err := range s.Store.List(ctx, o) {
			if !yield(e, err) {
				return
			}
		}
		if strings.HasSuffix(o.Prefix, "/facts/") {
			s.w.once.Do(func() { close(s.w.swept) })
		}
	}
}

func (s *litterObjects) Drafts(ctx context.Context, folder string, age time.Duration) ([]objstore.Info, error) {
	return objstore.Drafts(ctx, s.Store, folder, age)
}

func (s *litterObjects) RemoveDraft(ctx context.Context, key string, age time.Duration) (bool, error) {
	return objstore.RemoveDraft(ctx, s.Store, key, age)
}

// large is a part that lies as an object.
func large(table, name string) coordinator.OnceTable {
	return blind(table, name+strings.Repeat("x", 2000))
}

// history is what must stay: versions, facts, checkpoints, manifests.
func (w *littered) history() {
	w.t.Helper()
	for _, name := range []string{"a", "b", "stuck"} {
		w.create(name, twophase.ModeExclusive)
	}
	commits := 0 // how many entries they take, and so how many checkpoints, is up to the machine
	w.eventually("there are checkpoints", func() bool {
		commits++
		w.over = w.commit(fmt.Sprint("old ", commits), blind("a", fmt.Sprint(commits)), large("b", fmt.Sprint(commits))).Txn
		return commits >= 12 && len(w.journalCheckpoints()) > 2
	})
	w.settle()
}

// live is what must stay, too: open transactions with parts here and there, and one that is
// decided and cannot be published.
func (w *littered) live() {
	w.t.Helper()
	for _, key := range []string{"open one", "open two"} {
		b := w.begin(key)
		w.stage(b.Token, blind("a", key))
		w.stage(b.Token, large("b", key))
		w.eventually("its record is written for good", func() bool { return strings.Count(w.record(b.Txn), `"t-`) == 2 })
	}
	w.stuck.Store(true)
	r := once("waits", blind("stuck", "small"), large("b", "of the same round"))
	next := int(w.info("b").Version) + 1
	w.unpublished(r)
	w.eventually("table b has its part", func() bool { return w.read("b", next) != "" })
}

// litter makes what nothing names: parts come back that were removed, as a slow Stage
// brings them.
func (w *littered) litter() {
	w.t.Helper()
	for i, end := range []string{"abort", "commit", "leave out"} {
		b := w.begin(end)
		w.eventually("its record is written", func() bool { return w.record(b.Txn) != "" })
		before := w.keys()
		small, big := w.stage(b.Token, blind("a", end)), w.stage(b.Token, large("a", end))
		staged := w.keys()
		maps.DeleteFunc(staged, func(key, _ string) bool { return before[key] != "" || !strings.Contains(key, b.Txn.String()) })
		if len(staged) != 2 {
			w.t.Fatalf("staged %v", slices.Collect(maps.Keys(staged)))
		}
		var err error
		switch i {
		case 0:
			_, err = w.catalog.Abort(w.ctx(), coordinator.OutcomeRef{Token: b.Token}, "")
		case 1:
			_, err = w.catalog.Commit(w.ctx(), coordinator.CommitRequest{Token: b.Token, Tables: []coordinator.TableParts{parts("a", small.Digest, big.Digest)}})
		case 2:
			_, err = w.catalog.Commit(w.ctx(), coordinator.CommitRequest{Token: b.Token, Tables: []coordinator.TableParts{parts("a", small.Digest)}})
		}
		if err != nil {
			w.t.Fatal(err)
		}
		w.eventually("what was staged is swept", func() bool {
			now := w.keys()
			for key := range staged {
				if now[key] != "" {
					return false
				}
			}
			return true
		})
		w.eventually("its record is removed", func() bool { return w.record(b.Txn) == "" })
		for key, content := range staged {
			w.plant(key, content, coordinator.GarbagePart)
		}
	}
	record, _ := json.Marshal(map[string]any{"txn": w.over.String(), "position": 0})
	w.plant("store: open/"+w.over.String(), string(record), coordinator.GarbageOpen)
	w.bundled()
	id, digest := twophase.TxnID{1}, twophase.Hash{2}
	w.plant("object: _txcoord/"+w.name()+fmt.Sprintf("/staged/%020d/%s/t/%s", 1<<40, id, digest), "of another life", coordinator.GarbagePart)
	w.plant("object: _txcoord/"+w.name()+"/facts/"+digest.String()+"-0011223344556677", "facts", coordinator.GarbageFacts)
	w.plant("object: _txcoord/"+w.name()+"/checkpoints/index-"+digest.String()[:32]+"-deadbeef", "checkpoint", coordinator.GarbageCheckpoint)
	w.plant("object: _txcoord/"+w.name()+"/extracts/t-0123456789abcdef", "of a table that left", coordinator.GarbageExtract)
	w.put("_txcoord/"+w.name()+"/extracts/"+string(w.info("a").ID), "of a table that is there")
	for pos := range twophase.Position(2) {
		e := twophase.Entry{Header: twophase.Header{Catalog: "c", Incarnation: "former", Position: pos, Time: twophase.TimeOf(time.Now())}}
		w.plant(fmt.Sprintf("store: ring/former/%08d", pos), string(e.Encode()), coordinator.GarbageJournal)
	}
	if w.files {
		w.draft(filepath.Join("_txcoord", w.name(), "manifests"))
		w.draft("a/_delta_log")
	}
	// What we do not know is not ours to judge.
	w.put("_txcoord/"+w.name()+"/notes.txt", "an operator's")
	w.put("_txcoord/"+w.name()+"/staged/odd", "an operator's")
	if _, err := w.store.Put(w.ctx(), "open/odd", []byte("{}"), lock.Always()); err != nil {
		w.t.Fatal(err)
	}
}

// record is the advisory record of an open transaction; empty if there is none. Records are
// written in the background.
func (w *littered) record(id twophase.TxnID) string {
	w.t.Helper()
	item, err := w.store.Get(w.ctx(), "open/"+id.String())
	if err != nil && !errors.Is(err, lock.ErrNotFound) {
		w.t.Fatal(err)
	}
	return string(item.Value)
}

// bundled has a bundle come back that was removed. That of what waits to be published is
// there all the time, and stays.
func (w *littered) bundled() {
	w.t.Helper()
	w.commit("bundled", blind("a", "bundled"))
	made := w.bundle.Load()
	w.eventually("the bundle is swept", func() bool { return w.keys()["store: "+made.Key] == "" })
	w.plant("store: "+made.Key, string(made.Value), coordinator.GarbagePart)
}

func (w *littered) name() string { return w.catalog.Name() }

func (w *littered) draft(folder string) {
	w.t.Helper()
	path := filepath.Join(w.dir, folder, ".txcoord-ABCDEF.tmp")
	old := time.Now().Add(-2 * day)
	if err := os.WriteFile(path, []byte("half a"), 0o600); err != nil {
		w.t.Fatal(err)
	}
	if err := os.Chtimes(path, old, old); err != nil {
		w.t.Fatal(err)
	}
	w.rubbish["draft: "+filepath.ToSlash(folder)+"/.txcoord-ABCDEF.tmp"] = coordinator.GarbageDraft
}

func (w *littered) plant(key, content string, kind coordinator.GarbageKind) {
	w.t.Helper()
	w.rubbish[key] = kind
	if object, ok := strings.CutPrefix(key, "object: "); ok {
		w.put(object, content)
		return
	}
	if _, err := w.store.Put(w.ctx(), strings.TrimPrefix(key, "store: "), []byte(content), lock.Always()); err != nil {
		w.t.Fatal(err)
	}
}

// everything is what is stored, the advisory records too, but for what goes on by itself:
// the heartbeat of the replica, and quarantines.
func (w *littered) everything() map[string]string {
	w.t.Helper()
	out := w.keys()
	for after := ""; ; {
		items, err := w.store.Scan(w.ctx(), "open/", after, 0)
		if err != nil {
			w.t.Fatal(err)
		}
		if len(items) == 0 {
			break
		}
		for _, it := range items {
			after = it.Key
			out["store: "+it.Key] = string(it.Value)
		}
	}
	maps.DeleteFunc(out, func(key, _ string) bool {
		return strings.HasPrefix(key, "store: replica") || strings.Contains(key, "/quarantine/")
	})
	return out
}

func (w *littered) gc(q coordinator.GarbageRequest) coordinator.GarbageReport {
	w.t.Helper()
	r, err := w.catalog.CollectGarbage(w.ctx(), q)
	if err != nil {
		w.t.Fatal(err)
	}
	return r
}

// found is a report as littered.rubbish has it.
func (w *littered) found(r coordinator.GarbageReport) map[string]coordinator.GarbageKind {
	out := map[string]coordinator.GarbageKind{}
	for _, g := range r.Found {
		key := "object: _txcoord/" + w.name() + "/" + g.Key
		switch {
		case g.InStore:
			key = "store: " + g.Key
		case g.Kind == coordinator.GarbageDraft:
			key = "draft: " + g.Key
		}
		out[key] = g.Kind
		if g.Why == "" || g.Age < r.MinAge {
			w.t.Errorf("%s is %s old, because %q", key, g.Age, g.Why)
		}
	}
	return out
}

// TestGarbage: exactly the rubbish is found, and goes; everything live is the same to the
// byte. What is put back is as it was.
func TestGarbage(t *testing.T) {
	for name, set := range map[string]func(*world){"memory": nil, "files": func(w *world) { w.files = true }} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newLittered(t, set)
			before := w.everything()
			young := w.gc(coordinator.GarbageRequest{Remove: true, FormerJournals: true})
			if got := w.found(young); !onlyDrafts(got) || young.Young.Count == 0 || young.Run != "" {
				t.Errorf("while all is young: %+v", young)
			}
			w.later.Store(int64(day))
			maps.DeleteFunc(w.rubbish, func(_ string, k coordinator.GarbageKind) bool { return k == coordinator.GarbageDraft })
			for _, dry := range []bool{true, false} {
				r := w.gc(coordinator.GarbageRequest{Remove: !dry, FormerJournals: true})
				if diff := cmp.Diff(w.rubbish, w.found(r)); diff != "" {
					t.Errorf("dry %t (-planted +found):\n%s", dry, diff)
				}
				if r.Unknown.Count != 3 || len(r.UnknownKeys) != 3 || !slices.Contains(r.UnknownKeys, "open/odd") || r.Removed == dry || r.More || dry != (r.Run == "") {
					t.Errorf("%+v", r)
				}
				if dry {
					if diff := cmp.Diff(before, w.everything()); diff != "" {
						t.Errorf("a dry run wrote:\n%s", diff)
					}
				}
			}
			live := maps.Clone(before)
			maps.DeleteFunc(live, func(key, _ string) bool { return w.rubbish[key] != "" })
			if diff := cmp.Diff(live, w.everything()); diff != "" {
				t.Errorf("what lives (-before +after):\n%s", diff)
			}
			w.restored(before)
			w.goesOn()
		})
	}
}

func onlyDrafts(found map[string]coordinator.GarbageKind) bool {
	for _, k := range found {
		if k != coordinator.GarbageDraft {
			return false
		}
	}
	return true
}

// restored puts everything back from the only quarantine there is of a call that ended.
func (w *littered) restored(want map[string]string) {
	w.t.Helper()
	r := w.gc(coordinator.GarbageRequest{})
	r.Quarantines = slices.DeleteFunc(r.Quarantines, func(q coordinator.Quarantine) bool { return w.killed[q.Run] })
	if len(r.Quarantines) != 1 || r.Quarantines[0].Count != len(w.rubbish) || len(r.Found) != 0 {
		w.t.Fatalf("%+v", r)
	}
	run := r.Quarantines[0].Run
	for _, dry := range []bool{true, false} {
		back, err := w.catalog.RestoreGarbage(w.ctx(), coordinator.RestoreRequest{Run: run, DryRun: dry})
		if err != nil || back.Count != len(w.rubbish) || len(back.Taken) != 0 {
			w.t.Errorf("dry %t: %+v, %v", dry, back, err)
		}
	}
	if diff := cmp.Diff(want, w.everything()); diff != "" {
		w.t.Errorf("put back (-before +after):\n%s", diff)
	}
	if _, err := w.catalog.RestoreGarbage(w.ctx(), coordinator.RestoreRequest{Run: run}); err == nil {
		w.t.Error("it is put back twice")
	}
}

// goesOn: what is decided is published, what is open can be committed, and a start finds
// everything.
func (w *littered) goesOn() {
	w.t.Helper()
	w.stuck.Store(false)
	w.later.Store(0) // nothing was appended meanwhile; a start a day later would find what is open expired
	if o := w.commit("waits", blind("stuck", "small"), large("b", "of the same round")); o.Committed.Snapshot == 0 {
		w.t.Errorf("%+v", o.Committed)
	}
	w.restart()
	list, err := w.catalog.List(w.ctx(), coordinator.ListRequest{PageSize: 10})
	if err != nil || len(list.Open) != 2 {
		w.t.Errorf("open: %+v, %v", list.Open, err)
	}
	for _, key := range []string{"open one", "open two"} {
		b := w.begin(key)
		a, c := w.stage(b.Token, blind("a", key)), w.stage(b.Token, large("b", key))
		o, err := w.catalog.Commit(w.ctx(), coordinator.CommitRequest{Token: b.Token, Tables: []coordinator.TableParts{parts("a", a.Digest), parts("b", c.Digest)}})
		if err != nil || o.Committed.Snapshot == 0 {
			w.t.Errorf("commit %s: %+v, %v", key, o, err)
		}
	}
	if r := w.fsck(""); !r.Proven() {
		w.t.Errorf("fsck: %+v", r.Findings)
	}
}

// Journals of former lives go on the operator's word alone.
func TestGarbageLeavesFormerJournals(t *testing.T) {
	t.Parallel()
	w := newLittered(t, nil)
	w.later.Store(int64(day))
	w.gc(coordinator.GarbageRequest{Remove: true})
	left := w.everything()
	for key, kind := range w.rubbish {
		if _, there := left[key]; there != (kind == coordinator.GarbageJournal) {
			t.Errorf("%s is there: %t", key, there)
		}
	}
}

// What was in quarantine long enough goes for good, and nothing else.
func TestGarbageExpires(t *testing.T) {
	t.Parallel()
	w := newLittered(t, nil)
	w.later.Store(int64(day))
	first := w.gc(coordinator.GarbageRequest{Remove: true})
	live := w.everything()
	if r := w.gc(coordinator.GarbageRequest{Remove: true}); len(r.Found) != 0 || len(r.Quarantines) != 1 || r.Quarantines[0].Run != first.Run {
		t.Errorf("at once: %+v", r)
	}
	keep := 12 * time.Hour
	r := w.gc(coordinator.GarbageRequest{Remove: true, QuarantineFor: &keep})
	if len(r.Totals) != 1 || r.Totals[0].Kind != coordinator.GarbageQuarantined || len(r.Quarantines) != 0 || r.Run != "" {
		t.Errorf("later: %+v", r)
	}
	if diff := cmp.Diff(live, w.everything()); diff != "" {
		t.Errorf("what lives (-before +after):\n%s", diff)
	}
}

// The metric's list of kinds is the catalog's.
func TestGarbageKindsAreThoseOfTheMetric(t *testing.T) {
	for _, m := range telemetry.Metrics() {
		if m.Name != "txcoord.garbage.removed" {
			continue
		}
		var want []string
		for _, k := range coordinator.GarbageKinds() {
			want = append(want, string(k))
		}
		if diff := cmp.Diff(want, m.Labels[0].Values); diff != "" {
			t.Error(diff)
		}
		return
	}
	t.Error("there is no such metric")
}
