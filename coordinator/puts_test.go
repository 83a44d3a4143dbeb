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
	take := coordinator.TakePlace(coordinator.Limits{FilePutParallel: 1, PutParallel: 2, PutDeadline: time.Hour})
	taken := func(uri string) func() {
		t.Helper()
		leave, err := take(t.Context(), uri)
		if err != nil {
			t.Fatal(err)
		}
		return leave
	}
	over, end := context.WithCancel(t.Context())
	end()
	full := func(uri string) {
		t.Helper()
		if _, err := take(over, uri); !errors.Is(err, context.Canceled) {
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
