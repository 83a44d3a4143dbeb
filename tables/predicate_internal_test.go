package tables

import (
	"encoding/binary"
	"math/rand/v2"
	"testing"
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
		s := tupleSet{columns: columns, tuples: tuples, checker: &checker{}}
		one, other := decoder{rest: f.predicate}, decoder{rest: f.predicate}
		for range f.numMatches {
			want, got := s.scan(s.conditions(&one)), s.look(s.conditions(&other))
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

// partitions are tuples of so many columns, each of a value of its own.
func partitions(columns, rows int) (names, tuples hashes) {
	for c := range columns {
		names = appendHashes(names, uint64(1+c))
	}
	for row := range rows {
		for range columns {
			tuples = appendHashes(tuples, firstValue+uint64(row))
		}
	}
	return names, tuples
}

// elsewhere are so many matches, each with so many values in each of some columns, that no
// partition has.
func elsewhere(matches, columns, values int) *facts {
	var all [][]condition
	for i := range matches {
		var m []condition
		for c := range columns {
			in := condition{column: uint64(1 + c)}
			for v := range values {
				in.values = append(in.values, firstValue+1_000_000+uint64(i*values+v))
			}
			m = append(m, in)
		}
		all = append(all, m)
	}
	return encodedMatches(all)
}

// TestPredicateSteps: 10,000 matches are what one request may hold, and a change may have
// files in 100,000 partitions. Each with each is a billion steps, 13 s in which nothing else is
// decided; and so are all combinations of a few long lists of values.
func TestPredicateSteps(t *testing.T) {
	for _, c := range []struct {
		name                           string
		rows, columns, matches, values int
		most                           int
	}{
		{"one and one", 1, 1, 1, 1, matchSteps + 10},
		{"many matches", 100_000, 1, 10_000, 1, 4_000_000},
		{"many matches of two columns", 100_000, 2, 10_000, 1, 4_000_000},
		{"a long list", 100_000, 1, 1, 10_000, 4_000_000},
		{"long lists, few partitions", 100, 3, 1, 1000, 400_000},
		{"long lists", 5_000, 2, 1, 1000, 12_000_000},
	} {
		columns, tuples := partitions(c.columns, c.rows)
		s := tupleSet{columns: columns, tuples: tuples, checker: &checker{}}
		if fits := s.fitAny(elsewhere(c.matches, c.columns, c.values)); fits || s.steps > c.most {
			t.Errorf("%s: %t after %d steps", c.name, fits, s.steps)
		}
	}
}

// TestPredicateThatCannotBeTold: what would take too long counts as a match.
func TestPredicateThatCannotBeTold(t *testing.T) {
	columns, tuples := partitions(2, 50_000)
	s := tupleSet{columns: columns, tuples: tuples, checker: &checker{}}
	if !s.fitAny(elsewhere(1000, 2, 300)) || s.steps > checkSteps+10_000 {
		t.Errorf("after %d steps", s.steps)
	}
}

// TestManyApplications: a part may hold a million txn actions. Each of two is not compared with
// each, which takes minutes.
func TestManyApplications(t *testing.T) {
	many, others := applications("x", 200_000, 7), applications("y", 200_000, 7)
	for what, c := range map[string]struct {
		change, other *facts
		passed        bool
	}{
		"others":          {many, others, false},
		"the same":        {many, many, true},
		"newer":           {applications("x", 200_000, 8), many, false},
		"an older of few": {applications("x", 3, 6), many, true},
		"a newer of few":  {applications("x", 3, 8), many, false},
		"passed by few":   {many, applications("x", 3, 9), true},
		"few and older":   {many, applications("x", 3, 6), false},
		"none":            {&facts{}, many, false},
		"against none":    {many, &facts{}, false},
	} {
		if found := appPassed(c.change, c.other); (found != nil) != c.passed {
			t.Errorf("%s: %v", what, found)
		}
	}
	twice := applications("x", 1, 9)
	lower := applications("x", 1, 7)
	twice.apps, twice.numApps = append(twice.apps, lower.apps...), 2
	if appPassed(twice, applications("x", 3, 8)) == nil || appPassed(applications("x", 3, 8), twice) == nil {
		t.Error("of an application that is there twice the other version counts")
	}
}
