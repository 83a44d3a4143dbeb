package e2e_test

import (
	"context"
	crand "crypto/rand"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/txcoord/txcoord/clients/go"
	"github.com/txcoord/txcoord/coordinator"
	"github.com/txcoord/txcoord/e2e/servers"
	"github.com/txcoord/txcoord/lock"
	"github.com/txcoord/txcoord/lock/boltstore"
	"github.com/txcoord/txcoord/lock/dynamostore"
	txcoordv1 "github.com/txcoord/txcoord/proto/txcoord/v1"
	"github.com/txcoord/txcoord/tables/checkpoint"
)

// TestJournalLost has clients commit until the server dies around one of its writes, loses
// the journal, makes a new one from logs and manifests, and lets the clients go on: again
// and again. Whatever a client was told is there; what it was not told, it asks for by the
// same call, and gets once.
func TestJournalLost(t *testing.T) {
	t.Parallel()
	t.Run("file", func(t *testing.T) {
		t.Parallel()
		l := newLosing(t, stormConfig())
		l.store = func() (lock.Store, error) { return boltstore.Open(l.file(), boltstore.Config{}) }
		l.lose = func() {
			if err := os.Remove(l.file()); err != nil {
				t.Fatal(err)
			}
		}
		l.run(5)
		l.stop()
		l.prove()
	})
	t.Run("DynamoDB", func(t *testing.T) {
		t.Parallel()
		server := servers.StartKumo(t)
		c := stormConfig()
		c.Shared = &sharedStore{Region: server.Region, Endpoint: server.Endpoint, Access: server.AccessKey, Secret: server.SecretKey, Timeout: time.Minute}
		l := newLosing(t, c)
		l.store = func() (lock.Store, error) { return l.config.Shared.open(l.ctx()) }
		l.lose = func() { // the table is gone, and another one is made
			l.config.Shared.Table = "t" + crand.Text()
			if _, err := dynamostore.Init(l.ctx(), l.config.Shared.dynamo()); err != nil {
				t.Fatal(err)
			}
		}
		l.lose()
		l.run(3)
	})
	t.Run("etcd", func(t *testing.T) {
		t.Parallel()
		cluster := servers.StartEtcd(t, servers.EtcdConfig{Members: 1})
		c := stormConfig()
		c.Shared = &sharedStore{Endpoints: []string{cluster.Members[0].Endpoint}, Timeout: time.Minute}
		l := newLosing(t, c)
		l.store = func() (lock.Store, error) { return l.config.Shared.open(l.ctx()) }
		l.lose = func() { // nobody trusts what is there: it is given up in its place
			store, err := l.store()
			if err != nil {
				t.Fatal(err)
			}
			defer store.Close()
			old, _, err := lock.Present(l.ctx(), store)
			if err != nil || old == nil || old.Incarnation == l.supersede {
				t.Fatalf("the store has %+v, %v", old, err)
			}
			l.supersede = old.Incarnation
		}
		l.run(3)
	})
}

// losing is a world whose journal is lost now and then.
type losing struct {
	*world
	rng   *rand.Rand
	store func() (lock.Store, error)
	lose  func()
	// supersede is the incarnation that the store holds, and that is given up.
	supersede string

	mu     sync.Mutex
	silent map[string][]change // calls without an answer, by key
	torn   int
}

func newLosing(t *testing.T, c serverConfig) *losing {
	seed := *stormSeed
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Logf("-storm.seed %d", seed)
	return &losing{world: newWorld(t, c), rng: rand.New(rand.NewPCG(seed, 7)), silent: map[string][]change{}}
}

func (l *losing) file() string { return filepath.Join(l.config.Dir, "store.db") }

var losingTables = []string{"accounts", "branches", "ledger"}

func (l *losing) run(lives int) {
	l.arm()
	l.start(nil)
	for i, name := range losingTables {
		l.create(name, []txcoordv1.TableMode{txcoordv1.TableMode_TABLE_MODE_OPEN, txcoordv1.TableMode_TABLE_MODE_EXCLUSIVE}[i%2])
	}
	l.catalogID()
	l.look()
	l.settle()
	for life := range lives {
		l.stop()
		// Any write; or one of several tables' versions, so that something is torn; or a
		// manifest, whose snapshot clients were told already.
		k := []kill{
			{Nth: 30 + l.rng.IntN(60), When: []moment{before, after}[l.rng.IntN(2)]},
			{Name: "version # of " + losingTables[l.rng.IntN(len(losingTables))], Nth: 3 + l.rng.IntN(5), When: before},
			{Name: "manifest #", Nth: 3 + l.rng.IntN(5), When: before},
		}[(life+1)%3]
		l.start(&k)
		l.work(life)
		l.lose()
		report := l.rebuild()
		l.start(nil)
		l.askAgain(report)
		l.settle()
		l.judge(true)
	}
	committed, refused, unresolved := l.numbers()
	l.t.Logf("%d committed, %d torn", committed, l.torn)
	if committed < 5*lives || refused > 0 || unresolved > 0 {
		l.t.Errorf("%d committed, %d refused, %d unresolved", committed, refused, unresolved)
	}
}

