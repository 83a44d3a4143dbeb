package coordinator

import (
	"context"
	"errors"
	"fmt"
	"reflect"
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
	want, err := c.digestsOf(r.Tables)
	if err != nil {
		return Outcome{}, err
	}
	if _, ok := c.decidedOutcome(ref.id); !ok {
		if err := c.checkTables(r.Tables, r.Reads, r.Wait); err != nil {
			return Outcome{}, err
		}
		parts := make([]*part, len(r.Tables))
		err := parallelIndex(len(r.Tables), 32, func(i int) (err error) {
			parts[i], err = c.assemble(ctx, ref, r.Tables[i])
			return err
		})
		if err != nil {
			return Outcome{}, err
		}
		if err := c.decide(ctx, ref, parts, r.Reads, r.VerifyFiles); err != nil {
			return Outcome{}, err
		}
	}
	return c.answer(ctx, ref, want, r.WaitLimit)
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
	want, decided, err := c.decidedOnce(ref, r)
	if err != nil {
		return Outcome{}, "", err
	}
	if !decided {
		if want, err = c.decideOnce(ctx, ref, r); err != nil {
			return Outcome{}, "", err
		}
	}
	o, err := c.answer(ctx, ref, want, r.WaitLimit)
	if err != nil {
		c.dropOnce(ref, want)
	}
	return o, c.tokenOf(ref), err
}

// dropOnce removes what a call staged for a transaction that it could not commit:
// nobody else can name it. While the outcome is open it stays.
func (c *Catalog) dropOnce(ref txnRef, want map[twophase.TableID][]twophase.Digest) {
	o, ok := c.decidedOutcome(ref.id)
	if !ok || o.Aborted == nil {
		return
	}
	for table, digests := range want {
		for _, d := range digests {
			c.sweeper.add([]payloadID{{Begun: ref.begun, Txn: ref.id, Table: table, Digest: d}})
		}
	}
}

// decidedOnce: a repeated call of a decided transaction is compared with what is
// decided, and not with tables that have moved on since.
func (c *Catalog) decidedOnce(ref txnRef, r OnceRequest) (map[twophase.TableID][]twophase.Digest, bool, error) {
	var parts []twophase.Part
	c.ledger.read(func(s *twophase.State) {
		if o := s.Outcome(ref.id); o != nil && o.Commit != nil {
			parts = slices.Clone(o.Commit.Parts)
		}
	})
	if o, ok := c.decidedOutcome(ref.id); ok && o.Aborted != nil {
		return nil, true, abortedError(o)
	}
	if parts == nil {
		return nil, false, nil
	}
	want := map[twophase.TableID][]twophase.Digest{}
	for _, t := range r.Tables {
		row, err := c.table(t.Table)
		if err != nil {
			return nil, true, err
		}
		for i := range parts {
			if parts[i].Table == row.ID {
				want[row.ID] = []twophase.Digest{tables.Digest(tables.DigestInput{
					Table: row.ID, MetaDataID: parts[i].MetaDataID, Read: t.Read, Actions: t.Actions})}
			}
		}
	}
	return want, true, nil
}

func (c *Catalog) decideOnce(ctx context.Context, ref txnRef, r OnceRequest) (map[twophase.TableID][]twophase.Digest, error) {
	lists := make([]TableParts, len(r.Tables))
	for i, t := range r.Tables {
		lists[i].Table = t.Table
	}
	if err := c.checkTables(lists, r.Reads, r.Wait); err != nil {
		return nil, err
	}
	parts := make([]*part, len(r.Tables))
	err := parallelIndex(len(r.Tables), 32, func(i int) (err error) {
		parts[i], err = c.stageOnce(ctx, ref, r.Tables[i])
		return err
	})
	if err != nil {
		return nil, err
	}
	want := map[twophase.TableID][]twophase.Digest{}
	for _, p := range parts {
		want[p.row.ID] = p.record.Digests
	}
	return want, c.decide(ctx, ref, parts, r.Reads, r.VerifyFiles)
}

