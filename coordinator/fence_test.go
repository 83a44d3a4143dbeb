package coordinator_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/txcoord/txcoord/coordinator"
	"github.com/txcoord/txcoord/tables"
	"github.com/txcoord/txcoord/tables/objstore"
	"github.com/txcoord/txcoord/tables/objstore/objtest"
	"github.com/txcoord/txcoord/twophase"
)

func (w *world) fence(table string, noOlder bool) coordinator.TableInfo {
	w.t.Helper()
	info, err := w.catalog.Fence(w.ctx(), coordinator.FenceRequest{Table: table, NoOlderWriters: noOlder})
	if err != nil {
		w.t.Fatal(err)
	}
	return info
}

func (w *world) unfence(table string) coordinator.TableInfo {
	w.t.Helper()
	info, err := w.catalog.Unfence(w.ctx(), table)
	if err != nil {
		w.t.Fatal(err)
	}
	return info
}

// protocol is what a version's protocol action says; nil if it has none.
func (w *world) protocol(table string, v int) (p *protocolAction) {
	w.t.Helper()
	for _, line := range strings.Split(w.read(table, v), "\n") {
		var action struct{ Protocol *protocolAction }
		if line != "" && json.Unmarshal([]byte(line), &action) == nil && action.Protocol != nil {
			p = action.Protocol
		}
	}
	return p
}

type protocolAction struct {
	MinReaderVersion, MinWriterVersion int
	ReaderFeatures, WriterFeatures     []string
}

func decidedOnce(key string, parts ...coordinator.OnceTable) coordinator.OnceRequest {
	r := once(key, parts...)
	r.Wait = coordinator.WaitDecided
	return r
}

func (w *world) decided(key string, parts ...coordinator.OnceTable) (coordinator.Outcome, error) {
	o, _, err := w.catalog.CommitOnce(w.ctx(), decidedOnce(key, parts...))
	return o, err
}

func TestFenceAndUnfence(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.create("t", twophase.ModeOpen)
	w.commit("1", blind("t", "1"))

	info := w.fence("t", false)
	if info.Mode != twophase.ModeFenced || info.Version != 2 || info.Fence == nil || info.Fence.Version != 2 || info.Fence.Counts || info.OffersDecided {
		t.Fatalf("%+v", info)
	}
	if left := time.Until(info.Fence.DecidedFrom.Std()); left < 50*time.Minute || left > 61*time.Minute {
		t.Errorf("DECIDED is said to be offered in %s", left)
	}
	want := &protocolAction{MinReaderVersion: 1, MinWriterVersion: 7, WriterFeatures: []string{"appendOnly", "invariants", tables.FenceFeature}}
	if diff := cmp.Diff(want, w.protocol("t", 2)); diff != "" {
		t.Errorf("protocol (-want +got):\n%s", diff)
	}
	_, err := w.decided("too early", blind("t", "2"))
	if got := wantReason(t, "DECIDED within the grace time", err, coordinator.DecidedNotOffered); !strings.Contains(got.Message, "--no-older-writers") {
		t.Errorf("no remedy: %s", got.Message)
	}

	info = w.fence("t", true)
	if !info.OffersDecided || !info.Fence.Operator || info.Version != 2 {
		t.Errorf("with the operator's word: %+v, %+v", info, info.Fence)
	}
	if o, err := w.decided("2", blind("t", "2")); err != nil || o.Committed == nil || o.Committed.PendingReason != "" {
		t.Errorf("%+v, %v", o, err)
	}

	info = w.unfence("t")
	if info.Mode != twophase.ModeOpen || info.Fence != nil || info.Version != 4 || info.ModeReason != "" {
		t.Errorf("%+v", info)
	}
	want.WriterFeatures = want.WriterFeatures[:2]
	if diff := cmp.Diff(want, w.protocol("t", 4)); diff != "" {
		t.Errorf("protocol (-want +got):\n%s", diff)
	}
	_, err = w.decided("open again", blind("t", "3"))
	wantReason(t, "DECIDED on an open table", err, coordinator.DecidedNotOffered)
	w.commit("3", blind("t", "3"))
	if again := w.unfence("t"); again.Version != 5 {
		t.Errorf("an open table was unfenced: %+v", again)
	}
	w.check(closedRun{})
}

