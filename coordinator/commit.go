package coordinator

import (
	"context"
	"errors"
	"iter"
	"slices"
	"sync/atomic"

	"github.com/txcoord/txcoord/coordinator/quota"
	"github.com/txcoord/txcoord/tables"
	"github.com/txcoord/txcoord/twophase"
)

// Commit decides a transaction over exactly the parts it lists (R8). It answers
// from the fold only (R5). OK means COMMITTED.
func (c *Catalog) Commit(ctx context.Context, r CommitRequest) (Outcome, error) {
	ref, err := c.open(r.Token)
	if err != nil {
		return Outcome{}, err
	}
	about(ctx, ref.id)
	ctx, work := c.cfg.Telemetry.Commit(ctx, ref.id)
	o, err := c.commit(ctx, ref, r)
	c.answered(ctx, work, ref.id, o, err)
	return o, err
}

func (c *Catalog) commit(ctx context.Context, ref txnRef, r CommitRequest) (Outcome, error) {
	if r.Wait != WaitDecided {
		c.urgent.enter(ref.id)
		defer c.urgent.leave(ref.id)
	}
	rows, err := c.targets(ref.id, r.Tables)
	if err != nil {
		return Outcome{}, err
	}
	releases, err := c.releases(ref.id, r.Releases)
	if err != nil {
		return Outcome{}, err
	}
	want := content{releases: releases, digests: map[twophase.TableID][]twophase.Digest{}}
	for i, row := range rows {
		want.digests[row.ID] = r.Tables[i].Digests
	}
	if !c.decided(ref.id) {
		// The same call may be under way twice, here or at another replica: what one of
		// them decided, and swept, is the answer of the other.
		decided, err := c.decideParts(ctx, ref, r, rows, releases)
		err = c.afterHead(ctx, err)
		switch {
		case err == nil:
			want = decided
		case !c.decided(ref.id):
			return Outcome{}, err
		}
	}
	o, err := c.answer(ctx, ref, want, r.Wait, r.WaitLimit)
	return want.warn(o), err
}

// warn puts what the decision warned of into its answer.
func (want *content) warn(o Outcome) Outcome {
	if o.Committed != nil {
		o.Committed.Warnings = want.warnings
	}
	return o
}

func (c *Catalog) decideParts(ctx context.Context, ref txnRef, r CommitRequest, rows []TableInfo, releases []twophase.TableID) (content, error) {
	if err := c.stillOpen(ref); err != nil {
		return content{}, err
	}
	if err := c.book.Commit(quota.CallerOf(ctx)); err != nil {
		return content{}, OverQuota(err)
	}
	if err := c.checkTables(rows, r.Reads, releases, r.Wait); err != nil {
		return content{}, err
	}
	parts := make([]*part, len(r.Tables))
	err := parallelIndex(len(r.Tables), 32, func(i int) (err error) {
		parts[i], err = c.assemble(ctx, ref, rows[i], r.Tables[i])
		return err
	})
	if err != nil {
		return content{}, err
	}
	reached := c.seq.gathering.enter()
	defer reached()
	return contentOf(parts, releases), c.decide(ctx, ref, parts, r.Reads, releases, r.VerifyFiles, nil, reached)
}

// content is what a commit names: the digests of each table, and tables that it releases.
type content struct {
	digests  map[twophase.TableID][]twophase.Digest
	releases []twophase.TableID
	warnings []string
	// landed is that of the submission, of a commit in one call, and pieces what it made
	// durable ahead of its entry.
	landed *atomic.Uint64
	pieces []located
}

func contentOf(parts []*part, releases []twophase.TableID) content {
	out := content{digests: map[twophase.TableID][]twophase.Digest{}, releases: releases}
	for _, p := range parts {
		out.digests[p.row.ID] = p.record.Digests
		if p.warning != "" {
			out.warnings = append(out.warnings, "table "+p.row.Name+": "+p.warning)
		}
	}
	return out
}

func parallelIndex(n, limit int, f func(int) error) error {
	idx := make([]int, n)
	for i := range idx {
		idx[i] = i
	}
	return parallel(idx, limit, f)
}

