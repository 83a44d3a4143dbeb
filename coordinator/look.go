package coordinator

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/txcoord/txcoord/tables"
	"github.com/txcoord/txcoord/tables/objstore"
	"github.com/txcoord/txcoord/twophase"
)

// walk carries out a walk through a table's log (twophase.Walk) to its end: for a
// round it puts what is missing, for a look-up it makes foreign versions history.
// What has to be recorded first is recorded, and a new walk begins.
func (c *Catalog) walk(ctx context.Context, t *handle, lookUp bool) (twophase.WalkDone, error) {
	unfit := ""
	for {
		var in twophase.WalkInput
		known := false
		c.ledger.read(func(s *twophase.State) {
			row, ok := s.Table(t.id)
			if known = ok && !row.Released; known {
				in = s.WalkInput(t.id, t.sightOf(row.Recorded))
			}
		})
		if !known {
			return twophase.WalkDone{}, &Error{Reason: TableNotFound, Message: "table " + string(t.id) + " is not in the catalog"}
		}
		in.LookUp = lookUp
		end, err := c.walkOnce(ctx, t, in)
		if err != nil {
			return twophase.WalkDone{}, err
		}
		switch end := end.(type) {
		case twophase.WalkDone:
			t.stop(nil)
			return end, nil
		case twophase.AppendRecord:
			if err := c.record(ctx, t, end); err != nil {
				return twophase.WalkDone{}, err
			}
		case twophase.WalkUnfit:
			// Fold to a head that is read now, and walk again; the same finding twice
			// is a contradiction (R3, A17).
			if end.Reason == unfit {
				err := c.tableError(t, LogContradiction, "journal and log disagree: "+end.Reason, nil)
				t.stop(err)
				return twophase.WalkDone{}, err
			}
			unfit = end.Reason
			if err := c.catchUp(ctx); err != nil {
				return twophase.WalkDone{}, err
			}
		}
	}
}

// record appends what a walk found. That the fold has moved meanwhile is no error.
func (c *Catalog) record(ctx context.Context, t *handle, found twophase.AppendRecord) error {
	rec := found.Record
	if f, ok := rec.(*twophase.Foreign); ok {
		c.log.Info("foreign commit", "table", t.uri, "version", f.Version, "engine", f.Engine)
		stored, err := c.spill(ctx, f)
		if err != nil {
			return err
		}
		rec = stored
	}
	err := c.submitFetching(ctx, twophase.Request{Record: rec, Base: found.Base})
	var refused *twophase.Refused
	if errors.As(err, &refused) && refused.Reason == twophase.ReasonStale {
		return nil
	}
	if err != nil {
		return err
	}
	if _, ok := rec.(*twophase.Foreign); ok {
		return c.openUp(ctx, t)
	}
	if _, ok := rec.(*twophase.Replaced); ok {
		c.log.Error("the log at the table's place is not the table's any more; the table is frozen", "table", t.uri)
	}
	return nil
}

// spill moves the facts of a large foreign commit into an object (R8).
func (c *Catalog) spill(ctx context.Context, f *twophase.Foreign) (*twophase.Foreign, error) {
	if len(f.Facts) <= c.cfg.Limits.FactsBytes {
		return f, nil
	}
	ref, err := c.facts.store(ctx, f.Facts)
	if err != nil {
		return nil, c.objectsError("", err)
	}
	out := *f
	out.FactsRef = ref
	return &out, nil
}

// openUp sets an exclusive table that somebody else wrote to open, with an alarm.
func (c *Catalog) openUp(ctx context.Context, t *handle) error {
	exclusive := false
	c.ledger.read(func(s *twophase.State) {
		if row, ok := s.Table(t.id); ok {
			exclusive = row.Mode == twophase.ModeExclusive
		}
	})
	if !exclusive {
		return nil
	}
	c.log.Error("somebody else wrote an exclusive table; its mode is open from now on", "table", t.uri)
	return c.submitFetching(ctx, twophase.Request{Record: &twophase.ModeSet{Table: t.id, Mode: twophase.ModeOpen}})
}

