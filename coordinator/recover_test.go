package coordinator_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/txcoord/txcoord/coordinator"
	"github.com/txcoord/txcoord/lock"
	"github.com/txcoord/txcoord/lock/locktest"
	"github.com/txcoord/txcoord/tables/objstore"
	"github.com/txcoord/txcoord/tables/objstore/objtest"
	"github.com/txcoord/txcoord/twophase"
)

// faults counts the writes of a world and lets one of them meet its fate.
type faults struct {
	mu     sync.Mutex
	armed  bool
	n      int
	at     int
	fate   fate
	hit    string
	dead   bool
	died   chan struct{} // closed then
	writes []string
}

type fate string

const (
	refused      fate = "refused"               // certainly not carried out
	lost         fate = "lost"                  // not carried out, and nobody knows
	landed       fate = "landed"                // carried out, and nobody knows
	later        fate = "landing later"         // carried out when everything is over
	diesBefore   fate = "killed before"         // the process, and nothing of it lands any more
	diesAfter    fate = "killed after it lands" // the same, right after
	nothingWrong fate = ""
)

// next says what becomes of a write.
func (f *faults) next(key string) fate {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.dead {
		return refused
	}
	if !f.armed || strings.HasPrefix(key, "open/") {
		return nothingWrong
	}
	f.n++
	f.writes = append(f.writes, key)
	if f.n-1 != f.at {
		return nothingWrong
	}
	f.hit = key
	if f.fate == diesBefore || f.fate == diesAfter {
		f.dead = true
		close(f.died)
	}
	return f.fate
}

func (f *faults) isHit() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.hit != ""
}

func (f *faults) isDead() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.dead
}

func (f *faults) arm(at int, what fate) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.armed, f.at, f.fate, f.died = true, at, what, make(chan struct{})
}

func (f *faults) disarm() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.armed, f.dead = false, false
}

func (f *faults) overStore(s lock.Store) lock.Store {
	return locktest.NewFaulty(s, func(_ context.Context, op locktest.Op) locktest.Fate {
		if op.Kind != locktest.Put {
			return map[bool]locktest.Fate{true: locktest.Refused}[f.isDead()]
		}
		switch f.next(op.Key) {
		case refused, diesBefore:
			return locktest.Refused
		case lost:
			return locktest.Lost
		case landed, diesAfter:
			return locktest.Landed
		case later:
			return locktest.Later
		}
		return locktest.Done
	})
}

func (f *faults) overObjects(s objstore.Store) objstore.Store {
	return objtest.Faulty{Store: s, Hook: func(_ context.Context, op objtest.Op) objtest.Fate {
		if op.Kind != objtest.Put && op.Kind != objtest.PutIfAbsent {
			if f.isDead() {
				return objtest.Refused()
			}
			return objtest.Done()
		}
		switch f.next(op.Key) {
		case refused, diesBefore:
			return objtest.Refused()
		case lost, later:
			return objtest.Lost()
		case landed, diesAfter:
			return objtest.Landed()
		}
		return objtest.Done()
	}}
}

