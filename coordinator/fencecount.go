package coordinator

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/txcoord/txcoord/twophase"
)

// graces count how long each fence has been recorded, on this replica's own clock and
// from when it first saw it (R16). The one that has counted to the end says so in the
// journal, so that no other counts again and no restart begins anew.
type graces struct {
	mu sync.Mutex
	m  map[twophase.TableID]grace
}

type grace struct {
	version twophase.Version
	seen    time.Duration
}

// left is how much of the grace time is left of a fence. The first call begins the count.
func (g *graces) left(id twophase.TableID, version twophase.Version, now, whole time.Duration) time.Duration {
	g.mu.Lock()
	defer g.mu.Unlock()
	if was, ok := g.m[id]; ok && was.version == version {
		return max(0, was.seen+whole-now)
	}
	if g.m == nil {
		g.m = map[twophase.TableID]grace{}
	}
	g.m[id] = grace{version, now}
	return whole
}

// countFences lets fences count whose grace time has passed here.
func (c *Catalog) countFences(ctx context.Context) {
	every(ctx, min(time.Second, max(c.cfg.Limits.FenceGrace/4, time.Millisecond)), func(ctx context.Context) {
		for _, id := range c.graced() {
			if err := c.countFence(ctx, id, false); err != nil && ctx.Err() == nil {
				c.log.Warn("a fence cannot count yet", "table", c.row(id).URI, "error", err)
			}
		}
	})
}

// graced are the tables whose fence has been recorded for the grace time.
func (c *Catalog) graced() (out []twophase.TableID) {
	now := c.cfg.Boot()
	c.ledger.read(func(s *twophase.State) {
		for _, t := range s.Tables() {
			if t.Mode == twophase.ModeFenced && !t.Fence.Counts && t.Frozen == nil &&
				c.graces.left(t.Table, t.Fence.Version, now, c.cfg.Limits.FenceGrace) == 0 {
				out = append(out, t.Table)
			}
		}
	})
	return out
}

// countFence looks at the table's log, now that no older writer can be at work, and
// records that the fence counts. What an older writer has put there before is history
// by then, and has set the mode to open: the record does not fit any more (R11).
func (c *Catalog) countFence(ctx context.Context, id twophase.TableID, byOperator bool) error {
	version := twophase.NoVersion
	c.ledger.read(func(s *twophase.State) {
		if t, ok := s.Table(id); ok && t.Mode == twophase.ModeFenced && !t.Fence.Counts {
			version = t.Fence.Version
		}
	})
	if version == twophase.NoVersion {
		return nil // it counts already, or has ended
	}
	t, err := c.tables.of(id)
	if err != nil {
		return err
	}
	if _, err := c.lookUp(ctx, t); err != nil {
		return err
	}
	err = c.seq.submit(ctx, twophase.Request{Record: &twophase.FenceCounted{Table: id, Version: version, Operator: byOperator}})
	var refused *twophase.Refused
	switch {
	case errors.As(err, &refused) && refused.Reason == twophase.ReasonStale:
		return nil
	case errors.As(err, &refused):
		return c.refusal(txnRef{}, refused)
	}
	return c.storeError(err)
}

// fenceInfo adds what this replica counts.
func (c *Catalog) fenceInfo(f *twophase.Fence, id twophase.TableID) *FenceInfo {
	if f == nil {
		return nil
	}
	out := &FenceInfo{Fence: *f, DecidedFrom: f.Counted}
	if !f.Counts {
		left := c.graces.left(id, f.Version, c.cfg.Boot(), c.cfg.Limits.FenceGrace)
		out.DecidedFrom = twophase.TimeOf(c.cfg.Now().Add(left))
	}
	return out
}

// modeReason says why a table's mode is not what somebody set it to.
func modeReason(t *twophase.Table) string {
	what, txn := t.Fencing()
	switch {
	case what == twophase.FenceRaised:
		return fmt.Sprintf("transaction %s raises the fence, and is not published yet", txn)
	case what == twophase.FenceLifted:
		return fmt.Sprintf("transaction %s lifts the fence, and is not published yet", txn)
	case t.Opened == nil:
		return ""
	}
	return openedReason(t.Opened)
}

func openedReason(o *twophase.Opened) string {
	if o.Engine == "" {
		return fmt.Sprintf("it was %s until version %d, which another writer may have put there", o.From, o.Version)
	}
	return fmt.Sprintf("it was %s until %s committed version %d", o.From, o.Engine, o.Version)
}

// decidedOffered refuses wait=DECIDED unless every table's fence counts: one error
// that names each table that is in the way, and what to do.
func (c *Catalog) decidedOffered(rows []TableInfo) error {
	var bad []string
	var first *TableDetail
	for _, row := range rows {
		if row.OffersDecided {
			continue
		}
		bad = append(bad, c.decidedRemedy(row))
		if first == nil {
			first = &TableDetail{Table: row.Name, TableID: row.ID, URI: row.URI, Version: twophase.NoVersion, Detail: row.Mode.String()}
		}
	}
	if bad == nil {
		return nil
	}
	const named = 10
	if n := len(bad); n > named {
		bad = append(bad[:named], fmt.Sprintf("and %d more tables", n-named))
	}
	return &Error{
		Reason: DecidedNotOffered, Table: first,
		Message: "wait=DECIDED needs every table fenced, and its fence to count: " + strings.Join(bad, "; ") + "; or wait for PUBLISHED",
	}
}

func (c *Catalog) decidedRemedy(row TableInfo) string {
	if row.Mode != twophase.ModeFenced {
		return fmt.Sprintf("%s is %s (fence it with: tables fence %s)", row.Name, row.Mode, row.Name)
	}
	from := c.fenceInfo(&row.Fence.Fence, row.ID).DecidedFrom.Std().Format(time.RFC3339)
	return fmt.Sprintf("%s is fenced, and older writers may be at work until %s (if none are: tables fence %s --no-older-writers)", row.Name, from, row.Name)
}
