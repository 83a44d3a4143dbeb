package coordinator

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/txcoord/txcoord/tables"
	"github.com/txcoord/txcoord/tables/objstore"
	"github.com/txcoord/txcoord/twophase"
)

// every calls do now and then until ctx ends.
func every(ctx context.Context, d time.Duration, do func(context.Context)) {
	t := time.NewTicker(d)
	defer t.Stop()
	for {
		select {
		case <-t.C:
			do(ctx)
		case <-ctx.Done():
			return
		}
	}
}

// expire aborts open transactions whose deadline has passed here (R16): a deadline
// only permits the abort record, and the record decides.
func (c *Catalog) expire(ctx context.Context) {
	every(ctx, time.Second, func(ctx context.Context) {
		for _, ref := range c.openTxns.overdue() {
			if _, err := c.abort(ctx, ref, twophase.RuleExpired, "the deadline passed"); err != nil && ctx.Err() == nil {
				if errors.Is(err, &Error{Reason: OutcomeExpired}) || errors.Is(err, &Error{Reason: TokenStale}) {
					c.openTxns.done([]twophase.TxnID{ref.id})
					continue
				}
				c.log.Warn("expire a transaction", "transaction", ref.id, "error", err)
			}
		}
	})
}

// poll looks at open tables now and then, so that what others commit appears in
// snapshots (R18), and raises the floor of outcomes (R6).
func (c *Catalog) poll(ctx context.Context) {
	every(ctx, c.cfg.Limits.PollInterval, func(ctx context.Context) {
		rows, _ := c.Tables(ctx)
		_ = parallelIndex(len(rows), 8, func(i int) error {
			if rows[i].Mode != twophase.ModeOpen || rows[i].Frozen != nil {
				return nil
			}
			t, err := c.tables.of(rows[i].ID)
			if err == nil {
				_, err = c.lookUp(ctx, t)
			}
			if err != nil && ctx.Err() == nil {
				c.log.Warn("look at an open table", "table", rows[i].URI, "error", err)
			}
			return nil
		})
		c.raiseFloor(ctx)
	})
}

// raiseFloor lets outcomes be forgotten that are older than the retention, or past
// the count, and whose manifests are written.
func (c *Catalog) raiseFloor(ctx context.Context) {
	var floor twophase.Position
	written := c.manifests.written()
	c.ledger.read(func(s *twophase.State) { floor = c.wantedFloor(s, written) })
	if floor == 0 {
		return
	}
	if err := c.adminRecord(ctx, &twophase.FloorRaised{Floor: floor}); err != nil && ctx.Err() == nil {
		c.log.Warn("forget old outcomes", "error", err)
	}
}

// wantedFloor is the position that the floor may be raised to; 0 for none worth a record.
func (c *Catalog) wantedFloor(s *twophase.State, written twophase.SnapshotVersion) twophase.Position {
	now, _ := s.Floor()
	oldest := twophase.TimeOf(c.cfg.Now().Add(-c.cfg.Limits.OutcomeRetention))
	snaps := s.Snapshots()
	keep, count := len(snaps), 0 // snapshots from keep on hold no more outcomes than are kept
	for keep > 0 && count <= c.cfg.Limits.OutcomeCount {
		keep--
		count += len(snaps[keep].Txns)
	}
	floor := now
	for i, sn := range snaps {
		if sn.Version > written || sn.Time >= oldest && i >= keep {
			break
		}
		floor = sn.Position
	}
	floor = min(floor, s.MayForget(written))
	for _, r := range s.Rounds() {
		floor = min(floor, r.ID.Opened)
	}
	if floor < now+256 {
		return 0
	}
	return floor
}

// checkpoints writes the fold as objects now and then, and names them in the
// journal (R1), so that a start reads a bounded number of entries and the ring
// never fills.
type checkpoints struct {
	c     *Catalog
	ready chan struct{}
	// known are segments that are durable already.
	known map[string]bool
}

func newCheckpoints(c *Catalog) *checkpoints {
	return &checkpoints{c: c, ready: make(chan struct{}, 1), known: map[string]bool{}}
}

// look says that an entry was folded. The ledger's lock is held.
func (k *checkpoints) look(at twophase.Position) {
	if at-k.c.ledger.state.Checkpoint().Position < k.every() {
		return
	}
	select {
	case k.ready <- struct{}{}:
	default:
	}
}

