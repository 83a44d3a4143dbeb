package coordinator_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/txcoord/txcoord/coordinator"
	"github.com/txcoord/txcoord/lock"
	"github.com/txcoord/txcoord/lock/locktest"
	"github.com/txcoord/txcoord/tables/objstore"
	"github.com/txcoord/txcoord/tables/objstore/objtest"
	"github.com/txcoord/txcoord/twophase"
)

// faults counts the writes of a world and lets one of them meet its fate.
type faults struct {
	mu     sync.Mutex
	armed  bool
	n      int
	at     int
	fate   fate
	hit    string
	dead   bool
	died   chan struct{} // closed then
	writes []string
}

type fate string

const (
	refused      fate = "refused"               // certainly not carried out
	lost         fate = "lost"                  // not carried out, and nobody knows
	landed       fate = "landed"                // carried out, and nobody knows
	later        fate = "landing later"         // carried out when everything is over
	diesBefore   fate = "killed before"         // the process, and nothing of it lands any more
	diesAfter    fate = "killed after it lands" // the same, right after
	nothingWrong fate = ""
)

// next says what becomes of a write.
func (f *faults) next(key string) fate {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.dead {
		return refused
	}
	if !f.armed || strings.HasPrefix(key, "open/") {
		return nothingWrong
	}
	f.n++
	f.writes = append(f.writes, key)
	if f.n-1 != f.at {
		return nothingWrong
	}
	f.hit = key
	if f.fate == diesBefore || f.fate == diesAfter {
		f.dead = true
		close(f.died)
	}
	return f.fate
}

func (f *faults) isHit() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.hit != ""
}

func (f *faults) isDead() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.dead
}

func (f *faults) arm(at int, what fate) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.armed, f.at, f.fate, f.died = true, at, what, make(chan struct{})
}

func (f *faults) disarm() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.armed, f.dead = false, false
}

func (f *faults) overStore(s lock.Store) lock.Store {
	return locktest.NewFaulty(s, func(_ context.Context, op locktest.Op) locktest.Fate {
		if op.Kind != locktest.Put && op.Kind != locktest.PutBatch {
			return map[bool]locktest.Fate{true: locktest.Refused}[f.isDead()]
		}
		switch f.next(op.Key) {
		case refused, diesBefore:
			return locktest.Refused
		case lost:
			return locktest.Lost
		case landed, diesAfter:
			return locktest.Landed
		case later:
			return locktest.Later
		default:
			return locktest.Done
		}
	})
}

func (f *faults) overObjects(s objstore.Store) objstore.Store {
	return objtest.Faulty{Store: s, Hook: func(_ context.Context, op objtest.Op) objtest.Fate {
		if op.Kind != objtest.Put && op.Kind != objtest.PutIfAbsent {
			if f.isDead() {
				return objtest.Refused()
			}
			return objtest.Done()
		}
		switch f.next(op.Key) {
		case refused, diesBefore:
			return objtest.Refused()
		case lost, later:
			return objtest.Lost()
		case landed, diesAfter:
			return objtest.Landed()
		default:
			return objtest.Done()
		}
	}}
}

