package e2e_test

import (
	"crypto/rand"
	"fmt"
	mathrand "math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/txcoord/txcoord/e2e/servers"
	"github.com/txcoord/txcoord/lock/dynamostore"
	txcoordv1 "github.com/txcoord/txcoord/proto/txcoord/v1"
)

// TestReplicasOnEtcd is a storm over three replicas on a cluster of three members, each
// behind a proxy that loses answers. Tables are reached by the S3 API, as in the storms
// below: each replica has a proxy of its own before it that misbehaves.
func TestReplicasOnEtcd(t *testing.T) {
	t.Parallel()
	cluster := servers.StartEtcd(t, servers.EtcdConfig{Members: 3})
	proxies := make([]*servers.TCPFaults, len(cluster.Members))
	shared := &sharedStore{}
	for i, m := range cluster.Members {
		proxies[i] = servers.NewTCPFaults(t, m.Endpoint)
		shared.Endpoints = append(shared.Endpoints, "http://"+proxies[i].Addr)
	}
	f := newFleet(t, servers.StartVersity(t), func(int) *sharedStore { return shared })
	f.store = append(f.store, []func(){
		func() { // the leader dies, and comes back with its data
			leader, err := cluster.Leader(t.Context())
			if err != nil {
				return // there is none just now
			}
			leader.Kill()
			f.sleep(200, 800)
			if err := leader.Start(t.Context()); err != nil {
				t.Error(err)
			}
		},
		func() {
			for range 10 {
				proxies[f.rng.IntN(3)].LoseReply()
				f.sleep(20, 80)
			}
		},
		func() { // a minority is cut off
			p := proxies[f.rng.IntN(3)]
			p.Silence(true)
			f.sleep(300, 1200)
			p.Silence(false)
		},
	}...)
	f.weather()
}

// TestReplicasOnDynamoDB is the same over one table, where each replica has a proxy of
// its own that loses requests and answers, doubles, delays and throttles them.
func TestReplicasOnDynamoDB(t *testing.T) {
	t.Parallel()
	server := servers.StartKumo(t)
	table := "t" + rand.Text()
	var proxies []*servers.HTTPFaults
	f := newFleet(t, servers.StartVersity(t), func(int) *sharedStore {
		proxy := servers.NewHTTPFaults(t, server.Endpoint)
		proxies = append(proxies, proxy)
		return &sharedStore{Table: table, Region: server.Region, Endpoint: proxy.URL, Access: server.AccessKey, Secret: server.SecretKey}
	})
	first := f.replicas[0].config.Shared.dynamo()
	first.RequestTimeout = time.Minute // replicas are started until they meet their store, this is done once
	if _, err := dynamostore.Init(t.Context(), first); err != nil {
		t.Fatal(err)
	}
	f.unlucky(proxies, servers.DynamoError(500, "InternalServerError", ""), servers.DynamoError(400, "ThrottlingException", ""))
	f.weather()
}

// TestReplicasOnS3 is the same on a bucket alone: its conditional puts decide.
func TestReplicasOnS3(t *testing.T) {
	t.Parallel()
	server := servers.StartVersity(t)
	bucket := server.Bucket(t)
	var proxies []*servers.HTTPFaults
	f := newFleet(t, server, func(int) *sharedStore {
		proxy := servers.NewHTTPFaults(t, server.Endpoint)
		proxies = append(proxies, proxy)
		return &sharedStore{Bucket: bucket, Region: server.Region, Endpoint: proxy.URL, Access: server.AccessKey, Secret: server.SecretKey}
	})
	f.unlucky(proxies, servers.S3Error(500, "InternalError"), servers.S3Error(503, "SlowDown"))
	f.weather()
}

// unlucky has one of the proxies misbehave for a while.
func (f *fleet) unlucky(proxies []*servers.HTTPFaults, failed, slower *servers.Reply) {
	f.store = append(f.store, func() {
		proxy := proxies[f.rng.IntN(len(proxies))]
		proxy.Decide(badLuck(failed, slower))
		f.sleep(500, 1500)
		proxy.Decide(func(servers.Request) servers.Fate { return servers.Fate{} })
	})
}

// badLuck takes turns with what a network and a busy server do to every third request.
func badLuck(failed, slower *servers.Reply) func(servers.Request) servers.Fate {
	fates := []servers.Fate{
		{Lost: true},
		{After: failed},
		{Instead: slower},
		{Delay: 50 * time.Millisecond},
		{Delay: 1200 * time.Millisecond},
		{Twice: true},
	}
	var n atomic.Int64
	return func(servers.Request) servers.Fate {
		i := n.Add(1)
		if i%3 != 0 {
			return servers.Fate{}
		}
		return fates[int(i/3)%len(fates)]
	}
}

// fleet is a storm over several replicas.
type fleet struct {
	*storm
	// store are the disturbances of the store.
	store  []func()
	counts map[string]int
	before time.Duration // the longest commit before a replica was hit
}

const fleetSize = 3

