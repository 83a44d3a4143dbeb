package coordinator_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/txcoord/txcoord/coordinator"
	"github.com/txcoord/txcoord/twophase"
)

func (w *world) kinds() []string {
	w.t.Helper()
	page, err := w.catalog.Snapshots(w.ctx(), "", 1000, "")
	if err != nil {
		w.t.Fatal(err)
	}
	var out []string
	for _, s := range page.Snapshots {
		out = append([]string{s.Kind}, out...)
	}
	return out
}

func TestForeignCommitsAreAbsorbedFirst(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.create("t", twophase.ModeOpen)
	w.foreign("t", 1, add("x"))
	w.foreign("t", 2, add("y"))
	if o := w.commit("k", blind("t", "1")); deliveries(o)["t"] != 3 {
		t.Errorf("%+v", o.Committed)
	}
	w.foreign("t", 4, remove("1"))
	_, err := w.try("removes it too", change("t", readAt(3), remove("1")))
	if got := wantReason(t, "a removal of what is gone", err, coordinator.Conflicted).Conflict; got.Rule != twophase.RuleDeleteDelete || got.Version != 4 || !got.Winner.IsZero() {
		t.Errorf("%+v", got)
	}
	if diff := cmp.Diff([]string{"create", "foreign", "foreign", "publication", "foreign"}, w.kinds()); diff != "" {
		t.Errorf("snapshots (-want +got):\n%s", diff)
	}
	w.check(closedRun{})
}

func TestForeignCommitsAreFoundByPolling(t *testing.T) {
	t.Parallel()
	w := &world{}
	w.cfg.Limits.PollInterval = 5 * time.Millisecond
	w.open(t)
	w.create("t", twophase.ModeOpen)
	w.create("exclusive", twophase.ModeExclusive)
	ctx, cancel := context.WithCancel(w.ctx())
	defer cancel()
	seen := make(chan coordinator.SnapshotChange, 10)
	done := make(chan error, 1)
	after := w.catalog.Shown()
	go func() {
		done <- w.catalog.Watch(ctx, &after, func(c coordinator.SnapshotChange) error { seen <- c; return nil })
	}()
	w.foreign("exclusive", 1, add("x"))
	w.foreign("t", 1, add("x"))
	got := <-seen
	if got.Kind != "foreign" || len(got.Tables) != 1 || got.Tables[0].Name != "t" || got.Tables[0].From != 0 || got.Tables[0].To != 1 || len(got.Txns) != 0 {
		t.Errorf("%+v", got)
	}
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("the watch ended with %v", err)
	}
	if v := w.snapshot(0)["exclusive"]; v != 0 {
		t.Errorf("the exclusive table was looked at: version %d", v)
	}
}

func TestForeignCommitOpensAnExclusiveTable(t *testing.T) {
	t.Parallel()
	log := &logged{}
	w := &world{}
	w.cfg.Log = log.logger()
	w.open(t)
	w.create("t", twophase.ModeExclusive)
	w.commit("1", blind("t", "1"))
	w.foreign("t", 2, add("x"))
	if o := w.commit("2", blind("t", "2")); deliveries(o)["t"] != 3 {
		t.Errorf("%+v", o.Committed)
	}
	w.eventually("the mode is open", func() bool { return w.info("t").Mode == twophase.ModeOpen })
	if !log.has("somebody else wrote an exclusive table") {
		t.Error("no alarm")
	}
	// From now on the next version is looked at first.
	w.foreign("t", 4, remove("1"))
	_, err := w.try("3", change("t", readAt(3), remove("1")))
	wantReason(t, "a removal of what is gone", err, coordinator.Conflicted)
	// The operator may vouch again.
	if info, err := w.catalog.SetMode(w.ctx(), "t", twophase.ModeExclusive); err != nil || info.Mode != twophase.ModeExclusive || info.Version != 4 {
		t.Errorf("%+v, %v", info, err)
	}
}

// A foreign engine appends beside us, as fast as it can: nothing is lost on either
// side and nothing is written twice.
func TestForeignWriterBesideUs(t *testing.T) {
	t.Parallel()
	w := &world{files: true}
	w.cfg.Limits.PollInterval = 20 * time.Millisecond
	w.open(t)
	w.create("a", twophase.ModeOpen)
	w.create("b", twophase.ModeOpen)
	stop := make(chan struct{})
	foreign := make(chan int)
	go func() {
		n, v := 0, 1
		for n < 60 {
			select {
			case <-stop:
				foreign <- n
				return
			default:
			}
			err := w.objects.PutIfAbsent(context.Background(), commitKey("a", v), lines([]byte(`{"commitInfo":{"timestamp":1}}`+"\n"), add(fmt.Sprint("foreign ", n))))
			if v++; err == nil {
				n++
				time.Sleep(5 * time.Millisecond) // as quick as another engine is
			}
		}
		<-stop
		foreign <- n
	}()
	var run closedRun
	var mu sync.Mutex
	var wg sync.WaitGroup
	for writer := range 4 {
		wg.Go(func() {
			for i := range 25 {
				name := fmt.Sprintf("%d-%d", writer, i)
				o, err := w.try(name, blind("a", name), blind("b", name))
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
	close(stop)
	n := <-foreign
	log := ""
	for v := range w.versions("a") {
		log += w.read("a", v)
	}
	if got := strings.Count(log, `"foreign `); got != n || n == 0 {
		t.Errorf("the foreign writer made %d commits, %d stand in the log", n, got)
	}
	w.check(run)
}

// What slips in between decision and publication is judged by what is still possible (R13).
func TestForeignCommitAfterTheDecision(t *testing.T) {
	t.Parallel()
	for _, mode := range []twophase.Mode{twophase.ModeOpen, twophase.ModeExclusive} {
		gate := newGate()
		w := &world{files: true, wrapObjects: gate.over}
		w.open(t)
		w.create("t", mode)
		w.commit("seed", change("t", blindRead, add("1"), add("2")))
		gate.hold(commitKey("t", 2))
		pending := w.background("k", change("t", readWhole(1), remove("1"), add("3")))
		w.eventually("it is decided", func() bool { return w.info("t").Pending == 1 })
		w.foreign("t", 2, add("4")) // a read set that is hit after the decision counts no more
		w.foreign("t", 3, remove("2"))
		gate.release()
		if err := <-pending; err != nil {
			t.Fatal(err)
		}
		if log := w.read("t", 4); !strings.Contains(log, `"3"`) {
			t.Errorf("version 4: %s", log)
		}
		w.settle()
		w.check(closedRun{})
	}
}