// TestEveryWriteOfACommitFails takes each write of a commit over three tables in turn,
// and lets it be lost, land unseen, land late, or kill the process. The same call,
// repeated, gets its answer, and everything is there exactly once.
func TestEveryWriteOfACommitFails(t *testing.T) {
	t.Parallel()
	for i := range 6 {
		staged, creates, batched := i%3 == 1, i >= 3, i%3 == 2
		probe := newFaultWorld(t, creates, batched)
		probe.faults.arm(-1, nothingWrong)
		if _, err := probe.tryThree(probe.ctx(), staged); err != nil {
			t.Fatal(err)
		}
		probe.settle()
		probe.faults.disarm()
		writes := probe.faults.writes
		// Three payloads, or one bundle of them, which goes along with the entry where the
		// store can do that; two entries, three commits, a manifest; an owner object for
		// each new table.
		if len(writes) != 6+map[bool]int{true: 2}[creates]+[3]int{1, 3, 0}[i%3] {
			t.Fatalf("a commit over three tables makes %d writes: %q", len(writes), writes)
		}
		for at := range writes {
			for _, what := range []fate{refused, lost, landed, later, diesBefore, diesAfter} {
				t.Run(fmt.Sprintf("staged=%t,creates=%t,batched=%t/%d/%s", staged, creates, batched, at, what), func(t *testing.T) {
					t.Parallel()
					w := newFaultWorld(t, creates, batched)
					w.faults.arm(at, what)
					o, err := w.tryUntilDead(staged)
					w.eventually("the write is made", w.faults.isHit)
					if w.faults.isDead() {
						w.stop()
						w.faults.disarm()
						w.start()
					}
					for tries := 0; err != nil; tries++ { // unavailable: the same call again
						var own *coordinator.Error
						if tries > 20 || errors.As(err, &own) && own.Reason != coordinator.OutcomeUnknown && own.Reason != coordinator.StoreUnavailable &&
							own.Reason != coordinator.ShuttingDown && own.Reason != coordinator.ObjectsUnavailable {
							t.Fatalf("%s of %s: %v", what, w.faults.hit, err)
						}
						o, err = w.tryThree(w.ctx(), staged)
					}
					if o.Committed == nil || o.Committed.Snapshot == 0 {
						w.eventually("it is published", func() bool { o, err = w.tryThree(w.ctx(), staged); return err == nil && o.Committed.Snapshot != 0 })
					}
					first := twophase.Version(1)
					if creates {
						first = 0
					}
					if diff := cmp.Diff(map[string]twophase.Version{"a": 1, "b": first, "c": first}, w.snapshot(o.Committed.Snapshot)); diff != "" {
						t.Errorf("%s of %s: snapshot (-want +got):\n%s", what, w.faults.hit, diff)
					}
					w.held.Land(0)
					w.commit("after", blind("a", "2"), blind("b", "2"), blind("c", "2"))
					w.check(closedRun{committed: []coordinator.Outcome{o}})
					for name, want := range map[string]int{"a": 3, "b": int(first) + 2, "c": int(first) + 2} {
						if n := w.versions(name); n != want {
							t.Errorf("%s of %s: %s has %d versions", what, w.faults.hit, name, n)
						}
					}
				})
			}
		}
	}
}

type faultWorld struct {
	world
	faults *faults
	held   *locktest.Faulty
	token  string
	job    []coordinator.OnceTable
}

// newFaultWorld has a job for three tables; two of them are created by it, or are there.
// batched: its store writes payloads and entry together.
func newFaultWorld(t *testing.T, creates, batched bool) *faultWorld {
	w := &faultWorld{faults: &faults{}}
	w.wrapStore = func(s lock.Store) lock.Store {
		out := w.faults.overStore(s)
		w.held = out.(*locktest.Faulty)
		if batched {
			return w.held.Batching()
		}
		return out
	}
	w.wrapObjects = w.faults.overObjects
	w.open(t)
	for _, name := range []string{"a", "b", "c"} {
		part := blind(name, "1")
		if creates && name != "a" {
			part = w.creating(name, add("1"))
		} else {
			w.create(name, twophase.ModeExclusive)
		}
		w.job = append(w.job, part)
	}
	w.settle()
	return w
}

// tryUntilDead is a call to a process that may die meanwhile.
func (w *faultWorld) tryUntilDead(staged bool) (coordinator.Outcome, error) {
	ctx, cancel := context.WithCancel(w.ctx())
	defer cancel()
	go func() {
		select {
		case <-w.faults.died:
			cancel()
		case <-ctx.Done():
		}
	}()
	return w.tryThree(ctx, staged)
}

// tryThree commits one transaction over three tables: in one call, or step by step.
func (w *faultWorld) tryThree(ctx context.Context, staged bool) (coordinator.Outcome, error) {
	if !staged {
		o, _, err := w.catalog.CommitOnce(ctx, once("job", w.job...))
		return o, err
	}
	if w.token == "" {
		b, err := w.catalog.Begin(ctx, coordinator.BeginRequest{Key: "job"})
		if err != nil {
			return coordinator.Outcome{}, err
		}
		w.token = b.Token
	}
	req := coordinator.CommitRequest{Token: w.token}
	for _, p := range w.job {
		st, err := w.catalog.Stage(ctx, coordinator.StageRequest{Token: w.token, Table: p.Table, Read: p.Read, Actions: p.Actions, Create: p.Create})
		if err != nil {
			return coordinator.Outcome{}, err
		}
		req.Tables = append(req.Tables, coordinator.TableParts{Table: p.Table, Digests: []twophase.Digest{st.Digest}})
	}
	return w.catalog.Commit(ctx, req)
}
