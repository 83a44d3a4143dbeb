package tables

import (
	"encoding/binary"
	"slices"
)

// fits says whether any tuple fits the predicate. Columns that the tuples do not have fit, as
// does what cannot be told, or not in checkSteps.
func (k *checker) fits(reader *facts, columns, tuples hashes) bool {
	if columns.len() == 0 || tuples.len() == 0 {
		return false
	}
	t := tupleSet{columns: columns, tuples: tuples, checker: k}
	return t.fitAny(reader)
}

// tupleSet holds the partitions of a change's files, with an index for each set of columns
// for which that is less work than looking at each tuple.
type tupleSet struct {
	columns, tuples hashes
	indexes         map[string]tupleIndex
	match           []columnValues // the newest
	*checker
}

// tupleIndex has the tuples cut to some columns, and which of these columns have no value
// that is known, in some tuple.
type tupleIndex struct {
	cut     map[string]bool
	unknown map[string]bool
}

// columnValues are those that fit in the column at a place of the tuples.
type columnValues struct {
	place  int
	values hashes
}

func (t *tupleSet) fitAny(reader *facts) bool {
	d := decoder{rest: reader.predicate}
	for range reader.numMatches {
		match := t.conditions(&d)
		fits := t.scan
		if t.indexed(match, reader.numMatches) {
			fits = t.look
		}
		if fits(match) || t.spent() {
			return true
		}
	}
	return false
}

func (t *tupleSet) rows() int { return len(t.tuples) / len(t.columns) }

// What more than a comparison costs, in steps: a match, a look-up in an index, and a tuple in it.
const (
	matchSteps  = 16
	lookUpSteps = 4
	indexSteps  = 32
)

// indexed: a match among so many others is less work with an index of its columns than with a
// look at each tuple.
func (t *tupleSet) indexed(match []columnValues, matches int) bool {
	each, lookUps := 1, 1
	for _, c := range match {
		each += c.values.len()
		lookUps = min(lookUps*max(c.values.len(), 1), checkSteps)
	}
	cost := lookUpSteps * lookUps
	if _, there := t.indexes[nameOf(match)]; !there {
		cost += indexSteps * t.rows() / matches
	}
	return cost < each*t.rows()
}

// conditions takes a match, without conditions that every tuple fits. It stands until the next.
func (t *tupleSet) conditions(d *decoder) []columnValues {
	t.match, t.steps = t.match[:0], t.steps+matchSteps
	for range d.count(9) {
		column, values := d.hash(), d.list()
		if t.steps += values.len(); values.has(anyValue) {
			continue
		}
		for i := range t.columns.len() {
			if t.columns.at(i) == column {
				t.match = append(t.match, columnValues{i, values})
			}
		}
	}
	slices.SortFunc(t.match, func(a, b columnValues) int { return a.place - b.place })
	return t.match
}

// scan looks at each tuple.
func (t *tupleSet) scan(match []columnValues) bool {
	for row := t.tuples; len(row) > 0 && !t.spent(); row = row[len(t.columns):] {
		if !slices.ContainsFunc(match, func(c columnValues) bool { return !t.fits(row.at(c.place), c.values) }) {
			return true
		}
	}
	return false
}

func (t *tupleSet) fits(value uint64, values hashes) bool {
	t.steps += 1 + values.len()
	return value == anyValue || values.has(value)
}

// look looks a match up.
func (t *tupleSet) look(match []columnValues) bool {
	x := t.index(match)
	for unknown := range x.unknown {
		if t.has(&x, nil, match, unknown) {
			return true
		}
	}
	return false
}

// has reports whether a tuple begins with what is cut so far and goes on as the match says.
func (t *tupleSet) has(x *tupleIndex, cut []byte, match []columnValues, unknown string) bool {
	if t.steps += lookUpSteps; t.spent() {
		return false
	}
	if len(match) == 0 {
		return x.cut[string(cut)]
	}
	if unknown[0] != 0 {
		return t.has(x, binary.LittleEndian.AppendUint64(cut, anyValue), match[1:], unknown[1:])
	}
	for values := match[0].values; len(values) > 0; values = values[8:] {
		if t.has(x, append(cut, values[:8]...), match[1:], unknown[1:]) {
			return true
		}
	}
	return false
}

// nameOf is that of the index of a match's columns.
func nameOf(match []columnValues) string {
	var name []byte
	for _, c := range match {
		name = binary.AppendUvarint(name, uint64(c.place))
	}
	return string(name)
}

// index is that of the match's columns.
func (t *tupleSet) index(match []columnValues) tupleIndex {
	name := nameOf(match)
	if x, ok := t.indexes[name]; ok {
		return x
	}
	t.steps += indexSteps * t.rows()
	x := tupleIndex{cut: map[string]bool{}, unknown: map[string]bool{}}
	var cut, unknown []byte
	for row := t.tuples; len(row) > 0; row = row[len(t.columns):] {
		cut, unknown = cut[:0], unknown[:0]
		for _, c := range match {
			cut = append(cut, row[8*c.place:8*c.place+8]...)
			unknown = append(unknown, 0)
			if row.at(c.place) == anyValue {
				unknown[len(unknown)-1] = 1
			}
		}
		x.cut[string(cut)], x.unknown[string(unknown)] = true, true
	}
	if t.indexes == nil {
		t.indexes = map[string]tupleIndex{}
	}
	t.indexes[name] = x
	return x
}
