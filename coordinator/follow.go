package coordinator

import (
	"context"
	"errors"
	"time"

	"github.com/txcoord/txcoord/lock"
	"github.com/txcoord/txcoord/twophase"
)

// minFollow is how soon an idle replica looks again after it has seen an entry.
const minFollow = 20 * time.Millisecond

// follow folds what other replicas append while this one does nothing, so that its
// snapshots are fresh. A store that can be watched says when to look; for others,
// and should the watch be cut off unnoticed, the pauses between looks grow from
// 20 ms after the newest entry to FollowInterval. Nothing rests on it: whatever has
// to be sure of the head reads it (catchUp).
func (c *Catalog) follow(ctx context.Context) {
	if !c.cfg.SharedStore {
		return
	}
	moved := make(chan struct{}, 1)
	longest := c.cfg.Limits.FollowInterval
	if store, ok := c.cfg.Store.(lock.Watcher); ok {
		c.spawn(func(ctx context.Context) { c.watchRing(ctx, store, moved) })
		longest *= 5
	}
	wait := longest
	for {
		if !c.nextLook(ctx, moved, wait) {
			return
		}
		switch seen, err := c.followOnce(ctx); {
		case err != nil:
			wait = longest
		case seen:
			wait = min(minFollow, longest)
		default:
			wait = min(2*wait, longest)
		}
	}
}

// nextLook waits until it is time to look. It reports false at the end.
func (c *Catalog) nextLook(ctx context.Context, moved <-chan struct{}, wait time.Duration) bool {
	t := time.NewTimer(wait)
	defer t.Stop()
	select {
	case <-t.C:
	case <-moved:
	case <-ctx.Done():
		return false
	}
	return true
}

// followOnce reports whether there was anything new. A replica that appends is at
// the head anyway.
func (c *Catalog) followOnce(ctx context.Context) (seen bool, err error) {
	was := c.next()
	err = c.catchUp(ctx)
	if err != nil && ctx.Err() == nil && c.ledger.stopped() == nil {
		c.log.Warn("follow the journal", "error", err)
	}
	return c.next() != was, err
}

// afterHead returns an error of a call once the head was read after it, so that what
// another replica did is not refused for not being seen here (R5).
func (c *Catalog) afterHead(ctx context.Context, err error) error {
	if err == nil || !c.cfg.SharedStore || ctx.Err() != nil {
		return err
	}
	if failed := c.catchUp(ctx); failed != nil {
		return failed
	}
	return err
}

// latestWait is how long "latest" waits for the store.
const latestWait = 2 * time.Second

// freshLatest folds what other replicas have appended, before "latest" is said (R5).
// While the store does not answer, what is in memory is the latest: readers go on, and
// what they have seen before is in it (AtLeast). A build that is too old to read on has
// no latest: others have.
func (c *Catalog) freshLatest(ctx context.Context) error {
	if !c.cfg.SharedStore {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, latestWait)
	defer cancel()
	if err := c.catchUp(ctx); err != nil && ctx.Err() == nil {
		c.log.Warn("the latest snapshot is answered from memory", "error", err)
	}
	if errors.Is(c.ledger.stopped(), twophase.ErrUnknownRecord) {
		return c.isOld()
	}
	return nil
}

// watchRing hears of entries. Those that are folded already, of this replica's own
// for one, are nothing to look for.
func (c *Catalog) watchRing(ctx context.Context, store lock.Watcher, moved chan<- struct{}) {
	store.Watch(ctx, c.journal.Prefix(), func(item lock.Item) {
		if at, err := twophase.EntryPosition(item.Value); err == nil && at < c.next() {
			return
		}
		select {
		case moved <- struct{}{}:
		default:
		}
	})
}

// Behind is closed when the journal's ring has gone past what this replica has
// folded (R1): it was paused for a whole lap. The catalog answers REPLICA_BEHIND
// from then on. Close it and Open it again; it starts from the newest checkpoint.
func (c *Catalog) Behind() <-chan struct{} { return c.behind }

// stopsLedger: what the journal answered is no error of its store, which may be gone at
// the next try.
func stopsLedger(err error) bool {
	return errors.Is(err, lock.ErrBehind) || errors.Is(err, lock.ErrShort) || errors.Is(err, twophase.ErrDamaged)
}

// lapped stops this replica for an error that stopsLedger.
func (c *Catalog) lapped(err error) error {
	if errors.Is(err, lock.ErrBehind) {
		c.behindOnce.Do(func() { close(c.behind) })
	}
	if errors.Is(err, twophase.ErrDamaged) && c.ledger.stopped() == nil {
		c.log.Error("the journal is damaged; the catalog takes no writes", "error", err)
	}
	return c.ledger.fail(err)
}

// isBehind is the answer of a replica that has to start again.
func (c *Catalog) isBehind(cause error) error {
	return &Error{
		Reason: ReplicaBehind, Cause: cause, RetryAfter: time.Second,
		Message: "this replica was away for so long that the journal has gone past it; it starts again from the newest checkpoint. Repeat the call, at any replica",
	}
}
