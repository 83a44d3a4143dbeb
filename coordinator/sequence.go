package coordinator

import (
	"bytes"
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/txcoord/txcoord/coordinator/fair"
	"github.com/txcoord/txcoord/coordinator/quota"
	"github.com/txcoord/txcoord/coordinator/telemetry"
	"github.com/txcoord/txcoord/lock"
	"github.com/txcoord/txcoord/twophase"
)

// sequencer turns waiting requests into entries. Group commit is natural: while
// one append is in flight requests queue, and when it returns all that waits goes
// into the next entry. Where nobody shares a round, nothing waits (see gathering).
type sequencer struct {
	c *Catalog

	mu sync.Mutex
	// queue holds the requests of clients; records of the coordinator and of operators
	// wait in own, and go before them.
	queue fair.Queue[*submission]
	own   []*submission
	ready chan struct{} // holds one token while something may wait

	parked    parked
	gathering gathering

	losses   twophase.Losses
	forwards chan struct{} // holds a token per call that was sent on (R15)
}

// submission is a request on its way into the journal.
type submission struct {
	request twophase.Request
	// packs are pieces that must be durable before the entry that holds the request's
	// record, or together with it, one bundle each; stale are the bundles of entries that
	// lost their positions.
	packs [][]packed
	stale []twophase.BundleID
	// facts are those in objects that a decision on the request asked for before.
	facts map[twophase.Hash]twophase.Facts
	// forward sends the call to another replica; nil if it may not be, or was.
	forward Forward
	// answer gets one value: nil when the request's entry is folded, else why there
	// is no record about it.
	answer chan error
	// left: the one who asked was told that nothing is known, and asks again. It is
	// dropped unless it is in an entry under way.
	left *atomic.Bool
	// landed gets the position of the entry that was written with its record in it, and
	// one more; it stays 0 if others wrote what decided the transaction. May be nil.
	landed *atomic.Uint64
	// queued is when it began to wait.
	queued telemetry.Queued
	// place in the queue, while it is taken out of it; nil for what waits in own.
	place *fair.Item[*submission]
	// stood is since when the call stands behind keys that go first, on the boot clock; 0
	// before. Each submission of the call shares it; nil for what is never parked.
	stood *atomic.Int64
	// reached is called when it is in the queue; nil for what is there as soon as it comes.
	reached func()
	// done is called with what it was answered, with the sequencer's lock held; may be nil.
	done func(error)
}

func newSequencer(c *Catalog) *sequencer {
	s := &sequencer{c: c, ready: make(chan struct{}, 1), forwards: make(chan struct{}, forwards)}
	s.gathering.atMost, s.gathering.signal = c.cfg.Limits.GatherAtMost, s.signal
	return s
}

// submit asks for a record and waits for the entry that holds it, or that decided
// the same transaction, to be folded. What it means is then to be read from the
// fold (R5). A *twophase.Refused says that there is no record and will be none.
// When ctx ends, the request may still be recorded.
func (s *sequencer) submit(ctx context.Context, r twophase.Request) error {
	return s.send(ctx, submission{request: r})
}

func (s *sequencer) send(ctx context.Context, what submission) error {
	sub := &what
	sub.answer, sub.left = make(chan error, 1), new(atomic.Bool)
	failed := s.c.troubles.failed()
	sub.queued = s.c.cfg.Telemetry.Queued(ctx)
	s.enqueue(quota.CallerOf(ctx).Name, sub)
	look := time.NewTicker(storeTroubleAfter / 4)
	defer look.Stop()
	for {
		select {
		case err := <-sub.answer:
			return err
		case <-look.C:
			if err := s.c.storeTrouble(failed); err != nil {
				sub.left.Store(true)
				return err
			}
		case <-ctx.Done():
			return ctx.Err()
		case <-s.c.life.Done(): // the sequencer may have gone before it saw the request
			return errClosing
		}
	}
}

func (s *sequencer) enqueue(who string, sub *submission) {
	s.mu.Lock()
	if sub.request.Record != nil {
		s.own = append(s.own, sub)
	} else {
		s.queue.Push(who, int64(sub.request.Size()), sub)
	}
	s.mu.Unlock()
	if sub.reached != nil {
		sub.reached()
	}
	s.signal()
}

func (s *sequencer) signal() {
	select {
	case s.ready <- struct{}{}:
	default:
	}
}

// run appends until ctx ends; then everything that waits is answered "unknown".
func (s *sequencer) run(ctx context.Context) {
	look := time.NewTicker(s.c.cfg.Limits.parkedLook())
	defer look.Stop()
	for {
		select {
		case <-s.ready:
		case <-look.C:
		case <-ctx.Done():
			s.answerAll(s.unparkAll(), ctx.Err())
			for group := s.take(); len(group) > 0; group = s.take() {
				s.answerAll(group, ctx.Err())
			}
			return
		}
		s.gather(ctx)
		s.unpark()
		group := s.take()
		if len(group) == 0 {
			continue
		}
		rest, err := s.group(ctx, group)
		if err != nil {
			s.answerAll(rest, err)
			rest = nil
		}
		s.putBack(rest)
	}
}

// groupFactor is how much more is taken than one entry holds: some of it is decided
// already, or loses, which takes less room than what it asked for.
const groupFactor = 4

// take takes out what the next entry is made of, in the order of its decisions: an equal
// share of each principal that waits, so that the little that one sends is in the next
// entry whatever others have queued.
func (s *sequencer) take() []*submission {
	s.mu.Lock()
	defer s.mu.Unlock()
	left := func(sub *submission) bool { return sub.left.Load() }
	group := slices.DeleteFunc(s.own, left)
	s.own = nil
	for _, it := range s.queue.Take(groupFactor*int64(s.c.cfg.Limits.EntryBytes), left) {
		it.Value.place = it
		group = append(group, it.Value)
	}
	return group
}

