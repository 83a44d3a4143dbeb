package e2e_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/txcoord/txcoord/clients/go"
	txcoordv1 "github.com/txcoord/txcoord/proto/txcoord/v1"
)

// stormTables are open and exclusive by turns.
var stormTables = []string{"accounts", "branches", "ledger", "tills"}

// stormConfig is small where it matters, so that a short storm goes round the ring,
// recovers from checkpoints, and moves payloads and facts to objects.
func stormConfig() serverConfig {
	c := serverConfig{Slots: 64}
	c.Limits.CheckpointEvery, c.Limits.MapEvery = 12, 9
	c.Limits.InlineBytes, c.Limits.FactsBytes = 800, 60
	c.Limits.PollInterval = 200 * time.Millisecond
	return c
}

// TestStorm lets clients run while the server is killed at random moments: from
// outside, and by itself around any of its writes. Transactions move amounts
// between tables, so at every snapshot all amounts add up to nothing.
func TestStorm(t *testing.T) {
	t.Parallel()
	seed := *stormSeed
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Logf("-storm.seed %d", seed)
	w := newWorld(t, stormConfig())
	w.arm()
	w.start(nil)
	for i, name := range stormTables {
		w.create(name, []txcoordv1.TableMode{txcoordv1.TableMode_TABLE_MODE_OPEN, txcoordv1.TableMode_TABLE_MODE_EXCLUSIVE}[i%2])
	}
	w.look()
	s := newStorm(w, seed)
	s.run(*stormKills, *stormClients)
	s.resolve()
	report := w.rest()
	committed, refused, unresolved := w.numbers()
	t.Logf("killed %d times, and %d times by itself; %d committed, %d refused; %v", *stormKills, s.suicides, committed, refused, report)
	if committed < *stormKills || refused == 0 || unresolved > 0 {
		t.Errorf("%d committed, %d refused, %d unresolved: that was no storm", committed, refused, unresolved)
	}
	s.addsUp()
	s.coldStart()
	w.readByOthers(25)
	s.nothingLeft()
}

type storm struct {
	*world
	rng      *rand.Rand // of the kills
	seed     uint64
	suicides int
	deadline context.Context
	// disturb is what happens to the servers, again and again.
	disturb func()
	// altered: others change tables' metadata, so that even blind appends may lose.
	altered bool

	mu    sync.Mutex
	live  map[string][]dataFile // what clients think is in the tables
	quiet string                // a table that clients leave alone
}

func newStorm(w *world, seed uint64) *storm {
	s := &storm{world: w, rng: rand.New(rand.NewPCG(seed, 0)), seed: seed, live: map[string][]dataFile{}}
	s.disturb = s.killOnce
	return s
}

// run kills the server so many times under so many clients, and lets these go on until
// it was a storm, however slow the machine is, and finish what they have begun.
func (s *storm) run(kills, clients int) {
	calls, cancel := context.WithTimeout(context.Background(), 2*time.Minute+time.Duration(kills)*10*time.Second)
	defer cancel()
	s.deadline = calls
	stop := make(chan struct{})
	var running sync.WaitGroup
	defer running.Wait()
	defer close(stop) // also where a server does not start
	for i := range clients {
		running.Go(func() { s.client(i, stop) })
	}
	running.Go(func() { s.watch(stop) })
	running.Go(func() { s.neverBack(stop) })
	for range kills {
		s.disturb()
	}
	time.Sleep(300 * time.Millisecond)
	s.waitFor("clients to commit, and to lose, in this weather", func() bool {
		committed, refused, _ := s.numbers()
		return committed >= kills && refused > 0
	})
}

// killOnce lets the server live for a while, and sees to its end: from outside, and
// then, at times, by itself around one of its next writes. What is left on disk is
// judged while it is dead. Then it is started again.
func (s *storm) killOnce() {
	time.Sleep(time.Duration(200+s.rng.IntN(600)) * time.Millisecond)
	s.world.kill()
	time.Sleep(time.Duration(s.rng.IntN(150)) * time.Millisecond)
	if s.rng.IntN(2) == 0 {
		k := kill{Nth: 1 + s.rng.IntN(250), When: []moment{before, after}[s.rng.IntN(2)]}
		if s.start(&k) && !s.ended(3*time.Second) {
			s.world.kill()
		} else {
			s.suicides++
		}
	}
	s.judge(false)
	s.start(nil)
}

// resolve asks for the outcomes that nobody was told, and makes them final.
func (s *storm) resolve() {
	for id, token := range s.open() {
		o, err := s.world.client.Resolve(s.ctx(), token)
		switch {
		case err != nil:
			s.t.Errorf("resolve %s: %v", id, err)
		case o.GetCommitted() != nil:
			s.commits(o)
		default:
			s.refuses(id)
		}
	}
}