// DECIDED is answered while the object store stands still; what is answered so is
// published when it goes on, also by another process.
func TestDecidedDoesNotWaitForTheLog(t *testing.T) {
	t.Parallel()
	g := newGate()
	w := &world{files: true, wrapObjects: g.over}
	w.open(t)
	for _, name := range []string{"a", "b"} {
		w.create(name, twophase.ModeFenced)
	}
	g.refuse()
	o, err := w.decided("k", blind("a", "1"), blind("b", "1"))
	if err != nil || o.Committed == nil || o.Committed.Snapshot != 0 || o.Committed.PendingReason != "" {
		t.Fatalf("%+v, %v", o, err)
	}
	if w.read("a", 1) != "" {
		t.Fatal("a version came through the closed gate")
	}
	w.restart()
	g.release()
	w.eventually("it is published", func() bool { return w.snapshot(0)["a"] == 1 && w.snapshot(0)["b"] == 1 })
	again, err := w.decided("k", blind("a", "1"), blind("b", "1"))
	if err != nil || again.Txn != o.Txn {
		t.Errorf("the same call again: %+v, %v", again, err)
	}
	w.check(closedRun{committed: []coordinator.Outcome{again}})
}

// The grace time is counted to its end once; the journal remembers that.
func TestFenceCountsAfterTheGraceTime(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.create("t", twophase.ModeOpen)
	w.fence("t", false)
	w.cfg.Limits.FenceGrace = 30 * time.Millisecond
	w.restart()
	w.eventually("the fence counts", func() bool { return w.info("t").OffersDecided })
	w.cfg.Limits.FenceGrace = time.Hour
	w.restart()
	if info := w.info("t"); !info.OffersDecided || info.Fence.Operator {
		t.Errorf("%+v", info)
	}
	if _, err := w.decided("1", blind("t", "1")); err != nil {
		t.Error(err)
	}
}

// A writer that read the protocol before the fence commits after it. Whenever it is
// found, the fence is over before anything was answered that rests on it (B1).
func TestOlderWriterEndsAFence(t *testing.T) {
	t.Parallel()
	for name, found := range map[string]func(w *world){
		"when the grace time has passed": func(w *world) {
			w.cfg.Limits.FenceGrace = 10 * time.Millisecond
			w.restart()
		},
		"by the look-up of a commit": func(w *world) { w.commit("finds it", blind("t", "2")) },
		"by the operator's word":     func(w *world) { w.fence("t", true) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			log := &logged{}
			w := &world{files: true}
			w.cfg.Log = log.logger()
			w.open(t)
			w.create("t", twophase.ModeOpen)
			w.commit("1", blind("t", "1"))
			w.fence("t", false)
			w.foreign("t", 3, remove("1"))
			found(w)
			w.eventually("the mode is open", func() bool { return w.info("t").Mode == twophase.ModeOpen })
			info := w.info("t")
			if info.Fence != nil || !strings.Contains(info.ModeReason, "it was fenced until other/1 committed version 3") {
				t.Errorf("%+v", info)
			}
			w.eventually("there is an alarm", func() bool { return log.has("somebody else wrote a fenced table") })
			if st := w.status(); len(st.Opened) != 1 || st.Opened[0].Name != "t" {
				t.Errorf("status: %+v", st.Opened)
			}
			_, err := w.decided("removes it too", change("t", readAt(2), remove("1")))
			wantReason(t, "DECIDED after the fence", err, coordinator.DecidedNotOffered)
			if info := w.fence("t", true); !info.OffersDecided || info.ModeReason != "" || len(w.status().Opened) != 0 {
				t.Errorf("fenced again: %+v", info)
			}
			w.check(closedRun{})
		})
	}
}

// The mode is looked at again when DECIDED is to be answered: what was fenced when the
// request came is not any more, so the answer waits for the log.
func TestDecidedIsCheckedAtTheAnswer(t *testing.T) {
	t.Parallel()
	g := newGate()
	staging, staged := make(chan struct{}), make(chan struct{})
	var first sync.Once
	w := &world{files: true}
	w.wrapObjects = func(s objstore.Store) objstore.Store {
		return objtest.Faulty{Store: g.over(s), Hook: func(_ context.Context, op objtest.Op) objtest.Fate {
			if strings.Contains(op.Key, "/staged/") && (op.Kind == objtest.Put || op.Kind == objtest.PutIfAbsent) { // and not the sweeper
				first.Do(func() { close(staging); <-staged })
			}
			return objtest.Done()
		}}
	}
	w.cfg.Limits.InlineBytes = 1000 // larger payloads are objects, and those come after the check
	w.open(t)
	w.create("t", twophase.ModeFenced)
	type result struct {
		outcome coordinator.Outcome
		err     error
	}
	answer := make(chan result, 1)
	ctx, catalog := w.ctx(), w.catalog
	go func() {
		o, _, err := catalog.CommitOnce(ctx, decidedOnce("k", blind("t", strings.Repeat("long", 500))))
		answer <- result{o, err}
	}()
	<-staging
	g.refuse()
	lifted := make(chan error, 1)
	go func() { _, err := catalog.Unfence(ctx, "t"); lifted <- err }()
	w.eventually("the lifting is decided", func() bool { return w.info("t").Mode == twophase.ModeOpen })
	close(staged)
	w.eventually("the commit is decided", func() bool { return w.info("t").Pending == 2 })
	select {
	case r := <-answer:
		t.Errorf("answered without a fence and without the log: %+v, %v", r.outcome.Committed, r.err)
	case <-time.After(50 * time.Millisecond):
	}
	g.release()
	if r := <-answer; r.err != nil || r.outcome.Committed.Snapshot == 0 {
		t.Errorf("%+v, %v", r.outcome.Committed, r.err)
	}
	if err := <-lifted; err != nil {
		t.Error(err)
	}
	w.check(closedRun{})
}

