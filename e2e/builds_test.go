package e2e_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc"

	"github.com/txcoord/txcoord/clients/go"
	"github.com/txcoord/txcoord/e2e/servers"
	txcoordv1 "github.com/txcoord/txcoord/proto/txcoord/v1"
)

// builds are the program as it is, and the one after it, which knows a codec more.
func builds(t *testing.T) (now, next string) {
	t.Helper()
	dir := t.TempDir()
	now, next = filepath.Join(dir, "now"), filepath.Join(dir, "next")
	build(t, now, "")
	build(t, next, "txcoord_next")
	return now, next
}

// build makes the program, with build tags or none.
func build(t *testing.T, out, tags string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "build", "-tags", tags, "-o", out, "./cmd/txcoord")
	cmd.Dir = ".."
	if text, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build %s: %v\n%s", out, err, text)
	}
}

// program is a running `txcoord serve`.
type program struct {
	cmd     *exec.Cmd
	address string
	log     string
	ended   chan struct{}
}

// startBuild starts a build on a store, and waits until it serves or ends. A replica that
// is silent for three heartbeats counts as gone, which one on a busy machine must not be.
func startBuild(t *testing.T, binary, warehouse, store string) *program {
	t.Helper()
	return startProgram(t, binary, "--warehouse", warehouse, "--store", store, "--limit", "heartbeat=2s", "--limit", "follow_interval=100ms")
}

// startProgram starts `serve` with arguments, and waits until it serves or ends.
func startProgram(t *testing.T, binary string, args ...string) *program {
	t.Helper()
	dir := t.TempDir()
	p := &program{log: filepath.Join(dir, "log"), ended: make(chan struct{})}
	log, err := os.Create(p.log)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	ready := filepath.Join(dir, "ready")
	p.cmd = exec.Command(binary, append([]string{"serve", "--listen", "127.0.0.1:0", "--ready-file", ready}, args...)...)
	p.cmd.Stdout, p.cmd.Stderr = log, log
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(p.ended)
		_ = p.cmd.Wait()
	}()
	t.Cleanup(p.stop)
	for end := time.Now().Add(startLimit); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if b, err := os.ReadFile(ready); err == nil {
			p.address = strings.TrimSpace(string(b))
			return p
		}
		select {
		case <-p.ended:
			return p
		default:
		}
	}
	t.Fatalf("%s does not serve: %s", binary, p.said())
	return nil
}

func (p *program) stop() {
	_ = p.cmd.Process.Signal(os.Interrupt)
	<-p.ended
}

func (p *program) said() string {
	b, err := os.ReadFile(p.log)
	if err != nil {
		return err.Error()
	}
	return string(b)
}

// TestTwoBuilds replaces the three replicas of a catalog one by one by those of a newer
// build, while clients commit without a refusal. Nothing new is written while an old
// one is alive; then the new codec is switched on, by a record, and an old build that
// comes back stops at it and says why (R17).
func TestTwoBuilds(t *testing.T) {
	t.Parallel()
	now, next := builds(t)
	store := strings.Replace(servers.StartEtcd(t, servers.EtcdConfig{}).Endpoints()[0], "http://", "etcd://", 1) + "/builds"
	w := newWorld(t, serverConfig{})
	w.replicas = []*process{w.process} // several answer, each from what it knows
	fleet := make([]*program, 3)
	for i := range fleet {
		fleet[i] = startBuild(t, now, w.warehouse(), store)
	}
	asleep := startBuild(t, now, w.warehouse(), store)
	u := &upgrade{world: w, t: t}
	u.goTo(fleet)
	u.world.client = u.at(0)
	w.create("accounts", txcoordv1.TableMode_TABLE_MODE_OPEN)
	w.look()
	u.begin()
	_ = asleep.cmd.Process.Signal(syscall.SIGSTOP)
	for i := range fleet {
		if codec := u.codec(); codec != 1 {
			t.Errorf("with %d new replicas of 3 the journal is written in codec %d", i, codec)
		}
		fleet[i].stop()
		fleet[i] = startBuild(t, next, w.warehouse(), store)
		u.goTo(fleet)
		u.more(5)
	}
	w.waitFor("the new codec to be switched on", func() bool { return u.codec() == 2 })
	u.more(20)
	u.end()

	_ = asleep.cmd.Process.Signal(syscall.SIGCONT)
	u.tooOld(asleep)
	old := startBuild(t, now, w.warehouse(), store)
	if said := old.said(); old.address != "" || !strings.Contains(said, "codec 2") || !strings.Contains(said, "this build knows those up to 1") {
		t.Errorf("the old build serves at %q, and says %s", old.address, said)
	}
	u.world.client = u.at(0)
	w.rest()
}

