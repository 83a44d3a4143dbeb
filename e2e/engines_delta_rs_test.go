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

// deltaWriter is a delta-rs that writes to one table.
type deltaWriter struct {
	*foreignBooks
	rs *engines.DeltaRS
}

func (l *load) deltaWriter(table string) *deltaWriter {
	return &deltaWriter{l.foreignBooks(table), engines.StartDeltaRS(l.t)}
}

// do carries out an operation, and again while it loses against concurrent commits.
func (f *deltaWriter) do(operation string, a engines.Arguments, then effect) {
	f.t.Helper()
	f.until(operation, func() error { return f.once(operation, a, then) }, func(r *engines.Refusal) bool {
		return r.Kind == "CommitFailedError"
	})
}

// once carries out an operation under a mark of its own. If delta-rs is killed
// meanwhile, another one says whether it was done: all of it or nothing.
func (f *deltaWriter) once(operation string, a engines.Arguments, then effect) error {
	f.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), engineLimit)
	defer cancel()
	args := engines.Arguments{"mark": f.mark(operation)}
	maps.Copy(args, a)
	_, err := f.rs.Do(ctx, operation, f.folder(), args)
	switch {
	case err == nil:
		f.done(then)
	case errors.Is(err, engines.ErrEnded):
		f.rs = engines.StartDeltaRS(f.t)
		f.wasKilled(then, f.reads("note LIKE 'delta-rs %'"))
		return nil
	}
	return err
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
	f.do("delete", engines.Arguments{"predicate": "note LIKE 'delta-rs %' AND id % 3 = 0"}, takesThirds)
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
	f.do("alter", engines.Arguments{"properties": map[string]string{"owner": fmt.Sprint(len(f.marks))}}, leaves)
	f.do("add_column", engines.Arguments{"column": fmt.Sprintf("more_%d", len(f.marks))}, leaves)
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
	l := besideWorld(t, 3, 60*time.Millisecond, nil)
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
		f.inLog(func(info map[string]any) string { m, _ := info["mark"].(string); return m }, "compact", "z_order")
		f.checked(f.reads, f.duckReads(d, f.table))
	}
}
