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
	"github.com/txcoord/txcoord/tables/objstore"
	"github.com/txcoord/txcoord/twophase"
)

// replica is another process on one's store and objects.
func (w *world) replica(t testing.TB, set func(r *world)) *world {
	t.Helper()
	r := &world{objects: w.objects, shared: w.store, cfg: w.cfg}
	if set != nil {
		set(r)
	}
	return r.open(t)
}

// sharedWorld is a replica on a store that others may use.
func sharedWorld(address string, takeOver time.Duration) *world {
	w := &world{}
	w.cfg.SharedStore, w.cfg.Address = true, address
	w.cfg.Limits.TakeOverAfter, w.cfg.Limits.Heartbeat = takeOver, 20*time.Millisecond
	return w
}

func eventually(t testing.TB, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); !is(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("waited in vain for %s", what)
		}
	}
}

// countedObjects counts puts by the kind of what is put.
type countedObjects struct {
	objstore.Store
	mu   sync.Mutex
	puts map[string]int
}

func (c *countedObjects) PutIfAbsent(ctx context.Context, key string, b []byte) error {
	kind := "other"
	for _, k := range []string{"/_delta_log/", "/manifests/", "/checkpoints/"} {
		if strings.Contains(key, k) {
			kind = k
		}
	}
	c.mu.Lock()
	c.puts[kind]++
	c.mu.Unlock()
	return c.Store.PutIfAbsent(ctx, key, b)
}

func counted(w *world) *countedObjects {
	c := &countedObjects{puts: map[string]int{}}
	w.wrapObjects = func(s objstore.Store) objstore.Store {
		c.Store = s
		return c
	}
	return c
}

// TestIdleReplicaFollows: it sees what another commits without being asked for it,
// and leaves the work to the one that appended.
func TestIdleReplicaFollows(t *testing.T) {
	t.Parallel()
	one := sharedWorld("one:1", time.Hour).open(t)
	one.create("t", twophase.ModeExclusive)
	var puts *countedObjects
	two := one.replica(t, func(r *world) {
		r.cfg.Address = "two:1"
		puts = counted(r)
	})
	for i := range 20 {
		one.commit(fmt.Sprint(i), blind("t", fmt.Sprint(i)))
	}
	eventually(t, "the other replica's snapshot", func() bool { return two.catalog.Shown() == one.catalog.Shown() })
	puts.mu.Lock()
	if len(puts.puts) > 0 {
		t.Errorf("the replica that only follows put %v", puts.puts)
	}
	puts.mu.Unlock()
	eventually(t, "both replicas to know each other", func() bool {
		a, b := one.status().Replicas, two.status().Replicas
		return len(a) == 2 && len(b) == 2 && a[0].Self && a[0].Address == "one:1" && a[1].Alive && a[1].Address == "two:1" && b[1].Address == "one:1"
	})
	two.stop()
	eventually(t, "a replica that ended to be gone", func() bool { return len(one.status().Replicas) == 1 })
}

var errAway = errors.New("the object store is away")

// deafObjects refuses puts below a path.
type deafObjects struct {
	objstore.Store
	below string
}

func (d deafObjects) PutIfAbsent(ctx context.Context, key string, b []byte) error {
	if strings.Contains(key, d.below) {
		return errAway
	}
	return d.Store.PutIfAbsent(ctx, key, b)
}

// TestOthersTakeOver: a replica decides and cannot publish, nor write manifests. The
// other one does, and the client of the first hears of it.
func TestOthersTakeOver(t *testing.T) {
	t.Parallel()
	one := sharedWorld("one:1", time.Millisecond).open(t)
	one.create("t", twophase.ModeExclusive)
	for _, below := range []string{"_delta_log", "manifests"} {
		two := one.replica(t, func(r *world) {
			r.cfg.Address = below
			r.wrapObjects = func(s objstore.Store) objstore.Store { return deafObjects{s, below} }
		})
		o := two.commit(below, blind("t", below))
		if o.Committed == nil || o.Committed.Snapshot == 0 {
			t.Errorf("%s: %+v", below, o)
		}
		eventually(t, "the manifest of "+below, func() bool { return two.status().ManifestSnapshot >= o.Committed.Snapshot })
		two.stop()
	}
}

