package logstore

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/txcoord/txcoord/tables/logstore/sparktest"
	"github.com/txcoord/txcoord/tables/objstore"
)

var (
	runs  = flag.Int("runs", 400, "schedules of the model")
	first = flag.Uint64("seed", 1, "the first schedule's seed")
)

// sparkEntries are the world's entries as Spark asks for them.
type sparkEntries struct{ entries }

var _ sparktest.Entries = sparkEntries{}

func forSpark(e Entry, err error) (sparktest.Entry, error) {
	if errors.Is(err, ErrNoEntry) {
		err = sparktest.ErrNoEntry
	}
	return sparktest.Entry{TablePath: e.TablePath, FileName: e.FileName, TempPath: e.TempPath, Complete: e.Complete, ExpireTime: e.Expires}, err
}

func fromSpark(e sparktest.Entry) Entry {
	return Entry{TablePath: e.TablePath, FileName: e.FileName, TempPath: e.TempPath, Complete: e.Complete, Expires: e.ExpireTime}
}

func (s sparkEntries) Get(ctx context.Context, path, name string) (sparktest.Entry, error) {
	return forSpark(s.entries.Get(ctx, path, name))
}

func (s sparkEntries) Newest(ctx context.Context, path string) (sparktest.Entry, error) {
	return forSpark(s.entries.Newest(ctx, path))
}

func (s sparkEntries) PutNew(ctx context.Context, e sparktest.Entry) error {
	_, err := s.Claim(ctx, fromSpark(e))
	if errors.Is(err, ErrClaimed) {
		return sparktest.ErrFailed
	}
	return err
}

func (s sparkEntries) Put(_ context.Context, e sparktest.Entry) error {
	return objects{s.actor}.write("replace "+e.FileName, ErrUnknown, func() error {
		s.w.setEntry(fromSpark(e))
		return nil
	})
}

// play is one schedule: Spark drivers and two publishers of ours on one table, some
// of which die and are started again, and then a calm in which all has to settle.
func play(seed uint64, weak weakness, blind bool) *world {
	w := newWorld(seed)
	w.objects[root+logFolder+fileName(0)] = []byte("created")
	w.once[root+logFolder+fileName(0)] = []byte("created")
	ours := 4
	conditional := w.rng.IntN(2) == 0
	launch := []func(){
		func() { w.start("publisher", func(a *actor) { publisher(a, weak, blind, ours) }) },
		func() { w.start("publisher", func(a *actor) { publisher(a, weak, blind, ours) }) },
		func() { w.start("spark", func(a *actor) { driver(a, conditional) }) },
		func() { w.start("spark", func(a *actor) { driver(a, conditional) }) },
		func() { w.start("reader", func(a *actor) { reader(a, weak) }) },
	}
	for range 3 { // processes that ended, or died, are started again
		for _, l := range launch {
			l()
		}
		w.run(w.steps + 400)
	}
	w.faults = false
	for _, a := range w.actors {
		w.kill(a)
	}
	if len(w.wrongs) == 0 {
		w.settle(weak, blind, ours)
	}
	for _, a := range w.actors {
		w.kill(a)
	}
	synctest.Wait()
	return w
}

