package coordinator_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/txcoord/txcoord/coordinator"
	"github.com/txcoord/txcoord/coordinator/quota"
	"github.com/txcoord/txcoord/lock"
	"github.com/txcoord/txcoord/lock/memstore"
	"github.com/txcoord/txcoord/tables/objstore"
	"github.com/txcoord/txcoord/tables/objstore/memobj"
	"github.com/txcoord/txcoord/tables/objstore/objtest"
	"github.com/txcoord/txcoord/twophase"
)

// held is what a principal's account says: open transactions, and staged bytes.
func (w *world) held(who string) [2]int64 {
	return [2]int64{w.catalog.Held(who, quota.OpenTransactions), w.catalog.Held(who, quota.StagedBytes)}
}

func (w *world) as(c quota.Caller) context.Context { return quota.WithCaller(w.ctx(), &c) }

// overQuota checks a refusal.
func overQuota(t *testing.T, err error, reason coordinator.Reason, want coordinator.LimitDetail) {
	t.Helper()
	var e *coordinator.Error
	if !errors.As(err, &e) || e.Reason != reason || e.Limit == nil || (e.RetryAfter > 0) != (reason == coordinator.QuotaExceeded) {
		t.Fatalf("%v (%+v)", err, e)
	}
	if diff := cmp.Diff(want, *e.Limit); diff != "" {
		t.Error(diff)
	}
}

// stageAs stages bytes for a table.
func (w *world) stageAs(c quota.Caller, token string, part coordinator.OnceTable) error {
	_, err := w.catalog.Stage(w.as(c), coordinator.StageRequest{Token: token, Table: part.Table, Read: part.Read, Actions: part.Actions})
	return err
}

func (w *world) beginAs(c quota.Caller, key string) (string, error) {
	b, err := w.catalog.Begin(w.as(c), coordinator.BeginRequest{Key: key})
	return b.Token, err
}

func (w *world) abortToken(token string) {
	w.t.Helper()
	if _, err := w.catalog.Abort(w.ctx(), coordinator.OutcomeRef{Token: token}, "enough"); err != nil {
		w.t.Fatal(err)
	}
}

func TestQuotaOfOpenTransactions(t *testing.T) {
	t.Parallel()
	w := (&world{}).open(t)
	w.create("t", twophase.ModeExclusive)
	a, b := quota.Caller{Name: "a", Limits: quota.Limits{OpenTransactions: 2}}, quota.Caller{Name: "b", Limits: quota.Limits{OpenTransactions: 2}}
	begin := func(c quota.Caller, key string) string {
		t.Helper()
		token, err := w.beginAs(c, key)
		if err != nil {
			t.Fatal(err)
		}
		return token
	}
	first := begin(a, "1")
	begin(a, "2")
	begin(a, "1") // the same one
	_, err := w.beginAs(a, "3")
	overQuota(t, err, coordinator.QuotaExceeded, coordinator.LimitDetail{Name: "principal_open_transactions", Value: 3, Limit: 2})
	if _, err := w.catalog.Begin(w.as(a), coordinator.BeginRequest{Token: first}); err != nil {
		t.Errorf("extend: %v", err)
	}
	begin(b, "4")
	w.abortToken(first)
	begin(a, "3")
	if got := w.held("a"); got != [2]int64{2, 0} {
		t.Errorf("a holds %v", got)
	}
	// What needs no transaction to be open goes on.
	if _, _, err := w.catalog.CommitOnce(w.as(a), once("5", blind("t", "x"))); err != nil {
		t.Error(err)
	}
}

