package twophase

import (
	"fmt"
	"time"
)

const (
	simCatalog     = "cat"
	simIncarnation = "inc"
)

// replica is one process: a fold, and three actors that share it.
type replica struct {
	w          *world
	id         int
	build      int  // 1 does not know the newest record
	skew       Time // of its wall clock
	up         bool
	sleepUntil int

	// What dies with the process.
	state    *State
	folded   time.Duration // when the fold was last known to hold the whole journal
	actors   []*actor
	queue    []*request
	waiting  []*request // recorded, and not published yet
	sights   map[TableID]Sight
	facts    map[Hash]Facts
	giveUp   map[TableID]map[TxnID]bool
	written  SnapshotVersion // newest manifest known to be durable
	firstSaw map[RoundID]time.Duration
	fences   map[TableID]sawFence
	behind   map[waitFor]stoodSince // since when somebody waits for a reservation to end
	losses   Losses
	poke     bool // somebody waits for a fold to the head
	own      bool // of the walk that has just ended and does not fit
}

// request is something on its way into the journal.
type request struct {
	Request
	from *job // nil for a finding
	dig  map[TableID]Digest
	// decided: wait=DECIDED, and it was offered when the request came.
	decided bool
	done    bool
	answer  Answer
	looked  bool // the logs of its open tables were looked at
	tries   int
	valid   func() bool // nil: always
}

// start brings a replica up: it reads the newest entry, the checkpoint that this
// one names, and the entries after that.
func (r *replica) start() {
	r.up, r.sleepUntil = true, 0
	r.w.logf("R%d starts", r.id)
	r.state, r.folded = nil, -time.Hour
	r.queue, r.waiting, r.losses, r.poke = nil, nil, Losses{}, false
	r.sights, r.facts = map[TableID]Sight{}, map[Hash]Facts{}
	r.giveUp, r.firstSaw = map[TableID]map[TxnID]bool{}, map[RoundID]time.Duration{}
	r.fences = map[TableID]sawFence{}
	r.behind = map[waitFor]stoodSince{}
	r.written = 0
	r.actors = []*actor{newActor(r.recover)}
}

// crash loses everything that the process knew.
func (r *replica) crash() {
	if !r.up {
		return
	}
	r.w.logf("R%d dies", r.id)
	r.stopActors()
	r.up = false
}

func (r *replica) stopActors() {
	for _, a := range r.actors {
		a.stop()
	}
	r.actors = nil
}

// recover loads and folds, looks for a manifest that the journal does not know
// (R7), and starts to work.
func (r *replica) recover(a *actor) {
	w := r.w
	a.pause()
	r.state = w.emptyState()
	if head := w.ring.head(); head != nil {
		e, _, err := w.ring.decode(head, r.build)
		if err != nil {
			r.upgrade()
			return
		}
		a.pause()
		if e.Checkpoint.Object.Name != "" {
			r.state = w.loadCheckpoint(e.Checkpoint.Object)
			w.check.restarted(r.state)
		}
	}
	if !r.catchUp(a) {
		return
	}
	for w.manifest[r.written+1] != "" {
		r.written++
	}
	a.pause()
	if r.state.HistoryLost(r.written) {
		w.logf("R%d: the journal went back; the catalog stops", r.id)
		w.check.stopped = true
		return
	}
	r.actors = append(r.actors, newActor(r.sequencer), newActor(r.publisher), newActor(r.janitor))
	a.until(func() bool { return false })
}

func (w *world) emptyState() *State {
	s := NewState(simCatalog, simIncarnation)
	w.tune(s)
	return s
}

func (w *world) tune(s *State) {
	s.weak, s.historyBytes, s.roundParts = w.weak, w.facts, w.round
}

func (w *world) loadCheckpoint(ref ObjectRef) *State {
	s, err := DecodeCheckpoint(w.objects[ref.Name], func(ref ObjectRef) ([]byte, error) {
		b, ok := w.objects[ref.Name]
		if !ok {
			return nil, fmt.Errorf("no object %s", ref.Name)
		}
		return b, nil
	})
	if err != nil {
		w.fail(foldsEqual, "checkpoint %s: %v", ref.Name, err)
	}
	w.tune(s)
	return s
}

// upgrade: the journal holds what this build does not know (R17). It stops, and a
// newer build takes its place.
func (r *replica) upgrade() {
	r.w.logf("R%d: unknown record; it stops for a newer build", r.id)
	r.build = 2
}

// catchUp folds to the head. False: the process cannot go on.
func (r *replica) catchUp(a *actor) bool {
	for {
		asked := r.w.now
		a.pause()
		res := r.w.ring.get(r.state.Next())
		switch {
		case res.Behind:
			return false
		case res.Entry == nil:
			r.folded = asked
			return true
		case !r.apply(res.Entry):
			return false
		}
	}
}

func (r *replica) apply(b []byte) bool {
	w := r.w
	e, h, err := w.ring.decode(b, r.build)
	if err != nil {
		r.upgrade()
		return false
	}
	if e.Position < r.state.Next() {
		return true
	}
	if err := r.state.Apply(e, h); err != nil {
		w.fail(oneHistory, "R%d: %v", r.id, err)
	}
	w.check.folded(r.state)
	r.answerWaiting()
	return true
}

// saw keeps what a walk has seen of the end of a log.
func (r *replica) saw(id TableID, s Sight) {
	if s.At != NoSight {
		r.sights[id] = s
	}
}

func (r *replica) sightOf(id TableID) time.Duration {
	t, known := r.state.Table(id)
	s, seen := r.sights[id]
	if !known || !seen {
		return NoSight
	}
	return s.Ended(t)
}

func (r *replica) clock() Time { return Time(r.w.now/time.Millisecond) + r.skew }

// views are the tables that the requests write, after everything decided.
func (r *replica) views() map[TableID]View {
	out := map[TableID]View{}
	rules := toyRules{&r.w.changes}
	for _, t := range r.state.Tables() {
		s := r.w.stateOf(t)
		if s == nil {
			continue
		}
		var pending []*toyChange
		for _, c := range t.Pending {
			if ch := r.w.changeOf(c.Part); s.fits(ch) == nil {
				s, pending = s.after(ch), append(pending, ch)
			}
		}
		out[t.Table] = &toyView{rules, s, pending}
	}
	return out
}

// stateOf is the table at its recorded version; nil if the log cannot say.
func (w *world) stateOf(t *Table) *toyState {
	p := w.placeOf(t)
	if t.Recorded == NoVersion {
		return &toyState{}
	}
	c := p.past[t.Recorded]
	if c == nil || !t.Identity.IsZero() && c.identity != t.Identity {
		return nil
	}
	return c.state
}

func (w *world) placeOf(t *Table) *simPlace {
	for _, p := range w.places {
		if p.uri == t.URI {
			return p
		}
	}
	panic("no place " + t.URI)
}

// changeOf finds a part's change by its facts or their object.
func (w *world) changeOf(p *Part) *toyChange {
	if len(p.Facts) > 0 {
		return toyRules{&w.changes}.change(p.Facts)
	}
	return toyRules{&w.changes}.change(w.objects[p.FactsRef.Name])
}
