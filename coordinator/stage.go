package coordinator

import (
	"context"
	"errors"
	"fmt"

	"github.com/txcoord/txcoord/coordinator/quota"
	"github.com/txcoord/txcoord/tables"
	"github.com/txcoord/txcoord/twophase"
)

// Stage validates one piece of a transaction and makes it durable, invisibly.
// Staging the same bytes again gives the same digest and writes nothing new.
func (c *Catalog) Stage(ctx context.Context, r StageRequest) (Staged, error) {
	ref, err := c.open(r.Token)
	if err != nil {
		return Staged{}, err
	}
	about(ctx, ref.id)
	ctx, work := c.cfg.Telemetry.Stage(ctx, ref.id, r.Table)
	out, err := c.stage(ctx, ref, r)
	work.Staged(failure(err))
	return out, err
}

func (c *Catalog) stage(ctx context.Context, ref txnRef, r StageRequest) (Staged, error) {
	if err := c.stillOpen(ref); err != nil {
		return Staged{}, err
	}
	p, row, profile, err := c.piece(ctx, ref, OnceTable{Table: r.Table, Read: r.Read, Actions: r.Actions, Create: r.Create, Alter: r.Alter})
	if err != nil {
		return Staged{}, err
	}
	id := payloadID{Begun: ref.begun, Txn: ref.id, Table: row.ID, Digest: p.digest()}
	out := Staged{Digest: id.Digest, Table: row.ID, MetaDataID: p.head.MetaDataID, Bytes: int64(len(p.actions)), Lines: p.lines()}
	if o, ok := c.decidedOutcome(ref.id); ok && o.Committed != nil {
		if err := c.doubt(o); err != nil {
			return Staged{}, err
		}
		return out, c.partOf(o, id)
	}
	by := quota.CallerOf(ctx)
	if err := c.openTxns.reserve(by, ref, r.Client, id, int64(len(r.Actions))); err != nil {
		return Staged{}, err
	}
	if err := c.payloads.stage(ctx, id, p); err != nil {
		c.openTxns.unreserve(id)
		return Staged{}, c.storeError(fmt.Errorf("stage a part of %s: %w", row.Name, err))
	}
	c.openTxns.staged(ref, r.Client, located{payloadID: id}, row.Name, int64(len(r.Actions)), true)
	if err := c.stillOpen(ref); err != nil { // decided while the piece was on its way
		c.sweeper.late(id)
		return Staged{}, err
	}
	if profile != nil {
		out.Hint = c.hint(row, p, profile)
	}
	return out, nil
}

// piece checks what is staged for a table: one of the catalog, or one that the
// transaction creates, which has no profile.
func (c *Catalog) piece(ctx context.Context, ref txnRef, t OnceTable) (*payload, TableInfo, *tables.Profile, error) {
	if t.Create != nil && t.Alter != nil {
		return nil, TableInfo{}, nil, fieldError("alter", t.Table, "stands beside create", "describe the new table as it shall be")
	}
	if t.Create != nil {
		p, row, err := c.parseNew(ctx, ref.id, t.Table, t.Create, t.Read, t.Actions)
		return p, row, nil, err
	}
	row, err := c.table(t.Table)
	if err != nil {
		return nil, row, nil, err
	}
	if row.Frozen != nil {
		return nil, row, nil, frozenError(row)
	}
	if t.Alter != nil {
		if t, err = c.alter(ctx, row, t); err != nil {
			return nil, row, nil, err
		}
	}
	p, profile, err := c.parse(ctx, row, t.Read, t.Actions)
	return p, row, profile, err
}

// lines counts the client's.
func (p *payload) lines() int {
	if p.parsed != nil {
		return p.parsed.Lines
	}
	return tables.CountLines(p.actions)
}

// partOf: a piece that is staged again after the commit is an answer that was lost,
// if the commit names it. Nothing is written.
func (c *Catalog) partOf(o Outcome, id payloadID) (err error) {
	c.ledger.read(func(s *twophase.State) {
		out := s.Outcome(o.Txn)
		if out == nil || out.Commit == nil {
			return
		}
		if id.Begun = out.Commit.Begun; !names(out.Commit, id) {
			err = otherDigests(o)
		}
	})
	return err
}

// stillOpen refuses what is aborted or forgotten before anything is stored.
func (c *Catalog) stillOpen(ref txnRef) error {
	o, ok := c.decidedOutcome(ref.id)
	switch {
	case ok && o.Aborted != nil:
		return c.abortedError(o)
	case !ok && ref.begun < c.floor():
		return &Error{Reason: OutcomeExpired, Message: "the transaction is older than what the catalog remembers; begin again"}
	}
	return nil
}

