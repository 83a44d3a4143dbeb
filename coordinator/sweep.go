package coordinator

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/txcoord/txcoord/tables/objstore"
	"github.com/txcoord/txcoord/twophase"
)

// sweeper deletes staged payloads, on the fold's word alone (R20): aborted, or
// published in a closed round, or below the floor with nothing pending that names them.
type sweeper struct {
	c     *Catalog
	ready chan struct{} // holds a token while something is due
	mu    sync.Mutex
	due   []payloadID
	shown twophase.SnapshotVersion

	// strangers are pieces of another life, and when they were first seen; stranger those
	// of the listing under way. Only the sweeper's goroutine uses them.
	strangers, stranger map[payloadID]time.Duration
}

func newSweeper(c *Catalog) *sweeper { return &sweeper{c: c, ready: make(chan struct{}, 1)} }

// begin leaves what ended before this process to the listing: most of it is gone
// already, and nothing here knows where it lay.
func (w *sweeper) begin() { w.shown, w.due = w.c.Shown(), nil }

// aborted notes the pieces of transactions that ended without effect, and pieces
// that a committed one left out. The ledger's lock is held.
func (w *sweeper) aborted(s *twophase.State, ids []twophase.TxnID, pieces []payloadID) {
	named := map[payloadID]bool{}
	for _, id := range ids {
		if o := s.Outcome(id); o != nil && o.Commit != nil && len(pieces) > 0 {
			for _, p := range piecesOf(id, o.Commit) {
				named[p] = true
			}
		}
	}
	w.add(slices.DeleteFunc(pieces, func(p payloadID) bool { return named[p] }))
}

func names(o *twophase.Outcome, p payloadID) bool {
	return o.Commit.Begun == p.Begun && slices.ContainsFunc(o.Commit.Parts, func(part twophase.Part) bool {
		return part.Table == p.Table && slices.Contains(part.Digests, p.Digest)
	})
}

// published notes the pieces of transactions that new snapshots show. The ledger's
// lock is held.
func (w *sweeper) published(s *twophase.State) {
	snaps := s.Snapshots()
	var due []payloadID
	for i := len(snaps) - 1; i >= 0 && snaps[i].Version > w.shown; i-- {
		w.c.backlog.leave(snaps[i].Txns...)
		if !w.c.wrote.has(snaps[i].Position) {
			continue // who published sweeps; if it is gone, the listing finds what is left
		}
		for _, id := range snaps[i].Txns {
			if o := s.Outcome(id); o != nil && o.Commit != nil {
				due = append(due, piecesOf(id, o.Commit)...)
			}
		}
	}
	w.shown = s.Shown()
	w.add(due)
}

func piecesOf(id twophase.TxnID, c *twophase.Committed) []payloadID {
	var out []payloadID
	for i := range c.Parts {
		for _, d := range c.Parts[i].Digests {
			out = append(out, payloadID{Begun: c.Begun, Txn: id, Table: c.Parts[i].Table, Digest: d})
		}
	}
	return out
}

func (w *sweeper) add(ids []payloadID) {
	if len(ids) == 0 {
		return
	}
	w.mu.Lock()
	w.due = append(w.due, ids...)
	w.mu.Unlock()
	select {
	case w.ready <- struct{}{}:
	default:
	}
}

// late notes a piece that was staged when its transaction was over. Others of its
// kind, whose process died, are found by the listing (C2).
func (w *sweeper) late(p payloadID) {
	if w.mayGo(p) {
		w.add([]payloadID{p})
	}
}

// sweepAfter is how long due payloads gather before they are deleted together;
// fullSweep how often all that is stored is listed.
const (
	sweepAfter = 100 * time.Millisecond
	fullSweep  = 10 * time.Minute
)

func (w *sweeper) run(ctx context.Context) {
	again := time.NewTimer(w.listed(ctx))
	defer again.Stop()
	for {
		select {
		case <-w.ready:
			pause(ctx, sweepAfter)
			w.remove(ctx, placeUnknown, w.take())
		case <-again.C:
			again.Reset(w.listed(ctx))
		case <-ctx.Done():
			return
		}
	}
}

func (w *sweeper) take() []payloadID {
	w.mu.Lock()
	defer w.mu.Unlock()
	due := w.due
	w.due = nil
	return due
}

func (w *sweeper) remove(ctx context.Context, at place, ids []payloadID) {
	if len(ids) == 0 {
		return
	}
	if err := w.c.payloads.remove(ctx, at, ids); err != nil && ctx.Err() == nil {
		w.c.log.Warn("remove staged payloads", "error", err)
	}
}

