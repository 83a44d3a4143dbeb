package coordinator_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/txcoord/txcoord/coordinator"
	"github.com/txcoord/txcoord/lock"
	"github.com/txcoord/txcoord/tables"
	"github.com/txcoord/txcoord/tables/checkpoint"
	"github.com/txcoord/txcoord/tables/objstore"
	"github.com/txcoord/txcoord/tables/objstore/objtest"
	"github.com/txcoord/txcoord/twophase"
)

// cleaned is a table whose log one replica cleans, halted at a place, while another one leases
// or tags what is about to go.
type cleaned struct {
	*tended
	snapshot twophase.SnapshotVersion // names version 5, which a clean-up removes
	two      *world
	m        *coordinator.Maintainer
	halt     map[string]chan struct{} // where to halt: it is closed there
	goOn     chan struct{}
	mu       sync.Mutex
}

func newCleaned(t *testing.T) *cleaned {
	w := &cleaned{tended: &tended{world: sharedWorld("", time.Minute)}, halt: map[string]chan struct{}{}, goOn: make(chan struct{})}
	w.cfg.Now = func() time.Time { return time.Now().Add(time.Duration(w.later.Load())) }
	w.wrapStore = func(s lock.Store) lock.Store {
		return hookedStore{s, func(key string) {
			if strings.HasPrefix(key, "ring/") {
				w.at("entry")
			}
		}}
	}
	w.wrapObjects = func(s objstore.Store) objstore.Store {
		return objtest.Faulty{Store: s, Hook: func(_ context.Context, op objtest.Op) objtest.Fate {
			if op.Kind == objtest.Delete && strings.HasPrefix(op.Key, "a/_delta_log/") {
				w.at("delete")
			}
			return objtest.Done()
		}}
	}
	w.open(t)
	w.create("a", twophase.ModeExclusive)
	w.m = w.maintainer(coordinator.MaintainConfig{})
	w.grow("a", 4)
	w.maintain(w.m, "a", false)
	w.grow("a", 1)
	w.snapshot = w.catalog.Shown()
	w.grow("a", 2)
	w.maintain(w.m, "a", false)
	w.two = w.replica(t, nil)
	w.later.Store(int64(month))
	return w
}

// at halts once at a place.
func (w *cleaned) at(place string) {
	w.mu.Lock()
	halted := w.halt[place]
	delete(w.halt, place)
	w.mu.Unlock()
	if halted != nil {
		close(halted)
		<-w.goOn
	}
}

// haltedAt cleans, and does something while that is halted at a place.
func (w *cleaned) haltedAt(place string, do func()) coordinator.MaintainReport {
	w.t.Helper()
	report, err := w.tryHaltedAt(place, do)
	if err != nil {
		w.t.Fatal(err)
	}
	return report
}

func (w *cleaned) tryHaltedAt(place string, do func()) (coordinator.MaintainReport, error) {
	halted := make(chan struct{})
	w.mu.Lock()
	w.halt[place] = halted
	w.mu.Unlock()
	type answer struct {
		report coordinator.MaintainReport
		err    error
	}
	ended := make(chan answer, 1)
	go func() {
		r, err := w.m.Maintain(w.ctx(), coordinator.MaintainRequest{Table: "a"})
		ended <- answer{r, err}
	}()
	<-halted
	do()
	close(w.goOn)
	a := <-ended
	return a.report, a.err
}

func (w *cleaned) lease(c *coordinator.Catalog, id string, s twophase.SnapshotVersion) error {
	_, _, err := c.Lease(w.ctx(), coordinator.LeaseRequest{ID: id, Snapshot: s, TTL: time.Hour})
	return err
}

func (w *cleaned) readable(v twophase.Version) bool {
	log := tables.NewLog(tables.LogConfig{Store: w.objects, Key: "a", URI: w.uri("a"), ReadCheckpoint: checkpoint.Read})
	_, err := log.State(w.ctx(), v)
	return err == nil
}

func holdsOf(w *cleaned) map[string]func(c *coordinator.Catalog) error {
	return map[string]func(c *coordinator.Catalog) error{
		"lease": func(c *coordinator.Catalog) error { return w.lease(c, "audit", w.snapshot) },
		"tag":   func(c *coordinator.Catalog) error { return second(c.Tag(w.ctx(), "audit", w.snapshot)) },
	}
}

