package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/txcoord/txcoord/e2e/engines"
)

// deltaWriter is a delta-rs that writes to one table, and the only one there that
// writes rows of the kind; what it did is in its books.
type deltaWriter struct {
	*load
	rs    *engines.DeltaRS
	table string
	// has are the amounts of its rows, by id.
	has  map[int64]int64
	next int64
	// marks of commits that were acknowledged: true, and that nobody knows of: false.
	marks map[string]bool
	count int
}

func (l *load) deltaWriter(table string) *deltaWriter {
	return &deltaWriter{load: l, rs: engines.StartDeltaRS(l.t), table: table, has: map[int64]int64{}, marks: map[string]bool{}}
}

// effect is what an operation does to the rows.
type effect func(map[int64]int64)

// leaves is the effect of what only moves rows.
func leaves(map[int64]int64) {}

// puts is the effect of an append or a merge.
func puts(first, n, amount int64) effect {
	return func(has map[int64]int64) {
		for i := range n {
			has[first+i] = amount
		}
	}
}

// tries is how often an operation that lost against our commits is done again.
const tries = 200

// do carries out an operation, and again while it loses against concurrent commits.
func (f *deltaWriter) do(operation string, a engines.Arguments, then effect) {
	f.t.Helper()
	for range tries {
		if err := f.once(operation, a, then); err == nil {
			return
		} else if !refused(err) {
			f.t.Errorf("%s: %v", f.table, err)
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	f.t.Errorf("%s: delta-rs loses %d times with %s", f.table, tries, operation)
}

func refused(err error) bool {
	var r *engines.Refusal
	return errors.As(err, &r) && r.Kind == "CommitFailedError"
}

// once carries out an operation under a mark of its own. If delta-rs is killed
// meanwhile, another one says whether it was done: all of it or nothing.
func (f *deltaWriter) once(operation string, a engines.Arguments, then effect) error {
	f.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), engineLimit)
	defer cancel()
	f.count++
	mark := fmt.Sprintf("%s %s %d", f.table, operation, f.count)
	args := engines.Arguments{"mark": mark}
	maps.Copy(args, a)
	_, err := f.rs.Do(ctx, operation, f.folder(), args)
	after := maps.Clone(f.has)
	then(after)
	switch {
	case err == nil:
		f.has, f.marks[mark] = after, true
	case errors.Is(err, engines.ErrEnded):
		f.marks[mark] = false
		f.rs = engines.StartDeltaRS(f.t)
		if got := f.reads("note LIKE 'delta-rs %'"); got == sum(after) {
			f.has = after
		} else if got != sum(f.has) {
			f.t.Errorf("%s was killed in the middle: %v, want %v or %v", mark, got, sum(f.has), sum(after))
		}
		return nil
	}
	return err
}

func (f *deltaWriter) folder() string { return f.storm.world.table(f.table) }

func sum(has map[int64]int64) (t totals) {
	for _, amount := range has {
		t.rows, t.amount = t.rows+1, t.amount+amount
	}
	return t
}

// reads is what delta-rs reads in the newest version.
func (f *deltaWriter) reads(predicate string) totals {
	f.t.Helper()
	row, err := f.rs.Do(f.ctx(), "count", f.folder(), engines.Arguments{"predicate": predicate})
	if err != nil {
		f.t.Fatal(err)
	}
	return totals{row.Int("rows"), row.Int("amount")}
}

func (f *deltaWriter) append() {
	f.t.Helper()
	first := f.next
	f.next += 5
	f.do("append", engines.Arguments{"first": first, "rows": 5}, puts(first, 5, 0))
}

// merge changes half of the last append's rows, and puts as many new ones.
func (f *deltaWriter) merge() {
	f.t.Helper()
	first := f.next - 3
	f.next += 3
	f.do("merge", engines.Arguments{"first": first, "rows": 6, "amount": 7}, puts(first, 6, 7))
}

// delete takes its own rows of an id that may be divided by three.
func (f *deltaWriter) delete() {
	f.t.Helper()
	f.do("delete", engines.Arguments{"predicate": "note LIKE 'delta-rs %' AND id % 3 = 0"}, func(has map[int64]int64) {
		maps.DeleteFunc(has, func(id, _ int64) bool { return id%3 == 0 })
	})
}

// everything does each operation that commits.
func (f *deltaWriter) everything() {
	f.t.Helper()
	for range 3 {
		f.append()
	}
	f.merge()
	f.delete()
	f.do("compact", nil, leaves)
	f.append()
	f.do("z_order", engines.Arguments{"columns": []string{"id"}}, leaves)
	f.do("alter", engines.Arguments{"properties": map[string]string{"owner": fmt.Sprint(f.count)}}, leaves)
	f.do("add_column", engines.Arguments{"column": fmt.Sprintf("more_%d", f.count)}, leaves)
	f.merge()
}

// killedIn starts an operation and kills delta-rs somewhere in it.
func (f *deltaWriter) killedIn(rng *rand.Rand, operation func()) {
	f.t.Helper()
	rs := f.rs
	var both sync.WaitGroup
	both.Go(func() {
		time.Sleep(time.Duration(rng.IntN(40_000)) * time.Microsecond)
		rs.Kill()
	})
	operation()
	both.Wait()
	if f.rs == rs { // it was done before
		f.rs = engines.StartDeltaRS(f.t)
	}
}

// checked compares the books with the log and with what two engines read.
func (f *deltaWriter) checked(d *engines.Duck) {
	f.t.Helper()
	found := map[string]int{}
	for _, info := range f.commitsOf(f.table) {
		if mark, ok := info["mark"].(string); ok {
			found[mark]++
		}
	}
	for mark, n := range found {
		if _, known := f.marks[mark]; !known || n != 1 {
			f.t.Errorf("%q is in %d versions", mark, n)
		}
	}
	f.holdsRows(f.table, sum(f.has), f.reads)
	f.holdsRows(f.table, sum(f.has), f.duckReads(d, f.table))
}

// inEach does something with all writers at once.
func inEach(all []*deltaWriter, do func(*deltaWriter)) {
	var running sync.WaitGroup
	for _, f := range all {
		running.Go(func() { do(f) })
	}
	running.Wait()
}

// TestDeltaRSBesideOurLoad has delta-rs append, merge, delete, compact, sort and
// alter two open tables while clients of ours commit to them: undisturbed, killed in
// the middle of operations, and while our server is dead.
func TestDeltaRSBesideOurLoad(t *testing.T) {
	t.Parallel()
	d := engines.StartDuck(t)
	l := besideWorld(t, 3, nil)
	var writers []*deltaWriter
	for _, table := range foreignTables {
		writers = append(writers, l.deltaWriter(table))
	}
	inEach(writers, (*deltaWriter).everything)
	l.commitsMore(5)
	inEach(writers, func(f *deltaWriter) {
		rng := rand.New(rand.NewPCG(f.seed, uint64(len(f.table))))
		for _, operation := range []func(){f.append, f.merge, f.delete, func() { f.do("compact", nil, leaves) }} {
			f.killedIn(rng, operation)
		}
	})
	l.storm.world.kill()
	inEach(writers, (*deltaWriter).everything)
	l.start(nil)
	l.commitsMore(5)
	inEach(writers, (*deltaWriter).append)
	l.rests()
	for _, f := range writers {
		f.checked(d)
	}
}
