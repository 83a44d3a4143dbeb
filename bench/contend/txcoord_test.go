package contend_test

import (
	"context"
	"errors"
	"net"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/txcoord/txcoord/bench/contend"
	"github.com/txcoord/txcoord/e2e/checker"
	txcoordv1 "github.com/txcoord/txcoord/proto/txcoord/v1"
	"github.com/txcoord/txcoord/twophase"
)

// serveVariable makes the test binary a server that listens on the address in it:
// the server that the tests of this file start and kill.
const serveVariable = "TXCOORD_BENCH_TEST_SERVER"

func TestMain(m *testing.M) {
	if address := os.Getenv(serveVariable); address != "" {
		os.Exit(serve(address))
	}
	os.Exit(m.Run())
}

func serve(address string) int {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return 1
	}
	s := grpc.NewServer()
	f := &fake{}
	txcoordv1.RegisterTransactionServiceServer(s, f)
	txcoordv1.RegisterTableServiceServer(s, f)
	txcoordv1.RegisterStatusServiceServer(s, f)
	end := make(chan os.Signal, 1)
	signal.Notify(end, syscall.SIGTERM)
	go func() { <-end; s.GracefulStop() }()
	if s.Serve(l) != nil {
		return 1
	}
	return 0
}

// fake answers as a server would, and does nothing: odd numbers of writer 1 are
// aborted, those of writer 2 refused for another reason, writer 3 waits for ever.
type fake struct {
	txcoordv1.UnimplementedTransactionServiceServer
	txcoordv1.UnimplementedTableServiceServer
	txcoordv1.UnimplementedStatusServiceServer
	mu         sync.Mutex
	asked      int
	registered int
}

func (f *fake) GetStatus(context.Context, *txcoordv1.GetStatusRequest) (*txcoordv1.GetStatusResponse, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asked++
	// The manifests lag at first.
	return &txcoordv1.GetStatusResponse{CatalogId: "fake", LatestSnapshot: 5, ManifestSnapshot: uint64(min(f.asked, 5))}, nil
}

func (f *fake) RegisterTable(_ context.Context, r *txcoordv1.RegisterTableRequest) (*txcoordv1.RegisterTableResponse, error) {
	if r.GetMode() != txcoordv1.TableMode_TABLE_MODE_EXCLUSIVE || !strings.HasPrefix(r.GetUri(), "/") {
		return nil, status.Error(codes.InvalidArgument, "mode or URI")
	}
	return &txcoordv1.RegisterTableResponse{}, nil
}

func (f *fake) CommitOnce(ctx context.Context, r *txcoordv1.CommitOnceRequest) (*txcoordv1.CommitOnceResponse, error) {
	switch {
	case strings.HasPrefix(r.GetKey(), "w1-"):
		return nil, refusal(codes.Aborted, "CONFLICT")
	case strings.HasPrefix(r.GetKey(), "w2-"):
		return nil, refusal(codes.FailedPrecondition, "TABLE_FROZEN")
	case strings.HasPrefix(r.GetKey(), "w3-"):
		<-ctx.Done()
		return nil, ctx.Err()
	}
	c := &txcoordv1.CommittedOutcome{SnapshotVersion: 4}
	states := []txcoordv1.DeliveryState{
		txcoordv1.DeliveryState_DELIVERY_STATE_PUBLISHED, txcoordv1.DeliveryState_DELIVERY_STATE_DIVERGED, txcoordv1.DeliveryState_DELIVERY_STATE_PENDING,
	}
	for i, t := range r.GetTables() {
		c.Tables = append(c.Tables, &txcoordv1.TableDelivery{Table: t.GetTable(), State: states[i], Version: 7})
	}
	return &txcoordv1.CommitOnceResponse{Outcome: &txcoordv1.Outcome{
		TransactionId: idOf(r.GetKey()), State: &txcoordv1.Outcome_Committed{Committed: c},
	}}, nil
}

func idOf(key string) string { return twophase.DeriveTxnID("fake", key, 1).String() }

