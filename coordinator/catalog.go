package coordinator

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/txcoord/txcoord/coordinator/quota"
	"github.com/txcoord/txcoord/lock"
	"github.com/txcoord/txcoord/twophase"
)

// Catalog is one catalog as one replica serves it: a fold of its journal, the
// sequencer that appends to it, and the publisher that makes versions of what is
// decided. Its methods are safe for concurrent use; their errors are *Error, or a
// context's.
type Catalog struct {
	cfg     Config
	log     *slog.Logger
	journal *lock.Journal
	ledger  *ledger
	own     *ownObjects

	seq         *sequencer
	tables      *handles
	facts       *factsCache
	payloads    *payloads
	openTxns    *openTxns
	book        *quota.Book
	publisher   *publisher
	manifests   *manifests
	checkpoints *checkpoints
	sweeper     *sweeper
	bundler     *bundler
	urgent      urgent
	memory      *memory
	recorded    *identities
	renewals    *renewals
	backlog     *backlog
	replicas    *replicas
	wrote       *wrote
	sets        tableSets
	graces      graces
	counts      Counts // guarded by the ledger's lock
	troubles    troubles
	paths       pathNames
	upkeep      *Maintainer // nil without Config.Maintain
	// replacements are the boot times at which Replaced records were folded, by table.
	replacements sync.Map

	// life ends when the catalog is closed; everything in the background hangs on it.
	life  context.Context
	stop  context.CancelFunc
	start sync.Mutex // between spawn and Close
	work  sync.WaitGroup

	// collecting is held by who looks for garbage, or puts it back.
	collecting turn

	// startHead is where the journal ended when the catalog was opened.
	startHead twophase.Position
	// started: what the journal held when the catalog was opened is folded.
	started  atomic.Bool
	catching turn
	headAt   atomic.Int64 // boot clock at which the fold was last known to hold the whole journal

	behindOnce sync.Once
	behind     chan struct{}
}

// Open folds the journal and begins to serve. What a dead process left undone is
// taken up by the same actors that do it in normal running.
//
// Other replicas go on meanwhile. Should the ring go past the checkpoint that this one
// begins with, it begins again with a newer one.
func Open(ctx context.Context, cfg Config) (*Catalog, error) {
	var c *Catalog
	var err error
	for range openTries {
		if c, err = openOnce(ctx, cfg); !errors.Is(err, lock.ErrBehind) || ctx.Err() != nil {
			break
		}
	}
	return c, err
}

const openTries = 20

func openOnce(ctx context.Context, cfg Config) (*Catalog, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	objects, prefix, err := cfg.Objects.Open(cfg.Warehouse)
	if err != nil {
		return nil, fmt.Errorf("warehouse %s: %w", cfg.Warehouse, err)
	}
	if err := notePlace(ctx, cfg); err != nil {
		return nil, err
	}
	journal, err := lock.OpenJournal(ctx, cfg.Store, cfg.Slots)
	if err != nil {
		return nil, err
	}
	if prefix != "" {
		prefix += "/"
	}
	c := &Catalog{
		cfg: cfg, log: cfg.Log.With("catalog", cfg.Name), journal: journal, behind: make(chan struct{}), collecting: newTurn(), catching: newTurn(),
		own: &ownObjects{store: objects, prefix: prefix + "_txcoord/" + cfg.Name},
	}
	c.life, c.stop = context.WithCancel(context.Background())
	journal.OnTry(func(err error) {
		if c.life.Err() == nil {
			c.noteTrouble(placeStore, written, err)
		}
	})
	if err := c.build(ctx); err != nil {
		c.stop()
		return nil, err
	}
	return c, nil
}

func (c *Catalog) build(ctx context.Context) error {
	from, err := c.recover(ctx)
	if err != nil {
		return err
	}
	defer from.behind.end()
	c.ledger = newLedger(from.state, c.life.Done())
	c.wrote = newWrote(!c.cfg.SharedStore)
	c.replicas = newReplicas(c)
	c.facts = newFactsCache(c.own)
	c.payloads = newPayloads(c.cfg.Store, c.own, c.cfg.Limits)
	c.tables = newHandles(c)
	moment := func() time.Time { return time.Unix(0, 0).Add(c.cfg.Boot()) } // never goes back
	c.book = &quota.Book{Now: moment, Refused: c.cfg.Telemetry.QuotaExceeded}
	c.openTxns = newOpenTxns(c)
	c.seq = newSequencer(c)
	c.publisher = newPublisher(c)
	c.manifests = newManifests(c)
	c.checkpoints = newCheckpoints(c)
	c.sweeper, c.bundler = newSweeper(c), newBundler(c)
	c.recorded, c.renewals = newIdentities(), newRenewals(c)
	c.backlog = newBacklog(from.state, c.cfg.Limits.QueueBytes, moment)
	c.backlog.budget.Refused = c.cfg.Telemetry.QuotaExceeded
	c.ledger.onFold = c.onFold
	if c.cfg.Maintain != nil {
		if c.upkeep, err = c.NewMaintainer(*c.cfg.Maintain); err != nil {
			return err
		}
	}
	if err := c.foldBegun(from.behind); err != nil {
		return err
	}
	if err := c.catchUp(ctx); err != nil {
		return err
	}
	c.started.Store(true)
	if err := c.checkLogStore(ctx); err != nil {
		return err
	}
	c.sweeper.begin()
	if err := c.manifests.start(ctx); err != nil {
		return err
	}
	if err := c.openTxns.load(ctx); err != nil {
		return err
	}
	for _, run := range []func(context.Context){
		c.seq.run, c.publisher.run, c.manifests.run, c.openTxns.run, c.checkpoints.run, c.sweeper.run, c.bundler.run, c.expire, c.poll, c.countFences, c.watchOwners, c.forget,
		c.follow, c.replicas.run, c.openTxns.watch, c.endLeases, c.switchOn, c.renewals.run,
	} {
		c.spawn(run)
	}
	c.beginJournal(ctx)
	c.publisher.look()
	c.cfg.Telemetry.Watch(c.observation)
	c.reportFuture()
	if from.older {
		c.checkpoints.hurry()
	}
	return nil
}

