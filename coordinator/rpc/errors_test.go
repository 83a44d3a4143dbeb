package rpc_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/timestamppb"

	client "github.com/txcoord/txcoord/clients/go"
	"github.com/txcoord/txcoord/coordinator"
	"github.com/txcoord/txcoord/coordinator/rpc"
	pb "github.com/txcoord/txcoord/proto/txcoord/v1"
	"github.com/txcoord/txcoord/twophase"
)

// contract reads the table of errors out of the contract's own text: the code in
// front of each reason's comment.
func contract(t *testing.T) map[string]string {
	t.Helper()
	text, err := os.ReadFile("../../proto/txcoord/v1/errors.proto")
	if err != nil {
		t.Fatal(err)
	}
	table := map[string]string{}
	re := regexp.MustCompile(`(?m)^  // ([A-Z_]+): [^\n]*\n(?:  //[^\n]*\n)*  ERROR_REASON_([A-Z_]+) = [1-9]`)
	for _, m := range re.FindAllStringSubmatch(string(text), -1) {
		table[m[2]] = m[1]
	}
	return table
}

// codeName is a code as the contract writes it.
func codeName(c codes.Code) string {
	var b strings.Builder
	for i, r := range c.String() {
		if i > 0 && r >= 'A' && r <= 'Z' {
			b.WriteByte('_')
		}
		b.WriteRune(r)
	}
	return strings.ToUpper(b.String())
}

var (
	id1 = twophase.DeriveTxnID("c", "k", 1)
	id2 = twophase.DeriveTxnID("c", "k", 2)
)

// full is an error with every detail that there is.
func full(r coordinator.Reason) *coordinator.Error {
	return &coordinator.Error{
		Reason: r, Message: "what happened",
		Conflict: &coordinator.ConflictDetail{
			Txn: id1, Attempt: 2, Table: "orders", TableID: "t1", Version: 12, Rule: twophase.RuleDeleteRead,
			Path: "a/b c.parquet", Winner: id2, Detail: "removed",
		},
		Limit: &coordinator.LimitDetail{Name: "key_bytes", Value: 600, Limit: 512},
		Field: &coordinator.FieldDetail{Field: "add.size", Line: 3, Value: "x", Remedy: "give a number", Table: "orders"},
		Frozen: &coordinator.FrozenDetail{
			Table: "orders", TableID: "t1", Cause: twophase.CauseDiverged, Txn: id1, Detail: "foreign commit", Since: at,
		},
		Feature: &coordinator.FeatureDetail{Table: "orders", Feature: "rowTracking"},
		Txn:     &coordinator.TxnDetail{Txn: id2, Key: "k", Attempt: 2},
		Table: &coordinator.TableDetail{
			Table: "orders", TableID: "t1", URI: "file:///data/orders", Version: -1, File: "f", Detail: "gone", OutOfReach: true,
		},
		Owner:      &coordinator.OwnerDetail{URI: "file:///data/orders", Catalog: "c2", Incarnation: "1", Since: at},
		RetryAfter: 3 * time.Second,
		Cause:      errors.New("driver said: secret"),
	}
}

// rebuilt is what a client has to make of full.
func rebuilt(r string, c codes.Code) *client.Error {
	e := &client.Error{
		Code: c, Reason: r, Message: "what happened",
		Conflict: &pb.ConflictDetail{
			TransactionId: id1.String(), Attempt: 2, Table: "orders", TableId: "t1", Version: 12, Rule: pb.Rule_RULE_DELETE_READ,
			Path: "a/b c.parquet", Winner: id2.String(), Detail: "removed",
		},
		Limit: &pb.LimitDetail{Name: "key_bytes", Value: 600, Limit: 512},
		Field: &pb.FieldDetail{Field: "add.size", Line: 3, Value: "x", Remedy: "give a number", Table: "orders"},
		Frozen: &pb.FrozenDetail{
			Table: "orders", TableId: "t1", Cause: pb.FreezeCause_FREEZE_CAUSE_DIVERGED, TransactionId: id1.String(),
			Reason: "foreign commit", Since: timestamppb.New(at),
		},
		Feature:     &pb.FeatureDetail{Table: "orders", Feature: "rowTracking"},
		Transaction: &pb.TransactionDetail{TransactionId: id2.String(), Key: "k", Attempt: 2},
		Table: &pb.TableDetail{
			Table: "orders", TableId: "t1", Uri: "file:///data/orders", Version: -1, File: "f", Reason: "gone", OutOfReach: true,
		},
		Owner: &pb.OwnerDetail{Uri: "file:///data/orders", CatalogId: "c2", Incarnation: "1", Since: timestamppb.New(at)},
	}
	e.RetryAfter = 3 * time.Second
	return e
}