// every is the distance at which a checkpoint is due: by configuration, and at the
// latest at half the ring.
func (k *checkpoints) every() twophase.Position {
	return min(twophase.Position(k.c.cfg.Limits.CheckpointEvery), k.c.journal.Slots()/2)
}

func (k *checkpoints) run(ctx context.Context) {
	for {
		select {
		case <-k.ready:
		case <-ctx.Done():
			return
		}
		if err := k.write(ctx); err != nil && ctx.Err() == nil {
			k.c.log.Warn("write a checkpoint of the fold", "error", err)
		}
	}
}

func (k *checkpoints) write(ctx context.Context) error {
	var index twophase.CheckpointObject
	var segments []twophase.CheckpointObject
	var at twophase.Position
	k.c.ledger.read(func(s *twophase.State) {
		index, segments = s.EncodeCheckpoint()
		at = s.Next()
	})
	var missing []twophase.CheckpointObject
	for _, o := range segments {
		if !k.known[o.Ref.Name] {
			missing = append(missing, o)
		}
	}
	put := func(o twophase.CheckpointObject) error {
		return k.c.own.putOnce(ctx, "checkpoints/"+o.Ref.Name, o.Bytes)
	}
	if err := parallel(missing, 8, put); err != nil {
		return err
	}
	if err := put(index); err != nil {
		return err
	}
	before := k.known
	k.known = map[string]bool{index.Ref.Name: true}
	for _, o := range segments {
		k.known[o.Ref.Name] = true
	}
	if err := k.c.adminRecord(ctx, &twophase.Checkpointed{Position: at, Object: index.Ref}); err != nil {
		return err
	}
	return k.tidy(ctx, before)
}

// checkpointGrace is how long an object of a checkpoint stays that the newest one
// does not need: somebody who read the name before may still be loading it.
const checkpointGrace = 10 * time.Minute

// tidy removes objects of older checkpoints.
func (k *checkpoints) tidy(ctx context.Context, before map[string]bool) error {
	prefix := k.c.own.key("checkpoints/")
	for e, err := range k.c.own.store.List(ctx, objstore.ListOptions{Prefix: prefix}) {
		if err != nil {
			return err
		}
		name := strings.TrimPrefix(e.Key, prefix)
		if k.known[name] || before[name] || k.c.cfg.Now().Sub(e.Modified) < checkpointGrace {
			continue
		}
		if err := k.c.own.store.Delete(ctx, e.Key); err != nil {
			return err
		}
	}
	return nil
}

// distance is how many entries the newest checkpoint is behind.
func (k *checkpoints) distance() (d twophase.Position) {
	k.c.ledger.read(func(s *twophase.State) { d = s.Next() - s.Checkpoint().Position })
	return d
}

// full reports whether only a checkpoint record may be appended: no entry is put
// at distance M, and the last eighth of the ring is kept for it (R1).
func (k *checkpoints) full() bool {
	may := false
	k.c.ledger.read(func(s *twophase.State) {
		may = k.c.journal.Ring().MayAppend(s.Next(), s.Checkpoint().Position, false)
	})
	if !may {
		k.hurry()
	}
	return !may
}

func (k *checkpoints) hurry() {
	select {
	case k.ready <- struct{}{}:
	default:
	}
}

// pace makes the appender wait longer as the distance to the newest checkpoint
// grows (R1): larger groups, so that a stalled object store slows commits before it
// can block them.
func (k *checkpoints) pace(ctx context.Context) {
	half := k.c.journal.Slots() / 2
	distance := k.distance()
	if distance <= half {
		return
	}
	k.hurry()
	over := float64(distance-half) / float64(half)
	pause(ctx, time.Duration(over*over*float64(100*time.Millisecond)))
}

// sweeper deletes staged payloads, on the fold's word alone (R20): aborted, or
// published in a closed round, or below the floor with nothing pending that names them.
type sweeper struct {
	c     *Catalog
	mu    sync.Mutex
	due   []payloadID
	shown twophase.SnapshotVersion
}

func newSweeper(c *Catalog) *sweeper { return &sweeper{c: c} }

// aborted notes the pieces of transactions that ended without effect, and pieces
// that a committed one left out. The ledger's lock is held.
func (w *sweeper) aborted(s *twophase.State, ids []twophase.TxnID, pieces []payloadID) {
	var due []payloadID
	for _, p := range pieces {
		if o := s.Outcome(p.Txn); o != nil && (o.Abort != nil || !names(o, p)) {
			due = append(due, p)
		}
	}
	w.add(due)
}

