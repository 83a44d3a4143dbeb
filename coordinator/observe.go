package coordinator

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/txcoord/txcoord/coordinator/telemetry"
	"github.com/txcoord/txcoord/tables"
	"github.com/txcoord/txcoord/tables/objstore"
	"github.com/txcoord/txcoord/twophase"
)

// failure is the name of an error for those who look at numbers: its words may say what
// a client sent.
func failure(err error) string {
	var own *Error
	switch {
	case err == nil:
		return ""
	case errors.As(err, &own):
		return string(own.Reason)
	case errors.Is(err, context.DeadlineExceeded):
		return "DEADLINE_EXCEEDED"
	case errors.Is(err, context.Canceled):
		return "CANCELLED"
	}
	return "OTHER"
}

// outcomeFor sorts the end of a commit call.
func outcomeFor(o Outcome, err error) telemetry.Outcome {
	var own *Error
	switch {
	case err == nil && o.Committed != nil:
		return telemetry.Committed
	case !errors.As(err, &own):
		return telemetry.Unknown // its context ended
	}
	switch own.Reason {
	case Conflicted, Expired, Aborted, AppVersionApplied:
		if own.Conflict != nil {
			return telemetry.Aborted
		}
	case OutcomeUnknown, StoreUnavailable, ShuttingDown, ReplicaBehind, TableReserved, JournalContradiction:
		return telemetry.Unknown
	default:
	}
	return telemetry.Refused
}

// answered notes the end of a commit call.
func (c *Catalog) answered(ctx context.Context, work telemetry.Work, id twophase.TxnID, o Outcome, err error) {
	outcome := outcomeFor(o, err)
	work.Committed(outcome, failure(err))
	if !c.log.Enabled(ctx, slog.LevelDebug) {
		return
	}
	all := []slog.Attr{TxnAttr(id), slog.String("outcome", string(outcome))}
	if err != nil {
		all = append(all, slog.String("reason", failure(err)))
	} else if o.Committed != nil {
		all = append(all, slog.Uint64("position", uint64(o.Position)), slog.Uint64("snapshot", uint64(o.Committed.Snapshot)), slog.Int("tables", len(o.Committed.Tables)))
	}
	c.log.LogAttrs(ctx, slog.LevelDebug, "commit", all...)
}

// appended notes an append, before its entry is folded: the publisher may be quicker
// than whoever appended.
func (s *sequencer) appended(e *twophase.Entry, group []*submission, began time.Time, won bool) {
	t := s.c.cfg.Telemetry
	if t == nil {
		return
	}
	if !won {
		t.Lost()
		return
	}
	waiting := make(map[twophase.TxnID]telemetry.Queued, len(group))
	for _, sub := range group {
		if sub.request.Commit != nil {
			waiting[sub.request.Commit.Record.Txn] = sub.queued
		}
	}
	a := telemetry.Append{Position: e.Position, Began: began}
	for _, r := range e.Records {
		switch r := r.(type) {
		case *twophase.Committed:
			a.Committed = append(a.Committed, telemetry.Member{Txn: r.Txn, Queued: waiting[r.Txn]})
		case *twophase.Aborted:
			a.Aborted = append(a.Aborted, r.Rule)
		case *twophase.Reserved:
			a.Reserved++
		}
	}
	t.Appended(a)
}

// notePut notes a put of a version.
func (c *Catalog) notePut(t *handle, v twophase.Version, in *tables.RenderInput, several bool, began time.Time, err error) {
	if c.cfg.Telemetry == nil || len(in.Txns) == 0 {
		return
	}
	p := telemetry.Put{Table: c.row(t.id).Name, Version: v, Began: began, Round: in.Round, Several: several, Done: err == nil, Answer: "done"}
	for i := range in.Txns {
		p.Txns = append(p.Txns, in.Txns[i].ID)
	}
	switch {
	case err == nil:
	case errors.Is(err, objstore.ErrExists):
		p.Answer = "exists"
	case errors.Is(err, objstore.ErrUnknown):
		p.Answer = "unknown"
	default:
		p.Answer = "failed"
	}
	c.cfg.Telemetry.Put(p)
}

// closed notes which of the rounds that an entry may close it has closed. The ledger's
// lock is held.
func (c *Catalog) closed(rounds []*twophase.Round) {
	if c.cfg.Telemetry == nil {
		return
	}
	s := c.ledger.state
	for _, r := range rounds {
		if _, open := s.Round(r.ID); open {
			continue
		}
		c.cfg.Telemetry.Closed(r.ID.String(), r.Txns, func(id twophase.TxnID) (v twophase.SnapshotVersion) {
			if o := s.Outcome(id); o != nil {
				v = o.Snapshot
			}
			return v
		})
	}
}

// observation is how the catalog is, for gauges.
func (c *Catalog) observation() telemetry.State {
	out := telemetry.State{
		Tables: map[twophase.Mode]int{}, Frozen: map[twophase.Cause]int{}, Manifest: c.manifests.written(), Open: c.openTxns.count(),
		Slots: c.journal.Slots(), Replicas: len(c.replicas.live(everything)), Broken: c.ledger.stopped() != nil,
	}
	out.Backlog, out.Limit = c.backlog.size()
	out.Quotas = c.book.Fullest()
	out.HeldBack = int(c.seq.parked.held.Load())
	out.Unread, out.Unput = c.troubles.count()
	now := c.cfg.Now()
	c.ledger.read(func(s *twophase.State) {
		out.Snapshot, out.Position, out.Waiting = s.Shown(), s.Next(), s.Waiting()
		out.Remembered = s.Holds() + len(s.Snapshots())
		if some := s.NextManifests(out.Manifest, 1); len(some) > 0 {
			out.Late = max(now.Sub(some[0].Time.Std()), 0)
		}
		out.Reserved = reservedCount(s)
		out.Free = out.Slots - min(out.Slots, s.Next()-s.Checkpoint().Position)
		for _, t := range s.Tables() {
			out.Tables[t.Mode]++
			if f := t.Freezing(); f != nil {
				out.Frozen[f.Cause]++
			}
		}
		for _, r := range s.Rounds() {
			out.Rounds++
			if !s.Held(r) {
				out.Lag = max(out.Lag, now.Sub(r.Time.Std()))
			}
		}
	})
	return out
}

// ErrMoved: the catalog lives in another store now.
var ErrMoved = errors.New("the catalog has moved")

// Ready says why this replica does not serve; nil if it does. A store that is away is no
// reason: it is away for the other replicas, too.
func (c *Catalog) Ready() error {
	select {
	case <-c.behind:
		return c.isBehind(nil)
	case <-c.life.Done():
		return c.ledgerError(errClosing)
	default:
	}
	if err := c.ledger.stopped(); err != nil {
		return c.ledgerError(err)
	}
	if to := c.MovedTo(); to != "" {
		return fmt.Errorf("%w to %s", ErrMoved, to)
	}
	return nil
}
