package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	client "github.com/txcoord/txcoord/clients/go"
	"github.com/txcoord/txcoord/internal/number"
	txcoordv1 "github.com/txcoord/txcoord/proto/txcoord/v1"
)

type statusCommand struct{}

func (statusCommand) Run(ctx context.Context, s *session) error {
	return s.call(ctx, "asking "+s.Server, func(ctx context.Context, api *client.Client) error {
		a, err := api.Status.GetStatus(ctx, &txcoordv1.GetStatusRequest{})
		if err != nil {
			return err
		}
		return s.show(a, []string{fmt.Sprint(a.GetLatestSnapshot())}, func(g *grid) { statusGrid(g, a) })
	})
}

func statusGrid(g *grid, a *txcoordv1.GetStatusResponse) {
	g.pair("server", a.GetServerVersion())
	g.pair("catalog id", a.GetCatalogId())
	g.pair("incarnation", a.GetIncarnation())
	g.pair("journal", fmt.Sprintf("%s, checkpoint at %d, codec %d", number.Of(a.GetPosition(), "entry"), a.GetCheckpointPosition(), a.GetCodec()))
	if a.GetLastEntryAt() == nil {
		g.pair("newest entry", "none yet")
	} else {
		g.pair("newest entry", a.GetLastEntryAt())
	}
	g.pair("snapshot", a.GetLatestSnapshot())
	g.pair("manifest", fmt.Sprintf("snapshot %d, %d behind", a.GetManifestSnapshot(), a.GetLatestSnapshot()-a.GetManifestSnapshot()))
	g.pair("outcomes kept since", since(a.GetRememberedSince()))
	g.pair("tables", a.GetTables())
	g.pair("open transactions", a.GetOpenTransactions())
	if len(a.GetReplicas()) > 0 {
		g.gap()
		g.row("REPLICA", "ADDRESS", "BUILD", "CODEC", "BEHIND", "SNAPSHOT", "STARTED", "LAST SEEN")
		for _, r := range a.GetReplicas() {
			g.row(r.GetId(), orDash(r.GetAddress()), r.GetBuild(), r.GetCodec(), behind(a, r), r.GetSnapshot(), clock(r.GetStartedAt()), lastSeen(r))
		}
	}
	if len(a.GetTroubles()) > 0 {
		g.gap()
		g.row("TROUBLE", "SINCE", "WHAT TO DO")
		for _, t := range a.GetTroubles() {
			g.row(t.GetText(), t.GetSince(), t.GetRemedy())
		}
	}
	if len(a.GetOpenRounds()) > 0 {
		g.gap()
		g.row("ROUND", "OPENED", "TRANSACTIONS", "TABLES")
		for _, r := range a.GetOpenRounds() {
			g.row(r.GetId(), r.GetOpenedAt(), r.GetTransactions(), strings.Join(r.GetTables(), ", "))
		}
	}
	if len(a.GetFrozen()) > 0 {
		g.gap()
		g.row("FROZEN", "SINCE", "CAUSE", "TRANSACTION", "REASON")
		for _, f := range a.GetFrozen() {
			g.row(f.GetTable(), f.GetFreeze().GetSince(), freezeWord(f.GetFreeze()), orDash(f.GetFreeze().GetTransactionId()), f.GetFreeze().GetReason())
		}
	}
	if len(a.GetReservations()) > 0 {
		g.gap()
		g.row("GOES FIRST", "SINCE", "LOST", "UNTIL", "TABLES")
		for _, r := range a.GetReservations() {
			g.row(r.GetKey(), r.GetSince(), fmt.Sprintf("attempt %d", r.GetAttempt()), fmt.Sprintf("entry %d", r.GetUntilPosition()), strings.Join(r.GetTables(), ", "))
		}
		g.gap()
		g.pair("held back behind them", a.GetHeldBack())
	}
	if len(a.GetOpened()) > 0 {
		g.gap()
		g.row("OPEN NOW", "REASON")
		for _, o := range a.GetOpened() {
			g.row(o.GetTable(), o.GetReason())
		}
	}
}

// behind is how many entries a replica had not folded when it last announced itself.
func behind(a *txcoordv1.GetStatusResponse, r *txcoordv1.Replica) uint64 {
	return max(a.GetPosition(), r.GetPosition()) - r.GetPosition()
}

func lastSeen(r *txcoordv1.Replica) string {
	ago := r.GetSilent().AsDuration().Round(time.Second).String() + " ago"
	switch {
	case r.GetSelf():
		return "answers"
	case r.GetAlive():
		return ago
	default:
		return ago + ", silent"
	}
}