// A fence is no conflict for anybody but who changes the protocol as well: writers go
// on beside it, whether they began before or after.
func TestWritersBesideFenceChanges(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.create("t", twophase.ModeOpen)
	b := w.begin("before the fence")
	st := w.stage(b.Token, change("t", readWhole(0), add("staged before")))
	w.fence("t", true)
	if _, err := w.catalog.Commit(w.ctx(), coordinator.CommitRequest{Token: b.Token, Tables: []coordinator.TableParts{parts("t", st.Digest)}}); err != nil {
		t.Errorf("staged before the fence: %v", err)
	}
	var writers sync.WaitGroup
	stop := make(chan struct{})
	counts := make([]int, 4)
	for i := range counts {
		writers.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-stop:
					return
				default:
				}
				if _, err := w.try(fmt.Sprint(i, "-", n), blind("t", fmt.Sprint("f", i, "-", n))); err != nil {
					t.Errorf("writer %d: %v", i, err)
					return
				}
				counts[i]++
			}
		})
	}
	for range 5 {
		w.unfence("t")
		w.fence("t", true)
	}
	close(stop)
	writers.Wait()
	for i, n := range counts {
		if n == 0 {
			t.Errorf("writer %d wrote nothing", i)
		}
	}
	w.check(closedRun{})
}