// TestEveryWriteOfACommitFails takes each write of a commit over three tables in turn,
// and lets it be lost, land unseen, land late, or kill the process. The same call,
// repeated, gets its answer, and everything is there exactly once.
func TestEveryWriteOfACommitFails(t *testing.T) {
	t.Parallel()
	for _, staged := range []bool{false, true} {
		probe := newFaultWorld(t)
		probe.faults.arm(-1, nothingWrong)
		if _, err := probe.tryThree(probe.ctx(), staged); err != nil {
			t.Fatal(err)
		}
		probe.settle()
		probe.faults.disarm()
		writes := probe.faults.writes
		if len(writes) != 9 { // three payloads, two entries, three commits, a manifest
			t.Fatalf("a commit over three tables makes %d writes: %q", len(writes), writes)
		}
		for at := range writes {
			for _, what := range []fate{refused, lost, landed, later, diesBefore, diesAfter} {
				t.Run(fmt.Sprintf("staged=%t/%d/%s", staged, at, what), func(t *testing.T) {
					t.Parallel()
					w := newFaultWorld(t)
					w.faults.arm(at, what)
					o, err := w.tryUntilDead(staged)
					w.eventually("the write is made", w.faults.isHit)
					if w.faults.isDead() {
						w.stop()
						w.faults.disarm()
						w.start()
					}
					for tries := 0; err != nil; tries++ { // unavailable: the same call again
						var own *coordinator.Error
						if tries > 20 || errors.As(err, &own) && own.Reason != coordinator.OutcomeUnknown && own.Reason != coordinator.StoreUnavailable &&
							own.Reason != coordinator.ShuttingDown && own.Reason != coordinator.ObjectsUnavailable {
							t.Fatalf("%s of %s: %v", what, w.faults.hit, err)
						}
						o, err = w.tryThree(w.ctx(), staged)
					}
					if o.Committed == nil || o.Committed.Snapshot == 0 {
						w.eventually("it is published", func() bool { o, err = w.tryThree(w.ctx(), staged); return err == nil && o.Committed.Snapshot != 0 })
					}
					if diff := cmp.Diff(map[string]twophase.Version{"a": 1, "b": 1, "c": 1}, w.snapshot(o.Committed.Snapshot)); diff != "" {
						t.Errorf("%s of %s: snapshot (-want +got):\n%s", what, w.faults.hit, diff)
					}
					w.held.Land(0)
					w.commit("after", blind("a", "2"), blind("b", "2"), blind("c", "2"))
					w.check(closedRun{committed: []coordinator.Outcome{o}})
					for _, name := range []string{"a", "b", "c"} {
						if n := w.versions(name); n != 3 {
							t.Errorf("%s of %s: %s has %d versions", what, w.faults.hit, name, n)
						}
					}
				})
			}
		}
	}
}

type faultWorld struct {
	world
	faults *faults
	held   *locktest.Faulty
	token  string
}

func newFaultWorld(t *testing.T) *faultWorld {
	w := &faultWorld{faults: &faults{}}
	w.wrapStore = func(s lock.Store) lock.Store {
		out := w.faults.overStore(s)
		w.held = out.(*locktest.Faulty)
		return out
	}
	w.wrapObjects = w.faults.overObjects
	w.open(t)
	for _, name := range []string{"a", "b", "c"} {
		w.create(name, twophase.ModeExclusive)
	}
	w.settle()
	return w
}

// tryUntilDead is a call to a process that may die meanwhile.
func (w *faultWorld) tryUntilDead(staged bool) (coordinator.Outcome, error) {
	ctx, cancel := context.WithCancel(w.ctx())
	defer cancel()
	go func() {
		select {
		case <-w.faults.died:
			cancel()
		case <-ctx.Done():
		}
	}()
	return w.tryThree(ctx, staged)
}

// tryThree commits one transaction over three tables: in one call, or step by step.
func (w *faultWorld) tryThree(ctx context.Context, staged bool) (coordinator.Outcome, error) {
	parts := []coordinator.OnceTable{blind("a", "1"), blind("b", "1"), blind("c", "1")}
	if !staged {
		o, _, err := w.catalog.CommitOnce(ctx, once("job", parts...))
		return o, err
	}
	if w.token == "" {
		b, err := w.catalog.Begin(ctx, coordinator.BeginRequest{Key: "job"})
		if err != nil {
			return coordinator.Outcome{}, err
		}
		w.token = b.Token
	}
	req := coordinator.CommitRequest{Token: w.token}
	for _, p := range parts {
		st, err := w.catalog.Stage(ctx, coordinator.StageRequest{Token: w.token, Table: p.Table, Read: p.Read, Actions: p.Actions})
		if err != nil {
			return coordinator.Outcome{}, err
		}
		req.Tables = append(req.Tables, coordinator.TableParts{Table: p.Table, Digests: []twophase.Digest{st.Digest}})
	}
	return w.catalog.Commit(ctx, req)
}