// newFleet prepares replicas on one warehouse; shared says how each reaches the store.
// With a server for tables, that is a bucket, which misbehaves like other stores.
func newFleet(t *testing.T, tables *servers.S3, shared func(i int) *sharedStore) *fleet {
	t.Helper()
	seed := *stormSeed
	if seed == 0 {
		seed = mathrand.Uint64()
	}
	t.Logf("-storm.seed %d", seed)
	config := stormConfig()
	config.Limits.TakeOverAfter, config.Limits.Heartbeat, config.Limits.FollowInterval = 100*time.Millisecond, 500*time.Millisecond, 200*time.Millisecond
	config.Slots = 24 // a pause of some seconds is a lap
	config.Shared, config.s3 = shared(0), tables
	w := newWorld(t, config)
	var objects []*servers.HTTPFaults
	faulty := func(c *serverConfig) {
		if tables == nil {
			return
		}
		objects = append(objects, servers.NewHTTPFaults(t, tables.Endpoint))
		bucket := *c.Bucket
		bucket.Endpoint, bucket.RequestTimeout = objects[len(objects)-1].URL, requestTimeout
		c.Bucket = &bucket
	}
	faulty(&w.config)
	w.replicas = []*process{w.process}
	for i := 1; i < fleetSize; i++ {
		other := w.config
		other.Shared = shared(i)
		faulty(&other)
		p := &process{t: t, config: other}
		w.replicas = append(w.replicas, p)
		t.Cleanup(p.stop)
	}
	w.client = w.dial()
	f := &fleet{storm: newStorm(w, seed), counts: map[string]int{}}
	f.storm.disturb = f.disturb
	if tables != nil {
		f.unlucky(objects, servers.S3Error(500, "InternalError"), servers.S3Error(503, "SlowDown"))
	}
	return f
}

// sleep is a pause of so many milliseconds.
func (f *fleet) sleep(least, most int) {
	time.Sleep(time.Duration(least+f.rng.IntN(most-least)) * time.Millisecond)
}

// weather starts the replicas, lets clients run under disturbances, and has everything
// judged.
func (f *fleet) weather() {
	t := f.t
	t.Helper()
	for _, p := range f.replicas {
		f.restart(p)
	}
	for i, name := range stormTables {
		f.create(name, []txcoordv1.TableMode{txcoordv1.TableMode_TABLE_MODE_OPEN, txcoordv1.TableMode_TABLE_MODE_EXCLUSIVE}[i%2])
	}
	f.look()
	f.run(*stormKills, *stormClients)
	f.resolve()
	f.level()
	report := f.rest()
	committed, refused, unresolved := f.numbers()
	t.Logf("%v; %d replicas lapped by the ring; %d committed, %d refused; %v", f.counts, f.lapped(), committed, refused, report)
	if committed < *stormKills || refused == 0 || unresolved > 0 {
		t.Errorf("%d committed, %d refused, %d unresolved: that was no storm", committed, refused, unresolved)
	}
	f.addsUp()
}

// disturb does something to a replica, or to the store.
func (f *fleet) disturb() {
	f.sleep(200, 600)
	p := f.replicas[f.rng.IntN(len(f.replicas))]
	switch n := f.rng.IntN(6); {
	case n < 2:
		f.counts["killed"]++
		p.kill()
		f.sleep(50, 800)
		f.restart(p)
	case n < 4:
		f.counts["paused"]++
		p.signal(syscall.SIGSTOP)
		f.sleep(300, 2500)
		p.signal(syscall.SIGCONT)
	default:
		f.counts["store"]++
		f.store[f.rng.IntN(len(f.store))]()
	}
}

// restart starts a replica, as often as it takes: one that meets a store which does not
// answer within a second, as on a busy machine, ends, and whoever watches over it tries
// once more.
func (f *fleet) restart(p *process) {
	f.t.Helper()
	never := &kill{Nth: 1 << 40}
	f.waitFor("a replica to start again", func() bool { return p.start(never) })
}

// level waits until every replica has seen what any of them has, asked one by one.
func (f *fleet) level() {
	f.t.Helper()
	var newest uint64
	var wg sync.WaitGroup
	f.waitFor("all replicas to be level", func() bool {
		at := make([]uint64, len(f.replicas))
		for i, p := range f.replicas {
			wg.Go(func() {
				alone := process{t: f.t, address: p.address, running: p.running}
				if st, err := alone.dial().Status.GetStatus(f.ctx(), &txcoordv1.GetStatusRequest{}); err == nil && len(st.GetOpenRounds()) == 0 {
					at[i] = st.GetLatestSnapshot()
				}
			})
		}
		wg.Wait()
		newest = max(at[0], at[1], at[2])
		return newest > 0 && at[0] == newest && at[1] == newest && at[2] == newest
	})
}

// lapped counts how often a replica had to start again from a checkpoint.
func (f *fleet) lapped() int {
	b, err := os.ReadFile(filepath.Join(f.config.Dir, logFile))
	if err != nil {
		f.t.Error(err)
	}
	return strings.Count(string(b), fmt.Sprintln(lapped))
}
