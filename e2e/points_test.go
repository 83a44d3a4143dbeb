package e2e_test

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	txcoordv1 "github.com/txcoord/txcoord/proto/txcoord/v1"
)

// scenario is something that a client does, of which every write is known. It is
// run once to count the writes, and then once for each of them and each moment,
// with the server killed there.
type scenario struct {
	config serverConfig
	// client returns what a client does. act makes its calls and repeats them while
	// there is no answer; it runs while the server is killed and started again.
	// again makes the same calls once more, with the server running.
	client func(*world) (act, again func())
	// writes are the names of all writes of act, and of what follows of them, sorted.
	// Those that are made more than once stand there as often.
	writes []string
	// fenced has all tables fenced from their first version on.
	fenced bool
}

// TestEveryWriteKilled kills the server before and after each write, and wants
// everything to be right after the restart.
func TestEveryWriteKilled(t *testing.T) {
	t.Parallel()
	for name, s := range map[string]scenario{
		"commit": commitScenario(), "decided": decidedScenario(), "refuse": refuseScenario(), "tables": tablesScenario(),
		"define": defineScenario(), "stage": stageScenario(false), "job": stageScenario(true),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			t.Run("uninterrupted", s.uninterrupted)
			for _, k := range s.kills() {
				t.Run(strings.ReplaceAll(k.String(), " ", "-"), func(t *testing.T) {
					t.Parallel()
					s.killed(t, k)
				})
			}
		})
	}
}

// kills are all points: each write, before and after it.
func (s scenario) kills() (all []kill) {
	nth := map[string]int{}
	for _, name := range s.writes {
		nth[name]++
		all = append(all, kill{name, nth[name], before}, kill{name, nth[name], after})
	}
	return all
}

func (s scenario) uninterrupted(t *testing.T) {
	w := s.world(t, nil)
	act, again := s.client(w)
	act()
	w.waitFor("the writes to be made", func() bool { return len(w.landed()) >= len(s.writes) })
	time.Sleep(1200 * time.Millisecond) // the sweeper comes every second: nothing more may follow
	if d := cmp.Diff(s.writes, w.landed()); d != "" {
		t.Errorf("writes (-want +got): %s", d)
	}
	again()
	w.rest()
}

func (s scenario) killed(t *testing.T, k kill) {
	w := s.world(t, &k)
	act, again := s.client(w)
	done := make(chan struct{})
	go func() {
		defer close(done)
		act()
	}()
	if !w.ended(startLimit) {
		t.Fatalf("the server was not killed %s; its writes: %q\n%s", k, w.landed(), w.log())
	}
	if !w.wasKilled() {
		t.Fatalf("the server ended otherwise than %s\n%s", k, w.log())
	}
	w.judge(false)
	w.start(nil)
	<-done
	again()
	w.commitOnce("afterwards", w.rows("left", "right"))
	w.rest()
}

// world makes three tables, two of them open, with a committed transaction and a
// refused one behind them. From then on writes count.
func (s scenario) world(t *testing.T, k *kill) *world {
	s.config.Limits.ManifestSnapshots = 1 // or what a file holds, and is called, would be a matter of moments
	w := newWorld(t, s.config)
	w.start(k)
	open, exclusive := txcoordv1.TableMode_TABLE_MODE_OPEN, txcoordv1.TableMode_TABLE_MODE_EXCLUSIVE
	if s.fenced {
		open, exclusive = txcoordv1.TableMode_TABLE_MODE_FENCED, txcoordv1.TableMode_TABLE_MODE_FENCED
	}
	w.create("left", open)
	w.create("middle", exclusive)
	w.create("right", open)
	w.look()
	w.commitOnce("before", w.rows("left", "middle", "right"))
	w.refusedOnce("too late", w.rows("left", "middle", "right"))
	w.settle()
	w.waitFor("the payloads to be removed", func() bool {
		return strings.Contains(strings.Join(w.trace(), "\n"), "after delete bundle of payloads")
	})
	w.arm()
	return w
}

// arm makes every write from now on count.
func (w *world) arm() {
	w.t.Helper()
	if err := os.WriteFile(filepath.Join(w.config.Dir, armedFile), nil, 0o644); err != nil {
		w.t.Fatal(err)
	}
}

// wasKilled reports whether a server came to the point at which it was to end.
func (w *world) wasKilled() bool {
	return slices.ContainsFunc(w.trace(), func(line string) bool { return strings.HasPrefix(line, killedLine) })
}

// landed are the names of the writes that landed since the world was armed, sorted.
// Advisory records stand there once each: they are written in the background, as
// often as the server comes round to it.
func (w *world) landed() []string {
	var names []string
	for _, line := range w.trace() {
		line = strings.TrimPrefix(line, killedLine)
		rest, ok := strings.CutPrefix(line, string(after)+" ")
		name, nth, _ := strings.Cut(rest, " #")
		if ok && (nth == "1" || !strings.HasPrefix(name, "advisory")) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// counted lists names as often as they count.
func counted(names map[string]int) []string {
	var all []string
	for _, name := range slices.Sorted(maps.Keys(names)) {
		all = append(all, slices.Repeat([]string{name}, names[name])...)
	}
	return all
}

// TestFirstStartKilled kills the server around the write that makes its journal.
func TestFirstStartKilled(t *testing.T) {
	for _, when := range []moment{before, after} {
		t.Run(string(when), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, serverConfig{})
			w.arm()
			if w.start(&kill{"meta", 1, when}) || !w.wasKilled() {
				t.Fatalf("the server was not killed %s its first write\n%s", when, w.log())
			}
			w.start(nil)
			w.create("left", txcoordv1.TableMode_TABLE_MODE_OPEN)
			w.create("right", txcoordv1.TableMode_TABLE_MODE_OPEN)
			w.commitOnce("first", w.rows("left", "right"))
			w.rest()
		})
	}
}
