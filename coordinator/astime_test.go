package coordinator_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/txcoord/txcoord/coordinator"
	"github.com/txcoord/txcoord/twophase"
)

// A snapshot by time shows what TIMESTAMP AS OF shows on each table: the newest version
// whose in-commit timestamp is not after it. Rounds of other tables overlap, so that
// the journal's times would show another.
func TestSnapshotByTime(t *testing.T) {
	t.Parallel()
	g := newGate()
	w := &world{files: true, wrapObjects: g.over}
	w.open(t)
	names := []string{"a", "b", "c", "d"}
	for _, n := range names {
		w.featured(n, timestamps)
	}
	began := time.Now().UnixMilli()
	for round := range 4 {
		// One round waits for its second table while others are opened and published.
		slow, v := fmt.Sprint("slow ", round), w.versions("b")
		g.hold(fmt.Sprintf("b/_delta_log/%020d.json", v))
		done := w.background(slow, blind("a", slow), blind("b", slow))
		w.eventually("the slow round is open", func() bool { return len(w.status().Rounds) == 1 })
		for i := range 3 {
			time.Sleep(5 * time.Millisecond) // rounds of different milliseconds
			quick := fmt.Sprint("quick ", round, i)
			w.commit(quick, blind("c", quick), blind("d", quick))
			if i == 1 {
				w.foreignAt("d", w.versions("d"), time.Now().UnixMilli())
			}
		}
		time.Sleep(5 * time.Millisecond)
		g.release()
		if err := <-done; err != nil {
			t.Fatal(err)
		}
	}
	w.commit("last", blind("a", "z"), blind("b", "z"), blind("c", "z"), blind("d", "z"))
	end := time.Now().UnixMilli()
	added, times := 0, map[string][]int64{}
	for _, n := range names {
		for v := range w.versions(n) {
			times[n] = append(times[n], w.timeOf(n, v))
		}
	}
	for at := began; at <= end; at += 1 + (end-began)/20_000 {
		s, err := w.catalog.Snapshot(w.ctx(), coordinator.SnapshotRef{Time: time.UnixMilli(at)}, nil)
		if err != nil {
			t.Fatal(err)
		}
		if s.Added > 0 {
			added++
		}
		for _, table := range s.Tables {
			if want := versionAsOf(times[table.Name], at); table.Version != want {
				t.Fatalf("at %d: %s is at %d, TIMESTAMP AS OF shows %d (snapshot %d and %d more)", at-began, table.Name, table.Version, want, s.Version, s.Added)
			}
		}
	}
	if added == 0 {
		t.Error("no round overlapped another: nothing was tested")
	}
}

// versionAsOf is the newest version whose in-commit timestamp is not after a time.
func versionAsOf(times []int64, at int64) (found twophase.Version) {
	for v, t := range times {
		if t <= at {
			found = twophase.Version(v)
		}
	}
	return found
}

// foreignAt is another writer's commit at a time.
func (w *world) foreignAt(table string, v int, at int64) {
	w.t.Helper()
	w.rawCommit(table, v, fmt.Sprintf(`{"commitInfo":{"inCommitTimestamp":%d}}`+"\n%s", at, add(fmt.Sprint("foreign ", v))))
}
