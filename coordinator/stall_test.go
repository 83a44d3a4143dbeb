package coordinator_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/txcoord/txcoord/coordinator"
	"github.com/txcoord/txcoord/lock"
	"github.com/txcoord/txcoord/lock/locktest"
	"github.com/txcoord/txcoord/tables/objstore"
	"github.com/txcoord/txcoord/tables/objstore/objtest"
	"github.com/txcoord/txcoord/twophase"
)

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
			stopped = len(decided) >= 10 // the ring is full; before that, the machine is slow
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
		// One table's requests may pass before the other's: that one is frozen then, a
		// call is told so at once, and it thaws by itself.
		w.eventually(name+" is published", func() bool {
			o, _, err := w.catalog.CommitOnce(w.ctx(), r)
			if err != nil || o.Committed == nil {
				t.Fatalf("%s afterwards: %+v, %v", name, o, err)
			}
			if o.Committed.Snapshot == 0 {
				return false
			}
			run.committed = append(run.committed, o)
			return true
		})
	}
	w.check(run)
	w.eventually("nothing is frozen", func() bool { return len(w.status().Frozen) == 0 })
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
		wantReason(t, "thaw", w.resolve(name), coordinator.NothingToResolve)
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

// A place that gives no answer is told as that, to callers and in the status, and the log says
// when it works again.
func TestPlaceWithoutAnswers(t *testing.T) {
	t.Parallel()
	var silent atomic.Bool
	hook := func(ctx context.Context, _ objtest.Op) objtest.Fate {
		if !silent.Load() {
			return objtest.Done()
		}
		<-ctx.Done()
		return objtest.Fate{Err: ctx.Err()}
	}
	w := &world{wrapObjects: func(s objstore.Store) objstore.Store { return objtest.Faulty{Store: s, Hook: hook} }}
	w.cfg.Limits.PutDeadline = 50 * time.Millisecond
	var log logged
	w.cfg.Log = log.logger()
	w.open(t)
	w.create("t", twophase.ModeOpen)
	w.commit("warm", blind("t", "0")) // its log is read
	w.settle()
	silent.Store(true)
	w.explain("t") // before anything else has found out: it does not wait either
	ctx, cancel := context.WithTimeout(w.ctx(), 10*time.Second)
	defer cancel()
	_, _, err := w.catalog.CommitOnce(ctx, once("k", blind("t", "1")))
	if own := wantReason(t, "a commit", err, coordinator.ObjectsUnavailable); !strings.Contains(own.Message, "its requests take too long") {
		t.Errorf("a commit is told %q", own.Message)
	}
	w.eventually("the status says so", func() bool {
		all := w.status().Troubles
		return len(all) > 0 && strings.Contains(all[0].Text, "its requests take too long")
	})
	for _, f := range w.explain("t").Findings {
		if f.Code == coordinator.FoundStopped {
			t.Errorf("the log is said to be damaged: %s; %s", f.Text, f.Remedy)
		}
	}
	silent.Store(false)
	w.commit("k", blind("t", "1"))
	w.eventually("the log says that it works again", func() bool { return log.has("a place works again", "place="+w.uri("t")) })
}

// The object that says whose the log is can be read, and the log cannot: who asks what is wrong
// does not wait for that either.
func TestLogWithoutAnswers(t *testing.T) {
	t.Parallel()
	var silent atomic.Bool
	hook := func(ctx context.Context, op objtest.Op) objtest.Fate {
		if !silent.Load() || !strings.HasPrefix(op.Key, "t/_delta_log/") || strings.Contains(op.Key, "/_txcoord/") {
			return objtest.Done()
		}
		<-ctx.Done()
		return objtest.Fate{Err: ctx.Err()}
	}
	w := &world{wrapObjects: func(s objstore.Store) objstore.Store { return objtest.Faulty{Store: s, Hook: hook} }}
	w.open(t)
	w.create("t", twophase.ModeExclusive)
	w.restart() // so that nothing of it is known
	silent.Store(true)
	ctx, cancel := context.WithTimeout(w.ctx(), 15*time.Second)
	defer cancel()
	e, err := w.catalog.Explain(ctx, "t", func(string) bool { return true })
	silent.Store(false)
	if err != nil || !slices.ContainsFunc(e.Findings, func(f coordinator.Finding) bool { return f.Code == coordinator.FoundStoreTrouble }) {
		t.Errorf("%v, found %+v", err, e.Findings)
	}
}

// muteStore gives no answer to who reads while mute is set.
type muteStore struct {
	lock.Store
	mute *atomic.Bool
}

func (s muteStore) Get(ctx context.Context, key string) (lock.Item, error) {
	if s.mute.Load() {
		<-ctx.Done()
		return lock.Item{}, ctx.Err()
	}
	return s.Store.Get(ctx, key)
}

