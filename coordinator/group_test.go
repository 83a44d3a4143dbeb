package coordinator_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
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

// burst commits many transactions at once and waits for them all.
func (w *world) burst(n int, request func(i int) coordinator.OnceRequest) []coordinator.Outcome {
	w.t.Helper()
	out := make([]coordinator.Outcome, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			o, _, err := w.catalog.CommitOnce(context.Background(), request(i))
			if err != nil {
				w.t.Errorf("transaction %d: %v", i, err)
				return
			}
			out[i] = o
		})
	}
	wg.Wait()
	if w.t.Failed() {
		w.t.FailNow()
	}
	return out
}

// Where the store writes one key per request, payloads are put while an entry of others
// is on its way: the next one waits for none of them. Those that come while some are on
// their way share one item.
func TestPayloadsDoNotHoldUpEntries(t *testing.T) {
	t.Parallel()
	hold, holdBundle := make(chan chan struct{}, 1), make(chan chan struct{}, 1)
	var bundles, held atomic.Int64
	wait := func(hold chan chan struct{}) {
		select {
		case release := <-hold:
			held.Add(1)
			<-release
		default:
		}
	}
	w := &world{wrapStore: func(s lock.Store) lock.Store {
		return hookedStore{s, func(key string) {
			if strings.HasPrefix(key, "pay/") {
				wait(holdBundle)
				bundles.Add(1)
			} else {
				wait(hold)
			}
		}}
	}}
	w.open(t)
	w.create("a", twophase.ModeExclusive)
	w.commit("warm", blind("a", "warm"))
	w.settle()
	release, releaseBundle := make(chan struct{}), make(chan struct{})
	hold <- release
	bundles.Store(0)
	var calls sync.WaitGroup
	call := func(key string) {
		calls.Go(func() {
			if _, err := w.try(key, blind("a", key)); err != nil {
				t.Error(err)
			}
		})
	}
	call("first")
	w.eventually("an entry is on its way", func() bool { return held.Load() == 1 })
	const alone = coordinator.BatchesAtOnce // as many as there may be, so that others wait
	for i := range alone {
		holdBundle <- releaseBundle
		call(fmt.Sprint("alone", i))
		w.eventually("a bundle is on its way", func() bool { return held.Load() == int64(i+2) })
	}
	for i := range 8 {
		call(fmt.Sprint("next", i))
	}
	w.eventually("the others' payloads wait for it", func() bool { return w.catalog.Bundling() == 8 })
	close(releaseBundle)
	w.eventually("all payloads are durable meanwhile", func() bool { return bundles.Load() == alone+2 && w.catalog.Queued() == alone+8 })
	close(release)
	calls.Wait()
	w.settle()
	if n := bundles.Load(); n != alone+2 {
		t.Errorf("payloads of %d calls, of which %d were alone and the others went together, took %d items", alone+9, alone+1, n)
	}
}

// A part that is durable ahead of a decision that refuses it is removed.
func TestPayloadOfARefusedCallGoes(t *testing.T) {
	t.Parallel()
	w := &world{wrapStore: func(s lock.Store) lock.Store { return hookedStore{s, func(string) {}} }}
	w.open(t)
	w.create("a", twophase.ModeExclusive)
	w.commit("one", blind("a", "one"))
	removal := change("a", readAt(1), remove("one"))
	w.commit("removed", removal)
	if _, err := w.try("again", removal); err == nil {
		t.Fatal("a file was removed twice")
	}
	w.eventually("nothing is left of it", func() bool {
		items, err := w.store.Scan(w.ctx(), "pay/", "", 1)
		return err == nil && len(items) == 0
	})
}

