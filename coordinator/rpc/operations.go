package rpc

import (
	"context"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/txcoord/txcoord/coordinator"
	pb "github.com/txcoord/txcoord/proto/txcoord/v1"
)

type operationService struct {
	pb.UnimplementedOperationServiceServer
	*service
}

func (s operationService) ExplainTable(ctx context.Context, q *pb.ExplainTableRequest) (*pb.ExplainTableResponse, error) {
	return unary(ctx, s.service, q, func(c Catalog) (*pb.ExplainTableResponse, error) {
		if err := required("table", q.GetTable()); err != nil {
			return nil, err
		}
		e, err := c.Explain(ctx, q.GetTable(), nil)
		return &pb.ExplainTableResponse{Table: tableToProto(e.Table), Findings: each(e.Findings, findingToProto)}, err
	})
}

func (s operationService) ExplainTransaction(ctx context.Context, q *pb.ExplainTransactionRequest) (*pb.ExplainTransactionResponse, error) {
	return unary(ctx, s.service, q, func(c Catalog) (*pb.ExplainTransactionResponse, error) {
		ref, err := explainedFromProto(q)
		if err != nil {
			return nil, err
		}
		x, err := c.ExplainTxn(ctx, ref, nil)
		return txnExplanationToProto(x), err
	})
}

func (s operationService) FreezeTable(ctx context.Context, q *pb.FreezeTableRequest) (*pb.FreezeTableResponse, error) {
	return unary(ctx, s.service, q, func(c Catalog) (*pb.FreezeTableResponse, error) {
		if err := required("table", q.GetTable()); err != nil {
			return nil, err
		}
		t, err := c.FreezeTable(ctx, q.GetTable(), text(q.GetReason(), maxText))
		return &pb.FreezeTableResponse{Table: tableToProto(t)}, err
	})
}

func (s operationService) UnfreezeTable(ctx context.Context, q *pb.UnfreezeTableRequest) (*pb.UnfreezeTableResponse, error) {
	return unary(ctx, s.service, q, func(c Catalog) (*pb.UnfreezeTableResponse, error) {
		if err := required("table", q.GetTable()); err != nil {
			return nil, err
		}
		t, err := c.UnfreezeTable(ctx, q.GetTable(), text(q.GetReason(), maxText))
		return &pb.UnfreezeTableResponse{Table: tableToProto(t)}, err
	})
}

func (s operationService) ResolveTable(ctx context.Context, q *pb.ResolveTableRequest) (*pb.ResolveTableResponse, error) {
	return unary(ctx, s.service, q, func(c Catalog) (*pb.ResolveTableResponse, error) {
		if err := required("table", q.GetTable()); err != nil {
			return nil, err
		}
		r, err := c.Resolve(ctx, coordinator.ResolveRequest{
			Table: q.GetTable(), Preview: q.GetPreview(), Reason: text(q.GetReason(), maxText), Plan: q.GetPlan(), GiveUp: q.GetGiveUp(),
		})
		return resolutionToProto(r), err
	})
}

func (s operationService) MaintainTable(ctx context.Context, q *pb.MaintainTableRequest) (*pb.MaintainTableResponse, error) {
	return unary(ctx, s.service, q, func(c Catalog) (*pb.MaintainTableResponse, error) {
		if err := required("table", q.GetTable()); err != nil {
			return nil, err
		}
		r, err := c.Maintain(ctx, coordinator.MaintainRequest{Table: q.GetTable(), DryRun: q.GetDryRun()})
		return maintainedToProto(r), err
	})
}

// findingToProto relies on the codes having the wire's numbers; a test holds them together.
func findingToProto(f coordinator.Finding) *pb.Finding {
	return &pb.Finding{
		Code: pb.FindingCode(f.Code), Blocks: f.Blocks, Text: text(f.Text, maxText), Remedy: text(f.Remedy, maxText),
		Since: timestamp(f.Since), TransactionId: txnID(f.Txn), Key: whole(f.Key), Rule: ruleToProto(f.Rule),
		Path: text(f.Path, maxText), Winner: text(f.Winner, maxText), Version: int64(f.Version), File: text(f.File, maxText),
		Property: whole(f.Property), Tables: wholes(f.Tables[:min(len(f.Tables), maxRoundTables)]),
	}
}

func resolutionToProto(r coordinator.Resolution) *pb.ResolveTableResponse {
	return &pb.ResolveTableResponse{
		Table: tableToProto(r.Table), Plan: r.Plan, Freed: wholes(r.Freed), StillFrozenBy: wholes(r.StillFrozenBy),
		NotBefore: timestamp(r.NotBefore), GivenUp: each(r.GivenUp, resolvedToProto),
		Steps: each(r.Steps, func(s coordinator.ResolveStep) *pb.ResolveStep {
			return &pb.ResolveStep{Kind: s.Kind, Table: whole(s.Table), Text: whole(s.Text)}
		}),
	}
}

func resolvedToProto(g coordinator.ResolvedChange) *pb.ResolvedChange {
	return &pb.ResolvedChange{
		Table: whole(g.Table), ChangeNumber: int64(g.Number), TransactionId: txnID(g.Txn), Key: whole(g.Key),
		Rule: ruleToProto(g.Conflict.Rule), Path: text(g.Conflict.Path, maxText), Detail: text(g.Conflict.Detail, maxText),
		Elsewhere: each(g.Elsewhere, func(e coordinator.ResolvedElsewhere) *pb.ResolvedElsewhere {
			return &pb.ResolvedElsewhere{Table: whole(e.Table), State: whole(e.State)}
		}),
	}
}

func maintainedToProto(r coordinator.MaintainReport) *pb.MaintainTableResponse {
	c, l := r.Checkpoint, r.CleanUp
	return &pb.MaintainTableResponse{
		Table: tableToProto(r.Table), DryRun: r.DryRun, Version: int64(r.Version),
		PayloadParts: uint64(r.Payloads.Parts), PayloadBytes: uint64(r.Payloads.Bytes),
		BytesRead: uint64(r.BytesRead), BytesWritten: uint64(r.BytesWritten), Took: durationpb.New(r.Took),
		Checkpoint: &pb.CheckpointReport{
			Before: int64(c.Before), Interval: int64(c.Interval), Written: c.Written, Skipped: whole(c.Skipped), Name: whole(c.Name), V2: c.V2,
			Files: uint64(c.Adds), Bytes: uint64(c.Bytes), Sidecars: uint32(c.Sidecars), SidecarsReused: uint32(c.Reused),
			PassedOver: wholes(c.PassedOver),
		},
		CleanUp: &pb.CleanUpReport{
			Cut: int64(l.Cut), Cutoff: timestamp(l.Cutoff), Commits: uint32(l.Commits), Checkpoints: uint32(l.Checkpoints),
			Sidecars: uint32(l.Sidecars), Others: uint32(l.Others), Bytes: uint64(l.Bytes), HeldBy: whole(l.HeldBy),
			Skipped: whole(l.Skipped), SidecarsKept: whole(l.SidecarsKept),
		},
	}
}