// classes are the values that callers of the client compare with, by code.
var classes = map[codes.Code]error{
	codes.InvalidArgument: client.ErrInvalid, codes.NotFound: client.ErrNotFound, codes.Aborted: client.ErrAborted,
	codes.AlreadyExists: client.ErrAlreadyExists, codes.FailedPrecondition: client.ErrPrecondition,
	codes.OutOfRange: client.ErrOutOfRange, codes.ResourceExhausted: client.ErrExhausted,
	codes.Unavailable: client.ErrUnavailable, codes.DataLoss: client.ErrDataLoss, codes.Internal: client.ErrInternal,
	codes.Unauthenticated: client.ErrUnauthenticated, codes.PermissionDenied: client.ErrDenied,
}

// TestErrorTableBothWays walks every reason of the contract: domain error, status
// on the wire, the client's error value.
func TestErrorTableBothWays(t *testing.T) {
	table := contract(t)
	if want := len(pb.ErrorReason_name) - 1; len(table) != want {
		t.Fatalf("read %d reasons out of errors.proto, there are %d", len(table), want)
	}
	f := &fake{}
	c := client.New(dialFake(t, f).conn, client.Options{RetryFor: -1})
	for reason, code := range table {
		f.status = func() (coordinator.Status, error) {
			return coordinator.Status{}, full(coordinator.Reason(reason))
		}
		_, err := c.Status.GetStatus(t.Context(), &pb.GetStatusRequest{})
		var e *client.Error
		if !errors.As(err, &e) {
			t.Errorf("%s: %v is not the client's error", reason, err)
			continue
		}
		if codeName(e.Code) != code {
			t.Errorf("%s: code %s, the contract says %s", reason, codeName(e.Code), code)
		}
		if !errors.Is(err, classes[e.Code]) {
			t.Errorf("%s: errors.Is does not find the class of %s", reason, e.Code)
		}
		if reason == string(coordinator.BrokenInvariant) {
			continue // TestBrokenInvariantsAreHidden
		}
		want := rebuilt(reason, e.Code)
		if d := cmp.Diff(want, e, protocmp.Transform(), cmp.FilterPath(unexported, cmp.Ignore())); d != "" {
			t.Errorf("%s (-want +got):\n%s", reason, d)
		}
	}
}

func unexported(p cmp.Path) bool {
	f, ok := p.Last().(cmp.StructField)
	return ok && (f.Name() == "status" || f.Name() == "unmet" || f.Name() == "tokenless")
}

// TestEveryReasonIsInTheContract is the way back: no reason of the domain is
// missing on the wire.
func TestEveryReasonIsInTheContract(t *testing.T) {
	src, err := os.ReadFile("../errors.go")
	if err != nil {
		t.Fatal(err)
	}
	table := contract(t)
	found := regexp.MustCompile(`Reason\s+= "([A-Z_]+)"`).FindAllStringSubmatch(string(src), -1)
	if len(found) != len(table) {
		t.Errorf("the domain has %d reasons, the contract %d", len(found), len(table))
	}
	for _, m := range found {
		if _, ok := table[m[1]]; !ok {
			t.Errorf("%s is not in errors.proto", m[1])
		}
	}
}