// While one append is in flight, requests queue, and what waits goes into one entry.
func TestWhatWaitsIsOneEntry(t *testing.T) {
	t.Parallel()
	holding := make(chan chan struct{}, 1)
	w := &world{wrapStore: func(s lock.Store) lock.Store {
		return hookedStore{s, holdRing(holding)}
	}}
	w.open(t)
	w.create("t", twophase.ModeExclusive)
	w.commit("warm", blind("t", "warm"))
	before := w.status().Position
	release := make(chan struct{})
	holding <- release
	first := w.background("first", blind("t", "first"))
	w.eventually("the first is on its way", func() bool { return len(holding) == 0 })
	var rest []chan error
	for i := range 50 {
		rest = append(rest, w.background(fmt.Sprint(i), blind("t", fmt.Sprint(i))))
	}
	w.eventually("the rest waits", func() bool { return w.catalog.Queued() == len(rest) })
	close(release)
	for _, done := range append(rest, first) {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	// One entry for the first, one for the rest, and the publications of two rounds,
	// of which the first may go along with the group.
	if n := w.status().Position - before; n < 3 || n > 5 {
		t.Errorf("51 transactions took %d entries", n)
	}
}

// Blind appends of one round share a version, in the order of their decision.
func TestBlindAppendsShareVersions(t *testing.T) {
	t.Parallel()
	gate := newGate()
	w := (&world{files: true, wrapObjects: gate.over}).open(t)
	w.create("hot", twophase.ModeOpen)
	gate.hold(commitKey("hot", 1))
	calls := []chan error{w.background("first", blind("hot", "first"))}
	w.eventually("it is decided", func() bool { return w.info("hot").Pending == 1 })
	for i := range 64 {
		calls = append(calls, w.background(fmt.Sprint(i), blind("hot", fmt.Sprint(i))))
	}
	w.eventually("the others are one round behind it", func() bool { return w.info("hot").Pending == len(calls) })
	gate.release()
	for _, done := range calls {
		w.must(<-done)
	}
	var run closedRun
	for i := range 64 {
		run.committed = append(run.committed, w.commit(fmt.Sprint(i), blind("hot", fmt.Sprint(i))))
	}
	if n := w.versions("hot") - 2; n != 1 {
		t.Errorf("64 blind appends of one round made %d versions", n)
	}
	// Place and version say where each is, and the log agrees.
	seen := map[string]bool{}
	for i, o := range run.committed {
		d := o.Committed.Tables[0]
		log := w.read("hot", int(d.Version))
		if !strings.Contains(log, fmt.Sprintf(`"path":"%d"`, i)) {
			t.Errorf("transaction %d is not in version %d", i, d.Version)
		}
		at := fmt.Sprint(d.Version, "/", d.Place)
		if seen[at] {
			t.Errorf("two transactions at %s", at)
		}
		seen[at] = true
	}
	w.check(run)
}

func TestOneTransactionPerVersion(t *testing.T) {
	t.Parallel()
	w := (&world{files: true}).open(t)
	w.createWith(coordinator.CreateRequest{Name: "t", Schema: schema, OneTxnPerVersion: true, Mode: twophase.ModeExclusive})
	run := closedRun{committed: w.burst(30, func(i int) coordinator.OnceRequest {
		return once(fmt.Sprint(i), blind("t", fmt.Sprint(i)))
	})}
	if n := w.versions("t"); n != 31 {
		t.Errorf("30 transactions made %d versions", n-1)
	}
	w.check(run)
}

// What does not go together has a version of its own: other dataChange, two versions
// of one application, removals (R19).
func TestWhatDoesNotShareAVersion(t *testing.T) {
	t.Parallel()
	gate := newGate()
	w := &world{wrapObjects: gate.over}
	w.open(t)
	w.create("t", twophase.ModeExclusive)
	w.commit("seed", change("t", blindRead, add("old"), add("older")))
	gate.hold(commitKey("t", 2))
	first := w.background("first", blind("t", "first"))
	w.eventually("it is decided", func() bool { return w.info("t").Pending == 1 })
	var waiting []chan error
	next := func(parts ...coordinator.OnceTable) {
		t.Helper()
		n := w.info("t").Pending
		waiting = append(waiting, w.background(fmt.Sprint("k", n), parts...))
		w.eventually("it is decided", func() bool { return w.info("t").Pending == n+1 })
	}
	rearranged := []byte(strings.Replace(string(add("c")), `"dataChange":true`, `"dataChange":false`, 1))
	next(blind("t", "a"))
	next(blind("t", "b"))
	next(change("t", blindRead, rearranged))
	next(change("t", blindRead, txnAction("app", 1), add("d")))
	next(change("t", blindRead, txnAction("app2", 1), add("e")))
	next(change("t", blindRead, txnAction("app", 2), add("f")))
	next(change("t", readAt(1), remove("old")))
	next(blind("t", "g"))
	gate.release()
	for _, done := range append(waiting, first) {
		if err := <-done; err != nil {
			t.Fatal(err)
		}
	}
	var got []string
	for v := 2; v < w.versions("t"); v++ {
		var paths []string
		for _, l := range strings.Split(w.read("t", v), "\n") {
			for _, p := range []string{"first", "a", "b", "c", "d", "e", "f", "g", "old"} {
				if strings.Contains(l, fmt.Sprintf(`"path":%q`, p)) {
					paths = append(paths, p)
				}
			}
		}
		got = append(got, strings.Join(paths, " "))
	}
	if diff := cmp.Diff([]string{"first", "a b", "c", "d e", "f", "old", "g"}, got); diff != "" {
		t.Errorf("versions (-want +got):\n%s", diff)
	}
}

// A thousand tables in one transaction: one entry decides, all appear at once.
func TestThousandTables(t *testing.T) {
	t.Parallel()
	w := &world{}
	w.cfg.Limits.FilePutParallel = 64
	w.open(t)
	const n = 1000
	names := make([]string, n)
	var wg sync.WaitGroup
	for i := range n {
		names[i] = fmt.Sprintf("t%04d", i)
		wg.Go(func() { w.create(names[i], twophase.ModeExclusive) })
	}
	wg.Wait()
	before := w.status()
	var parts []coordinator.OnceTable
	for _, name := range names {
		parts = append(parts, blind(name, "1"))
	}
	began := time.Now()
	o := w.commit("all", parts...)
	t.Logf("1,000 tables, cold, in %s", time.Since(began))
	if len(o.Committed.Tables) != n || o.Committed.Snapshot != before.Shown+1 {
		t.Fatalf("%d tables at snapshot %d", len(o.Committed.Tables), o.Committed.Snapshot)
	}
	if used := w.status().Position - before.Position; used > 3 { // a checkpoint may come in between
		t.Errorf("one transaction took %d entries", used)
	}
	for _, v := range w.snapshot(o.Committed.Snapshot) {
		if v != 1 {
			t.Fatalf("a table is at version %d", v)
		}
	}
	for _, v := range w.snapshot(o.Committed.Snapshot - 1) {
		if v != 0 {
			t.Fatalf("a table is at version %d one snapshot before", v)
		}
	}
	// Small ones are not held up by a large one's round elsewhere.
	small := w.create("small", twophase.ModeExclusive)
	for i := range parts {
		parts[i] = blind(names[i], "2")
	}
	large := w.background("many again", parts[:200]...)
	if o := w.commit("small", blind(small.Name, "1")); o.Committed.Snapshot == 0 {
		t.Errorf("%+v", o.Committed)
	}
	if err := <-large; err != nil {
		t.Error(err)
	}
}

// Exact counts of a warm transaction over exclusive tables that nobody else writes:
// two appends, one bundle of payloads that goes along with the first and is deleted once,
// a commit file per table, one manifest; nothing is read, listed or looked for. In a group
// the appends stay two, and the bundles one. Where some wait for a round of others on the
// same tables, an append more comes between the two rounds, for those who may come again.
func TestExactCounts(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ tables, group, large int }{{1, 1, 0}, {10, 1, 0}, {50, 1, 0}, {3, 8, 0}, {4, 1, 2}} {
		t.Run(fmt.Sprintf("tables=%d,group=%d,large=%d", c.tables, c.group, c.large), func(t *testing.T) {
			t.Parallel()
			var store *locktest.Counting
			var objects *objtest.Counting
			hold, gate := make(chan chan struct{}, 1), newGate()
			w := &world{
				wrapStore: func(s lock.Store) lock.Store {
					store = locktest.NewCounting(s, nil)
					return hookedBatches{store.Batching(), holdRing(hold)}
				},
				wrapObjects: func(s objstore.Store) objstore.Store {
					objects = objtest.NewCounting(gate.over(s), nil)
					return objects
				},
			}
			t.Cleanup(gate.release)
			w.cfg.Limits.InlineBytes, w.cfg.Limits.ManifestSnapshots = 1000, 1 // or two rounds may share a manifest
			w.open(t)
			request := func(key string) coordinator.OnceRequest {
				r := coordinator.OnceRequest{Key: key}
				for i := range c.tables {
					part := blind(fmt.Sprint("t", i), key)
					if i < c.large {
						part.Actions = lines(part.Actions, txnAction(strings.Repeat("x", 2000)+key, 1))
					}
					r.Tables = append(r.Tables, part)
				}
				return r
			}
			for i := range c.tables {
				w.create(fmt.Sprint("t", i), twophase.ModeExclusive)
			}
			for i := range 3 {
				if _, _, err := w.catalog.CommitOnce(w.ctx(), request(fmt.Sprint("warm", i))); err != nil {
					t.Fatal(err)
				}
			}
			w.settle()
			store.Reset()
			objects.Reset()
			var waiting sync.WaitGroup
			call := func(i int) {
				waiting.Go(func() {
					if _, _, err := w.catalog.CommitOnce(w.ctx(), request(fmt.Sprint("k", i))); err != nil {
						t.Error(err)
					}
				})
			}
			rounds := 1
			if c.group == 1 {
				call(0)
			} else { // the first is alone in its entry, and closes a round of its own
				release := make(chan struct{})
				goOn := sync.OnceFunc(func() { close(release) })
				t.Cleanup(goOn) // or a failure would wait for the append for ever
				hold <- release
				gate.hold("t0/_delta_log/00000000000000000004.json") // nor is it published before the rest is decided
				call(0)
				w.eventually("one is on its way", func() bool { return len(hold) == 0 })
				for i := 1; i < c.group; i++ {
					call(i)
				}
				w.eventually("the rest waits", func() bool { return w.catalog.Queued() == c.group-1 })
				goOn()
				w.eventually("the rest is taken", func() bool { return w.catalog.Queued() == 0 })
				gate.release()
				rounds = 2
			}
			waiting.Wait()
			w.settle()
			wantStore := map[locktest.Call]int{
				{Kind: locktest.PutBatch, Class: "ring"}: rounds,
				{Kind: locktest.Put, Class: "ring"}:      rounds + rounds - 1,
			}
			if c.large < c.tables { // small payloads share one item for each entry
				wantStore[locktest.Call{Kind: locktest.Batched, Class: "pay"}] = rounds
				wantStore[locktest.Call{Kind: locktest.Delete, Class: "pay"}] = rounds
			}
			wantObjects := map[objtest.Call]int{
				{Kind: objtest.PutIfAbsent, Class: "commit"}:    rounds * c.tables,
				{Kind: objtest.PutIfAbsent, Class: "manifests"}: rounds,
			}
			if c.large > 0 {
				wantObjects[objtest.Call{Kind: objtest.PutIfAbsent, Class: "staged"}] = c.large
				wantObjects[objtest.Call{Kind: objtest.Delete, Class: "staged"}] = c.large
			}
			if diff := cmp.Diff(sorted(wantStore), sorted(store.Counts())); diff != "" {
				t.Errorf("calls to the store (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(sorted(wantObjects), sorted(objects.Counts())); diff != "" {
				t.Errorf("calls to the objects (-want +got):\n%s", diff)
			}
		})
	}
}

func sorted[K comparable](m map[K]int) []string {
	var out []string
	for k, n := range maps.All(m) {
		out = append(out, fmt.Sprintf("%+v: %d", k, n))
	}
	slices.Sort(out)
	return out
}

// hotBurst is so many blind appends to one table at once.
func (w *world) hotBurst(name string, n int) {
	w.burst(n, func(i int) coordinator.OnceRequest {
		p := fmt.Sprintf("%s-%d", name, i)
		return once(p, blind("hot", p))
	})
}
