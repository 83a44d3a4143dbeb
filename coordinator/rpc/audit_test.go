package rpc_test

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"

	client "github.com/txcoord/txcoord/clients/go"
	"github.com/txcoord/txcoord/coordinator"
	"github.com/txcoord/txcoord/coordinator/rpc"
	pb "github.com/txcoord/txcoord/proto/txcoord/v1"
	"github.com/txcoord/txcoord/twophase"
)

// auditLog is one whose lines come as they are written.
type auditLog chan []byte

func (l auditLog) Write(line []byte) (int, error) {
	l <- bytes.Clone(line)
	return len(line), nil
}

func (l auditLog) logger() *slog.Logger { return slog.New(slog.NewJSONHandler(l, nil)) }

// auditLine is what a line says, but for when, from where and how long.
type auditLine struct {
	Principal, Method, Catalog, About, Code, Reason, Detail string
	Asked                                                   []string
}

// next is the next line, which there has to be.
func (l auditLog) next(t *testing.T) (out auditLine) {
	t.Helper()
	line := <-l
	if err := json.Unmarshal(line, &out); err != nil {
		t.Fatalf("%v: %s", err, line)
	}
	if bytes.Contains(line, []byte(":null")) {
		t.Errorf("something is null: %s", line)
	}
	out.Method = out.Method[strings.LastIndex(out.Method, "/")+1:]
	return out
}

// What keeps files, or says what a table or a snapshot is, is in the audit log with what it
// is about, whether it is granted or not.
func TestAuditSaysWhatCallsAreAbout(t *testing.T) {
	t.Parallel()
	a, tokens := accessFile(t)
	log, f := make(auditLog, 10), inAndOut()
	f.lease = func(q coordinator.LeaseRequest, _ bool) (coordinator.Lease, []string, error) {
		return coordinator.Lease{ID: "l-1", Snapshot: 3, Note: q.Note, Until: at}, nil, nil
	}
	c := dial(t, rpc.Config{Catalogs: map[string]rpc.Catalog{"default": f}, Access: a, Audit: log.logger()})
	until := at.UTC().Format("2006-01-02T15:04:05Z07:00")
	for _, call := range []struct {
		who  string
		do   func(ctx context.Context)
		want auditLine
	}{
		{"root", func(ctx context.Context) {
			_, _ = c.LeaseSnapshot(ctx, &pb.LeaseSnapshotRequest{Note: "nightly"})
		}, auditLine{Method: "LeaseSnapshot", Asked: []string{"read:*"}, About: "lease l-1 of snapshot 3 until " + until + ": nightly"}},
		{"full", func(ctx context.Context) {
			_, _ = c.LeaseSnapshot(ctx, &pb.LeaseSnapshotRequest{LeaseId: "mine", SnapshotVersion: 2, Note: "nightly"})
		}, auditLine{Method: "LeaseSnapshot", Asked: []string{"read:*"}, About: "lease mine of snapshot 2: nightly", Code: "PermissionDenied"}},
		{"root", func(ctx context.Context) {
			_, _ = c.RenewLease(ctx, &pb.RenewLeaseRequest{LeaseId: "l-1"})
		}, auditLine{Method: "RenewLease", Asked: []string{"read:*"}, About: "lease l-1 of snapshot 3 until " + until}},
		{"root", func(ctx context.Context) {
			_, _ = c.DeleteLease(ctx, &pb.DeleteLeaseRequest{LeaseId: "l-1"})
		}, auditLine{Method: "DeleteLease", Asked: []string{"admin:*"}, About: "lease l-1"}},
		{"root", func(ctx context.Context) {
			_, _ = c.TagSnapshot(ctx, &pb.TagSnapshotRequest{Tag: "golden", SnapshotVersion: 7})
		}, auditLine{Method: "TagSnapshot", Asked: []string{"admin:*"}, About: "tag golden of snapshot 7"}},
		{"full", func(ctx context.Context) {
			_, _ = c.TagSnapshot(ctx, &pb.TagSnapshotRequest{Tag: "golden"})
		}, auditLine{Method: "TagSnapshot", Asked: []string{"admin:*"}, About: "tag golden, taken away", Code: "PermissionDenied"}},
		{"full", func(ctx context.Context) {
			_, _ = c.RegisterTable(ctx, &pb.RegisterTableRequest{Name: "in", Uri: "/w/in", Mode: pb.TableMode_TABLE_MODE_EXCLUSIVE, TakeOver: true})
		}, auditLine{Method: "RegisterTable", Asked: []string{"ddl:in"}, About: "mode exclusive, taken over"}},
		{"read", func(ctx context.Context) {
			_, _ = c.CreateTable(ctx, &pb.CreateTableRequest{Name: "in", Uri: "/w/in", SchemaJson: "{}"})
		}, auditLine{Method: "CreateTable", Asked: []string{"ddl:in"}, About: "mode open", Code: "PermissionDenied"}},
		{"full", func(ctx context.Context) {
			_, _ = c.SetTableMode(ctx, &pb.SetTableModeRequest{Table: "in", Mode: pb.TableMode_TABLE_MODE_FENCED})
		}, auditLine{Method: "SetTableMode", Asked: []string{"fence:in"}, About: "mode fenced"}},
		{"nobody", func(ctx context.Context) {
			_, _ = c.GetStatus(ctx, &pb.GetStatusRequest{})
		}, auditLine{Method: "GetStatus", Asked: []string{}, Code: "PermissionDenied"}},
	} {
		call.do(as(t.Context(), tokens[call.who]))
		log.wants(t, call.who, call.want)
	}
}

