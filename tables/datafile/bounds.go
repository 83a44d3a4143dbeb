package datafile

import (
	"bytes"
	"cmp"
	"math"
	"math/big"
	"unicode/utf8"

	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/metadata"
)

// leafStats is what the row groups together say of a leaf column.
type leafStats struct {
	// nulls counts entries without a value, a null parent's included.
	nulls      int64
	nullsKnown bool
	// low and high are nil where there is no bound that all readers may rely on.
	low, high *bound
}

// bound is a minimum or maximum: whole holds integers, dates, timestamps and
// unscaled decimals.
type bound struct {
	whole *big.Int
	float float64
	bytes []byte
}

func (b *bound) compare(o *bound) int {
	switch {
	case b.whole != nil:
		return b.whole.Cmp(o.whole)
	case b.bytes != nil:
		return bytes.Compare(b.bytes, o.bytes)
	}
	return cmp.Compare(b.float, o.float)
}

// statsOf merges a leaf's statistics over all row groups. One row group with
// values and without bounds takes the bounds from all.
func statsOf(m *metadata.FileMetaData, l *leaf) (leafStats, error) {
	sum := leafStats{nullsKnown: true}
	bounded := l.bounded()
	for i := range m.RowGroups {
		chunk, err := m.RowGroup(i).ColumnChunk(l.index)
		if err != nil {
			return sum, err
		}
		if chunk.NumValues() == 0 {
			continue
		}
		s, err := chunk.Statistics()
		if err != nil {
			return sum, err
		}
		if s == nil {
			sum.nullsKnown, bounded = false, false
			continue
		}
		sum.nullsKnown = sum.nullsKnown && s.HasNullCount()
		sum.nulls += s.NullCount()
		if s.HasNullCount() && s.NullCount() == chunk.NumValues() {
			continue
		}
		low, high := boundsOf(l, s)
		bounded = bounded && low != nil && high != nil
		sum.widen(low, high)
	}
	if !bounded {
		sum.low, sum.high = nil, nil
	}
	if l.isFloat() && !dropsNaN(m.GetCreatedBy()) {
		sum.high = nil
	}
	return sum, nil
}

func (s *leafStats) widen(low, high *bound) {
	if low != nil && (s.low == nil || low.compare(s.low) < 0) {
		s.low = low
	}
	if high != nil && (s.high == nil || high.compare(s.high) > 0) {
		s.high = high
	}
}

// bounded: Delta's data skipping knows numbers, text, dates and timestamps. The
// order of 96-bit timestamps is not defined.
func (l *leaf) bounded() bool {
	switch l.form.means {
	case binary, other:
		return false
	default:
	}
	return l.physical != parquet.Types.Boolean && l.physical != parquet.Types.Int96 && l.maxRep == 0
}

func (l *leaf) isFloat() bool {
	return l.physical == parquet.Types.Float || l.physical == parquet.Types.Double
}

func boundsOf(l *leaf, s metadata.TypedStatistics) (low, high *bound) {
	if !s.HasMinMax() {
		return nil, nil
	}
	switch s := s.(type) {
	case *metadata.Int32Statistics:
		return l.wholes(int64(s.Min()), int64(s.Max()))
	case *metadata.Int64Statistics:
		return l.wholes(s.Min(), s.Max())
	case *metadata.Float32Statistics:
		return floats(float64(s.Min()), float64(s.Max()))
	case *metadata.Float64Statistics:
		return floats(s.Min(), s.Max())
	case *metadata.ByteArrayStatistics:
		return l.texts(s.Min(), s.Max())
	case *metadata.FixedLenByteArrayStatistics:
		return l.texts(s.Min(), s.Max())
	}
	return nil, nil
}

func (l *leaf) wholes(low, high int64) (*bound, *bound) {
	return &bound{whole: l.whole(low)}, &bound{whole: l.whole(high)}
}

func (l *leaf) whole(v int64) *big.Int {
	if l.form.means == unsigned {
		return new(big.Int).SetUint64(uint64(v) & (1<<uint(l.form.bits) - 1))
	}
	return big.NewInt(v)
}

func floats(low, high float64) (*bound, *bound) {
	if math.IsNaN(low) || math.IsNaN(high) || math.IsInf(low, 0) || math.IsInf(high, 0) {
		return nil, nil
	}
	return &bound{float: low}, &bound{float: high}
}

func (l *leaf) texts(low, high []byte) (*bound, *bound) {
	if l.form.means == decimal {
		return &bound{whole: bigEndian(low)}, &bound{whole: bigEndian(high)}
	}
	if !utf8.Valid(low) || !utf8.Valid(high) {
		return nil, nil
	}
	return &bound{bytes: append([]byte{}, low...)}, &bound{bytes: append([]byte{}, high...)}
}