func TestQuotaOfStagedBytes(t *testing.T) {
	t.Parallel()
	w := &world{}
	w.cfg.Limits.InlineBytes = 100
	w.open(t)
	w.create("t", twophase.ModeExclusive)
	part, next := blind("t", "one"), blind("t", "two")
	size := int64(len(part.Actions))
	a := quota.Caller{Name: "a", Limits: quota.Limits{StagedBytes: size + size/2}}
	token, err := w.beginAs(a, "k")
	if err != nil {
		t.Fatal(err)
	}
	for range 2 { // the same bytes count once
		if err := w.stageAs(a, token, part); err != nil {
			t.Fatal(err)
		}
	}
	// Whoever stages it: the transaction is a's.
	for _, c := range []quota.Caller{a, {Name: "b", Limits: a.Limits}} {
		overQuota(t, w.stageAs(c, token, next), coordinator.QuotaExceeded, coordinator.LimitDetail{Name: "principal_staged_bytes", Value: 2 * size, Limit: size + size/2})
	}
	_, _, err = w.catalog.CommitOnce(w.as(a), once("once", next))
	overQuota(t, err, coordinator.QuotaExceeded, coordinator.LimitDetail{Name: "principal_staged_bytes", Value: 2 * size, Limit: size + size/2})
	small := quota.Caller{Name: "c", Limits: quota.Limits{StagedBytes: size - 1}}
	_, _, err = w.catalog.CommitOnce(w.as(small), once("once", next))
	overQuota(t, err, coordinator.LimitExceeded, coordinator.LimitDetail{Name: "principal_staged_bytes", Value: size, Limit: size - 1})
	if got := w.held("c"); got != [2]int64{} {
		t.Errorf("c holds %v for what was refused", got)
	}
	w.abortToken(token)
	if _, _, err := w.catalog.CommitOnce(w.as(a), once("once", next)); err != nil {
		t.Error(err)
	}
	if got := w.held("a"); got != [2]int64{} {
		t.Errorf("a holds %v", got)
	}
}

func TestQuotaOfCommits(t *testing.T) {
	t.Parallel()
	var clock atomic.Int64
	w := &world{}
	w.cfg.Boot = func() time.Duration { return time.Hour + time.Duration(clock.Load()) }
	w.open(t)
	w.create("t", twophase.ModeExclusive)
	a := quota.Caller{Name: "a", Limits: quota.Limits{Commits: 2}}
	commit := func(c quota.Caller, key string) error {
		_, _, err := w.catalog.CommitOnce(w.as(c), once(key, blind("t", key)))
		return err
	}
	if err := commit(a, "1"); err != nil {
		t.Fatal(err)
	}
	token, err := w.beginAs(a, "2")
	if err != nil {
		t.Fatal(err)
	}
	st := w.stage(token, blind("t", "2"))
	two := coordinator.CommitRequest{Token: token, Tables: []coordinator.TableParts{{Table: "t", Digests: []twophase.Digest{st.Digest}}}}
	for range 3 { // what is decided is answered again, and costs nothing
		if _, err := w.catalog.Commit(w.as(a), two); err != nil {
			t.Fatal(err)
		}
	}
	overQuota(t, commit(a, "3"), coordinator.QuotaExceeded, coordinator.LimitDetail{Name: "principal_commits", Value: 3, Limit: 2})
	if err := commit(quota.Caller{Name: "b", Limits: a.Limits}, "4"); err != nil {
		t.Error(err)
	}
	clock.Add(int64(500 * time.Millisecond))
	if err := commit(a, "3"); err != nil {
		t.Error(err)
	}
}

// TestQuotaOfTheQueue: while another one waits, what one principal has queued stays
// below half of queue_bytes.
func TestQuotaOfTheQueue(t *testing.T) {
	t.Parallel()
	puts := newGate()
	w := &world{wrapObjects: puts.over}
	part := blind("t", "0")
	size := int64(len(part.Actions))
	w.cfg.Limits.QueueBytes = 4*size + size/2
	w.open(t)
	w.create("t", twophase.ModeExclusive)
	w.create("u", twophase.ModeExclusive)
	w.eventually("the tables are published", func() bool { return w.catalog.Backlog() == 0 })
	puts.hold()
	var running []chan error
	commit := func(who, key, table string) chan error {
		ctx, done := w.as(quota.Caller{Name: who}), make(chan error, 1)
		go func() {
			_, _, err := w.catalog.CommitOnce(ctx, once(key, blind(table, key)))
			done <- err
		}()
		return done
	}
	wait := func(n int64) {
		t.Helper()
		w.eventually(fmt.Sprint(n, " wait"), func() bool { return w.catalog.Backlog() == n*size })
	}
	for i, c := range []struct{ who, table string }{{"light", "u"}, {"heavy", "t"}, {"heavy", "t"}} {
		running = append(running, commit(c.who, fmt.Sprint(i), c.table))
		wait(int64(i + 1))
	}
	overQuota(t, <-commit("heavy", "3", "t"), coordinator.QuotaExceeded, coordinator.LimitDetail{Name: "queue_bytes", Value: 3 * size, Limit: w.cfg.Limits.QueueBytes / 2})
	running = append(running, commit("light", "4", "u"))
	wait(4)
	puts.release()
	for _, done := range running {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	w.eventually("nothing waits", func() bool { return w.catalog.Backlog() == 0 })
}

// TestQuotasLeakNothing does what clients do in any order, over stores that fail now and
// then, and with calls that are given up; when all is decided, nobody holds anything.
func TestQuotasLeakNothing(t *testing.T) {
	t.Parallel()
	for seed := range uint64(4) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			s := &quotaStorm{seed: seed}
			w := s.run(t)
			if s.failed.Load() == 0 || s.refused.Load() == 0 {
				t.Errorf("stores failed %d times, %d calls were refused: that shows nothing", s.failed.Load(), s.refused.Load())
			}
			for _, who := range []string{"a", "b"} {
				if got := w.held(who); got != [2]int64{} {
					t.Errorf("seed %d: %s holds %v", seed, who, got)
				}
			}
			w.eventually("nothing waits", func() bool { return w.catalog.Backlog() == 0 })
		})
	}
}

