package client_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"

	client "github.com/txcoord/txcoord/clients/go"
	txcoordv1 "github.com/txcoord/txcoord/proto/txcoord/v1"
)

func TestPartitions(t *testing.T) {
	day := "2026-11-29"
	got := client.Partitions(client.Partition{"region": nil, "day": &day}, client.Partition{"region": &day})
	want := &txcoordv1.ReadSet{What: &txcoordv1.ReadSet_Partitions{Partitions: &txcoordv1.PartitionPredicate{
		AnyOf: []*txcoordv1.PartitionMatch{
			{AllOf: []*txcoordv1.PartitionCondition{{Column: "day", Value: proto.String(day)}, {Column: "region"}}},
			{AllOf: []*txcoordv1.PartitionCondition{{Column: "region", Value: proto.String(day)}}},
		},
	}}}
	if d := cmp.Diff(want, got, protocmp.Transform()); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}
