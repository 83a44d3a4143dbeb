package coordinator_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/txcoord/txcoord/coordinator"
	"github.com/txcoord/txcoord/lock"
	"github.com/txcoord/txcoord/tables/objstore"
	"github.com/txcoord/txcoord/tables/objstore/objtest"
	"github.com/txcoord/txcoord/twophase"
)

// lossy is a world with a decided transaction on t and beside, key k, that is in no log, and
// whose servers are gone.
type lossy struct {
	*world
	part string // the name of the piece of t, in the store or as an object
	was  []byte // what it held
}

func newLossy(t *testing.T, w *world) *lossy {
	t.Helper()
	gate := newGate()
	w.wrapObjects = gate.over
	w.cfg.Limits.FreezeAfter = 20 * time.Millisecond
	w.open(t)
	for _, name := range []string{"t", "beside", "apart"} {
		w.create(name, twophase.ModeOpen)
	}
	w.commit("seed", blind("t", "1"), blind("beside", "1"))
	w.settle()
	gate.refuse()
	w.abandonedParts("t", once("k", blind("t", "2"), blind("beside", "2")))
	id := "/" + string(w.info("t").ID) + "/"
	w.stop()
	gate.release()
	l := &lossy{world: w}
	for key, content := range w.keys() {
		if strings.Contains(key, id) && (strings.HasPrefix(key, "store: pay/") || strings.Contains(key, "/staged/")) {
			l.part, l.was = key, []byte(content)
		}
	}
	if l.part == "" {
		t.Fatal("nothing is staged for t")
	}
	return l
}

// put makes the piece hold that; nil takes it away.
func (l *lossy) put(content []byte) {
	l.t.Helper()
	key, inStore := strings.CutPrefix(l.part, "store: ")
	key = strings.TrimPrefix(key, "object: ")
	switch {
	case inStore && content == nil:
		l.must(l.store.Delete(l.ctx(), key))
	case inStore:
		l.must(l.store.Delete(l.ctx(), key))
		l.must(second(l.store.Put(l.ctx(), key, content, lock.IfAbsent())))
	case content == nil:
		l.must(l.objects.Delete(l.ctx(), key))
	default:
		l.must(l.objects.Put(l.ctx(), key, content))
	}
}

func (l *lossy) must(err error) {
	l.t.Helper()
	if err != nil {
		l.t.Fatal(err)
	}
}

// frozen waits until t is frozen for its lost part.
func (l *lossy) frozen() {
	l.t.Helper()
	l.eventually("it is frozen as lost", func() bool {
		f := l.info("t").Frozen
		return f != nil && f.Cause == twophase.CauseLost
	})
}

// outcome is what became of k on a table.
func (l *lossy) outcome() (o coordinator.Outcome, on map[string]twophase.Status) {
	l.t.Helper()
	o = l.commit("k", blind("t", "2"), blind("beside", "2"))
	on = map[string]twophase.Status{}
	for _, d := range o.Committed.Tables {
		on[d.Name] = d.Status
	}
	return o, on
}

// losses are the ways to lose a staged part.
var losses = map[string]struct {
	inline  int
	damage  func([]byte) []byte
	says    string
	mention string
}{
	"an item is gone":      {1 << 20, func([]byte) []byte { return nil }, "is gone", "key pay/"},
	"an object is gone":    {1, func([]byte) []byte { return nil }, "is gone", "object file:///w/_txcoord/default/staged/"},
	"an item is damaged":   {1 << 20, func(b []byte) []byte { return []byte(strings.Replace(string(b), `"path":"2`, `"path":"3`, 1)) }, "is damaged", "key pay/"},
	"an object is cut":     {1, func(b []byte) []byte { return b[:len(b)-3] }, "is damaged", "/staged/"},
	"an object is emptied": {1, func([]byte) []byte { return []byte{} }, "is damaged", "/staged/"},
	"an object is no text": {1, func([]byte) []byte { return []byte("{\n\x00") }, "is damaged", "/staged/"},
}