// pausedStore holds every request back while the gate is closed, as a stopped process
// does.
type pausedStore struct {
	lock.Store
	gate *atomic.Pointer[chan struct{}]
}

func (p pausedStore) wait() {
	if g := p.gate.Load(); g != nil {
		<-*g
	}
}

func (p pausedStore) Get(ctx context.Context, key string) (lock.Item, error) {
	p.wait()
	return p.Store.Get(ctx, key)
}

func (p pausedStore) Put(ctx context.Context, key string, value []byte, c lock.Condition) (lock.Revision, error) {
	p.wait()
	return p.Store.Put(ctx, key, value, c)
}

func (p pausedStore) Scan(ctx context.Context, prefix, after string, limit int) ([]lock.Item, error) {
	p.wait()
	return p.Store.Scan(ctx, prefix, after, limit)
}

// TestLappedReplica: the ring goes round while a replica is paused, in the middle of a
// commit. It says REPLICA_BEHIND to everybody, and starts again from the newest
// checkpoint, where the same call finds out what became of it.
func TestLappedReplica(t *testing.T) {
	t.Parallel()
	first := sharedWorld("one:1", 50*time.Millisecond)
	first.cfg.Slots, first.cfg.Limits.CheckpointEvery = 32, 8
	one := first.open(t)
	one.create("t", twophase.ModeExclusive)
	var gate atomic.Pointer[chan struct{}]
	two := one.replica(t, func(r *world) {
		r.cfg.Address = "two:1"
		r.wrapStore = func(s lock.Store) lock.Store { return pausedStore{s, &gate} }
	})
	two.commit("before", blind("t", "before"))
	closed := make(chan struct{})
	gate.Store(&closed)
	answer := make(chan error, 1)
	go func() {
		_, _, err := two.catalog.CommitOnce(two.ctx(), once("during", blind("t", "during")))
		answer <- err
	}()
	for i := range 100 {
		one.commit(fmt.Sprint(i), blind("t", fmt.Sprint(i)))
	}
	gate.Store(nil)
	close(closed)
	select {
	case <-two.catalog.Behind():
	case <-two.ctx().Done():
		t.Fatal("the replica does not notice that the ring went past it")
	}
	wantReason(t, "a commit that was on its way", <-answer, coordinator.ReplicaBehind)
	_, err := two.try("during", blind("t", "during"))
	wantReason(t, "a new commit", err, coordinator.ReplicaBehind)
	two.stop()
	two.start()
	two.commit("during", blind("t", "during"))
	if got, want := two.catalog.Shown(), one.catalog.Shown(); got < want {
		t.Errorf("starts at snapshot %d, the other replica is at %d", got, want)
	}
	if err := one.catalog.AtLeast(one.ctx(), two.catalog.Shown()); err != nil {
		t.Error(err)
	}
	if n := strings.Count(one.log("t"), `"path":"during"`); n != 1 {
		t.Errorf("the commit is in the log %d times", n)
	}
}

// log is all commits of a table.
func (w *world) log(table string) string {
	var b strings.Builder
	for v := range w.versions(table) {
		b.WriteString(w.read(table, v))
	}
	return b.String()
}