// Of an operator's call it says what was chosen, and whether it only looked.
func TestAuditSaysWhatOperatorsDid(t *testing.T) {
	t.Parallel()
	a, tokens := accessFile(t)
	log, f := make(auditLog, 10), inAndOut()
	f.restore = func(coordinator.RestoreRequest) (coordinator.RestoreReport, error) {
		return coordinator.RestoreReport{Count: 3}, nil
	}
	f.maintain = func(coordinator.MaintainRequest) (coordinator.MaintainReport, error) {
		return coordinator.MaintainReport{
			Checkpoint: coordinator.CheckpointReport{Written: true}, CleanUp: coordinator.CleanUpReport{Commits: 4, Checkpoints: 1, Sidecars: 2, Others: 1},
			Payloads: coordinator.PayloadReport{Parts: 5},
		}, nil
	}
	garbage := coordinator.GarbageReport{}
	f.garbage = func(coordinator.GarbageRequest) (coordinator.GarbageReport, error) { return garbage, nil }
	f.fence = func(coordinator.FenceRequest) (coordinator.TableInfo, error) { return coordinator.TableInfo{}, nil }
	c := dial(t, rpc.Config{Catalogs: map[string]rpc.Catalog{"default": f}, Access: a, Audit: log.logger()})
	for _, call := range []struct {
		who  string
		do   func(ctx context.Context)
		want auditLine
	}{
		{"root", func(ctx context.Context) {
			_, _ = c.RestoreGarbage(ctx, &pb.RestoreGarbageRequest{Run: "q-1", DryRun: true})
		}, auditLine{Method: "RestoreGarbage", Asked: []string{"admin:*"}, About: "looked only, quarantine q-1"}},
		{"root", func(ctx context.Context) {
			_, _ = c.RestoreGarbage(ctx, &pb.RestoreGarbageRequest{Run: "q-1"})
		}, auditLine{Method: "RestoreGarbage", Asked: []string{"admin:*"}, About: "put back 3 things, quarantine q-1"}},
		{"full", func(ctx context.Context) {
			_, _ = c.RestoreGarbage(ctx, &pb.RestoreGarbageRequest{Run: "q-1"})
		}, auditLine{Method: "RestoreGarbage", Asked: []string{"admin:*"}, About: "quarantine q-1", Code: "PermissionDenied"}},
		{"root", func(ctx context.Context) {
			_, _ = c.CollectGarbage(ctx, &pb.CollectGarbageRequest{})
		}, auditLine{Method: "CollectGarbage", Asked: []string{"admin:*"}, About: "looked only"}},
		{"root", func(ctx context.Context) {
			_, _ = c.CollectGarbage(ctx, &pb.CollectGarbageRequest{Remove: true})
		}, auditLine{Method: "CollectGarbage", Asked: []string{"admin:*"}, About: "removed 0 things"}},
		{"root", func(ctx context.Context) {
			garbage = coordinator.GarbageReport{Run: "q-2", Totals: []coordinator.GarbageTotal{{Count: 2}, {Count: 1}}}
			_, _ = c.CollectGarbage(ctx, &pb.CollectGarbageRequest{Remove: true})
		}, auditLine{Method: "CollectGarbage", Asked: []string{"admin:*"}, About: "removed 3 things, quarantine q-2"}},
		{"root", func(ctx context.Context) {
			_, _ = c.ResolveTable(ctx, &pb.ResolveTableRequest{Table: "in", Preview: true, GiveUp: true})
		}, auditLine{Method: "ResolveTable", Asked: []string{"admin:in"}, About: "looked only, give up"}},
		{"root", func(ctx context.Context) {
			_, _ = c.ResolveTable(ctx, &pb.ResolveTableRequest{Table: "in", GiveUp: true, Reason: "gone for good"})
		}, auditLine{Method: "ResolveTable", Asked: []string{"admin:in"}, About: "give up: gone for good"}},
		{"read", func(ctx context.Context) {
			_, _ = c.ResolveTable(ctx, &pb.ResolveTableRequest{Table: "in", Reason: "looked"})
		}, auditLine{Method: "ResolveTable", Asked: []string{"admin:in"}, About: "resolve: looked", Code: "PermissionDenied"}},
		{"root", func(ctx context.Context) {
			_, _ = c.MaintainTable(ctx, &pb.MaintainTableRequest{Table: "in", DryRun: true})
		}, auditLine{Method: "MaintainTable", Asked: []string{"admin:in"}, About: "looked only"}},
		{"root", func(ctx context.Context) {
			_, _ = c.MaintainTable(ctx, &pb.MaintainTableRequest{Table: "in"})
		}, auditLine{Method: "MaintainTable", Asked: []string{"admin:in"}, About: "wrote a checkpoint, removed 8 files of the log and 5 staged parts"}},
		{"full", func(ctx context.Context) {
			_, _ = c.FenceTable(ctx, &pb.FenceTableRequest{Table: "in"})
		}, auditLine{Method: "FenceTable", Asked: []string{"fence:in"}}},
		{"full", func(ctx context.Context) {
			_, _ = c.FenceTable(ctx, &pb.FenceTableRequest{Table: "in", NoOlderWriters: true})
		}, auditLine{Method: "FenceTable", Asked: []string{"fence:in"}, About: "no older writers, by the caller's word"}},
	} {
		call.do(as(t.Context(), tokens[call.who]))
		log.wants(t, call.who, call.want)
	}
}