// upgrade are clients that go on while servers are replaced.
type upgrade struct {
	*world
	t *testing.T

	mu        sync.Mutex
	addresses []string
	committed int
	stop      chan struct{}
	running   sync.WaitGroup
}

func (u *upgrade) goTo(fleet []*program) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.addresses = nil
	for _, p := range fleet {
		if p.address == "" {
			u.t.Fatalf("a replica has ended: %s", p.said())
		}
		u.addresses = append(u.addresses, p.address)
	}
}

// at is a client of all replicas that there are, one of them first.
func (u *upgrade) at(first int) *client.Client {
	u.mu.Lock()
	defer u.mu.Unlock()
	n := len(u.addresses)
	var all []string
	for i := range n {
		all = append(all, u.addresses[(first+i)%n])
	}
	c, err := client.Dial(strings.Join(all, ","), client.Options{DialOptions: []grpc.DialOption{grpc.WithChainUnaryInterceptor(u.calls.Client())}})
	if err != nil {
		u.t.Fatal(err)
	}
	u.t.Cleanup(func() { _ = c.Close() })
	return c
}

// begin lets two clients commit, each transaction by a connection to who is there then.
func (u *upgrade) begin() {
	u.stop = make(chan struct{})
	for i := range 2 {
		u.running.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-u.stop:
					return
				default:
					u.one(fmt.Sprintf("client %d job %d", i, n), n)
				}
			}
		})
	}
}

func (u *upgrade) one(key string, n int) {
	changes := u.rows("accounts")
	u.begins(u.idOf(key), changes)
	r, err := u.at(n).CommitOnce(u.ctx(), onceRequest(key, changes, client.Blind()))
	if err != nil {
		u.t.Errorf("%s: %v", key, err)
		return
	}
	u.commits(r.Outcome)
	u.mu.Lock()
	u.committed++
	u.mu.Unlock()
}

// tooOld wants a replica to have neither commits nor the latest snapshot, and to say
// that others do.
func (u *upgrade) tooOld(p *program) {
	c, err := client.Dial(p.address, client.Options{RetryFor: -1})
	if err != nil {
		u.t.Fatal(err)
	}
	defer c.Close()
	_, committed := c.CommitOnce(u.ctx(), onceRequest("at an old one", u.rows("accounts"), client.Blind()))
	_, read := c.Snapshot(u.ctx())
	for what, err := range map[string]error{"commit": committed, "snapshot": read} {
		var told *client.Error
		if !errors.As(err, &told) || told.Reason != "REPLICA_BEHIND" || !strings.Contains(told.Message, "too old") {
			u.t.Errorf("%s at a replica of an old build: %v", what, err)
		}
	}
}

// more waits for so many commits from here on.
func (u *upgrade) more(n int) {
	u.mu.Lock()
	want := u.committed + n
	u.mu.Unlock()
	u.waitFor("clients to go on", func() bool {
		u.mu.Lock()
		defer u.mu.Unlock()
		return u.committed >= want
	})
}

func (u *upgrade) end() {
	close(u.stop)
	u.running.Wait()
}

func (u *upgrade) codec() uint32 {
	st, err := u.at(0).Status.GetStatus(u.ctx(), &txcoordv1.GetStatusRequest{})
	if err != nil {
		u.t.Fatal(err)
	}
	return st.GetCodec()
}
