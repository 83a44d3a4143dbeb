package coordinator_test

import (
	"bytes"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/txcoord/txcoord/coordinator"
	"github.com/txcoord/txcoord/lock"
	"github.com/txcoord/txcoord/twophase"
)

// bundles are the items of the store that hold parts of one-call commits.
func (w *world) bundles() map[string]string {
	w.t.Helper()
	out := map[string]string{}
	for key, content := range w.keys() {
		if name, ok := strings.CutPrefix(key, "store: "); ok && strings.HasPrefix(name, "pay/") && strings.Contains(name, "/bundle/") {
			out[name] = content
		}
	}
	return out
}

// aheadWorld has a store that writes one key per request, so that bundles are durable ahead
// of the entries.
func aheadWorld(before func(key string)) *world {
	return &world{wrapStore: func(s lock.Store) lock.Store { return hookedStore{s, before} }}
}

// A bundle holds parts of two transactions, of which one is decided, published and swept
// while nobody has decided the other one: it stays, for another process to find the part.
func TestBundleStaysForWhatIsUndecided(t *testing.T) {
	t.Parallel()
	hold := make(chan chan struct{}, 1)
	var held atomic.Int64
	gate := newGate()
	w := aheadWorld(func(key string) {
		if !strings.HasPrefix(key, "pay/") {
			return
		}
		select {
		case release := <-hold:
			held.Add(1)
			<-release
		default:
		}
	})
	w.wrapObjects = gate.over
	w.open(t)
	for _, name := range []string{"first", "quick", "after"} {
		w.create(name, twophase.ModeExclusive)
		w.commit("seed "+name, blind(name, "0"))
	}
	w.create("slow", twophase.ModeExclusive)
	w.commit("seed slow", blind("slow", "0"))
	w.settle()
	release := make(chan struct{})
	var done []chan error
	for i := range coordinator.BatchesAtOnce { // as many as there may be, so that others wait
		hold <- release
		name := fmt.Sprint("first ", i)
		done = append(done, w.background(name, blind("first", name)))
		w.eventually("a bundle is on its way", func() bool { return held.Load() == int64(i+1) })
	}
	done = append(done, w.background("quick", blind("quick", "1")))
	w.eventually("one waits", func() bool { return w.catalog.Bundling() == 1 })
	undecided := make(chan error, 1)
	go func() { // refused without a record: it may come back
		_, _, err := w.catalog.CommitOnce(w.ctx(), coordinator.OnceRequest{Key: "slow", Attempt: 2, Tables: []coordinator.OnceTable{blind("slow", "1")}})
		undecided <- err
	}()
	w.eventually("two wait", func() bool { return w.catalog.Bundling() == 2 })
	close(release)
	for _, ch := range done {
		if err := <-ch; err != nil {
			t.Fatal(err)
		}
	}
	wantReason(t, "attempt 2 of a key that has no attempt 1", <-undecided, coordinator.AttemptUndecided)
	w.commit("after", blind("after", "1")) // its bundle is swept behind that of quick
	w.eventually("what is published is swept", func() bool { return len(w.bundles()) == 1 })
	w.stop()
	w.start()
	if n := len(w.bundles()); n != 1 {
		t.Fatalf("%d bundles after a restart", n)
	}
	var open []coordinator.OpenTxn
	w.eventually("the undecided one is listed", func() bool {
		all, err := w.catalog.List(w.ctx(), coordinator.ListRequest{})
		open = all.Open
		return err == nil && len(open) == 1
	})
	if got := open[0].Tables; len(got) != 1 || got[0].Name != "slow" || got[0].Parts != 1 {
		t.Errorf("open is %+v", open)
	}
	if _, err := w.catalog.Abort(w.ctx(), coordinator.OutcomeRef{Txn: open[0].Txn}, "enough"); err != nil {
		t.Fatal(err)
	}
	w.eventually("the bundle goes with the last part", func() bool { return len(w.bundles()) == 0 })
}

