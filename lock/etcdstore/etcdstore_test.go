//go:build unix

package etcdstore_test

import (
	"context"
	"crypto/rand"
	"flag"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/txcoord/txcoord/e2e/servers"
	"github.com/txcoord/txcoord/e2e/servers/rivals"
	"github.com/txcoord/txcoord/lock"
	"github.com/txcoord/txcoord/lock/etcdstore"
	"github.com/txcoord/txcoord/lock/locktest"
)

func TestMain(m *testing.M) {
	if rivals.Main(func(ctx context.Context, where string) (lock.Store, error) {
		return etcdstore.Open(ctx, etcdstore.Config{Endpoints: strings.Fields(where)})
	}) {
		return
	}
	goleak.VerifyTestMain(m)
}

// handle is a store that knows where it is, so that it can be opened again.
type handle struct {
	*etcdstore.Store
	cfg etcdstore.Config
}

func open(t locktest.T, cfg etcdstore.Config) handle {
	t.Helper()
	s, err := etcdstore.Open(t.Context(), cfg)
	if err != nil {
		t.Fatalf("%v", err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("%v", err)
		}
	})
	return handle{s, cfg}
}

// fresh is an empty part of a cluster.
func fresh(endpoints ...string) etcdstore.Config {
	return etcdstore.Config{Endpoints: endpoints, Prefix: rand.Text() + "/"}
}

// patient is fresh for tests in which no request is to take too long: on a busy machine
// the server takes its time.
func patient(endpoints ...string) etcdstore.Config {
	cfg := fresh(endpoints...)
	cfg.RequestTimeout = 20 * time.Second
	return cfg
}

// conformance is the suite for stores in one cluster. One is reopened by connecting
// again; TestConformanceAfterKill ends the server too.
func conformance(e *servers.Etcd, t *testing.T) locktest.Config {
	return locktest.Config{
		New:    func(t locktest.T) lock.Store { return open(t, patient(e.Endpoints()...)) },
		Client: func(t locktest.T, s lock.Store) lock.Store { return open(t, s.(handle).cfg) },
		Reopen: func(t locktest.T, s lock.Store) lock.Store {
			if err := s.Close(); err != nil {
				t.Fatalf("%v", err)
			}
			return open(t, s.(handle).cfg)
		},
		Lossy: func(lt locktest.T) (lock.Store, func()) {
			proxy := servers.NewTCPFaults(t, e.Members[0].Endpoint)
			cfg := patient("http://" + proxy.Addr)
			cfg.UpkeepEvery = time.Hour
			s := open(lt, cfg)
			for len(s.Usage()) == 0 { // Its first look would meet the fault meant for a write.
				time.Sleep(time.Millisecond)
			}
			return s, proxy.LoseReply
		},
		MaxValue: maxValue,
	}
}

const maxValue = 3<<19 - 16<<10

func TestConformance(t *testing.T) {
	t.Parallel()
	locktest.Run(t, conformance(servers.StartEtcd(t, servers.EtcdConfig{}), t))
}

// What was acknowledged outlives the server's death, too.
func TestConformanceAfterKill(t *testing.T) {
	t.Parallel()
	e := servers.StartEtcd(t, servers.EtcdConfig{})
	c := conformance(e, t)
	c.Reopen = func(lt locktest.T, s lock.Store) lock.Store {
		e.Members[0].Kill()
		if err := e.Members[0].Start(t.Context()); err != nil {
			lt.Fatalf("%v", err)
		}
		return open(lt, s.(handle).cfg)
	}
	for _, kase := range locktest.Cases() {
		if slices.Contains(kase.Needs, locktest.Reopening) {
			t.Run(kase.Name, func(t *testing.T) { kase.Run(t, c) })
		}
	}
}

func TestConformanceOfThreeMembers(t *testing.T) {
	t.Parallel()
	locktest.Run(t, conformance(servers.StartEtcd(t, servers.EtcdConfig{Members: 3}), t))
}

var rounds = flag.Int("rounds", 1, "how often to run the cases during which leaders are killed")

// The leader is killed again and again while clients write. Nothing that was
// acknowledged is lost, and nothing that was refused stands.
func TestLeaderIsKilled(t *testing.T) {
	t.Parallel()
	e := servers.StartEtcd(t, servers.EtcdConfig{Members: 3})
	over, kills := make(chan struct{}), make(chan int)
	go func() { kills <- killLeaders(t, e, over) }()
	c := conformance(e, t)
	for range *rounds {
		for _, kase := range locktest.Cases() {
			if kase.Name == "HistoriesAreLinearizable" || kase.Name == "CountersLoseNothing" {
				kase.Run(t, c)
			}
		}
	}
	close(over)
	n := <-kills
	if n == 0 {
		t.Error("no leader was killed: nothing was tested")
	}
	t.Logf("%d leaders killed", n)
}

func killLeaders(t *testing.T, e *servers.Etcd, over chan struct{}) (n int) {
	for {
		leader, err := e.Leader(t.Context())
		if err == nil {
			leader.Kill()
			n++
			time.Sleep(500 * time.Millisecond)
			err = leader.Start(t.Context())
		}
		if err != nil {
			t.Logf("between leaders: %v", err)
		}
		select {
		case <-over:
			return n
		case <-time.After(time.Second):
		}
	}
}

func TestProcessesRace(t *testing.T) {
	t.Parallel()
	e := servers.StartEtcd(t, servers.EtcdConfig{})
	rivals.Race(t, open(t, etcdstore.Config{Endpoints: e.Endpoints()}), strings.Join(e.Endpoints(), " "),
		rivals.Config{Processes: 4, Writers: 4, Keys: 100, Increments: 15})
}