// settle starts everything once more, without faults, and looks at what is there.
func (w *world) settle(weak weakness, blind bool, ours int) {
	var seen []int64
	w.start("publisher", func(a *actor) { publisher(a, weak, blind, ours) })
	if !w.run(w.steps + 3000) {
		w.wrong("does not settle: our publisher goes on without faults")
		return
	}
	w.start("spark", func(a *actor) {
		s := newSpark(a, false)
		var err error
		if seen, err = s.List(context.Background()); err != nil {
			w.wrong("does not settle: Spark lists: %v", err)
		}
	})
	if !w.run(w.steps + 3000) {
		w.wrong("does not settle: Spark goes on without faults")
	}
	for i, v := range seen {
		if v != int64(i) {
			w.wrong("hole: Spark lists %v", seen)
			return
		}
	}
	where := map[string][]int64{}
	for _, v := range seen {
		id := string(w.objects[root+logFolder+fileName(v)])
		where[id] = append(where[id], v)
	}
	for _, id := range slices.Sorted(maps.Keys(where)) {
		if len(where[id]) > 1 {
			w.wrong("doubled: %s is in %v", id, where[id])
		}
	}
	for i := range ours {
		if len(where[ourName(i)]) == 0 {
			w.wrong("lost: %s is nowhere", ourName(i))
		}
	}
	for _, id := range slices.Sorted(maps.Keys(w.acked)) {
		if at := where[id]; len(at) != 1 || at[0] != w.acked[id] {
			w.wrong("lost: %s was acknowledged at %d and is at %v", id, w.acked[id], at)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(w.entries)) {
		// One whose claim was void, and whose owner died right after it, is left alone.
		if e := w.entries[name]; !e.Complete && !w.void[name] {
			w.wrong("does not settle: entry %s is incomplete", name)
		}
	}
}

func newSpark(a *actor, conditional bool) *sparktest.Driver {
	return &sparktest.Driver{
		Objects: objects{a}, Entries: sparkEntries{entries{actor: a}}, Root: strings.TrimSuffix(root, "/"), TablePath: "s3a://b/db/t",
		Conditional: conditional, Asking: func(n int) { a.w.asking += n },
	}
}

func ourName(i int) string { return fmt.Sprint("ours ", i) }

// publisher delivers our transactions in order, as every replica does: it reads each
// version, and where the log ends it puts the next transaction (R3).
func publisher(a *actor, weak weakness, blind bool, ours int) {
	l, err := New(Config{Entries: entries{a, blind}})
	if err != nil {
		panic(err)
	}
	l.weak = weak
	table, err := l.Table(objects{a}, strings.TrimSuffix(root, "/"), "s3://b/db/t")
	if err != nil {
		panic(err)
	}
	next := 0
	for v := int64(1); !a.dead; {
		key := root + logFolder + fileName(v)
		data, _, err := table.Get(context.Background(), key, objstore.Range{})
		if err == nil {
			if string(data) == ourName(next) {
				next++
			}
			v++
			continue
		}
		if !errors.Is(err, objstore.ErrNotFound) {
			continue // an error: again
		}
		if next == ours {
			return
		}
		if table.PutIfAbsent(context.Background(), key, []byte(ourName(next))) == nil && !a.dead {
			a.w.acked[ourName(next)] = v
		}
	}
}

// driver makes a few commits by Spark's loop: list, write above the newest, and again
// where that exists. A commit that fails otherwise fails for good.
func driver(a *actor, conditional bool) {
	s := newSpark(a, conditional)
	for n := range 3 {
		id := fmt.Sprintf("%s commit %d", a.name, n)
		for !a.dead {
			known := slices.Collect(maps.Values(a.w.acked))
			versions, err := s.List(context.Background())
			if err != nil {
				break
			}
			a.w.complete(a.name, known, versions)
			v := versions[len(versions)-1] + 1
			err = s.Write(context.Background(), v, fmt.Sprintf("%d-%d", a.id, n), []byte(id))
			if errors.Is(err, sparktest.ErrExists) {
				continue
			}
			if err == nil && !a.dead {
				a.w.acked[id] = v
			}
			break
		}
	}
}

// reader lists by our store.
func reader(a *actor, weak weakness) {
	l, err := New(Config{Entries: entries{actor: a}})
	if err != nil {
		panic(err)
	}
	l.weak = weak
	table, err := l.Table(objects{a}, strings.TrimSuffix(root, "/"), "s3://b/db/t")
	if err != nil {
		panic(err)
	}
	for range 6 {
		known := slices.Collect(maps.Values(a.w.acked))
		var versions []int64
		failed := false
		for e, err := range table.List(context.Background(), objstore.ListOptions{Prefix: root + logFolder}) {
			if failed = err != nil; failed {
				break
			}
			if v, ok := parseName(strings.TrimPrefix(e.Key, root+logFolder)); ok {
				versions = append(versions, v)
			}
		}
		if !failed && !a.dead {
			a.w.complete(a.name, known, versions)
		}
	}
}

// complete sees that a listing has what was acknowledged before it began, and no hole.
func (w *world) complete(who string, known, versions []int64) {
	for _, v := range known {
		if !slices.Contains(versions, v) {
			w.wrong("hidden: %s lists %v, acknowledged was %d", who, versions, v)
			return
		}
	}
	for i, v := range versions {
		if v != int64(i) {
			w.wrong("hole: %s lists %v", who, versions)
			return
		}
	}
}

// Whatever the order of the requests, whoever dies and whatever is not answered:
// Spark's drivers and we never lose, double, change or hide a commit of each other.
func TestBesideSpark(t *testing.T) {
	for i := range *runs {
		seed := *first + uint64(i)
		var w *world
		synctest.Test(t, func(*testing.T) { w = play(seed, 0, false) })
		if len(w.wrongs) > 0 {
			tail := w.trace[max(0, len(w.trace)-120):]
			t.Fatalf("seed %d: %s\n%s", seed, strings.Join(w.wrongs, "\n"), strings.Join(tail, "\n"))
		}
	}
}

// A schedule is replayed exactly by its seed.
func TestSeedsReplay(t *testing.T) {
	for seed := range uint64(5) {
		var one, two *world
		synctest.Test(t, func(*testing.T) { one = play(seed, 0, false) })
		synctest.Test(t, func(*testing.T) { two = play(seed, 0, false) })
		if !slices.Equal(one.trace, two.trace) {
			t.Errorf("seed %d has two schedules", seed)
		}
	}
}

// Each part of the protocol is needed: without it some schedule does the harm that
// it is there against, and the model sees it.
func TestWeakenedBesideSpark(t *testing.T) {
	for name, c := range map[string]struct {
		weak  weakness
		blind bool
		want  []string
	}{
		"claims have no condition":               {blind: true, want: []string{"claimed twice"}},
		"no claim":                               {weak: weakUnclaimed, want: []string{"content changed", "not its claim", "lost"}},
		"reads do not repair":                    {weak: weakReadsUnsettled, want: []string{"does not settle", "hidden"}},
		"the entry below stays incomplete":       {weak: weakGap, want: []string{"claimed over a gap"}},
		"the file is written behind the claim":   {weak: weakTempLast, want: []string{"claimed without file"}},
		"completed before the copy":              {weak: weakCompleteFirst, want: []string{"complete without commit"}},
		"an unknown claim counts as made":        {weak: weakUnknownIsDone, want: []string{"not its claim", "content changed", "lost", "complete without commit"}},
		"copies overwrite":                       {weak: weakOverwrites, want: []string{"content changed"}},
		"the file is removed when a claim fails": {weak: weakTidy, want: []string{"deleted"}},
	} {
		t.Run(name, func(t *testing.T) {
			for seed := range uint64(20 * *runs) {
				var w *world
				synctest.Test(t, func(*testing.T) { w = play(seed, c.weak, c.blind) })
				if len(w.wrongs) == 0 {
					continue
				}
				found := slices.ContainsFunc(c.want, func(s string) bool { return strings.Contains(w.wrongs[0], s) })
				if !found {
					t.Fatalf("seed %d: %v, want one of %q\n%s", seed, w.wrongs, c.want, strings.Join(w.trace[max(0, len(w.trace)-60):], "\n"))
				}
				t.Logf("seed %d: %s", seed, w.wrongs[0])
				return
			}
			t.Error("nobody noticed")
		})
	}
}
