// These tests are in package main, which no other package can import.
package main

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	"google.golang.org/grpc"

	txcoordv1 "github.com/txcoord/txcoord/proto/txcoord/v1"
)

// selfVariable makes the test binary be the program: for the demo's servers, and
// for the scripts of docs/cli.md.
const selfVariable = "TXCOORD_TEST_SELF"

func TestMain(m *testing.M) {
	if os.Getenv(selfVariable) == "1" {
		main()
		return
	}
	goleak.VerifyTestMain(m)
}

// outputs are what a run of the program left.
type outputs struct {
	code        int
	out, stderr string
}

// txcoord runs the program with standard input and an environment.
func txcoord(t *testing.T, env map[string]string, stdin string, args ...string) outputs {
	t.Helper()
	var out, stderr bytes.Buffer
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	code := run(ctx, args, strings.NewReader(stdin), &out, &stderr, func(name string) (string, bool) {
		v, ok := env[name]
		return v, ok
	})
	return outputs{code, out.String(), stderr.String()}
}

// server is a real one in this process, over a folder of its own.
type server struct {
	t         *testing.T
	warehouse string
	env       map[string]string
}

func startServer(t *testing.T, flags ...string) *server {
	t.Helper()
	s := &server{t: t, warehouse: t.TempDir()}
	s.env = map[string]string{"TXCOORD_SERVER": serving(t, append([]string{"--warehouse", s.warehouse}, flags...)...)}
	return s
}

// serving runs serve until the test ends, when it has to end well.
func serving(t *testing.T, flags ...string) (address string) {
	t.Helper()
	address, stop := servingUntil(t, flags...)
	t.Cleanup(func() {
		if code, stderr := stop(); code != 0 || strings.Contains(stderr, "ERROR") {
			t.Errorf("serve ends with %d\n%s", code, stderr)
		}
	})
	return address
}

// servingUntil runs serve until stop, or the test's end.
func servingUntil(t *testing.T, flags ...string) (address string, stop func() (code int, stderr string)) {
	t.Helper()
	return servingWith(t, &lockedBuffer{}, flags...)
}

// servingWith is servingUntil, whose standard error can be read while it serves.
func servingWith(t *testing.T, stderr *lockedBuffer, flags ...string) (address string, stop func() (code int, stderr string)) {
	t.Helper()
	ready := filepath.Join(t.TempDir(), "ready")
	var out bytes.Buffer
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan int, 1)
	args := append([]string{"serve", "--listen", "127.0.0.1:0", "--ready-file", ready, "--log-level", "warn"}, flags...)
	go func() { ended <- run(ctx, args, strings.NewReader(""), &out, stderr, nothing) }()
	stop = sync.OnceValues(func() (int, string) {
		cancel()
		return <-ended, stderr.String()
	})
	t.Cleanup(func() { stop() })
	for {
		if b, err := os.ReadFile(ready); err == nil {
			return strings.TrimSpace(string(b)), stop
		}
		select {
		case code := <-ended:
			ended <- code
			t.Fatalf("serve ends with %d\n%s", code, stderr)
		case <-time.After(time.Millisecond):
		}
	}
}

func nothing(string) (string, bool) { return "", false }

// ok runs the program against the server, and wants it to end well.
func (s *server) ok(args ...string) string {
	s.t.Helper()
	return s.with("", args...)
}

// with is ok with standard input.
func (s *server) with(stdin string, args ...string) string {
	s.t.Helper()
	o := txcoord(s.t, s.env, stdin, args...)
	if o.code != 0 {
		s.t.Fatalf("txcoord %s ends with %d\n%s%s", strings.Join(args, " "), o.code, o.out, o.stderr)
	}
	return o.out
}

// fails wants an exit code, and texts in what is said about it.
func (s *server) fails(code int, args []string, says ...string) {
	s.t.Helper()
	o := txcoord(s.t, s.env, "", args...)
	wantCode(s.t, args, o, code, says...)
}

func wantCode(t *testing.T, args []string, o outputs, code int, says ...string) {
	t.Helper()
	if o.code != code {
		t.Errorf("txcoord %s ends with %d, want %d\n%s", strings.Join(args, " "), o.code, code, o.stderr)
	}
	for _, text := range says {
		if !strings.Contains(o.stderr, text) {
			t.Errorf("txcoord %s says %q, want %q in it", strings.Join(args, " "), o.stderr, text)
		}
	}
}

func same(t *testing.T, want, got any) {
	t.Helper()
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

// fakeStatus is a server whose one call is a test's.
type fakeStatus struct {
	txcoordv1.UnimplementedStatusServiceServer
	get func() (*txcoordv1.GetStatusResponse, error)
}

func (f fakeStatus) GetStatus(context.Context, *txcoordv1.GetStatusRequest) (*txcoordv1.GetStatusResponse, error) {
	return f.get()
}

// serveFake serves it on a loopback port.
func serveFake(t *testing.T, f fakeStatus) (address string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	g := grpc.NewServer()
	txcoordv1.RegisterStatusServiceServer(g, f)
	served := make(chan error, 1)
	go func() { served <- g.Serve(l) }()
	t.Cleanup(func() {
		g.Stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return l.Addr().String()
}

// freeAddress is one that nobody listens on. It lies below the ports that systems give to
// connections and to listeners that ask for any, so that nothing which the tests of other
// packages open takes it, also while a server on it is started again.
func freeAddress(t *testing.T) string {
	t.Helper()
	for range 1000 {
		address := fmt.Sprintf("127.0.0.1:%d", 20000+rand.IntN(12000))
		if _, before := handedOut.LoadOrStore(address, true); before {
			continue
		}
		if l, err := net.Listen("tcp", address); err == nil {
			_ = l.Close()
			return address
		}
	}
	t.Fatal("no port from 20000 to 31999 is free")
	return ""
}

var handedOut sync.Map // addresses