// listed goes through everything that is stored: what a dead process left, and what
// a slow Stage wrote after its transaction had ended (C2). It says when to do so
// again: soon, if something was in the way.
func (w *sweeper) listed(ctx context.Context) (next time.Duration) {
	if !w.c.duty("sweep") {
		return fullSweep
	}
	next = fullSweep
	var due []payloadID
	after := ""
	for ctx.Err() == nil {
		items, err := w.c.cfg.Store.Scan(ctx, "pay/", after, 0)
		if err != nil {
			next = w.again(ctx, err)
		}
		if err != nil || len(items) == 0 {
			break
		}
		for _, it := range items {
			after = it.Key
			_, rest, _ := strings.Cut(strings.TrimPrefix(it.Key, "pay/"), "/") // behind the shard
			due = w.look(due, rest, int64(len(it.Value)))
		}
	}
	w.remove(ctx, inStore, due)
	objects, err := w.listedObjects(ctx)
	if err != nil {
		next = w.again(ctx, err)
	}
	w.remove(ctx, inObject, objects)
	w.strangers, w.stranger = w.stranger, nil
	w.facts(ctx)
	return next
}

// sweepRetry is how soon a sweep is made again that could not see everything.
const sweepRetry = 5 * time.Second

func (w *sweeper) again(ctx context.Context, err error) time.Duration {
	if ctx.Err() == nil {
		w.c.log.Warn("list staged payloads", "error", err)
	}
	return sweepRetry
}

func (w *sweeper) listedObjects(ctx context.Context) (due []payloadID, err error) {
	prefix := w.c.own.key("staged/")
	for e, err := range w.c.own.store.List(ctx, objstore.ListOptions{Prefix: prefix}) {
		if err != nil {
			return due, err
		}
		due = w.look(due, strings.TrimPrefix(e.Key, prefix), e.Size)
	}
	return due, nil
}

// look says of a payload that is stored: it is due, or its transaction is open.
func (w *sweeper) look(due []payloadID, name string, size int64) []payloadID {
	id, ok := parsePayload(name)
	switch {
	case !ok:
	case w.mayGo(id):
		due = append(due, id)
	case id.Begun > w.c.next():
		if w.outlived(id) {
			due = append(due, id)
		}
	case !w.c.decided(id.Txn):
		w.c.openTxns.adopt(id, size)
	}
	return due
}

// outlived: a piece that began at a position which this journal does not have is of the
// life before a rebuild, whose journal was longer (or the fold lags, for a moment). No
// abort of it can be recorded; it goes when any transaction would have expired that was
// open when it was first seen.
func (w *sweeper) outlived(id payloadID) bool {
	first, seen := w.strangers[id]
	if !seen {
		first = w.c.cfg.Boot()
	}
	if w.stranger == nil {
		w.stranger = map[payloadID]time.Duration{}
	}
	w.stranger[id] = first
	return w.c.cfg.Boot()-first > w.c.cfg.Limits.MaxTTL
}

// factsGrace is how long facts that no record names stay: their transaction may be
// about to be decided.
const factsGrace = time.Hour

// facts removes objects with conflict facts that the fold does not name any more (R8).
func (w *sweeper) facts(ctx context.Context) {
	named := w.c.namedFacts()
	prefix := w.c.own.key("facts/")
	for e, err := range w.c.own.store.List(ctx, objstore.ListOptions{Prefix: prefix}) {
		if err != nil {
			return
		}
		if !named[strings.TrimPrefix(e.Key, prefix)] && w.c.cfg.Now().Sub(e.Modified) > factsGrace {
			if err := w.c.own.store.Delete(ctx, e.Key); err != nil {
				return
			}
		}
	}
}

// mayGo is the fold's word on a payload.
func (w *sweeper) mayGo(p payloadID) (ok bool) {
	w.c.ledger.read(func(s *twophase.State) {
		o := s.Outcome(p.Txn)
		leftOut := o != nil && o.Commit != nil && !names(o, p)
		ok = leftOut || s.MaySweep(p.Txn, p.Begun)
	})
	return ok
}

// parsePayload reads <begin>/<txn>/<table>/<digest>.
func parsePayload(s string) (payloadID, bool) {
	f := strings.Split(s, "/")
	if len(f) != 4 {
		return payloadID{}, false
	}
	var id payloadID
	if _, err := fmt.Sscanf(f[0], "%d", &id.Begun); err != nil {
		return payloadID{}, false
	}
	var err error
	if id.Txn, err = twophase.ParseTxnID(f[1]); err != nil {
		return payloadID{}, false
	}
	id.Table = twophase.TableID(f[2])
	id.Digest, err = twophase.ParseHash(f[3])
	return id, err == nil
}
