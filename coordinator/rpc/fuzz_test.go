package rpc_test

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"

	client "github.com/txcoord/txcoord/clients/go"
	"github.com/txcoord/txcoord/coordinator"
	pb "github.com/txcoord/txcoord/proto/txcoord/v1"
	"github.com/txcoord/txcoord/tables"
)

// FuzzReadDeclaration sends what the fuzzer makes as a read declaration: either it
// is refused, or what the catalog gets says the same.
func FuzzReadDeclaration(f *testing.F) {
	seoul := "Seoul"
	for _, r := range []*pb.ReadDeclaration{
		client.Blind(), client.AtVersion(7, client.WholeTable()), client.AtSnapshot(2, client.Files("a", "b%20c")),
		client.AtVersion(1, client.Partitions(client.Partition{"city": &seoul, "day": nil}, client.Partition{"city": nil})),
		{Point: &pb.ReadDeclaration_Version{}, Apps: []string{"app"}, Isolation: pb.Isolation_ISOLATION_WRITE_SERIALIZABLE},
	} {
		b, err := proto.Marshal(r)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		in := &pb.ReadDeclaration{}
		if proto.Unmarshal(b, in) != nil {
			t.Skip()
		}
		if in.GetReadSet().GetWhat() == nil && len(in.GetReadSet().ProtoReflect().GetUnknown()) == 0 {
			in.ReadSet = nil // both mean nothing
		}
		var got *tables.ReadDeclaration
		c := dialFake(t, &fake{stage: func(_ context.Context, q coordinator.StageRequest) (coordinator.Staged, error) {
			got = &q.Read
			return coordinator.Staged{}, nil
		}})
		_, err := c.Stage(t.Context(), readOf(in))
		if (err == nil) != (got != nil) {
			t.Fatalf("answered %v, the catalog was called: %v", err, got != nil)
		}
		if got == nil {
			return
		}
		if d := cmp.Diff(in, readToProto(*got), protocmp.Transform()); d != "" {
			t.Errorf("(-sent +received):\n%s", d)
		}
	})
}

// readToProto is the inverse that only the test needs.
func readToProto(r tables.ReadDeclaration) *pb.ReadDeclaration {
	out := &pb.ReadDeclaration{Apps: r.Apps, Isolation: pb.Isolation(r.Isolation)}
	switch {
	case r.Blind:
		out.Point = &pb.ReadDeclaration_Blind{Blind: true}
	case r.Version != nil:
		out.Point = &pb.ReadDeclaration_Version{Version: int64(*r.Version)}
	case r.Snapshot != nil:
		out.Point = &pb.ReadDeclaration_SnapshotVersion{SnapshotVersion: uint64(*r.Snapshot)}
	}
	switch r.Kind {
	case tables.ReadNothing:
	case tables.ReadFiles:
		out.ReadSet = client.Files(r.Files...)
	case tables.ReadWholeTable:
		out.ReadSet = client.WholeTable()
	case tables.ReadPartitions:
		p := &pb.PartitionPredicate{}
		for _, and := range r.Partitions {
			m := &pb.PartitionMatch{}
			for _, c := range and {
				one := &pb.PartitionCondition{Column: c.Column}
				if !c.OrNull {
					one.Value = &c.Values[0] // the wire has one value in a condition
				}
				m.AllOf = append(m.AllOf, one)
			}
			p.AnyOf = append(p.AnyOf, m)
		}
		out.ReadSet = &pb.ReadSet{What: &pb.ReadSet_Partitions{Partitions: p}}
	}
	return out
}

// FuzzAnswersReachTheClient puts any bytes where texts stand: an answer is never
// lost to a path that is not UTF-8.
func FuzzAnswersReachTheClient(f *testing.F) {
	f.Add("orders", "file:///data/a b", []byte("\xff\xfe"))
	f.Fuzz(func(t *testing.T, name, uri string, detail []byte) {
		bad := string(detail)
		info := coordinator.TableInfo{
			Name: name, URI: uri + bad, Stopped: bad,
			Frozen: &coordinator.FrozenDetail{Table: bad, Detail: bad},
		}
		c := dialFake(t, &fake{describe: func(string) (coordinator.TableDescription, error) {
			return coordinator.TableDescription{
				TableInfo: info, Warnings: []string{bad}, Round: &coordinator.RoundInfo{Tables: []string{bad}},
				State: &coordinator.TableState{Profile: &tables.Profile{MetaData: tables.MetaData{
					Schema: bad, Configuration: map[string]string{bad: bad}, PartitionColumns: []string{bad},
				}}},
			}, nil
		}})
		if _, err := c.DescribeTable(t.Context(), &pb.DescribeTableRequest{Table: "t"}); err != nil {
			t.Error(err)
		}
	})
}
