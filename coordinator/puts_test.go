package coordinator_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/txcoord/txcoord/coordinator"
	"github.com/txcoord/txcoord/tables/objstore"
	"github.com/txcoord/txcoord/tables/objstore/objtest"
	"github.com/txcoord/txcoord/twophase"
)

// Tables in local folders wait for one another, and hold up none in a bucket.
func TestPutPlaces(t *testing.T) {
	t.Parallel()
	take := coordinator.TakePlace(coordinator.Limits{FilePutParallel: 1, FilePutUnhurried: 1, PutParallel: 2, PutDeadline: time.Hour})
	taken := func(uri string) func() {
		t.Helper()
		leave, err := take(t.Context(), uri, true)
		if err != nil {
			t.Fatal(err)
		}
		return leave
	}
	over, end := context.WithCancel(t.Context())
	end()
	full := func(uri string) {
		t.Helper()
		if _, err := take(over, uri, true); !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v, want to wait", uri, err)
		}
	}
	leave := taken("file:///lake/a")
	full("file:///lake/b")
	taken("s3://lake/a")
	taken("gs://lake/a")
	full("s3://lake/b")
	leave()
	taken("file:///lake/b")
}

// Versions that nobody waits for get few of the places in local folders, and take none while
// they wait for those. In buckets they get any.
func TestUnhurriedPlaces(t *testing.T) {
	t.Parallel()
	take := coordinator.TakePlace(coordinator.Limits{FilePutParallel: 2, FilePutUnhurried: 1, PutParallel: 2, PutDeadline: time.Hour})
	over, end := context.WithCancel(t.Context())
	end()
	taken := func(uri string, hurry bool) func() {
		t.Helper()
		leave, err := take(t.Context(), uri, hurry)
		if err != nil {
			t.Fatal(err)
		}
		return leave
	}
	full := func(uri string, hurry bool) {
		t.Helper()
		if _, err := take(over, uri, hurry); !errors.Is(err, context.Canceled) {
			t.Errorf("%s, hurry %v: %v, want to wait", uri, hurry, err)
		}
	}
	leave := taken("file:///lake/a", false)
	full("file:///lake/b", false)
	hurried := taken("file:///lake/c", true)
	full("file:///lake/d", true)
	leave()
	leave = taken("file:///lake/d", true)
	full("file:///lake/b", false) // it has the place that few have, and none of all: it gives it back
	hurried()
	leave()
	taken("file:///lake/b", false)
	taken("file:///lake/c", true)
	taken("s3://lake/a", false)
	taken("s3://lake/b", false)
	full("s3://lake/c", false)
}

// What somebody waits for is published while the places hang of what nobody waits for, who
// get no more of them.
func TestPublishedPastWhatNobodyWaitsFor(t *testing.T) {
	t.Parallel()
	gate := newGate()
	var came atomic.Int32
	w := &world{wrapObjects: func(s objstore.Store) objstore.Store {
		return objtest.Faulty{Store: gate.over(s), Hook: func(_ context.Context, op objtest.Op) objtest.Fate {
			if op.Kind == objtest.PutIfAbsent && strings.HasSuffix(op.Key, "/_delta_log/00000000000000000002.json") && op.Key[0] != 'w' {
				came.Add(1)
			}
			return objtest.Done()
		}}
	}}
	w.cfg.Limits.FilePutUnhurried, w.cfg.Limits.PutDeadline = 1, time.Hour
	w.open(t)
	for _, name := range []string{"a", "b", "waited"} {
		w.create(name, twophase.ModeOpen)
		w.fence(name, true)
	}
	w.settle()
	gate.hold("a/_delta_log/00000000000000000002.json", "b/_delta_log/00000000000000000002.json")
	t.Cleanup(gate.release)
	for _, name := range []string{"a", "b"} {
		if _, err := w.decided(name, blind(name, "1")); err != nil {
			t.Fatal(err)
		}
	}
	w.eventually("one of them is put", func() bool { return came.Load() > 0 })
	if o := w.commit("by one call", blind("waited", "1")); o.Committed.Snapshot == 0 {
		t.Errorf("%+v", o.Committed)
	}
	begun := w.begin("by token")
	staged := w.stage(begun.Token, blind("waited", "2"))
	o, err := w.catalog.Commit(w.ctx(), coordinator.CommitRequest{Token: begun.Token, Tables: []coordinator.TableParts{parts("waited", staged.Digest)}})
	if err != nil || o.Committed.Snapshot == 0 {
		t.Errorf("%+v, %v", o.Committed, err)
	}
	if n, a, b := came.Load(), w.info("a").Pending, w.info("b").Pending; n != 1 || a+b != 2 {
		t.Errorf("%d puts at once that nobody waits for, and %d and %d changes pending; want one, and one of each", n, a, b)
	}
	gate.release()
	w.settle()
	if a, b := w.versions("a"), w.versions("b"); a != 3 || b != 3 {
		t.Errorf("%d and %d versions, want three of each", a, b)
	}
}

