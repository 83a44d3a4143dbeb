package coordinator

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/txcoord/txcoord/lock"
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
	ctx, work := c.cfg.Telemetry.Commit(ctx, ref.id)
	o, err := c.commit(ctx, ref, r)
	c.answered(ctx, work, ref.id, o, err)
	return o, err
}

func (c *Catalog) commit(ctx context.Context, ref txnRef, r CommitRequest) (Outcome, error) {
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
	return contentOf(parts, releases), c.decide(ctx, ref, parts, r.Reads, releases, r.VerifyFiles)
}

// content is what a commit names: the digests of each table, and tables that it releases.
type content struct {
	digests  map[twophase.TableID][]twophase.Digest
	releases []twophase.TableID
	warnings []string
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

// CommitOnce is Begin, Stage and Commit in one call, by key. Small payloads become
// durable together with the decision.
func (c *Catalog) CommitOnce(ctx context.Context, r OnceRequest) (Outcome, string, error) {
	if r.Key == "" {
		return Outcome{}, "", fieldError("key", "", "is missing", "give a key: by it the call can be repeated safely")
	}
	ref, err := c.newRef(r.Key, r.Attempt, 0)
	if err != nil {
		return Outcome{}, "", err
	}
	ref = c.openTxns.known(ref)
	ctx, work := c.cfg.Telemetry.Commit(ctx, ref.id)
	o, token, err := c.commitOnce(ctx, ref, r)
	c.answered(ctx, work, ref.id, o, err)
	return o, token, err
}

func (c *Catalog) commitOnce(ctx context.Context, ref txnRef, r OnceRequest) (Outcome, string, error) {
	want, decided, err := c.decidedOnce(ref, r)
	if err != nil {
		return Outcome{}, "", err
	}
	if decided {
		o, err := c.answer(ctx, ref, want, r.Wait, r.WaitLimit)
		return o, c.tokenOf(ref), err
	}
	want, err = c.decideOnce(ctx, ref, r)
	if err = c.afterHead(ctx, err); err != nil {
		if want, decided, _ = c.decidedOnce(ref, r); !decided || want.digests == nil {
			return Outcome{}, "", err
		}
	}
	o, err := c.answer(ctx, ref, want, r.Wait, r.WaitLimit)
	c.dropOnce(ref, want, err)
	return want.warn(o), c.tokenOf(ref), err
}

// dropOnce removes what a call staged for a transaction that was decided without it:
// it was aborted, or another call of the same was quicker. While the outcome is open
// it stays.
func (c *Catalog) dropOnce(ref txnRef, want content, answer error) {
	var due []payloadID
	c.ledger.read(func(s *twophase.State) {
		o := s.Outcome(ref.id)
		if o == nil || answer == nil && o.Commit != nil && o.Commit.Begun == ref.begun {
			return
		}
		for table, digests := range want.digests {
			for _, d := range digests {
				p := payloadID{Begun: ref.begun, Txn: ref.id, Table: table, Digest: d}
				if o.Abort != nil || !names(o, p) {
					due = append(due, p)
				}
			}
		}
	})
	c.sweeper.add(due)
}

// decidedOnce: a repeated call of a decided transaction is compared with what is
// decided, and not with tables that have moved on since.
func (c *Catalog) decidedOnce(ref txnRef, r OnceRequest) (content, bool, error) {
	var parts []twophase.Part
	c.ledger.read(func(s *twophase.State) {
		if o := s.Outcome(ref.id); o != nil && o.Commit != nil {
			parts = slices.Clone(o.Commit.Parts)
		}
	})
	if o, ok := c.decidedOutcome(ref.id); ok && o.Aborted != nil {
		return content{}, true, abortedError(o)
	}
	if parts == nil {
		return content{}, false, nil
	}
	releases, err := c.releases(ref.id, r.Releases)
	if err != nil {
		return content{}, true, err
	}
	want := content{releases: releases, digests: map[twophase.TableID][]twophase.Digest{}}
	for _, t := range r.Tables {
		row, err := c.tableOf(ref.id, t.Table)
		if err != nil {
			return content{}, true, err
		}
		for i := range parts {
			if parts[i].Table == row.ID {
				if want.digests[row.ID], err = c.digestOnce(ref.id, t, &parts[i]); err != nil {
					return content{}, true, err
				}
			}
		}
	}
	return want, true, nil
}

// digestOnce is the digest that a repeated call has for a table.
func (c *Catalog) digestOnce(txn twophase.TxnID, t OnceTable, was *twophase.Part) ([]twophase.Digest, error) {
	if t.Alter != nil {
		return was.Digests, nil // made from a version that is gone: the key says that it is the same
	}
	in := tables.DigestInput{Table: was.Table, MetaDataID: was.MetaDataID, Read: t.Read, Actions: t.Actions}
	if t.Create != nil {
		uri, err := canonicalTable(t.Create.URI)
		if err != nil {
			return nil, inputError(t.Table, err)
		}
		in.Read, in.Options = tables.ReadDeclaration{Blind: true}, specOf(txn, t.Table, uri, t.Create).Options()
	}
	return []twophase.Digest{tables.Digest(in)}, nil
}

func (c *Catalog) decideOnce(ctx context.Context, ref txnRef, r OnceRequest) (content, error) {
	rows := make([]TableInfo, len(r.Tables))
	for i, t := range r.Tables {
		var err error
		if rows[i] = newRow(createdID(ref.id, t.Table), t.Table); t.Create == nil {
			if rows[i], err = c.table(t.Table); err != nil {
				return content{}, err
			}
		}
	}
	releases, err := c.releases(ref.id, r.Releases)
	if err != nil {
		return content{}, err
	}
	if err := c.checkTables(rows, r.Reads, releases, r.Wait); err != nil {
		return content{}, err
	}
	parts := make([]*part, len(r.Tables))
	err = parallelIndex(len(r.Tables), 32, func(i int) (err error) {
		ctx, work := c.cfg.Telemetry.Stage(ctx, ref.id, r.Tables[i].Table)
		parts[i], err = c.stageOnce(ctx, ref, r.Client, r.Tables[i])
		work.Staged(failure(err))
		return err
	})
	if err != nil {
		return content{}, err
	}
	return contentOf(parts, releases), c.decide(ctx, ref, parts, r.Reads, releases, r.VerifyFiles)
}

// stageOnce stages a part that is committed in the same call. One that needs an object
// is listed like others: if the commit is refused, the next try finds it, and if there
// is none it expires.
func (c *Catalog) stageOnce(ctx context.Context, ref txnRef, client string, t OnceTable) (*part, error) {
	piece, row, _, err := c.piece(ctx, ref, t)
	if err != nil {
		return nil, err
	}
	digest := piece.digest()
	var p *part
	if t.Create != nil {
		p, err = c.joinNew(row, []twophase.Digest{digest}, []*payload{piece})
	} else {
		p, err = c.join(ctx, row, []twophase.Digest{digest}, []*payload{piece})
	}
	if err != nil {
		return nil, err
	}
	id := payloadID{Begun: ref.begun, Txn: ref.id, Table: row.ID, Digest: digest}
	w, err := c.payloads.prepare(ctx, id, piece)
	if err != nil {
		return nil, c.storeError(err)
	}
	if w != nil {
		p.writes = []lock.Write{*w}
	} else {
		c.openTxns.staged(ref, client, id, row.Name, int64(len(t.Actions)), false)
	}
	return p, nil
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

// answer says what became of a decided transaction, after PUBLISHED or as long as
// that is to be waited for. DECIDED is enough only where the fold says so at the
// moment of the answer; a fence that ended meanwhile means waiting on (R11). What is committed is never answered with an error of the
// catalog's own: the answer is OK, and says why it is still pending.
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
	switch {
	case ctx.Err() != nil && err != nil:
		return Outcome{}, ctx.Err()
	case !ok && (err == nil || waiting.Err() != nil):
		return Outcome{}, &Error{Reason: OutcomeUnknown, Message: "the outcome is not known yet; repeat the call"}
	case !ok:
		return Outcome{}, c.ledgerError(err)
	case o.Aborted != nil:
		return Outcome{}, abortedError(o)
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