// The staged part of a decided transaction is lost before its table has the change: that is
// said with the transaction and the key, other tables get theirs, and the table goes on by
// itself when the part is back.
func TestLostPartComesBack(t *testing.T) {
	t.Parallel()
	for name, loss := range losses {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := &world{}
			w.cfg.Limits.InlineBytes = loss.inline
			l := newLossy(t, w)
			l.put(loss.damage(l.was))
			l.start()
			l.frozen()
			l.eventually("the other table has its version", func() bool { return l.versions("beside") == 3 })
			if n := l.versions("t"); n != 2 {
				t.Errorf("%d versions of t", n)
			}
			e := l.explain("t")
			f := found(t, e, coordinator.FoundPartLost)
			o, on := l.outcome()
			if e.Findings[0].Code != coordinator.FoundPartLost || !f.Blocks || f.Txn != o.Txn || f.Key != "k" || f.File == "" ||
				!strings.Contains(l.part, strings.TrimPrefix(f.File, "file:///w/")) ||
				!strings.Contains(f.Text, loss.says) || !strings.Contains(f.Text, loss.mention) || !strings.Contains(f.Remedy, "resolve t --give-up") {
				t.Errorf("%+v", f)
			}
			if f := found(t, e, coordinator.FoundFrozen); !strings.Contains(f.Text, "(lost)") || strings.Contains(f.Text, "requests on its location") {
				t.Errorf("%+v", f)
			}
			for _, f := range e.Findings {
				if f.Code == coordinator.FoundStoreTrouble {
					t.Errorf("the store is blamed: %+v", f)
				}
			}
			if on["t"] != twophase.StatusPending || !strings.Contains(o.Committed.PendingReason, "lost") {
				t.Errorf("%+v", o.Committed)
			}
			own := wantReason(t, "a commit", second(l.try("more", blind("beside", "3"))), coordinator.TableFrozen)
			if own.Frozen.Cause != twophase.CauseLost || own.Frozen.Txn != o.Txn {
				t.Errorf("%+v", own.Frozen)
			}
			own = wantReason(t, "resolve", l.resolve("t"), coordinator.NothingToResolve)
			if !strings.Contains(own.Message, "--give-up") || !strings.Contains(own.Message, loss.mention) {
				t.Errorf("%s", own.Message)
			}
			l.commit("others go on", blind("apart", "1"))

			l.put(l.was)
			l.eventually("it goes on", func() bool { return l.info("t").Frozen == nil })
			if o, on := l.outcome(); o.Committed.Snapshot == 0 || on["t"] != twophase.StatusPublished || on["beside"] != twophase.StatusPublished {
				t.Errorf("%+v", o.Committed)
			}
			l.commit("more", blind("t", "3"), blind("beside", "3"))
			if e := l.explain("t"); len(e.Findings) != 0 {
				t.Errorf("%+v", e.Findings)
			}
			l.check(closedRun{})
		})
	}
}

// Nobody has the part any more: the operator gives the change up on that table, for good.
func TestLostPartGivenUp(t *testing.T) {
	t.Parallel()
	for name, loss := range losses {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := &world{}
			w.cfg.Limits.InlineBytes = loss.inline
			l := newLossy(t, w)
			l.put(loss.damage(l.was))
			l.start()
			l.frozen()
			l.eventually("the other table has its version", func() bool { return l.versions("beside") == 3 })
			q := coordinator.ResolveRequest{Table: "t", GiveUp: true, Preview: true, Reason: "a lifecycle rule ate it"}
			var plan coordinator.Resolution
			l.unchangedNow("a preview", func() {
				var err error
				if plan, err = l.catalog.Resolve(l.ctx(), q); err != nil {
					t.Fatal(err)
				}
			})
			if len(plan.Steps) != 1 || plan.Steps[0].Kind != "barrier" || len(plan.GivenUp) != 1 || plan.GivenUp[0].Key != "k" ||
				plan.GivenUp[0].Conflict.Rule != twophase.RuleOperator || !cmp.Equal(plan.Freed, []string{"beside", "t"}) || len(plan.GivenUp[0].Elsewhere) != 1 {
				t.Errorf("%+v", plan)
			}
			// Named by the table that froze with it, it is the same plan.
			q.Table = "beside"
			if same, err := l.catalog.Resolve(l.ctx(), q); err != nil || same.Plan != plan.Plan {
				t.Errorf("by the other table: %+v, %v", same, err)
			}
			q.Table, q.Preview, q.Plan = "t", false, plan.Plan
			if _, err := l.catalog.Resolve(l.ctx(), q); err != nil {
				t.Fatal(err)
			}
			l.eventually("the round is published", func() bool { return len(l.status().Rounds) == 0 })
			o, on := l.outcome()
			if o.Committed.Snapshot == 0 || on["t"] != twophase.StatusNotApplied || on["beside"] != twophase.StatusPublished {
				t.Errorf("%+v", o.Committed)
			}
			l.commit("more", blind("t", "3"), blind("beside", "3"))
			if got := l.snapshot(0); got["t"] != 3 || got["beside"] != 3 { // t has the barrier in between
				t.Errorf("%v", got)
			}
			if log := l.read("t", 2); !strings.Contains(log, "txcoord.notApplied") || strings.Contains(log, `"add"`) {
				t.Errorf("%s", log)
			}
			l.put(l.was) // it turns up: too late, and nobody is misled
			wantReason(t, "again", l.resolve("t"), coordinator.NothingToResolve)
			_, err := l.catalog.Resolve(l.ctx(), coordinator.ResolveRequest{Table: "t", GiveUp: true})
			wantReason(t, "giving up what is not lost", err, coordinator.NothingToResolve)
			l.put(nil)
			l.check(closedRun{})
		})
	}
}

