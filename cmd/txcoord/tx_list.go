package main

import (
	"context"
	"fmt"
	"strings"

	"google.golang.org/protobuf/types/known/timestamppb"

	client "github.com/txcoord/txcoord/clients/go"
	txcoordv1 "github.com/txcoord/txcoord/proto/txcoord/v1"
)

type txList struct {
	Table string `help:"Only those with this table." placeholder:"TABLE"`
	All   bool   `help:"Also decided ones, newest first."`
	Limit int    `help:"At most so many decided ones." default:"100"`
}

func (c *txList) Run(ctx context.Context, s *session) error {
	return s.call(ctx, "listing transactions", func(ctx context.Context, api *client.Client) error {
		all := &txcoordv1.ListTransactionsResponse{}
		for {
			a, err := api.Transactions.ListTransactions(ctx, &txcoordv1.ListTransactionsRequest{
				Table: c.Table, IncludeDecided: c.All, PageSize: maxPage, PageToken: all.GetNextPageToken(),
			})
			if err != nil {
				return err
			}
			all.LatestSnapshot, all.NextPageToken = a.GetLatestSnapshot(), a.GetNextPageToken()
			all.Open = append(all.Open, a.GetOpen()...)
			all.Decided = append(all.Decided, a.GetDecided()...)
			if a.GetNextPageToken() == "" || len(all.GetDecided()) >= c.Limit {
				break
			}
		}
		all.Decided = all.Decided[:min(len(all.Decided), c.Limit)]
		return s.showTransactions(all)
	})
}

func (s *session) showTransactions(all *txcoordv1.ListTransactionsResponse) error {
	ids := []string{}
	for _, o := range all.GetOpen() {
		ids = append(ids, o.GetTransactionId())
	}
	for _, o := range all.GetDecided() {
		ids = append(ids, o.GetTransactionId())
	}
	return s.show(all, ids, func(g *grid) { transactionsGrid(g, all) })
}

func transactionsGrid(g *grid, all *txcoordv1.ListTransactionsResponse) {
	g.row("TRANSACTION", "STATE", "KEY", "ATTEMPT", "BEGUN", "DEADLINE, DECIDED", "TABLES", "DETAIL")
	for _, o := range all.GetOpen() {
		var names []string
		for _, t := range o.GetTables() {
			names = append(names, t.GetTable())
		}
		g.row(o.GetTransactionId(), "open", orDash(o.GetKey()), o.GetAttempt(), orDash(clock(o.GetBegunAt())), orDash(clock(o.GetDeadline())),
			orDash(strings.Join(names, ", ")), "by "+o.GetClient())
	}
	for _, o := range all.GetDecided() {
		g.row(o.GetTransactionId(), stateWord(o), orDash(o.GetKey()), o.GetAttempt(), "-", orDash(clock(decidedAt(o))), orDash(outcomeTables(o)), outcomeDetail(o))
	}
}

// decidedAt is when the journal committed or aborted a transaction; when it was begun is
// not kept.
func decidedAt(o *txcoordv1.Outcome) *timestamppb.Timestamp {
	if a := o.GetAborted(); a != nil {
		return a.GetDecidedAt()
	}
	return o.GetCommitted().GetDecidedAt()
}

func outcomeTables(o *txcoordv1.Outcome) string {
	var all []string
	for _, t := range o.GetCommitted().GetTables() {
		all = append(all, t.GetTable()+"@"+versionText(t.GetVersion()))
	}
	return strings.Join(all, ", ")
}

func outcomeDetail(o *txcoordv1.Outcome) string {
	if a := o.GetAborted(); a != nil {
		return conflictText(a.GetConflict())
	}
	if v := o.GetCommitted().GetSnapshotVersion(); v != 0 {
		return fmt.Sprintf("snapshot %d", v)
	}
	return "pending"
}