// spawn runs something in the background, which Close waits for. It reports false
// once the catalog is closing.
func (c *Catalog) spawn(run func(context.Context)) bool {
	c.start.Lock()
	defer c.start.Unlock()
	if c.life.Err() != nil {
		return false
	}
	c.work.Go(func() { run(c.life) })
	return true
}

// onFold runs after each entry, with the ledger's lock held; then without it.
func (c *Catalog) onFold(before *foldMarks, e *twophase.Entry) (then func()) {
	if e.Writer == c.replicas.writer() {
		c.wrote.add(e.Position)
	}
	c.tables.follow(before, e)
	c.recorded.note(e, c.journal.Slots())
	c.renewals.look(e)
	var decided []twophase.TxnID
	for i, r := range e.Records {
		switch r := r.(type) {
		case *twophase.Committed:
			decided = append(decided, r.Txn)
			if c.ledger.state.Outcome(r.Txn).By(e, i) {
				c.backlog.decided(r)
				c.counts.Committed++
			}
		case *twophase.Aborted:
			decided = append(decided, r.Txn)
			if c.ledger.state.Outcome(r.Txn).By(e, i) {
				c.counts.aborted(r.Rule)
			}
		case *twophase.Replaced:
			if t, ok := c.ledger.state.Table(r.Table); ok && t.Frozen != nil && t.Frozen.Cause == twophase.CauseReplaced && t.Frozen.Since == e.Time {
				c.replacements.Store(r.Table, c.cfg.Boot())
			}
		case *twophase.Moved:
			c.ledger.wakeLocked(nil) // no publication will come
		case *twophase.FloorRaised:
			floor, _ := c.ledger.state.Floor()
			c.memory.below(floor)
		}
	}
	if len(decided) > 0 {
		pieces := c.openTxns.done(decided)
		c.sweeper.aborted(c.ledger.state, decided, pieces)
	}
	if c.seq.parked.held.Load() > 0 {
		c.seq.signal() // what they stand behind may have ended
	}
	c.closed(before.closing)
	c.expectAnswered(before.closing, e.Time)
	c.memory.add(e, len(decided), c.ledger.state.Shown())
	c.sweeper.published(c.ledger.state)
	c.publisher.look()
	c.manifests.look()
	c.checkpoints.look(e)
	return c.tellFreezes(before, e)
}

// Close stops appending and publishing, and waits for what runs in the background.
// Work in flight is cut off where it is: the next process takes it up from the
// journal. The error is that of a context that ends before.
func (c *Catalog) Close(ctx context.Context) error {
	c.cfg.Telemetry.Watch(nil)
	c.start.Lock()
	c.stop()
	c.start.Unlock()
	done := make(chan struct{})
	go func() {
		c.work.Wait()
		close(done)
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Name is the catalog's.
func (c *Catalog) Name() string { return c.cfg.Name }

// Shown is the newest snapshot of this replica's fold.
func (c *Catalog) Shown() (v twophase.SnapshotVersion) {
	c.ledger.read(func(s *twophase.State) { v = s.Shown() })
	return v
}

// atLeastWait is how long a replica waits for a snapshot that a client has seen.
const atLeastWait = 5 * time.Second

// AtLeast waits a little until the fold contains a snapshot that the client has
// seen elsewhere; REPLICA_BEHIND otherwise (R18).
func (c *Catalog) AtLeast(ctx context.Context, v twophase.SnapshotVersion) error {
	if v == 0 || c.Shown() >= v {
		return nil
	}
	if err := c.catchUp(ctx); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, patience(ctx))
	defer cancel()
	if err := c.ledger.wait(ctx, func(s *twophase.State) bool { return s.Shown() >= v }); err != nil {
		return &Error{Reason: ReplicaBehind, RetryAfter: 100 * time.Millisecond, Message: fmt.Sprintf("this replica has not seen snapshot %d yet; its newest is %d", v, c.Shown()), Cause: err}
	}
	return nil
}

// patience ends before the client's deadline does, so that it hears why.
func patience(ctx context.Context) time.Duration {
	if end, ok := ctx.Deadline(); ok {
		return min(atLeastWait, time.Until(end)*3/4)
	}
	return atLeastWait
}

// submitFetching submits a record and fetches the facts that its verdicts need.
func (c *Catalog) submitFetching(ctx context.Context, r twophase.Request) error {
	sub := submission{request: r}
	for {
		err := c.seq.send(ctx, sub)
		var refused *twophase.Refused
		if !errors.As(err, &refused) || refused.Reason != twophase.ReasonNeedFacts {
			return err
		}
		if err := c.fetch(ctx, &sub, refused.Refs); err != nil {
			return err
		}
	}
}

// fetch brings facts in objects to a request that needs them. They stay with it: the
// cache may be too small for all of them.
func (c *Catalog) fetch(ctx context.Context, sub *submission, refs []twophase.ObjectRef) error {
	if sub.facts == nil {
		sub.facts = map[twophase.Hash]twophase.Facts{}
	}
	got := make([]twophase.Facts, len(refs))
	err := parallelIndex(len(refs), 16, func(i int) (err error) {
		got[i], err = c.facts.of(ctx, nil, refs[i])
		return err
	})
	if err != nil {
		return c.objectsError("", err)
	}
	for i, ref := range refs {
		sub.facts[ref.Hash] = got[i]
	}
	return nil
}
