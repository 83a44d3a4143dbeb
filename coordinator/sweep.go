package coordinator

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/txcoord/txcoord/lock"
	"github.com/txcoord/txcoord/tables/objstore"
	"github.com/txcoord/txcoord/twophase"
)

// sweeper deletes staged payloads, on the fold's word alone (R20): aborted, or
// published in a closed round, or below the floor with nothing pending that names them.
type sweeper struct {
	c     *Catalog
	ready chan struct{} // holds a token while something is due
	mu    sync.Mutex
	due   []located
	// bundles are those of which somebody thinks that nothing in them is needed any more.
	bundles map[twophase.BundleID]bool
	shown   twophase.SnapshotVersion
	// begun: what is folded now ended while this process was there.
	begun bool

	// strangers are pieces of another life, and when they were first seen; stranger those
	// of the listing under way. Only the sweeper's goroutine uses them.
	strangers, stranger map[payloadID]time.Duration
}

func newSweeper(c *Catalog) *sweeper {
	return &sweeper{c: c, ready: make(chan struct{}, 1), bundles: map[twophase.BundleID]bool{}}
}

// begin leaves what ended before this process to the listing: most of it is gone
// already, and nothing here knows where it lay.
func (w *sweeper) begin() { w.shown, w.due, w.begun = w.c.Shown(), nil, true }

// aborted notes the pieces of transactions that ended without effect, and pieces
// that a committed one left out. The ledger's lock is held.
func (w *sweeper) aborted(s *twophase.State, ids []twophase.TxnID, pieces []located) {
	named := map[located]bool{}
	for _, id := range ids {
		if o := s.Outcome(id); o != nil && o.Commit != nil && len(pieces) > 0 {
			for _, p := range piecesOf(id, o.Commit) {
				named[p] = true
			}
		}
	}
	w.add(slices.DeleteFunc(pieces, func(p located) bool { return named[p] }))
}

// names reports whether a commit names a piece, wherever it lies.
func names(c *twophase.Committed, p payloadID) bool { return partOf(c, p) != nil }

// lies reports whether a commit says that a piece lies there.
func lies(c *twophase.Committed, p located) bool {
	part := partOf(c, p.payloadID)
	return part != nil && c.BundleOf(part) == p.in
}

func partOf(c *twophase.Committed, p payloadID) *twophase.Part {
	for i := range c.Parts {
		if part := &c.Parts[i]; c.Begun == p.Begun && part.Table == p.Table && slices.Contains(part.Digests, p.Digest) {
			return part
		}
	}
	return nil
}

