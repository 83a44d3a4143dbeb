package coordinator_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/txcoord/txcoord/coordinator"
	"github.com/txcoord/txcoord/tables/objstore"
	"github.com/txcoord/txcoord/tables/objstore/objtest"
	"github.com/txcoord/txcoord/twophase"
)

// pending has a transaction (key k) on t and beside decided and in no log, and no server
// running, behind two versions of each that are.
func pending(t *testing.T, mode twophase.Mode) *world {
	t.Helper()
	gate := newGate()
	w := &world{wrapObjects: gate.over}
	w.cfg.Limits.FreezeAfter = 20 * time.Millisecond
	w.open(t)
	for _, table := range []string{"t", "beside"} {
		w.create(table, mode)
	}
	for _, key := range []string{"1", "2"} {
		w.commit(key, blind("t", key), blind("beside", key))
	}
	w.settle()
	gate.refuse()
	w.abandoned("t", once("k", blind("t", "3"), blind("beside", "3")))
	w.stop()
	gate.release()
	return w
}

func (w *world) frozenFor(cause twophase.Cause) {
	w.t.Helper()
	w.eventually("t is frozen: "+cause.String(), func() bool { f := w.info("t").Frozen; return f != nil && f.Cause == cause })
}

// alterations are what a commit file may have become.
var alterations = map[string]func(string) string{
	"altered":  func(s string) string { return strings.ReplaceAll(s, ".parquet", ".other") + "\n" },
	"cut":      func(s string) string { return s[:len(s)-7] },
	"emptied":  func(string) string { return "" },
	"no Delta": func(string) string { return "nothing\n" },
}

// The last commit is altered while no server runs: the log counts as replaced. Put back as it
// was, it is the table's own, and resolve finds that: nothing is given up.
func TestLastCommitAlteredAndPutBack(t *testing.T) {
	t.Parallel()
	for name, alter := range alterations {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := pending(t, twophase.ModeOpen)
			was := w.read("t", 2)
			w.overwrite("t", 2, alter(was))
			w.start()
			w.frozenFor(twophase.CauseReplaced)
			if f := found(t, w.explain("t"), coordinator.FoundFrozen); !strings.Contains(f.Text, "version 2 has other content than was recorded") || !strings.Contains(f.Remedy, "own log is put back") {
				t.Errorf("%+v", f)
			}
			own := wantReason(t, "resolve, before it is back", w.resolve("t"), coordinator.LogContradiction)
			if own.Table == nil || own.Table.Version != 2 || !strings.Contains(own.Message, "version 2 has other content") || !strings.Contains(own.Message, "--give-up") {
				t.Errorf("%v", own)
			}
			_, err := w.catalog.Resolve(w.ctx(), coordinator.ResolveRequest{Table: "t", GiveUp: true})
			wantReason(t, "given up, before it is back", err, coordinator.TooEarly)
			w.overwrite("t", 2, was)
			w.eventually("the round's other table is put", func() bool { return w.read("beside", 3) != "" }) // or the preview seems to do it
			q := coordinator.ResolveRequest{Table: "beside", Preview: true}
			var plan coordinator.Resolution
			w.unchangedNow("a preview", func() {
				var err error
				if plan, err = w.catalog.Resolve(w.ctx(), q); err != nil {
					t.Fatal(err)
				}
			})
			if len(plan.Steps) != 1 || plan.Steps[0].Kind != "mended" || len(plan.GivenUp) != 0 || len(plan.Freed) != 2 || !plan.NotBefore.IsZero() {
				t.Errorf("%+v", plan)
			}
			q.Preview, q.Plan = false, plan.Plan
			if _, err := w.catalog.Resolve(w.ctx(), q); err != nil {
				t.Fatal(err)
			}
			w.eventually("the round is published", func() bool { return len(w.status().Rounds) == 0 })
			if o := w.commit("k", blind("t", "3"), blind("beside", "3")); o.Committed.Snapshot == 0 || deliveries(o)["t"] != 3 {
				t.Errorf("%+v", o.Committed)
			}
			w.commit("4", blind("t", "4"))
			if f := w.info("t").Frozen; f != nil {
				t.Errorf("%+v", f)
			}
			w.check(closedRun{})
		})
	}
}