// parse checks a piece against the table as it is now. *Error.
func (c *Catalog) parse(ctx context.Context, row TableInfo, read tables.ReadDeclaration, actions []byte) (*payload, *tables.Profile, error) {
	profile, err := c.writable(ctx, row)
	if err != nil {
		return nil, nil, err
	}
	if err := c.checkRead(read, row.Name); err != nil {
		return nil, nil, err
	}
	parsed, err := tables.ParseActions(row.URI, c.cfg.Limits.Actions, actions)
	if err == nil {
		err = tables.Validate(parsed, profile)
	}
	if err == nil {
		err = fitsRead(parsed, read)
	}
	if err != nil {
		return nil, nil, inputError(row.Name, err)
	}
	p := &payload{
		head: payloadHead{
			Format: payloadFormat, Table: row.ID, MetaDataID: profile.MetaData.ID,
			Staged: profile.Fingerprint(), Read: read,
		},
		actions: actions, parsed: parsed,
	}
	return p, profile, nil
}

// writable is the profile of a table that takes commits. What speaks against them may
// be gone already: before that is said, a table that others write is looked at.
func (c *Catalog) writable(ctx context.Context, row TableInfo) (*tables.Profile, error) {
	_, profile, err := c.tables.loaded(ctx, row.ID)
	if err != nil || writableBy(profile) == nil {
		return profile, err
	}
	if err := c.lookUpOpen(ctx, []twophase.TableID{row.ID}); err != nil {
		return nil, err
	}
	if _, profile, err = c.tables.loaded(ctx, row.ID); err != nil {
		return nil, err
	}
	return profile, inputError(row.Name, writableBy(profile))
}

// writableBy refuses tables that we may not write beside, or whose settings would
// let other engines lose what the protocol rests on (R21).
func writableBy(p *tables.Profile) error {
	if err := p.CheckWritable(); err != nil {
		return err
	}
	return tables.CheckSettings(p)
}

// fitsRead: a blind part holds adds and txn only.
func fitsRead(a *tables.Actions, read tables.ReadDeclaration) error {
	if !read.Blind || a.Shape().Appends {
		return nil
	}
	return &tables.InputError{
		Field: "read.blind", Value: "true", Reason: "the part holds more than add and txn actions",
		Remedy: "declare the version that was read instead",
	}
}

// checkRead checks a read declaration's shape.
func (c *Catalog) checkRead(r tables.ReadDeclaration, table string) error {
	bad := func(field, why, remedy string) error {
		e := fieldError(field, "", why, remedy)
		e.Field.Table = table
		return e
	}
	points := 0
	for _, set := range []bool{r.Blind, r.Version != nil, r.Snapshot != nil} {
		if set {
			points++
		}
	}
	switch {
	case points != 1:
		return bad("read", "needs exactly one of blind, version and snapshot version", "say what was read when the change was made")
	case r.Blind && (r.Kind != tables.ReadNothing || len(r.Apps) > 0):
		return bad("read.read_set", "is set beside blind", "leave it out, or give the version that was read")
	case len(r.Files) > c.cfg.Limits.ReadFiles:
		return limitError("read_files", int64(len(r.Files)), int64(c.cfg.Limits.ReadFiles))
	}
	if err := r.Check(); err != nil {
		return inputError(table, err)
	}
	return nil
}

// hint says why a commit of the piece would fail as things stand. Only Commit decides.
func (c *Catalog) hint(row TableInfo, p *payload, profile *tables.Profile) *ConflictDetail {
	facts, err := tables.PartFacts(p.parsed, profile, p.head.Read)
	if err != nil {
		return nil
	}
	var why *twophase.Conflict
	c.ledger.read(func(s *twophase.State) {
		t := c.tables.peek(row.ID)
		if t != nil && t.view != nil {
			why = t.view.Try().Fits(facts)
		}
	})
	if why == nil {
		return nil
	}
	p.parsed.Explain(why)
	return &ConflictDetail{Table: row.Name, TableID: row.ID, Version: twophase.NoVersion, Rule: why.Rule, Path: why.Path, Detail: why.Detail}
}

// part is one table's side of a commit, ready to be decided.
type part struct {
	row     TableInfo
	record  twophase.Part
	read    tables.ReadDeclaration
	actions *tables.Actions
	// small is its one piece, if that has to become durable before the decision or with
	// it; bundle is where it lies if it is there already.
	small   *packed
	bundle  twophase.BundleID
	warning string
}

// assemble puts the listed pieces of a table together, validates them as one, and
// makes their facts.
func (c *Catalog) assemble(ctx context.Context, ref txnRef, row TableInfo, tp TableParts) (*part, error) {
	pieces, err := c.pieces(ctx, ref, row, tp.Digests)
	var own *Error
	if created := newRow(createdID(ref.id, tp.Table), tp.Table); errors.As(err, &own) && own.Reason == PartNotStaged && created.ID != row.ID {
		// Another replica may have staged a table of this name that the transaction
		// creates; since then somebody else may have taken the name.
		if found, failed := c.pieces(ctx, ref, created, tp.Digests); failed == nil {
			row, pieces, err = created, found, nil
		}
	}
	switch {
	case err != nil && row.URI == "":
		_, err = c.table(tp.Table)
		return nil, err
	case err != nil:
		return nil, err
	case pieces[0].head.Create != nil:
		return c.joinNew(row, tp.Digests, pieces)
	}
	return c.join(ctx, row, tp.Digests, pieces)
}

