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

// appenders write a table without a pause until they are told to stop.
type appenders struct {
	n    int
	stop context.CancelFunc
	done sync.WaitGroup
}

func (w *world) appendTo(table string, n int) *appenders {
	ctx, cancel := context.WithCancel(w.ctx())
	a := &appenders{n: n, stop: cancel}
	for i := range n {
		a.done.Go(func() {
			for j := 0; ctx.Err() == nil; j++ {
				key := fmt.Sprintf("append-%d-%d", i, j)
				if _, _, err := w.catalog.CommitOnce(w.ctx(), once(key, blind(table, key))); err != nil {
					w.t.Errorf("%s: %v", key, err)
					return
				}
			}
		})
	}
	return a
}

// readWholeAmong is one attempt of a transaction that reads a table whole: it commits
// when somebody else has written the table since it read, or when nobody can.
func (w *world) readWholeAmong(a *appenders, key string, attempt uint32) error {
	w.t.Helper()
	v := w.info("t").Version
	if len(w.status().Reserved) > 0 {
		w.eventually("all others wait", func() bool { return w.status().HeldBack == a.n })
		v = w.info("t").Version // none of them waits for a publication any more
	} else {
		w.eventually("others write", func() bool { return w.info("t").Version > v })
	}
	r := once(key, change("t", readWhole(v), add(fmt.Sprintf("%s-%d", key, attempt))))
	r.Attempt = attempt
	_, _, err := w.catalog.CommitOnce(w.ctx(), r)
	return err
}

// TestReaderAmongAppenders: a transaction that reads the whole table, beside appenders
// that never pause, commits with the attempt after those that it has to lose. Without the
// rule it loses each one.
func TestReaderAmongAppenders(t *testing.T) {
	t.Parallel()
	for _, after := range []int{3, 1 << 20} {
		t.Run(fmt.Sprint(after), func(t *testing.T) {
			t.Parallel()
			w := &world{}
			w.cfg.Limits.ReserveAfter, w.cfg.Limits.ReservePositions = after, 1<<20
			w.cfg.Limits.ReserveTime, w.cfg.Limits.ReserveWait = time.Hour, time.Hour
			w.open(t)
			w.create("t", twophase.ModeExclusive)
			all := w.appendTo("t", 4)
			attempts := uint32(0)
			for attempts < 20 {
				attempts++
				err := w.readWholeAmong(all, "reader", attempts)
				if err == nil {
					break
				}
				lost := wantReason(t, fmt.Sprint("attempt ", attempts), err, coordinator.Conflicted)
				if told := strings.Contains(lost.Message, "goes first"); told != (attempts == uint32(after)) {
					t.Errorf("attempt %d is told: %s", attempts, lost.Message)
				}
			}
			all.stop()
			all.done.Wait()
			if want := uint32(min(after+1, 20)); attempts != want {
				t.Errorf("%d attempts, want %d", attempts, want)
			}
			if st := w.status(); st.HeldBack > 0 || len(st.Reserved) > 0 {
				t.Errorf("%d are held back behind %v", st.HeldBack, st.Reserved)
			}
		})
	}
}

// reserved has a key lose until it goes first.
func (w *world) reserved(key string, after uint32) {
	w.t.Helper()
	for n := uint32(1); n <= after; n++ {
		r := once(key, change("t", readWhole(0), add(fmt.Sprintf("%s-%d", key, n))))
		r.Attempt = n
		_, _, err := w.catalog.CommitOnce(w.ctx(), r)
		wantReason(w.t, key, err, coordinator.Conflicted)
	}
}