// work has clients commit until the server is dead.
func (l *losing) work(life int) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var clients sync.WaitGroup
	for n := range 4 {
		rng := rand.New(rand.NewPCG(l.rng.Uint64(), 1))
		c := l.dial()
		clients.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				var tables []string
				for _, at := range rng.Perm(len(losingTables))[:2+rng.IntN(2)] {
					tables = append(tables, losingTables[at])
				}
				l.once(ctx, c, fmt.Sprintf("life %d client %d job %d", life, n, i), l.rows(tables...))
			}
		})
	}
	if !l.ended(startLimit) {
		l.t.Fatalf("the server was not killed\n%s", l.log())
	}
	cancel()
	clients.Wait()
}

func (l *losing) once(ctx context.Context, c *client.Client, key string, changes []change) {
	l.begins(l.idOf(key), changes)
	r, err := c.CommitOnce(ctx, onceRequest(key, changes, client.Blind()))
	if err == nil {
		l.commits(r.Outcome)
		return
	}
	if ctx.Err() == nil {
		l.t.Errorf("%s: %v", key, err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.silent[key] = changes
}

// rebuild makes the journal anew. A plan before it says the same, and writes nothing.
func (l *losing) rebuild() *coordinator.RebuildReport {
	objects, err := openObjects(l.ctx(), l.config, l.warehouse())
	if err != nil {
		l.t.Fatal(err)
	}
	store, err := l.store()
	if err != nil {
		l.t.Fatal(err)
	}
	defer store.Close()
	config := coordinator.Config{
		Warehouse: l.warehouse(), Store: store, Objects: folder{l.warehouse(), objects}, ReadCheckpoint: checkpoint.Read,
		Slots: l.config.Slots, Limits: l.config.Limits, SharedStore: l.config.Shared != nil,
	}
	plan, err := coordinator.Rebuild(l.ctx(), config, coordinator.RebuildOptions{Supersede: l.supersede, Look: []string{l.warehouse()}})
	if err != nil {
		l.t.Fatal(err)
	}
	done, err := coordinator.Rebuild(l.ctx(), config, coordinator.RebuildOptions{
		Supersede: l.supersede, Write: true, Accept: []coordinator.RebuildCode{coordinator.RebuildTorn}, Look: []string{l.warehouse()},
	})
	if err != nil || !done.Written {
		l.t.Fatalf("%v: %+v", err, done)
	}
	if plan.Snapshot != done.Snapshot || plan.Known != done.Known || len(plan.Torn) != len(done.Torn) || len(done.Tables) != len(losingTables) {
		l.t.Errorf("planned was %+v, done %+v", plan, done)
	}
	for _, f := range done.Findings {
		l.t.Logf("%s %s %s: %s", f.Code, f.Table, f.Txn, f.What)
	}
	l.torn += len(done.Torn)
	return done
}

// askAgain repeats every call that had no answer. What is torn is refused, and known as
// committed on the tables that have it. Snapshots above the newest manifest that clients
// were told have the same in them, and are not the first any more.
func (l *losing) askAgain(r *coordinator.RebuildReport) {
	for key, changes := range l.silent {
		result, err := l.world.client.CommitOnce(l.ctx(), onceRequest(key, changes, client.Blind()))
		switch {
		case err == nil:
			l.commits(result.Outcome)
		case errors.Is(err, client.ErrAlreadyExists):
			o, err := l.world.client.OutcomeOfKey(l.ctx(), key)
			if err != nil || o.GetCommitted() == nil {
				l.t.Errorf("the outcome of %s: %v, %v", key, o, err)
				continue
			}
			l.commits(o)
		default:
			l.t.Errorf("%s again: %v\n%s", key, err, l.log())
		}
	}
	clear(l.silent)
	for _, o := range l.told() {
		s := o.GetCommitted().GetSnapshotVersion()
		if s <= uint64(r.Manifest) || s > uint64(r.Snapshot) {
			continue
		}
		again, err := l.world.client.Transactions.GetOutcome(l.ctx(), &txcoordv1.GetOutcomeRequest{
			Transaction: &txcoordv1.GetOutcomeRequest_TransactionId{TransactionId: o.GetTransactionId()},
		})
		if err != nil || again.GetOutcome().GetCommitted() == nil {
			l.t.Errorf("the outcome of %s: %v, %v", o.GetTransactionId(), again, err)
			continue
		}
		l.commits(again.GetOutcome())
	}
}

// told are the outcomes that clients know.
func (b *books) told() (out []*txcoordv1.Outcome) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, a := range b.attempts {
		if a.outcome != nil {
			out = append(out, a.outcome)
		}
	}
	return out
}