type quotaStorm struct {
	seed  uint64
	fails atomic.Bool
	// failed and refused are how often a store failed, and a quota was used up.
	failed, refused atomic.Int64
	w               *world

	mu     sync.Mutex
	rand   *rand.Rand
	tokens []string
}

func (s *quotaStorm) n(n int) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.rand.IntN(n)
}

func (s *quotaStorm) run(t *testing.T) *world {
	s.rand = rand.New(rand.NewPCG(s.seed, 1))
	s.w = &world{
		wrapStore: func(in lock.Store) lock.Store { return failingStore{in, s} },
		wrapObjects: func(in objstore.Store) objstore.Store {
			return objtest.Faulty{Store: in, Hook: func(_ context.Context, op objtest.Op) objtest.Fate {
				if s.fails.Load() && objtest.Layout(op.Key) == "staged" && s.n(3) == 0 {
					s.failed.Add(1)
					return objtest.Refused()
				}
				return objtest.Done()
			}}
		},
	}
	s.w.cfg.Limits.InlineBytes = 200
	s.w.open(t)
	s.w.create("t", twophase.ModeExclusive)
	s.fails.Store(true)
	var wg sync.WaitGroup
	for i := range 6 {
		wg.Go(func() {
			for j := range 40 {
				s.step(fmt.Sprintf("%d-%d", i, j))
			}
		})
	}
	wg.Wait()
	s.fails.Store(false)
	s.rest()
	s.compare()
	s.end()
	return s.w
}

// step is one call of somebody. Whatever it answers is right.
func (s *quotaStorm) step(key string) {
	who := []string{"a", "b"}[s.n(2)]
	ctx, cancel := context.WithCancel(s.w.as(quota.Caller{Name: who, Limits: quota.Limits{OpenTransactions: 8, StagedBytes: 4000}}))
	defer cancel()
	if s.n(4) == 0 {
		go cancel()
	}
	part := blind("t", key+strings.Repeat("x", s.n(400)))
	token := s.token()
	switch k := s.n(10); {
	case k < 3 || token == "":
		b, err := s.w.catalog.Begin(ctx, coordinator.BeginRequest{Key: key, Client: who})
		s.see(err)
		if err == nil {
			s.mu.Lock()
			s.tokens = append(s.tokens, b.Token)
			s.mu.Unlock()
		}
	case k < 6:
		st, err := s.w.catalog.Stage(ctx, coordinator.StageRequest{Token: token, Table: "t", Read: part.Read, Actions: part.Actions, Client: who})
		s.see(err)
		if err == nil && s.n(3) == 0 {
			_, _ = s.w.catalog.Commit(ctx, coordinator.CommitRequest{Token: token, Tables: []coordinator.TableParts{{Table: "t", Digests: []twophase.Digest{st.Digest}}}})
		}
	case k < 8:
		q := once("once"+key, part)
		q.Client = who
		_, _, _ = s.w.catalog.CommitOnce(ctx, q)
	default:
		_, _ = s.w.catalog.Abort(ctx, coordinator.OutcomeRef{Token: token}, "enough")
	}
}

func (s *quotaStorm) see(err error) {
	if errors.Is(err, &coordinator.Error{Reason: coordinator.QuotaExceeded}) {
		s.refused.Add(1)
	}
}