// watch sees every snapshot once and in order, over all kills, each table going on
// from where it was.
func (s *storm) watch(stop <-chan struct{}) {
	ctx, cancel := until(stop)
	defer cancel()
	at := map[string]int64{}
	for change, err := range s.dial().Watch(ctx, 0) {
		if err != nil {
			if ctx.Err() == nil {
				s.t.Errorf("watch: %v", err)
			}
			return
		}
		for _, c := range change.GetTables() {
			was, known := at[c.GetId()]
			if known && c.GetFromVersion() != was || c.GetToVersion() <= c.GetFromVersion() {
				s.t.Errorf("snapshot %d moves %s from %d to %d, it was at %d", change.GetVersion(), c.GetName(), c.GetFromVersion(), c.GetToVersion(), was)
			}
			at[c.GetId()] = c.GetToVersion()
		}
	}
}

// neverBack reads snapshots as clients do that remember nothing: what one of them
// was shown must be there for the next, whatever happened to the server.
func (s *storm) neverBack(stop <-chan struct{}) {
	ctx, cancel := until(stop)
	defer cancel()
	cc := s.connect()
	same := client.New(cc, client.Options{TryFor: 3 * time.Second})
	last := &txcoordv1.Snapshot{}
	for ctx.Err() == nil {
		reader := client.New(cc, client.Options{})
		if s.replicas != nil {
			reader = same // each replica may be behind what another one has shown, but not to who saw it
		}
		now, err := reader.Snapshot(ctx)
		if err != nil {
			if ctx.Err() == nil {
				s.t.Errorf("read a snapshot: %v", err)
			}
			continue
		}
		if now.GetVersion() < last.GetVersion() {
			s.t.Errorf("snapshot %d after %d", now.GetVersion(), last.GetVersion())
		}
		for _, t := range last.GetTables() {
			if v := versionIn(now, t.GetName()); v < t.GetVersion() {
				s.t.Errorf("snapshot %d has %s at %d, an earlier one at %d", now.GetVersion(), t.GetName(), v, t.GetVersion())
			}
		}
		last = now
		time.Sleep(10 * time.Millisecond)
	}
}

// until is a context that lives until a channel is closed.
func until(stop <-chan struct{}) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		select {
		case <-stop:
			cancel()
		case <-ctx.Done():
		}
	}()
	return ctx, cancel
}

// addsUp checks the books themselves: transactions only move amounts.
func (s *storm) addsUp() {
	s.t.Helper()
	sum := int64(0)
	for _, t := range s.totalsAt(s.snapshot().GetVersion()) {
		sum += t.amount
	}
	if sum != 0 {
		s.t.Errorf("the amounts of committed transactions add up to %d", sum)
	}
}

// coldStart ends the server, and starts it again: it knows what it knew.
func (s *storm) coldStart() {
	s.t.Helper()
	before := s.snapshot()
	s.stop()
	s.start(nil)
	if after := s.snapshot(); after.GetVersion() != before.GetVersion() || len(after.GetTables()) != len(before.GetTables()) {
		s.t.Errorf("after a restart the snapshot is %v, before it %v", after, before)
	}
}

// listedAfter is when a server has looked for what dead ones have left.
const listedAfter = 7 * time.Second

// nothingLeft wants everything to be removed that transactions had staged, and
// their advisory records.
func (s *storm) nothingLeft() {
	s.t.Helper()
	time.Sleep(time.Until(s.started.Add(listedAfter)))
	s.waitFor("staged payloads to be removed", func() bool { return len(s.staged()) == 0 })
	s.stop()
	if left := s.storeKeys("pay/", "open/"); len(left) > 0 {
		s.t.Errorf("%d keys of ended transactions are left in the store: %q", len(left), left[:min(len(left), 5)])
	}
	s.start(nil)
}

var errQuit = errors.New("the client changed its mind")

// client makes one transaction after the other.
func (s *storm) client(n int, stop <-chan struct{}) {
	c := &stormClient{storm: s, client: s.dial(), rng: rand.New(rand.NewPCG(s.seed, uint64(n)+1)), name: n}
	kinds := []func(string){c.transfer, c.transfer, c.once, c.audit, c.compact, c.quit}
	for i := 0; ; i++ {
		select {
		case <-stop:
			return
		default:
			kinds[c.rng.IntN(len(kinds))](c.key(i))
		}
	}
}

// applied takes over what a committed transaction did.
func (s *storm) applied(changes []change) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range changes {
		s.live[c.table] = slices.DeleteFunc(s.live[c.table], func(f dataFile) bool {
			return slices.ContainsFunc(c.removes, func(r dataFile) bool { return r.path == f.path })
		})
		s.live[c.table] = append(s.live[c.table], c.adds...)
	}
}
