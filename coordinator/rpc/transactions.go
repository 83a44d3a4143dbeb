package rpc

import (
	"context"

	pb "github.com/txcoord/txcoord/proto/txcoord/v1"
)

type transactions struct {
	pb.UnimplementedTransactionServiceServer
	*service
}

func (s transactions) Begin(ctx context.Context, q *pb.BeginRequest) (*pb.BeginResponse, error) {
	return unary(ctx, s.service, q, func(c Catalog) (*pb.BeginResponse, error) {
		in, err := beginFromProto(q, client(ctx))
		if err != nil {
			return nil, err
		}
		b, err := c.Begin(ctx, in)
		return begunToProto(b), err
	})
}

func (s transactions) Stage(ctx context.Context, q *pb.StageRequest) (*pb.StageResponse, error) {
	return unary(ctx, s.service, q, func(c Catalog) (*pb.StageResponse, error) {
		in, err := stageFromProto(q, client(ctx))
		if err != nil {
			return nil, err
		}
		p, err := c.Stage(ctx, in)
		return &pb.StageResponse{Part: stagedToProto(p)}, err
	})
}

func (s transactions) Commit(ctx context.Context, q *pb.CommitRequest) (*pb.CommitResponse, error) {
	return unary(ctx, s.service, q, func(c Catalog) (*pb.CommitResponse, error) {
		in, err := commitFromProto(q, client(ctx))
		if err != nil {
			return nil, err
		}
		ctx = s.forwarding(ctx, pb.TransactionService_Commit_FullMethodName, q)
		o, err := c.Commit(ctx, in)
		return &pb.CommitResponse{Outcome: outcomeToProto(o)}, err
	})
}

func (s transactions) CommitOnce(ctx context.Context, q *pb.CommitOnceRequest) (*pb.CommitOnceResponse, error) {
	return unary(ctx, s.service, q, func(c Catalog) (*pb.CommitOnceResponse, error) {
		in, err := onceFromProto(q, client(ctx))
		if err != nil {
			return nil, err
		}
		if in.Key != "" { // without one it would be another transaction there
			ctx = s.forwarding(ctx, pb.TransactionService_CommitOnce_FullMethodName, q)
		}
		o, token, err := c.CommitOnce(ctx, in)
		return &pb.CommitOnceResponse{Outcome: outcomeToProto(o), Token: token}, err
	})
}

func (s transactions) Abort(ctx context.Context, q *pb.AbortRequest) (*pb.AbortResponse, error) {
	return unary(ctx, s.service, q, func(c Catalog) (*pb.AbortResponse, error) {
		ref, reason, err := abortFromProto(q)
		if err != nil {
			return nil, err
		}
		o, err := c.Abort(ctx, ref, reason)
		return &pb.AbortResponse{Outcome: outcomeToProto(o)}, err
	})
}

func (s transactions) GetOutcome(ctx context.Context, q *pb.GetOutcomeRequest) (*pb.GetOutcomeResponse, error) {
	return unary(ctx, s.service, q, func(c Catalog) (*pb.GetOutcomeResponse, error) {
		in, err := outcomeFromProto(q)
		if err != nil {
			return nil, err
		}
		o, since, err := c.Outcome(ctx, in)
		return &pb.GetOutcomeResponse{Outcome: outcomeToProto(o), RememberedSince: timestamp(since)}, err
	})
}

func (s transactions) ListTransactions(
	ctx context.Context, q *pb.ListTransactionsRequest,
) (*pb.ListTransactionsResponse, error) {
	return unary(ctx, s.service, q, func(c Catalog) (*pb.ListTransactionsResponse, error) {
		l, err := c.List(ctx, listFromProto(q))
		return listedToProto(l), err
	})
}
