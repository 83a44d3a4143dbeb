package rpc_test

import (
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/txcoord/txcoord/coordinator"
	pb "github.com/txcoord/txcoord/proto/txcoord/v1"
)

func TestCollectGarbage(t *testing.T) {
	var asked coordinator.GarbageRequest
	f := &fake{shown: 4, garbage: func(q coordinator.GarbageRequest) (coordinator.GarbageReport, error) {
		asked = q
		return coordinator.GarbageReport{
			Removed: true, Run: "r", More: true, MinAge: time.Hour, Skipped: []string{"x"},
			Found:       []coordinator.Garbage{{Kind: coordinator.GarbageOpen, Key: "open/1", InStore: true, Bytes: 3, Age: time.Minute, Why: "it is over"}},
			Totals:      []coordinator.GarbageTotal{{Kind: coordinator.GarbageOpen, Count: 1, Bytes: 3}},
			Young:       coordinator.GarbageTotal{Count: 2, Bytes: 5},
			Unknown:     coordinator.GarbageTotal{Count: 4, Bytes: 6},
			UnknownKeys: []string{"notes.txt"},
			Quarantines: []coordinator.Quarantine{{Run: "r", Count: 1, Bytes: 3, Since: at}},
		}, nil
	}}
	got, err := dialFake(t, f).CollectGarbage(t.Context(), &pb.CollectGarbageRequest{Remove: true, FormerJournals: true, QuarantineFor: durationpb.New(0)})
	if err != nil {
		t.Fatal(err)
	}
	var none time.Duration
	same(t, coordinator.GarbageRequest{Remove: true, FormerJournals: true, QuarantineFor: &none}, asked)
	same(t, &pb.CollectGarbageResponse{
		LatestSnapshot: 4, Removed: true, Run: "r", More: true, MinAge: durationpb.New(time.Hour), Skipped: []string{"x"},
		Found:       []*pb.Garbage{{Kind: pb.GarbageKind_GARBAGE_KIND_OPEN_RECORD, Key: "open/1", InStore: true, Bytes: 3, Age: durationpb.New(time.Minute), Why: "it is over"}},
		Totals:      []*pb.GarbageTotal{{Kind: pb.GarbageKind_GARBAGE_KIND_OPEN_RECORD, Count: 1, Bytes: 3}},
		Young:       &pb.GarbageTotal{Count: 2, Bytes: 5},
		Unknown:     &pb.GarbageTotal{Count: 4, Bytes: 6},
		UnknownKeys: []string{"notes.txt"},
		Quarantines: []*pb.Quarantine{{Run: "r", Count: 1, Bytes: 3, Since: timestamppb.New(at)}},
	}, got)
}

// Every kind has its own number on the wire.
func TestGarbageKinds(t *testing.T) {
	for i, k := range coordinator.GarbageKinds() {
		f := &fake{garbage: func(coordinator.GarbageRequest) (coordinator.GarbageReport, error) {
			return coordinator.GarbageReport{Totals: []coordinator.GarbageTotal{{Kind: k}}}, nil
		}}
		got, err := dialFake(t, f).CollectGarbage(t.Context(), &pb.CollectGarbageRequest{})
		if err != nil || got.GetTotals()[0].GetKind() != pb.GarbageKind(i+1) {
			t.Errorf("%s: %v, %v", k, got, err)
		}
	}
	if n := len(pb.GarbageKind_name) - 1; n != len(coordinator.GarbageKinds()) {
		t.Errorf("the wire has %d kinds", n)
	}
}

func TestRestoreGarbage(t *testing.T) {
	var asked coordinator.RestoreRequest
	f := &fake{shown: 4, restore: func(q coordinator.RestoreRequest) (coordinator.RestoreReport, error) {
		asked = q
		return coordinator.RestoreReport{DryRun: true, Count: 2, Bytes: 5, Taken: []string{"objects/x"}, Refused: []string{"store/y"}, Kept: true}, nil
	}}
	got, err := dialFake(t, f).RestoreGarbage(t.Context(), &pb.RestoreGarbageRequest{Run: "r", DryRun: true})
	if err != nil {
		t.Fatal(err)
	}
	same(t, coordinator.RestoreRequest{Run: "r", DryRun: true}, asked)
	same(t, &pb.RestoreGarbageResponse{LatestSnapshot: 4, DryRun: true, Count: 2, Bytes: 5, Taken: []string{"objects/x"}, Refused: []string{"store/y"}, CopiesKept: true}, got)
}