// wants compares the next line with one that is allowed, or refused for who calls.
func (l auditLog) wants(t *testing.T, who string, want auditLine) {
	t.Helper()
	want.Principal, want.Catalog = "token:"+who, "default"
	if want.Code == "" {
		want.Code = "OK"
	} else {
		want.Reason = string(coordinator.PermissionDenied)
	}
	if diff := cmp.Diff(want, l.next(t)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// A request that is not read leaves a line too: nobody knows what it would have asked for.
func TestAuditOfWhatIsNotRead(t *testing.T) {
	t.Parallel()
	a, tokens := accessFile(t)
	log := make(auditLog, 10)
	c := dial(t, rpc.Config{
		Catalogs: map[string]rpc.Catalog{"default": inAndOut()}, Access: a, Audit: log.logger(), Limits: rpc.Limits{MessageBytes: 1 << 20},
	})
	begin := func(body []byte) func(ctx context.Context) {
		return func(ctx context.Context) {
			var none []byte
			_ = c.conn.Invoke(ctx, pb.TransactionService_Begin_FullMethodName, body, &none, grpc.ForceCodec(raw{}))
		}
	}
	stream := func(size int) func(ctx context.Context) {
		return func(ctx context.Context) {
			s, err := c.StageStream(ctx)
			if err != nil {
				t.Error(err)
				return
			}
			header := &pb.StageHeader{Token: strings.Repeat("t", size), Table: "in", Read: client.Blind()}
			_ = s.Send(&pb.StageStreamRequest{Message: &pb.StageStreamRequest_Header{Header: header}})
			_, _ = s.CloseAndRecv()
		}
	}
	const tooLarge = "grpc: received message larger than max (5242880 vs. 4194304)"
	limit, field := string(coordinator.LimitExceeded), string(coordinator.InvalidRequest)
	for _, call := range []struct {
		name, who string
		do        func(ctx context.Context)
		want      auditLine
	}{
		{"above the hard limit", "token:full", begin(make([]byte, 5<<20)), auditLine{Method: "Begin", Code: "ResourceExhausted", Detail: tooLarge}},
		{"above the hard limit, by who is nobody", "unauthenticated", begin(make([]byte, 5<<20)), auditLine{Method: "Begin", Code: "ResourceExhausted", Detail: tooLarge}},
		{"above the limit", "token:full", func(ctx context.Context) {
			_, _ = c.Begin(ctx, &pb.BeginRequest{Key: strings.Repeat("k", 2<<20)})
		}, auditLine{Method: "Begin", Code: "InvalidArgument", Reason: limit}},
		{"no message", "token:full", begin([]byte{0xff}), auditLine{Method: "Begin", Code: "InvalidArgument", Reason: field}},
		{"a stream above the limit", "token:full", stream(2 << 20), auditLine{Method: "StageStream", Code: "InvalidArgument", Reason: limit}},
		{"a stream above the hard limit", "token:full", stream(5 << 20), auditLine{Method: "StageStream", Code: "ResourceExhausted"}},
	} {
		token := "txcoord_x"
		if who, known := strings.CutPrefix(call.who, "token:"); known {
			token = tokens[who]
		}
		call.do(as(t.Context(), token))
		want, got := call.want, log.next(t)
		want.Principal, want.Asked = call.who, []string{}
		if call.name == "a stream above the hard limit" && strings.HasPrefix(got.Detail, "grpc: received message larger than max (") {
			got.Detail = "" // its size is the header's as it is encoded
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", call.name, diff)
		}
	}
	// What is read, and asks for reading only, leaves none.
	if _, err := c.GetStatus(as(t.Context(), tokens["full"]), &pb.GetStatusRequest{}); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Begin(as(t.Context(), tokens["full"]), &pb.BeginRequest{}); err != nil {
		t.Fatal(err)
	}
	if got := log.next(t); got.Method != "Begin" || got.Code != "OK" || len(log) > 0 {
		t.Errorf("%+v, and %d lines more", got, len(log))
	}
}

// The catalog is asked which transaction a call is about that is refused before it is passed on.
func TestRefusedCallsNameTheirTransaction(t *testing.T) {
	t.Parallel()
	a, tokens := accessFile(t)
	f := inAndOut()
	var got []coordinator.OutcomeRef
	f.about = func(_ context.Context, r coordinator.OutcomeRef) { got = append(got, r) }
	c := dial(t, rpc.Config{Catalogs: map[string]rpc.Catalog{"default": f}, Access: a})
	ctx := as(t.Context(), tokens["fence"])
	want := []coordinator.OutcomeRef{
		{Token: "t"}, {Key: "k", Attempt: 2}, {Token: "t"}, {Token: "t"}, {Key: "k", Attempt: 1}, {Token: "t"}, {Txn: id1}, {Token: "t"}, {Key: "k", Attempt: 3},
	}
	_, _ = c.Begin(ctx, &pb.BeginRequest{Token: "t"})
	_, _ = c.Begin(ctx, &pb.BeginRequest{Key: "k", Attempt: 2})
	_, _ = c.Stage(ctx, &pb.StageRequest{Token: "t", Table: "in", Read: client.Blind(), Actions: []byte(addLine)})
	_, _ = c.Commit(ctx, &pb.CommitRequest{Token: "t", Tables: []*pb.TableParts{parts("in", digest)}})
	_, _ = c.CommitOnce(ctx, &pb.CommitOnceRequest{Key: "k", Releases: []string{"in"}})
	_, _ = c.Abort(ctx, &pb.AbortRequest{Transaction: &pb.AbortRequest_Token{Token: "t"}})
	_, _ = c.Abort(ctx, &pb.AbortRequest{Transaction: &pb.AbortRequest_TransactionId{TransactionId: id1.String()}})
	_, _ = c.GetOutcome(ctx, &pb.GetOutcomeRequest{Transaction: &pb.GetOutcomeRequest_Token{Token: "t"}})
	_, _ = c.ExplainTransaction(ctx, &pb.ExplainTransactionRequest{Transaction: &pb.ExplainTransactionRequest_Key{Key: "k"}, Attempt: 3})
	if diff := cmp.Diff(want, got, cmp.Comparer(func(a, b twophase.TxnID) bool { return a == b })); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