// walkOnce carries out effects until the walk ends.
func (c *Catalog) walkOnce(ctx context.Context, t *handle, in twophase.WalkInput) (twophase.WalkEffect, error) {
	w := twophase.NewWalk(in, c.cfg.Boot())
	for {
		var result twophase.WalkResult
		var err error
		switch e := w.Next().(type) {
		case twophase.ReadVersion:
			result, err = c.readVersion(ctx, t, e.Version)
		case twophase.ListFrom:
			result, err = c.listFrom(ctx, t, e.Version)
		case twophase.ReadCleaned:
			result, err = c.readCleaned(ctx, t, in.Recorded)
		case twophase.PutVersion:
			result, err = c.putVersion(ctx, t, e)
		case twophase.PutBarrier:
			result, err = c.putBarrier(ctx, t, e)
		default:
			return e, nil
		}
		if err != nil {
			return nil, err
		}
		w.Feed(result, c.cfg.Boot())
	}
}

func (c *Catalog) readVersion(ctx context.Context, t *handle, v twophase.Version) (twophase.WalkResult, error) {
	commit, err := t.log.ReadCommit(ctx, v)
	if errors.Is(err, objstore.ErrNotFound) {
		return twophase.AbsentVersion{}, nil
	}
	if err != nil {
		err = c.logError(t.id, err)
		t.stop(err)
		return nil, err
	}
	seen, err := c.seenCommit(t, commit)
	if err != nil {
		err = c.logError(t.id, err)
		t.stop(err)
		return nil, err
	}
	t.seen(v, c.cfg.Boot())
	t.know(v, commit.Object.ETag, commit.Identity)
	return twophase.SeenVersion{Seen: *seen}, nil
}

// seenCommit says of a version what the walk has to know.
func (c *Catalog) seenCommit(t *handle, commit *tables.Commit) (*twophase.Seen, error) {
	catalog := c.journal.Meta().Catalog
	v := &twophase.Seen{Version: commit.Version, Identity: commit.Identity}
	tags, err := commit.Tags(catalog)
	if err != nil {
		return nil, err
	}
	if tags != nil {
		v.Catalog, v.Incarnation = tags.Catalog, tags.Incarnation
		v.Txns, v.NotApplied = txnDigests(tags.Transactions), txnDigests(tags.NotApplied)
		v.Marker, _ = commit.Marker(catalog)
		return v, nil
	}
	v.Facts = tables.CommitFacts(commit, c.tables.profile(t))
	v.Apps, v.Engine = commit.Actions.Txns, commit.Engine
	if m := commit.Actions.MetaData; m != nil {
		v.MetaDataID = m.ID
	}
	return v, nil
}

// txnDigests joins the references of a version's tags: a transaction of several
// pieces stands there once for each, in order.
func txnDigests(refs []tables.TxnRef) []twophase.TxnDigest {
	var out []twophase.TxnDigest
	for i := 0; i < len(refs); {
		var digests []twophase.Digest
		id := refs[i].ID
		for ; i < len(refs) && refs[i].ID == id; i++ {
			digests = append(digests, refs[i].Digest)
		}
		out = append(out, twophase.TxnDigest{Txn: id, Digest: (&twophase.Part{Digests: digests}).Digest()})
	}
	return out
}

func (c *Catalog) listFrom(ctx context.Context, t *handle, from twophase.Version) (twophase.WalkResult, error) {
	l, err := t.log.List(ctx, from)
	if err != nil {
		return nil, c.objectsError(t.uri, err)
	}
	out := twophase.Listing{Owner: l.Owner, Commit: twophase.NoVersion, Checkpoint: twophase.NoVersion}
	if n := len(l.Commits); n > 0 {
		out.Commit = l.Commits[n-1].Version
	}
	for _, cp := range l.Checkpoints {
		out.Checkpoint = max(out.Checkpoint, cp.Version)
	}
	here, ok := l.Commit(from)
	if !ok {
		return out, nil
	}
	out.FromThere = true
	identity, ok := t.knows(from, here.ETag)
	if !ok {
		commit, err := t.log.ReadCommit(ctx, from)
		if errors.Is(err, objstore.ErrNotFound) { // gone since the listing
			out.FromThere = false
			return out, nil
		}
		if err != nil {
			return nil, c.logError(t.id, err)
		}
		identity = commit.Identity
		t.know(from, commit.Object.ETag, identity)
	}
	out.Identity = identity
	t.seen(from, c.cfg.Boot())
	return out, nil
}