// Closed at any moment under load, and opened again: each transaction is in all its
// tables or in none, and the same call gets the same answer.
func TestClosedUnderLoad(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, name := range []string{"a", "b", "c"} {
		w.create(name, twophase.ModeOpen)
	}
	seed := rand.Uint64()
	rnd := rand.New(rand.NewPCG(seed, 0))
	defer func() {
		if t.Failed() {
			t.Logf("seed %d", seed)
		}
	}()
	requests := map[string]coordinator.OnceRequest{}
	n := 0
	for range 8 {
		c := w.catalog
		var wg sync.WaitGroup
		for range 6 {
			var mine []coordinator.OnceRequest
			for range 30 {
				name := fmt.Sprint("txn ", n)
				n++
				r := once(name, blind([]string{"a", "b", "c"}[n%3], name), blind([]string{"a", "b", "c"}[(n+1)%3], name))
				requests[name] = r
				mine = append(mine, r)
			}
			wg.Go(func() {
				for _, r := range mine {
					if _, _, err := c.CommitOnce(context.Background(), r); err != nil {
						return // the catalog is closing
					}
				}
			})
		}
		time.Sleep(time.Duration(rnd.IntN(60)) * time.Millisecond)
		w.close()
		wg.Wait()
		w.openStore()
		w.start()
	}
	var run closedRun
	var mu sync.Mutex
	var wg sync.WaitGroup
	for _, r := range requests {
		wg.Go(func() {
			o, _, err := w.catalog.CommitOnce(context.Background(), r)
			if err != nil {
				t.Errorf("%s: %v", r.Key, err)
				return
			}
			mu.Lock()
			run.committed = append(run.committed, o)
			mu.Unlock()
		})
	}
	wg.Wait()
	w.check(run)
}

// The journal is a small ring: it goes round many times, checkpoints keep up, and
// whoever starts finds everything.
func TestTinyRings(t *testing.T) {
	t.Parallel()
	for _, slots := range []int{16, 64} {
		t.Run(fmt.Sprint(slots), func(t *testing.T) {
			t.Parallel()
			w := &world{}
			w.cfg.Slots = slots
			w.open(t)
			w.create("a", twophase.ModeExclusive)
			w.create("b", twophase.ModeOpen)
			if err := w.catalog.Tag(w.ctx(), "start", 2); err != nil {
				t.Fatal(err)
			}
			var run closedRun
			open := w.begin("open")
			staged := w.stage(open.Token, blind("a", "late"))
			for i := range 12 * slots {
				name := fmt.Sprint(i)
				run.committed = append(run.committed, w.commit(name, blind("a", name), blind("b", name)))
				if i%(4*slots) == 3 {
					w.foreign("b", w.versions("b"), add("x"+name))
					before, shown := w.status(), w.snapshot(0)
					w.restart()
					after := w.status()
					if before.Position > after.Position || before.Shown > after.Shown || !cmp.Equal(shown, w.snapshot(before.Shown)) {
						t.Fatalf("position %d, snapshot %d became %d, %d", before.Position, before.Shown, after.Position, after.Shown)
					}
				}
			}
			st := w.status()
			if st.Position < twophase.Position(20*slots) || st.Position-st.Checkpoint >= twophase.Position(slots) {
				t.Errorf("position %d, newest checkpoint at %d", st.Position, st.Checkpoint)
			}
			ring := 0
			for key := range w.keys() {
				if strings.HasPrefix(key, "store: ring/") {
					ring++
				}
			}
			if ring != slots {
				t.Errorf("the ring has %d slots of %d", ring, slots)
			}
			// What was begun many laps ago still commits, and what was answered stays.
			if _, err := w.catalog.Commit(w.ctx(), coordinator.CommitRequest{Token: open.Token, Tables: []coordinator.TableParts{parts("a", staged.Digest)}}); err != nil {
				t.Error(err)
			}
			first := w.commit("0", blind("a", "0"), blind("b", "0"))
			if first.Txn != run.committed[0].Txn || first.Committed.Snapshot != run.committed[0].Committed.Snapshot {
				t.Errorf("the first one again: %+v", first)
			}
			if slots == 16 { // thousands of files for the larger one
				w.check(run)
			}
		})
	}
}