// What does not fit one bundle goes into several, and another process publishes it from
// there.
func TestBundlesOfALargeTransaction(t *testing.T) {
	t.Parallel()
	for name, wrap := range map[string]func(lock.Store) lock.Store{
		"with the entry":     nil,
		"ahead of the entry": func(s lock.Store) lock.Store { return hookedStore{s, func(string) {}} },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			gate := newGate()
			w := &world{wrapObjects: gate.over, wrapStore: wrap}
			w.cfg.Limits.BundleBytes = 2000
			w.open(t)
			var parts []coordinator.OnceTable
			for i := range 12 {
				name := fmt.Sprint("t", i)
				w.create(name, twophase.ModeExclusive)
				part := blind(name, "1")
				if i == 5 { // more than a bundle by itself
					part.Actions = lines(part.Actions, txnAction(strings.Repeat("x", 3000), 1))
				}
				parts = append(parts, part)
			}
			w.settle()
			gate.refuse()
			w.abandoned("t0", once("k", parts...))
			w.abandoned("t0", once("k", parts...)) // the same again writes nothing new that stays
			if n := len(w.bundles()); n < 4 || n > 12 {
				t.Errorf("%d bundles", n)
			}
			w.stop()
			w.wantNothingMissing()
			gate.release()
			w.start()
			o := w.commit("k", parts...)
			w.settle()
			if len(w.bundles()) > 0 {
				t.Errorf("left are %v", w.bundles())
			}
			w.check(closedRun{committed: []coordinator.Outcome{o}})
		})
	}
}

func (w *world) wantNothingMissing() {
	w.t.Helper()
	for _, f := range findings(w.fsck("")) {
		if strings.HasPrefix(f, "PAYLOAD_MISSING") {
			w.t.Error(f)
		}
	}
}

