package client_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"
	"google.golang.org/protobuf/protoadapt"
	"google.golang.org/protobuf/types/known/timestamppb"

	client "github.com/txcoord/txcoord/clients/go"
	txcoordv1 "github.com/txcoord/txcoord/proto/txcoord/v1"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// server is a coordinator in a few lines: it keeps outcomes by id, so that a
// repeated call is seen to be one. on* functions, where set, come first and may
// answer with an error before or after the call is carried out.
type server struct {
	txcoordv1.UnimplementedTransactionServiceServer
	txcoordv1.UnimplementedSnapshotServiceServer

	mu       sync.Mutex
	outcomes map[string]*txcoordv1.Outcome
	digests  map[string]string // of the commit, by id
	snapshot uint64
	calls    []string
	requests []any
	streamed []byte

	// onCall is asked before a call is carried out; n counts calls of that name, from 1.
	onCall func(name string, n int) error
	// onAnswer is asked after; an error is a lost reply.
	onAnswer func(name string, n int) error
	watch    func(*txcoordv1.WatchSnapshotsRequest, grpc.ServerStreamingServer[txcoordv1.WatchSnapshotsResponse]) error
}

// start serves and returns a client of it.
func start(t *testing.T, s *server, o client.Options) *client.Client {
	t.Helper()
	s.outcomes, s.digests = map[string]*txcoordv1.Outcome{}, map[string]string{}
	lis := bufconn.Listen(1 << 20)
	g := grpc.NewServer(grpc.UnaryInterceptor(s.intercept))
	txcoordv1.RegisterTransactionServiceServer(g, s)
	txcoordv1.RegisterSnapshotServiceServer(g, s)
	served := make(chan error, 1)
	go func() { served <- g.Serve(lis) }()
	o.DialOptions = append(o.DialOptions, grpc.WithContextDialer(
		func(ctx context.Context, _ string) (net.Conn, error) { return lis.DialContext(ctx) }))
	c, err := client.Dial("passthrough:///fake", o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		g.Stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return c
}

func (s *server) intercept(
	ctx context.Context, req any, info *grpc.UnaryServerInfo, handle grpc.UnaryHandler,
) (any, error) {
	name := info.FullMethod[len("/txcoord.v1.TransactionService/"):]
	n := s.note(name, req)
	if s.onCall != nil {
		if err := s.onCall(name, n); err != nil {
			return nil, err
		}
	}
	answer, err := handle(ctx, req)
	if err == nil && s.onAnswer != nil {
		err = s.onAnswer(name, n)
	}
	return answer, err
}

// note records a call and says how many of its name there were.
func (s *server) note(name string, req any) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls, s.requests = append(s.calls, name), append(s.requests, req)
	n := 0
	for _, c := range s.calls {
		if c == name {
			n++
		}
	}
	return n
}

// count says how many calls of a name there were.
func (s *server) count(name string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for _, c := range s.calls {
		if c == name {
			n++
		}
	}
	return n
}

func txnID(key string, attempt uint32) string { return fmt.Sprintf("%s/%d", key, attempt) }

func (s *server) Begin(_ context.Context, r *txcoordv1.BeginRequest) (*txcoordv1.BeginResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	id := r.GetToken()
	if id == "" {
		id = txnID(r.GetKey(), r.GetAttempt())
	}
	a := &txcoordv1.BeginResponse{
		LatestSnapshot: s.snapshot, Token: id, TransactionId: id, Attempt: r.GetAttempt(),
		Deadline: timestamppb.New(time.Unix(1000, 0).Add(r.GetTtl().AsDuration())),
	}
	for n := uint32(1); ; n++ {
		o, ok := s.outcomes[txnID(r.GetKey(), n)]
		if !ok {
			return a, nil
		}
		a.Known = append(a.Known, o)
	}
}

func (s *server) Stage(_ context.Context, r *txcoordv1.StageRequest) (*txcoordv1.StageResponse, error) {
	return &txcoordv1.StageResponse{Part: staged(r.GetTable(), r.GetActions())}, nil
}

func staged(table string, actions []byte) *txcoordv1.StagedPart {
	return &txcoordv1.StagedPart{
		Digest: fmt.Sprintf("%x", sha256.Sum256(actions)), TableId: "id of " + table, Bytes: uint64(len(actions)),
	}
}