// tableOf finds a table of a transaction. What is decided goes first, so that a repeated
// call gets the same answer when tables have left the catalog since, or others have taken
// their names; then what is staged for a table that the transaction creates.
func (c *Catalog) tableOf(id twophase.TxnID, ref string) (row TableInfo, err error) {
	found := false
	c.ledger.read(func(s *twophase.State) {
		o := s.Outcome(id)
		if o == nil || o.Commit == nil {
			return
		}
		for part := range decidedTables(o.Commit) {
			t, ok := s.Table(part)
			if ok && (t.Name == ref || string(t.Table) == ref || t.URI == ref) {
				row, found = infoOf(t), true
			}
		}
	})
	if found {
		return row, nil
	}
	created := newRow(createdID(id, ref), ref)
	if tableIDShape.MatchString(ref) {
		created.ID = twophase.TableID(ref)
	}
	if c.openTxns.holds(id, created.ID) && c.row(created.ID).URI == "" {
		return created, nil
	}
	if row, err = c.table(ref); errors.Is(err, &Error{Reason: TableNotFound}) && !isURI(ref) {
		return created, nil // staged at another replica; if not, its parts are not there
	}
	return row, err
}

func decidedTables(cm *twophase.Committed) iter.Seq[twophase.TableID] {
	return func(yield func(twophase.TableID) bool) {
		for i := range cm.Parts {
			if !yield(cm.Parts[i].Table) {
				return
			}
		}
		for _, id := range cm.Releases {
			if !yield(id) {
				return
			}
		}
	}
}

// targets are the tables that the request writes or creates.
func (c *Catalog) targets(id twophase.TxnID, lists []TableParts) ([]TableInfo, error) {
	rows := make([]TableInfo, len(lists))
	for i, tp := range lists {
		var err error
		if rows[i], err = c.tableOf(id, tp.Table); err != nil {
			return nil, err
		}
		if slices.ContainsFunc(rows[:i], func(o TableInfo) bool { return o.ID == rows[i].ID }) {
			return nil, fieldError("tables", tp.Table, "names a table twice", "list all its parts in one entry")
		}
		if len(tp.Digests) == 0 {
			return nil, fieldError("tables.digests", tp.Table, "lists no part", "list the digests that Stage answered, or leave the table out")
		}
		if len(tp.Digests) > c.cfg.Limits.PartsPerTable {
			return nil, limitError("parts_per_table", int64(len(tp.Digests)), int64(c.cfg.Limits.PartsPerTable))
		}
		for i, d := range tp.Digests {
			if slices.Contains(tp.Digests[:i], d) {
				return nil, fieldError("tables.digests", d.String(), "is listed twice", "list each part once")
			}
		}
	}
	return rows, nil
}

// releases are the tables that the request releases, in order of their ids.
func (c *Catalog) releases(id twophase.TxnID, refs []string) ([]twophase.TableID, error) {
	var out []twophase.TableID
	for _, ref := range refs {
		row, err := c.tableOf(id, ref)
		if err == nil && row.URI == "" {
			if _, err = c.table(ref); err == nil {
				err = fieldError("releases", ref, "is created by the same transaction", "leave it out of both")
			}
		}
		if err != nil {
			return nil, err
		}
		if slices.Contains(out, row.ID) {
			return nil, fieldError("releases", ref, "names a table twice", "list each table once")
		}
		out = append(out, row.ID)
	}
	slices.Sort(out)
	return out, nil
}

// checkTables checks the shape of a commit.
func (c *Catalog) checkTables(written []TableInfo, reads []ReadOnly, releases []twophase.TableID, wait Wait) error {
	if len(written)+len(releases) == 0 {
		return fieldError("tables", "", "is empty", "list at least one table to write")
	}
	if n := len(written) + len(reads) + len(releases); n > c.cfg.Limits.TablesPerTxn {
		return limitError("tables_per_transaction", int64(n), int64(c.cfg.Limits.TablesPerTxn))
	}
	seen := map[twophase.TableID]bool{}
	for _, row := range written {
		if seen[row.ID] {
			return fieldError("tables", row.Name, "names a table twice", "put its actions into one entry")
		}
		seen[row.ID] = true
		if row.Frozen != nil {
			return frozenError(row)
		}
		if err := c.ours(row.ID); err != nil {
			return err
		}
	}
	if wait == WaitDecided {
		if err := c.decidedOffered(written); err != nil {
			return err
		}
	}
	for _, id := range releases {
		if row := c.row(id); row.Mode == twophase.ModeFenced {
			return fencedRelease(row)
		}
	}
	for _, r := range reads {
		row, err := c.table(r.Table)
		if err != nil {
			return err
		}
		switch {
		case seen[row.ID]:
			return fieldError("reads", r.Table, "is written as well, or named twice", "declare what was read with the part instead")
		case r.Read.Blind || r.Read.Kind == tables.ReadNothing && len(r.Read.Apps) == 0:
			return fieldError("reads.read", r.Table, "declares nothing that was read", "declare a read point and a read set, or leave the table out")
		}
		seen[row.ID] = true
		if err := c.checkRead(r.Read, row.Name); err != nil {
			return err
		}
	}
	return nil
}
