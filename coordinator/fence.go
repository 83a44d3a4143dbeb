package coordinator

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/uuid"

	"github.com/txcoord/txcoord/tables"
	"github.com/txcoord/txcoord/twophase"
)

// FenceRequest asks for a fence (R11).
type FenceRequest struct {
	Table string
	// NoOlderWriters is the operator's word that nobody who read the table's protocol
	// before the fence was published will write any more. It stands for the grace time.
	NoOlderWriters bool
}

// FenceInfo is the fence of a table, as this replica sees it.
type FenceInfo struct {
	twophase.Fence
	// DecidedFrom is when DECIDED is offered from, or, while it is not, when the grace
	// time ends by this replica's counting.
	DecidedFrom twophase.Time
}

// fenceTries bounds how often a fence change is made again because somebody else's
// change of the protocol or the metadata was quicker.
const fenceTries = 20

// Fence raises a table's fence and waits until that is recorded as published. A call
// that finds the change on its way, from a caller that has gone, waits for it. With the
// operator's word the fence counts when the call answers.
func (c *Catalog) Fence(ctx context.Context, r FenceRequest) (TableInfo, error) {
	row, err := c.table(r.Table)
	if err != nil {
		return TableInfo{}, err
	}
	if row.Mode == twophase.ModeDeltaStorage {
		// A Spark writer that is older than the fence would meet puts without a claim.
		return TableInfo{}, wrongMode(row, "stop the writers with Spark's log store, and set the mode to open first")
	}
	err = c.changeFence(ctx, row.ID, twophase.FenceRaised, func(t *twophase.Table, _ *tables.Profile) bool {
		return t.Mode == twophase.ModeFenced
	})
	if err == nil && r.NoOlderWriters {
		err = c.countFence(ctx, row.ID, true)
	}
	if err != nil {
		return TableInfo{}, err
	}
	return c.full(row.ID), nil
}

// Unfence lifts a table's fence and waits until that is published. The mode is open,
// and DECIDED is not answered any more, from the decision on (R11). A table that
// carries the fence of another catalog, or one that a foreign commit ended, loses it too.
func (c *Catalog) Unfence(ctx context.Context, ref string) (TableInfo, error) {
	row, err := c.table(ref)
	if err != nil {
		return TableInfo{}, err
	}
	err = c.changeFence(ctx, row.ID, twophase.FenceLifted, func(t *twophase.Table, p *tables.Profile) bool {
		return t.Mode != twophase.ModeFenced && !p.Fenced()
	})
	if err != nil {
		return TableInfo{}, err
	}
	return c.full(row.ID), nil
}

// changeFence makes fence changes until the table is as wanted: one that loses to
// another change of the protocol, or is given up for it, is made anew.
func (c *Catalog) changeFence(ctx context.Context, id twophase.TableID, what twophase.Fencing,
	reached func(*twophase.Table, *tables.Profile) bool,
) error {
	var last error
	for range fenceTries {
		_, profile, err := c.tables.loaded(ctx, id)
		if err != nil {
			return err
		}
		done, underway, txn := false, twophase.FenceKept, twophase.TxnID{}
		c.ledger.read(func(s *twophase.State) {
			if t, ok := s.Table(id); ok {
				done = reached(t, profile)
				underway, txn = t.Fencing()
			}
		})
		switch {
		case underway != twophase.FenceKept:
			if err := c.publishedFence(ctx, txn); err != nil {
				return err
			}
			continue
		case done:
			return nil
		}
		if last = c.fenceTransaction(ctx, id, profile, what); last == nil {
			continue // published, or given up: the fold knows which
		}
		if !errors.Is(last, &Error{Reason: Conflicted}) {
			return last
		}
		if err := c.settled(ctx, id); err != nil {
			return err
		}
	}
	if last == nil {
		last = c.tableError(&handle{id: id}, OutcomeUnknown, "the fence was undone again and again; repeat the call", nil)
	}
	return last
}

