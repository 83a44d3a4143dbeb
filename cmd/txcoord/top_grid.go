package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/txcoord/txcoord/internal/number"
	txcoordv1 "github.com/txcoord/txcoord/proto/txcoord/v1"
)

func topGrid(g *grid, before, now sight, tables int) {
	a := now.status
	var rates []string
	for _, r := range topRates {
		text := "-"
		if v, ok := rate(before, now, r.count); ok {
			text = fmt.Sprintf("%.1f", v)
		}
		rates = append(rates, text+" "+r.name)
	}
	g.pair("a second", strings.Join(rates, ", "))
	g.pair("open", fmt.Sprintf("%s, %s%s, %d decided wait for one", number.Of(a.GetOpenTransactions(), "transaction"), number.Of(len(a.GetOpenRounds()), "round"), oldest(a), a.GetWaiting()))
	g.pair("backlog", fmt.Sprintf("%s of %s", bytesText(a.GetBacklogBytes()), bytesText(a.GetBacklogLimit())))
	g.pair("manifests", fmt.Sprintf("%d behind snapshot %d", a.GetLatestSnapshot()-min(a.GetLatestSnapshot(), a.GetManifestSnapshot()), a.GetLatestSnapshot()))
	g.pair("journal", fmt.Sprintf("%s, %d since the checkpoint, of %d slots", number.Of(a.GetPosition(), "entry"), a.GetPosition()-min(a.GetPosition(), a.GetCheckpointPosition()), a.GetRingSlots()))
	g.pair("tables", fmt.Sprintf("%d, %d frozen", a.GetTables(), len(a.GetFrozen())))
	if slowest, since := slow(now, tables); len(slowest) > 0 {
		g.gap()
		g.row("TABLE", "VERSION", "PENDING", "OPEN FOR", "STATE")
		for _, t := range slowest {
			g.row(t.GetName(), t.GetVersion(), t.GetPendingChanges(), age(a, since[t.GetName()]), tableState(t))
		}
	}
	if len(a.GetReplicas()) > 1 {
		g.gap()
		g.row("REPLICA", "ADDRESS", "BUILD", "BEHIND", "LAST SEEN")
		for _, r := range a.GetReplicas() {
			g.row(r.GetId(), orDash(r.GetAddress()), r.GetBuild(), behind(a, r), lastSeen(r))
		}
	}
	for _, t := range a.GetTroubles() {
		g.gap()
		g.row("TROUBLE: " + t.GetText())
		g.row("  what to do: " + t.GetRemedy())
	}
}

// oldest is how long the oldest round is open.
func oldest(a *txcoordv1.GetStatusResponse) string {
	if len(a.GetOpenRounds()) == 0 {
		return ""
	}
	return ", the oldest for " + age(a, a.GetOpenRounds()[0].GetOpenedAt().AsTime())
}

// age is the time since, on the server's clock.
func age(a *txcoordv1.GetStatusResponse, since time.Time) string {
	if since.IsZero() || a.GetServerTime() == nil {
		return "-"
	}
	return max(a.GetServerTime().AsTime().Sub(since), 0).Round(100 * time.Millisecond).String()
}

func topJSON(before, now sight, tables int) object {
	rates := object{}
	for _, r := range topRates {
		if v, ok := rate(before, now, r.count); ok {
			rates = append(rates, field{r.name, v})
		}
	}
	rows := []object{}
	slowest, since := slow(now, tables)
	for _, t := range slowest {
		row := object{{"table", t.GetName()}, {"version", t.GetVersion()}, {"pending", t.GetPendingChanges()}, {"state", tableState(t)}}
		if at := since[t.GetName()]; !at.IsZero() {
			row = append(row, field{"openSince", at.Format(time.RFC3339Nano)})
		}
		rows = append(rows, row)
	}
	return object{{"perSecond", rates}, {"tables", rows}, {"status", messageJSON(now.status.ProtoReflect())}}
}
