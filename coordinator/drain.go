package coordinator

import (
	"context"
	"time"

	"github.com/txcoord/txcoord/twophase"
)

// drainLook is how often Drain looks whether the manifests have followed.
const drainLook = 5 * time.Millisecond

// Drain waits until what is decided is published and every snapshot has its
// manifest, or until ctx ends; of the work of several replicas, until its own is done. A server that stops in order drains after its last
// call, so that readers of the objects alone see all that was answered; nothing is
// lost without it. Rounds that an operator has to look at are left alone.
func (c *Catalog) Drain(ctx context.Context) error {
	for {
		if err := c.ledger.wait(ctx, c.quiet); err != nil {
			return c.ledgerError(err)
		}
		if _, ours := c.manifests.pending(); !ours {
			return nil
		}
		pause(ctx, drainLook)
		if err := ctx.Err(); err != nil {
			return err
		}
	}
}

// quiet: no transaction waits for a publication that is this replica's business and
// can go on by itself. In a journal that has ended none can be recorded.
func (c *Catalog) quiet(s *twophase.State) bool {
	if ended(s) {
		return true
	}
	for _, r := range s.Rounds() {
		if !s.Held(r) && c.wrote.has(r.ID.Opened) {
			return false
		}
	}
	return !s.Gathering() || !c.wrote.has(s.Next()-1)
}
