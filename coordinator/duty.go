package coordinator

import (
	"hash/fnv"
	"sync"
	"time"

	"github.com/txcoord/txcoord/twophase"
)

// Who does what, where several replicas could. Safety never rests on it: all of this
// work may be done by several at once, and is, when they do not see each other.

// wrote remembers which entries this replica appended: what follows from an entry is
// the business of who appended it first, and of the others after a while.
type wrote struct {
	all bool // nobody else is there
	mu  sync.Mutex
	set map[twophase.Position]bool
	old []twophase.Position
}

// wroteKept bounds the entries that are remembered.
const wroteKept = 8192

func newWrote(alone bool) *wrote {
	return &wrote{all: alone, set: map[twophase.Position]bool{}}
}

func (w *wrote) add(p twophase.Position) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.set[p] = true
	w.old = append(w.old, p)
	if len(w.old) > wroteKept {
		delete(w.set, w.old[0])
		w.old = w.old[1:]
	}
}

// has reports whether what follows from the entry is this replica's business first.
func (w *wrote) has(p twophase.Position) bool {
	if w.all {
		return true
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.set[p]
}

// turns says when this replica takes up a round that another one has opened. Guarded
// by its own lock.
type turns struct {
	mu sync.Mutex
	at map[twophase.RoundID]time.Duration // boot clock
}

// perTable is what a table adds to the time that a round may take before others
// take it up too: large rounds are slow without anything being wrong.
const perTable = 5 * time.Millisecond

// due reports whether to work on a round now; else after how long, once for each
// round.
func (p *publisher) due(id twophase.RoundID, tables int) (now bool, later time.Duration) {
	if p.c.wrote.has(id.Opened) {
		return true, 0
	}
	t, clock := &p.turns, p.c.cfg.Boot()
	t.mu.Lock()
	defer t.mu.Unlock()
	at, known := t.at[id]
	if !known {
		later = p.c.cfg.Limits.TakeOverAfter + time.Duration(tables)*perTable
		t.at[id] = clock + later
		return false, later
	}
	return clock >= at, 0
}

// keep forgets the turns of rounds that are not open any more.
func (t *turns) keep(open map[twophase.RoundID]openRound) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for id := range t.at {
		if _, ok := open[id]; !ok {
			delete(t.at, id)
		}
	}
}

// duty reports whether a piece of recurring work, such as looking at one open table,
// is this replica's among those that are alive. Each piece has one replica, as long
// as they agree who is alive.
func (c *Catalog) duty(what string) bool { return c.first(what, c.replicas.live(everything)) }

// tableDuty is the duty for what is done at a table's place, among those that may use it, as far
// as that is known of them. Where it is known of nobody, it is everybody's who may.
func (c *Catalog) tableDuty(what string, row TableInfo) bool {
	if !c.reaches(row) {
		return false
	}
	among := c.replicas.live(func(r reach) bool { return r.may(row.ID) })
	return len(among) == 0 || c.first(what, among)
}

// first reports whether this replica is the one for a piece of work, among several.
func (c *Catalog) first(what string, among []string) bool {
	best, top := "", uint64(0)
	for _, id := range among {
		h := fnv.New64a()
		_, _ = h.Write([]byte(id + "/" + what))
		if sum := h.Sum64(); sum > top || sum == top && id < best {
			best, top = id, sum
		}
	}
	return best == c.replicas.id
}
