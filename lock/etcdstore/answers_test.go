//go:build unix

package etcdstore_test

import (
	"context"
	"errors"
	"net"
	"sync/atomic"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/txcoord/txcoord/e2e/servers"
	"github.com/txcoord/txcoord/lock"
	"github.com/txcoord/txcoord/lock/etcdstore"
)

// answering is a server that knows no keys and gives every write the same answer.
type answering struct {
	pb.UnimplementedKVServer
	pb.UnimplementedMaintenanceServer
	err     error
	version string
	writes  atomic.Int32
	failing atomic.Pointer[failing]
}

// failing is an error of the next few reads.
type failing struct {
	err   error
	times int32
}

var header = &pb.ResponseHeader{ClusterId: 1, Revision: 1}

func (a *answering) Range(context.Context, *pb.RangeRequest) (*pb.RangeResponse, error) {
	if f := a.failing.Load(); f != nil && atomic.AddInt32(&f.times, -1) >= 0 {
		return nil, f.err
	}
	return &pb.RangeResponse{Header: header}, nil
}

func (a *answering) Txn(context.Context, *pb.TxnRequest) (*pb.TxnResponse, error) {
	a.writes.Add(1)
	return nil, a.err
}

func (a *answering) DeleteRange(context.Context, *pb.DeleteRangeRequest) (*pb.DeleteRangeResponse, error) {
	a.writes.Add(1)
	return nil, a.err
}

func (a *answering) Status(context.Context, *pb.StatusRequest) (*pb.StatusResponse, error) {
	return &pb.StatusResponse{Header: header, Version: a.version}, nil
}

func (a *answering) serve(t *testing.T) etcdstore.Config {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := grpc.NewServer()
	pb.RegisterKVServer(s, a)
	pb.RegisterMaintenanceServer(s, a)
	go func() { _ = s.Serve(l) }()
	t.Cleanup(s.Stop)
	return etcdstore.Config{Endpoints: []string{"http://" + l.Addr().String()}}
}

// meaning of an answer.
type meaning string

const (
	unknown  meaning = "unknown"
	certain  meaning = "certainly not carried out"
	tooLarge meaning = "too large"
)

func meaningOf(err error) meaning {
	switch {
	case errors.Is(err, lock.ErrUnknown):
		return unknown
	case errors.Is(err, lock.ErrTooLarge):
		return tooLarge
	default:
		return certain
	}
}

// Every answer is understood, and a write is sent once whatever it is: the client's
// own rule repeats a write that was answered "cancelled" while nobody cancelled it.
func TestAnswersToWrites(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		err  error
		want meaning
	}{
		{rpctypes.ErrGRPCTimeout, unknown},
		{rpctypes.ErrGRPCTimeoutDueToLeaderFail, unknown},
		{rpctypes.ErrGRPCTimeoutDueToConnectionLost, unknown},
		{rpctypes.ErrGRPCLeaderChanged, unknown},
		{rpctypes.ErrGRPCNoLeader, unknown},
		{rpctypes.ErrGRPCStopped, unknown},
		{rpctypes.ErrGRPCCanceled, unknown},
		{rpctypes.ErrGRPCDeadlineExceeded, unknown},
		{rpctypes.ErrGRPCCorrupt, unknown},
		{rpctypes.ErrGRPCNoSpace, unknown},
		{rpctypes.ErrGRPCAuthOldRevision, unknown},
		{status.Error(codes.Canceled, "by a proxy"), unknown},
		{status.Error(codes.DeadlineExceeded, "by a proxy"), unknown},
		{status.Error(codes.Unavailable, "by a proxy"), unknown},
		{status.Error(codes.Internal, "by a proxy"), unknown},
		{status.Error(codes.ResourceExhausted, "the answer was too large"), unknown},
		{status.Error(codes.InvalidArgument, "by a proxy"), unknown},
		{rpctypes.ErrGRPCRequestTooLarge, tooLarge},
		{rpctypes.ErrGRPCRequestTooManyRequests, certain},
		{rpctypes.ErrGRPCTooManyOps, certain},
		{rpctypes.ErrGRPCPermissionDenied, certain},
		{rpctypes.ErrGRPCUserEmpty, certain},
		{rpctypes.ErrGRPCNotSupportedForLearner, certain},
	} {
		t.Run(c.err.Error(), func(t *testing.T) {
			a := &answering{err: c.err}
			s := open(t, a.serve(t))
			_, err := s.Put(t.Context(), "k", nil, lock.IfAbsent())
			if got := meaningOf(err); err == nil || got != c.want || errors.Is(err, lock.ErrConflict) {
				t.Errorf("put: %v is %s, want %s", err, got, c.want)
			}
			if err := s.Delete(t.Context(), "k"); err == nil || meaningOf(err) != c.want {
				t.Errorf("delete: %v, want %s", err, c.want)
			}
			_, err = s.PutBatch(t.Context(), "k", nil, lock.IfAbsent(), []lock.Write{{Key: "w"}})
			if err == nil || meaningOf(err) != c.want {
				t.Errorf("batch: %v, want %s", err, c.want)
			}
			if n := a.writes.Load(); n != 3 {
				t.Errorf("3 writes were sent %d times", n)
			}
		})
	}
}

