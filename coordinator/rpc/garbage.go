package rpc

import (
	"context"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/txcoord/txcoord/coordinator"
	pb "github.com/txcoord/txcoord/proto/txcoord/v1"
)

func (s operationService) CollectGarbage(ctx context.Context, q *pb.CollectGarbageRequest) (*pb.CollectGarbageResponse, error) {
	return unary(ctx, s.service, q, func(c Catalog) (*pb.CollectGarbageResponse, error) {
		ask := coordinator.GarbageRequest{Remove: q.GetRemove(), FormerJournals: q.GetFormerJournals()}
		if d := q.GetQuarantineFor(); d != nil {
			keep, err := duration("quarantine_for", d)
			if err != nil {
				return nil, err
			}
			ask.QuarantineFor = &keep
		}
		r, err := c.CollectGarbage(ctx, ask)
		return garbageToProto(r), err
	})
}

func (s operationService) RestoreGarbage(ctx context.Context, q *pb.RestoreGarbageRequest) (*pb.RestoreGarbageResponse, error) {
	return unary(ctx, s.service, q, func(c Catalog) (*pb.RestoreGarbageResponse, error) {
		if err := required("run", q.GetRun()); err != nil {
			return nil, err
		}
		r, err := c.RestoreGarbage(ctx, coordinator.RestoreRequest{Run: q.GetRun(), DryRun: q.GetDryRun()})
		return &pb.RestoreGarbageResponse{
			DryRun: r.DryRun, Count: uint64(r.Count), Bytes: uint64(r.Bytes), Taken: wholes(r.Taken), Refused: wholes(r.Refused), CopiesKept: r.Kept,
		}, err
	})
}

// maxQuarantines bounds those that an answer lists.
const maxQuarantines = 1000

func garbageToProto(r coordinator.GarbageReport) *pb.CollectGarbageResponse {
	return &pb.CollectGarbageResponse{
		Removed: r.Removed, Run: r.Run, More: r.More, MinAge: durationpb.New(r.MinAge), Skipped: wholes(r.Skipped),
		Found: each(r.Found, func(g coordinator.Garbage) *pb.Garbage {
			return &pb.Garbage{
				Kind: garbageKind(g.Kind), Key: whole(g.Key), InStore: g.InStore, Bytes: uint64(g.Bytes), Age: durationpb.New(g.Age), Why: whole(g.Why),
			}
		}),
		Totals: each(r.Totals, totalToProto), Young: totalToProto(r.Young), Unknown: totalToProto(r.Unknown), UnknownKeys: wholes(r.UnknownKeys),
		Quarantines: each(r.Quarantines[:min(len(r.Quarantines), maxQuarantines)], func(q coordinator.Quarantine) *pb.Quarantine {
			return &pb.Quarantine{Run: whole(q.Run), Count: uint64(q.Count), Bytes: uint64(q.Bytes), Since: timestamp(q.Since)}
		}),
	}
}

func totalToProto(t coordinator.GarbageTotal) *pb.GarbageTotal {
	return &pb.GarbageTotal{Kind: garbageKind(t.Kind), Count: uint64(t.Count), Bytes: uint64(t.Bytes)}
}

// garbageKinds are the kinds as the wire has them; a test holds them together.
var garbageKinds = map[coordinator.GarbageKind]pb.GarbageKind{
	coordinator.GarbagePart:        pb.GarbageKind_GARBAGE_KIND_PART,
	coordinator.GarbageOpen:        pb.GarbageKind_GARBAGE_KIND_OPEN_RECORD,
	coordinator.GarbageFacts:       pb.GarbageKind_GARBAGE_KIND_FACTS,
	coordinator.GarbageCheckpoint:  pb.GarbageKind_GARBAGE_KIND_CHECKPOINT,
	coordinator.GarbageExtract:     pb.GarbageKind_GARBAGE_KIND_EXTRACT,
	coordinator.GarbageDraft:       pb.GarbageKind_GARBAGE_KIND_DRAFT,
	coordinator.GarbageJournal:     pb.GarbageKind_GARBAGE_KIND_FORMER_JOURNAL,
	coordinator.GarbageQuarantined: pb.GarbageKind_GARBAGE_KIND_QUARANTINED,
}

func garbageKind(k coordinator.GarbageKind) pb.GarbageKind { return garbageKinds[k] }
