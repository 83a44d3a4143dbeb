package main

import (
	"context"
	"fmt"
	"time"

	client "github.com/txcoord/txcoord/clients/go"
	txcoordv1 "github.com/txcoord/txcoord/proto/txcoord/v1"
)

type tablesFence struct {
	tableArg
	Wait           bool `help:"Wait until the fence counts, so that commits may be answered when they are decided. That takes the server's grace time; see --timeout."`
	NoOlderWriters bool `help:"Your word that nobody writes any more who opened the table before the fence was there. The fence counts at once; recorded."`
}

// fenceLook is the time between two looks at a fence that does not count yet.
const fenceLook = 5 * time.Second

func (c *tablesFence) Run(ctx context.Context, s *session) error {
	return s.call(ctx, "fencing "+c.Table, func(ctx context.Context, api *client.Client) error {
		for {
			a, err := api.Tables.FenceTable(ctx, &txcoordv1.FenceTableRequest{Table: c.Table, NoOlderWriters: c.NoOlderWriters})
			if err != nil {
				return err
			}
			fence := a.GetTable().GetFence()
			if !c.Wait || fence.GetCounts() {
				return s.showTable(a, a.GetTable())
			}
			select {
			case <-ctx.Done():
				return fmt.Errorf("%s is fenced; it counts from %s: %w", c.Table, clock(fence.GetDecidedFrom()), ctx.Err())
			case <-time.After(min(fenceLook, max(time.Until(fence.GetDecidedFrom().AsTime()), 100*time.Millisecond))):
			}
		}
	})
}

type tablesUnfence struct{ tableArg }

func (c *tablesUnfence) Run(ctx context.Context, s *session) error {
	return s.call(ctx, "unfencing "+c.Table, func(ctx context.Context, api *client.Client) error {
		a, err := api.Tables.UnfenceTable(ctx, &txcoordv1.UnfenceTableRequest{Table: c.Table})
		if err != nil {
			return err
		}
		return s.showTable(a, a.GetTable())
	})
}

// fencePairs say since when a table is fenced, and from when that counts.
func fencePairs(g *grid, t *txcoordv1.Table) {
	if f := t.GetFence(); f != nil {
		g.pair("fenced", fmt.Sprintf("since %s, version %d", clock(f.GetSince()), f.GetVersion()))
		from := clock(f.GetDecidedFrom())
		switch {
		case f.GetByOperator():
			from += ", by an operator's word"
		case !f.GetCounts():
			from += ", unless an older writer commits before"
		}
		g.pair("decided from", from)
	}
	g.pair("mode because", t.GetModeReason())
}