// published notes the pieces of transactions that new snapshots show. The ledger's
// lock is held.
func (w *sweeper) published(s *twophase.State) {
	snaps := s.Snapshots()
	var due []located
	for i := len(snaps) - 1; i >= 0 && snaps[i].Version > w.shown; i-- {
		w.c.backlog.leave(snaps[i].Txns...)
		if !w.begun || !w.c.wrote.has(snaps[i].Position) {
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

// piecesOf are the pieces of a commit.
func piecesOf(id twophase.TxnID, c *twophase.Committed) []located {
	var out []located
	for i := range c.Parts {
		out = append(out, piecesOfPart(id, c, &c.Parts[i])...)
	}
	return out
}

func piecesOfPart(id twophase.TxnID, c *twophase.Committed, part *twophase.Part) []located {
	out := make([]located, len(part.Digests))
	for i, d := range part.Digests {
		out[i] = located{payloadID{Begun: c.Begun, Txn: id, Table: part.Table, Digest: d}, c.BundleOf(part)}
	}
	return out
}

// add has pieces deleted that lie by themselves, and bundles looked at that hold others:
// those go with the last piece in them.
func (w *sweeper) add(pieces []located) {
	if len(pieces) == 0 {
		return
	}
	w.mu.Lock()
	for _, p := range pieces {
		if p.in.IsZero() {
			w.due = append(w.due, p)
		} else {
			w.bundles[p.in] = true
		}
	}
	w.mu.Unlock()
	w.wake()
}

func (w *sweeper) addBundles(ids []twophase.BundleID) {
	if len(ids) == 0 {
		return
	}
	w.mu.Lock()
	for _, id := range ids {
		w.bundles[id] = true
	}
	w.mu.Unlock()
	w.wake()
}

func (w *sweeper) wake() {
	select {
	case w.ready <- struct{}{}:
	default:
	}
}

// late notes a piece that was staged when its transaction was over. Others of its
// kind, whose process died, are found by the listing (C2).
func (w *sweeper) late(p payloadID) {
	if at := (located{payloadID: p}); w.mayGo(at) {
		w.add([]located{at})
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
			due, bundles := w.take()
			w.remove(ctx, placeUnknown, due)
			w.removeSettled(ctx, bundles)
		case <-again.C:
			again.Reset(w.listed(ctx))
		case <-ctx.Done():
			return
		}
	}
}

func (w *sweeper) take() ([]located, []twophase.BundleID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	due, bundles := w.due, slices.Collect(maps.Keys(w.bundles))
	w.due = nil
	clear(w.bundles)
	return due, bundles
}

func (w *sweeper) remove(ctx context.Context, at place, pieces []located) {
	if len(pieces) == 0 {
		return
	}
	if err := w.c.payloads.remove(ctx, at, pieces); err != nil && ctx.Err() == nil {
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
	if err := w.listedItems(ctx); err != nil {
		next = w.again(ctx, err)
	}
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

// listedItems removes what may go of what lies in the store, as far as that can be read.
func (w *sweeper) listedItems(ctx context.Context) error {
	var due []located
	bundles := map[twophase.BundleID][]payloadID{}
	err := scanKeys(ctx, w.c.cfg.Store, payKeys, func(it lock.Item) {
		id, in, ok := parseItem(it.Key)
		switch {
		case !ok:
		case in.IsZero():
			due = w.look(ctx, due, id, int64(len(it.Value)))
		default:
			if ids, all := w.lookInto(ctx, in, it.Value); all {
				bundles[in] = ids
			}
		}
	})
	w.remove(ctx, inStore, due)
	w.removeBundles(ctx, bundles)
	return err
}

func (w *sweeper) listedObjects(ctx context.Context) (due []located, err error) {
	prefix := w.c.own.key("staged/")
	for e, err := range w.c.own.store.List(ctx, objstore.ListOptions{Prefix: prefix}) {
		if err != nil {
			return due, err
		}
		if id, ok := parsePayload(strings.TrimPrefix(e.Key, prefix)); ok {
			due = w.look(ctx, due, id, e.Size)
		}
	}
	return due, nil
}

// look says of a payload that lies by itself: it is due, or its transaction is open.
func (w *sweeper) look(ctx context.Context, due []located, id payloadID, size int64) []located {
	if at := (located{payloadID: id}); w.over(ctx, at, size) {
		due = append(due, at)
	}
	return due
}

// over: nothing needs the piece where it was found. The transaction of one that is
// undecided is listed as open.
func (w *sweeper) over(ctx context.Context, at located, size int64) bool {
	switch {
	case w.mayGo(at):
		return true
	case at.Begun > w.c.next():
		return w.outlived(at.payloadID)
	case !w.c.decided(at.Txn):
		w.c.openTxns.adopt(ctx, at, size)
	}
	return false
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
func (w *sweeper) mayGo(p located) (ok bool) {
	w.c.ledger.read(func(s *twophase.State) { ok = mayGo(s, p) })
	return ok
}

func mayGo(s *twophase.State, p located) bool {
	o := s.Outcome(p.Txn)
	leftOut := o != nil && o.Commit != nil && !lies(o.Commit, p)
	return leftOut || s.MaySweep(p.Txn, p.Begun)
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
