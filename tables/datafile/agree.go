package datafile

import (
	"math/big"
	"slices"
	"strconv"
	"time"
)

// agrees refuses a partition value that a file contradicts which has the column
// itself: readers take the add action's value, and would see other rows than were
// written.
func (t *Table) agrees(path string, f File, parts []*string) error {
	for i, p := range t.partitions {
		j := slices.IndexFunc(f.fields, func(c field) bool { return c.name == p.physical })
		if j < 0 || f.fields[j].leaf == nil {
			continue
		}
		l := f.fields[j].leaf
		if s := f.stats[l]; contradicts(l, s, parts[i]) {
			return (fitter{path, f}).misfit(p.name, "the file holds %s in it, and the partition value is %s",
				s.rangeOf(l), shown(parts[i]))
		}
	}
	return nil
}

// contradicts is sure: a footer that does not say enough contradicts nothing. The
// bounds of a text may be wider than its values, those of a number are not.
func contradicts(l *leaf, s leafStats, v *string) bool {
	if s.low == nil || s.high == nil || !s.nullsKnown || s.nulls > 0 {
		return false
	}
	if v == nil {
		return true
	}
	b := l.boundOf(*v)
	if b == nil {
		return false
	}
	outside := s.low.compare(b) > 0 || s.high.compare(b) < 0
	return outside || b.whole != nil && s.low.compare(s.high) != 0
}

// boundOf reads a partition value as the leaf's bounds are; nil if the two cannot
// be compared: how an instant is meant depends on the engine's time zone.
func (l *leaf) boundOf(v string) *bound {
	switch l.form.means {
	case date:
		if t, err := time.Parse(time.DateOnly, v); err == nil {
			return &bound{whole: big.NewInt(t.Unix() / 86400)}
		}
	case decimal:
		if r, ok := new(big.Rat).SetString(v); ok {
			if r.Mul(r, new(big.Rat).SetInt(pow10(l.form.scale))); r.IsInt() {
				return &bound{whole: r.Num()}
			}
		}
	case instant, wall, binary, other:
	case text:
		return &bound{bytes: []byte(v)}
	default:
		if n, ok := new(big.Int).SetString(v, 10); ok && !l.isFloat() {
			return &bound{whole: n}
		}
	}
	return nil
}

func (s leafStats) rangeOf(l *leaf) string {
	low, high := string(l.appendLow(nil, s.low)), string(l.appendHigh(nil, s.high))
	if s.low.compare(s.high) == 0 {
		return low
	}
	return low + " to " + high
}

// samePartition: the same value, though perhaps written in another way.
func samePartition(typ string, a, b *string) bool {
	if a == nil || b == nil {
		return a == nil && b == nil
	}
	if *a == *b {
		return true
	}
	switch typ {
	case "timestamp":
		// A path has it without a zone, in that of whoever wrote it, and a value may be
		// ISO 8601 in UTC: which instant the path means cannot be told.
		return true
	case "string", "binary", "boolean", "date", "timestamp_ntz":
		return false
	case "float", "double":
		x, errX := strconv.ParseFloat(*a, 64)
		y, errY := strconv.ParseFloat(*b, 64)
		return errX == nil && errY == nil && x == y
	}
	x, okX := new(big.Rat).SetString(*a)
	y, okY := new(big.Rat).SetString(*b)
	return okX && okY && x.Cmp(y) == 0
}

func shown(v *string) string {
	if v == nil {
		return "null"
	}
	return strconv.Quote(*v)
}