// The object store takes nothing: commits get slow and stop, nothing that is decided
// is lost or refused, and nothing is frozen (R1, R12).
func TestStalledObjectStore(t *testing.T) {
	t.Parallel()
	gate := newGate()
	w := &world{wrapObjects: gate.over}
	w.cfg.Slots = 32
	w.cfg.Limits.FreezeAfter = 20 * time.Millisecond
	w.cfg.Limits.PutDeadline = 50 * time.Millisecond
	w.open(t)
	for _, name := range []string{"a", "b"} {
		w.create(name, twophase.ModeExclusive)
		w.commit("warm "+name, blind(name, "warm"))
	}
	w.settle()
	gate.hold()
	decided := map[string]coordinator.OnceRequest{}
	stopped := false
	for i := 0; i < 60 && !stopped; i++ {
		name := fmt.Sprint(i)
		r := once(name, blind([]string{"a", "b"}[i%2], name))
		r.WaitLimit = time.Millisecond
		ctx, cancel := context.WithTimeout(w.ctx(), time.Second)
		o, _, err := w.catalog.CommitOnce(ctx, r)
		cancel()
		switch {
		case err == nil && o.Committed.Snapshot == 0:
			decided[name] = r
			if !strings.Contains(o.Committed.PendingReason, "publication goes on") {
				t.Errorf("transaction %d: %s", i, o.Committed.PendingReason)
			}
		case errors.Is(err, context.DeadlineExceeded), errors.Is(err, &coordinator.Error{Reason: coordinator.OutcomeUnknown}):
			stopped = true // the ring is full
		default:
			t.Fatalf("transaction %d: %+v, %v", i, o.Committed, err)
		}
	}
	if !stopped || len(decided) < 10 {
		t.Errorf("%d transactions were decided, then it stopped: %t", len(decided), stopped)
	}
	if st := w.status(); len(st.Frozen) != 0 || st.Position-st.Checkpoint >= 32 {
		t.Errorf("while stalled: %+v", st)
	}
	w.stop() // all of it survives
	w.start()
	gate.release()
	var run closedRun
	for name, r := range decided {
		r.WaitLimit = 0
		o, _, err := w.catalog.CommitOnce(w.ctx(), r)
		if err != nil || o.Committed.Snapshot == 0 {
			t.Errorf("%s afterwards: %+v, %v", name, o.Committed, err)
			continue
		}
		run.committed = append(run.committed, o)
	}
	w.check(run)
}

// One table's requests fail while others of its bucket make progress: its round is
// frozen, others go on, and it thaws by itself (R12).
func TestStalledTable(t *testing.T) {
	t.Parallel()
	var broken atomic.Bool
	w := &world{wrapObjects: func(s objstore.Store) objstore.Store {
		return objtest.Faulty{Store: s, Hook: func(_ context.Context, op objtest.Op) objtest.Fate {
			if broken.Load() && strings.HasPrefix(op.Key, "bad/") {
				return objtest.Refused()
			}
			return objtest.Done()
		}}
	}}
	w.cfg.Limits.FreezeAfter = 50 * time.Millisecond
	w.open(t)
	for _, name := range []string{"bad", "with", "apart"} {
		w.create(name, twophase.ModeExclusive)
		w.commit("warm "+name, blind(name, "warm"))
	}
	broken.Store(true)
	pending := w.background("pinned", blind("bad", "1"), blind("with", "1"))
	n := 0
	w.eventually("it is frozen", func() bool {
		n++
		w.commit(fmt.Sprint("apart ", n), blind("apart", fmt.Sprint(n)))
		return len(w.status().Frozen) == 2
	})
	if err := <-pending; err != nil { // answered, since waiting is of no use
		t.Errorf("the pinned one: %v", err)
	}
	for _, name := range []string{"bad", "with"} {
		own := wantReason(t, name, second(w.try("refused "+name, blind(name, "2"))), coordinator.TableFrozen)
		if own.Frozen.Cause != twophase.CauseStalled {
			t.Errorf("%+v", own.Frozen)
		}
		wantReason(t, "thaw", second(w.catalog.Thaw(w.ctx(), name, false, "")), coordinator.NothingToThaw)
	}
	w.commit("apart goes on", blind("apart", "on"))
	if v := w.snapshot(0)["with"]; v != 1 {
		t.Errorf("the table beside shows version %d", v)
	}
	broken.Store(false)
	w.eventually("it thaws", func() bool { return len(w.status().Frozen) == 0 })
	w.commit("writable again", blind("bad", "3"), blind("with", "3"))
	w.check(closedRun{})
}

