package coordinator

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/txcoord/txcoord/twophase"
)

// barrierStep puts an empty version into a table's log that says which changes are not
// applied there.
type barrierStep struct {
	table twophase.TableID
	txns  map[twophase.TxnID]bool
}

// planLost gives up the changes whose staged parts are lost. That takes a version in the
// table's log and not a record alone: another replica may have a part in memory, and its
// put in flight; of the two only one can land (R4). Where the log has no version yet that
// could precede a barrier, the table is given up, like one that was replaced.
func (r *Resolution) planLost(s *twophase.State, lost []*lack, reason string) {
	t, ok := s.Table(lost[0].id.Table)
	if !ok {
		return
	}
	if t.Recorded == twophase.NoVersion {
		r.planReplaced(s, t, slices.Clone(t.Diverged), reason)
		return
	}
	b := &barrierStep{table: t.Table, txns: map[twophase.TxnID]bool{}}
	for _, l := range lost {
		b.txns[l.id.Txn] = true
	}
	why := "its staged part is lost"
	if isUnwritable(lost[0]) {
		why = "it cannot be written"
	}
	for _, ch := range t.Pending {
		if b.txns[ch.Txn] {
			g := resolvedChange(s, t, ch)
			g.Conflict = twophase.Conflict{Rule: twophase.RuleOperator, Detail: why}
			r.GivenUp = append(r.GivenUp, g)
		}
	}
	text := fmt.Sprintf("an empty version of table %s says for good that %s not applied there; then its round is published. What was decided on top of them may be impossible without them: that freezes the table again, for another resolve",
		t.Name, changesAre(len(r.GivenUp)))
	r.Steps = append(r.Steps, ResolveStep{Kind: "barrier", Table: t.Name, Text: text, barrier: b})
	r.freedWith(s, t)
}

func changesAre(n int) string {
	if n == 1 {
		return "the change below is"
	}
	return fmt.Sprintf("the %d changes below are", n)
}

// freedWith names the tables that thaw when the table's round is published, or those that
// have to be resolved before.
func (r *Resolution) freedWith(s *twophase.State, t *twophase.Table) {
	round, ok := s.RoundOn(t.Table)
	if !ok {
		return
	}
	for _, p := range s.Plan(round) {
		f := p.Table.Frozen
		switch {
		case f == nil || f.Resolved:
		case f.Origin == p.Table.Table && p.Table != t || !f.Cause.Passes():
			r.StillFrozenBy = append(r.StillFrozenBy, nameOf(s, f.Origin))
		default:
			r.Freed = append(r.Freed, p.Table.Name)
		}
	}
	if len(r.StillFrozenBy) > 0 {
		r.Freed = nil
	}
	slices.Sort(r.Freed)
	slices.Sort(r.StillFrozenBy)
	r.StillFrozenBy = slices.Compact(r.StillFrozenBy)
}

// giveUpLost puts the barrier and makes it history. A crash in between leaves it in the
// log, where the next walk of any replica finds it; and two that do this at once meet at
// one version, which one of them puts and the other one reads.
func (c *Catalog) giveUpLost(ctx context.Context, row TableInfo, b *barrierStep, reason string) error {
	t, err := c.tables.of(b.table)
	if err != nil {
		return err
	}
	if _, err := c.walkFor(ctx, t, aim{giveUp: b.txns}); err != nil {
		return err
	}
	for txn := range b.txns {
		if !c.notApplied(b.table, txn) {
			return &Error{
				Reason:  PlanChanged,
				Message: fmt.Sprintf("table %s has changed meanwhile: the part of transaction %s was found, and is published; look at a new preview", row.Name, txn),
			}
		}
	}
	// Here, as a barrier does not hold the reason.
	c.log.Warn("an operator gave up changes of the table that cannot be published",
		"table", t.uri, "version", c.row(t.id).Version, txnAttrs(slices.Collect(maps.Keys(b.txns))), "reason", reason)
	return nil
}

func (c *Catalog) notApplied(id twophase.TableID, txn twophase.TxnID) (is bool) {
	c.ledger.read(func(s *twophase.State) {
		o := s.Outcome(txn)
		if o == nil || o.Commit == nil {
			return
		}
		for i := range o.Parts {
			if o.Commit.Parts[i].Table == id {
				is = o.Parts[i].Status == twophase.StatusNotApplied || o.Parts[i].Status == twophase.StatusDiverged
			}
		}
	})
	return is
}