// A bundle is lost, with the parts of all tables in it: each table says so, none of them
// is published in part, and all go on by themselves when it is back.
func TestLostBundleComesBack(t *testing.T) {
	t.Parallel()
	for name, damage := range map[string]func([]byte) []byte{
		"gone":           func([]byte) []byte { return nil },
		"cut":            func(b []byte) []byte { return b[:len(b)-5] },
		"one bit":        func(b []byte) []byte { c := bytes.Clone(b); c[len(c)/2] ^= 4; return c },
		"something else": func([]byte) []byte { return []byte("hello") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			gate := newGate()
			w := &world{wrapObjects: gate.over}
			w.cfg.Limits.FreezeAfter = 20 * time.Millisecond
			w.open(t)
			for _, name := range []string{"a", "b"} {
				w.create(name, twophase.ModeOpen)
			}
			w.commit("seed", blind("a", "1"), blind("b", "1"))
			w.settle()
			gate.refuse()
			w.abandoned("a", once("k", blind("a", "2"), blind("b", "2")))
			w.stop()
			gate.release()
			all := w.bundles()
			if len(all) != 1 {
				t.Fatalf("%d bundles", len(all))
			}
			var key, was string
			for key, was = range all {
			}
			put := func(content []byte) {
				t.Helper()
				err := w.store.Delete(w.ctx(), key)
				if err == nil && content != nil {
					_, err = w.store.Put(w.ctx(), key, content, lock.IfAbsent())
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			put(damage([]byte(was)))
			var missing []string
			for _, f := range findings(w.fsck("")) {
				if rest, ok := strings.CutPrefix(f, "PAYLOAD_MISSING "); ok {
					missing = append(missing, rest[:1])
				}
			}
			if diff := cmp.Diff([]string{"a", "b"}, missing); diff != "" {
				t.Errorf("missing (-want +got):\n%s", diff)
			}
			w.start()
			w.eventually("both are frozen as lost", func() bool {
				a, b := w.info("a").Frozen, w.info("b").Frozen
				return a != nil && b != nil && a.Cause == twophase.CauseLost && b.Cause == twophase.CauseLost
			})
			for _, name := range []string{"a", "b"} {
				if f := found(t, w.explain(name), coordinator.FoundPartLost); !strings.Contains(f.Text, "key "+key) || f.File != key {
					t.Errorf("%s: %+v", name, f)
				}
			}
			if name != "gone" {
				w.catalog.SweepAgain(w.ctx())()
				if len(w.bundles()) != 1 {
					t.Error("a damaged bundle that is waited for was swept")
				}
			}
			put([]byte(was))
			w.eventually("both have their versions", func() bool { return w.versions("a") == 3 && w.versions("b") == 3 })
			w.eventually("the tables go on", func() bool { return w.info("a").Frozen == nil && w.info("b").Frozen == nil })
			w.commit("more", blind("a", "3"), blind("b", "3"))
			w.settle()
		})
	}
}

// A bundle that no build can read, and that nothing decided waits for, goes; one of a newer
// build stays.
func TestUnreadableBundles(t *testing.T) {
	t.Parallel()
	w := (&world{}).open(t)
	w.create("t", twophase.ModeExclusive)
	w.commit("1", blind("t", "1"))
	w.settle()
	key := func(n int) string { return fmt.Sprintf("pay/%02d/bundle/%02x%030x", n, n, 1) }
	for n, value := range []string{"", "junk", "txb", "txb\x01", "txb\x01junk", "txb\x02of a newer build"} {
		if _, err := w.store.Put(w.ctx(), key(n), []byte(value), lock.IfAbsent()); err != nil {
			t.Fatal(err)
		}
	}
	w.catalog.SweepAgain(w.ctx())()
	if got := w.bundles(); len(got) != 1 || got[key(5)] == "" {
		t.Errorf("left are %q", got)
	}
}

// What a one-call commit brought, and nobody recorded, is in memory and nowhere else: a
// commit step by step that names it finds nothing staged.
func TestPartsInMemoryAreNotStaged(t *testing.T) {
	t.Parallel()
	w := (&world{}).open(t)
	w.create("t", twophase.ModeExclusive)
	w.commit("1", blind("t", "1"))
	w.settle()
	b, err := w.catalog.Begin(w.ctx(), coordinator.BeginRequest{Key: "k", Attempt: 2})
	if err != nil {
		t.Fatal(err)
	}
	call := coordinator.OnceRequest{Key: "k", Attempt: 2, Tables: []coordinator.OnceTable{blind("t", "2")}}
	_, _, err = w.catalog.CommitOnce(w.ctx(), call)
	wantReason(t, "attempt 2 of a key that has no attempt 1", err, coordinator.AttemptUndecided)
	other := w.begin("other") // the digest, by staging the same elsewhere
	digest := w.stage(other.Token, blind("t", "2")).Digest
	_, err = w.catalog.Commit(w.ctx(), coordinator.CommitRequest{Token: b.Token, Tables: []coordinator.TableParts{parts("t", digest)}})
	wantReason(t, "a commit of what is in memory only", err, coordinator.PartNotStaged)
}

// Many at once, with a store that is stopped in between: nothing is left, and all is there
// once.
func TestBundlesOfMany(t *testing.T) {
	t.Parallel()
	for name, wrap := range map[string]func(lock.Store) lock.Store{
		"with the entry":     nil,
		"ahead of the entry": func(s lock.Store) lock.Store { return hookedStore{s, func(string) {}} },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := &world{wrapStore: wrap}
			w.cfg.Limits.BundleBytes = 3000
			w.open(t)
			for i := range 6 {
				w.create(fmt.Sprint("t", i), twophase.ModeExclusive)
			}
			var run closedRun
			var mu sync.Mutex
			var wg sync.WaitGroup
			for i := range 24 {
				wg.Go(func() {
					for n := range 5 {
						key := fmt.Sprint(i, "-", n)
						o, err := w.try(key, blind(fmt.Sprint("t", i%6), key), blind(fmt.Sprint("t", (i+1+n)%6), key+"b"))
						if err != nil {
							t.Error(err)
							return
						}
						mu.Lock()
						run.committed = append(run.committed, o)
						mu.Unlock()
					}
				})
			}
			wg.Wait()
			w.settle()
			if left := w.bundles(); len(left) > 0 {
				t.Errorf("%d bundles are left", len(left))
			}
			w.check(run)
		})
	}
}
