package coordinator

import (
	"context"
	"fmt"
	"slices"

	"github.com/txcoord/txcoord/tables"
	"github.com/txcoord/txcoord/twophase"
)

// wentBack leaves a table out whose log ends below what a manifest names. What is left of
// it is read, to say whose parts are lost.
func (r *rebuilding) wentBack(ctx context.Context, t *rebuiltTable, listing *tables.Listing) error {
	last := listing.Last()
	r.leave(t, RebuildWentBack, "its log ends with version %d, and the newest manifest names %d", last, t.shown)
	t.row.Version = last
	if err := r.readVersions(ctx, t, listing); err != nil {
		return err
	}
	if n := len(listing.Commits); n > 0 && listing.Commits[n-1].Version == last {
		// It may be too old to be read: what came later is lost.
		t.known = min(t.known, twophase.TimeOf(listing.Commits[n-1].Modified))
	}
	t.left = map[twophase.TxnID][]*tables.Tags{}
	for _, v := range t.versions {
		for _, x := range slices.Concat(v.tags.Transactions, v.tags.NotApplied) {
			t.left[x.ID] = append(t.left[x.ID], v.tags)
		}
	}
	return nil
}

// lacks reports whether the log of a table that went back has nothing of a transaction,
// though every version since then was read. One of the same id that another round of its
// life published is another (R6).
func (t *rebuiltTable) lacks(id twophase.TxnID, l *loggedTxn) bool {
	return l.time > t.known && !slices.ContainsFunc(t.left[id], func(tags *tables.Tags) bool {
		return tags.Incarnation != l.incarnation || tags.Round == l.round
	})
}

// lostWith is the table that a transaction's part on one was lost with; nil if it was not.
func (r *rebuilding) lostWith(id twophase.TxnID, l *loggedTxn, table twophase.TableID) *rebuiltTable {
	for _, t := range r.back {
		if t.row.Table == table && t.lacks(id, l) {
			return t
		}
	}
	return nil
}

// halves names a transaction that the manifests show, and that lost a part with a table
// whose log went back. It is known as given up there.
func (r *rebuilding) halves(id twophase.TxnID, l *loggedTxn, byID map[twophase.TableID]*rebuiltTable) {
	out := TornTxn{Txn: id, In: l.in(byID)}
	for _, table := range l.of.Tables {
		if t := r.lostWith(id, l, table); t != nil && l.part(table) == nil {
			out.Missing = append(out.Missing, TornPart{ID: table, Name: t.row.Name, Version: twophase.NoVersion})
			l.parts = append(l.parts, twophase.KnownPart{Table: table, Version: twophase.NoVersion})
		}
	}
	if len(out.Missing) > 0 {
		r.tornBack(out)
	}
}

// tornBack names a transaction all of whose missing parts are in tables that went back:
// accepting those is accepting it.
func (r *rebuilding) tornBack(out TornTxn) {
	r.report.Torn = append(r.report.Torn, out)
	first := out.Missing[0]
	r.found(RebuildFinding{Code: RebuildWentBack, Table: first.Name, TableID: first.ID, Txn: out.Txn, What: out.String()})
}

// inNoLog names the transactions that manifests bring with versions that are gone, and that
// no log has: of the time of which logs were read.
func (r *rebuilding) inNoLog(all map[twophase.TxnID]*loggedTxn) {
	oldest := twophase.TimeOf(r.cfg.Now().Add(-r.cfg.Limits.OutcomeRetention))
	named := map[twophase.TxnID]bool{}
	for _, t := range r.back {
		for _, d := range r.before.brought[t.row.Table] {
			if d.version <= t.row.Version || d.time < oldest {
				continue
			}
			for _, text := range d.txns {
				id, err := twophase.ParseTxnID(text)
				if err != nil || all[id] != nil || t.left[id] != nil || named[id] {
					continue
				}
				named[id] = true
				r.found(RebuildFinding{
					Code: RebuildWentBack, Table: t.row.Name, TableID: t.row.Table, Txn: id,
					What: fmt.Sprintf("snapshot %d shows it, with version %d of the table, and no log that was read has it; its key is not known any more", d.snapshot, d.version),
				})
			}
		}
	}
}