// The part comes back between preview and word: the plan is another one, and nothing is done.
func TestLostPartComesBackBeforeTheWord(t *testing.T) {
	t.Parallel()
	l := newLossy(t, &world{})
	l.put(nil)
	l.start()
	l.frozen()
	plan, err := l.catalog.Resolve(l.ctx(), coordinator.ResolveRequest{Table: "t", GiveUp: true, Preview: true})
	l.must(err)
	l.put(l.was)
	_, err = l.catalog.Resolve(l.ctx(), coordinator.ResolveRequest{Table: "t", GiveUp: true, Plan: plan.Plan})
	wantReason(t, "the word", err, coordinator.NothingToResolve)
	l.eventually("it goes on", func() bool { return l.info("t").Frozen == nil })
	if _, on := l.outcome(); on["t"] != twophase.StatusPublished {
		t.Errorf("%v", on)
	}
}

// A place that does not answer says nothing of what is there.
func TestUnreadablePartIsNotLost(t *testing.T) {
	t.Parallel()
	w := &world{}
	w.cfg.Limits.InlineBytes = 1
	l := newLossy(t, w)
	var down atomic.Bool
	down.Store(true)
	tried := make(chan struct{}, 1)
	w.wrapObjects = func(s objstore.Store) objstore.Store {
		return objtest.Faulty{Store: s, Hook: func(_ context.Context, op objtest.Op) objtest.Fate {
			if op.Kind == objtest.Get && strings.Contains(op.Key, "/staged/") && down.Load() {
				select {
				case tried <- struct{}{}:
				default:
				}
				return objtest.Refused()
			}
			return objtest.Done()
		}}
	}
	l.start()
	for range 5 {
		<-tried
	}
	if f := l.info("t").Frozen; f != nil && f.Cause == twophase.CauseLost {
		t.Errorf("%+v", f)
	}
	_, err := l.catalog.Resolve(l.ctx(), coordinator.ResolveRequest{Table: "t", GiveUp: true})
	wantReason(t, "giving up", err, coordinator.ObjectsUnavailable)
	for _, f := range l.explain("t").Findings {
		if f.Code == coordinator.FoundPartLost {
			t.Errorf("%+v", f)
		}
	}
	down.Store(false)
	l.eventually("it goes on", func() bool { return l.info("t").Frozen == nil && len(l.status().Rounds) == 0 })
}

// The process dies between the barrier and its record: whoever comes next finds it.
func TestLostPartCrashInResolve(t *testing.T) {
	t.Parallel()
	l := newLossy(t, &world{})
	l.put(nil)
	ctx, cancel := context.WithCancel(l.ctx())
	var dead atomic.Bool
	l.wrapObjects = func(s objstore.Store) objstore.Store {
		return objtest.Faulty{Store: s, Hook: func(_ context.Context, op objtest.Op) objtest.Fate {
			switch {
			case op.Key == commitKey("t", 2) && op.Kind == objtest.PutIfAbsent:
				dead.Store(true)
				return objtest.Landed()
			case op.Key == commitKey("t", 2) && dead.Load():
				cancel()
				return objtest.Refused()
			}
			return objtest.Done()
		}}
	}
	l.wrapStore = func(s lock.Store) lock.Store {
		return refusing{s, &dead}
	}
	l.start()
	l.frozen()
	_, err := l.catalog.Resolve(ctx, coordinator.ResolveRequest{Table: "t", GiveUp: true})
	if err == nil {
		t.Error("the call that died says that it is done")
	}
	if l.versions("t") != 3 {
		t.Errorf("%d versions of t", l.versions("t"))
	}
	l.stop()
	l.wrapStore, l.wrapObjects = nil, nil
	l.start()
	l.eventually("the next one makes it history", func() bool { return len(l.status().Rounds) == 0 })
	if _, on := l.outcome(); on["t"] != twophase.StatusNotApplied || on["beside"] != twophase.StatusPublished {
		t.Errorf("%v", on)
	}
	l.commit("more", blind("t", "3"))
	l.check(closedRun{})
}

