package coordinator

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/txcoord/txcoord/twophase"
)

// answer says what became of a decided transaction, after PUBLISHED or as long as
// that is to be waited for. DECIDED is enough only where the fold says so at the
// moment of the answer; a fence that ended meanwhile means waiting on (R11). What is
// committed is never answered with an error of the catalog's own: the answer is OK,
// and says why it is still pending. The one exception is a journal that is none of the
// catalog's any more, or nobody knows (doubt).
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
	case c.doubt(o) != nil:
		return Outcome{}, c.doubt(o)
	case !c.sameDigests(ref.id, want):
		return Outcome{}, otherDigests(o)
	}
	if o.Committed.Snapshot == 0 && !decidedIs {
		why := c.pendingReason(pending, err)
		o.Committed.PendingReason = why + c.troubleOf(o, why)
	}
	return o, nil
}

// doubt is why a transaction is not answered as committed although the fold says so; nil
// as a rule. Until it is published only the journal holds it, and a journal that does not
// fit the logs and manifests, or in whose place another one was rebuilt from them, may be
// given up with what it alone holds (R7): the client would have been told that its rows
// are safe, by a server that knew better. What it is told is not final (R5): the same call
// finds out, where the catalog goes on, that it is committed, or commits it there. What is
// published is in the logs, from which a rebuild knows it.
func (c *Catalog) doubt(o Outcome) error { return c.doubtful(o, "transaction "+o.Txn.String()) }

// doubtAbout is doubt about any of several, which a list says nothing else of: who asks for it
// may not see the one that it is about.
func (c *Catalog) doubtAbout(all []Outcome) error {
	for _, o := range all {
		if err := c.doubtful(o, "a transaction of the list"); err != nil {
			return err
		}
	}
	return nil
}

func (c *Catalog) doubtful(o Outcome, what string) error {
	if o.Committed == nil || o.Committed.Snapshot != 0 {
		return nil
	}
	const remedy = "it was decided here and is not published: repeat the call where the catalog is served, when that is settled; only that answer counts"
	var why *Error
	if stopped := c.ledger.stopped(); errors.As(c.ledgerError(stopped), &why) && why.Reason == JournalContradiction {
		return &Error{Reason: JournalContradiction, Message: fmt.Sprintf("%s: %s; %s", what, why.Message, remedy), Cause: stopped}
	}
	if to := c.MovedTo(); isRebuilt(to) {
		return &Error{Reason: StoreUnavailable, Message: fmt.Sprintf("%s: this journal has ended, and the catalog goes on as %s; %s", what, to, remedy)}
	}
	return nil
}

// unlessDoubtful is an outcome that was asked for, unless there is doubt about it.
func (c *Catalog) unlessDoubtful(ctx context.Context, o Outcome) (Outcome, error) {
	if err := c.doubt(o); err != nil {
		return Outcome{}, err
	}
	return c.namedOutcome(ctx, o), nil
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

// troubleOf says which places keep a committed transaction from being published, and what is
// torn there, unless that was said.
func (c *Catalog) troubleOf(o Outcome, said string) (out string) {
	for _, d := range o.Committed.Tables {
		if d.Status != twophase.StatusPending {
			continue
		}
		for _, tr := range c.troubles.of(c.row(d.Table).URI) {
			out += fmt.Sprintf("; table %s: %s (%s)", d.Name, tr.Text, tr.Remedy)
		}
		if f := c.tables.tornAt(d.Table); f != nil && !strings.Contains(said, f.text) {
			out += fmt.Sprintf("; %s (%s)", f.text, f.remedy)
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
			if t.Frozen.Origin != t.Table { // of which the caller may not know
				return fmt.Sprintf("table %s is frozen: %s, found at another table with which it shares a transaction; txcoord tables why %[1]s", t.Name, t.Frozen.Cause)
			}
			return fmt.Sprintf("table %s is frozen: %s %s", t.Name, t.Frozen.Cause, t.Frozen.Text())
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