// A payload of a decided transaction is gone: nothing else is published in its place,
// and when it is back the round goes on (C2).
func TestMissingPayload(t *testing.T) {
	t.Parallel()
	gate := newGate()
	w := &world{wrapObjects: gate.over}
	w.cfg.Limits.InlineBytes = 1
	w.cfg.Limits.FreezeAfter = 20 * time.Millisecond
	w.open(t)
	w.create("a", twophase.ModeExclusive)
	w.create("b", twophase.ModeExclusive)
	w.commit("warm", blind("a", "warm"), blind("b", "warm"))
	w.settle()
	gate.refuse()
	w.catalog.CommitOnce(shortly(t), once("k", blind("a", "1"), blind("b", "1"))) //nolint:errcheck // its caller gives up
	w.eventually("it is decided", func() bool { return w.info("a").Pending == 1 })
	taken := map[string]string{}
	for key, content := range w.keys() {
		if name, ok := strings.CutPrefix(key, "object: "); ok && strings.Contains(name, "/staged/") && strings.Contains(name, "/"+string(w.info("a").ID)+"/") {
			taken[name] = content
			if err := w.objects.Delete(w.ctx(), name); err != nil {
				t.Fatal(err)
			}
		}
	}
	if len(taken) != 1 {
		t.Fatalf("took %d payloads", len(taken))
	}
	w.restart() // the copy in memory is gone, too
	gate.release()
	w.eventually("the other table's version is put", func() bool { return w.versions("b") == 3 })
	w.eventually("it is frozen", func() bool { f := w.info("a").Frozen; return f != nil && strings.Contains(f.Detail, "gone") })
	if n := w.versions("a"); n != 2 {
		t.Errorf("a has %d versions", n)
	}
	if v := w.snapshot(0); v["a"] != 1 || v["b"] != 1 {
		t.Errorf("snapshot %v", v)
	}
	for name, content := range taken {
		if err := w.objects.PutIfAbsent(w.ctx(), name, []byte(content)); err != nil {
			t.Fatal(err)
		}
	}
	o := w.commit("k", blind("a", "1"), blind("b", "1"))
	w.eventually("it is published", func() bool { return w.snapshot(0)["a"] == 2 && w.snapshot(0)["b"] == 2 })
	o = w.commit("k", blind("a", "1"), blind("b", "1"))
	w.check(closedRun{committed: []coordinator.Outcome{o}})
}

// What a dead process had published and not swept is swept by the next one (R20).
func TestSweepAfterRestart(t *testing.T) {
	t.Parallel()
	for _, inline := range []int{1, 1 << 20} {
		w := &world{}
		w.cfg.Limits.InlineBytes = inline
		w.open(t)
		w.create("t", twophase.ModeExclusive)
		open := w.begin("open")
		w.stage(open.Token, blind("t", "open"))
		w.commit("k", blind("t", "1"))
		w.restart()
		w.eventually("only the open one's payload is left", func() bool { return w.payloads() == 1 })
		w.restart()
		time.Sleep(20 * time.Millisecond)
		if n := w.payloads(); n != 1 {
			t.Errorf("%d payloads", n)
		}
	}
}

// The journal was put back to an older copy, or is not the one that belongs to the
// warehouse: the catalog does not start, and writes nothing (R7).
func TestRestoredJournalIsRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.create("t", twophase.ModeExclusive)
	w.commit("1", blind("t", "1"))
	w.settle()
	w.close()
	file := filepath.Join(w.dir, "journal.db")
	older, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	w.openStore()
	w.start()
	w.commit("2", blind("t", "2"))
	w.settle()
	w.close()
	newest, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	refuse := func(what string) {
		t.Helper()
		w.openStore()
		before := w.keys()
		wantReason(t, what, w.tryStart(), coordinator.JournalContradiction)
		w.catalog = nil
		after := w.keys()
		delete(before, "store: meta")
		delete(after, "store: meta")
		if diff := cmp.Diff(before, after); diff != "" {
			t.Errorf("%s: something was written:\n%s", what, diff)
		}
		if err := w.store.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(file, older, 0o600); err != nil {
		t.Fatal(err)
	}
	refuse("an older copy")
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	refuse("an empty journal")
	if err := os.WriteFile(file, newest, 0o600); err != nil {
		t.Fatal(err)
	}
	w.openStore()
	w.start()
	w.commit("3", blind("t", "3"))
	w.check(closedRun{})
}

func TestJournalOfAnotherWarehouse(t *testing.T) {
	t.Parallel()
	one, two := newWorld(t), newWorld(t)
	for _, w := range []*world{one, two} {
		w.create("t", twophase.ModeExclusive)
		w.commit("1", blind("t", "1"))
		w.settle()
		w.close()
	}
	b, err := os.ReadFile(filepath.Join(two.dir, "journal.db"))
	if err != nil {
		t.Fatal(err)
	}
	own, err := os.ReadFile(filepath.Join(one.dir, "journal.db"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(one.dir, "journal.db"), b, 0o600); err != nil {
		t.Fatal(err)
	}
	one.openStore()
	wantReason(t, "another warehouse's journal", one.tryStart(), coordinator.JournalContradiction)
	one.catalog = nil
	if err := one.store.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(one.dir, "journal.db"), own, 0o600); err != nil {
		t.Fatal(err)
	}
	one.openStore()
	one.start()
	two.openStore()
	two.start()
}

