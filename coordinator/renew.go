package coordinator

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/txcoord/txcoord/tables"
	"github.com/txcoord/txcoord/twophase"
)

// renewals keep the tables' extracts near the ends of their logs, so that a start reads few
// commits of each table however far maintenance is behind: one table at a time, in the
// background, for a bounded share of the time. Nothing rests on it. Several replicas may do
// it at once: whatever is kept last is believed only of the objects that it was made of.
type renewals struct {
	c     *Catalog
	ready chan struct{}

	mu    sync.Mutex
	notes map[twophase.TableID]*renewNote
	// due are the tables that are far enough behind.
	due map[twophase.TableID]bool
}

// renewNote is what is known of a table's extract.
type renewNote struct {
	// newest is the table's newest version as entries name them, at that of its extract, or
	// where the table was when it was first seen here, every how many versions they may be
	// apart, least what the limits say of that. The fold ignores records that came too late,
	// so the table itself may stay behind newest: tried is what newest was when its turn came
	// last, and its next turn takes a newer one. made is the newest extract on the way there.
	newest, at, every, least, tried, made twophase.Version
}

const (
	// renewStart is how long after a start the first is made: the first seconds are for those
	// who wait since the server before.
	renewStart = 2 * time.Second
	// renewBytes bounds an extract that is made here, and a checkpoint that is read for one:
	// four times as much is held in memory. Larger tables have extracts of their checkpoints.
	renewBytes = 16 << 20
	// renewFiles is of how many live files an extract is made one version later: what is
	// written grows with the table, and so does what a start reads of it anyway.
	renewFiles = 4096
	// renewNone is how many times later a table is looked at again that has none.
	renewNone = 16
)

func newRenewals(c *Catalog) *renewals {
	return &renewals{c: c, ready: make(chan struct{}, 1), notes: map[twophase.TableID]*renewNote{}, due: map[twophase.TableID]bool{}}
}

// look takes in an entry that was folded.
func (r *renewals) look(e *twophase.Entry) {
	r.mu.Lock()
	defer r.mu.Unlock()
	eachSeen(e, func(id twophase.TableID, v twophase.Version, _ twophase.Hash) {
		row, ok := r.c.ledger.state.Table(id) // whose lock is held
		if !ok || row.Released {              // the fold ignored the record, or the table has left with it
			delete(r.notes, id)
			delete(r.due, id)
			return
		}
		n := r.notes[id]
		if n == nil {
			n = &renewNote{at: v, tried: twophase.NoVersion, made: twophase.NoVersion, least: r.every(row.URI)}
			n.every = n.least
			r.notes[id] = n
		}
		n.newest = max(n.newest, v)
		r.judgeLocked(id, n)
	})
	for _, rec := range e.Records {
		if gone, ok := rec.(*twophase.Released); ok {
			delete(r.notes, gone.Table)
			delete(r.due, gone.Table)
		}
	}
}

// every is how many versions are between the extracts of a table at a place. In a bucket each
// commit that is read for it is a request that is paid for.
func (r *renewals) every(uri string) twophase.Version {
	if inFolder(uri) {
		return twophase.Version(r.c.cfg.Limits.FileExtractEvery)
	}
	return twophase.Version(r.c.cfg.Limits.ExtractEvery)
}

// judgeLocked says whether a table's turn has come.
func (r *renewals) judgeLocked(id twophase.TableID, n *renewNote) {
	if n.newest-n.at < n.every || n.newest <= n.tried {
		return
	}
	r.due[id] = true
	select {
	case r.ready <- struct{}{}:
	default:
	}
}

func (r *renewals) run(ctx context.Context) {
	pause(ctx, renewStart)
	for {
		select {
		case <-r.ready:
		case <-ctx.Done():
			return
		}
		for id, ok := r.next(); ok && ctx.Err() == nil; id, ok = r.next() {
			began := r.c.cfg.Boot()
			r.renew(ctx, id)
			pause(ctx, r.c.cfg.Boot()-began) // what is read and written is bounded by what is committed
		}
	}
}

// next is the table that is the furthest behind of those that are due.
func (r *renewals) next() (id twophase.TableID, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	most := twophase.Version(-1)
	for of := range r.due {
		if n := r.notes[of]; n.newest-n.at > most {
			id, ok, most = of, true, n.newest-n.at
		}
	}
	if ok {
		r.notes[id].tried = r.notes[id].newest
		delete(r.due, id)
	}
	return id, ok
}

// is notes of which version a table's extract is, and when the next one is due.
func (r *renewals) is(id twophase.TableID, at, every twophase.Version) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if n := r.notes[id]; n != nil {
		n.at, n.every = at, max(every, n.least)
		delete(r.due, id)
		r.judgeLocked(id, n)
	}
}

// onTheWay: the extract is of a version below the recorded one, and the next step is due,
// unless this one led nowhere, as where extracts cannot be kept.
func (r *renewals) onTheWay(id twophase.TableID, made twophase.Version) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if n := r.notes[id]; n != nil && made > n.made {
		n.made, n.tried = made, twophase.NoVersion
	}
}

// renew makes a table's extract anew. What is found out about the log on the way is treated
// as what maintenance finds.
func (r *renewals) renew(ctx context.Context, id twophase.TableID) {
	c := r.c
	at, err := c.tables.recorded(id)
	if err != nil || at == twophase.NoVersion {
		return // it has left, or is in no log yet
	}
	row, t := c.row(id), (*handle)(nil)
	if t, err = c.tables.of(id); err != nil {
		r.is(id, at, 0)
		return
	}
	if !c.tableDuty(string(id), row) || row.Frozen.found() || errors.Join(t.stoppedBy(), c.ours(id)) != nil {
		r.is(id, at, 0)
		return
	}
	out, err := t.log.RenewExtract(ctx, at, tables.Renewal{AtLeast: r.every(row.URI), MaxBytes: renewBytes, Recorded: c.recorded.noted(id)})
	switch {
	case ctx.Err() != nil:
	case isAltered(err):
		r.is(id, at, 0)
		c.noteAltered(t, err)
	case err != nil:
		r.is(id, at, 0)
		if isDamage(err) || isGone(err) {
			err = c.logFailed(ctx, t, err)
		}
		c.log.Warn("read a table for its extract", "table", t.uri, "error", err)
	case out.Version == twophase.NoVersion:
		r.is(id, at, renewNone*r.every(row.URI))
	default:
		if out.Written && out.Version < at {
			r.onTheWay(id, out.Version)
		}
		r.is(id, out.Version, twophase.Version(out.Files/renewFiles))
	}
	if kept := (extracts{c, id}); out.Written && !kept.wanted() {
		kept.drop(ctx)
	}
}
