package rpc_test

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/txcoord/txcoord/coordinator"
	"github.com/txcoord/txcoord/coordinator/rpc"
	pb "github.com/txcoord/txcoord/proto/txcoord/v1"
)

type withinKey struct{}

// told is what a server tells of its calls.
type told chan string

func (t told) calls(ctx context.Context, method string) (context.Context, func(error)) {
	return context.WithValue(ctx, withinKey{}, method), func(err error) { t <- method + " " + status.Code(err).String() }
}

// Each call is told of once, with the status that the client got, also where it was refused
// before anything of it was looked at; and what happens within has the context.
func TestCallsAreTold(t *testing.T) {
	a, tokens := accessFile(t)
	f, all, entered := inAndOut(), make(told, 100), make(chan bool, 1)
	f.begin = func(ctx context.Context, q coordinator.BeginRequest) (coordinator.Begun, error) {
		if q.Key == "slow" {
			entered <- true
			<-ctx.Done() // and then answers, in vain
		}
		if ctx.Value(withinKey{}) != pb.TransactionService_Begin_FullMethodName {
			return coordinator.Begun{}, errors.New("the context is another one")
		}
		return coordinator.Begun{Txn: id1}, nil
	}
	c := dial(t, rpc.Config{
		Catalogs: map[string]rpc.Catalog{"default": f}, Access: a, Calls: all.calls, Limits: rpc.Limits{MessageBytes: 1 << 20},
	})
	const begin, watch = pb.TransactionService_Begin_FullMethodName, pb.SnapshotService_WatchSnapshots_FullMethodName
	full := as(t.Context(), tokens["full"])
	var none []byte
	for _, call := range []struct {
		name, want string
		do         func() error
	}{
		{"answered", begin + " OK", func() error { _, err := c.Begin(full, &pb.BeginRequest{}); return err }},
		{"refused", begin + " PermissionDenied", func() error {
			_, err := c.Begin(full, &pb.BeginRequest{Catalog: "another"})
			return err
		}},
		{"a token that is none", begin + " Unauthenticated", func() error {
			_, err := c.Begin(as(t.Context(), "x"), &pb.BeginRequest{})
			return err
		}},
		{"too large to be read", begin + " ResourceExhausted", func() error {
			return c.conn.Invoke(full, begin, make([]byte, 5<<20), &none, grpc.ForceCodec(raw{}))
		}},
		{"no message", begin + " InvalidArgument", func() error { return c.conn.Invoke(full, begin, []byte{0xff}, &none, grpc.ForceCodec(raw{})) }},
		{"a client that went", begin + " Canceled", func() error {
			ctx, cancel := context.WithCancel(full)
			go func() {
				<-entered
				cancel()
			}()
			_, err := c.Begin(ctx, &pb.BeginRequest{Key: "slow"})
			return err
		}},
		{"a stream", watch + " OK", func() error {
			s, err := c.WatchSnapshots(full, &pb.WatchSnapshotsRequest{})
			for err == nil {
				_, err = s.Recv()
			}
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}},
		{"a stream that is refused", watch + " Unauthenticated", func() error {
			s, err := c.WatchSnapshots(as(t.Context(), "x"), &pb.WatchSnapshotsRequest{})
			if err == nil {
				_, err = s.Recv()
			}
			return err
		}},
	} {
		err := call.do()
		if got := <-all; got != call.want || !strings.HasSuffix(got, " "+status.Code(err).String()) {
			t.Errorf("%s: told %s, want %s; the client got %v", call.name, got, call.want, err)
		}
	}
	if err := c.conn.Invoke(full, "/txcoord.v1.TransactionService/None", &emptypb.Empty{}, &emptypb.Empty{}); status.Code(err) != codes.Unimplemented {
		t.Error(err)
	}
	if _, err := healthpb.NewHealthClient(c.conn).Check(full, &healthpb.HealthCheckRequest{}); err != nil {
		t.Error(err)
	}
	watching, cancel := context.WithCancel(full)
	defer cancel()
	health, err := healthpb.NewHealthClient(c.conn).Watch(watching, &healthpb.HealthCheckRequest{})
	if err == nil {
		_, err = health.Recv()
	}
	if err != nil {
		t.Error(err)
	}
	// Calls are told of before they are answered, but for those that cannot be read: one
	// more, and nothing of those in between.
	if _, err := c.Begin(full, &pb.BeginRequest{}); err != nil {
		t.Error(err)
	}
	if got := <-all; got != begin+" OK" || len(all) > 0 {
		t.Errorf("told %s, and %d more", got, len(all))
	}
}
