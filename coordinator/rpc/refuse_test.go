package rpc_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	client "github.com/txcoord/txcoord/clients/go"
	pb "github.com/txcoord/txcoord/proto/txcoord/v1"
)

var (
	digest = strings.Repeat("ab", 32)
	whole  = client.AtVersion(3, client.WholeTable())
)

func parts(table string, digests ...string) *pb.TableParts {
	return &pb.TableParts{Table: table, Digests: digests}
}

func once(table string, read *pb.ReadDeclaration) *pb.CommitOnceRequest {
	return &pb.CommitOnceRequest{Key: "k", Tables: []*pb.OnceTable{{Table: table, Read: read}}}
}

func readOf(r *pb.ReadDeclaration) *pb.StageRequest {
	return &pb.StageRequest{Token: "t", Table: "orders", Read: r}
}

// newer gives a message a field that only a newer contract has.
func newer[M proto.Message](m M) M {
	m.ProtoReflect().SetUnknown(protowire.AppendString(protowire.AppendTag(nil, 99, protowire.BytesType), "new"))
	return m
}

// TestRequestsThatAreRefused: each names the field (or the limit), and nothing
// reaches the catalog, whose every method would panic.
func TestRequestsThatAreRefused(t *testing.T) {
	c := dialFake(t, &fake{})
	for name, r := range map[string]struct {
		request proto.Message
		field   string
	}{
		"begin: token and key":      {&pb.BeginRequest{Token: "t", Key: "k"}, "key"},
		"begin: token and attempt":  {&pb.BeginRequest{Token: "t", Attempt: 2}, "attempt"},
		"begin: attempt, no key":    {&pb.BeginRequest{Attempt: 2}, "attempt"},
		"begin: negative ttl":       {&pb.BeginRequest{Ttl: durationpb.New(-time.Second)}, "ttl"},
		"begin: impossible ttl":     {&pb.BeginRequest{Ttl: &durationpb.Duration{Seconds: 1, Nanos: -1}}, "ttl"},
		"stage: no token":           {&pb.StageRequest{Table: "orders", Read: client.Blind()}, "token"},
		"stage: no table":           {&pb.StageRequest{Token: "t", Read: client.Blind()}, "table"},
		"stage: no read":            {readOf(nil), "read"},
		"stage: a table nowhere":    {&pb.StageRequest{Token: "t", Table: "n", Create: &pb.NewTable{SchemaJson: "{}"}}, "create.uri"},
		"stage: a table of nothing": {&pb.StageRequest{Token: "t", Table: "n", Create: &pb.NewTable{Uri: "/x"}}, "create.schema_json"},
		"stage: an unknown mode":    {&pb.StageRequest{Token: "t", Table: "n", Create: &pb.NewTable{Uri: "/x", SchemaJson: "{}", Mode: 99}}, "mode"},
		"stage: alters nothing":     {&pb.StageRequest{Token: "t", Table: "n", Alter: &pb.TableAlteration{}}, "alter"},
		"stage: a nameless column":  {&pb.StageRequest{Token: "t", Table: "n", Alter: &pb.TableAlteration{AddColumns: []*pb.NewColumn{{Type: "int"}}}}, "alter.add_columns[0].name"},
		"commit: released twice":    {&pb.CommitRequest{Token: "t", Releases: []string{"a", "a"}}, "releases[1]"},
		"read: no point":            {readOf(&pb.ReadDeclaration{}), "read.point"},
		"read: blind is false":      {readOf(&pb.ReadDeclaration{Point: &pb.ReadDeclaration_Blind{}}), "read.blind"},
		"read: blind with read set": {readOf(&pb.ReadDeclaration{Point: &pb.ReadDeclaration_Blind{Blind: true}, ReadSet: client.WholeTable()}), "read.read_set"},
		"read: blind with apps":     {readOf(&pb.ReadDeclaration{Point: &pb.ReadDeclaration_Blind{Blind: true}, Apps: []string{"a"}}), "read.apps"},
		"read: empty app":           {readOf(&pb.ReadDeclaration{Point: &pb.ReadDeclaration_Version{}, Apps: []string{"a", ""}}), "read.apps[1]"},
		"read: negative version":    {readOf(client.AtVersion(-1, nil)), "read.version"},
		"read: snapshot 0":          {readOf(client.AtSnapshot(0, nil)), "read.snapshot_version"},
		"read: isolation":           {readOf(&pb.ReadDeclaration{Point: &pb.ReadDeclaration_Version{}, Isolation: 9}), "read.isolation"},
		"read: whole is false":      {readOf(client.AtVersion(1, &pb.ReadSet{What: &pb.ReadSet_WholeTable{}})), "read.read_set.whole_table"},
		"read: no files":            {readOf(client.AtVersion(1, client.Files())), "read.read_set.files.paths"},
		"read: empty path":          {readOf(client.AtVersion(1, client.Files("a", ""))), "read.read_set.files.paths[1]"},
		"read: no match":            {readOf(client.AtVersion(1, client.Partitions())), "read.read_set.partitions.any_of"},
		"read: too many matches":    {readOf(client.AtVersion(1, client.Partitions(make([]client.Partition, 10_001)...))), "read_matches"},
		"read: no condition":        {readOf(client.AtVersion(1, client.Partitions(client.Partition{}))), "read.read_set.partitions.any_of[0].all_of"},
		"read: no column":           {readOf(client.AtVersion(1, client.Partitions(client.Partition{"": nil}))), "read.read_set.partitions.any_of[0].all_of[0].column"},
		"read: column twice": {readOf(client.AtVersion(1, &pb.ReadSet{What: &pb.ReadSet_Partitions{
			Partitions: &pb.PartitionPredicate{AnyOf: []*pb.PartitionMatch{{AllOf: []*pb.PartitionCondition{
				{Column: "day"}, {Column: "day"},
			}}}},
		}})), "read.read_set.partitions.any_of[0].all_of[1].column"},
		"read: unknown kind of read set": {readOf(client.AtVersion(1, newer(&pb.ReadSet{}))), "read.read_set"},
		"commit: no token":               {&pb.CommitRequest{Tables: []*pb.TableParts{parts("a", digest)}}, "token"},
		"commit: no table":               {&pb.CommitRequest{Token: "t"}, "tables"},
		"commit: unnamed table":          {&pb.CommitRequest{Token: "t", Tables: []*pb.TableParts{parts("", digest)}}, "tables[0].table"},
		"commit: table twice":            {&pb.CommitRequest{Token: "t", Tables: []*pb.TableParts{parts("a", digest), parts("a", digest)}}, "tables[1].table"},
		"commit: no digest":              {&pb.CommitRequest{Token: "t", Tables: []*pb.TableParts{parts("a")}}, "tables[0].digests"},
		"commit: wrong digest":           {&pb.CommitRequest{Token: "t", Tables: []*pb.TableParts{parts("a", digest[1:])}}, "tables[0].digests[0]"},
		"commit: digest twice":           {&pb.CommitRequest{Token: "t", Tables: []*pb.TableParts{parts("a", digest, digest)}}, "tables[0].digests[1]"},
		"commit: wait":                   {&pb.CommitRequest{Token: "t", Tables: []*pb.TableParts{parts("a", digest)}, Wait: 9}, "wait"},
		"commit: wait limit 0":           {&pb.CommitRequest{Token: "t", Tables: []*pb.TableParts{parts("a", digest)}, WaitLimit: &durationpb.Duration{}}, "wait_limit"},
		"commit: negative limit":         {&pb.CommitRequest{Token: "t", Tables: []*pb.TableParts{parts("a", digest)}, WaitLimit: durationpb.New(-1)}, "wait_limit"},
		"commit: written and read":       {&pb.CommitRequest{Token: "t", Tables: []*pb.TableParts{parts("a", digest)}, Reads: []*pb.ReadParticipant{{Table: "a", Read: whole}}}, "reads[0].table"},
		"commit: blind read":             {&pb.CommitRequest{Token: "t", Tables: []*pb.TableParts{parts("a", digest)}, Reads: []*pb.ReadParticipant{{Table: "b", Read: client.Blind()}}}, "reads[0].read"},
		"commit: read of nothing":        {&pb.CommitRequest{Token: "t", Tables: []*pb.TableParts{parts("a", digest)}, Reads: []*pb.ReadParticipant{{Table: "b", Read: client.AtVersion(1, nil)}}}, "reads[0].read"},
		"once: no key":                   {&pb.CommitOnceRequest{Tables: []*pb.OnceTable{{Table: "a", Read: client.Blind()}}}, "key"},
		"once: no table":                 {&pb.CommitOnceRequest{Key: "k"}, "tables"},
		"once: unnamed table":            {once("", client.Blind()), "tables[0].table"},
		"once: no read":                  {once("a", nil), "tables[0].read"},
		"abort: nothing named":           {&pb.AbortRequest{}, "transaction"},
		"abort: empty token":             {&pb.AbortRequest{Transaction: &pb.AbortRequest_Token{}}, "token"},
		"abort: wrong id":                {&pb.AbortRequest{Transaction: &pb.AbortRequest_TransactionId{TransactionId: "xyz"}}, "transaction_id"},
		"outcome: nothing named":         {&pb.GetOutcomeRequest{}, "transaction"},
		"outcome: empty key":             {&pb.GetOutcomeRequest{Transaction: &pb.GetOutcomeRequest_Key{}}, "key"},
		"outcome: attempt":               {&pb.GetOutcomeRequest{Transaction: &pb.GetOutcomeRequest_Token{Token: "t"}, Attempt: 1}, "attempt"},
		"outcome: id and resolve":        {&pb.GetOutcomeRequest{Transaction: &pb.GetOutcomeRequest_TransactionId{TransactionId: id1.String()}, Resolve: true}, "resolve"},
		"outcome: id 0":                  {&pb.GetOutcomeRequest{Transaction: &pb.GetOutcomeRequest_TransactionId{TransactionId: strings.Repeat("0", 32)}}, "transaction_id"},
		"outcome: impossible time":       {&pb.GetOutcomeRequest{Transaction: &pb.GetOutcomeRequest_Key{Key: "k"}, BegunAfter: &timestamppb.Timestamp{Nanos: -1}}, "begun_after"},
		"register: no name":              {&pb.RegisterTableRequest{Uri: "/x"}, "name"},
		"register: no uri":               {&pb.RegisterTableRequest{Name: "orders"}, "uri"},
		"register: mode":                 {&pb.RegisterTableRequest{Name: "orders", Uri: "/x", Mode: 9}, "mode"},
		"create: no schema":              {&pb.CreateTableRequest{Name: "orders", Uri: "/x"}, "schema_json"},
		"list tables: page token":        {&pb.ListTablesRequest{PageToken: "%"}, "page_token"},
		"describe: no table":             {&pb.DescribeTableRequest{}, "table"},
		"release: no table":              {&pb.ReleaseTableRequest{}, "table"},
		"fence: no table":                {&pb.FenceTableRequest{}, "table"},
		"unfence: no table":              {&pb.UnfenceTableRequest{}, "table"},
		"mode: no table":                 {&pb.SetTableModeRequest{Mode: 1}, "table"},
		"mode: none":                     {&pb.SetTableModeRequest{Table: "orders"}, "mode"},
		"why: no table":                  {&pb.ExplainTableRequest{}, "table"},
		"resolve: no table":              {&pb.ResolveTableRequest{}, "table"},
		"maintain: no table":             {&pb.MaintainTableRequest{}, "table"},
		"gc: time":                       {&pb.CollectGarbageRequest{QuarantineFor: &durationpb.Duration{Seconds: -1}}, "quarantine_for"},
		"restore: no run":                {&pb.RestoreGarbageRequest{}, "run"},
		"lease: time":                    {&pb.LeaseSnapshotRequest{Ttl: &durationpb.Duration{}}, "ttl"},
		"lease: negative time":           {&pb.LeaseSnapshotRequest{Ttl: &durationpb.Duration{Seconds: -1}}, "ttl"},
		"renew: no id":                   {&pb.RenewLeaseRequest{}, "lease_id"},
		"renew: time":                    {&pb.RenewLeaseRequest{LeaseId: "a", Ttl: &durationpb.Duration{Seconds: 1 << 60}}, "ttl"},
		"end of lease: no id":            {&pb.DeleteLeaseRequest{}, "lease_id"},
		"snapshot: version 0":            {&pb.GetSnapshotRequest{Select: &pb.GetSnapshotRequest_Version{}}, "version"},
		"snapshot: empty tag":            {&pb.GetSnapshotRequest{Select: &pb.GetSnapshotRequest_Tag{}}, "tag"},
		"snapshot: time":                 {&pb.GetSnapshotRequest{Select: &pb.GetSnapshotRequest_Timestamp{Timestamp: &timestamppb.Timestamp{Seconds: -1 << 60}}}, "timestamp"},
		"diff: backwards":                {&pb.DiffSnapshotsRequest{From: 3, To: 2}, "from"},
		"tag: no name":                   {&pb.TagSnapshotRequest{SnapshotVersion: 1}, "tag"},
		"tag: long name":                 {&pb.TagSnapshotRequest{Tag: strings.Repeat("x", 256)}, "tag_bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			var e *client.Error
			if !errors.As(send(t.Context(), c, r.request), &e) || !errors.Is(e, client.ErrInvalid) {
				t.Fatalf("answered %v", e)
			}
			if got := e.Field.GetField() + e.Limit.GetName(); got != r.field {
				t.Errorf("names %q, want %q: %s", got, r.field, e.Message)
			}
			if e.Field != nil && e.Field.GetRemedy() == "" {
				t.Error("says no remedy")
			}
			if !strings.Contains(e.Message, r.field) {
				t.Errorf("%q does not name %s", e.Message, r.field)
			}
		})
	}
}