// readCleaned lists the whole log and reads the state at its newest complete
// checkpoint (R22).
func (c *Catalog) readCleaned(ctx context.Context, t *handle, recorded twophase.Version) (twophase.WalkResult, error) {
	l, err := t.log.List(ctx, 0)
	if err != nil {
		return nil, c.objectsError(t.uri, err)
	}
	out := twophase.Cleaned{Owner: l.Owner, Checkpoint: twophase.NoVersion}
	for _, cm := range l.Commits {
		if cm.Version >= recorded {
			out.Commits = append(out.Commits, cm.Version)
		}
	}
	if len(l.Commits) == 0 && len(l.Checkpoints) == 0 {
		return out, nil
	}
	cp, ok := l.NewestCheckpoint(tables.Latest)
	if !ok {
		return out, nil
	}
	state, err := t.log.State(ctx, cp.Version)
	if err != nil {
		return nil, c.logError(t.id, err)
	}
	out.Checkpoint, out.Base = cp.Version, state
	out.MetaDataID = state.Profile().MetaData.ID
	out.Marker = state.Marker(c.journal.Meta().Catalog)
	if slices.Contains(out.Commits, cp.Version) {
		commit, err := t.log.ReadCommit(ctx, cp.Version)
		if err != nil && !errors.Is(err, objstore.ErrNotFound) {
			return nil, c.logError(t.id, err)
		}
		if err == nil {
			out.Identity = commit.Identity
		}
	}
	return out, nil
}

// looker lets many requests share one look at a table's log. A request joins a
// look only if that began after the request arrived.
type looker struct {
	mu      sync.Mutex
	running *look
	next    *look
}

type look struct {
	done chan struct{}
	err  error
}

// lookUp makes every version that stands in the table's log now part of the
// history (DESIGN.md section 6, open tables).
func (c *Catalog) lookUp(ctx context.Context, t *handle) error {
	l := &t.look
	l.mu.Lock()
	var mine *look
	switch {
	case l.running == nil:
		mine = &look{done: make(chan struct{})}
		l.running = mine
		go c.lookNow(t, mine)
	case l.next == nil:
		mine = &look{done: make(chan struct{})}
		l.next = mine
	default:
		mine = l.next
	}
	l.mu.Unlock()
	select {
	case <-mine.done:
		return mine.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (c *Catalog) lookNow(t *handle, run *look) {
	for run != nil {
		_, run.err = c.walk(c.life, t, true)
		close(run.done)
		t.look.mu.Lock()
		t.look.running, t.look.next = t.look.next, nil
		run = t.look.running
		t.look.mu.Unlock()
	}
}

// lookUpOpen looks at each of the tables that others may write.
func (c *Catalog) lookUpOpen(ctx context.Context, ids []twophase.TableID) error {
	var open []*handle
	for _, id := range ids {
		isOpen := false
		c.ledger.read(func(s *twophase.State) {
			row, ok := s.Table(id)
			isOpen = ok && row.Mode == twophase.ModeOpen && row.Frozen == nil
		})
		if !isOpen {
			continue
		}
		t, err := c.tables.of(id)
		if err != nil {
			return err
		}
		open = append(open, t)
	}
	return parallel(open, len(open), func(t *handle) error {
		if err := c.lookUp(ctx, t); err != nil {
			return fmt.Errorf("look at %s: %w", t.uri, err)
		}
		return nil
	})
}

// parallel runs f for each item, at most n at a time, and returns the first error.
func parallel[T any](items []T, n int, f func(T) error) error {
	if len(items) == 1 {
		return f(items[0])
	}
	sem := make(chan struct{}, max(n, 1))
	errs := make(chan error, len(items))
	for _, it := range items {
		sem <- struct{}{}
		go func() {
			defer func() { <-sem }()
			errs <- f(it)
		}()
	}
	var first error
	for range items {
		if err := <-errs; err != nil && first == nil {
			first = err
		}
	}
	return first
}