// A token that has expired refuses a write before anything is done with it.
func TestExpiredTokenIsRenewed(t *testing.T) {
	t.Parallel()
	a := &answering{err: rpctypes.ErrGRPCInvalidAuthToken}
	s := open(t, a.serve(t))
	if _, err := s.Put(t.Context(), "k", nil, lock.IfAbsent()); meaningOf(err) != certain {
		t.Errorf("got %v", err)
	}
	if n := a.writes.Load(); n != 2 {
		t.Errorf("sent %d times, want once more", n)
	}
}

// The reply that the conformance suite loses is really lost.
func TestLostReplyIsUnknown(t *testing.T) {
	t.Parallel()
	s, lose := conformance(servers.StartEtcd(t, servers.EtcdConfig{}), t).Lossy(t)
	for i, c := range []lock.Condition{lock.IfAbsent(), lock.Always()} {
		lose()
		if _, err := s.Put(t.Context(), "k", []byte{byte(i)}, c); !errors.Is(err, lock.ErrUnknown) {
			t.Errorf("put: %v", err)
		}
		if item, err := s.Get(t.Context(), "k"); err != nil || item.Value[0] != byte(i) {
			t.Errorf("%v, %v", item, err)
		}
	}
	lose()
	if err := s.Delete(t.Context(), "k"); !errors.Is(err, lock.ErrUnknown) {
		t.Errorf("delete: %v", err)
	}
}

// A member that hangs holds nobody up for longer than a request may take, and what
// it was sent is unknown.
func TestSilentMember(t *testing.T) {
	t.Parallel()
	e := servers.StartEtcd(t, servers.EtcdConfig{})
	proxy := servers.NewTCPFaults(t, e.Members[0].Endpoint)
	cfg := fresh("http://" + proxy.Addr)
	cfg.RequestTimeout = 2 * time.Second // enough for a busy machine
	s := open(t, cfg)
	proxy.Silence(true)
	began := time.Now()
	_, err := s.Put(t.Context(), "k", []byte("v"), lock.IfAbsent())
	if !errors.Is(err, lock.ErrUnknown) || errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("put: %v", err)
	}
	_, err = s.Get(t.Context(), "k")
	if err == nil || errors.Is(err, lock.ErrNotFound) || errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("get: %v", err)
	}
	if took := time.Since(began); took > 20*time.Second {
		t.Errorf("it took %v to give up", took)
	}
	proxy.Silence(false)
	if _, err := s.Put(t.Context(), "other", nil, lock.IfAbsent()); err != nil {
		t.Errorf("it answers again, and a put gets %v", err)
	}
}

// A paused leader is replaced, and what it acknowledged stays.
func TestPausedLeader(t *testing.T) {
	t.Parallel()
	e := servers.StartEtcd(t, servers.EtcdConfig{Members: 3})
	cfg := fresh(e.Endpoints()...)
	cfg.RequestTimeout = 2 * time.Second
	s := open(t, cfg)
	rev, err := s.Put(t.Context(), "k", []byte("before"), lock.IfAbsent())
	if err != nil {
		t.Fatal(err)
	}
	leader, err := e.Leader(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	leader.Pause()
	defer leader.Resume()
	began := time.Now()
	for err = lock.ErrUnknown; errors.Is(err, lock.ErrUnknown) && time.Since(began) < 30*time.Second; {
		_, err = s.Put(t.Context(), "k", []byte("after"), lock.IfRevision(rev))
	}
	if err != nil && !errors.Is(err, lock.ErrConflict) {
		t.Fatal(err)
	}
	t.Logf("written after %v", time.Since(began).Round(time.Millisecond))
	if item, err := s.Get(t.Context(), "k"); err != nil || string(item.Value) != "after" {
		t.Errorf("%s, %v", item.Value, err)
	}
}

// Reads go on through an election, and through a member that answers in a way of its own.
func TestReadsAreRepeated(t *testing.T) {
	t.Parallel()
	for _, err := range []error{
		rpctypes.ErrGRPCLeaderChanged, rpctypes.ErrGRPCNoLeader, rpctypes.ErrGRPCTimeout,
		status.Error(codes.Unavailable, ""), status.Error(codes.DeadlineExceeded, "stream terminated"), status.Error(codes.Canceled, "by a proxy"),
	} {
		a := &answering{}
		s := open(t, a.serve(t))
		a.failing.Store(&failing{err: err, times: 2})
		if _, got := s.Get(t.Context(), "k"); !errors.Is(got, lock.ErrNotFound) {
			t.Errorf("after %v: %v", err, got)
		}
	}
	a := &answering{}
	s := open(t, a.serve(t))
	a.failing.Store(&failing{err: rpctypes.ErrGRPCPermissionDenied, times: 1})
	if _, err := s.Get(t.Context(), "k"); !errors.Is(err, rpctypes.ErrPermissionDenied) {
		t.Errorf("got %v", err)
	}
}
