package coordinator

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/txcoord/txcoord/twophase"
)

// answer says what became of a decided transaction, after PUBLISHED or as long as
// that is to be waited for. DECIDED is enough only where the fold says so at the
// moment of the answer; a fence that ended meanwhile means waiting on (R11). What is
// committed is never answered with an error of the catalog's own: the answer is OK,
// and says why it is still pending.
func (c *Catalog) answer(ctx context.Context, ref txnRef, want content, wait Wait, limit time.Duration) (Outcome, error) {
	waiting, cancel := waitFor(ctx, limit)
	defer cancel()
	pending, decidedIs := "", false
	err := c.ledger.waitTxn(waiting, ref.id, func(s *twophase.State) bool {
		o := s.Outcome(ref.id)
		if o == nil {
			return false
		}
		if o.Abort != nil || o.Snapshot != 0 {
			return true
		}
		if decidedIs = wait == WaitDecided && s.DecidedSuffices(ref.id); decidedIs {
			return true
		}
		pending = heldReason(s, o)
		return pending != ""
	})
	o, ok := c.decidedOutcome(ref.id)
	o = o.named(ref.key, ref.attempt)
	switch {
	case ctx.Err() != nil && err != nil:
		return Outcome{}, ctx.Err()
	case !ok && (err == nil || waiting.Err() != nil):
		return Outcome{}, &Error{Reason: OutcomeUnknown, Message: "the outcome is not known yet; repeat the call"}
	case !ok:
		return Outcome{}, c.ledgerError(err)
	case o.Aborted != nil:
		return Outcome{}, c.lostButFirst(o)
	case !c.sameDigests(ref.id, want):
		return Outcome{}, otherDigests(o)
	}
	if o.Committed.Snapshot == 0 && !decidedIs {
		o.Committed.PendingReason = c.pendingReason(pending, err) + c.troubleOf(o)
	}
	return o, nil
}

// waitFor bounds the wait for PUBLISHED: by the request's limit, and by a moment before
// the caller's deadline, so that it hears that its transaction is committed, and why it
// is not published, instead of nothing.
func waitFor(ctx context.Context, limit time.Duration) (context.Context, context.CancelFunc) {
	if end, ok := ctx.Deadline(); ok {
		left := time.Until(end)
		if left -= min(left/10, time.Second); limit <= 0 || left < limit {
			limit = max(left, 1)
		}
	}
	if limit <= 0 {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, limit)
}

// troubleOf says which places keep a committed transaction from being published.
func (c *Catalog) troubleOf(o Outcome) (out string) {
	for _, d := range o.Committed.Tables {
		if d.Status != twophase.StatusPending {
			continue
		}
		for _, tr := range c.troubles.of(c.row(d.Table).URI) {
			out += fmt.Sprintf("; table %s: %s (%s)", d.Name, tr.Text, tr.Remedy)
		}
	}
	return clip(out, 1024)
}

// pendingReason says why a committed transaction is not waited for any longer.
func (c *Catalog) pendingReason(frozen string, err error) string {
	switch {
	case frozen != "":
		return frozen
	case isContext(err):
		return "the time to wait has passed; publication goes on"
	}
	return c.ledgerError(err).Error()
}

// heldReason says what keeps a committed transaction from being published here: the
// catalog has moved, or a table is frozen.
func heldReason(s *twophase.State, o *twophase.Outcome) string {
	if to := s.MovedTo(); to != "" {
		return "the catalog has moved to " + to + "; publication goes on there"
	}
	for i := range o.Commit.Parts {
		t, ok := s.Table(o.Commit.Parts[i].Table)
		settled := o.Parts[i].Status == twophase.StatusPublished || o.Parts[i].Status == twophase.StatusNotApplied
		if ok && t.Frozen != nil && !settled {
			return fmt.Sprintf("table %s is frozen: %s %s", t.Name, t.Frozen.Cause, t.Frozen.Detail)
		}
	}
	return ""
}

func (c *Catalog) sameDigests(id twophase.TxnID, want content) bool {
	same := false
	c.ledger.read(func(s *twophase.State) {
		o := s.Outcome(id)
		if o == nil || o.Commit == nil || len(o.Commit.Parts) != len(want.digests) || !slices.Equal(o.Commit.Releases, want.releases) {
			return
		}
		for i := range o.Commit.Parts {
			if !slices.Equal(o.Commit.Parts[i].Digests, want.digests[o.Commit.Parts[i].Table]) {
				return
			}
		}
		same = true
	})
	return same
}