func (s *quotaStorm) token() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.tokens) == 0 {
		return ""
	}
	return s.tokens[s.rand.IntN(len(s.tokens))]
}

// rest waits until what calls left behind is decided: the context of some ended while they
// waited. The entry of a commit that is asked for then comes behind theirs.
func (s *quotaStorm) rest() {
	s.w.t.Helper()
	s.w.eventually("no call waits for its decision", func() bool { return s.w.catalog.Queued() == 0 })
	s.w.commit("behind them", blind("t", "behind them"))
}

// compare sees that an account says what the list of open transactions does.
func (s *quotaStorm) compare() {
	s.w.t.Helper()
	open := s.open()
	for _, who := range []string{"a", "b"} {
		if got := s.w.held(who); got != open[who] {
			s.w.t.Errorf("seed %d: %s holds %v, and %v is open", s.seed, who, got, open[who])
		}
	}
}

// open is how many transactions, and bytes in them, the list shows of each.
func (s *quotaStorm) open() map[string][2]int64 {
	l, err := s.w.catalog.List(s.w.ctx(), coordinator.ListRequest{})
	if err != nil {
		s.w.t.Fatal(err)
	}
	open := map[string][2]int64{}
	for _, o := range l.Open {
		h := open[o.Client]
		h[0]++
		for _, st := range o.Tables {
			h[1] += st.Bytes
		}
		open[o.Client] = h
	}
	return open
}

// end aborts all that is open still, as expiry would.
func (s *quotaStorm) end() {
	w := s.w
	w.t.Helper()
	l, err := w.catalog.List(w.ctx(), coordinator.ListRequest{})
	if err != nil {
		w.t.Fatal(err)
	}
	for _, o := range l.Open {
		if _, err := w.catalog.Abort(w.ctx(), coordinator.OutcomeRef{Txn: o.Txn}, "the end"); err != nil && !errors.Is(err, &coordinator.Error{Reason: coordinator.TransactionNotFound}) {
			w.t.Fatal(err)
		}
	}
	if n := len(l.Open); n > 16+2*6 {
		w.t.Errorf("%d transactions are open, of two who may have 8 each", n)
	}
}

// failingStore turns puts of staged payloads back now and then.
type failingStore struct {
	lock.Store
	s *quotaStorm
}

// Put implements lock.Store.
func (f failingStore) Put(ctx context.Context, key string, value []byte, c lock.Condition) (lock.Revision, error) {
	if strings.HasPrefix(key, "pay/") && f.s.fails.Load() && f.s.n(3) == 0 {
		f.s.failed.Add(1)
		return "", errors.New("the disk is full")
	}
	return f.Store.Put(ctx, key, value, c)
}

// TestQuotasAfterARestart: what a principal began before counts, where it was begun here.
func TestQuotasAfterARestart(t *testing.T) {
	t.Parallel()
	store, objects := memstore.New(memstore.Config{}), memobj.New()
	w := &world{shared: store, objects: objects}
	w.cfg.Address = "here:1"
	w.cfg.SharedStore = true
	w.open(t)
	w.create("t", twophase.ModeExclusive)
	a := quota.Caller{Name: "a"}
	token, err := w.beginAs(a, "k")
	if err != nil {
		t.Fatal(err)
	}
	part := blind("t", "x")
	if err := w.stageAs(a, token, part); err != nil {
		t.Fatal(err)
	}
	want := [2]int64{1, int64(len(part.Actions))}
	if got := w.held("a"); got != want {
		t.Fatalf("a holds %v", got)
	}
	w.close()
	w.start()
	if got := w.held("a"); got != want {
		t.Errorf("after a restart a holds %v, not %v", got, want)
	}
	other := &world{shared: store, objects: objects}
	other.cfg.Address, other.cfg.SharedStore = "there:1", true
	other.open(t)
	if got := other.held("a"); got != [2]int64{} {
		t.Errorf("at another replica a holds %v", got)
	}
	// Staged through that one, it counts there too, and both give it back.
	if err := other.stageAs(a, token, blind("t", "y")); err != nil {
		t.Fatal(err)
	}
	if got := other.held("a"); got[0] != 1 || got[1] != want[1] {
		t.Errorf("at the other replica a holds %v", got)
	}
	w.abortToken(token)
	for name, w := range map[string]*world{"here": w, "there": other} {
		w.eventually(name+" it is given back", func() bool { return w.held("a") == [2]int64{} })
	}
}