func refusal(c codes.Code, reason string) error {
	s, err := status.New(c, "no").WithDetails(&errdetails.ErrorInfo{Domain: "txcoord", Reason: reason})
	if err != nil {
		return err
	}
	return s.Err()
}

func openFake(t *testing.T) contend.Server {
	t.Helper()
	c := contend.Txcoord{
		Label: "txcoord", Objects: objects, Mode: txcoordv1.TableMode_TABLE_MODE_EXCLUSIVE,
		Launch: func(dir string) (contend.Running, error) {
			return contend.NewProcess("/usr/bin/env", dir, func(address string) []string {
				return []string{serveVariable + "=" + address, os.Args[0]}
			})
		},
	}
	s, err := c.OpenServer(t.Context(), t.TempDir(), 3)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func TestTxcoordBooksWhatTheServerSaid(t *testing.T) {
	s := openFake(t)
	done := contend.Work{Number: 1, Tables: []int{0, 1, 2}}
	if err := s.Commit(t.Context(), done); err != nil {
		t.Fatal(err)
	}
	lost := contend.Work{Writer: 1, Number: 1, Tables: []int{0}}
	if err := s.Commit(t.Context(), lost); !errors.Is(err, contend.ErrAborted) {
		t.Errorf("got %v, want ErrAborted", err)
	}
	odd := contend.Work{Writer: 2, Number: 1, Tables: []int{1}}
	if err := s.Commit(t.Context(), odd); err == nil || errors.Is(err, contend.ErrAborted) {
		t.Errorf("got %v, want an error that is not final", err)
	}
	if err := s.Settle(t.Context()); err != nil {
		t.Error(err)
	}
	books := s.Books()
	want := []checker.Transaction{{ID: idOf("w0-1"), Snapshot: 4, Parts: []checker.Part{
		{Table: "t000", Adds: []string{done.Path()}, Version: 7, Place: new(int)},
		{Table: "t001", Adds: []string{done.Path()}, NotApplied: true},
		{Table: "t002", Adds: []string{done.Path()}, Pending: true},
	}}}
	if d := cmp.Diff(want, books.Committed); d != "" {
		t.Error(d)
	}
	want = []checker.Transaction{{ID: idOf("w1-1"), Parts: []checker.Part{{Table: "t000", Adds: []string{lost.Path()}}}}}
	if d := cmp.Diff(want, books.Refused); d != "" {
		t.Error(d)
	}
	want = []checker.Transaction{{ID: idOf("w2-1"), Parts: []checker.Part{{Table: "t001", Adds: []string{odd.Path()}}}}}
	if d := cmp.Diff(want, books.Unresolved); d != "" {
		t.Error(d)
	}
}

func TestTxcoordSurvivesAKill(t *testing.T) {
	s := openFake(t)
	if err := s.Kill(); err != nil {
		t.Fatal(err)
	}
	if s.Kill() == nil {
		t.Error("a server that is gone was killed again")
	}
	answered := make(chan error)
	go func() { answered <- s.Commit(context.Background(), contend.Work{Tables: []int{0}}) }()
	select {
	case err := <-answered:
		t.Fatalf("answered %v without a server", err)
	case <-time.After(100 * time.Millisecond):
	}
	if err := s.Start(); err != nil {
		t.Fatal(err)
	}
	if err := s.Serving(t.Context()); err != nil {
		t.Error(err)
	}
	if err := <-answered; err != nil {
		t.Error(err)
	}
}

func TestAServerThatEndsByItselfIsNoticed(t *testing.T) {
	p, err := contend.NewProcess("/bin/sh", t.TempDir(), func(string) []string { return []string{"-c", "echo out of paper; exit 3"} })
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	time.Sleep(200 * time.Millisecond)
	if err := p.Stop(); err == nil || !strings.Contains(err.Error(), "out of paper") {
		t.Errorf("got %v, want an error with the end of the log", err)
	}
	if _, err := (contend.Txcoord{Objects: objects, Launch: func(string) (contend.Running, error) {
		return nil, errors.New("no binary")
	}}).Open(t.Context(), t.TempDir(), 1); err == nil {
		t.Error("opened without a server")
	}
}