// raw sends a message as it is.
type raw struct{}

func (raw) Name() string                    { return "proto" }
func (raw) Marshal(v any) ([]byte, error)   { return v.([]byte), nil }
func (raw) Unmarshal(_ []byte, _ any) error { return nil }

// TestMessagesThatCannotBeDecoded: text that is not UTF-8 is named by its field, as deep
// as it lies, in unary calls and in streams. What is no message at all says so.
func TestMessagesThatCannotBeDecoded(t *testing.T) {
	c := dialFake(t, &fake{})
	bad := "a\xc0\xafb"
	field := func(n protowire.Number, value string) []byte {
		return protowire.AppendString(protowire.AppendTag(nil, n, protowire.BytesType), value)
	}
	tables := string(field(1, "a"))
	for name, r := range map[string]struct {
		method, field string
		request       []byte
	}{
		"key":         {pb.TransactionService_Begin_FullMethodName, "key", field(3, bad)},
		"tag":         {pb.SnapshotService_TagSnapshot_FullMethodName, "tag", field(3, bad)},
		"note":        {pb.SnapshotService_LeaseSnapshot_FullMethodName, "note", field(6, bad)},
		"name":        {pb.TableService_RegisterTable_FullMethodName, "name", field(3, bad)},
		"catalog":     {pb.StatusService_GetStatus_FullMethodName, "catalog", field(1, bad)},
		"second part": {pb.TransactionService_Commit_FullMethodName, "tables[1].digests[1]", append(field(4, tables), field(4, tables+string(field(2, "d"))+string(field(2, bad)))...)},
		"cut off":     {pb.TransactionService_Begin_FullMethodName, "request", field(3, "abc")[:3]},
		"stream":      {pb.TransactionService_StageStream_FullMethodName, "header.table", field(1, string(field(4, bad)))},
	} {
		stream, err := c.conn.NewStream(t.Context(), &grpc.StreamDesc{ClientStreams: true}, r.method, grpc.ForceCodec(raw{}))
		if err != nil {
			t.Fatal(err)
		}
		if err = errors.Join(stream.SendMsg(r.request), stream.CloseSend()); err != nil {
			t.Fatal(err)
		}
		err = stream.RecvMsg(nil)
		var e *client.Error
		if !errors.As(client.FromStatus(status.Convert(err)), &e) || !errors.Is(e, client.ErrInvalid) || e.Field.GetField() != r.field || e.Field.GetRemedy() == "" {
			t.Errorf("%s: answered %v", name, err)
		}
	}
}

