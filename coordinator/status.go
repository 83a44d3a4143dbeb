package coordinator

import (
	"context"
	"slices"

	"github.com/txcoord/txcoord/lock"
	"github.com/txcoord/txcoord/twophase"
)

// Status says how the catalog is, as this replica sees it.
func (c *Catalog) Status(ctx context.Context) (Status, error) {
	st := Status{ManifestSnapshot: c.manifests.written(), OpenTransactions: len(c.openTxns.list()), Replicas: c.replicas.list(), Troubles: slices.Concat(c.stopped(), c.troubles.list(), c.tornTables(ctx), c.alteredTables(ctx), c.unloadedTables())}
	st.Now, st.Slots = c.cfg.Now(), c.journal.Slots()
	st.HeldBack = int(c.seq.parked.held.Load())
	st.Backlog, st.BacklogLimit = c.backlog.size()
	if store, ok := c.cfg.Store.(lock.Clocked); ok {
		if ahead, told := store.Ahead(); told {
			st.AheadOfStore = &ahead
		}
	}
	c.ledger.read(func(s *twophase.State) {
		st.Waiting, st.Counts = s.Waiting(), c.counts
		st.CatalogID, st.Incarnation, st.Position = s.Catalog(), s.Incarnation(), s.Next()
		st.Codec = s.Codec()
		if s.Next() > 0 {
			st.LastEntry = s.Time().Std()
		}
		st.Checkpoint, st.Shown = s.Checkpoint().Position, s.Shown()
		_, since := s.Floor()
		st.RememberedSince = since.Std()
		for _, t := range s.Tables() {
			st.Tables++
			if t.Freezing() != nil {
				st.Frozen = append(st.Frozen, *frozenDetail(t))
			}
			if t.Opened != nil {
				st.Opened = append(st.Opened, OpenedTable{ID: t.Table, Name: t.Name, Reason: openedReason(t.Opened)})
			}
		}
		st.Reserved = reservedTables(s)
		for _, r := range s.Rounds() {
			st.Rounds = append(st.Rounds, roundInfo(s, r))
		}
	})
	return st, nil
}

func frozenDetail(t *twophase.Table) *FrozenDetail {
	f := t.Freezing()
	if f == nil {
		return nil
	}
	return &FrozenDetail{
		Table: t.Name, TableID: t.Table, Cause: f.Cause, Txn: f.Txn, Detail: f.Text(), ground: groundOf(f), Since: f.Since.Std(), Held: t.Held != nil, Origin: f.Origin,
	}
}

func roundInfo(s *twophase.State, r *twophase.Round) RoundInfo {
	info := RoundInfo{ID: r.ID, Opened: r.Time.Std(), Txns: len(r.Txns)}
	for _, p := range s.Plan(r) {
		info.Tables = append(info.Tables, p.Table.Name)
	}
	return info
}

// aborted counts one that was.
func (n *Counts) aborted(by twophase.Rule) {
	n.Aborted++
	switch by {
	case twophase.RuleExpired, twophase.RuleClient, twophase.RuleOperator, twophase.RuleResolved:
	default:
		n.Conflicts++
	}
}