func (s *server) StageStream(
	in grpc.ClientStreamingServer[txcoordv1.StageStreamRequest, txcoordv1.StageStreamResponse],
) error {
	first, err := in.Recv()
	if err != nil {
		return err
	}
	n := s.note("StageStream", first)
	var all []byte
	for {
		m, err := in.Recv()
		if errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return err
		}
		if len(m.GetChunk()) > 1<<20 {
			return status.Error(codes.InvalidArgument, "chunk too large")
		}
		all = append(all, m.GetChunk()...)
		if s.onCall != nil {
			if err := s.onCall("StageStream", n); err != nil {
				return err
			}
		}
	}
	s.mu.Lock()
	s.streamed = all
	s.mu.Unlock()
	return in.SendAndClose(&txcoordv1.StageStreamResponse{Part: staged(first.GetHeader().GetTable(), all)})
}

// Commit is the first to decide, or says what was decided.
func (s *server) Commit(_ context.Context, r *txcoordv1.CommitRequest) (*txcoordv1.CommitResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	id, digests := r.GetToken(), fmt.Sprint(r.GetTables())
	switch o, ok := s.outcomes[id]; {
	case ok && o.GetAborted() != nil:
		return nil, fail(codes.Aborted, "CONFLICT", o.GetAborted().GetConflict())
	case ok && s.digests[id] != digests:
		return nil, fail(codes.AlreadyExists, "OTHER_DIGESTS", &txcoordv1.TransactionDetail{TransactionId: id})
	case !ok:
		s.commit(id, digests)
	}
	return &txcoordv1.CommitResponse{LatestSnapshot: s.snapshot, Outcome: s.outcomes[id]}, nil
}

func (s *server) commit(id, digests string) {
	s.snapshot++
	s.digests[id] = digests
	s.outcomes[id] = &txcoordv1.Outcome{TransactionId: id, State: &txcoordv1.Outcome_Committed{
		Committed: &txcoordv1.CommittedOutcome{SnapshotVersion: s.snapshot},
	}}
}

// abort records an abort, as a conflict at commit does.
func (s *server) abort(id string, attempt uint32, rule txcoordv1.Rule) *txcoordv1.ConflictDetail {
	s.mu.Lock()
	defer s.mu.Unlock()
	d := &txcoordv1.ConflictDetail{Rule: rule, Table: "orders", Version: 7, TransactionId: id}
	s.outcomes[id] = &txcoordv1.Outcome{TransactionId: id, Attempt: attempt, State: &txcoordv1.Outcome_Aborted{
		Aborted: &txcoordv1.AbortedOutcome{Conflict: d},
	}}
	return d
}

func (s *server) Abort(_ context.Context, r *txcoordv1.AbortRequest) (*txcoordv1.AbortResponse, error) {
	s.mu.Lock()
	_, decided := s.outcomes[r.GetToken()]
	s.mu.Unlock()
	if !decided {
		s.abort(r.GetToken(), 0, txcoordv1.Rule_RULE_CLIENT)
	}
	return &txcoordv1.AbortResponse{Outcome: s.outcomes[r.GetToken()]}, nil
}

func (s *server) GetOutcome(
	_ context.Context, r *txcoordv1.GetOutcomeRequest,
) (*txcoordv1.GetOutcomeResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	id := r.GetToken()
	if id == "" {
		id = txnID(r.GetKey(), 1)
	}
	o, ok := s.outcomes[id]
	if !ok {
		return nil, fail(codes.NotFound, "TRANSACTION_NOT_FOUND")
	}
	return &txcoordv1.GetOutcomeResponse{Outcome: o}, nil
}

func (s *server) CommitOnce(
	_ context.Context, r *txcoordv1.CommitOnceRequest,
) (*txcoordv1.CommitOnceResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	id := txnID(r.GetKey(), max(1, r.GetAttempt()))
	if _, ok := s.outcomes[id]; !ok {
		s.commit(id, "")
	}
	return &txcoordv1.CommitOnceResponse{Outcome: s.outcomes[id], Token: id}, nil
}

func (s *server) WatchSnapshots(
	r *txcoordv1.WatchSnapshotsRequest, out grpc.ServerStreamingServer[txcoordv1.WatchSnapshotsResponse],
) error {
	s.note("WatchSnapshots", r)
	return s.watch(r, out)
}

// fail makes the error that a server makes.
func fail(c codes.Code, reason string, details ...protoadapt.MessageV1) error {
	all := append([]protoadapt.MessageV1{&errdetails.ErrorInfo{Domain: "txcoord", Reason: reason}}, details...)
	s, err := status.New(c, "told by the test").WithDetails(all...)
	if err != nil {
		panic(err)
	}
	return s.Err()
}
