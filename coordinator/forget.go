package coordinator

import (
	"context"
	"slices"
	"time"

	"github.com/txcoord/txcoord/twophase"
)

// memory counts what the fold remembers, outcomes and snapshots, by the entry that
// made them, oldest first: what the floor of R6 is chosen from. Guarded by the
// ledger's lock. It is made when a floor is looked for first, and not by a start, which
// others wait for: it takes a look at each outcome.
type memory struct {
	entries []remembered
	total   int
	shown   twophase.SnapshotVersion // counted up to here
}

type remembered struct {
	position twophase.Position
	time     twophase.Time
	things   int
}

// newMemory counts what a fold remembers.
func newMemory(s *twophase.State) *memory {
	at := map[twophase.Position]*remembered{}
	count := func(p twophase.Position, t twophase.Time) {
		if at[p] == nil {
			at[p] = &remembered{position: p, time: t}
		}
		at[p].things++
	}
	for at, t := range s.Remembered {
		count(at, t)
	}
	for _, sn := range s.Snapshots() {
		count(sn.Position, sn.Time)
	}
	m := &memory{shown: s.Shown()}
	for _, d := range at {
		m.entries = append(m.entries, *d)
		m.total += d.things
	}
	slices.SortFunc(m.entries, func(a, b remembered) int { return compare(a.position, b.position) })
	return m
}

// add counts an entry that was folded: the transactions it decided, and the snapshots
// it made.
func (m *memory) add(e *twophase.Entry, txns int, shown twophase.SnapshotVersion) {
	if m == nil {
		return // it will be counted from the fold
	}
	things := txns + int(shown-m.shown)
	m.shown = shown
	if things > 0 {
		m.entries = append(m.entries, remembered{e.Position, e.Time, things})
		m.total += things
	}
}

// below lets go of what a floor has taken out of the fold.
func (m *memory) below(floor twophase.Position) {
	if m == nil {
		return
	}
	n := 0
	for n < len(m.entries) && m.entries[n].position < floor {
		m.total -= m.entries[n].things
		n++
	}
	m.entries = m.entries[n:]
}

// floor is the lowest one that leaves nothing which may be forgotten: older than a
// time, or more than a number of things.
func (m *memory) floor(oldest twophase.Time, keep int) (floor twophase.Position) {
	excess := m.total - keep
	for _, d := range m.entries {
		if d.time >= oldest && excess <= 0 {
			break
		}
		floor = d.position + 1
		excess -= d.things
	}
	return floor
}

// forget raises the floor now and then (R6).
func (c *Catalog) forget(ctx context.Context) {
	every(ctx, min(c.cfg.Limits.PollInterval, 5*time.Second), func(ctx context.Context) {
		floor := c.wantedFloor()
		if floor == 0 || !c.duty("floor") {
			return
		}
		if err := c.adminRecord(ctx, &twophase.FloorRaised{Floor: floor}); err != nil && ctx.Err() == nil {
			c.log.Warn("forget old outcomes", "error", err)
		}
	})
}

// remember counts what the fold holds, once.
func (c *Catalog) remember() {
	c.ledger.mu.Lock()
	defer c.ledger.mu.Unlock()
	if c.memory == nil {
		c.memory = newMemory(c.ledger.state)
	}
}

// floorStep is how far the floor moves at least: each move is a record.
const floorStep = 256

// wantedFloor is the position that the floor may be raised to; 0 for none worth a
// record. It stays below snapshots without a manifest and below open rounds, and,
// up to twice the number of outcomes that are kept, below transactions that are open
// here: their commit would be refused as expired.
func (c *Catalog) wantedFloor() (floor twophase.Position) {
	written := c.manifests.written()
	oldest := twophase.TimeOf(c.cfg.Now().Add(-c.cfg.Limits.OutcomeRetention))
	open, anyOpen := c.openTxns.oldest()
	c.remember()
	c.ledger.read(func(s *twophase.State) {
		keep := c.cfg.Limits.OutcomeCount
		floor = c.memory.floor(oldest, keep)
		if anyOpen && floor > open {
			floor = max(open, c.memory.floor(0, 2*keep))
		}
		floor = min(floor, s.MayForget(written))
		for _, r := range s.Rounds() {
			floor = min(floor, r.ID.Opened)
		}
		if now, _ := s.Floor(); floor < now+floorStep {
			floor = 0
		}
	})
	return floor
}

func (c *Catalog) floor() (p twophase.Position) {
	c.ledger.read(func(s *twophase.State) { p, _ = s.Floor() })
	return p
}
