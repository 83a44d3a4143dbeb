package main

import (
	"context"
	"fmt"
	"strings"

	client "github.com/txcoord/txcoord/clients/go"
	txcoordv1 "github.com/txcoord/txcoord/proto/txcoord/v1"
)

type statusCommand struct{}

func (statusCommand) Run(ctx context.Context, s *session) error {
	return s.call(ctx, "asking "+s.Server, func(ctx context.Context, api *client.Client) error {
		a, err := api.Status.GetStatus(ctx, &txcoordv1.GetStatusRequest{})
		if err != nil {
			return err
		}
		return s.show(a, nil, func(g *grid) { statusGrid(g, a) })
	})
}

func statusGrid(g *grid, a *txcoordv1.GetStatusResponse) {
	g.pair("server", a.GetServerVersion())
	g.pair("catalog id", a.GetCatalogId())
	g.pair("incarnation", a.GetIncarnation())
	g.pair("journal", fmt.Sprintf("%d entries, checkpoint at %d", a.GetPosition(), a.GetCheckpointPosition()))
	g.pair("newest entry", a.GetLastEntryAt())
	g.pair("snapshot", a.GetLatestSnapshot())
	g.pair("manifest", fmt.Sprintf("snapshot %d, %d behind", a.GetManifestSnapshot(), a.GetLatestSnapshot()-a.GetManifestSnapshot()))
	g.pair("outcomes kept since", since(a.GetRememberedSince()))
	g.pair("tables", a.GetTables())
	g.pair("open transactions", a.GetOpenTransactions())
	if len(a.GetOpenRounds()) > 0 {
		g.gap()
		g.row("ROUND", "OPENED", "TRANSACTIONS", "TABLES")
		for _, r := range a.GetOpenRounds() {
			g.row(r.GetId(), r.GetOpenedAt(), r.GetTransactions(), strings.Join(r.GetTables(), ", "))
		}
	}
	if len(a.GetFrozen()) > 0 {
		g.gap()
		g.row("FROZEN", "CAUSE", "TRANSACTION", "REASON")
		for _, f := range a.GetFrozen() {
			g.row(f.GetTable(), word(f.GetFreeze().GetCause()), orDash(f.GetFreeze().GetTransactionId()), f.GetFreeze().GetReason())
		}
	}
	if len(a.GetOpened()) > 0 {
		g.gap()
		g.row("OPEN NOW", "REASON")
		for _, o := range a.GetOpened() {
			g.row(o.GetTable(), o.GetReason())
		}
	}
}
