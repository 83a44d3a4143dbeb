package coordinator

import (
	"context"
	"time"

	"github.com/txcoord/txcoord/twophase"
)

// codec is the newest encoding that this replica agrees to (R17).
func (c *Catalog) codec() uint32 {
	return uint32(min(max(c.cfg.Limits.MaxCodec, twophase.FirstCodec), twophase.CodecVersion))
}

// switchOn has the journal written in the newest encoding that every replica knows
// which is alive, once each of them has had the time to say so. One that is paused
// meanwhile stops when it wakes and reads on.
func (c *Catalog) switchOn(ctx context.Context) {
	if c.codec() == twophase.FirstCodec {
		return
	}
	every(ctx, aliveBeats*c.cfg.Limits.Heartbeat, func(ctx context.Context) {
		agreed := c.replicas.agreed()
		var now uint32
		c.ledger.read(func(s *twophase.State) { now = s.Codec() })
		if agreed <= now || !c.duty("codec") {
			return
		}
		err := c.adminRecord(ctx, &twophase.BuildEnabled{Codec: agreed})
		switch {
		case err == nil:
			c.log.Info("the journal goes on in a newer codec; builds that do not know it stop", "codec", agreed)
		case ctx.Err() == nil:
			c.log.Warn("switch a newer codec on", "codec", agreed, "error", err)
		}
	})
}

// isOld is the answer of a replica whose build does not know what the others write
// (R17). Others do.
func (c *Catalog) isOld() error {
	return &Error{
		Reason: ReplicaBehind, Cause: c.ledger.stopped(), RetryAfter: time.Second,
		Message: "this server's build is too old for the journal, which a newer one writes; upgrade it. Repeat the call, at another replica",
	}
}

// agreed is the newest codec that all replicas know which are alive.
func (r *replicas) agreed() uint32 {
	least := r.c.codec()
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range r.seen {
		if r.alive(s) {
			least = min(least, uint32(s.record.Codec))
		}
	}
	return least
}