// A disk that hangs under one table, and heeds no deadline, takes no place from the others for
// longer than a put may take. When it answers all is published.
func TestPlaceOfAPutThatHangs(t *testing.T) {
	t.Parallel()
	hangs := make(chan struct{})
	answers := sync.OnceFunc(func() { close(hangs) })
	var hanging atomic.Bool
	w := &world{wrapObjects: func(s objstore.Store) objstore.Store {
		return objtest.Faulty{Store: s, Hook: func(_ context.Context, op objtest.Op) objtest.Fate {
			if op.Kind == objtest.PutIfAbsent && hanging.Load() && strings.HasPrefix(op.Key, "dead/_delta_log/0") {
				<-hangs
			}
			return objtest.Done()
		}}
	}}
	w.cfg.Limits.FilePutParallel, w.cfg.Limits.PutDeadline = 1, time.Second // others answer in time, on a busy machine too
	w.open(t)
	t.Cleanup(answers)
	w.create("dead", twophase.ModeExclusive)
	w.create("well", twophase.ModeExclusive)
	w.settle()
	hanging.Store(true)
	pending := w.background("pinned", blind("dead", "1"))
	w.eventually("it is decided", func() bool { return w.info("dead").Pending == 1 })
	for n := range 3 {
		if o := w.commit(fmt.Sprint("well ", n), blind("well", fmt.Sprint(n))); o.Committed.Snapshot == 0 {
			t.Errorf("not published: %+v", o.Committed)
		}
	}
	var tr coordinator.Trouble
	hung := func() bool {
		for _, tr = range w.status().Troubles {
			if tr.Place == w.info("dead").URI && strings.Contains(tr.Text, "has not answered a write") {
				return true
			}
		}
		return false
	}
	w.eventually("it is said that it hangs", hung)
	if tr.Since.IsZero() {
		t.Errorf("%+v", tr)
	}
	f := found(t, w.explain("dead"), coordinator.FoundStoreTrouble)
	if !f.Blocks || f.Text != tr.Text || !f.Since.Equal(tr.Since) || f.Remedy == "" {
		t.Errorf("%+v", f)
	}
	if e := w.explain("well"); slices.Contains(codes(e), coordinator.FoundStoreTrouble) || w.info("dead").Frozen != nil {
		t.Errorf("%+v, and dead is %+v", e, w.info("dead"))
	}
	answers()
	if err := <-pending; err != nil {
		t.Error(err)
	}
	w.settle()
	if hung() {
		t.Errorf("left: %+v", tr)
	}
}

// More tables than places: a transaction over all of them is published.
func TestMoreTablesThanPlaces(t *testing.T) {
	t.Parallel()
	w := &world{}
	w.cfg.Limits.FilePutParallel = 1
	w.open(t)
	names := []string{"a", "b", "c", "d"}
	var parts []coordinator.OnceTable
	for _, name := range names {
		w.create(name, twophase.ModeExclusive)
		parts = append(parts, blind(name, "1"))
	}
	if o := w.commit("all", parts...); len(o.Committed.Tables) != len(names) {
		t.Errorf("%d tables of %d", len(o.Committed.Tables), len(names))
	}
}
