package coordinator

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/txcoord/txcoord/coordinator/quota"
	"github.com/txcoord/txcoord/tables"
	"github.com/txcoord/txcoord/tables/objstore"
	"github.com/txcoord/txcoord/twophase"
)

// candidate is a transaction on its way to its decision.
type candidate struct {
	submission
	ref txnRef
	// arrived is when the call came, on the boot clock.
	arrived time.Duration
	parts   map[twophase.TableID]*part
	// tables that it writes or reads.
	tables []twophase.TableID
	// files that it read, as the client named them, and the table's URI.
	files map[twophase.TableID][]string
	uris  map[twophase.TableID]string
}

// decide gets the transaction into the journal. nil: it is decided; the fold knows how.
// landed and reached are those of its submission.
func (c *Catalog) decide(ctx context.Context, ref txnRef, parts []*part, reads []ReadOnly, releases []twophase.TableID, verify bool, landed *atomic.Uint64, reached func()) error {
	rec := &twophase.Committed{Txn: ref.id, Key: ref.key, Attempt: ref.attempt, Begun: ref.begun, Releases: releases}
	cand := &candidate{submission: submission{landed: landed, reached: reached}, ref: ref, parts: map[twophase.TableID]*part{}, files: map[twophase.TableID][]string{}, uris: map[twophase.TableID]string{}}
	for _, p := range parts {
		rec.Parts = append(rec.Parts, p.record)
		cand.parts[p.row.ID] = p
		cand.files[p.row.ID], cand.uris[p.row.ID] = p.read.Files, p.row.URI
		cand.tables = append(cand.tables, p.row.ID)
	}
	cand.packs = chunks(smallOf(parts), c.cfg.Limits.BundleBytes)
	nameBundles(rec, parts, cand.packs)
	var err error
	if rec.Reads, err = c.readParts(ctx, reads); err != nil {
		return err
	}
	bystander := map[twophase.TableID]bool{}
	for i, r := range rec.Reads {
		cand.tables = append(cand.tables, r.Table)
		cand.files[r.Table], cand.uris[r.Table] = reads[i].Read.Files, c.row(r.Table).URI
		bystander[r.Table] = reads[i].Bystander
	}
	if verify {
		if err := c.verifyFiles(ctx, parts); err != nil {
			return err
		}
	}
	cand.request.Commit = &twophase.CommitRequest{Record: rec, Name: cand.explain, Bystander: bystander}
	return c.queued(ctx, cand)
}

// queued decides within the quota of what waits.
func (c *Catalog) queued(ctx context.Context, d *candidate) error {
	var bytes int64
	for _, p := range d.parts {
		bytes += int64(p.record.Shape.Bytes)
	}
	if err := c.backlog.enter(quota.CallerOf(ctx).Name, d.ref.id, bytes); err != nil {
		return err
	}
	err := c.decideLoop(ctx, d)
	if o, ok := c.decidedOutcome(d.ref.id); !ok || o.Aborted != nil {
		c.backlog.leave(d.ref.id)
	}
	return err
}

// explain names the path behind a hash, among those that the part writes or that
// its client read.
func (d *candidate) explain(id twophase.TableID, why *twophase.Conflict) {
	if p := d.parts[id]; p != nil {
		p.actions.Explain(why)
	}
	for _, file := range d.files[id] {
		path, err := tables.CanonicalPath(d.uris[id], file)
		if err == nil && tables.HashPath(path).String() == why.Path {
			why.Path = path
			return
		}
	}
}

// decideTries bounds how often a commit is asked for again because something that
// its check needs was missing. Each time it is provided, so only tables that change
// faster than they can be read get near it.
const decideTries = 100