// refusing is a store that takes no write any more, once it is dead.
type refusing struct {
	lock.Store
	dead *atomic.Bool
}

func (r refusing) Put(ctx context.Context, key string, value []byte, c lock.Condition) (lock.Revision, error) {
	if r.dead.Load() {
		return lock.Revision(""), errors.New("the process is dead")
	}
	return r.Store.Put(ctx, key, value, c)
}

// Two replicas resolve at once: one barrier, and both say that it is done.
func TestLostPartResolvedByTwo(t *testing.T) {
	t.Parallel()
	l := newLossy(t, &world{})
	l.put(nil)
	l.start()
	l.frozen()
	two := &world{objects: l.objects, shared: l.store, cfg: l.cfg}
	two.open(t)
	l.must(two.catalog.AtLeast(two.ctx(), l.catalog.Shown()))
	done := make(chan error, 2)
	for _, c := range []*coordinator.Catalog{l.catalog, two.catalog} {
		go func() {
			_, err := c.Resolve(l.ctx(), coordinator.ResolveRequest{Table: "t", GiveUp: true})
			done <- err
		}()
	}
	for range 2 {
		if err := <-done; err != nil && !errors.Is(err, &coordinator.Error{Reason: coordinator.NothingToResolve}) {
			t.Error(err)
		}
	}
	l.eventually("the round is published", func() bool { return len(l.status().Rounds) == 0 })
	if _, on := l.outcome(); on["t"] != twophase.StatusNotApplied {
		t.Errorf("%v", on)
	}
	if n := l.versions("t"); n != 3 {
		t.Errorf("%d versions of t", n)
	}
}

// The lost part defines a new table: no log is there that could hold a barrier, so the
// table is given up, and released.
func TestLostPartOfANewTable(t *testing.T) {
	t.Parallel()
	clock := &clock{}
	w := &world{}
	w.cfg.Boot = clock.now
	gate := newGate()
	w.wrapObjects = gate.over
	w.cfg.Limits.FreezeAfter = time.Nanosecond
	w.open(t)
	w.create("t", twophase.ModeOpen)
	w.settle()
	gate.refuse()
	r := once("k", blind("t", "1"), coordinator.OnceTable{Table: "new", Create: &coordinator.NewTable{URI: w.uri("new"), Schema: schema}})
	w.abandonedParts("t", r)
	id := "/" + string(w.info("new").ID) + "/"
	w.stop()
	gate.release()
	l := &lossy{world: w}
	for key := range w.keys() {
		if strings.HasPrefix(key, "store: pay/") && strings.Contains(key, id) {
			l.part = key
		}
	}
	l.put(nil)
	w.start()
	clock.advance(time.Minute)
	l.eventually("it is frozen", func() bool { return l.info("new").Frozen != nil })
	f := found(t, l.explain("new"), coordinator.FoundPartLost)
	if f.Key != "k" {
		t.Errorf("%+v", f)
	}
	q := coordinator.ResolveRequest{Table: "new", GiveUp: true}
	plan, err := l.catalog.Resolve(l.ctx(), q)
	if err != nil || len(plan.Steps) != 1 || plan.Steps[0].Kind != "replaced" {
		t.Fatalf("%+v, %v", plan, err)
	}
	for _, name := range []string{"t", "new"} {
		f := found(t, l.explain(name), coordinator.FoundFrozen)
		if !strings.Contains(f.Text, "an operator gave a table up") || strings.Contains(f.Text, "another table's") || !strings.Contains(f.Remedy, "tables resolve new") {
			t.Errorf("%s: %+v", name, f)
		}
		for _, f := range l.explain(name).Findings {
			if strings.Contains(f.Remedy, "put the part back") {
				t.Errorf("%s: %+v", name, f)
			}
		}
	}
	wantReason(t, "at once", l.resolve("new"), coordinator.TooEarly)
	clock.advance(11 * time.Minute)
	l.must(l.resolve("new"))
	l.eventually("the round is published", func() bool { return len(l.status().Rounds) == 0 })
	l.must(l.catalog.Release(l.ctx(), "new", false))
	l.commit("more", blind("t", "2"))
}
