package client_test

import (
	"errors"
	"net"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"

	client "github.com/txcoord/txcoord/clients/go"
	txcoordv1 "github.com/txcoord/txcoord/proto/txcoord/v1"
)

// The server carries the commit out and is gone before it answers; another one
// takes its address. Nothing here makes an error up: it is gRPC's own.
func TestTransactOutlivesItsServer(t *testing.T) {
	s := &server{outcomes: map[string]*txcoordv1.Outcome{}, digests: map[string]string{}}
	first := serve(t, "127.0.0.1:0", s)
	addr := first.addr
	var restarted sync.WaitGroup
	s.onAnswer = func(name string, n int) error {
		if name == "Commit" && n == 1 {
			restarted.Add(1)
			go func() {
				defer restarted.Done()
				first.stop()
				time.Sleep(100 * time.Millisecond) // refused connections in between
				serve(t, addr, s)
			}()
			<-first.stopped
		}
		return nil
	}
	c, err := client.Dial(addr, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	r, err := c.Transact(t.Context(), "k", stageTwo(t.Context()))
	if err != nil {
		t.Fatal(err)
	}
	restarted.Wait()
	if r.Outcome.GetTransactionId() != "k/1" || s.snapshot != 1 || s.count("Commit") < 2 {
		t.Errorf("committed as %s, %d snapshots, calls %v", r.Outcome.GetTransactionId(), s.snapshot, s.calls)
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
}

// FailFast gives up where no server has been reached, and says that this is why: what was asked
// of one that is gone now may have been carried out.
func TestNoServerWasReached(t *testing.T) {
	s := &server{outcomes: map[string]*txcoordv1.Outcome{}, digests: map[string]string{}}
	there := serve(t, "127.0.0.1:0", s)
	for _, asked := range []bool{true, false} { // first while it is there
		c, err := client.Dial(there.addr, client.Options{FailFast: true, RetryFor: 300 * time.Millisecond})
		if err != nil {
			t.Fatal(err)
		}
		begin := func() error {
			_, err := c.Transactions.Begin(t.Context(), &txcoordv1.BeginRequest{Key: "k"})
			return err
		}
		if asked {
			if err := begin(); err != nil {
				t.Fatal(err)
			}
			there.stop()
		}
		if err := begin(); !errors.Is(err, client.ErrUnavailable) || errors.Is(err, client.ErrUnreached) == asked {
			t.Errorf("asked before %t: %v", asked, err)
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}
}

type serving struct {
	addr    string
	stop    func()
	stopped chan struct{} // closed once no connection is left
}

// serve listens on a loopback address until it is stopped or the test ends.
func serve(t *testing.T, addr string, s *server) serving {
	t.Helper()
	lis, err := net.Listen("tcp", addr)
	if err != nil {
		t.Error(err)
		return serving{stop: func() {}}
	}
	g := grpc.NewServer(grpc.UnaryInterceptor(s.intercept))
	txcoordv1.RegisterTransactionServiceServer(g, s)
	served := make(chan struct{})
	go func() {
		defer close(served)
		if err := g.Serve(lis); err != nil {
			t.Error(err)
		}
	}()
	stopped := make(chan struct{})
	var once sync.Once
	stop := func() {
		once.Do(func() {
			g.Stop()
			close(stopped)
			<-served
		})
	}
	t.Cleanup(stop)
	return serving{addr: lis.Addr().String(), stop: stop, stopped: stopped}
}
