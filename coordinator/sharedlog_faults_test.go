package coordinator_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/txcoord/txcoord/tables/logstore"
	"github.com/txcoord/txcoord/tables/logstore/sparktest"
	"github.com/txcoord/txcoord/tables/objstore"
	"github.com/txcoord/txcoord/tables/objstore/objtest"
	"github.com/txcoord/txcoord/twophase"
)

// dying ends the process at one of its writes: it never returns from it.
type dying struct {
	left  atomic.Int64
	after bool
	dead  atomic.Bool
	died  chan struct{}
}

func (d *dying) meet(ctx context.Context, after bool) error {
	if !d.dead.Load() {
		if after != d.after || d.left.Add(-1) != 0 {
			return nil
		}
		d.dead.Store(true)
		close(d.died)
	}
	<-ctx.Done()
	return ctx.Err()
}

func (d *dying) over(s objstore.Store) objstore.Store { return dyingObjects{s, d} }

// dyingObjects is a store whose user dies at a write into a table's log.
type dyingObjects struct {
	objstore.Store
	d *dying
}

func (o dyingObjects) PutIfAbsent(ctx context.Context, key string, data []byte) error {
	return o.around(ctx, key, func() error { return o.Store.PutIfAbsent(ctx, key, data) })
}

func (o dyingObjects) Put(ctx context.Context, key string, data []byte) error {
	return o.around(ctx, key, func() error { return o.Store.Put(ctx, key, data) })
}

func (o dyingObjects) around(ctx context.Context, key string, do func() error) error {
	if !strings.Contains(key, "/_delta_log/") || strings.Contains(key, "_txcoord") {
		return do()
	}
	if err := o.d.meet(ctx, false); err != nil {
		return err
	}
	err := do()
	if failed := o.d.meet(ctx, true); failed != nil {
		return errors.Join(objstore.ErrUnknown, failed)
	}
	return err
}

// Dying before or after any of the four writes of a commit loses and doubles nothing,
// whoever goes on: a new process of ours, or Spark. Either way Spark's next commit
// stands above ours.
func TestDeltaStorageDiesAtEachWrite(t *testing.T) {
	t.Parallel()
	for write := range 4 {
		for _, after := range []bool{false, true} {
			for _, sparkFirst := range []bool{false, true} {
				t.Run(fmt.Sprintf("write %d, after %v, Spark first %v", write+1, after, sparkFirst), func(t *testing.T) {
					t.Parallel()
					l := newLogEntries()
					w := logStoreWorld(t, l).open(t)
					w.create("t", twophase.ModeDeltaStorage)
					w.commit("before", blind("t", "a"))
					w.stop()
					d := &dying{after: after, died: make(chan struct{})}
					d.left.Store(int64(write) + 1)
					w.wrapObjects = d.over
					l.hook = func(ctx context.Context, _ string, after bool) error { return d.meet(ctx, after) }
					w.start()
					pending := w.background("dies", blind("t", "b"))
					<-d.died
					w.stop()
					if err := <-pending; err != nil { // it was decided before: COMMITTED, and pending
						t.Error(err)
					}
					w.wrapObjects, l.hook = nil, nil
					s := w.spark(l, "t", w.objects)
					if sparkFirst {
						w.sparkCommits(s, "s1")
					}
					w.start()
					w.commit("dies", blind("t", "b"))
					w.sparkCommits(s, "s2")
					w.commit("after", blind("t", "c"))
					w.isWholeToSpark(l, s, map[string]int{"a": 1, "b": 1, "c": 1, "s1": map[bool]int{true: 1}[sparkFirst], "s2": 1})
				})
			}
		}
	}
}

// isWholeToSpark: Spark lists every version, every file was added as often as it
// should, all entries are complete, and every temporary file is what its commit is.
func (w *world) isWholeToSpark(l *logEntries, s *sparktest.Driver, want map[string]int) {
	w.t.Helper()
	w.settle()
	versions, err := s.List(w.ctx())
	if err != nil || len(versions) != w.versions("t") {
		w.t.Fatalf("Spark lists %v, %v, of %d versions", versions, err, w.versions("t"))
	}
	got := map[string]int{}
	for path := range want {
		for v := range versions {
			got[path] += strings.Count(w.read("t", v), fmt.Sprintf(`"path":%q`, path))
		}
	}
	if !maps.Equal(got, want) {
		w.t.Errorf("files were added %v, want %v", got, want)
	}
	for key, e := range l.copy() {
		name, ours := strings.CutPrefix(key, s.TablePath+" ")
		if !ours {
			continue
		}
		if !e.Complete || w.object("t/_delta_log/"+e.TempPath) != w.object("t/_delta_log/"+name) {
			w.t.Errorf("%+v", e)
		}
	}
	w.check(closedRun{})
}

// Two replicas and Spark's drivers, all at once, with an object store and entries
// that fail now and then.
func TestDeltaStorageTogether(t *testing.T) {
	t.Parallel()
	l := newLogEntries()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	var mu sync.Mutex
	rng := rand.New(rand.NewPCG(seed, 0))
	odds := func(n int) bool {
		mu.Lock()
		defer mu.Unlock()
		return rng.IntN(n) == 0
	}
	one := logStoreWorld(t, l)
	one.open(t)
	one.create("t", twophase.ModeDeltaStorage)
	two := logStoreWorld(t, l)
	two.shared, two.objects = one.store, one.objects
	flaky := func(s objstore.Store) objstore.Store {
		return objtest.Faulty{Store: s, Hook: func(_ context.Context, op objtest.Op) objtest.Fate {
			switch {
			case !strings.Contains(op.Key, "/_delta_log/") || !odds(15):
				return objtest.Done()
			case op.Kind == objtest.PutIfAbsent && odds(2):
				return objtest.Landed()
			case op.Kind == objtest.PutIfAbsent:
				return objtest.Lost()
			}
			return objtest.Refused()
		}}
	}
	one.stop()
	one.wrapObjects, two.wrapObjects = flaky, flaky
	l.hook = func(_ context.Context, _ string, after bool) error {
		if odds(15) {
			return logstore.ErrUnknown
		}
		return nil
	}
	one.start()
	two.open(t)
	want := map[string]int{}
	var all sync.WaitGroup
	for i, w := range []*world{one, two} {
		for n := range 12 {
			name := fmt.Sprintf("ours-%d-%d", i, n)
			want[name] = 1
		}
		all.Go(func() {
			for n := range 12 {
				name := fmt.Sprintf("ours-%d-%d", i, n)
				for {
					if _, err := w.try(name, blind("t", name)); err == nil {
						break
					} else if w.t.Context().Err() != nil {
						return
					}
				}
			}
		})
	}
	for i := range 2 {
		for n := range 12 {
			want[fmt.Sprintf("spark-%d-%d", i, n)] = 1
		}
		all.Go(func() {
			s := one.spark(l, "t", one.objects)
			s.Conditional = i == 0
			for n := range 12 {
				one.sparkCommits(s, fmt.Sprintf("spark-%d-%d", i, n))
			}
		})
	}
	all.Wait()
	two.stop()
	one.stop()
	one.wrapObjects, l.hook = nil, nil
	one.start()
	one.isWholeToSpark(l, one.spark(l, "t", one.objects), want)
}
