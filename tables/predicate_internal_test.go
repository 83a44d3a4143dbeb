package tables

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"
)

// encodedMatches is a predicate as facts hold it: per match, columns and the values that fit.
func encodedMatches(matches [][]condition) *facts {
	var out []byte
	for _, m := range matches {
		out = binary.AppendUvarint(out, uint64(len(m)))
		for _, c := range m {
			out = appendList(appendHashes(out, c.column), c.values)
		}
	}
	return &facts{predicate: out, numMatches: len(matches)}
}

// TestPredicateIndex: an index says what a look at each tuple says.
func TestPredicateIndex(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // not a secret
	fitted := 0
	for range 20_000 {
		columns, width := hashes(nil), 1+r.IntN(3)
		for i := range width {
			columns = appendHashes(columns, uint64(100+i))
		}
		var tuples hashes
		for range width * r.IntN(6) {
			tuples = appendHashes(tuples, uint64(r.IntN(5))) // of which 0 is anyValue
		}
		var matches [][]condition
		for range 1 + r.IntN(4) {
			var m []condition
			for range 1 + r.IntN(3) {
				c := condition{column: uint64(100 + r.IntN(4))} // also one that the tuples do not have
				for range 1 + r.IntN(2) {
					c.values = append(c.values, max(1, uint64(r.IntN(20)))%7)
				}
				m = append(m, c)
			}
			matches = append(matches, m)
		}
		tuples = tuples[:len(tuples)/len(columns)*len(columns)]
		f := encodedMatches(matches)
		s := tupleSet{columns: columns, tuples: tuples}
		one, other := decoder{rest: f.predicate}, decoder{rest: f.predicate}
		for range f.numMatches {
			want, got := s.scan(s.conditions(&one)), s.fits(s.conditions(&other))
			if want != got {
				t.Fatalf("columns %x, tuples %x, matches %v: %t, by the index %t", columns, tuples, matches, want, got)
			}
			if want {
				fitted++
			}
		}
	}
	if fitted < 1000 {
		t.Errorf("only %d matches fitted", fitted)
	}
}

// TestPredicateOfManyMatches: 10,000 matches are what one request may hold, and a change may
// have files in 100,000 partitions. Each with each took 13 s, in which nothing else was decided.
func TestPredicateOfManyMatches(t *testing.T) {
	var tuples hashes
	for i := range 100_000 {
		tuples = appendHashes(tuples, firstValue+uint64(i))
	}
	var matches [][]condition
	for i := range 10_000 {
		matches = append(matches, []condition{{column: 1, values: []uint64{firstValue + 1_000_000 + uint64(i)}}})
	}
	began := time.Now()
	if fitsPredicate(encodedMatches(matches), appendHashes(nil, 1), tuples) {
		t.Error("it fits")
	}
	if took := time.Since(began); took > 3*time.Second {
		t.Errorf("it took %s", took)
	}
}

// TestManyApplications: a part may hold a million txn actions. 50,000 of each of two took 15 s.
func TestManyApplications(t *testing.T) {
	apps := func(name string) *facts {
		f := &facts{numApps: 100_000}
		for i := range f.numApps {
			app := fmt.Sprintf("%s%d", name, i)
			f.apps = appendHashes(append(binary.AppendUvarint(f.apps, uint64(len(app))), app...), 7)
		}
		return f
	}
	x, y, began := apps("x"), apps("y"), time.Now()
	if appConflict(x, y) != nil || appConflict(x, x) == nil {
		t.Error("what is not the same app conflicts, or what is does not")
	}
	if took := time.Since(began); took > 3*time.Second {
		t.Errorf("it took %s", took)
	}
}