// decideLoop looks at open tables, asks for the record, and mends what the answer
// says is missing, until the transaction is decided or refused.
func (c *Catalog) decideLoop(ctx context.Context, d *candidate) error {
	d.forward, d.arrived, d.stood = forwardOf(ctx), c.cfg.Boot(), new(atomic.Int64)
	if err := c.upTo(ctx, d.ref.begun); err != nil {
		return err
	}
	for range decideTries {
		if err := c.lookUpOpen(ctx, d.tables); err != nil {
			return err
		}
		if err := c.lookUpNew(ctx, d); err != nil {
			return err
		}
		err := c.seq.send(ctx, d.submission)
		if errors.Is(err, errGoOn) {
			continue
		}
		var refused *twophase.Refused
		if !errors.As(err, &refused) {
			return c.storeError(err)
		}
		if err := c.mend(ctx, d, refused); err != nil {
			return err
		}
	}
	return &Error{Reason: OutcomeUnknown, Message: "the tables change faster than the transaction can be checked; repeat the call"}
}

// mend provides what Decide was missing; any other refusal is the answer.
func (c *Catalog) mend(ctx context.Context, d *candidate, r *twophase.Refused) error {
	switch r.Reason {
	case twophase.ReasonNeedView:
		_, _, err := c.tables.loaded(ctx, r.Table)
		return err
	case twophase.ReasonNeedFacts:
		return c.fetchPast(ctx, d, r)
	case twophase.ReasonReadPointAhead:
		return c.walkedTo(ctx, d.request.Commit, r.Table)
	case twophase.ReasonReadPointTooOld:
		return c.olderFacts(ctx, d, r.Table)
	case twophase.ReasonTooLarge:
		return c.tooLarge(d.request.Commit.Record)
	default:
		if c.cfg.SharedStore && time.Duration(c.headAt.Load()) < d.arrived {
			// Another replica may have done what is missing, such as to abort the attempt
			// before: a refusal counts if the head was read after the call came (R5).
			return c.catchUp(ctx)
		}
		return c.refusal(d.ref, r)
	}
}