// TestLeaseBeforeTheCut: R21. A clean-up is halted where it is about to say what goes. What
// another replica leases or tags then stays: the clean-up plans again.
func TestLeaseBeforeTheCut(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"lease", "tag"} {
		w := newCleaned(t)
		report := w.haltedAt("entry", func() {
			if err := holdsOf(w)[name](w.two.catalog); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
		})
		if !w.readable(5) || report.CleanUp.Cut != 4 || report.CleanUp.HeldBy != name+" audit" {
			t.Errorf("%s: %+v", name, report.CleanUp)
		}
	}
}

// TestLeaseBehindTheCut: R21. A clean-up of thousands of files takes minutes, and its process
// may be halted in the middle for longer. Once it is said what goes, that is leased and
// tagged no more, while the rest is: nobody is promised what goes on disappearing.
func TestLeaseBehindTheCut(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"lease", "tag"} {
		w := newCleaned(t)
		w.haltedAt("delete", func() {
			for _, c := range []*coordinator.Catalog{w.two.catalog, w.catalog} {
				own := wantReason(t, name, holdsOf(w)[name](c), coordinator.SnapshotOutOfRange)
				if !strings.Contains(own.Message, "a clean-up has removed, or is removing") {
					t.Errorf("%s: %v", name, own)
				}
			}
			if err := w.lease(w.two.catalog, "newest", w.catalog.Shown()); err != nil {
				t.Error(err)
			}
		})
		leases, _ := w.two.catalog.Leases(w.ctx())
		tags, _ := w.two.catalog.Tags(w.ctx())
		if len(leases) != 1 || len(tags) != 0 || w.readable(5) || !w.readable(7) {
			t.Errorf("%s: %v, %v; version 5 can be read: %v", name, leases, tags, w.readable(5))
		}
	}
}

// TestCutOutlivesItsProcess: what a clean-up has said it removes is not promised to anybody
// by who comes after it, and the next clean-up goes on with it without saying so again.
func TestCutOutlivesItsProcess(t *testing.T) {
	t.Parallel()
	w := newCleaned(t)
	w.halt["delete"] = make(chan struct{})
	ctx, kill := context.WithCancel(w.ctx())
	ended := make(chan error, 1)
	halted := w.halt["delete"]
	go func() {
		_, err := w.m.Maintain(ctx, coordinator.MaintainRequest{Table: "a"})
		ended <- err
	}()
	<-halted
	kill()
	close(w.goOn)
	if err := <-ended; err == nil {
		t.Error("it was killed, and ended well")
	}
	w.stop()
	w.start()
	wantReason(t, "lease", w.lease(w.catalog, "audit", w.snapshot), coordinator.SnapshotOutOfRange)
	blind := w.replica(t, func(r *world) {
		r.wrapObjects = func(s objstore.Store) objstore.Store {
			return objtest.Faulty{Store: s, Hook: func(_ context.Context, op objtest.Op) objtest.Fate {
				if op.Kind == objtest.List && strings.HasPrefix(op.Key, "a/") {
					return objtest.Refused()
				}
				return objtest.Done()
			}}
		}
	})
	wantReason(t, "tag, where the log cannot be listed", second(blind.catalog.Tag(w.ctx(), "audit", w.snapshot)), coordinator.SnapshotOutOfRange)
	w.m = w.maintainer(coordinator.MaintainConfig{})
	before := w.head()
	if r := w.maintain(w.m, "a", false); r.CleanUp.Cut != 7 || w.readable(5) {
		t.Errorf("%+v", r.CleanUp)
	}
	if head := w.head(); head != before {
		t.Errorf("%d entries were written for what had been said", head-before)
	}
}

// TestCleanUpOfAnotherTable: a process that was halted in a clean-up looks whether the log is
// the table's before it goes on: the place may be another one's by then.
func TestCleanUpOfAnotherTable(t *testing.T) {
	t.Parallel()
	w := newCleaned(t)
	count := func() (n int) {
		for _, name := range w.files("a") {
			if strings.HasSuffix(name, ".json") && !strings.HasPrefix(name, "_") {
				n++
			}
		}
		return n
	}
	before := count()
	_, err := w.tryHaltedAt("delete", func() {
		w.world.drop("a/_delta_log/_txcoord/owner.json")
		w.later.Add(int64(2 * time.Second))
	})
	wantReason(t, "a log without its owner object", err, coordinator.LogContradiction)
	if after := count(); after != before-1 {
		t.Errorf("%d of %d commits are left", after, before)
	}
}

func (w *world) head() twophase.Position {
	w.t.Helper()
	st, err := w.catalog.Status(w.ctx())
	if err != nil {
		w.t.Fatal(err)
	}
	return st.Position
}