// stageOnce stages a part that is committed in the same call.
func (c *Catalog) stageOnce(ctx context.Context, ref txnRef, t OnceTable) (*part, error) {
	row, err := c.table(t.Table)
	if err != nil {
		return nil, err
	}
	piece, _, err := c.parse(ctx, row, t.Read, t.Actions)
	if err != nil {
		return nil, err
	}
	digest := piece.digest()
	p, err := c.join(ctx, row, []twophase.Digest{digest}, []*payload{piece})
	if err != nil {
		return nil, err
	}
	w, err := c.payloads.prepare(ctx, payloadID{Begun: ref.begun, Txn: ref.id, Table: row.ID, Digest: digest}, piece)
	if err != nil {
		return nil, c.storeError(err)
	}
	if w != nil {
		p.writes = []lock.Write{*w}
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

// digestsOf are the digests that the request names, by table.
func (c *Catalog) digestsOf(lists []TableParts) (map[twophase.TableID][]twophase.Digest, error) {
	want := map[twophase.TableID][]twophase.Digest{}
	for _, tp := range lists {
		row, err := c.table(tp.Table)
		if err != nil {
			return nil, err
		}
		if _, ok := want[row.ID]; ok {
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
		want[row.ID] = tp.Digests
	}
	return want, nil
}

// checkTables checks the shape of a commit.
func (c *Catalog) checkTables(written []TableParts, reads []ReadOnly, wait Wait) error {
	if len(written) == 0 {
		return fieldError("tables", "", "is empty", "list at least one table to write")
	}
	if n := len(written) + len(reads); n > c.cfg.Limits.TablesPerTxn {
		return limitError("tables_per_transaction", int64(n), int64(c.cfg.Limits.TablesPerTxn))
	}
	seen := map[twophase.TableID]bool{}
	for _, tp := range written {
		row, err := c.table(tp.Table)
		if err != nil {
			return err
		}
		if seen[row.ID] {
			return fieldError("tables", tp.Table, "names a table twice", "put its actions into one entry")
		}
		seen[row.ID] = true
		if row.Frozen != nil {
			return frozenError(row)
		}
		if wait == WaitDecided {
			return &Error{Reason: DecidedNotOffered, Message: fmt.Sprintf("wait=DECIDED needs fenced tables, and %s is %s; wait for PUBLISHED", row.Name, row.Mode),
				Table: &TableDetail{Table: row.Name, TableID: row.ID, URI: row.URI, Version: twophase.NoVersion}}
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

// decide gets the transaction into the journal. nil: it is decided; the fold knows how.
func (c *Catalog) decide(ctx context.Context, ref txnRef, parts []*part, reads []ReadOnly, verify bool) error {
	rec := &twophase.Committed{Txn: ref.id, Key: ref.key, Attempt: ref.attempt, Begun: ref.begun}
	byTable := map[twophase.TableID]*part{}
	var ids []twophase.TableID
	var writes []lock.Write
	for _, p := range parts {
		rec.Parts = append(rec.Parts, p.record)
		byTable[p.row.ID] = p
		ids = append(ids, p.row.ID)
		writes = append(writes, p.writes...)
	}
	readParts, err := c.readParts(ctx, reads)
	if err != nil {
		return err
	}
	rec.Reads = readParts
	for _, r := range readParts {
		ids = append(ids, r.Table)
	}
	if verify {
		if err := c.verifyFiles(ctx, parts); err != nil {
			return err
		}
	}
	req := twophase.Request{Commit: &twophase.CommitRequest{Record: rec, Name: func(id twophase.TableID, why *twophase.Conflict) {
		if p := byTable[id]; p != nil {
			p.actions.Explain(why)
		}
	}}}
	return c.decideLoop(ctx, ref, req, ids, writes)
}

// decideLoop looks at open tables, asks for the record, and mends what the answer
// says is missing, until the transaction is decided or refused.
func (c *Catalog) decideLoop(ctx context.Context, ref txnRef, req twophase.Request, ids []twophase.TableID, writes []lock.Write) error {
	if err := c.upTo(ctx, ref.begun); err != nil {
		return err
	}
	for range 1000 {
		if err := c.lookUpOpen(ctx, ids); err != nil {
			return err
		}
		err := c.seq.submit(ctx, req, writes...)
		var refused *twophase.Refused
		if !errors.As(err, &refused) {
			return c.storeError(err)
		}
		if err := c.mend(ctx, ref, req.Commit, refused); err != nil {
			return err
		}
	}
	return &Error{Reason: OutcomeUnknown, Message: "the tables change faster than the transaction can be checked; repeat the call"}
}

// mend provides what Decide was missing; any other refusal is the answer.
func (c *Catalog) mend(ctx context.Context, ref txnRef, req *twophase.CommitRequest, r *twophase.Refused) error {
	switch r.Reason {
	case twophase.ReasonNeedView:
		_, _, err := c.tables.loaded(ctx, r.Table)
		return err
	case twophase.ReasonNeedFacts:
		for _, o := range r.Refs {
			if _, err := c.facts.of(ctx, nil, o); err != nil {
				return c.objectsError("", err)
			}
		}
		return nil
	case twophase.ReasonReadPointAhead:
		return c.awaitVersion(ctx, r.Table, readVersion(req.Record, r.Table))
	case twophase.ReasonReadPointTooOld:
		return c.olderFacts(ctx, req, r)
	}
	return c.refusal(ref, r)
}

func readVersion(rec *twophase.Committed, id twophase.TableID) twophase.Version {
	for i := range rec.Parts {
		if rec.Parts[i].Table == id {
			return rec.Parts[i].Read.Version
		}
	}
	for i := range rec.Reads {
		if rec.Reads[i].Table == id {
			return rec.Reads[i].Read.Version
		}
	}
	return twophase.NoVersion
}

// awaitVersion waits until a version that a client has read is recorded (R14): a
// walk recognises it, and if it is ours the round's publication records it.
func (c *Catalog) awaitVersion(ctx context.Context, id twophase.TableID, v twophase.Version) error {
	t, err := c.tables.of(id)
	if err != nil {
		return err
	}
	if _, err := t.log.ReadCommit(ctx, v); err != nil {
		row := c.row(id)
		return fieldError("read.version", fmt.Sprint(v), fmt.Sprintf("table %s has no such version: its newest is %d", row.Name, row.Version), "give the version that was read")
	}
	if err := c.lookUp(ctx, t); err != nil {
		return err
	}
	return c.ledgerError(c.ledger.wait(ctx, func(s *twophase.State) bool {
		row, ok := s.Table(id)
		return !ok || row.Recorded >= v || row.Frozen != nil
	}))
}

// olderFacts rebuilds the facts of versions that the fold has forgotten from the
// table's log (R14). When the log is cleaned, the answer is OUT_OF_RANGE.
func (c *Catalog) olderFacts(ctx context.Context, req *twophase.CommitRequest, r *twophase.Refused) error {
	from := readVersion(req.Record, r.Table)
	var upTo twophase.Version
	c.ledger.read(func(s *twophase.State) {
		if row, ok := s.Table(r.Table); ok {
			upTo = row.PastFloor
		}
	})
	t, err := c.tables.of(r.Table)
	if err != nil {
		return err
	}
	row := c.row(r.Table)
	older := twophase.Older{From: from}
	for v := from + 1; v <= upTo; v++ {
		commit, err := t.log.ReadCommit(ctx, v)
		if err != nil {
			return &Error{Reason: ReadPointTooOld, Cause: err, Message: fmt.Sprintf("version %d of table %s was read, and what changed since can no longer be checked; read again", from, row.Name),
				Table: &TableDetail{Table: row.Name, TableID: row.ID, URI: row.URI, Version: from}}
		}
		older.Facts = append(older.Facts, tables.CommitFacts(commit, nil))
	}
	if req.Older == nil {
		req.Older = map[twophase.TableID]twophase.Older{}
	}
	req.Older[r.Table] = older
	return nil
}

func (c *Catalog) readParts(ctx context.Context, reads []ReadOnly) ([]twophase.ReadPart, error) {
	var out []twophase.ReadPart
	for _, r := range reads {
		row, err := c.table(r.Table)
		if err != nil {
			return nil, err
		}
		_, profile, err := c.tables.loaded(ctx, row.ID)
		if err != nil {
			return nil, err
		}
		point, err := c.readPoint(row, r.Read)
		if err != nil {
			return nil, err
		}
		facts, err := tables.ReadFacts(profile, r.Read)
		if err != nil {
			return nil, inputError(row.Name, err)
		}
		out = append(out, twophase.ReadPart{Table: row.ID, Read: point, Facts: facts})
	}
	return out, nil
}

// upTo makes sure that the fold has reached a token's position (R6).
func (c *Catalog) upTo(ctx context.Context, p twophase.Position) error {
	if c.next() >= p {
		return nil
	}
	if err := c.catchUp(ctx); err != nil {
		return err
	}
	if c.next() < p {
		return &Error{Reason: TokenStale, Message: "the token is from a part of the catalog's history that is not in its journal"}
	}
	return nil
}

func sameRead(a, b tables.ReadDeclaration) bool { return reflect.DeepEqual(a, b) }

// answer says what became of a decided transaction, after PUBLISHED or as long as
// that is to be waited for.
func (c *Catalog) answer(ctx context.Context, ref txnRef, want map[twophase.TableID][]twophase.Digest, limit time.Duration) (Outcome, error) {
	if limit > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, limit)
		defer cancel()
	}
	pending := ""
	err := c.ledger.waitTxn(ctx, ref.id, func(s *twophase.State) bool {
		o := s.Outcome(ref.id)
		if o == nil {
			return false
		}
		if o.Abort != nil || o.Snapshot != 0 {
			return true
		}
		pending = frozenReason(s, o)
		return pending != ""
	})
	o, ok := c.decidedOutcome(ref.id)
	switch {
	case !ok && err == nil, !ok && limit > 0 && errors.Is(err, context.DeadlineExceeded):
		return Outcome{}, &Error{Reason: OutcomeUnknown, Message: "the outcome is not known yet; repeat the call"}
	case !ok:
		return Outcome{}, c.ledgerError(err)
	case o.Aborted != nil:
		return Outcome{}, abortedError(o)
	case !c.sameDigests(ref.id, want):
		return Outcome{}, otherDigests(o)
	}
	if err != nil && !(limit > 0 && errors.Is(err, context.DeadlineExceeded)) {
		return Outcome{}, c.ledgerError(err)
	}
	if o.Committed.Snapshot == 0 {
		if pending == "" {
			pending = "the time to wait has passed; publication goes on"
		}
		o.Committed.PendingReason = pending
	}
	return o, nil
}

// frozenReason says which freeze keeps a committed transaction from being published.
func frozenReason(s *twophase.State, o *twophase.Outcome) string {
	for i := range o.Commit.Parts {
		t, ok := s.Table(o.Commit.Parts[i].Table)
		if ok && t.Frozen != nil && o.Parts[i].Status != twophase.StatusPublished {
			return fmt.Sprintf("table %s is frozen: %s %s", t.Name, t.Frozen.Cause, t.Frozen.Detail)
		}
	}
	return ""
}

func (c *Catalog) sameDigests(id twophase.TxnID, want map[twophase.TableID][]twophase.Digest) bool {
	same := false
	c.ledger.read(func(s *twophase.State) {
		o := s.Outcome(id)
		if o == nil || o.Commit == nil || len(o.Commit.Parts) != len(want) {
			return
		}
		for i := range o.Commit.Parts {
			if !slices.Equal(o.Commit.Parts[i].Digests, want[o.Commit.Parts[i].Table]) {
				return
			}
		}
		same = true
	})
	return same
}
