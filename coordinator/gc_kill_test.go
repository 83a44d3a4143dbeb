package coordinator_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/txcoord/txcoord/coordinator"
	"github.com/txcoord/txcoord/twophase"
)

// gcWrites counts what gc writes, and lets one of these writes meet its fate.
type gcWrites struct {
	mu    sync.Mutex
	armed bool
	n, at int
	fate  fate
	hit   bool
	dead  bool
}

var errKilled = errors.New("the process is dead")

// next is the fate of a write.
func (g *gcWrites) next() fate {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case !g.armed:
		return nothingWrong
	case g.dead:
		return diesBefore
	}
	g.n++
	if g.n-1 != g.at {
		return nothingWrong
	}
	g.hit = true
	g.dead = g.fate == diesBefore || g.fate == diesAfter
	return g.fate
}

func (g *gcWrites) do(unknown error, write func() error) error {
	switch g.next() {
	case diesBefore:
		return errKilled
	case diesAfter:
		return errors.Join(write(), errKilled)
	case lost:
		return unknown
	case landed:
		return errors.Join(write(), unknown)
	case refused, later, nothingWrong:
	}
	return write()
}

func (g *gcWrites) arm(at int, what fate) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.armed, g.n, g.at, g.fate, g.hit, g.dead = true, 0, at, what, false, false
}

func (g *gcWrites) disarm() (hit bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.armed = false
	return g.hit
}

// TestGarbageKilled: gc dies at every one of its writes, or does not learn what became of
// it. Whatever it had begun with lies where it was or in quarantine, whole; what lives is
// the same; and the next call finishes.
func TestGarbageKilled(t *testing.T) {
	for _, f := range []fate{diesBefore, diesAfter, lost, landed} {
		t.Run(string(f), func(t *testing.T) {
			t.Parallel()
			w := newLittered(t, nil)
			w.later.Store(int64(day))
			before := w.everything()
			for at := 0; ; at++ {
				w.gcWrites.arm(at, f)
				_, err := w.catalog.CollectGarbage(w.ctx(), coordinator.GarbageRequest{Remove: true, FormerJournals: true})
				hit := w.gcWrites.disarm()
				if err != nil && !hit {
					t.Fatal(err)
				}
				w.nothingIsLost(fmt.Sprintf("%s write %d", f, at), before)
				if !hit {
					if at < 2*len(w.rubbish) {
						t.Errorf("gc made %d writes for %d things", at, len(w.rubbish))
					}
					break
				}
				for _, q := range w.gc(coordinator.GarbageRequest{}).Quarantines {
					back, err := w.catalog.RestoreGarbage(w.ctx(), coordinator.RestoreRequest{Run: q.Run})
					if err != nil || back.Count != q.Count {
						t.Fatalf("%+v, %v", back, err)
					}
					if back.Kept {
						w.killed[q.Run] = true // its copies stay
					}
				}
				if diff := cmp.Diff(before, w.everything()); diff != "" {
					t.Fatalf("put back after write %d (-before +after):\n%s", at, diff)
				}
			}
			w.restored(before)
			w.expired()
			w.goesOn()
		})
	}
}

// expired: what the calls that died have left in quarantine goes when its time is over.
func (w *littered) expired() {
	w.t.Helper()
	if len(w.killed) == 0 {
		w.t.Error("no call has died")
	}
	var none time.Duration
	for range 2 { // what was put back goes into a quarantine of its own, and with it
		w.gc(coordinator.GarbageRequest{Remove: true, FormerJournals: true, QuarantineFor: &none})
	}
	for key := range w.keys() {
		if strings.Contains(key, "/quarantine/") {
			w.t.Errorf("%s stays", key)
		}
	}
}

// nothingIsLost: everything is where it was, or, if nothing names it, in a quarantine.
func (w *littered) nothingIsLost(when string, before map[string]string) {
	w.t.Helper()
	now, aside := w.everything(), map[string]string{}
	prefix := "object: _txcoord/" + w.name() + "/"
	for key, content := range w.keys() {
		if rest, ok := strings.CutPrefix(key, prefix+"quarantine/"); ok {
			_, name, _ := strings.Cut(rest, "/")
			name = strings.Replace(name, "store/", "store: ", 1)
			if object, ok := strings.CutPrefix(name, "objects/"); ok {
				name = prefix + object
			}
			aside[name] = content
		}
	}
	want := maps.Clone(before)
	maps.DeleteFunc(want, func(key, content string) bool {
		return w.rubbish[key] != "" && now[key] == "" && aside[key] == content
	})
	if diff := cmp.Diff(want, now); diff != "" {
		w.t.Fatalf("%s (-before +after):\n%s", when, diff)
	}
}

