package coordinator_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/txcoord/txcoord/coordinator"
	"github.com/txcoord/txcoord/lock"
	"github.com/txcoord/txcoord/twophase"
)

// gathers is a world in which first is published by a round that seems to have taken hours,
// while second, decided meanwhile, waits for the same table. Those whom that round answers
// are awaited for an hour.
func gathers(t *testing.T) (w *world, first, second chan error, publish func()) {
	t.Helper()
	gate := newGate()
	var later atomic.Int64
	w = &world{wrapObjects: gate.over}
	w.cfg.Now = func() time.Time { return time.Now().Add(time.Duration(later.Load())) }
	w.cfg.Limits.GatherAtMost = time.Hour
	w.open(t)
	w.create("t", twophase.ModeExclusive)
	gate.hold("t/_delta_log/00000000000000000001.json")
	t.Cleanup(gate.release)
	first = w.background("first", blind("t", "first"))
	w.eventually("the first is decided", func() bool { return w.info("t").Pending == 1 })
	o, _, err := w.catalog.Outcome(w.ctx(), coordinator.OutcomeRequest{OutcomeRef: coordinator.OutcomeRef{Key: "first"}})
	if err != nil {
		t.Fatal(err)
	}
	w.eventually("its call waits", func() bool { return w.catalog.Waiters(o.Txn) == 1 })
	second = w.background("second", blind("t", "second"))
	w.eventually("the second is decided", func() bool { return w.info("t").Pending == 2 })
	return w, first, second, func() {
		later.Store(int64(10 * time.Hour))
		gate.release()
	}
}

// Who was answered and comes again shares the next round with who waited for it.
func TestWritersOfOneTableShareRounds(t *testing.T) {
	t.Parallel()
	w, first, second, publish := gathers(t)
	publish()
	if err := <-first; err != nil {
		t.Fatal(err)
	}
	again := w.commit("again", blind("t", "again"))
	if err := <-second; err != nil {
		t.Fatal(err)
	}
	waited, _, err := w.catalog.Outcome(w.ctx(), coordinator.OutcomeRequest{OutcomeRef: coordinator.OutcomeRef{Key: "second"}})
	if err != nil {
		t.Fatal(err)
	}
	got := [2]twophase.Version{waited.Committed.Tables[0].Version, again.Committed.Tables[0].Version}
	if got != [2]twophase.Version{2, 2} || waited.Committed.Snapshot != again.Committed.Snapshot {
		t.Errorf("versions %v, in snapshots %d and %d; they are to share version 2", got, waited.Committed.Snapshot, again.Committed.Snapshot)
	}
}

// A server ends between a round and the next, whose transactions gather. It does not say
// that all is done; the next one publishes them.
func TestStopWhileTransactionsGather(t *testing.T) {
	t.Parallel()
	w, first, second, publish := gathers(t)
	publish()
	if err := <-first; err != nil {
		t.Fatal(err)
	}
	soon, cancel := context.WithTimeout(w.ctx(), 20*time.Millisecond)
	defer cancel()
	if err := w.catalog.Drain(soon); err == nil {
		t.Error("drained, while a transaction waits for its round")
	}
	if n := w.info("t").Pending; n != 1 {
		t.Errorf("%d transactions wait, want 1", n)
	}
	why := w.explainTxn(coordinator.OutcomeRef{Key: "second"}, func(string) bool { return true })
	if why.State != coordinator.TxnWaiting || !strings.Contains(why.Text, "its round opens with the next entry") {
		t.Errorf("explained as %v: %s", why.State, why.Text)
	}
	w.stop()
	if err := <-second; err != nil {
		t.Logf("the second is told: %v", err)
	}
	w.start()
	w.eventually("it is published", func() bool { return w.info("t").Pending == 0 })
	if n := w.versions("t"); n != 3 {
		t.Errorf("%d versions, want 3", n)
	}
}

// TestReturning: all who are awaited end the wait. Where less than half of them come, ever
// more chances to wait are passed over, until they come again.
func TestReturning(t *testing.T) {
	t.Parallel()
	r := coordinator.NewReturning(time.Hour)
	if awaited, _, _ := r.Awaited(t.Context()); awaited {
		t.Error("somebody is awaited before anybody was answered")
	}
	onWay := r.Enters()
	r.Answered(2)
	r.Enters()()
	r.Enters()
	awaited, came, missing := r.Awaited(t.Context())
	if got := fmt.Sprint(awaited, came, missing); got != "true 3 2" {
		t.Errorf("%s, want true, three, of whom two are on their way", got)
	}
	onWay()
	onWay()
	if awaited, _, _ := r.Awaited(t.Context()); awaited {
		t.Error("they are awaited twice")
	}

	r = coordinator.NewReturning(time.Microsecond)
	var passed []int
	for range 7 {
		n := 0
		for r.Answered(4); ; r.Answered(4) {
			if awaited, came, _ := r.Awaited(t.Context()); awaited {
				if came != 0 {
					t.Error("who is on the way is waited for, although nobody came back")
				}
				break
			}
			n++
		}
		passed = append(passed, n)
	}
	if got := fmt.Sprint(passed); got != "[0 1 3 7 15 31 31]" {
		t.Errorf("chances passed over: %s", got)
	}
}

// Nobody waits for those who are answered when the server ends.
func TestAwaitedAndClosed(t *testing.T) {
	t.Parallel()
	r := coordinator.NewReturning(time.Hour)
	r.Answered(1)
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("closed"))
	if awaited, came, _ := r.Awaited(ctx); !awaited || came != 0 {
		t.Errorf("awaited %v, %d came", awaited, came)
	}
}

// The catalog leaves the store in the very entry that closes a round, behind which something
// gathers: nobody asks for an entry that nobody may append, and the server may end.
func TestMoveWhileTransactionsGather(t *testing.T) {
	t.Parallel()
	gate, hold := newGate(), make(chan chan struct{}, 1)
	w := &world{wrapObjects: gate.over, wrapStore: func(s lock.Store) lock.Store {
		return hookedStore{s, holdRing(hold)}
	}}
	w.open(t)
	w.create("t", twophase.ModeExclusive)
	w.settle()
	gate.hold("t/_delta_log/00000000000000000001.json")
	t.Cleanup(gate.release)
	first := w.background("first", blind("t", "first"))
	w.eventually("the first is decided", func() bool { return w.info("t").Pending == 1 })
	second := w.background("second", blind("t", "second"))
	w.eventually("the second is decided", func() bool { return w.info("t").Pending == 2 })

	release, catalog, ctx := make(chan struct{}), w.catalog, w.ctx()
	goOn := sync.OnceFunc(func() { close(release) })
	t.Cleanup(goOn)
	hold <- release
	left := make(chan error, 2)
	go func() { left <- catalog.Append(ctx, &twophase.FloorRaised{Floor: 1}) }()
	w.eventually("an append is on its way", func() bool { return len(hold) == 0 })
	gate.release()
	w.eventually("the publication waits", func() bool { return catalog.Queued() == 1 })
	go func() { left <- catalog.Leave(ctx, "elsewhere") }()
	w.eventually("the move waits", func() bool { return catalog.Queued() == 2 })
	goOn()
	for range 2 {
		if err := <-left; err != nil {
			t.Error(err)
		}
	}
	_, _ = <-first, <-second
	if n, st := catalog.Publishing(), w.status(); n > 0 || st.Waiting != 1 {
		t.Errorf("the publisher has %d things to do, and %d transactions wait; want none, and one", n, st.Waiting)
	}
	if err := catalog.Drain(ctx); err != nil {
		t.Error(err)
	}
}