// putBack puts back what was not decided, where it was, and has the next group made if
// anything waits.
func (s *sequencer) putBack(rest []*submission) {
	s.mu.Lock()
	var own []*submission
	for _, sub := range rest {
		if sub.place == nil {
			own = append(own, sub)
		} else {
			s.queue.Return(sub.place)
		}
	}
	s.own = append(own, s.own...)
	waits := len(s.own)+s.queue.Len() > 0
	s.mu.Unlock()
	if waits {
		s.signal()
	}
}

func (s *sequencer) answerAll(group []*submission, err error) {
	for _, sub := range group {
		s.answer(sub, err)
	}
}

// answer tells who waits, and the queue that it was served.
func (s *sequencer) answer(sub *submission, err error) {
	s.mu.Lock()
	if sub.place != nil {
		s.queue.Done(sub.place)
	}
	if sub.done != nil {
		sub.done(err)
	}
	s.mu.Unlock()
	s.c.sweeper.addBundles(sub.stale)
	sub.answer <- err
}

// group decides the requests against the present fold, appends the entry and folds
// what stands at the position afterwards. It returns what has to be asked again:
// the deferred, and everything recorded if the position was lost (R15).
func (s *sequencer) group(ctx context.Context, group []*submission) ([]*submission, error) {
	if err := s.c.ledger.stopped(); err != nil {
		return group, err
	}
	group, again := s.admit(ctx, group)
	if len(group) == 0 {
		return again, nil
	}
	decision, entry, err := s.decide(group)
	if err != nil {
		return append(group, again...), err
	}
	var recorded []*submission
	for i, a := range decision.Answers {
		switch {
		case a.Recorded:
			recorded = append(recorded, group[i])
		case a.Behind != nil:
			s.park(group[i], a.Behind)
		case a.Deferred:
			again = append(again, group[i])
		default:
			s.answer(group[i], a.Refused)
		}
	}
	if len(decision.Records) == 0 {
		s.answerAll(recorded, nil) // decided before: the fold has the answer
		return again, nil
	}
	own, records := taken(group, &decision)
	won, filled, err := s.append(ctx, entry, recorded, s.bundle(own, records))
	if !won {
		lost(own, records)
	}
	switch {
	case err != nil:
		return append(recorded, again...), err
	case s.losses.Ended(won):
		s.handOver(recorded, filled)
		return append(recorded, again...), nil
	case !won:
		return append(recorded, again...), nil
	}
	for _, sub := range own {
		if sub.landed != nil {
			sub.landed.Store(uint64(entry.Position) + 1)
		}
	}
	s.answerAll(recorded, nil)
	return again, nil
}

// admit holds everything but checkpoint records back while the ring is full. One that
// was made so long ago that the next would be due at once wins no place for the one
// that it takes.
func (s *sequencer) admit(ctx context.Context, group []*submission) (now, later []*submission) {
	if !s.c.checkpoints.full() {
		return group, nil
	}
	next, ring := s.c.next(), s.c.journal.Ring()
	for _, sub := range group {
		cp, ok := sub.request.Record.(*twophase.Checkpointed)
		switch {
		case !ok:
			later = append(later, sub)
		case ring.MustCheckpoint(next, cp.Position):
			s.answer(sub, &twophase.Refused{Reason: twophase.ReasonStale, Detail: "the ring is full, and this checkpoint is too old to make room"})
		default:
			now = append(now, sub)
		}
	}
	if len(now) == 0 {
		pause(ctx, 50*time.Millisecond)
	}
	return now, later
}

func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

func (s *sequencer) decide(group []*submission) (twophase.Decision, *twophase.Entry, error) {
	c := s.c
	requests := make([]twophase.Request, len(group))
	for i, sub := range group {
		requests[i] = sub.request
	}
	c.ledger.mu.RLock()
	defer c.ledger.mu.RUnlock()
	st := c.ledger.state
	d := twophase.Decide(st, requests, twophase.DecideInput{
		Rules: namingRules{names: &c.paths}, Views: c.tables.views(requests), Fetched: c.facts.with(group),
		MaxBytes: c.cfg.Limits.EntryBytes, Limit: c.cfg.Limits.MaxEntryBytes,
		Reserve: twophase.Reserve{After: c.cfg.Limits.ReserveAfter, Positions: twophase.Position(c.cfg.Limits.ReservePositions)},
	})
	legible(d.Records)
	e, err := st.Entry(d, twophase.TimeOf(c.cfg.Now()), c.replicas.writer())
	return d, e, err
}

// append puts the entry and folds what stands at its position. An error means that
// the outcome is unknown: whoever waits repeats the same call (R5).
func (s *sequencer) append(ctx context.Context, e *twophase.Entry, group []*submission, writes []lock.Write) (won bool, filled []byte, err error) {
	if err := s.c.clockFits(); err != nil {
		return false, nil, err
	}
	s.c.checkpoints.pace(ctx)
	raw, at, began := e.Encode(), s.c.cfg.Boot(), time.Now()
	filled, err = s.c.journal.Append(ctx, e.Position, raw, writes...)
	if err != nil {
		if stopsLedger(err) {
			err = s.c.lapped(err)
		}
		return false, nil, err
	}
	if won = bytes.Equal(filled, raw); won {
		s.c.atHead(at)
	}
	s.appended(e, group, began, won)
	if err := s.c.ledger.fold(decode(filled)); err != nil {
		s.c.log.Error("the journal cannot be folded; the catalog takes no writes", "position", e.Position, "error", err)
		return false, nil, err
	}
	return won, filled, nil
}