// send makes the call that the request belongs to.
func send(ctx context.Context, c clients, request proto.Message) error {
	err := invoke(ctx, c, request)
	if err == nil {
		return nil
	}
	return client.FromStatus(status.Convert(err))
}

func invoke(ctx context.Context, c clients, request proto.Message) (err error) {
	switch q := request.(type) {
	case *pb.BeginRequest:
		_, err = c.Begin(ctx, q)
	case *pb.StageRequest:
		_, err = c.Stage(ctx, q)
	case *pb.CommitRequest:
		_, err = c.Commit(ctx, q)
	case *pb.CommitOnceRequest:
		_, err = c.CommitOnce(ctx, q)
	case *pb.AbortRequest:
		_, err = c.Abort(ctx, q)
	case *pb.GetOutcomeRequest:
		_, err = c.GetOutcome(ctx, q)
	case *pb.ListTransactionsRequest:
		_, err = c.ListTransactions(ctx, q)
	case *pb.RegisterTableRequest:
		_, err = c.RegisterTable(ctx, q)
	case *pb.CreateTableRequest:
		_, err = c.CreateTable(ctx, q)
	case *pb.ListTablesRequest:
		_, err = c.ListTables(ctx, q)
	case *pb.DescribeTableRequest:
		_, err = c.DescribeTable(ctx, q)
	case *pb.ReleaseTableRequest:
		_, err = c.ReleaseTable(ctx, q)
	case *pb.SetTableModeRequest:
		_, err = c.SetTableMode(ctx, q)
	case *pb.FenceTableRequest:
		_, err = c.FenceTable(ctx, q)
	case *pb.UnfenceTableRequest:
		_, err = c.UnfenceTable(ctx, q)
	case *pb.GetSnapshotRequest:
		_, err = c.GetSnapshot(ctx, q)
	case *pb.ListSnapshotsRequest:
		_, err = c.ListSnapshots(ctx, q)
	case *pb.DiffSnapshotsRequest:
		_, err = c.DiffSnapshots(ctx, q)
	case *pb.TagSnapshotRequest:
		_, err = c.TagSnapshot(ctx, q)
	default:
		return operate(ctx, c, request)
	}
	return err
}

