package coordinator_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/txcoord/txcoord/coordinator"
	"github.com/txcoord/txcoord/tables/objstore"
	"github.com/txcoord/txcoord/tables/objstore/objtest"
	"github.com/txcoord/txcoord/twophase"
)

// wallClock is a wall clock that tests turn forward.
type wallClock struct {
	mu    sync.Mutex
	extra time.Duration
}

func (c *wallClock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return time.Now().Add(c.extra)
}

func (c *wallClock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.extra += d
}

// deleteFolder deletes everything at a table's place.
func (w *world) deleteFolder(name string) {
	w.t.Helper()
	for key := range w.keys() {
		if k, ok := strings.CutPrefix(key, "object: "+name+"/"); ok {
			if err := w.objects.Delete(w.ctx(), name+"/"+k); err != nil {
				w.t.Fatal(err)
			}
		}
	}
}

// A table that was released leaves its log behind: no new one is made over it, and none
// where its folder was deleted, before every write of the old one has landed (R10).
func TestRecreate(t *testing.T) {
	t.Parallel()
	clock := &wallClock{}
	w := &world{}
	w.cfg.Now = clock.now
	w.open(t)
	first := w.create("t", twophase.ModeOpen)
	w.commit("1", blind("t", "1"))
	w.settle()
	if err := w.catalog.Release(w.ctx(), "t", false); err != nil {
		t.Fatal(err)
	}
	again := coordinator.CreateRequest{Name: "t", URI: w.uri("t"), Schema: schema}
	both := func(what string, reason coordinator.Reason, says string) {
		t.Helper()
		w.unchanged(what, func() {
			_, _, err := w.catalog.Create(w.ctx(), again)
			own := wantReason(t, what, err, reason)
			if !strings.Contains(own.Message, says) {
				t.Errorf("%s: %s", what, own.Message)
			}
			_, err = w.try(what, w.creating("t", add("2")))
			wantReason(t, what+", in a transaction", err, reason)
		})
	}
	both("over the old log", coordinator.NotATable, "the log of table t, which was released, is still at")
	w.deleteFolder("t")
	both("a moment after the release", coordinator.ChangesPending, "may still land")
	clock.advance(11 * time.Minute)
	o := w.commit("anew", w.creating("t", add("2")))
	if d := cmp.Diff(map[string]twophase.Version{"t": 0}, deliveries(o)); d != "" {
		t.Errorf("deliveries (-want +got):\n%s", d)
	}
	second := w.info("t")
	if second.ID == first.ID || second.MetaDataID == first.MetaDataID || second.Marker != 1 {
		t.Errorf("%+v after %+v", second, first)
	}
	// The old key still answers for the old table.
	if again := w.commit("1", blind("t", "1")); deliveries(again)["t"] != 1 {
		t.Errorf("again: %+v", again.Committed)
	}
	w.restart()
	w.commit("2", blind("t", "3"))
	w.wantShown(map[string]twophase.Version{"t": 1})
}

// A9: a replica is held up right before it puts version 2 of the old table. Another one
// publishes it; the table is released, its folder deleted, and a new one created at the
// place. The replica that wakes puts nothing: its request is past its deadline. One that
// was paused before it asked whether it may put looks again, and finds another table.
func TestStaleWriterOfTheTableBefore(t *testing.T) {
	t.Parallel()
	for _, wakes := range []string{"before the look", "before the put"} {
		t.Run(wakes, func(t *testing.T) {
			t.Parallel()
			wall, boot := &wallClock{}, &clock{}
			slow := newSlowPut("t/_delta_log/" + strings.Repeat("0", 19) + "2.json")
			fast := &world{}
			fast.cfg.Now, fast.cfg.Boot = wall.now, boot.now
			fast.open(t)
			fast.create("t", twophase.ModeExclusive)
			fast.commit("1", blind("t", "1"))

			stale := &world{objects: fast.objects, shared: fast.store, wrapObjects: slow.over}
			stale.cfg.Now, stale.cfg.Boot = wall.now, boot.now
			stale.cfg.Limits.PutDeadline = 300 * time.Millisecond
			stale.open(t)
			call, cancel := context.WithCancel(stale.ctx())
			defer cancel()
			go stale.catalog.CommitOnce(call, once("2", blind("t", "2"))) //nolint:errcheck // the other replica answers
			<-slow.reached
			if wakes == "before the look" {
				slow.turnBack() // its put failed, and it will walk again when it wakes
			}
			fast.eventually("the other one publishes it", func() bool {
				o, _, err := fast.catalog.CommitOnce(fast.ctx(), once("2", blind("t", "2")))
				return err == nil && o.Committed.Snapshot != 0
			})
			if err := fast.catalog.Release(fast.ctx(), "t", false); err != nil {
				t.Fatal(err)
			}
			boot.advance(20 * time.Minute)
			wall.advance(20 * time.Minute)
			fast.deleteFolder("t")
			fast.commit("anew", fast.creating("t", add("9")))
			slow.wake()
			if err := stale.catalog.AtLeast(stale.ctx(), fast.catalog.Shown()); err != nil {
				t.Fatal(err)
			}
			stale.commit("3", blind("t", "3"))
			fast.eventually("both go on with the new table", func() bool {
				_, err := fast.try("4", blind("t", "4"))
				return err == nil
			})
			if n := fast.versions("t"); n != 3 {
				t.Errorf("the new table has %d versions", n)
			}
			if log := fast.read("t", 2); strings.Contains(log, `"path":"2"`) {
				t.Errorf("version 2 is the old table's: %s", log)
			}
		})
	}
}

// slowPut holds a put of one key up until the process wakes; a put whose deadline has
// passed meanwhile is not sent.
type slowPut struct {
	key             string
	reached, waking chan struct{}
	back            chan struct{}
	first           sync.Once
}

func newSlowPut(key string) *slowPut {
	return &slowPut{key: key, reached: make(chan struct{}), waking: make(chan struct{}), back: make(chan struct{})}
}

func (s *slowPut) wake()     { close(s.waking) }
func (s *slowPut) turnBack() { close(s.back) }

func (s *slowPut) over(in objstore.Store) objstore.Store {
	return objtest.Faulty{Store: in, Hook: func(ctx context.Context, op objtest.Op) objtest.Fate {
		if op.Kind != objtest.PutIfAbsent || op.Key != s.key {
			return objtest.Done()
		}
		select {
		case <-s.waking: // it begins when the process is awake
			return objtest.Done()
		default:
		}
		back := make(chan struct{}) // never closed: later ones are not turned back
		s.first.Do(func() { back = s.back; close(s.reached) })
		select {
		case <-back:
			return objtest.Refused()
		case <-s.waking: // not the context: the process sleeps, and its timers with it
			<-ctx.Done()
			return objtest.Fate{Err: ctx.Err()}
		}
	}}
}