// Two callers, and a caller who went away, end up with one fence.
func TestFenceIsRaisedOnce(t *testing.T) {
	t.Parallel()
	g := newGate()
	w := &world{files: true, wrapObjects: g.over}
	w.open(t)
	w.create("t", twophase.ModeOpen)
	g.refuse()
	short, cancel := context.WithCancel(w.ctx())
	gone := make(chan error, 1)
	go func() {
		_, err := w.catalog.Fence(short, coordinator.FenceRequest{Table: "t"})
		gone <- err
	}()
	w.eventually("the fence is decided", func() bool { return w.info("t").Pending == 1 })
	cancel()
	if err := <-gone; !errors.Is(err, context.Canceled) {
		t.Errorf("the caller who went away: %v", err)
	}
	if info := w.info("t"); info.Mode != twophase.ModeOpen || !strings.Contains(info.ModeReason, "raises the fence") {
		t.Errorf("before it is published: %+v", info)
	}
	done := make(chan error, 3)
	for range cap(done) {
		go func() {
			_, err := w.catalog.Fence(w.ctx(), coordinator.FenceRequest{Table: "t"})
			done <- err
		}()
	}
	g.release()
	for range cap(done) {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	if n := w.versions("t"); n != 2 {
		t.Errorf("%d versions for one fence", n)
	}
}

func TestFencedTablesComeAndGo(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	info, warnings, err := w.catalog.Create(w.ctx(), coordinator.CreateRequest{Name: "new", URI: w.uri("new"), Schema: schema, Mode: twophase.ModeFenced})
	if err != nil || !info.OffersDecided || info.Version != 0 || info.Fence.DecidedFrom == 0 || len(warnings) != 0 {
		t.Errorf("created: %+v, %q, %v", info, warnings, err)
	}
	if d, err := w.catalog.Describe(w.ctx(), "new"); err != nil || len(d.Warnings) != 0 {
		t.Errorf("described: %q, %v", d.Warnings, err)
	}
	if again := w.create("new", twophase.ModeFenced); again.Version != 0 {
		t.Errorf("created again: %+v", again)
	}
	_, _, err = w.catalog.Create(w.ctx(), coordinator.CreateRequest{
		Name: "x", URI: w.uri("x"), Schema: schema, Properties: map[string]string{"delta.feature." + tables.FenceFeature: "supported"},
	})
	wantReason(t, "a fence by property", err, coordinator.InvalidRequest)

	got := wantReason(t, "release", w.catalog.Release(w.ctx(), "new", false), coordinator.WrongMode)
	if !strings.Contains(got.Message, "unfence") || !strings.Contains(got.Message, "--keep-fence") {
		t.Errorf("no remedy: %s", got.Message)
	}
	if err := w.catalog.Release(w.ctx(), "new", true); err != nil {
		t.Fatal(err)
	}
	info, warnings, err = w.catalog.Register(w.ctx(), coordinator.RegisterRequest{Name: "old", URI: w.uri("new")})
	if err != nil || info.Mode != twophase.ModeOpen || !strings.Contains(strings.Join(warnings, " "), tables.FenceFeature) {
		t.Errorf("%+v, %q, %v", info, warnings, err)
	}
	wantReason(t, "release", w.catalog.Release(w.ctx(), "old", false), coordinator.WrongMode)
	if d, err := w.catalog.Describe(w.ctx(), "old"); err != nil || !strings.Contains(strings.Join(d.Warnings, " "), tables.FenceFeature) {
		t.Errorf("another catalog's fence: %q, %v", d.Warnings, err)
	}
	for range 2 {
		info, _, err = w.catalog.Register(w.ctx(), coordinator.RegisterRequest{Name: "old", URI: w.uri("new"), Mode: twophase.ModeFenced})
		if err != nil || info.Mode != twophase.ModeFenced || info.Version != 1 || info.OffersDecided {
			t.Errorf("registered as fenced: %+v, %v", info, err)
		}
	}
	_, err = w.catalog.SetMode(w.ctx(), "old", twophase.ModeExclusive)
	wantReason(t, "the mode of a fenced table", err, coordinator.WrongMode)
	w.unfence("old")
	_, err = w.catalog.SetMode(w.ctx(), "old", twophase.ModeFenced)
	wantReason(t, "a fence by mode", err, coordinator.WrongMode)
	if err := w.catalog.Release(w.ctx(), "old", false); err != nil {
		t.Error(err)
	}
}

// No client raises a fence or lifts one.
func TestFenceIsTheCatalogsAlone(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.create("open", twophase.ModeOpen)
	w.create("fenced", twophase.ModeFenced)
	for table, features := range map[string]string{
		"open": `"appendOnly","invariants","txcoordFence"`, "fenced": `"appendOnly","invariants"`,
	} {
		protocol := []byte(`{"protocol":{"minReaderVersion":1,"minWriterVersion":7,"writerFeatures":[` + features + `]}}` + "\n")
		_, err := w.try("protocol of "+table, change(table, readAt(0), protocol))
		wantReason(t, "protocol of "+table, err, coordinator.InvalidRequest)
	}
	// Other features may come while the fence is there.
	protocol := []byte(`{"protocol":{"minReaderVersion":1,"minWriterVersion":7,"writerFeatures":["appendOnly","invariants","txcoordFence","domainMetadata"]}}` + "\n")
	w.commit("a feature", change("fenced", readAt(0), protocol))
	if info := w.info("fenced"); !info.OffersDecided {
		t.Errorf("%+v", info)
	}
}

// While a fence does not count the log is looked at before each decision, as on an open
// table; once it counts, a warm table sees nothing but its commit files.
func TestNoLookOnceTheFenceCounts(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	looks := 0
	w := &world{files: true}
	w.wrapObjects = func(s objstore.Store) objstore.Store {
		return objtest.Faulty{Store: s, Hook: func(_ context.Context, op objtest.Op) objtest.Fate {
			if strings.HasPrefix(op.Key, "t/_delta_log/0") && op.Kind != objtest.PutIfAbsent {
				mu.Lock()
				looks++
				mu.Unlock()
			}
			return objtest.Done()
		}}
	}
	seen := func() int {
		mu.Lock()
		defer mu.Unlock()
		return looks
	}
	w.open(t)
	w.create("t", twophase.ModeOpen)
	w.fence("t", false)
	w.commit("1", blind("t", "1"))
	before := seen()
	w.commit("2", blind("t", "2"))
	if seen() == before {
		t.Error("the table is not looked at, and its fence does not count")
	}
	w.fence("t", true)
	w.commit("3", blind("t", "3"))
	before = seen()
	w.commit("4", blind("t", "4"))
	if n := seen() - before; n != 0 {
		t.Errorf("%d looks at a table whose fence counts", n)
	}
}