func operate(ctx context.Context, c clients, request proto.Message) (err error) {
	switch q := request.(type) {
	case *pb.ExplainTableRequest:
		_, err = c.ExplainTable(ctx, q)
	case *pb.ResolveTableRequest:
		_, err = c.ResolveTable(ctx, q)
	case *pb.MaintainTableRequest:
		_, err = c.MaintainTable(ctx, q)
	case *pb.ExplainTransactionRequest:
		_, err = c.ExplainTransaction(ctx, q)
	case *pb.FreezeTableRequest:
		_, err = c.FreezeTable(ctx, q)
	case *pb.UnfreezeTableRequest:
		_, err = c.UnfreezeTable(ctx, q)
	case *pb.CollectGarbageRequest:
		_, err = c.CollectGarbage(ctx, q)
	case *pb.RestoreGarbageRequest:
		_, err = c.RestoreGarbage(ctx, q)
	case *pb.ListTagsRequest:
		_, err = c.ListTags(ctx, q)
	case *pb.LeaseSnapshotRequest:
		_, err = c.LeaseSnapshot(ctx, q)
	case *pb.RenewLeaseRequest:
		_, err = c.RenewLease(ctx, q)
	case *pb.ListLeasesRequest:
		_, err = c.ListLeases(ctx, q)
	case *pb.DeleteLeaseRequest:
		_, err = c.DeleteLease(ctx, q)
	default:
		err = errors.New("no call takes this request")
	}
	return err
}
