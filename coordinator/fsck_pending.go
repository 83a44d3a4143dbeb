package coordinator

import (
	"context"
	"errors"
	"fmt"

	"github.com/txcoord/txcoord/twophase"
)

// needed is a staged piece that has still to be published.
type needed struct {
	table  *twophase.Table
	txn    twophase.TxnID
	change twophase.ChangeNumber
	id     located
	why    error
}

// pending says what is not in the logs yet, or will never be, and sees that what is still
// to be published is there.
func (f *fsck) pending(ctx context.Context) error {
	var all []needed
	for _, t := range f.state.Tables() {
		if f.only != "" && f.only != t.Name && f.only != string(t.Table) {
			continue
		}
		f.frozen(t)
		all = append(all, f.undelivered(t)...)
	}
	f.givenUp()
	return f.payloads(ctx, all)
}

func (f *fsck) frozen(t *twophase.Table) {
	ice := t.Frozen
	if ice == nil {
		return
	}
	code := FsckFrozen
	if ice.Origin == t.Table && !ice.Resolved && (ice.Cause == twophase.CauseReplaced || ice.Cause == twophase.CauseContradiction) {
		code = FsckStopped
	}
	f.found(FsckFinding{Code: code, Table: t.Name, TableID: t.Table, Version: twophase.NoVersion, Txn: ice.Txn, What: fmt.Sprintf("it is frozen: %s %s", ice.Cause, ice.Text())})
}

// undelivered are the pieces of a table's pending changes.
func (f *fsck) undelivered(t *twophase.Table) (out []needed) {
	for _, c := range t.Diverged {
		f.found(FsckFinding{Code: FsckDiverged, Table: t.Name, TableID: t.Table, Version: twophase.NoVersion, Txn: c.Txn, What: "a foreign commit made the change impossible"})
	}
	for _, c := range t.Pending {
		where := "it waits for a round"
		if c.Round != nil {
			where = "it is in round " + c.Round.ID.String()
		}
		f.found(FsckFinding{Code: FsckPending, Table: t.Name, TableID: t.Table, Version: twophase.NoVersion, Txn: c.Txn, What: "decided and not recorded as published; " + where})
		o := f.state.Outcome(c.Txn)
		if o == nil || o.Commit == nil || t.Frozen != nil && t.Frozen.Resolved {
			continue
		}
		for _, id := range piecesOfPart(c.Txn, o.Commit, c.Part) {
			out = append(out, needed{table: t, txn: c.Txn, change: c.Number, id: id})
		}
	}
	return out
}

func (f *fsck) givenUp() {
	for txn, o := range f.state.Outcomes {
		for i, p := range o.Parts {
			t, ok := f.state.Table(o.Commit.Parts[i].Table)
			if p.Status != twophase.StatusNotApplied || !ok || f.only != "" && f.only != t.Name && f.only != string(t.Table) {
				continue
			}
			f.found(FsckFinding{Code: FsckGivenUp, Table: t.Name, TableID: t.Table, Version: p.Version, Txn: txn, What: "the change was given up: " + ruleText(p.Conflict.Rule, p.Conflict.Path, p.Conflict.Detail)})
		}
	}
}

// payloads reads what is still to be published. A piece that is gone may have been
// published and swept since: then the journal says so by now. What is in its table's log
// waits for a record alone.
func (f *fsck) payloads(ctx context.Context, all []needed) error {
	err := parallelIndex(len(all), fsckReads, func(i int) error {
		n := &all[i]
		_, err := f.c.payloads.get(ctx, n.id)
		if isAway(err) || ctx.Err() != nil {
			return err
		}
		n.why = err
		return nil
	})
	if err != nil {
		return err
	}
	if ok, err := f.foldOn(ctx); !ok || err != nil {
		return err
	}
	for _, n := range all {
		if _, logged := f.logged[n.table.Table][occurrence{n.txn, n.change}]; n.why != nil && !logged && f.stillPending(n) {
			f.found(FsckFinding{Code: FsckPayload, Table: n.table.Name, TableID: n.table.Table, Version: twophase.NoVersion, Txn: n.txn, What: fmt.Sprintf("staged part %s: %v", n.id.Digest, n.why)})
		}
	}
	return nil
}

// isAway: the place did not answer, which says nothing of what is there.
func isAway(err error) bool {
	own, ok := errors.AsType[*Error](err)
	return ok && (own.Reason == StoreUnavailable || own.Reason == ObjectsUnavailable)
}

func (f *fsck) stillPending(n needed) bool {
	t, ok := f.state.Table(n.table.Table)
	if !ok {
		return false
	}
	for _, c := range t.Pending {
		if c.Txn == n.txn && c.Number == n.change {
			return true
		}
	}
	return false
}