// A journal that is put back under a running catalog: it stops, and says so to
// everybody who waits.
func TestJournalPutBackUnderARunningCatalog(t *testing.T) {
	t.Parallel()
	gate := newGate()
	w := &world{wrapObjects: gate.over}
	w.cfg.Slots = 16
	w.open(t)
	w.create("t", twophase.ModeExclusive)
	for i := range 20 {
		w.commit(fmt.Sprint("a", i), blind("t", fmt.Sprint("a", i)))
	}
	older := w.ringItems()
	for i := range 20 {
		w.commit(fmt.Sprint("b", i), blind("t", fmt.Sprint("b", i)))
	}
	w.settle()
	gate.hold(commitKey("t", 41))
	pending := w.background("pending", blind("t", "pending"))
	w.eventually("it is decided", func() bool { return w.info("t").Pending == 1 })
	for _, it := range older {
		if _, err := w.store.Put(w.ctx(), it.Key, it.Value, lock.Always()); err != nil {
			t.Fatal(err)
		}
	}
	restored := w.ringItems()
	wantReason(t, "a commit", second(w.try("k", blind("t", "1"))), coordinator.JournalContradiction)
	wantReason(t, "another one", second(w.try("k2", blind("t", "2"))), coordinator.JournalContradiction)
	_, err := w.catalog.Abort(w.ctx(), coordinator.OutcomeRef{Token: w.begin("k3").Token}, "")
	wantReason(t, "an abort", err, coordinator.JournalContradiction)
	if err := <-pending; err != nil { // it was decided before: COMMITTED, and pending
		t.Errorf("what was decided: %v", err)
	}
	gate.release()
	if got := w.ringItems(); len(got) != len(restored) {
		t.Errorf("%d slots became %d", len(restored), len(got))
	} else {
		for i := range got {
			if string(got[i].Value) != string(restored[i].Value) {
				t.Errorf("slot %s was written", got[i].Key)
			}
		}
	}
}

func (w *world) ringItems() []lock.Item {
	w.t.Helper()
	items, err := w.store.Scan(w.ctx(), "ring/", "", 1000)
	if err != nil {
		w.t.Fatal(err)
	}
	return items
}

// Too much waits: new transactions are refused with the limit's name, and those that
// are decided stay.
func TestQuotaOfWhatWaits(t *testing.T) {
	t.Parallel()
	gate := newGate()
	w := &world{wrapObjects: gate.over}
	w.cfg.Limits.QueueBytes = 1000
	w.open(t)
	w.create("t", twophase.ModeExclusive)
	w.commit("warm", blind("t", "warm"))
	w.settle()
	gate.hold()
	var pending []chan error
	refusal := error(nil)
	for i := 0; i < 20 && refusal == nil; i++ {
		key, part := fmt.Sprint(i), blind("t", fmt.Sprint(i))
		r := once(key, part)
		r.WaitLimit = time.Millisecond
		if _, _, refusal = w.catalog.CommitOnce(w.ctx(), r); refusal == nil {
			pending = append(pending, w.background(key, part))
		}
	}
	own := wantReason(t, "past the quota", refusal, coordinator.QuotaExceeded)
	if own.Limit == nil || own.Limit.Name != "queue_bytes" || own.Limit.Value <= 1000 || own.Limit.Limit != 1000 || own.RetryAfter <= 0 {
		t.Errorf("%+v, retry after %s", own.Limit, own.RetryAfter)
	}
	if len(pending) < 3 {
		t.Errorf("only %d were let in", len(pending))
	}
	w.stop()
	w.start() // what is decided counts after a restart, too
	wantReason(t, "after a restart", second(w.try("another", blind("t", "another"))), coordinator.QuotaExceeded)
	gate.release()
	for _, done := range pending {
		<-done // cut off by the restart, or answered
	}
	w.eventually("there is room again", func() bool { return second(w.try("another", blind("t", "another"))) == nil })
	w.check(closedRun{})
}
