package e2e_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/txcoord/txcoord/clients/go"
	"github.com/txcoord/txcoord/coordinator"
	"github.com/txcoord/txcoord/e2e/servers"
	txcoordv1 "github.com/txcoord/txcoord/proto/txcoord/v1"
)

// TestOthersServeOn measures B14: while one of three replicas is killed, or paused, in
// the middle of its commits, clients of the others go on, on the same tables. The
// longest commit after that moment is printed; what is asked for is that all end.
func TestOthersServeOn(t *testing.T) {
	t.Parallel()
	cluster := servers.StartEtcd(t, servers.EtcdConfig{})
	f := newFleet(t, nil, func(int) *sharedStore { return &sharedStore{Endpoints: cluster.Endpoints()} })
	for _, p := range f.replicas {
		p.config.Limits, p.config.Slots = coordinator.Limits{}, 0
		p.start(nil)
	}
	for _, name := range stormTables {
		f.create(name, txcoordv1.TableMode_TABLE_MODE_EXCLUSIVE)
	}
	for what, hit := range map[string]func(p *process){
		"killed": func(p *process) { p.kill() },
		"paused": func(p *process) { p.signal(syscall.SIGSTOP) },
	} {
		t.Logf("one replica is %s: the longest commit at the others took %s, before it %s", what, f.gap(what, hit), f.before)
		f.replicas[0].signal(syscall.SIGCONT)
		f.replicas[0].kill()
		f.restart(f.replicas[0])
	}
	f.level()
	f.judge(true)
}

// gap has clients commit at each replica, hits the first one, and says how long the
// longest commit took that the others had under way then, or began in the five
// seconds after.
func (f *fleet) gap(what string, hit func(p *process)) (longest time.Duration) {
	var mu sync.Mutex
	var at time.Time
	f.before = 0
	stop := make(chan struct{})
	calls, giveUp := context.WithCancel(f.ctx())
	defer giveUp()
	var running sync.WaitGroup
	for i, p := range f.replicas {
		alone := process{t: f.t, address: p.address, running: p.running}
		c := &stormClient{storm: f.storm, client: alone.dial(), rng: rand.New(rand.NewPCG(f.seed, uint64(i))), name: i}
		ctx := f.ctx()
		if i == 0 {
			ctx = calls
		}
		running.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-stop:
					return
				default:
				}
				began := time.Now()
				changes := c.moves(c.pick(3))
				key := fmt.Sprintf("%s %d %d", what, i, n)
				id := c.idOf(key)
				c.begins(id, changes)
				r, err := c.client.CommitOnce(ctx, onceRequest(key, changes, client.Blind()))
				if err != nil {
					if i > 0 {
						f.t.Errorf("%s: %v", key, err)
					}
					return
				}
				c.commits(r.Outcome)
				mu.Lock()
				if took := time.Since(began); i > 0 && at.IsZero() {
					f.before = max(f.before, took)
				} else if i > 0 {
					longest = max(longest, took)
				}
				mu.Unlock()
			}
		})
	}
	time.Sleep(2 * time.Second)
	mu.Lock()
	at = time.Now()
	mu.Unlock()
	hit(f.replicas[0])
	time.Sleep(5 * time.Second)
	close(stop)
	time.AfterFunc(2*time.Second, giveUp) // the call at the one that was hit has no answer
	running.Wait()
	return longest
}