// TestHeldBack: who stands behind a key that goes first is told so after a while, and
// decided when its reservation has ended; everybody can see why. Others are not touched.
func TestHeldBack(t *testing.T) {
	t.Parallel()
	w := &world{}
	w.cfg.Limits.ReserveAfter, w.cfg.Limits.ReserveWait, w.cfg.Limits.ReserveTime = 2, time.Millisecond, time.Hour
	w.open(t)
	w.create("t", twophase.ModeExclusive)
	w.create("u", twophase.ModeExclusive)
	w.commit("first", blind("t", "first"))
	w.reserved("reader", 2)

	_, err := w.try("held", blind("t", "held"))
	told := wantReason(t, "an append", err, coordinator.TableReserved)
	if told.Txn == nil || told.Txn.Key != "reader" || told.Table == nil || told.Table.Table != "t" || told.RetryAfter == 0 {
		t.Errorf("it was told %+v", told)
	}
	w.commit("elsewhere", blind("u", "elsewhere"))

	st := w.status()
	if len(st.Reserved) != 1 || st.Reserved[0].Key != "reader" || st.Reserved[0].Attempt != 2 || len(st.Reserved[0].Tables) != 1 || st.Reserved[0].Tables[0] != "t" {
		t.Errorf("the status says %+v", st.Reserved)
	}
	if f := found(t, w.explain("t"), coordinator.FoundReserved); f.Key != "reader" || f.Blocks {
		t.Errorf("the finding is %+v", f)
	}
	x, err := w.catalog.ExplainTxn(w.ctx(), coordinator.OutcomeRef{Txn: twophase.DeriveTxnID(w.meta().Catalog, "reader", 2)}, nil)
	if err != nil || !strings.Contains(x.Remedy, "goes first") {
		t.Errorf("the transaction is explained as %s (%v)", x.Remedy, err)
	}

	w.restart0()
	r := once("reader", change("t", readWhole(w.info("t").Version), add("reader-3")))
	r.Attempt = 3
	if _, _, err := w.catalog.CommitOnce(w.ctx(), r); err != nil {
		t.Fatal(err)
	}
	w.commit("held", blind("t", "held"))
}

// restart0 closes the catalog and opens it over the same store.
func (w *world) restart0() {
	w.t.Helper()
	w.stop()
	w.start()
}

// TestNobodyComesBack: the client of a key that goes first is gone. Who waits has its
// reservation ended, and is decided in the same call.
func TestNobodyComesBack(t *testing.T) {
	t.Parallel()
	w := &world{}
	w.cfg.Limits.ReserveAfter, w.cfg.Limits.ReserveTime, w.cfg.Limits.ReserveWait = 1, time.Millisecond, time.Hour
	w.open(t)
	w.create("t", twophase.ModeExclusive)
	w.commit("first", blind("t", "first"))
	w.reserved("gone", 1)
	w.commit("next", blind("t", "next"))
	if st := w.status(); len(st.Reserved) > 0 || st.HeldBack > 0 {
		t.Errorf("%d are held back behind %v", st.HeldBack, st.Reserved)
	}
}

// TestHeldBackAndClosed: a catalog that is closed answers who is held back, and a client
// that goes away is not waited for.
func TestHeldBackAndClosed(t *testing.T) {
	t.Parallel()
	w := &world{}
	w.cfg.Limits.ReserveAfter, w.cfg.Limits.ReserveTime, w.cfg.Limits.ReserveWait = 1, time.Hour, time.Hour
	w.open(t)
	w.create("t", twophase.ModeExclusive)
	w.commit("first", blind("t", "first"))
	w.reserved("reader", 1)
	left, cancel := context.WithCancel(w.ctx())
	gone, stays := make(chan error, 1), make(chan error, 1)
	go func() {
		_, _, err := w.catalog.CommitOnce(left, once("gone", blind("t", "gone")))
		gone <- err
	}()
	go func() {
		_, err := w.try("stays", blind("t", "stays"))
		stays <- err
	}()
	w.eventually("both wait", func() bool { return w.status().HeldBack == 2 })
	cancel()
	if err := <-gone; !errors.Is(err, context.Canceled) {
		t.Errorf("who went away was told %v", err)
	}
	w.stop()
	wantReason(t, "who was held back", <-stays, coordinator.ShuttingDown)
	w.start()
	if st := w.status(); len(st.Reserved) != 1 {
		t.Errorf("after a start %v go first", st.Reserved)
	}
}

// TestHeldBackAtAnother: a key that lost at one replica goes first at all of them, and
// may come back to any.
func TestHeldBackAtAnother(t *testing.T) {
	t.Parallel()
	one := sharedWorld("one", time.Millisecond)
	one.cfg.Limits.ReserveAfter, one.cfg.Limits.ReserveTime, one.cfg.Limits.ReserveWait = 1, time.Hour, time.Hour
	one.open(t)
	two := one.replica(t, func(r *world) { r.cfg.Address = "two" })
	one.create("t", twophase.ModeExclusive)
	one.commit("first", blind("t", "first"))
	one.reserved("reader", 1)
	held := make(chan error, 1)
	eventually(t, "the table at the other", func() bool { _, err := two.catalog.Table(two.ctx(), "t"); return err == nil })
	go func() {
		_, err := two.try("held", blind("t", "held"))
		held <- err
	}()
	eventually(t, "the other to hold it back", func() bool { return two.status().HeldBack == 1 })
	r := once("reader", change("t", readWhole(one.info("t").Version), add("reader-2")))
	r.Attempt = 2
	if _, _, err := one.catalog.CommitOnce(one.ctx(), r); err != nil {
		t.Fatal(err)
	}
	if err := <-held; err != nil {
		t.Errorf("who was held back: %v", err)
	}
	if first, last := one.outcomeOf("reader", 2), one.outcomeOf("held", 1); first >= last {
		t.Errorf("the reader was decided at %d, and who stood behind it at %d", first, last)
	}
}