func (c *Catalog) pieces(ctx context.Context, ref txnRef, row TableInfo, digests []twophase.Digest) ([]*payload, error) {
	pieces := make([]*payload, len(digests))
	for i, d := range digests {
		var err error
		id := payloadID{Begun: ref.begun, Txn: ref.id, Table: row.ID, Digest: d}
		if pieces[i], err = c.payloads.staged(ctx, id); err != nil {
			return nil, c.pieceError(row, d, err)
		}
	}
	return pieces, nil
}

func (c *Catalog) pieceError(row TableInfo, d twophase.Digest, err error) error {
	detail := &TableDetail{Table: row.Name, TableID: row.ID, URI: row.URI, Version: twophase.NoVersion, File: d.String()}
	var own *Error
	switch {
	case errors.As(err, &own):
		return own // the place did not answer
	case errors.Is(err, errNoPayload):
		return &Error{
			Reason: PartNotStaged, Table: detail,
			Message: fmt.Sprintf("part %s of table %s was never staged under this token", d, row.Name),
		}
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return err
	}
	return &Error{Reason: PartUnreadable, Table: detail, Message: fmt.Sprintf("part %s of table %s cannot be read", d, row.Name), Cause: err}
}

// join makes one part of the pieces of a table.
func (c *Catalog) join(ctx context.Context, row TableInfo, digests []twophase.Digest, pieces []*payload) (*part, error) {
	_, profile, err := c.tables.loaded(ctx, row.ID)
	if err != nil {
		return nil, err
	}
	head := pieces[0].head
	for _, p := range pieces[1:] {
		if !p.head.Read.Equal(&head.Read) {
			return nil, fieldError("tables", row.Name, "its parts have different read declarations", "stage all parts of a table with the same one")
		}
	}
	actions := pieces[0].parsed
	if actions == nil || len(pieces) > 1 {
		raw := make([][]byte, len(pieces))
		for i, p := range pieces {
			raw[i] = p.actions
		}
		if actions, err = tables.ParseActions(row.URI, c.cfg.Limits.Actions, raw...); err != nil {
			return nil, inputError(row.Name, err)
		}
	}
	if err := tables.Validate(actions, profile); err != nil {
		return nil, inputError(row.Name, err)
	}
	if err := writableBy(profile); err != nil {
		return nil, inputError(row.Name, err)
	}
	read, err := c.readPoint(ctx, row, head.Read)
	if err != nil {
		return nil, err
	}
	// A blind part has no read point from which a change of the metadata since it was
	// staged could be found; the fingerprint finds it.
	staged := profile.Fingerprint()
	for _, p := range pieces {
		if p.head.Staged != staged {
			staged = p.head.Staged
			break
		}
	}
	facts, err := tables.PartFactsSince(actions, profile, staged, head.Read)
	if err != nil {
		return nil, inputError(row.Name, err)
	}
	p := &part{row: row, read: head.Read, actions: actions, warning: tables.ProtocolChange(profile, actions), record: twophase.Part{
		Table: row.ID, MetaDataID: head.MetaDataID, Digests: digests, Read: read, Facts: facts, Shape: actions.Shape(),
	}}
	if len(facts) > c.cfg.Limits.FactsBytes {
		if p.record.FactsRef, err = c.facts.store(ctx, facts); err != nil {
			return nil, c.objectsError(row.URI, err)
		}
	}
	return p, nil
}

// readPoint turns a declaration's point into a version of the table (R14).
func (c *Catalog) readPoint(ctx context.Context, row TableInfo, r tables.ReadDeclaration) (twophase.ReadPoint, error) {
	switch {
	case r.Blind:
		return twophase.ReadPoint{Blind: true}, nil
	case r.Version != nil:
		return twophase.ReadPoint{Version: *r.Version}, nil
	}
	set, err := c.at(ctx, *r.Snapshot)
	if errors.Is(err, &Error{Reason: SnapshotNotFound}) {
		return twophase.ReadPoint{}, fieldError("read.snapshot_version", fmt.Sprint(*r.Snapshot), "is not a snapshot that is known", "read a snapshot that GetSnapshot answers")
	}
	if err != nil {
		return twophase.ReadPoint{}, err
	}
	v, ok := set.tables[row.ID]
	if !ok {
		return twophase.ReadPoint{}, fieldError("read.snapshot_version", fmt.Sprint(*r.Snapshot), "does not contain table "+row.Name, "read a snapshot that contains it")
	}
	return twophase.ReadPoint{Version: v}, nil
}