func TestBrokenInvariantsAreHidden(t *testing.T) {
	var log bytes.Buffer
	f := &fake{}
	c := dial(t, rpc.Config{
		Catalogs: map[string]rpc.Catalog{rpc.DefaultCatalog: f},
		Log:      slog.New(slog.NewTextHandler(&log, nil)),
	})
	for name, fail := range map[string]func() (coordinator.Status, error){
		"unknown error":    func() (coordinator.Status, error) { return coordinator.Status{}, errors.New("secret of the driver") },
		"broken invariant": func() (coordinator.Status, error) { return coordinator.Status{}, full(coordinator.BrokenInvariant) },
		"unknown reason":   func() (coordinator.Status, error) { return coordinator.Status{}, full("NEW_REASON") },
		"panic":            func() (coordinator.Status, error) { panic("secret state") },
	} {
		log.Reset()
		f.status = fail
		_, err := c.GetStatus(t.Context(), &pb.GetStatusRequest{})
		e := client.FromStatus(status.Convert(err))
		if e.Code != codes.Internal || e.Reason != string(coordinator.BrokenInvariant) || e.Conflict != nil {
			t.Errorf("%s: got %+v", name, e)
		}
		if strings.Contains(e.Message, "secret") {
			t.Errorf("%s: %q leaks", name, e.Message)
		}
		id := e.Message[strings.LastIndexByte(e.Message, ' ')+1:]
		if !strings.Contains(log.String(), id) || !strings.Contains(log.String(), "secret") {
			t.Errorf("%s: the log lacks the id %s or the detail:\n%s", name, id, &log)
		}
	}
}

func TestEndedContexts(t *testing.T) {
	f := &fake{status: func() (coordinator.Status, error) { return coordinator.Status{}, context.DeadlineExceeded }}
	c := dialFake(t, f)
	_, err := c.GetStatus(t.Context(), &pb.GetStatusRequest{})
	if e := client.FromStatus(status.Convert(err)); e.Code != codes.Unavailable || e.Reason != "OUTCOME_UNKNOWN" {
		t.Errorf("given up inside, while the caller waits: %+v", e)
	}
	entered := make(chan error, 16)
	f.begin = func(ctx context.Context, _ coordinator.BeginRequest) (coordinator.Begun, error) {
		<-ctx.Done()
		entered <- ctx.Err()
		return coordinator.Begun{}, ctx.Err()
	}
	// A deadline that is too short for this machine passes before the call arrives.
	for limit := 20 * time.Millisecond; ; limit *= 2 {
		ctx, cancel := context.WithTimeout(t.Context(), limit)
		_, err = c.Begin(ctx, &pb.BeginRequest{})
		cancel()
		if status.Code(err) != codes.DeadlineExceeded {
			t.Errorf("the caller's deadline: %v", err)
		}
		select {
		case err := <-entered:
			if err == nil {
				t.Error("the catalog did not see the deadline")
			}
			return
		case <-time.After(limit):
		}
		if limit > time.Minute {
			t.Fatal("no call arrives before its deadline")
		}
	}
}

// TestStatusesFitATrailer: some clients refuse metadata above 8 KiB.
func TestStatusesFitATrailer(t *testing.T) {
	long := strings.Repeat("ü", 4000) + "\xff"
	e := full(coordinator.Conflicted)
	*e = coordinator.Error{Reason: e.Reason, Message: long, Conflict: e.Conflict}
	e.Conflict.Path, e.Conflict.Detail, e.Conflict.Table = long, long, "orders"
	f := &fake{status: func() (coordinator.Status, error) { return coordinator.Status{}, e }}
	_, err := dialFake(t, f).GetStatus(t.Context(), &pb.GetStatusRequest{})
	st := status.Convert(err)
	c := client.FromStatus(st)
	if c.Reason != "CONFLICT" || len(c.Conflict.GetPath()) > 1024 || len(c.Conflict.GetPath()) < 1020 {
		t.Errorf("path of %d bytes in %s", len(c.Conflict.GetPath()), c.Reason)
	}
	if n := proto.Size(st.Proto())*4/3 + 3*len(st.Message()); n > 8<<10 {
		t.Errorf("the trailer has %d bytes", n)
	}
}