// While the store does not answer, somebody may wait for it as long as he likes: who asks for
// the latest snapshot, or why a table takes no commits, is answered from memory all the same.
func TestNobodyWaitsBehindWhoeverWaitsForTheStore(t *testing.T) {
	t.Parallel()
	var mute atomic.Bool
	w := &world{wrapStore: func(s lock.Store) lock.Store { return muteStore{s, &mute} }}
	w.cfg.SharedStore = true
	w.open(t)
	w.create("t", twophase.ModeExclusive)
	w.commit("warm", blind("t", "0"))
	w.settle()
	mute.Store(true)
	patient, stop := context.WithTimeout(w.ctx(), 30*time.Second)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, _, _ = w.catalog.Outcome(patient, coordinator.OutcomeRequest{OutcomeRef: coordinator.OutcomeRef{Key: "unknown"}})
	}()
	time.Sleep(50 * time.Millisecond) // without it the test may pass by luck, and never fails by it
	begun := time.Now()
	w.snapshot(0)
	w.explain("t")
	if took := time.Since(begun); took > 20*time.Second {
		t.Errorf("it took %s", took)
	}
	stop()
	<-ended
	mute.Store(false)
}

// A payload of a decided transaction is gone: nothing else is published in its place,
// and when it is back the round goes on (C2).
func TestMissingPayload(t *testing.T) {
	t.Parallel()
	gate := newGate()
	w := &world{wrapObjects: gate.over}
	w.cfg.Limits.InlineBytes = 1
	w.cfg.Limits.FreezeAfter = 20 * time.Millisecond
	var log logged
	w.cfg.Log = log.logger()
	w.open(t)
	w.create("a", twophase.ModeExclusive)
	w.create("b", twophase.ModeExclusive)
	w.commit("warm", blind("a", "warm"), blind("b", "warm"))
	w.settle()
	gate.refuse()
	w.abandoned("a", once("k", blind("a", "1"), blind("b", "1")))
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
	w.eventually("it is published", func() bool { return w.snapshot(0)["a"] == 2 && w.snapshot(0)["b"] == 2 })
	o := w.commit("k", blind("a", "1"), blind("b", "1"))
	for _, said := range []string{"msg=publish ", `msg="a round cannot be published; its tables are frozen"`} {
		if !log.has(said, " txn="+o.Txn.String()+" ") {
			t.Errorf("no line %s names the transaction %s", said, o.Txn)
		}
	}
	w.check(closedRun{committed: []coordinator.Outcome{o}})
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
		if err := <-done; err != nil { // cut off by the restart
			t.Log(err)
		}
	}
	w.eventually("there is room again", func() bool { return second(w.try("another", blind("t", "another"))) == nil })
	w.check(closedRun{})
}

// A large payload of a call that is refused is staged once, however often the call is
// repeated, and goes when its transaction is over.
func TestRefusedCallsStageOnce(t *testing.T) {
	t.Parallel()
	gate := newGate()
	w := &world{wrapObjects: gate.over}
	w.cfg.Limits.QueueBytes, w.cfg.Limits.InlineBytes = 200, 1
	w.open(t)
	w.create("t", twophase.ModeExclusive)
	w.commit("warm", blind("t", "warm"))
	w.settle()
	gate.hold(commitKey("t", 2))
	pending := w.background("pending", blind("t", "1"))
	w.eventually("it is decided", func() bool { return w.info("t").Pending == 1 })
	for i := range 5 {
		wantReason(t, "past the quota", second(w.try("refused", blind("t", "2"))), coordinator.QuotaExceeded)
		if err := second(w.catalog.Tag(w.ctx(), fmt.Sprint("the journal goes on ", i), 1)); err != nil {
			t.Fatal(err)
		}
	}
	if n := w.payloadObjects(); n != 2 {
		t.Errorf("%d payloads of two transactions", n)
	}
	gate.release()
	if err := <-pending; err != nil {
		t.Fatal(err)
	}
	w.eventually("there is room again", func() bool { return second(w.try("refused", blind("t", "2"))) == nil })
	w.settle()
	if n := w.payloads(); n != 0 {
		t.Errorf("%d payloads are left", n)
	}
}

// A process dies when it has staged and before it has noted for whom: the next one
// finds the piece, lists its transaction, and lets it expire.
func TestOrphanedPayloadsExpire(t *testing.T) {
	t.Parallel()
	for _, inline := range []int{1, 1 << 20} {
		w := &world{}
		w.cfg.Limits.InlineBytes = inline
		w.wrapStore = func(s lock.Store) lock.Store {
			return locktest.NewFaulty(s, func(_ context.Context, op locktest.Op) locktest.Fate {
				return map[bool]locktest.Fate{true: locktest.Refused}[op.Kind == locktest.Put && strings.HasPrefix(op.Key, "open/")]
			})
		}
		w.open(t)
		w.create("t", twophase.ModeExclusive)
		b := w.begin("job")
		w.stage(b.Token, blind("t", "1"))
		w.cfg.Limits.TTL, w.cfg.Limits.MaxTTL = 100*time.Millisecond, 100*time.Millisecond
		w.restart()
		w.eventually("the transaction is listed", func() bool {
			list, err := w.catalog.List(w.ctx(), coordinator.ListRequest{})
			return err == nil && len(list.Open) == 1 && list.Open[0].Txn == b.Txn && list.Open[0].Tables[0].Parts == 1
		})
		w.eventually("it expires, and the payload goes", func() bool { return w.payloads() == 0 })
		_, err := w.try("job", blind("t", "1"))
		wantReason(t, "its key", err, coordinator.Expired)
	}
}