// outcomeOf is where an attempt was decided.
func (w *world) outcomeOf(key string, attempt uint32) twophase.Position {
	w.t.Helper()
	o, _, err := w.catalog.Outcome(w.ctx(), coordinator.OutcomeRequest{OutcomeRef: coordinator.OutcomeRef{Key: key, Attempt: attempt}})
	if err != nil {
		w.t.Fatal(err)
	}
	return o.Position
}

// endings counts the records of an entry that end a reservation.
type endings struct {
	lock.Store
	mu  sync.Mutex
	all []int // per entry that has one
}

// Put implements lock.Store.
func (s *endings) Put(ctx context.Context, key string, value []byte, c lock.Condition) (lock.Revision, error) {
	if e, err := storedEntry(value); err == nil && strings.HasPrefix(key, "ring/") {
		n := 0
		for _, r := range e.Records {
			if _, ok := r.(*twophase.ReservationEnded); ok {
				n++
			}
		}
		if s.mu.Lock(); n > 0 {
			s.all = append(s.all, n)
		}
		s.mu.Unlock()
	}
	return s.Store.Put(ctx, key, value, c)
}

// TestNobodyOfManyComesBack: all that have gone first on a table for long are sent away
// together. Who waits does not stand behind one after the other.
func TestNobodyOfManyComesBack(t *testing.T) {
	t.Parallel()
	var ended *endings
	var later atomic.Int64
	w := &world{wrapStore: func(s lock.Store) lock.Store { ended = &endings{Store: s}; return ended }}
	w.cfg.Boot = func() time.Duration { return time.Hour + time.Duration(later.Load()) }
	w.cfg.Limits.ReserveAfter, w.cfg.Limits.ReserveTime, w.cfg.Limits.ReserveWait = 1, time.Minute, time.Hour
	w.open(t)
	w.create("t", twophase.ModeExclusive)
	w.create("u", twophase.ModeExclusive)
	w.commit("first", blind("t", "first"))
	w.commit("first u", blind("u", "first u"))
	for i := range 5 {
		w.reserved(fmt.Sprint("gone-", i), 1)
	}
	r := once("elsewhere", change("u", readWhole(0), add("elsewhere")))
	_, _, err := w.catalog.CommitOnce(w.ctx(), r)
	wantReason(t, "elsewhere", err, coordinator.Conflicted)

	next := make(chan error, 1)
	go func() { _, err := w.try("next", blind("t", "next")); next <- err }()
	w.eventually("it waits", func() bool { return w.status().HeldBack == 1 })
	later.Store(int64(time.Minute))
	if err := <-next; err != nil {
		t.Fatal(err)
	}
	ended.mu.Lock()
	defer ended.mu.Unlock()
	if len(ended.all) != 1 || ended.all[0] != 5 {
		t.Errorf("reservations were ended %v at a time, want all 5 in one entry", ended.all)
	}
	if st := w.status(); len(st.Reserved) != 1 || st.Reserved[0].Key != "elsewhere" {
		t.Errorf("%v go first, want who nobody waits for", st.Reserved)
	}
}

// TestBystander: a key whose caller may only read a table holds nobody up there.
func TestBystander(t *testing.T) {
	t.Parallel()
	w := &world{}
	w.cfg.Limits.ReserveAfter, w.cfg.Limits.ReserveTime, w.cfg.Limits.ReserveWait = 1, time.Hour, time.Hour
	w.open(t)
	w.create("theirs", twophase.ModeExclusive)
	w.create("own", twophase.ModeExclusive)
	w.commit("first", blind("theirs", "first"))
	for _, bystander := range []bool{true, false} {
		r := once(fmt.Sprint("reader ", bystander), blind("own", fmt.Sprint("summary ", bystander)))
		r.Reads = []coordinator.ReadOnly{{Table: "theirs", Read: readWhole(0), Bystander: bystander}}
		_, _, err := w.catalog.CommitOnce(w.ctx(), r)
		wantReason(t, "a reader", err, coordinator.Conflicted)
		if goes := len(w.status().Reserved) > 0; goes == bystander {
			t.Errorf("bystander %v: it goes first: %v", bystander, goes)
		}
	}
}