// fenceTransaction decides one fence change, and waits until it is published.
func (c *Catalog) fenceTransaction(ctx context.Context, id twophase.TableID, profile *tables.Profile, what twophase.Fencing) error {
	if err := writableBy(profile); err != nil {
		return inputError(c.row(id).Name, err)
	}
	ref, err := c.newRef(fmt.Sprintf("txcoord/fence/%s/%s", id, uuid.NewString()), 0, 0)
	if err != nil {
		return err
	}
	p, err := c.fencePart(ctx, ref, id, profile, what)
	if err != nil {
		return err
	}
	err = c.decide(ctx, ref, []*part{p}, nil, nil, false, nil, nil)
	want := contentOf([]*part{p}, nil)
	o, decided := c.decidedOutcome(ref.id)
	switch {
	case !decided:
		return err // maybe decided later: then the next call finds it on its way, or done
	case o.Aborted != nil:
		c.dropOnce(ref, want)
		return c.abortedError(o)
	}
	return c.publishedFence(ctx, ref.id)
}

// fencePart is the change as a part: one protocol action, which no client could stage.
func (c *Catalog) fencePart(ctx context.Context, ref txnRef, id twophase.TableID, profile *tables.Profile, what twophase.Fencing) (*part, error) {
	row := c.row(id)
	actions := profile.FenceLine(what == twophase.FenceRaised)
	parsed, err := tables.ParseActions(row.URI, c.cfg.Limits.Actions, actions)
	if err != nil {
		return nil, inputError(row.Name, err)
	}
	read := tables.ReadDeclaration{Version: &row.Version}
	piece := &payload{head: payloadHead{
		Format: payloadFormat, Table: id, MetaDataID: profile.MetaData.ID, Staged: profile.Fingerprint(), Read: read,
	}, actions: actions, parsed: parsed}
	facts, err := tables.PartFacts(parsed, profile, read)
	if err != nil {
		return nil, inputError(row.Name, err)
	}
	small, err := c.payloads.prepare(ctx, payloadID{Begun: ref.begun, Txn: ref.id, Table: id, Digest: piece.digest()}, piece)
	if err != nil {
		return nil, c.storeError(err)
	}
	p := &part{row: row, read: read, actions: parsed, record: twophase.Part{
		Table: id, MetaDataID: profile.MetaData.ID, Digests: []twophase.Digest{piece.digest()},
		Read: twophase.ReadPoint{Version: row.Version}, Facts: facts, Shape: parsed.Shape(), Fence: what,
	}, small: small}
	return p, nil
}

// publishedFence waits until a fence change is published, or given up. While its table
// is frozen that may take an operator: the answer says so.
func (c *Catalog) publishedFence(ctx context.Context, txn twophase.TxnID) error {
	var frozen error
	err := c.ledger.waitTxn(ctx, txn, func(s *twophase.State) bool {
		o := s.Outcome(txn)
		if o == nil || o.Commit == nil || o.Snapshot != 0 || o.Parts[0].Status == twophase.StatusNotApplied {
			return true
		}
		if t, ok := s.Table(o.Commit.Parts[0].Table); ok && t.Frozen != nil {
			frozen = frozenError(infoOf(t))
		}
		return frozen != nil
	})
	if err != nil {
		return c.ledgerError(err)
	}
	return frozen
}

// settled waits until nothing that is decided on the table now is left to publish:
// what a fence change lost to is then part of what the next one is made of.
func (c *Catalog) settled(ctx context.Context, id twophase.TableID) error {
	last := twophase.ChangeNumber(0)
	c.ledger.read(func(s *twophase.State) {
		if t, ok := s.Table(id); ok {
			last = t.Next - 1
		}
	})
	var frozen error
	err := c.ledger.wait(ctx, func(s *twophase.State) bool {
		t, ok := s.Table(id)
		if ok && t.Frozen != nil {
			frozen = frozenError(infoOf(t))
		}
		return !ok || frozen != nil || len(t.Pending) == 0 || t.Pending[0].Number > last
	})
	if err != nil {
		return c.ledgerError(err)
	}
	return frozen
}

// full is a table with what this process knows beside the fold.
func (c *Catalog) full(id twophase.TableID) TableInfo {
	info := c.row(id)
	c.fill(&info)
	return info
}