// Putting back dies at every write, too.
func TestRestoreGarbageKilled(t *testing.T) {
	for _, f := range []fate{diesBefore, diesAfter, lost, landed} {
		t.Run(string(f), func(t *testing.T) {
			t.Parallel()
			w := newLittered(t, nil)
			w.later.Store(int64(day))
			before := w.everything()
			run := w.gc(coordinator.GarbageRequest{Remove: true, FormerJournals: true}).Run
			calls := 0
			for ; len(w.gc(coordinator.GarbageRequest{}).Quarantines) > 0; calls++ {
				w.gcWrites.arm(calls, f)
				_, err := w.catalog.RestoreGarbage(w.ctx(), coordinator.RestoreRequest{Run: run})
				if hit := w.gcWrites.disarm(); (err != nil) != hit {
					t.Fatalf("call %d, at a write %t: %v", calls, hit, err)
				}
				w.nothingIsLost(fmt.Sprintf("%s call %d", f, calls), before)
			}
			if calls < 3 {
				t.Errorf("%d calls", calls)
			}
			if diff := cmp.Diff(before, w.everything()); diff != "" {
				t.Errorf("put back (-before +after):\n%s", diff)
			}
		})
	}
}

// TestGarbageBesideCommits: gc runs all the while that transactions begin, stage, commit
// and abort, and the clock is such that nothing is too young for it.
func TestGarbageBesideCommits(t *testing.T) {
	t.Parallel()
	w := newTended(t)
	w.world.cfg.Limits.InlineBytes, w.world.cfg.Limits.OutcomeRetention = 1024, 10*365*24*time.Hour
	w.restart()
	tables := []string{"a", "b", "c"}
	for _, name := range tables {
		w.create(name, twophase.ModeExclusive)
	}
	done := make(chan struct{})
	var work, collect sync.WaitGroup
	collect.Go(func() {
		for {
			select {
			case <-done:
				return
			default:
			}
			w.later.Add(int64(day))
			if _, err := w.catalog.CollectGarbage(w.ctx(), coordinator.GarbageRequest{Remove: true}); err != nil {
				t.Error(err)
				return
			}
		}
	})
	var mu sync.Mutex
	var run closedRun
	for i := range 6 {
		work.Go(func() {
			for j := range 12 {
				key := fmt.Sprintf("%d-%d", i, j)
				o, id := w.stepByStep(key, tables[i%3], tables[(i+1)%3], j%3 == 2)
				mu.Lock()
				if o != nil {
					run.committed = append(run.committed, *o)
				} else {
					run.refused = append(run.refused, id)
				}
				mu.Unlock()
			}
		})
	}
	work.Wait()
	close(done)
	collect.Wait()
	if len(run.committed) != 48 || len(run.refused) != 24 {
		t.Errorf("%d committed, %d aborted", len(run.committed), len(run.refused))
	}
	var none time.Duration // what gc finds before the sweeper lies in quarantine
	w.world.eventually("nothing is left to collect", func() bool {
		r, err := w.catalog.CollectGarbage(w.ctx(), coordinator.GarbageRequest{Remove: true, QuarantineFor: &none})
		return err == nil && len(r.Found) == 0 && len(r.Quarantines) == 0
	})
	w.check(run)
}

// stepByStep stages a small part and a large one, and commits or aborts them.
func (w *tended) stepByStep(key, a, b string, abort bool) (*coordinator.Outcome, twophase.TxnID) {
	ctx, cancel := context.WithTimeout(context.Background(), patient)
	defer cancel()
	begun, err := w.catalog.Begin(ctx, coordinator.BeginRequest{Key: key})
	stage := func(part coordinator.OnceTable) (st coordinator.Staged) {
		if err == nil {
			st, err = w.catalog.Stage(ctx, coordinator.StageRequest{Token: begun.Token, Table: part.Table, Read: part.Read, Actions: part.Actions})
		}
		return st
	}
	small, big := stage(blind(a, key)), stage(large(b, key))
	if err == nil && abort {
		_, err = w.catalog.Abort(ctx, coordinator.OutcomeRef{Token: begun.Token}, "")
	}
	if err != nil || abort {
		if err != nil {
			w.t.Errorf("%s: %v", key, err)
		}
		return nil, begun.Txn
	}
	o, err := w.catalog.Commit(ctx, coordinator.CommitRequest{
		Token: begun.Token, Tables: []coordinator.TableParts{parts(a, small.Digest), parts(b, big.Digest)},
	})
	if err != nil {
		w.t.Errorf("commit %s: %v", key, err)
		return nil, begun.Txn
	}
	return &o, begun.Txn
}