func names(o *twophase.Outcome, p payloadID) bool {
	for i := range o.Commit.Parts {
		if o.Commit.Parts[i].Table != p.Table {
			continue
		}
		for _, d := range o.Commit.Parts[i].Digests {
			if d == p.Digest && o.Commit.Begun == p.Begun {
				return true
			}
		}
	}
	return false
}

// published notes the pieces of transactions that new snapshots show. The ledger's
// lock is held.
func (w *sweeper) published(s *twophase.State) {
	snaps := s.Snapshots()
	var due []payloadID
	for i := len(snaps) - 1; i >= 0 && snaps[i].Version > w.shown; i-- {
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
	defer w.mu.Unlock()
	w.due = append(w.due, ids...)
}

// sweepEvery is how often due payloads are deleted; fullSweep how often all are listed.
const (
	sweepEvery = time.Second
	fullSweep  = 10 * time.Minute
)

func (w *sweeper) run(ctx context.Context) {
	w.listed(ctx)
	last := w.c.cfg.Boot()
	every(ctx, sweepEvery, func(ctx context.Context) {
		w.mu.Lock()
		due := w.due
		w.due = nil
		w.mu.Unlock()
		w.remove(ctx, due)
		if now := w.c.cfg.Boot(); now-last > fullSweep {
			last = now
			w.listed(ctx)
		}
	})
}

func (w *sweeper) remove(ctx context.Context, ids []payloadID) {
	if len(ids) == 0 {
		return
	}
	if err := w.c.payloads.remove(ctx, ids); err != nil && ctx.Err() == nil {
		w.c.log.Warn("remove staged payloads", "error", err)
	}
}

// listed goes through everything that is stored: what a dead process left, and what
// a slow Stage wrote after its transaction had ended (C2).
func (w *sweeper) listed(ctx context.Context) {
	var due []payloadID
	after := ""
	for ctx.Err() == nil {
		items, err := w.c.cfg.Store.Scan(ctx, "pay/", after, 0)
		if err != nil || len(items) == 0 {
			break
		}
		for _, it := range items {
			after = it.Key
			_, rest, _ := strings.Cut(strings.TrimPrefix(it.Key, "pay/"), "/") // behind the shard
			if id, ok := parsePayload(rest); ok && w.mayGo(id) {
				due = append(due, id)
			}
		}
	}
	w.remove(ctx, append(due, w.listedObjects(ctx)...))
	w.facts(ctx)
}

func (w *sweeper) listedObjects(ctx context.Context) (due []payloadID) {
	prefix := w.c.own.key("staged/")
	for e, err := range w.c.own.store.List(ctx, objstore.ListOptions{Prefix: prefix}) {
		if err != nil {
			break
		}
		if id, ok := parsePayload(strings.TrimPrefix(e.Key, prefix)); ok && w.mayGo(id) {
			due = append(due, id)
		}
	}
	return due
}

// factsGrace is how long facts that no record names stay: their transaction may be
// about to be decided.
const factsGrace = time.Hour

// facts removes objects with conflict facts that the fold does not name any more (R8).
func (w *sweeper) facts(ctx context.Context) {
	named := map[string]bool{}
	w.c.ledger.read(func(s *twophase.State) {
		for _, t := range s.Tables() {
			for _, p := range t.Past {
				named[p.FactsRef.Name] = true
			}
		}
	})
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

// verifyFiles looks for each added file before the decision.
func (c *Catalog) verifyFiles(ctx context.Context, parts []*part) error {
	type file struct {
		row  TableInfo
		path string
	}
	var files []file
	for _, p := range parts {
		for _, a := range p.actions.Adds {
			files = append(files, file{p.row, a.Path})
		}
	}
	return parallel(files, 32, func(f file) error {
		store, key, err := c.cfg.Objects.Open(tables.FileURI(f.row.URI, f.path))
		if err == nil {
			_, err = store.Stat(ctx, key)
		}
		if err == nil {
			return nil
		}
		if errors.Is(err, objstore.ErrNotFound) {
			return &Error{Reason: PartUnreadable, Message: fmt.Sprintf("table %s: added file %s does not exist", f.row.Name, f.path),
				Table: &TableDetail{Table: f.row.Name, TableID: f.row.ID, URI: f.row.URI, Version: twophase.NoVersion, File: f.path}}
		}
		return c.objectsError(f.row.URI, err)
	})
}