// TestTransactionsOfOthersExpire: a replica that began a transaction is gone; another
// one aborts it when its time is over, and not before a deadline that was extended.
func TestTransactionsOfOthersExpire(t *testing.T) {
	t.Parallel()
	one := sharedWorld("one:1", time.Millisecond).open(t)
	one.create("t", twophase.ModeExclusive)
	two := one.replica(t, func(r *world) { r.cfg.Address = "two:1" })
	begin := func(key string, ttl time.Duration) coordinator.Begun {
		b, err := two.catalog.Begin(two.ctx(), coordinator.BeginRequest{Key: key, TTL: ttl})
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	short, long := begin("short", 500*time.Millisecond), begin("long", 500*time.Millisecond)
	if _, err := two.catalog.Begin(two.ctx(), coordinator.BeginRequest{Token: long.Token, TTL: time.Hour}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the other replica to list them", func() bool {
		l, err := one.catalog.List(one.ctx(), coordinator.ListRequest{})
		return err == nil && len(l.Open) == 2
	})
	two.stop()
	outcome := func(b coordinator.Begun) coordinator.Outcome {
		o, _, err := one.catalog.Outcome(one.ctx(), coordinator.OutcomeRequest{OutcomeRef: coordinator.OutcomeRef{Token: b.Token}})
		if err != nil && !errors.Is(err, &coordinator.Error{Reason: coordinator.TransactionNotFound}) {
			t.Fatal(err)
		}
		return o
	}
	eventually(t, "the transaction to expire", func() bool { return outcome(short).Aborted != nil })
	if o := outcome(long); o.Aborted != nil {
		t.Errorf("the extended one is aborted: %+v", o.Aborted)
	}
}

// TestStormOfReplicas: three of them on one store, as TestTwoProcesses, with duties
// shared.
func TestStormOfReplicas(t *testing.T) {
	t.Parallel()
	one := sharedWorld("one:1", 20*time.Millisecond)
	one.cfg.Slots, one.cfg.Limits.CheckpointEvery = 128, 16
	one.open(t)
	all := []*world{one, one.replica(t, func(r *world) { r.cfg.Address = "two:1" }), one.replica(t, func(r *world) { r.cfg.Address = "" })}
	names := []string{"a", "b", "c"}
	for i, name := range names {
		one.create(name, []twophase.Mode{twophase.ModeOpen, twophase.ModeExclusive}[i%2])
	}
	for _, w := range all[1:] {
		if err := w.catalog.AtLeast(w.ctx(), one.catalog.Shown()); err != nil {
			t.Fatal(err)
		}
	}
	var run closedRun
	var mu sync.Mutex
	var wg sync.WaitGroup
	for writer := range 6 {
		wg.Go(func() {
			for i := range 12 {
				name := fmt.Sprintf("%d-%d", writer, i)
				w := all[(writer+i)%3]
				o, _, err := w.catalog.CommitOnce(w.ctx(), once(name, blind(names[i%3], name), blind(names[(i+1)%3], name)))
				if err != nil {
					t.Errorf("%s: %v", name, err)
					return
				}
				mu.Lock()
				run.committed = append(run.committed, o)
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	for _, w := range all[1:] {
		eventually(t, "all replicas to be level", func() bool { return w.catalog.Shown() == one.catalog.Shown() })
	}
	one.check(run)
}

// TestQueueGoesToTheWinner: R15. Another replica is always first. After two lost
// positions the call is sent on to it, once, and kept.
func TestQueueGoesToTheWinner(t *testing.T) {
	t.Parallel()
	winner := sharedWorld("winner:1", time.Hour).open(t)
	winner.create("t", twophase.ModeExclusive)
	lost := 0
	loser := winner.replica(t, func(r *world) {
		r.cfg.Address = "loser:1"
		r.wrapStore = func(s lock.Store) lock.Store {
			return hookedStore{s, func(key string) {
				if strings.HasPrefix(key, "ring/") && lost < 4 {
					lost++
					winner.commit(fmt.Sprint("first ", lost), blind("t", fmt.Sprint("first", lost)))
				}
			}}
		}
	})
	var mu sync.Mutex
	var sent []string
	ctx := coordinator.WithForward(loser.ctx(), func(_ context.Context, address string) error {
		mu.Lock()
		defer mu.Unlock()
		sent = append(sent, address)
		return errAway
	})
	o, _, err := loser.catalog.CommitOnce(ctx, once("k", blind("t", "k")))
	if err != nil || o.Committed == nil {
		t.Fatalf("%+v, %v", o, err)
	}
	eventually(t, "the call to be sent on", func() bool { // beside it: nothing waits for that
		mu.Lock()
		defer mu.Unlock()
		return len(sent) > 0
	})
	mu.Lock()
	defer mu.Unlock()
	if len(sent) != 1 || sent[0] != "winner:1" {
		t.Errorf("sent on to %v", sent)
	}
}
