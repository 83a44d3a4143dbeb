package twophase

import (
	"fmt"
	"iter"
	"math/rand/v2"
	"time"
)

// The simulator runs the shipped step functions in a world that fails in every
// way that RULES.md allows: one thread, one seed, no wall clock. Whatever talks to
// a store is an actor, a coroutine that may be left lying before and after each
// call; a replica has a sequencer, a publisher and a janitor on one fold. A
// conditional write is done, lost but unknown, landed but unknown, or unknown and
// lands at any later step.

// profile says what a world is like. Probabilities are per step.
type profile struct {
	weak     weakness
	replicas int
	slots    Position
	steps    int
	tables   []toyTable

	unknown float64 // a conditional write has no clear answer
	crash   float64
	sleep   float64
	jump    float64 // time passes: seconds, hours, days
	foreign float64 // a foreign engine does something
	client  float64
	operate float64 // an operator does something

	replace   float64 // of foreign acts: the table is dropped, put back, replaced
	clean     float64 // of foreign acts: checkpoints and clean-up
	floor     float64 // the janitor raises the floor
	keep      int     // positions below the head that it leaves
	settings  float64 // caps change
	giveUp    float64 // an operator gives a pending change up
	release   float64 // a table is released and registered anew
	twice     float64 // a place is registered twice
	builds    bool    // two builds run side by side
	restore   float64 // the journal is put back to an older state
	rests     float64 // of changes: they rest on what is pending
	create    float64 // of transactions: they create a table where none is
	leave     float64 // of transactions: they release a table
	fence     float64 // of operators' acts: a fence is raised or lifted
	slow      float64 // of foreign acts: an engine reads a table, and commits later
	overwrite float64 // of foreign commits: nothing of the table stays
	polls     float64 // how busily tables are looked at that are in no round
	lift      float64 // of operators' acts on fenced tables
	hold      float64 // of operators' acts: one freezes a table, or lets it go
	lose      float64 // the payload of a decided change is lost
	ignores   float64 // of foreign commits on fenced tables: their writer ignores features
	other     float64 // of chances to commit other digests under one id
	facts     int     // bytes of them that a table keeps
	round     int     // parts of a component
	reserve   Reserve // when a key that loses goes first
	again     float64 // of chances to run a job again: it is, and wants what it wanted
}

// toyTable is a table as the profile wants it.
type toyTable struct {
	name      string
	exclusive bool // nobody else commits
	outages   bool // its requests are refused at times
	cleaner   bool // somebody cleans its log often
	single    bool // one transaction per version
	vacant    bool // no table stands there at first: transactions create one
}

var defaultTables = []toyTable{
	{name: "open"},
	{name: "exclusive", exclusive: true},
	{name: "outages", outages: true},
	{name: "cleaned", cleaner: true},
	{name: "new", vacant: true},
	{name: "fresh", vacant: true, exclusive: true},
}

func defaultProfile() profile {
	return profile{
		replicas: 3, slots: 16, steps: 2500, tables: defaultTables,
		unknown: 0.2, crash: 0.002, sleep: 0.002, jump: 0.008, foreign: 0.02, client: 0.12, operate: 0.015,
		replace: 0.02, clean: 0.3, floor: 0.01, keep: 25, settings: 0.02, giveUp: 0.1, release: 0.05, twice: 0.02,
		rests: 0.05, create: 0.15, leave: 0.02, fence: 0.2, lift: 0.3, slow: 0.3, polls: 0.3, other: 1, lose: 0.001, facts: 600, round: 12,
	}
}

// violation is a broken invariant.
type violation struct {
	invariant invariant
	detail    string
}

func (v *violation) String() string { return fmt.Sprintf("%s: %s", v.invariant, v.detail) }

// world is one run.
type world struct {
	profile
	seed   uint64
	rng    *rand.Rand
	step   int
	random int           // steps before the calm
	now    time.Duration // the boot-time clock that all replicas share
	calm   bool

	changes  []*toyChange
	nextPath toyPath
	nextMeta int
	schemas  int

	ring     *simRing
	objects  map[string][]byte // checkpoints
	payloads map[payloadKey]bool
	lost     map[payloadKey]bool // taken away by the world, at some time
	staged   []staged
	places   []*simPlace
	late     []lateWrite
	replicas []*replica
	jobs     []*job
	manifest map[SnapshotVersion]string

	check    *checker
	backup   *ringBackup
	restored bool
	trace    trace
}

// lateWrite is a write in flight: it may land at any later step until expires.
type lateWrite struct {
	what    string
	expires time.Duration // 0: never
	land    func()
}

func newWorld(p profile, seed uint64) *world {
	w := &world{
		profile: p, seed: seed, rng: rand.New(rand.NewPCG(seed, 0x7470)),
		ring: newSimRing(p.slots, p.weak), objects: map[string][]byte{}, payloads: map[payloadKey]bool{}, lost: map[payloadKey]bool{},
		manifest: map[SnapshotVersion]string{}, now: time.Hour,
	}
	w.check = newChecker(w)
	for i := range p.tables {
		w.places = append(w.places, w.newPlace(&p.tables[i]))
	}
	for i := range p.replicas {
		w.replicas = append(w.replicas, &replica{w: w, id: i, build: 2, skew: Time(w.rng.IntN(2000) - 1000)})
		if p.builds && i == 0 {
			w.replicas[i].build = 1
		}
	}
	w.bootstrap()
	return w
}

