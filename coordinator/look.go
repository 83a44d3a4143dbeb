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

// readVersion reads a version. That it is there is no sight of the log's end: what
// comes after it may have been cleaned (R9).
func (c *Catalog) readVersion(ctx context.Context, t *handle, v twophase.Version) (twophase.WalkResult, error) {
	commit, err := t.log.ReadCommit(ctx, v)
	if errors.Is(err, objstore.ErrNotFound) {
		return twophase.AbsentVersion{}, nil
	}
	if f := c.tornBy(t, err); f != nil {
		err = f.err(err, c.logError(t.id, err))
		t.stopTorn(err, f)
		return nil, err
	}
	if err != nil {
		return nil, c.unread(t, err)
	}
	seen, err := c.seenCommit(t, commit)
	if err != nil {
		return nil, c.unread(t, err)
	}
	t.know(v, commit.Object.ETag, commit.Identity)
	if seen.Catalog == "" {
		t.wroteBy(v, authorOf(commit))
	}
	t.tail.saw(v, commit.Raw)
	return twophase.SeenVersion{Seen: *seen}, nil
}

// unread is why a version was not read. What the log is to blame for stops the table until a
// look finds it mended. A place that does not answer, or a caller who waits no longer, says
// nothing of the log.
func (c *Catalog) unread(t *handle, err error) error {
	err = c.logError(t.id, err)
	if own, ok := errors.AsType[*Error](err); ok && own.Reason != ObjectsUnavailable {
		t.stop(err)
	}
	return err
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
	v.Facts = tables.CommitFacts(commit, c.tables.recordedProfile(t))
	v.Apps, v.Engine, v.InCommit = commit.Apps(), commit.Engine, commit.InCommitTimestamp
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

// listFrom lists a log for a walk that begins at a recorded version, of an identity. l is a
// listing that was made a little before; nil if there is none. That counts where it shows what is
// to be expected. The log may have become another one since, and whatever speaks against it is
// looked at again.
func (c *Catalog) listFrom(ctx context.Context, t *handle, from twophase.Version, recorded twophase.Hash, l *tables.Listing) (twophase.WalkResult, error) {
	if l != nil && l.From <= from {
		before, err := c.listed(ctx, t, from, l)
		if err == nil && before.Owner && before.FromThere && before.Identity == recorded && before.Checkpoint <= from {
			return before, nil
		}
	}
	l, err := t.log.List(ctx, from)
	if err != nil {
		return nil, c.objectsError(t.uri, err)
	}
	return c.listed(ctx, t, from, l)
}

// listed is what a listing says to a walk.
func (c *Catalog) listed(ctx context.Context, t *handle, from twophase.Version, l *tables.Listing) (twophase.Listing, error) {
	out := twophase.Listing{Owner: l.Owner, Commit: twophase.NoVersion, Checkpoint: twophase.NoVersion}
	if n := len(l.Commits); n > 0 {
		out.Commit = l.Commits[n-1].Version
	}
	for _, cp := range l.Checkpoints {
		out.Checkpoint = max(out.Checkpoint, cp.Version)
	}
	if from == twophase.NoVersion {
		return out, nil
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
		switch {
		case isDamage(err): // no commit any more, and certainly another content
			raw, _, err := t.log.Store.Get(ctx, here.Key, objstore.Range{})
			if err != nil {
				return out, c.objectsError(t.uri, err)
			}
			identity = twophase.HashOf(raw)
		case err != nil:
			return out, c.logError(t.id, err)
		default:
			identity = commit.Identity
			t.know(from, commit.Object.ETag, identity)
		}
	}
	out.Identity = identity
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
	done  chan struct{}
	found twophase.WalkDone
	err   error
}

// lookUp makes every version that stands in the table's log now part of the
// history (DESIGN.md section 6, open tables). It answers where the log ends, and which
// versions of ours in it wait for their publication record.
func (c *Catalog) lookUp(ctx context.Context, t *handle) (twophase.WalkDone, error) {
	mine := c.joinLook(t)
	select {
	case <-mine.done:
		return mine.found, mine.err
	case <-ctx.Done():
		return twophase.WalkDone{}, ctx.Err()
	}
}

func (c *Catalog) joinLook(t *handle) *look {
	l := &t.look
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.running == nil:
		l.running = &look{done: make(chan struct{})}
		mine := l.running
		if !c.spawn(func(ctx context.Context) { c.lookNow(ctx, t, mine) }) {
			l.running, mine.err = nil, c.ledgerError(errClosing)
			close(mine.done)
		}
		return mine
	case l.next == nil:
		l.next = &look{done: make(chan struct{})}
	}
	return l.next
}

func (c *Catalog) lookNow(ctx context.Context, t *handle, run *look) {
	for run != nil {
		run.found, run.err = c.walk(ctx, t, true)
		c.noteWork(ctx, t.uri, read, run.err)
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
			isOpen = ok && row.Watched() && row.Frozen == nil
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
		if _, err := c.lookUp(ctx, t); err != nil {
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
