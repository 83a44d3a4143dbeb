package rpc_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	reflectpb "google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	client "github.com/txcoord/txcoord/clients/go"
	"github.com/txcoord/txcoord/coordinator"
	"github.com/txcoord/txcoord/coordinator/rpc"
	pb "github.com/txcoord/txcoord/proto/txcoord/v1"
	"github.com/txcoord/txcoord/twophase"
)

func head() *pb.StageStreamRequest {
	return &pb.StageStreamRequest{Message: &pb.StageStreamRequest_Header{
		Header: &pb.StageHeader{Token: "t", Table: "orders", Read: client.Blind()},
	}}
}

func chunk(b []byte) *pb.StageStreamRequest {
	return &pb.StageStreamRequest{Message: &pb.StageStreamRequest_Chunk{Chunk: b}}
}

// stream sends messages and returns the answer, or the client's error.
func stream(ctx context.Context, c clients, all ...*pb.StageStreamRequest) (*pb.StagedPart, error) {
	s, err := c.StageStream(ctx)
	if err != nil {
		return nil, err
	}
	for _, m := range all {
		if err := s.Send(m); err != nil {
			break // the answer says why
		}
	}
	a, err := s.CloseAndRecv()
	if err != nil {
		return nil, client.FromStatus(status.Convert(err))
	}
	return a.GetPart(), nil
}

func TestStageStreamPutsTheChunksTogether(t *testing.T) {
	var got coordinator.StageRequest
	c := dialFake(t, &fake{stage: func(_ context.Context, q coordinator.StageRequest) (coordinator.Staged, error) {
		got = q
		return coordinator.Staged{Bytes: int64(len(q.Actions)), Lines: 1}, nil
	}})
	want := bytes.Repeat([]byte("0123456789"), 300_000)
	p, err := stream(t.Context(), c, head(), chunk(want[:1<<20]), chunk(want[1<<20:1<<20+1]), chunk(nil), chunk(want[1<<20+1:2<<20]), chunk(want[2<<20:]))
	if err != nil || p.GetBytes() != uint64(len(want)) {
		t.Fatalf("%v, %v", p, err)
	}
	if got.Token != "t" || got.Table != "orders" || !got.Read.Blind || !bytes.Equal(got.Actions, want) {
		t.Errorf("staged %d bytes for %q", len(got.Actions), got.Table)
	}
}

func TestStageStreamRefuses(t *testing.T) {
	with := func(l rpc.Limits) clients {
		return dial(t, rpc.Config{Catalogs: map[string]rpc.Catalog{"default": &fake{}}, Limits: l})
	}
	c := with(rpc.Limits{ChunkBytes: 1000, PartBytes: 2500})
	crowded := with(rpc.Limits{StreamBytes: 2400})
	small := chunk(make([]byte, 900))
	for name, r := range map[string]struct {
		messages []*pb.StageStreamRequest
		reason   string
		about    string
	}{
		"nothing":         {nil, "INVALID_REQUEST", "header"},
		"chunk first":     {[]*pb.StageStreamRequest{small}, "INVALID_REQUEST", "header"},
		"header twice":    {[]*pb.StageStreamRequest{head(), small, head()}, "INVALID_REQUEST", "message 3 of the stream"},
		"no read":         {[]*pb.StageStreamRequest{{Message: &pb.StageStreamRequest_Header{Header: &pb.StageHeader{Token: "t", Table: "o"}}}}, "INVALID_REQUEST", "read"},
		"long chunk":      {[]*pb.StageStreamRequest{head(), chunk(make([]byte, 1001))}, "LIMIT_EXCEEDED", "chunk_bytes"},
		"long part":       {[]*pb.StageStreamRequest{head(), small, chunk(make([]byte, 700)), small, small}, "LIMIT_EXCEEDED", "part_bytes"},
		"too much at all": {[]*pb.StageStreamRequest{head(), chunk(make([]byte, 1000)), chunk(make([]byte, 1000)), chunk(make([]byte, 500))}, "QUOTA_EXCEEDED", "stream_bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			c := c
			if r.reason == "QUOTA_EXCEEDED" {
				c = crowded
			}
			_, err := stream(t.Context(), c, r.messages...)
			var e *client.Error
			if !errors.As(err, &e) || e.Reason != r.reason {
				t.Fatalf("answered %v", err)
			}
			if got := e.Field.GetField() + e.Limit.GetName(); got != r.about {
				t.Errorf("names %q, want %q", got, r.about)
			}
			if e.Reason == "QUOTA_EXCEEDED" && e.RetryAfter == 0 {
				t.Error("does not say when to come again")
			}
		})
	}
}

