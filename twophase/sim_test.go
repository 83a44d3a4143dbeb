package twophase

import (
	"flag"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

var (
	simSteps = flag.Int("sim.steps", 2_000_000, "random steps of the simulator")
	simSeed  = flag.Uint64("sim.seed", 1, "first seed of the simulator; with -sim.steps=1 that run alone")
	simHours = flag.Float64("sim.hours", 0, "run the simulator for so many hours instead")
)

// profiles are the worlds of the simulation, in turn.
func profiles() []profile {
	base := defaultProfile()
	small := base
	small.replicas, small.slots = 2, 8
	large := base
	large.replicas, large.slots = 5, 32
	alone := base
	alone.replicas = 1
	cleaned := base
	cleaned.clean, cleaned.jump, cleaned.replace, cleaned.floor, cleaned.keep = 0.6, 0.02, 0.01, 0.05, 5
	builds := base
	builds.builds = true
	restored := base
	restored.restore = 0.002
	ignored := base
	ignored.fence, ignored.ignores, ignored.foreign, ignored.replace, ignored.slow = 0.5, 0.2, 0.05, 0, 0.5
	fenced := base
	fenced.fence, fenced.foreign, fenced.operate, fenced.jump, fenced.replace = 0.6, 0.06, 0.03, 0.015, 0.002
	fenced.slow, fenced.polls = 0.5, 0.05
	crowded := base
	crowded.client, crowded.round = 0.2, 6
	crowded.tables = append([]toyTable{{name: "single", single: true}, {name: "also open"}}, defaultTables...)
	lossy := base
	lossy.lose, lossy.operate, lossy.crash, lossy.create = 0.01, 0.03, 0.006, 0.3
	held := base
	held.hold, held.operate, held.release = 0.5, 0.04, 0.1
	starved := base
	starve(&starved)
	small.reserve, cleaned.reserve, lossy.reserve = Reserve{2, 12}, Reserve{1, 20}, Reserve{1, 15}
	return []profile{base, small, large, cleaned, crowded, base, alone, builds, restored, fenced, ignored, lossy, held, starved}
}

// TestSimulation: no world breaks an invariant.
func TestSimulation(t *testing.T) {
	all := profiles()
	var steps, runs atomic.Int64
	var next atomic.Uint64
	var mu sync.Mutex
	counts := map[string]int{}
	next.Store(*simSeed)
	end := time.Now().Add(time.Duration(*simHours * float64(time.Hour)))
	done := func() bool {
		if *simHours > 0 {
			return time.Now().After(end)
		}
		return steps.Load() >= int64(*simSteps)
	}
	var wg sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			for !done() && !t.Failed() {
				seed := next.Add(1) - 1
				p := all[seed%uint64(len(all))]
				w := newWorld(p, seed)
				broken := w.run()
				steps.Add(int64(w.random))
				runs.Add(1)
				if broken != nil {
					t.Errorf("seed %d broke an invariant at step %d.\n%s\nReplay: go test ./twophase -run TestSimulation -sim.steps=1 -sim.seed=%d\n%s",
						seed, w.step, broken, seed, replay(p, seed))
				}
				mu.Lock()
				for k, n := range w.check.counts {
					counts[k] += n
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	t.Logf("%d steps in %d runs: %v", steps.Load(), runs.Load(), counts)
}

// TestSimulationReplays: a seed is one run, to the last line of its history.
func TestSimulationReplays(t *testing.T) {
	for i, p := range profiles() {
		first, second := replay(p, uint64(i+1)), replay(p, uint64(i+1))
		if diff := cmp.Diff(strings.Split(first, "\n"), strings.Split(second, "\n")); diff != "" {
			t.Errorf("profile %d runs in two ways (-first +second):\n%s", i, diff)
		}
	}
}
