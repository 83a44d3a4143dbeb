package coordinator_test

import (
	"context"
	"fmt"
	"iter"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/txcoord/txcoord/coordinator"
	"github.com/txcoord/txcoord/tables/objstore"
	"github.com/txcoord/txcoord/tables/objstore/memobj"
	"github.com/txcoord/txcoord/twophase"
)

// Two processes over one store, both appending and both publishing: safety does not
// rest on being alone (R3, R5). One transaction is committed through both.
func TestTwoProcesses(t *testing.T) {
	t.Parallel()
	one := (&world{}).open(t)
	two := &world{objects: one.objects, shared: one.store}
	two.open(t)
	for _, name := range []string{"a", "b", "c"} {
		one.create(name, twophase.ModeOpen)
	}
	if err := two.catalog.AtLeast(two.ctx(), one.catalog.Shown()); err != nil {
		t.Fatal(err)
	}
	var run closedRun
	var mu sync.Mutex
	var wg sync.WaitGroup
	for writer := range 6 {
		wg.Go(func() {
			for i := range 15 {
				name := fmt.Sprintf("%d-%d", writer, i)
				table := []string{"a", "b", "c"}
				r := once(name, blind(table[i%3], name), blind(table[(i+1)%3], name))
				var got [2]coordinator.Outcome
				var both sync.WaitGroup
				for p, w := range []*world{one, two} {
					if i%5 != 0 && p != writer%2 { // only now and then through both
						continue
					}
					both.Go(func() {
						o, _, err := w.catalog.CommitOnce(w.ctx(), r)
						if err != nil {
							t.Errorf("%s through %d: %v", name, p, err)
						}
						got[p] = o
					})
				}
				both.Wait()
				if t.Failed() {
					return
				}
				if i%5 == 0 && fmt.Sprint(deliveries(got[0])) != fmt.Sprint(deliveries(got[1])) {
					t.Errorf("%s: %v and %v", name, got[0].Committed, got[1].Committed)
				}
				mu.Lock()
				run.committed = append(run.committed, got[map[bool]int{true: 0, false: writer % 2}[i%5 == 0]])
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	if err := one.catalog.AtLeast(one.ctx(), two.catalog.Shown()); err != nil {
		t.Fatal(err)
	}
	one.check(run)
}

// datedObjects dates its objects by the clock of the replicas, which runs away.
type datedObjects struct {
	objstore.Store
	now func() time.Time
	mu  sync.Mutex
	put map[string]time.Time
}

func (s *datedObjects) PutIfAbsent(ctx context.Context, key string, data []byte) error {
	at := s.now()
	err := s.Store.PutIfAbsent(ctx, key, data)
	if err == nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.put[key] = at
	}
	return err
}

func (s *datedObjects) List(ctx context.Context, o objstore.ListOptions) iter.Seq2[objstore.Entry, error] {
	return func(yield func(objstore.Entry, error) bool) {
		for info, err := range s.Store.List(ctx, o) {
			s.mu.Lock()
			if at, ok := s.put[info.Key]; ok {
				info.Modified = at
			}
			s.mu.Unlock()
			if !yield(info, err) {
				return
			}
		}
	}
}

// Two replicas make checkpoints of one journal in turn, and to each everything that it
// does not need is long past the grace. The newest one stays whole: whoever starts
// finds everything (R1).
func TestCheckpointsOfTwoReplicas(t *testing.T) {
	t.Parallel()
	var clock atomic.Int64
	ahead := func() time.Time { return time.Now().Add(time.Duration(clock.Add(1)) * time.Minute) }
	one := &world{objects: &datedObjects{Store: memobj.New(), now: ahead, put: map[string]time.Time{}}}
	one.cfg.Slots, one.cfg.Now = 256, ahead
	one.cfg.Limits.CheckpointEvery = 4
	one.open(t)
	two := &world{objects: one.objects, shared: one.store, cfg: one.cfg}
	two.open(t)
	for i := range 70 { // more than a segment of tables
		one.create(fmt.Sprint("t", i), twophase.ModeExclusive)
	}
	replicas := []*world{one, two}
	for round := range 6 {
		for i := range 10 {
			name := fmt.Sprintf("%d-%d", round, i)
			replicas[round%2].commit(name, blind(fmt.Sprint("t", i), name))
		}
		other := replicas[(round+1)%2]
		if err := other.catalog.AtLeast(other.ctx(), replicas[round%2].catalog.Shown()); err != nil {
			t.Fatal(err)
		}
		late := &world{objects: one.objects, shared: one.store, cfg: one.cfg}
		late.open(t)
		if got, want := late.status().Shown, other.status().Shown; got < want {
			t.Fatalf("round %d: a start shows %d, not %d", round, got, want)
		}
		late.stop()
	}
}

// The name of a table is found by all that Table finds it by, and as soon: that another
// replica brought it in a moment ago is no reason to judge a caller by what it said (R5).
func TestNameOf(t *testing.T) {
	t.Parallel()
	one := &world{cfg: coordinator.Config{SharedStore: true}}
	one.open(t)
	two := &world{objects: one.objects, shared: one.store, cfg: coordinator.Config{SharedStore: true}}
	two.open(t)
	one.create("t", twophase.ModeOpen)
	info, err := one.catalog.Table(one.ctx(), "t")
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range []*world{two, one} {
		for _, ref := range []string{string(info.ID), info.URI, "t"} {
			if name, ok := w.catalog.NameOf(w.ctx(), ref); !ok || name != "t" {
				t.Errorf("%s: %q, %t", ref, name, ok)
			}
		}
		for _, ref := range []string{"", "T", "nowhere", "t-0000000000000000", "file:///w/nowhere"} {
			if name, ok := w.catalog.NameOf(w.ctx(), ref); ok || name != "" {
				t.Errorf("%s: %q", ref, name)
			}
		}
	}
}