// TestStageStreamThatBreaksOff: the catalog's Stage would panic, and what the
// stream held is free again.
func TestStageStreamThatBreaksOff(t *testing.T) {
	staged := make(chan int, 1)
	f := &fake{stage: func(_ context.Context, q coordinator.StageRequest) (coordinator.Staged, error) {
		staged <- len(q.Actions)
		return coordinator.Staged{}, nil
	}}
	c := dial(t, rpc.Config{Catalogs: map[string]rpc.Catalog{"default": f}, Limits: rpc.Limits{StreamBytes: 1000}})
	ctx, cancel := context.WithCancel(t.Context())
	s, err := c.StageStream(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(s.Send(head()), s.Send(chunk(make([]byte, 900)))); err != nil {
		t.Fatal(err)
	}
	cancel() // without an end of what was sent, which would be a whole part
	if err := s.RecvMsg(&pb.StageStreamResponse{}); status.Code(err) != codes.Canceled {
		t.Errorf("the stream that broke off: %v", err)
	}
	for { // the server notices the end of the first stream in its own time
		_, err := stream(t.Context(), c, head(), chunk(make([]byte, 800)))
		if err == nil {
			break
		}
		if !errors.Is(err, client.ErrExhausted) {
			t.Fatal(err)
		}
		time.Sleep(time.Millisecond)
	}
	if n := <-staged; n != 800 {
		t.Errorf("staged %d bytes", n)
	}
}

// TestStageStreamIsRefusedBeforeItsEnd: a stream that never ends is refused by the limit on
// actions too, and what it held is free for the next one.
func TestStageStreamIsRefusedBeforeItsEnd(t *testing.T) {
	c := dial(t, rpc.Config{
		Catalogs: map[string]rpc.Catalog{"default": &fake{stage: func(context.Context, coordinator.StageRequest) (coordinator.Staged, error) {
			return coordinator.Staged{}, nil
		}}},
		Limits: rpc.Limits{Actions: 100, StreamBytes: 1000},
	})
	s, err := c.StageStream(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	// The last chunk has the 101st line's first byte, and not its end.
	for _, m := range []*pb.StageStreamRequest{head(), chunk(bytes.Repeat([]byte("{}\n \n"), 99)), chunk([]byte("{")), chunk([]byte("}\n")), chunk([]byte("{"))} {
		if err := s.Send(m); err != nil {
			t.Fatal(err)
		}
	}
	err = s.RecvMsg(&pb.StageStreamResponse{}) // without an end of what was sent
	e := client.FromStatus(status.Convert(err))
	if l := e.Limit; e.Reason != "LIMIT_EXCEEDED" || l.GetName() != "actions" || l.GetValue() != 101 || l.GetLimit() != 100 {
		t.Fatalf("answered %v", err)
	}
	if _, err := stream(t.Context(), c, head(), chunk(bytes.Repeat([]byte("x"), 1000))); err != nil {
		t.Errorf("the next stream: %v", err)
	}
	if _, err := stream(t.Context(), c, head(), chunk(bytes.Repeat([]byte("{}\n"), 100)), chunk([]byte("\n \n"))); err != nil {
		t.Errorf("as many as may be: %v", err)
	}
}

func TestMessagesAreBounded(t *testing.T) {
	c := dial(t, rpc.Config{
		Catalogs: map[string]rpc.Catalog{"default": &fake{}}, Limits: rpc.Limits{MessageBytes: 1 << 10, ChunkBytes: 1 << 10},
	})
	q := readOf(client.Blind())
	q.Actions = make([]byte, 2<<10)
	var e *client.Error
	if err := send(t.Context(), c, q); !errors.As(err, &e) || e.Limit.GetName() != "message_bytes" || e.Limit.GetLimit() != 1<<10 {
		t.Errorf("answered %v", err)
	}
	for name, l := range map[string]rpc.Limits{
		"negative": {MessageBytes: -1}, "chunks above messages": {MessageBytes: 10, ChunkBytes: 20}, "ping": {IdlePing: -1},
	} {
		if _, err := rpc.NewServer(rpc.Config{Catalogs: map[string]rpc.Catalog{"default": &fake{}}, Limits: l}); err == nil {
			t.Errorf("limits accepted: %s", name)
		}
	}
	if _, err := rpc.NewServer(rpc.Config{}); err == nil {
		t.Error("a server without catalogs")
	}
}

func TestWatch(t *testing.T) {
	var from *twophase.SnapshotVersion
	f := &fake{shown: 8, watch: func(_ context.Context, after *twophase.SnapshotVersion, yield func(coordinator.SnapshotChange) error) error {
		from = after
		for v := twophase.SnapshotVersion(6); v <= 8; v++ {
			if err := yield(coordinator.SnapshotChange{Version: v, Time: at, Kind: "publication"}); err != nil {
				return err
			}
		}
		return &coordinator.Error{Reason: coordinator.SnapshotOutOfRange, Message: "gone"}
	}}
	c := dialFake(t, f)
	w, err := c.WatchSnapshots(t.Context(), &pb.WatchSnapshotsRequest{After: proto.Uint64(5)})
	if err != nil {
		t.Fatal(err)
	}
	for want := uint64(6); want <= 8; want++ {
		m, err := w.Recv()
		if err != nil || m.GetSnapshot().GetVersion() != want || m.GetLatestSnapshot() != 8 || m.GetSnapshot().GetKind() != "publication" {
			t.Fatalf("%v, %v", m, err)
		}
	}
	if _, err := w.Recv(); status.Code(err) != codes.OutOfRange {
		t.Errorf("ends with %v", err)
	}
	if from == nil || *from != 5 {
		t.Errorf("watched after %v", from)
	}
	w, err = c.WatchSnapshots(t.Context(), &pb.WatchSnapshotsRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err = w.Recv(); err != nil || from != nil {
		t.Errorf("without a start: %v, after %v", err, from)
	}
}

// TestStopEndsWatchesAndWaitsForCalls: a commit that is in flight gets its answer,
// a watch gets SHUTTING_DOWN, and health says so first.
func TestStopEndsWatchesAndWaitsForCalls(t *testing.T) {
	committing, finish := make(chan struct{}), make(chan struct{})
	watching := make(chan struct{})
	c := dialFake(t, &fake{
		commit: func(context.Context, coordinator.CommitRequest) (coordinator.Outcome, error) {
			close(committing)
			<-finish
			return coordinator.Outcome{Txn: id1, Committed: &coordinator.Committed{}}, nil
		},
		watch: func(ctx context.Context, _ *twophase.SnapshotVersion, _ func(coordinator.SnapshotChange) error) error {
			close(watching)
			<-ctx.Done()
			return ctx.Err()
		},
	})
	committed := make(chan error, 1)
	go func() {
		_, err := c.Commit(context.WithoutCancel(t.Context()), &pb.CommitRequest{Token: "t", Tables: []*pb.TableParts{parts("a", digest)}})
		committed <- err
	}()
	w, err := c.WatchSnapshots(t.Context(), &pb.WatchSnapshotsRequest{})
	if err != nil {
		t.Fatal(err)
	}
	<-committing
	<-watching
	stopped := make(chan struct{})
	go func() {
		c.server.Stop(context.Background())
		close(stopped)
	}()
	if _, err := w.Recv(); client.FromStatus(status.Convert(err)).Reason != "SHUTTING_DOWN" {
		t.Errorf("the watch ends with %v", err)
	}
	select {
	case <-stopped:
		t.Error("stopped before the commit was answered")
	case <-time.After(20 * time.Millisecond):
	}
	close(finish)
	if err := <-committed; err != nil {
		t.Errorf("the commit in flight: %v", err)
	}
	<-stopped
}

func TestStopCutsOffWhatTakesTooLong(t *testing.T) {
	begun, ended := make(chan struct{}), make(chan struct{})
	c := dialFake(t, &fake{begin: func(ctx context.Context, _ coordinator.BeginRequest) (coordinator.Begun, error) {
		close(begun)
		<-ctx.Done()
		close(ended)
		return coordinator.Begun{}, ctx.Err()
	}})
	answered := make(chan error, 1)
	go func() {
		_, err := c.Begin(context.WithoutCancel(t.Context()), &pb.BeginRequest{})
		answered <- err
	}()
	<-begun
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	c.server.Stop(ctx)
	select {
	case <-ended:
	default:
		t.Error("Stop returned before the call ended")
	}
	if err := <-answered; !errors.Is(client.FromStatus(status.Convert(err)), client.ErrUnavailable) {
		t.Errorf("the call that was cut off: %v", err)
	}
}

func TestHealthAndReflection(t *testing.T) {
	c := dialFake(t, &fake{})
	h := healthpb.NewHealthClient(c.conn)
	for _, name := range []string{"", "txcoord.v1.TransactionService", "txcoord.v1.TableService", "txcoord.v1.SnapshotService", "txcoord.v1.StatusService"} {
		got, err := h.Check(t.Context(), &healthpb.HealthCheckRequest{Service: name})
		if err != nil || got.GetStatus() != healthpb.HealthCheckResponse_SERVING {
			t.Errorf("%q: %v, %v", name, got, err)
		}
	}
	services := reflected(t, c.conn)
	if !strings.Contains(services, "txcoord.v1.TransactionService") {
		t.Errorf("reflection lists %s", services)
	}
}

func reflected(t *testing.T, conn grpc.ClientConnInterface) string {
	t.Helper()
	s, err := reflectpb.NewServerReflectionClient(conn).ServerReflectionInfo(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Send(&reflectpb.ServerReflectionRequest{MessageRequest: &reflectpb.ServerReflectionRequest_ListServices{}}); err != nil {
		t.Fatal(err)
	}
	a, err := s.Recv()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.CloseSend(); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Recv(); !errors.Is(err, io.EOF) {
		t.Fatal(err)
	}
	return a.String()
}
