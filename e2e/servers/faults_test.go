//go:build unix

package servers_test

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/txcoord/txcoord/e2e/servers"
)

// echo answers with what it was sent, and counts.
func echo(t *testing.T) (url string, seen *atomic.Int32) {
	t.Helper()
	seen = &atomic.Int32{}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seen.Add(1)
		w.WriteHeader(http.StatusAccepted)
		_, _ = io.Copy(w, r.Body)
	}))
	t.Cleanup(s.Close)
	return s.URL, seen
}

func TestHTTPFates(t *testing.T) {
	url, seen := echo(t)
	proxy := servers.NewHTTPFaults(t, url)
	for _, c := range []struct {
		what string
		fate servers.Fate
		want string
		seen int32
	}{
		{"passes", servers.Fate{}, "202 body", 1},
		{"instead", servers.Fate{Instead: servers.DynamoError(400, "ThrottlingException", "slow")}, `400 {"__type":"com.amazonaws.dynamodb.v20120810#ThrottlingException","message":"slow"}`, 0},
		{"after", servers.Fate{After: &servers.Reply{Status: 500, Body: "no"}}, "500 no", 1},
		{"lost", servers.Fate{Lost: true}, "", 1},
		{"twice", servers.Fate{Twice: true}, "202 body", 2},
		{"another body", servers.Fate{Body: []byte("other")}, "202 other", 1},
	} {
		seen.Store(0)
		proxy.Decide(func(r servers.Request) servers.Fate {
			if r.Operation != "PutItem" || r.Path != "/" || !bytes.Equal(r.Body, []byte("body")) {
				t.Errorf("%s: got %+v", c.what, r)
			}
			return c.fate
		})
		got, err := post(t, proxy.URL, "DynamoDB_20120810.PutItem", "body")
		if got != c.want || (err == nil) != (c.want != "") || seen.Load() != c.seen {
			t.Errorf("%s: %q, %v, seen %d times; want %q, %d times", c.what, got, err, seen.Load(), c.want, c.seen)
		}
	}
}

// asked counts requests that reach a gRPC server behind a proxy.
func asked(t *testing.T) (proxy *servers.TCPFaults, check func(timeout time.Duration) error, n *atomic.Int32) {
	t.Helper()
	n = &atomic.Int32{}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := grpc.NewServer(grpc.UnaryInterceptor(func(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
		n.Add(1)
		return handle(ctx, req)
	}))
	healthpb.RegisterHealthServer(s, health.NewServer())
	go func() { _ = s.Serve(l) }()
	t.Cleanup(s.Stop)
	proxy = servers.NewTCPFaults(t, l.Addr().String())
	conn, err := grpc.NewClient(proxy.Addr, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return proxy, func(timeout time.Duration) error {
		ctx, cancel := context.WithTimeout(t.Context(), timeout)
		defer cancel()
		_, err := healthpb.NewHealthClient(conn).Check(ctx, &healthpb.HealthCheckRequest{}, grpc.WaitForReady(true))
		return err
	}, n
}

func TestLostReplyOverHTTP2(t *testing.T) {
	proxy, check, n := asked(t)
	for i := range int32(20) {
		if i%2 == 1 {
			proxy.LoseReply()
		}
		err := check(10 * time.Second)
		if got := status.Code(err); i%2 == 1 && got != codes.Unavailable || i%2 == 0 && err != nil {
			t.Errorf("request %d: %v", i, err)
		}
		if n.Load() != i+1 {
			t.Fatalf("request %d: the server has seen %d", i, n.Load())
		}
	}
}

func TestCutAndSilence(t *testing.T) {
	proxy, check, _ := asked(t)
	if err := check(10 * time.Second); err != nil {
		t.Fatal(err)
	}
	proxy.Cut()
	if err := check(10 * time.Second); err != nil && status.Code(err) != codes.Unavailable {
		t.Errorf("after a cut: %v", err)
	}
	if err := check(10 * time.Second); err != nil {
		t.Errorf("after a cut: %v", err)
	}
	proxy.Silence(true)
	if err := check(200 * time.Millisecond); status.Code(err) != codes.DeadlineExceeded {
		t.Errorf("in silence: %v", err)
	}
	proxy.Silence(false)
	if err := check(10 * time.Second); err != nil {
		t.Errorf("after silence: %v", err)
	}
	proxy.Delay(100 * time.Millisecond)
	began := time.Now()
	if err := check(10 * time.Second); err != nil || time.Since(began) < 200*time.Millisecond {
		t.Errorf("delayed: %v after %v", err, time.Since(began))
	}
}

func TestRedirect(t *testing.T) {
	first, seenFirst := echo(t)
	second, seenSecond := echo(t)
	proxy := servers.NewTCPFaults(t, first)
	for _, url := range []string{first, second} {
		if got, err := post(t, "http://"+proxy.Addr, "", "body"); err != nil || !strings.HasSuffix(got, "body") {
			t.Errorf("%s: %q, %v", url, got, err)
		}
		proxy.Redirect(second)
	}
	if seenFirst.Load() != 1 || seenSecond.Load() != 1 {
		t.Errorf("seen %d and %d times", seenFirst.Load(), seenSecond.Load())
	}
}

// Without a server a test is skipped, unless servers are required.
func TestRequireWithoutGo(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	for required, want := range map[string]string{"": "skipped", "1": "failed"} {
		t.Setenv(servers.RequireVariable, required)
		f := &fakeTB{TB: t}
		f.run(func() { servers.StartEtcd(f, servers.EtcdConfig{}) })
		if f.ended != want {
			t.Errorf("%s=%q: %q", servers.RequireVariable, required, f.ended)
		}
	}
}

// fakeTB notes how a test ends. It embeds a real one, as the interface demands.
type fakeTB struct {
	testing.TB
	ended string
}

type ended struct{}

func (f *fakeTB) Helper() {}

func (f *fakeTB) Skipf(string, ...any) {
	f.ended = "skipped"
	panic(ended{})
}

func (f *fakeTB) Fatalf(string, ...any) {
	f.ended = "failed"
	panic(ended{})
}

func (f *fakeTB) run(body func()) {
	defer func() {
		if r := recover(); r != nil {
			if _, ok := r.(ended); !ok {
				panic(r)
			}
		}
	}()
	body()
}
