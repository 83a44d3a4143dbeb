package e2e_test

import (
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/txcoord/txcoord/e2e/engines"
)

// foreignBooks are what an engine did to one table, as the only one there that
// writes rows of its kind.
type foreignBooks struct {
	*load
	table string
	// has are the amounts of its rows, by id; next is an id that it never used.
	has  map[int64]int64
	next int64
	// marks of commits: whether they were acknowledged. The last one is of the
	// operation under way.
	marks map[string]bool
	last  string
}

func (l *load) foreignBooks(table string) *foreignBooks {
	return &foreignBooks{load: l, table: table, has: map[int64]int64{}, marks: map[string]bool{}}
}

func (f *foreignBooks) folder() string { return f.storm.world.table(f.table) }

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

// takesThirds is the effect of a delete of all ids that may be divided by three.
func takesThirds(has map[int64]int64) {
	maps.DeleteFunc(has, func(id, _ int64) bool { return id%3 == 0 })
}

// mark is the next commit's.
func (f *foreignBooks) mark(operation string) string {
	f.last = fmt.Sprintf("%s %s %d", f.table, operation, len(f.marks))
	f.marks[f.last] = false
	return f.last
}

// done: the operation was acknowledged.
func (f *foreignBooks) done(then effect) {
	f.marks[f.last] = true
	then(f.has)
}

// wasKilled: the engine was killed in the operation, and holds what the table has
// now. It was done, all of it, or not at all.
func (f *foreignBooks) wasKilled(then effect, holds totals) {
	f.t.Helper()
	after := maps.Clone(f.has)
	then(after)
	switch holds {
	case sum(after):
		f.has = after
	case sum(f.has):
	default:
		f.t.Errorf("%q was killed in the middle: %v, want %v or %v", f.last, holds, sum(f.has), sum(after))
	}
}

// tries is how often an operation that lost against our commits is done again.
const tries = 200

// until repeats an operation while it is refused because it lost.
func (f *foreignBooks) until(operation string, once func() error, lost func(*engines.Refusal) bool) {
	f.t.Helper()
	began := time.Now()
	for n := range tries {
		err := once()
		if err == nil {
			f.t.Logf("%s: %s after %s, lost %d times before", f.table, operation, time.Since(began).Round(time.Millisecond), n)
			return
		}
		var r *engines.Refusal
		if !errors.As(err, &r) || !lost(r) {
			f.t.Errorf("%s: %v", f.table, err)
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	f.t.Errorf("%s: %s loses %d times against our commits", f.table, operation, tries)
}

func sum(has map[int64]int64) (t totals) {
	for _, amount := range has {
		t.rows, t.amount = t.rows+1, t.amount+amount
	}
	return t
}

// checked compares the books with what engines read. Clients must be done.
func (f *foreignBooks) checked(engines ...func(predicate string) totals) {
	f.t.Helper()
	ours := f.totalsAt(f.snapshot().GetVersion())[f.table]
	for i, read := range engines {
		if got := read("note LIKE 'row %'"); got != ours {
			f.t.Errorf("rows of ours in %s: engine %d reads %v, clients put %v there", f.table, i, got, ours)
		}
		if got := read("note NOT LIKE 'row %'"); got != sum(f.has) {
			f.t.Errorf("rows of others in %s: engine %d reads %v, they put %v there", f.table, i, got, sum(f.has))
		}
	}
}

// inLog wants every acknowledged commit to be in the log once, and the others once
// at most. What found nothing to do commits nothing.
func (f *foreignBooks) inLog(mark func(commitInfo map[string]any) string, idle ...string) {
	f.t.Helper()
	found := map[string]int{}
	for _, info := range f.commitsOf(f.table) {
		if m := mark(info); m != "" {
			found[m]++
		}
	}
	mayBeIdle := func(mark string) bool {
		for _, operation := range idle {
			var n int
			if k, _ := fmt.Sscanf(mark, f.table+" "+operation+" %d", &n); k == 1 {
				return true
			}
		}
		return false
	}
	for m, acknowledged := range f.marks {
		if found[m] > 1 || acknowledged && found[m] == 0 && !mayBeIdle(m) {
			f.t.Errorf("%q is in %d versions; acknowledged: %t", m, found[m], acknowledged)
		}
		delete(found, m)
	}
	if len(found) > 0 {
		f.t.Errorf("the log has commits of others that they do not know: %v", found)
	}
}
