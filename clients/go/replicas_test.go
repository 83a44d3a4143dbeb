package client_test

import (
	"context"
	"errors"
	"math"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/resolver/manual"
	"google.golang.org/grpc/status"

	client "github.com/txcoord/txcoord/clients/go"
	txcoordv1 "github.com/txcoord/txcoord/proto/txcoord/v1"
)

// One replica is gone, one takes connections and says nothing, and one serves: every
// call finds the one that serves.
func TestCallsGoOnAtOtherReplicas(t *testing.T) {
	gone, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &server{outcomes: map[string]*txcoordv1.Outcome{}, digests: map[string]string{}}
	mute := &server{outcomes: map[string]*txcoordv1.Outcome{}, digests: map[string]string{}}
	hang := make(chan struct{})
	mute.onAnswer = func(string, int) error {
		<-hang
		return nil
	}
	addresses := gone.Addr().String() + "," + serve(t, "127.0.0.1:0", mute).addr + "," + serve(t, "127.0.0.1:0", s).addr
	t.Cleanup(func() { close(hang) }) // before the servers end
	if err := gone.Close(); err != nil {
		t.Fatal(err)
	}
	c, err := client.Dial(addresses, client.Options{TryFor: 50 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	for _, key := range []string{"a", "b", "c"} {
		if _, err := c.Transact(t.Context(), key, stageTwo(t.Context())); err != nil {
			t.Errorf("%s: %v", key, err)
		}
	}
}

// No replica says anything. Nobody has cancelled the call, and the error does not say so, whether
// the time to repeat it is over or the caller's.
func TestSilentReplicasAreNoCancelledCall(t *testing.T) {
	hang := make(chan struct{})
	mute := &server{outcomes: map[string]*txcoordv1.Outcome{}, digests: map[string]string{}, onCall: func(string, int) error {
		<-hang
		return nil
	}}
	addresses := serve(t, "127.0.0.1:0", mute).addr + "," + serve(t, "127.0.0.1:0", mute).addr
	t.Cleanup(func() { close(hang) }) // before the servers end
	const try = 50 * time.Millisecond
	for name, c := range map[string]struct{ retryFor, deadline time.Duration }{
		"no more repeats": {try, time.Minute},
		"a deadline":      {time.Minute, 4 * try},
	} {
		t.Run(name, func(t *testing.T) {
			conn, err := client.Dial(addresses, client.Options{TryFor: try, RetryFor: c.retryFor})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = conn.Close() })
			ctx, cancel := context.WithTimeout(t.Context(), c.deadline)
			defer cancel()
			_, err = conn.Transactions.Begin(ctx, &txcoordv1.BeginRequest{Key: "k"})
			if errors.Is(err, context.Canceled) || !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, client.ErrUnavailable) {
				t.Errorf("it ends with %v", err)
			}
		})
	}
}

// A server that was not given the location of a table says so whenever it is asked. The next
// one may have been; a call ends where all have said it, and goes on while one says something
// else, or nothing.
func TestCallsEndWhereNoServerMayReachATable(t *testing.T) {
	gone, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if err := gone.Close(); err != nil {
		t.Fatal(err)
	}
	answers := func(outOfReach bool, until int) string {
		return serve(t, "127.0.0.1:0", &server{
			outcomes: map[string]*txcoordv1.Outcome{}, digests: map[string]string{},
			onCall: func(_ string, n int) error {
				if n > until {
					return nil
				}
				return objectsUnavailable(t, outOfReach)
			},
		}).addr
	}
	const always, long = math.MaxInt, 20 * time.Second
	for name, c := range map[string]struct {
		targets  []string
		retryFor time.Duration
		ends     bool // with that answer
	}{
		"one that may not":                {[]string{answers(true, always)}, long, true},
		"two that may not":                {[]string{answers(true, always), answers(true, always)}, long, true},
		"one that may, but not now":       {[]string{answers(false, 3)}, long, false},
		"another that may, but not now":   {[]string{answers(true, always), answers(false, 1)}, long, false},
		"another that may":                {[]string{answers(true, always), answers(true, 0)}, long, false},
		"another that may be there later": {[]string{answers(true, always), gone.Addr().String()}, 500 * time.Millisecond, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			conn, err := client.Dial(strings.Join(c.targets, ","), client.Options{RetryFor: c.retryFor})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = conn.Close() })
			started := time.Now()
			_, err = conn.Transactions.Begin(t.Context(), &txcoordv1.BeginRequest{Key: "k"})
			var e *client.Error
			if ends := errors.As(err, &e) && e.Table.GetOutOfReach() && errors.Is(e, client.ErrUnavailable); ends != c.ends || err != nil && !ends {
				t.Errorf("it ends with %v", err)
			}
			if took := time.Since(started); took < c.retryFor/4 == (c.retryFor < long) {
				t.Errorf("it ends after %s, and is repeated for %s", took, c.retryFor)
			}
		})
	}
}

// A name stands for two servers, of which one was not given the table's location. Many calls at
// once take turns, so that a call may meet that one several times running.
func TestCallsToANameGoOnAtItsOtherServers(t *testing.T) {
	var servers []resolver.Endpoint
	for _, err := range []error{objectsUnavailable(t, true), nil} {
		s := &server{outcomes: map[string]*txcoordv1.Outcome{}, digests: map[string]string{}, onCall: func(string, int) error { return err }}
		servers = append(servers, resolver.Endpoint{Addresses: []resolver.Address{{Addr: serve(t, "127.0.0.1:0", s).addr}}})
	}
	names := manual.NewBuilderWithScheme("dns")
	names.InitialState(resolver.State{Endpoints: servers})
	conn, err := client.Dial("txcoord:7401", client.Options{DialOptions: []grpc.DialOption{grpc.WithResolvers(names)}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	var calls sync.WaitGroup
	for range 40 {
		calls.Go(func() {
			if _, err := conn.Transactions.Begin(t.Context(), &txcoordv1.BeginRequest{Key: "k"}); err != nil {
				t.Error(err)
			}
		})
	}
	calls.Wait()
}

func objectsUnavailable(t *testing.T, outOfReach bool) error {
	st, err := status.New(codes.Unavailable, "no").WithDetails(
		&errdetails.ErrorInfo{Reason: "OBJECTS_UNAVAILABLE", Domain: "txcoord"}, &txcoordv1.TableDetail{Table: "t", OutOfReach: outOfReach})
	if err != nil {
		t.Error(err)
	}
	return st.Err()
}