func (c *Catalog) tooLarge(r twophase.Record) error {
	legible([]twophase.Record{r})
	size := len((&twophase.Entry{Records: []twophase.Record{r}}).Encode())
	return limitError("max_entry_bytes", int64(size), int64(c.cfg.Limits.MaxEntryBytes))
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

// walkedTo walks a table's log up to a version that a client has read and that is
// not recorded yet: the transactions in it were read (R14).
func (c *Catalog) walkedTo(ctx context.Context, req *twophase.CommitRequest, id twophase.TableID) error {
	t, err := c.tables.of(id)
	if err != nil {
		return err
	}
	done, err := c.lookUp(ctx, t)
	if err != nil {
		return err
	}
	if v := readVersion(req.Record, id); v >= done.Free {
		return fieldError("read.version", fmt.Sprint(v), fmt.Sprintf("is not a version of table %s: its newest is %d", c.row(id).Name, done.Free-1),
			"give the version that was read")
	}
	if req.Walked == nil {
		req.Walked = map[twophase.TableID][]twophase.FoundVersion{}
	}
	req.Walked[id] = done.Found
	return nil
}

// fetchPast reads the facts of changes behind a read point that lie in objects. There may be
// thousands of them, each of a million files.
func (c *Catalog) fetchPast(ctx context.Context, d *candidate, r *twophase.Refused) error {
	size := int64(0)
	for _, f := range d.facts {
		size += int64(len(f))
	}
	for _, ref := range r.Refs {
		size += int64(ref.Size) //nolint:gosec // of an object
	}
	if size > c.cfg.Limits.OlderBytes {
		return c.tooOld(r.Table, readVersion(d.request.Commit.Record, r.Table), errManyFacts)
	}
	return c.fetch(ctx, &d.submission, r.Refs)
}

// olderFacts rebuilds the facts of versions that the fold has forgotten from the
// table's log (R14). When the log is cleaned, or holds too much, the answer is READ_POINT_TOO_OLD; only a
// part that declares no reading needs none, since it is checked against the table
// as it is (R22).
func (c *Catalog) olderFacts(ctx context.Context, d *candidate, id twophase.TableID) error {
	req := d.request.Commit
	older := twophase.Older{From: readVersion(req.Record, id)}
	c.ledger.read(func(s *twophase.State) {
		if row, ok := s.Table(id); ok {
			older.To = row.PastFloor
		}
	})
	if was, ok := req.Older[id]; ok && was.To >= older.To {
		return c.tooOld(id, older.From, nil)
	}
	err := errManyFacts
	if older.To-older.From <= twophase.Version(c.cfg.Limits.OlderVersions) {
		older.Facts, err = c.factsOf(ctx, id, older.From, older.To)
	}
	gone := errors.Is(err, objstore.ErrNotFound) || errors.Is(err, errManyFacts)
	switch {
	case gone && !d.readsNothing(id):
		return c.tooOld(id, older.From, err)
	case err != nil && !gone:
		return c.logError(id, err)
	}
	if req.Older == nil {
		req.Older = map[twophase.TableID]twophase.Older{}
	}
	req.Older[id] = older
	return nil
}

// readsNothing reports whether all that can object to a part shows in the table's
// present state.
func (d *candidate) readsNothing(id twophase.TableID) bool {
	p := d.parts[id]
	return p != nil && p.read.Kind == tables.ReadNothing && len(p.read.Apps) == 0 && len(p.actions.Domains) == 0
}

// errManyFacts: they are more than Limits.OlderVersions, or OlderBytes.
var errManyFacts = errors.New("there are more versions since than are read for one commit, or they are larger (limits older_versions, older_bytes)")

// factsOf are the facts of the versions after one and up to another, as they stand in a
// table's log.
func (c *Catalog) factsOf(ctx context.Context, id twophase.TableID, after, upTo twophase.Version) (out []twophase.Facts, err error) {
	t, err := c.tables.of(id)
	if err != nil {
		return nil, err
	}
	profile, size := c.tables.recordedProfile(t), int64(0)
	err = eachCommit(ctx, t.log, after, upTo, func(commit *tables.Commit) error {
		below := profile
		if commit.Actions.MetaData != nil || commit.Actions.Protocol != nil {
			below = nil
		}
		facts := tables.CommitFacts(commit, below)
		if size += int64(len(facts)); size > c.cfg.Limits.OlderBytes {
			return errManyFacts
		}
		out = append(out, facts)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

func (c *Catalog) tooOld(id twophase.TableID, from twophase.Version, cause error) error {
	row := c.row(id)
	return &Error{
		Reason: ReadPointTooOld, Cause: cause,
		Message: fmt.Sprintf("version %d of table %s was read, and what changed since can no longer be checked; read again", from, row.Name),
		Table:   &TableDetail{Table: row.Name, TableID: row.ID, URI: row.URI, Version: from},
	}
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
		point, err := c.readPoint(ctx, row, r.Read)
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

// verifyFiles looks for each added file before the decision.
func (c *Catalog) verifyFiles(ctx context.Context, parts []*part) error {
	type file struct {
		row TableInfo
		add tables.File
	}
	var files []file
	for _, p := range parts {
		for _, a := range p.actions.Adds {
			files = append(files, file{p.row, a})
		}
	}
	return parallel(files, 32, func(f file) error {
		unreadable := func(why string) error {
			return &Error{
				Reason: PartUnreadable, Message: fmt.Sprintf("table %s: added file %s %s", f.row.Name, f.add.Path, why),
				Table: &TableDetail{Table: f.row.Name, TableID: f.row.ID, URI: f.row.URI, Version: twophase.NoVersion, File: f.add.Path, Detail: why},
			}
		}
		store, key, err := c.cfg.Objects.Open(tables.FileURI(f.row.URI, f.add.Path))
		var info objstore.Info
		if err == nil {
			info, err = store.Stat(ctx, key)
		}
		switch {
		case errors.Is(err, objstore.ErrNotFound):
			return unreadable("does not exist")
		case err != nil:
			return c.objectsError(f.row.URI, err)
		case info.Size != f.add.Size:
			return unreadable(fmt.Sprintf("has %d bytes, and the action says %d", info.Size, f.add.Size))
		}
		return nil
	})
}
