package e2e_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/resolver/manual"

	"github.com/txcoord/txcoord/clients/go"
	"github.com/txcoord/txcoord/e2e/linear"
)

// process is a server process, which can be started again and again.
type process struct {
	t      testing.TB
	config serverConfig

	// replicas are the processes that clients go to; nil: this one alone.
	replicas []*process
	// calls has what clients call, if it is set.
	calls *linear.Recorder

	mu      sync.Mutex
	address string
	running *run
	started time.Time
}

// run is one life of a process; ended is closed when it is over.
type run struct {
	cmd   *exec.Cmd
	input io.Closer
	ended chan struct{}
}

// startLimit is how long a server may take to listen, on a busy machine.
const startLimit = 2 * time.Minute

// start starts the process and returns when it listens, or false when it ended
// before, as one does that is to be killed while it starts.
func (p *process) start(k *kill) bool {
	p.t.Helper()
	config := p.config
	config.Kill = k
	raw, err := json.Marshal(config)
	if err != nil {
		p.t.Fatal(err)
	}
	r, lines, err := launch(raw, filepath.Join(config.Dir, logFile))
	if err != nil {
		p.t.Fatalf("start server: %v", err)
	}
	p.mu.Lock()
	p.address, p.running, p.started = "", r, time.Now()
	p.mu.Unlock()
	select {
	case address, ok := <-lines:
		if !ok && k == nil {
			p.t.Fatalf("the server does not start\n%s", p.log())
		}
		p.mu.Lock()
		p.address = address
		p.mu.Unlock()
		return ok
	case <-time.After(startLimit):
		p.t.Fatalf("the server does not listen after %s\n%s", startLimit, p.log())
	}
	return false
}

// launch starts the test binary as a server. The channel gets the first line that
// it prints, and is closed when there is none.
func launch(config []byte, log string) (*run, <-chan string, error) {
	stderr, err := os.OpenFile(log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, nil, err
	}
	defer stderr.Close()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), serverVariable+"="+string(config))
	cmd.Stderr = stderr
	input, err := cmd.StdinPipe()
	if err != nil {
		return nil, nil, err
	}
	output, err := cmd.StdoutPipe()
	if err != nil {
		return nil, nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, nil, err
	}
	r := &run{cmd: cmd, input: input, ended: make(chan struct{})}
	said := []string{log, filepath.Join(filepath.Dir(log), traceFile)}
	first := make(chan string, 1)
	go func() {
		if lines := bufio.NewScanner(output); lines.Scan() {
			first <- lines.Text()
		}
		close(first)
		_ = cmd.Wait()
		leaks.search(said...)
		close(r.ended)
	}()
	return r, first, nil
}

// kill sends SIGKILL and waits. It does not matter if the process was quicker.
func (p *process) kill() {
	p.mu.Lock()
	r := p.running
	p.mu.Unlock()
	_ = r.cmd.Process.Kill()
	<-r.ended
}

// signal sends a signal, to stop the process where it is and to let it go on.
func (p *process) signal(sig syscall.Signal) {
	p.mu.Lock()
	defer p.mu.Unlock()
	_ = p.running.cmd.Process.Signal(sig)
}

// ended reports whether the process ends by itself within a time.
func (p *process) ended(within time.Duration) bool {
	p.mu.Lock()
	r := p.running
	p.mu.Unlock()
	select {
	case <-r.ended:
		return true
	case <-time.After(within):
		return false
	}
}

// stop lets the process end properly.
func (p *process) stop() {
	p.t.Helper()
	p.mu.Lock()
	r := p.running
	p.mu.Unlock()
	if r == nil {
		return
	}
	_ = r.input.Close()
	if !p.ended(startLimit) {
		p.t.Errorf("the server does not end\n%s", p.log())
		p.kill()
	}
	if status, ok := r.cmd.ProcessState.Sys().(syscall.WaitStatus); ok && !status.Signaled() && !r.cmd.ProcessState.Success() {
		p.t.Errorf("server: %s\n%s", r.cmd.ProcessState, p.log())
	}
}

// log is the end of what the server wrote.
func (p *process) log() string {
	b, err := os.ReadFile(filepath.Join(p.config.Dir, logFile))
	if err != nil {
		return err.Error()
	}
	return "the server's log ends with:\n" + string(b[max(0, len(b)-3000):])
}

// trace is what the server wrote about its writes, one line each.
func (p *process) trace() []string {
	p.t.Helper()
	b, err := os.ReadFile(filepath.Join(p.config.Dir, traceFile))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		p.t.Fatal(err)
	}
	return strings.Split(strings.TrimSuffix(string(b), "\n"), "\n")
}

// dial makes a client that finds the server at whatever port its latest life has.
func (p *process) dial() *client.Client {
	p.t.Helper()
	o := client.Options{}
	if p.replicas != nil {
		o.TryFor = 3 * time.Second
	}
	return client.New(p.connect(), o)
}

// connection is one to the server, if it runs. Its port may be that of another test's server
// as soon as it has ended, which answers the same keys.
func (p *process) connection(ctx context.Context) (net.Conn, error) {
	p.mu.Lock()
	address, r := p.address, p.running
	p.mu.Unlock()
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	select {
	case <-r.ended:
		return nil, errors.Join(errEnded, conn.Close())
	default:
		return conn, nil
	}
}

// errEnded: there is no server to connect to.
var errEnded = errors.New("the server has ended")

func (p *process) connect() *grpc.ClientConn {
	p.t.Helper()
	all := p.replicas
	if all == nil {
		all = []*process{p}
	}
	names := map[string]*process{}
	var endpoints []resolver.Endpoint
	for i, one := range all {
		name := fmt.Sprintf("replica-%d", i)
		names[name] = one
		endpoints = append(endpoints, resolver.Endpoint{Addresses: []resolver.Address{{Addr: name}}})
	}
	find := func(ctx context.Context, name string) (net.Conn, error) {
		return names[name].connection(ctx)
	}
	r := manual.NewBuilderWithScheme("e2e")
	r.InitialState(resolver.State{Endpoints: endpoints})
	var recorded []grpc.DialOption
	if p.calls != nil {
		recorded = append(recorded, grpc.WithChainUnaryInterceptor(p.calls.Client()))
	}
	cc, err := grpc.NewClient("e2e:///txcoord", append(recorded, grpc.WithResolvers(r), grpc.WithDefaultServiceConfig(`{"loadBalancingConfig":[{"round_robin":{}}]}`),
		grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithDisableRetry(), grpc.WithContextDialer(find),
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: 10 * time.Millisecond, Multiplier: 1.3, Jitter: 0.2, MaxDelay: 100 * time.Millisecond},
			MinConnectTimeout: time.Second,
		}))...)
	if err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() { cc.Close() })
	return cc
}
