package coordinator

import (
	"context"
	"errors"
	"math"
	"sync"
	"time"

	"github.com/txcoord/txcoord/twophase"
)

// Writers that wait for PUBLISHED on one table are answered together, by the entry that
// closes their round, and come again together a little later. What others had decided
// meanwhile gathers for one entry more (twophase.Caps.Gather), and the sequencer waits a
// little before that entry: so all of them share the next round. Without it they fall into
// two groups, each of which waits for the other's round as well as for its own.

// gathering counts calls on their way to the sequencer, and says how long it is worth to
// wait for those who were answered.
type gathering struct {
	atMost time.Duration
	signal func() // says that something may wait in the queue

	mu sync.Mutex
	// entered are the calls so far that want a record, and reached those of them that are
	// in the queue, or gave up on their way: what is small becomes durable in between.
	entered, reached int
	now              *returning
	// vain waits in a row ended with less than half of those who were awaited, and so
	// many chances are passed over: who comes at times of their own is not worth a wait.
	vain, pass int
}

// returning are callers who were answered together, and are awaited.
type returning struct {
	since, callers int
	wait           time.Duration
	over           chan struct{} // closed when they are there, or have been awaited long enough
	ended          bool
	vain           bool
}

// partOfRound is which part of the time of a round is waited: missing it costs all of that.
const partOfRound = 4

// vainAtMost bounds how often in a row nothing is waited for: 2^vainAtMost chances.
const vainAtMost = 5

// expect says that so many callers were answered by the close of rounds that took so long,
// which they shared, or which others wait behind.
func (g *gathering) expect(answered int, round time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	wait := min(g.atMost, round/partOfRound)
	switch {
	case answered == 0 || wait <= 0:
		return
	case g.pass > 0:
		g.pass--
		return
	case g.now != nil:
		g.end(g.now)
	}
	r := &returning{since: g.entered, callers: answered, wait: wait, over: make(chan struct{})}
	g.now = r
	time.AfterFunc(wait, func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.end(r)
	})
}

// end ends the wait for those to enter, once. The lock is held.
func (g *gathering) end(r *returning) {
	if r.ended {
		return
	}
	r.ended = true
	close(r.over)
	if r.vain = 2*(g.entered-r.since) < r.callers; r.vain {
		g.vain = min(g.vain+1, vainAtMost)
		g.pass = 1<<g.vain - 1
		return
	}
	g.vain = 0
}

// enter counts a call. reached is to be called when it is in the queue, or has failed
// before; it may be called again.
func (g *gathering) enter() (reached func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.entered++
	if g.now != nil && g.entered-g.now.since >= g.now.callers {
		g.end(g.now)
	}
	return sync.OnceFunc(func() {
		g.mu.Lock()
		g.reached++
		g.mu.Unlock()
		g.signal()
	})
}

// entering waits for those who are awaited to enter.
func (g *gathering) entering(ctx context.Context) *returning {
	g.mu.Lock()
	r := g.now
	g.mu.Unlock()
	if r == nil {
		return nil
	}
	select {
	case <-r.over:
	case <-ctx.Done():
	}
	return r
}

// missing is how many of those who entered are still on their way.
func (g *gathering) missing(entered int) int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return entered - g.reached
}

// came ends the wait for r, and says how many calls have entered; 0 if nobody is to be
// waited for, since few came.
func (g *gathering) came(r *returning) int {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.now == r {
		g.now = nil
	}
	if r.vain {
		return 0
	}
	return g.entered
}

// gather waits for those who are awaited: for them to enter, and as long again for them to
// reach the queue.
func (s *sequencer) gather(ctx context.Context) {
	r := s.gathering.entering(ctx)
	if r == nil {
		return
	}
	late := time.NewTimer(r.wait)
	defer late.Stop()
	for entered := s.gathering.came(r); s.gathering.missing(entered) > 0; {
		select {
		case <-s.ready:
		case <-late.C:
			return
		case <-ctx.Done():
			return
		}
	}
}

// expectAnswered tells the sequencer of callers that an entry has answered. The ledger's
// lock is held, and nobody was woken so far.
func (c *Catalog) expectAnswered(closing []*twophase.Round, at twophase.Time) {
	shared := len(closing) > 0 && c.ledger.state.Gathering()
	answered, took := 0, time.Duration(0)
	for _, r := range closing {
		if _, open := c.ledger.state.Round(r.ID); open {
			continue
		}
		callers := 0
		for _, txn := range r.Txns {
			callers += len(c.ledger.waiters[txn])
		}
		if callers > 1 || shared {
			answered += callers
		}
		took = max(took, at.Std().Sub(r.Time.Std()))
	}
	c.seq.gathering.expect(answered, took)
}

// beginLimit is how long a start waits for the first entry of a new journal.
const beginLimit = 5 * time.Second

// beginJournal makes the first entry of a new journal: its settings (R17). One that was
// begun without them, or where that failed, gets them when the first transactions wait.
func (c *Catalog) beginJournal(ctx context.Context) {
	if c.next() > 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, beginLimit)
	defer cancel()
	if err := c.adminRecord(ctx, &twophase.SettingChanged{Caps: gathers(twophase.DefaultCaps)}); err != nil {
		c.log.Warn("write the settings of a new journal", "error", err)
	}
}

func gathers(c twophase.Caps) twophase.Caps {
	c.Gather = true
	return c
}

// ended reports whether nothing is decided in the journal any more, or not yet.
func ended(s *twophase.State) bool { return s.MovedTo() != "" || s.Rebuilding() }

// ask gets a record into the journal, unless it is needed no longer.
func (p *publisher) ask(ctx context.Context, r twophase.Record) {
	err := p.c.seq.submit(ctx, twophase.Request{Record: r})
	var refused *twophase.Refused
	if err == nil || errors.As(err, &refused) && refused.Reason == twophase.ReasonStale || ctx.Err() != nil {
		return
	}
	p.c.log.Warn("open the next rounds", "error", err)
	pause(ctx, time.Second)
}

// nextRounds stands for those that the entry behind a position opens.
func nextRounds(last twophase.Position) twophase.RoundID {
	return twophase.RoundID{Opened: last, Index: math.MaxUint32}
}
