package tables

import (
	"encoding/binary"
	"slices"
)

// fitsPredicate says whether any tuple fits the predicate. Columns that the tuples do not
// have fit, as does what cannot be told. Either may have very many: it is asked while the
// catalog decides, and decides nothing else meanwhile.
func fitsPredicate(reader *facts, columns, tuples hashes) bool {
	if columns.len() == 0 || tuples.len() == 0 {
		return false
	}
	t := tupleSet{columns: columns, tuples: tuples}
	fits, rows := t.fits, len(tuples)/len(columns)
	if reader.numMatches*rows <= scanned*(reader.numMatches+rows) {
		fits = t.scan
	}
	d := decoder{rest: reader.predicate}
	for range reader.numMatches {
		if fits(t.conditions(&d)) {
			return true
		}
	}
	return false
}

// scanned is at how many tuples a match it is faster to look at each than to make an index.
const scanned = 32

// tupleSet holds the partitions of a change's files, with an index for each set of columns
// that matches ask for.
type tupleSet struct {
	columns, tuples hashes
	indexes         map[string]tupleIndex
	match           []columnValues // the newest
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

// conditions takes a match, without conditions that every tuple fits. It stands until the next.
func (t *tupleSet) conditions(d *decoder) []columnValues {
	t.match = t.match[:0]
	for range d.count(9) {
		column, values := d.hash(), d.list()
		if values.has(anyValue) {
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
	for row := t.tuples; len(row) > 0; row = row[len(t.columns):] {
		fits := func(c columnValues) bool { return row.at(c.place) == anyValue || c.values.has(row.at(c.place)) }
		if !slices.ContainsFunc(match, func(c columnValues) bool { return !fits(c) }) {
			return true
		}
	}
	return false
}

// fits looks a match up.
func (t *tupleSet) fits(match []columnValues) bool {
	x := t.index(match)
	for unknown := range x.unknown {
		if x.has(nil, match, unknown) {
			return true
		}
	}
	return false
}

// has reports whether a tuple begins with what is cut so far and goes on as the match says.
func (x *tupleIndex) has(cut []byte, match []columnValues, unknown string) bool {
	if len(match) == 0 {
		return x.cut[string(cut)]
	}
	if unknown[0] != 0 {
		return x.has(binary.LittleEndian.AppendUint64(cut, anyValue), match[1:], unknown[1:])
	}
	for values := match[0].values; len(values) > 0; values = values[8:] {
		if x.has(append(cut, values[:8]...), match[1:], unknown[1:]) {
			return true
		}
	}
	return false
}

// index is that of the match's columns.
func (t *tupleSet) index(match []columnValues) tupleIndex {
	var name []byte
	for _, c := range match {
		name = binary.AppendUvarint(name, uint64(c.place))
	}
	if x, ok := t.indexes[string(name)]; ok {
		return x
	}
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
	t.indexes[string(name)] = x
	return x
}