// overwrite puts another content into a commit file.
func (w *world) overwrite(table string, v int, content string) {
	w.t.Helper()
	if err := w.objects.Put(w.ctx(), commitKey(table, v), []byte(content)); err != nil {
		w.t.Fatal(err)
	}
}

// The log of a replaced table is put back, and one file is not as it was: a resolve names it,
// as preview too, and closes nothing. With the file the table goes on; without it the operator
// has to say that it is given up.
func TestPutBackNotWhole(t *testing.T) {
	t.Parallel()
	ways := map[string]func(string) string{"missing": nil, "without rows": withoutAdds}
	for name, alter := range alterations {
		ways[name] = alter
	}
	for name, alter := range ways {
		for _, restarted := range []bool{false, true} {
			w := pending(t, twophase.ModeOpen)
			whole := map[int]string{}
			for v := range 3 {
				whole[v] = w.read("t", v)
			}
			w.overwrite("t", 2, whole[2]+"\n")
			w.start()
			w.frozenFor(twophase.CauseReplaced)
			w.overwrite("t", 2, whole[2])
			if alter == nil {
				w.drop(commitKey("t", 1))
			} else {
				w.overwrite("t", 1, alter(whole[1]))
			}
			if restarted {
				w.restart()
			}
			for _, preview := range []bool{true, false} {
				_, err := w.catalog.Resolve(w.ctx(), coordinator.ResolveRequest{Table: "t", Preview: preview})
				own := wantReason(t, name, err, coordinator.LogContradiction)
				if own.Table == nil || own.Table.Version != 1 || !strings.HasSuffix(own.Table.File, "00000000000000000001.json") || !strings.Contains(own.Message, "--give-up") {
					t.Errorf("%s: %v", name, own)
				}
			}
			plan, err := w.catalog.Resolve(w.ctx(), coordinator.ResolveRequest{Table: "t", GiveUp: true, Preview: true})
			if err != nil || len(plan.Steps) != 1 || plan.Steps[0].Kind != "thaw" || len(plan.GivenUp) != 1 {
				t.Errorf("%s: %+v, %v", name, plan, err)
			}
			w.overwrite("t", 1, whole[1])
			if err := w.resolve("t"); err != nil {
				t.Fatal(err)
			}
			w.eventually("the round is published", func() bool { return len(w.status().Rounds) == 0 })
			w.check(closedRun{})
		}
	}
}

// It is altered again after the word: the next walk sees it.
func TestMendedAndAlteredAgain(t *testing.T) {
	t.Parallel()
	clock := &clock{}
	w := pending(t, twophase.ModeExclusive)
	w.cfg.Boot = clock.now
	was := w.read("t", 2)
	w.overwrite("t", 2, was+"\n")
	w.start()
	w.frozenFor(twophase.CauseReplaced)
	w.overwrite("t", 2, was)
	if err := w.resolve("t"); err != nil {
		t.Fatal(err)
	}
	w.eventually("the round is published", func() bool { return len(w.status().Rounds) == 0 })
	last := w.read("t", 3)
	w.overwrite("t", 3, last+"\n")
	clock.advance(time.Minute)
	w.abandoned("t", once("5", blind("t", "5")))
	w.frozenFor(twophase.CauseReplaced)
	// Whoever wants it closed all the same says so.
	w.overwrite("t", 3, last)
	plan, err := w.catalog.Resolve(w.ctx(), coordinator.ResolveRequest{Table: "t", GiveUp: true, Preview: true})
	if err != nil || len(plan.Steps) != 1 || plan.Steps[0].Kind != "thaw" || len(plan.GivenUp) != 1 || plan.NotBefore.IsZero() {
		t.Errorf("%+v, %v", plan, err)
	}
	clock.advance(11 * time.Minute)
	if _, err := w.catalog.Resolve(w.ctx(), coordinator.ResolveRequest{Table: "t", GiveUp: true}); err != nil {
		t.Fatal(err)
	}
	wantReason(t, "a commit", second(w.try("6", blind("t", "6"))), coordinator.TableFrozen)
}

