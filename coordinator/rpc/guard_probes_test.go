package rpc_test

import (
	"context"
	"errors"
	"io"

	"google.golang.org/protobuf/types/known/timestamppb"

	client "github.com/txcoord/txcoord/clients/go"
	pb "github.com/txcoord/txcoord/proto/txcoord/v1"
)

// probe is one way to call a method. With names it calls the table that is given, in
// the middle of others that are granted where the request takes several.
type probe struct {
	method string
	names  bool
	may    string // who may on what is granted: principals, space between them
	call   func(context.Context, clients, string) error
}

var altered = &pb.TableAlteration{UnsetProperties: []string{"x"}}

var probes = []probe{
	{"Begin", false, "write full root", func(ctx context.Context, c clients, _ string) error {
		_, err := c.Begin(ctx, &pb.BeginRequest{Key: "k"})
		return err
	}},
	{"Stage", true, "write full root", func(ctx context.Context, c clients, table string) error {
		_, err := c.Stage(ctx, &pb.StageRequest{Token: "t", Table: table, Read: client.Blind(), Actions: []byte(addLine)})
		return err
	}},
	{"Stage", true, "full root", func(ctx context.Context, c clients, table string) error {
		_, err := c.Stage(ctx, &pb.StageRequest{Token: "t", Table: table, Read: client.Blind(), Actions: []byte(addLine + "\n" + `{"\u006detaData":{}}`)})
		return err
	}},
	{"Stage", true, "full root", func(ctx context.Context, c clients, table string) error {
		_, err := c.Stage(ctx, &pb.StageRequest{Token: "t", Table: table, Create: &pb.NewTable{Uri: "/w/x", SchemaJson: "{}"}})
		return err
	}},
	{"Stage", true, "full root", func(ctx context.Context, c clients, table string) error {
		_, err := c.Stage(ctx, &pb.StageRequest{Token: "t", Table: table, Alter: altered})
		return err
	}},
	{"StageStream", true, "full root", func(ctx context.Context, c clients, table string) error {
		s, err := c.StageStream(ctx)
		if err != nil {
			return err
		}
		_ = s.Send(&pb.StageStreamRequest{Message: &pb.StageStreamRequest_Header{Header: &pb.StageHeader{Token: "t", Table: table, Read: client.Blind()}}})
		_ = s.Send(&pb.StageStreamRequest{Message: &pb.StageStreamRequest_Chunk{Chunk: []byte(metaLine)}})
		_, err = s.CloseAndRecv()
		return err
	}},
	{"Commit", true, "write full root", func(ctx context.Context, c clients, table string) error {
		_, err := c.Commit(ctx, &pb.CommitRequest{Token: "t", Tables: []*pb.TableParts{parts("in1", digest), parts(table, digest), parts("in2", digest)}})
		return err
	}},
	{"Commit", true, "full root", func(ctx context.Context, c clients, table string) error {
		_, err := c.Commit(ctx, &pb.CommitRequest{
			Token: "t", Tables: []*pb.TableParts{parts("in3", digest)},
			Reads: []*pb.ReadParticipant{{Table: "in2", Read: whole}, {Table: table, Read: whole}},
		})
		return err
	}},
	{"Commit", true, "full root", func(ctx context.Context, c clients, table string) error {
		_, err := c.Commit(ctx, &pb.CommitRequest{Token: "t", Tables: []*pb.TableParts{parts("in3", digest)}, Releases: []string{"in2", table}})
		return err
	}},
	{"CommitOnce", true, "ddl full root", func(ctx context.Context, c clients, table string) error {
		_, err := c.CommitOnce(ctx, &pb.CommitOnceRequest{Key: "k", Releases: []string{"in2", table}})
		return err
	}},
	{"CommitOnce", true, "full root", func(ctx context.Context, c clients, table string) error {
		_, err := c.CommitOnce(ctx, &pb.CommitOnceRequest{Key: "k", Tables: []*pb.OnceTable{
			{Table: "in2", Read: client.Blind(), Actions: []byte(addLine)}, {Table: table, Alter: altered},
		}})
		return err
	}},
	{"CommitOnce", true, "write full root", func(ctx context.Context, c clients, table string) error {
		_, err := c.CommitOnce(ctx, &pb.CommitOnceRequest{Key: "k", Tables: []*pb.OnceTable{
			{Table: "in2", Read: client.Blind(), Actions: []byte(addLine)}, {Table: table, Read: client.Blind(), Actions: []byte(addLine)},
		}})
		return err
	}},
	{"CommitOnce", true, "full root", func(ctx context.Context, c clients, table string) error {
		_, err := c.CommitOnce(ctx, &pb.CommitOnceRequest{Key: "k", Tables: []*pb.OnceTable{
			{Table: "in2", Read: client.Blind(), Actions: []byte(addLine)}, {Table: table, Read: client.Blind(), Actions: []byte(metaLine)},
		}})
		return err
	}},
	{"Abort", false, "write full root", func(ctx context.Context, c clients, _ string) error {
		_, err := c.Abort(ctx, &pb.AbortRequest{Transaction: &pb.AbortRequest_Token{Token: "t"}})
		return err
	}},
	{"Abort", false, "root", func(ctx context.Context, c clients, _ string) error {
		_, err := c.Abort(ctx, &pb.AbortRequest{Transaction: &pb.AbortRequest_TransactionId{TransactionId: id1.String()}})
		return err
	}},
	{"GetOutcome", false, "read write full root", func(ctx context.Context, c clients, _ string) error {
		_, err := c.GetOutcome(ctx, &pb.GetOutcomeRequest{Transaction: &pb.GetOutcomeRequest_Key{Key: "k"}})
		return err
	}},
	{"GetOutcome", false, "write full root", func(ctx context.Context, c clients, _ string) error {
		_, err := c.GetOutcome(ctx, &pb.GetOutcomeRequest{Transaction: &pb.GetOutcomeRequest_Token{Token: "t"}, Resolve: true})
		return err
	}},
	{"GetOutcome", false, "root", func(ctx context.Context, c clients, _ string) error {
		_, err := c.GetOutcome(ctx, &pb.GetOutcomeRequest{
			Transaction: &pb.GetOutcomeRequest_Key{Key: "k"}, Resolve: true, BegunAfter: timestamppb.New(at),
		})
		return err
	}},
	{"ListTransactions", true, "read full root", func(ctx context.Context, c clients, table string) error {
		_, err := c.ListTransactions(ctx, &pb.ListTransactionsRequest{Table: table})
		return err
	}},
	{"RegisterTable", true, "ddl full root", func(ctx context.Context, c clients, table string) error {
		_, err := c.RegisterTable(ctx, &pb.RegisterTableRequest{Name: table, Uri: "/w/x"})
		return err
	}},
	{"CreateTable", true, "ddl full root", func(ctx context.Context, c clients, table string) error {
		_, err := c.CreateTable(ctx, &pb.CreateTableRequest{Name: table, Uri: "/w/x", SchemaJson: "{}"})
		return err
	}},
	{"ListTables", false, "read full root", func(ctx context.Context, c clients, _ string) error {
		_, err := c.ListTables(ctx, &pb.ListTablesRequest{})
		return err
	}},
	{"DescribeTable", true, "read full root", func(ctx context.Context, c clients, table string) error {
		_, err := c.DescribeTable(ctx, &pb.DescribeTableRequest{Table: table})
		return err
	}},
	{"ReleaseTable", true, "ddl full root", func(ctx context.Context, c clients, table string) error {
		_, err := c.ReleaseTable(ctx, &pb.ReleaseTableRequest{Table: table})
		return err
	}},
	{"SetTableMode", true, "fence full root", func(ctx context.Context, c clients, table string) error {
		_, err := c.SetTableMode(ctx, &pb.SetTableModeRequest{Table: table, Mode: pb.TableMode_TABLE_MODE_OPEN})
		return err
	}},
	{"FenceTable", true, "fence full root", func(ctx context.Context, c clients, table string) error {
		_, err := c.FenceTable(ctx, &pb.FenceTableRequest{Table: table})
		return err
	}},
	{"UnfenceTable", true, "fence full root", func(ctx context.Context, c clients, table string) error {
		_, err := c.UnfenceTable(ctx, &pb.UnfenceTableRequest{Table: table})
		return err
	}},
	{"ExplainTable", true, "read full root", func(ctx context.Context, c clients, table string) error {
		_, err := c.ExplainTable(ctx, &pb.ExplainTableRequest{Table: table})
		return err
	}},
	{"ExplainTransaction", false, "read write full root", func(ctx context.Context, c clients, _ string) error {
		_, err := c.ExplainTransaction(ctx, &pb.ExplainTransactionRequest{Transaction: &pb.ExplainTransactionRequest_Key{Key: "k"}})
		return err
	}},
	{"FreezeTable", true, "admin full root", func(ctx context.Context, c clients, table string) error {
		_, err := c.FreezeTable(ctx, &pb.FreezeTableRequest{Table: table})
		return err
	}},
	{"UnfreezeTable", true, "admin full root", func(ctx context.Context, c clients, table string) error {
		_, err := c.UnfreezeTable(ctx, &pb.UnfreezeTableRequest{Table: table})
		return err
	}},
	{"ResolveTable", true, "admin full root", func(ctx context.Context, c clients, table string) error {
		_, err := c.ResolveTable(ctx, &pb.ResolveTableRequest{Table: table, Preview: true})
		return err
	}},
	{"MaintainTable", true, "admin full root", func(ctx context.Context, c clients, table string) error {
		_, err := c.MaintainTable(ctx, &pb.MaintainTableRequest{Table: table, DryRun: true})
		return err
	}},
	{"CollectGarbage", false, "root", func(ctx context.Context, c clients, _ string) error {
		_, err := c.CollectGarbage(ctx, &pb.CollectGarbageRequest{})
		return err
	}},
	{"RestoreGarbage", false, "root", func(ctx context.Context, c clients, _ string) error {
		_, err := c.RestoreGarbage(ctx, &pb.RestoreGarbageRequest{Run: "r", DryRun: true})
		return err
	}},
	{"GetSnapshot", true, "read full root", func(ctx context.Context, c clients, table string) error {
		_, err := c.GetSnapshot(ctx, &pb.GetSnapshotRequest{Tables: []string{"in2", table}})
		return err
	}},
	{"ListSnapshots", true, "read full root", func(ctx context.Context, c clients, table string) error {
		_, err := c.ListSnapshots(ctx, &pb.ListSnapshotsRequest{Table: table})
		return err
	}},
	{"WatchSnapshots", false, "read full root", func(ctx context.Context, c clients, _ string) error {
		s, err := c.WatchSnapshots(ctx, &pb.WatchSnapshotsRequest{})
		for err == nil {
			_, err = s.Recv()
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		return err
	}},
	{"DiffSnapshots", false, "read full root", func(ctx context.Context, c clients, _ string) error {
		_, err := c.DiffSnapshots(ctx, &pb.DiffSnapshotsRequest{From: 1, To: 2})
		return err
	}},
	{"TagSnapshot", false, "root", func(ctx context.Context, c clients, _ string) error {
		_, err := c.TagSnapshot(ctx, &pb.TagSnapshotRequest{Tag: "x", SnapshotVersion: 1})
		return err
	}},
	{"ListTags", false, "read full root", func(ctx context.Context, c clients, _ string) error {
		_, err := c.ListTags(ctx, &pb.ListTagsRequest{})
		return err
	}},
	{"LeaseSnapshot", false, "root", func(ctx context.Context, c clients, _ string) error {
		_, err := c.LeaseSnapshot(ctx, &pb.LeaseSnapshotRequest{})
		return err
	}},
	{"RenewLease", false, "root", func(ctx context.Context, c clients, _ string) error {
		_, err := c.RenewLease(ctx, &pb.RenewLeaseRequest{LeaseId: "a"})
		return err
	}},
	{"ListLeases", false, "read full root", func(ctx context.Context, c clients, _ string) error {
		_, err := c.ListLeases(ctx, &pb.ListLeasesRequest{})
		return err
	}},
	{"DeleteLease", false, "root", func(ctx context.Context, c clients, _ string) error {
		_, err := c.DeleteLease(ctx, &pb.DeleteLeaseRequest{LeaseId: "a"})
		return err
	}},
	{"GetStatus", false, "read full root", func(ctx context.Context, c clients, _ string) error {
		_, err := c.GetStatus(ctx, &pb.GetStatusRequest{})
		return err
	}},
}