func (w *world) chance(p float64) bool { return w.rng.Float64() < p }

func pick[T any](w *world, of []T) T { return of[w.rng.IntN(len(of))] }

func (w *world) fail(inv invariant, format string, args ...any) {
	panic(&violation{inv, fmt.Sprintf(format, args...)})
}

// run goes through the random steps and the calm after them. nil: nothing broke.
func (w *world) run() (broken *violation) {
	defer w.stopAll()
	defer func() {
		if r := recover(); r != nil {
			v, ok := r.(*violation)
			if !ok {
				panic(r)
			}
			broken = v
		}
	}()
	for w.step < w.steps && !w.check.stopped {
		w.turn()
	}
	w.random = w.step
	w.settle()
	return nil
}

// turn is one step of the world.
func (w *world) turn() {
	w.step++
	w.now += time.Duration(w.rng.IntN(120)) * time.Millisecond
	switch r := w.rng.Float64(); {
	case w.takes(&r, w.crash):
		pick(w, w.replicas).crash()
	case w.takes(&r, w.sleep):
		w.sleepSome()
	case w.takes(&r, w.jump):
		w.jumpTime()
	case w.takes(&r, w.foreign):
		w.foreignAct()
	case w.takes(&r, w.client):
		w.clientAct()
	case w.takes(&r, w.operate):
		w.operatorAct()
	case w.takes(&r, w.lose):
		w.losePayload()
	case w.takes(&r, w.restore):
		w.restoreJournal()
	case len(w.late) > 0 && r < 0.9 && w.chance(0.1):
		w.landLate(w.rng.IntN(len(w.late)))
	default:
		w.resumeOne()
	}
}

func (w *world) takes(r *float64, p float64) bool {
	*r -= p
	return *r < 0
}

func (w *world) sleepSome() {
	r := pick(w, w.replicas)
	r.sleepUntil = w.step + w.rng.IntN(pick(w, []int{20, 100, 900}))
	w.logf("R%d sleeps to step %d", r.id, r.sleepUntil)
}

func (w *world) jumpTime() {
	d := time.Duration(w.rng.IntN(15000)) * time.Millisecond
	switch w.rng.IntN(6) {
	case 0:
		d = time.Duration(w.rng.IntN(120)) * time.Minute
	case 1:
		d = time.Duration(20+w.rng.IntN(60)) * time.Hour
	}
	w.now += d
	w.logf("%s pass", d)
}

func (w *world) landLate(i int) {
	l := w.late[i]
	w.late = append(w.late[:i:i], w.late[i+1:]...)
	if l.expires != 0 && w.now > l.expires {
		return
	}
	w.logf("late: %s", l.what)
	l.land()
}

// conditional carries out a write with the four fates of the world. land makes
// it happen; it reports whether the condition held. what is for the trace.
func (w *world) conditional(what string, expires time.Duration, land func() bool) (done, refused bool) {
	if w.calm || !w.chance(w.unknown) {
		ok := land()
		return ok, !ok
	}
	switch w.rng.IntN(20) {
	case 0, 1, 2, 3, 4, 5, 6: // landed, and nobody knows
		land()
	case 7, 8, 9, 10, 11: // lost
	default:
		w.late = append(w.late, lateWrite{what: what, expires: expires, land: func() { land() }})
	}
	return false, false
}

// resumeOne lets an actor of a replica that is awake go on.
func (w *world) resumeOne() {
	for range 8 {
		r := pick(w, w.replicas)
		if r.sleepUntil > w.step && !w.calm {
			continue
		}
		if !r.up {
			r.start()
			return
		}
		a := pick(w, r.actors)
		if a.ready != nil && !a.ready() {
			continue
		}
		a.ready = nil
		if _, alive := a.next(); !alive && r.up {
			r.crash()
		}
		return
	}
}

func (w *world) stopAll() {
	for _, r := range w.replicas {
		r.stopActors()
	}
}

// actor is a coroutine of a replica.
type actor struct {
	ready func() bool // nil: it can go on
	next  func() (struct{}, bool)
	stop  func()
	yield func(struct{}) bool
}

// killed unwinds an actor whose process died.
type killed struct{}

func newActor(body func(*actor)) *actor {
	a := &actor{}
	a.next, a.stop = iter.Pull(func(yield func(struct{}) bool) {
		defer func() {
			if r := recover(); r != nil && r != (killed{}) {
				panic(r)
			}
		}()
		a.yield = yield
		body(a)
	})
	return a
}

// pause is a scheduling point: whatever may happen, happens here.
func (a *actor) pause() {
	if !a.yield(struct{}{}) {
		panic(killed{})
	}
}

// until waits for something of the same process.
func (a *actor) until(ready func() bool) {
	if !ready() {
		a.ready = ready
	}
	a.pause()
}
