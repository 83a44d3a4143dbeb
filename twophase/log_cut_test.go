package twophase_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/txcoord/txcoord/twophase"
)

// TestLogCuts: R21. Clean-ups, leases and tags of one log that know nothing of each other,
// each halted between any two of its steps: what was leased or tagged, and found to be there
// behind its record, is never removed. Where a clean-up does not say when it looked, some
// schedule loses it.
func TestLogCuts(t *testing.T) {
	cuts, kept := 0, 0
	for seed := range uint64(400) {
		w := newCutWorld(t, seed)
		if lost := w.run(); lost != "" {
			t.Fatalf("seed %d: %s", seed, lost)
		}
		cuts, kept = cuts+w.cuts, kept+w.kept
	}
	if cuts < 400 || kept < 400 {
		t.Errorf("%d cuts, %d leases and tags kept", cuts, kept)
	}
	found := false
	for seed := uint64(0); !found && seed < 400; seed++ {
		w := newCutWorld(t, seed)
		w.careless = true
		found = w.run() != ""
	}
	if !found {
		t.Error("no schedule shows what the rule is for")
	}
}

// cutWorld is a journal, and a log that is deleted from below.
type cutWorld struct {
	t     *testing.T
	rng   *rand.Rand
	state *twophase.State
	queue []twophase.Request
	// version is what each snapshot names of the table.
	version []twophase.Version
	deleted twophase.Version // what is below it is gone
	actors  []cutActor
	// promised are the versions of leases and tags that their makers were told of.
	promised   map[string]twophase.Version
	careless   bool
	cuts, kept int
}

// cutActor takes the next of its steps, or goes on waiting for an entry.
type cutActor interface{ step(w *cutWorld) }

func newCutWorld(t *testing.T, seed uint64) *cutWorld {
	w := &cutWorld{t: t, rng: rand.New(rand.NewPCG(seed, 1)), state: twophase.NewState("c", "i"), promised: map[string]twophase.Version{}}
	w.ask(&twophase.Registered{Table: "t", Name: "t", URI: "u", Mode: twophase.ModeOpen})
	w.decide()
	w.version = []twophase.Version{0, 0}
	w.actors = []cutActor{&cutCleaner{}, &cutCleaner{}}
	for i := range 4 {
		w.actors = append(w.actors, &cutHolder{name: fmt.Sprint(i), tag: i%2 == 1})
	}
	return w
}

func (w *cutWorld) run() (lost string) {
	for range 400 {
		switch n := w.rng.IntN(10); {
		case n == 0:
			t, _ := w.state.Table("t")
			w.ask(&twophase.Foreign{Table: "t", Version: t.Recorded + 1, Identity: twophase.Hash{byte(t.Recorded) + 1}})
			w.decide()
		case n < 3:
			w.decide()
		default:
			w.actors[w.rng.IntN(len(w.actors))].step(w)
		}
		for name, v := range w.promised {
			if v < w.deleted {
				return fmt.Sprintf("%s holds version %d, and all below %d is deleted", name, v, w.deleted)
			}
		}
	}
	return ""
}

func (w *cutWorld) ask(r twophase.Record) { w.queue = append(w.queue, twophase.Request{Record: r}) }

// decide makes an entry of all that was asked for, in some order.
func (w *cutWorld) decide() {
	w.rng.Shuffle(len(w.queue), func(i, j int) { w.queue[i], w.queue[j] = w.queue[j], w.queue[i] })
	d := twophase.Decide(w.state, w.queue, twophase.DecideInput{MaxBytes: 1 << 20, Limit: 1 << 20})
	w.queue = nil
	e, err := w.state.Entry(d, 1, "w")
	if err == nil {
		err = w.state.Apply(e, twophase.HashOf(e.Encode()))
	}
	if err != nil {
		w.t.Fatal(err)
	}
	t, _ := w.state.Table("t")
	for twophase.SnapshotVersion(len(w.version)) <= w.state.Shown() {
		w.version = append(w.version, t.Shown)
	}
}

func (w *cutWorld) cut() twophase.Version {
	t, _ := w.state.Table("t")
	return t.Cut
}

// cutCleaner looks at what holds the log, says what goes, and deletes it one by one.
type cutCleaner struct {
	at     int
	record *twophase.LogCut
	asked  twophase.Position
}

func (c *cutCleaner) step(w *cutWorld) {
	switch {
	case c.record == nil:
		c.look(w)
	case c.at == 0:
		if w.careless {
			c.record.Seen = w.state.Next() + 1
		}
		w.ask(c.record)
		c.at, c.asked = 1, w.state.Next()
	case c.at == 1 && w.state.Next() == c.asked:
	case c.at == 1 && w.cut() < c.record.Cut:
		c.record = nil // something was leased meanwhile
	case w.deleted < c.record.Cut:
		c.at = 2
		w.deleted++
	default:
		w.cuts++
		c.record = nil
	}
}

func (c *cutCleaner) look(w *cutWorld) {
	t, _ := w.state.Table("t")
	upTo := t.Shown
	for _, l := range w.state.Leases() {
		upTo = min(upTo, w.version[l.Snapshot])
	}
	for _, s := range w.state.Tags() {
		upTo = min(upTo, w.version[s])
	}
	if upTo > t.Cut {
		c.at, c.record = 0, &twophase.LogCut{Table: "t", Cut: upTo, Seen: w.state.Next(), Snapshot: w.state.Shown()}
	}
}

// cutHolder leases or tags a snapshot that can be read, looks again, and ends it some time.
type cutHolder struct {
	name     string
	tag      bool
	phase    int
	snapshot twophase.SnapshotVersion
	asked    twophase.Position
}

func (h *cutHolder) step(w *cutWorld) {
	name := fmt.Sprint(h.name, " of snapshot ", h.snapshot)
	switch h.phase {
	case 0:
		h.snapshot = 1 + twophase.SnapshotVersion(w.rng.IntN(int(w.state.Shown())))
		if v := w.version[h.snapshot]; v >= w.cut() && v >= w.deleted {
			w.ask(h.hold())
			h.asked, h.phase = w.state.Next(), 1
		}
	case 1:
		if w.state.Next() == h.asked {
			return // it waits
		}
		h.phase = 2
		if v := w.version[h.snapshot]; v >= w.cut() && v >= w.deleted {
			w.promised[name] = v
			w.kept++
		}
	case 2:
		delete(w.promised, name)
		w.ask(h.end())
		h.asked, h.phase = w.state.Next(), 3
	case 3:
		if w.state.Next() != h.asked {
			h.phase = 0
		}
	}
}

func (h *cutHolder) hold() twophase.Record {
	if h.tag {
		return &twophase.Tagged{Name: h.name, Snapshot: h.snapshot}
	}
	return &twophase.Leased{ID: h.name, Snapshot: h.snapshot, TTL: time.Hour}
}

func (h *cutHolder) end() twophase.Record {
	if h.tag {
		return &twophase.Tagged{Name: h.name}
	}
	return &twophase.LeaseEnded{ID: h.name}
}
