package datafile

import (
	"math/big"
	"slices"
	"strconv"
	"time"
	"unicode/utf8"
)

// maxText is how many characters of a text Delta's statistics keep.
const maxText = 32

// Stats renders the statistics that an add action carries: numRecords, and
// minValues, maxValues and nullCount of each column that has them, a struct's
// fields nested. Lists and maps have none. Bounds of texts are cut to 32
// characters and those of timestamps to milliseconds, a lower one down and an
// upper one up.
func (f File) Stats() string { return f.statsOf(f.fields) }

func (f File) statsOf(fields []field) string {
	b := append([]byte(`{"numRecords":`), strconv.FormatInt(f.NumRecords, 10)...)
	for _, part := range []struct {
		name   string
		render func([]byte, *leaf) []byte
	}{
		{"minValues", func(dst []byte, l *leaf) []byte { return l.appendLow(dst, f.stats[l].low) }},
		{"maxValues", func(dst []byte, l *leaf) []byte { return l.appendHigh(dst, f.stats[l].high) }},
		{"nullCount", func(dst []byte, l *leaf) []byte { return f.stats[l].appendNulls(dst) }},
	} {
		b = append(b, `,"`+part.name+`":`...)
		start := len(b)
		if b = appendStats(b, fields, part.render); len(b) == start {
			b = append(b, "{}"...)
		}
	}
	return string(append(b, '}'))
}

// appendStats renders an object of what render gives for each leaf, or nothing if
// it gives nothing at all.
func appendStats(b []byte, fields []field, render func([]byte, *leaf) []byte) []byte {
	start := len(b)
	for _, fl := range fields {
		sep := byte(',')
		if len(b) == start {
			sep = '{'
		}
		mark := len(b)
		b, _ = appendString(append(b, sep), []byte(fl.physical))
		b = append(b, ':')
		value := len(b)
		switch {
		case fl.leaf != nil:
			b = render(b, fl.leaf)
		case fl.typ.name == "struct":
			b = appendStats(b, fl.typ.fields, render)
		}
		if len(b) == value {
			b = b[:mark]
		}
	}
	if len(b) > start {
		b = append(b, '}')
	}
	return b
}

func (s leafStats) appendNulls(dst []byte) []byte {
	if !s.nullsKnown {
		return dst
	}
	return strconv.AppendInt(dst, s.nulls, 10)
}

func (l *leaf) appendLow(dst []byte, b *bound) []byte {
	switch {
	case b == nil:
		return dst
	case b.bytes != nil:
		dst, _ = appendString(dst, textBelow(b.bytes))
		return dst
	}
	return l.appendBound(dst, b, time.Time.Truncate)
}

func (l *leaf) appendHigh(dst []byte, b *bound) []byte {
	switch {
	case b == nil:
		return dst
	case b.bytes != nil:
		dst, _ = appendString(dst, textAbove(b.bytes))
		return dst
	}
	return l.appendBound(dst, b, roundUp)
}

// roundUp: Spark cuts an upper bound too and adds the millisecond when it reads;
// not all readers do, and a bound that is too high is right for all.
func roundUp(t time.Time, d time.Duration) time.Time {
	if down := t.Truncate(d); down.Before(t) {
		return down.Add(d)
	}
	return t
}

// appendBound renders a bound that is no text; a date or time outside the years
// that all readers parse is left out.
func (l *leaf) appendBound(dst []byte, b *bound, round func(time.Time, time.Duration) time.Time) []byte {
	switch l.form.means {
	case date:
		if !inYears(time.Unix(b.whole.Int64()*86400, 0).UTC()) {
			return dst
		}
		return appendDate(dst, b.whole.Int64())
	case instant, wall:
		t := round(timeOf(b.whole.Int64(), l.form.unit), time.Millisecond)
		if !inYears(t) {
			return dst
		}
		return appendTime(dst, t, l.form.means == instant)
	case decimal:
		return appendDecimal(dst, b.whole, l.form.scale)
	default:
	}
	if b.whole != nil {
		return append(dst, (*big.Int).String(b.whole)...)
	}
	return appendFloat(dst, b.float, floatBits(l))
}

func floatBits(l *leaf) int {
	if leafType(l) == "float" {
		return 32
	}
	return 64
}

func inYears(t time.Time) bool { return t.Year() >= 1 && t.Year() <= 9999 }

// textBelow is a prefix: not above the text.
func textBelow(s []byte) []byte {
	return s[:prefixLen(s)]
}

// textAbove is a prefix with one character behind it that is above the one cut
// off, as Spark makes it; where there is none above, the prefix grows.
func textAbove(s []byte) []byte {
	n := prefixLen(s)
	for n < len(s) {
		next, size := utf8.DecodeRune(s[n:])
		switch {
		case next < 0x7f:
			return append(slices.Clone(s[:n]), 0x7f)
		case next < utf8.MaxRune:
			return utf8.AppendRune(slices.Clone(s[:n]), utf8.MaxRune)
		}
		n += size
	}
	return s
}

func prefixLen(s []byte) int {
	n := 0
	for range maxText {
		_, size := utf8.DecodeRune(s[n:])
		n += size
	}
	return n
}
