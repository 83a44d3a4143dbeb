package rpc

import (
	"github.com/txcoord/txcoord/coordinator"
	pb "github.com/txcoord/txcoord/proto/txcoord/v1"
)

// txnExplanationToProto relies on the states having the wire's numbers; a test holds
// them together.
func txnExplanationToProto(x coordinator.TxnExplanation) *pb.ExplainTransactionResponse {
	out := &pb.ExplainTransactionResponse{
		State: pb.TransactionState(x.State), Text: text(x.Text, maxText), Remedy: text(x.Remedy, maxText), Outcome: outcomeToProto(x.Outcome),
		Attempts: each(x.Attempts, outcomeToProto), Round: roundToProto(x.Round), Before: uint32(x.Before), Behind: uint32(x.Behind),
		Ahead:           each(x.Ahead[:min(len(x.Ahead), maxRounds)], func(r coordinator.RoundInfo) *pb.Round { return roundToProto(&r) }),
		Waiting:         each(x.Waiting, txnID),
		RememberedSince: timestamp(x.RememberedSince),
		Obstacles: each(x.Obstacles, func(o coordinator.TxnObstacle) *pb.TransactionObstacle {
			return &pb.TransactionObstacle{Table: whole(o.Table), Findings: each(o.Findings, findingToProto)}
		}),
	}
	if x.Open != nil {
		out.Open = openToProto(*x.Open)
	}
	if w := x.Winner; w != nil {
		out.Winner = &pb.TransactionWinner{
			TransactionId: txnID(w.Txn), Key: whole(w.Key), Engine: whole(w.Engine), Operation: text(w.Operation, maxText),
			Version: int64(w.Version), Probable: w.Probable, Text: text(w.String(), maxText), CommittedAt: timestamp(w.At),
		}
	}
	return out
}