// The location of a replaced table does not answer: it is not closed without a look, unless
// the operator says so.
func TestResolveLooksFirst(t *testing.T) {
	t.Parallel()
	clock := &clock{}
	w := pending(t, twophase.ModeOpen)
	w.cfg.Boot = clock.now
	w.dropAndCreate("t")
	var down atomic.Bool
	w.wrapObjects = func(s objstore.Store) objstore.Store {
		return objtest.Faulty{Store: s, Hook: func(_ context.Context, op objtest.Op) objtest.Fate {
			if strings.HasPrefix(op.Key, "t/") && down.Load() {
				return objtest.Refused()
			}
			return objtest.Done()
		}}
	}
	w.start()
	w.frozenFor(twophase.CauseReplaced)
	down.Store(true)
	clock.advance(11 * time.Minute)
	own := wantReason(t, "resolve", w.resolve("t"), coordinator.ObjectsUnavailable)
	if !strings.Contains(own.Message, "--give-up") {
		t.Errorf("%s", own.Message)
	}
	if _, err := w.catalog.Resolve(w.ctx(), coordinator.ResolveRequest{Table: "t", GiveUp: true}); err != nil {
		t.Fatal(err)
	}
	found(t, w.explain("t"), coordinator.FoundClosed)
}

// A table that was dropped and made anew is not mended, also if versions look alike.
func TestOtherTableIsNotMended(t *testing.T) {
	t.Parallel()
	w := pending(t, twophase.ModeOpen)
	w.dropAndCreate("t")
	w.foreign("t", 1, add("other"))
	w.foreign("t", 2, add("other 2"))
	w.start()
	w.frozenFor(twophase.CauseReplaced)
	wantReason(t, "resolve", w.resolve("t"), coordinator.TooEarly)
}

// What the publisher reads of a table's state is damaged: the table is frozen at once, like for
// any other reader, and goes on when the file is back.
func TestPublisherMeetsDamage(t *testing.T) {
	t.Parallel()
	ways := map[string]func(string) string{"gone": nil}
	for name, alter := range alterations {
		if name != "altered" { // a commit still, so nobody who reads the state can tell
			ways[name] = alter
		}
	}
	for name, alter := range ways {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := pending(t, twophase.ModeExclusive)
			was := w.read("t", 1)
			if alter == nil {
				if err := w.objects.Delete(w.ctx(), commitKey("t", 1)); err != nil {
					t.Fatal(err)
				}
			} else {
				w.overwrite("t", 1, alter(was))
			}
			w.cfg.Limits.FreezeAfter = time.Hour // nothing is frozen for taking long
			w.start()
			w.frozenFor(twophase.CauseContradiction)
			if f := found(t, w.explain("t"), coordinator.FoundFrozen); !strings.Contains(f.Text, "00000000000000000001.json") {
				t.Errorf("%+v", f)
			}
			if n := w.versions("beside"); n != 4 {
				w.eventually("the other table has its version", func() bool { return w.versions("beside") == 4 })
			}
			w.overwrite("t", 1, was)
			if err := w.resolve("t"); err != nil {
				t.Fatal(err)
			}
			w.eventually("the round is published", func() bool { return len(w.status().Rounds) == 0 })
			w.commit("4", blind("t", "4"), blind("beside", "4"))
			w.check(closedRun{})
		})
	}
}

// A version behind the recorded one is damaged, where no commit looks: whatever of ours reads
// the log finds that out.
func TestDamageBehindTheEnd(t *testing.T) {
	t.Parallel()
	for name, alter := range alterations {
		if name == "altered" {
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newTended(t)
			w.create("a", twophase.ModeExclusive)
			w.grow("a", 2)
			was := w.read("a", 1)
			w.overwrite("a", 1, alter(was))
			if d, err := w.catalog.Describe(w.ctx(), "a"); err != nil || d.Frozen == nil || d.Frozen.Cause != twophase.CauseContradiction {
				t.Fatalf("%+v, %v", d, err)
			}
			wantReason(t, "a commit", second(w.try("x", blind("a", "x"))), coordinator.TableFrozen)
			w.overwrite("a", 1, was)
			if err := w.resolve("a"); err != nil {
				t.Fatal(err)
			}
			w.commit("x", blind("a", "x"))
		})
	}
}
