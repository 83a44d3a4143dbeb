package datafile

import (
	"encoding/base64"
	"math/big"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/schema"
)

// meaning is what a leaf's physical values stand for.
type meaning uint8

const (
	plain meaning = iota
	text
	binary
	unsigned
	date
	instant // a timestamp in UTC
	wall    // a timestamp without zone
	decimal
	other // a logical type that Delta has no type for; name says which
)

// form renders physical values of one column by their logical type.
type form struct {
	means meaning
	// precision and scale of a decimal.
	precision, scale int32
	// unit of a timestamp.
	unit time.Duration
	// bits of an integer, where the file states them.
	bits int8
	// name of a type that Delta has not.
	name string
}

func formOf(c *schema.Column, binaryAsText bool) form {
	switch t := c.LogicalType().(type) {
	case schema.StringLogicalType, schema.EnumLogicalType, schema.JSONLogicalType:
		return form{means: text}
	case schema.DateLogicalType:
		return form{means: date}
	case schema.DecimalLogicalType:
		return form{means: decimal, precision: t.Precision(), scale: t.Scale()}
	case schema.IntLogicalType:
		if !t.IsSigned() {
			return form{means: unsigned, bits: t.BitWidth()}
		}
		return form{bits: t.BitWidth()}
	case schema.TimestampLogicalType:
		return form{means: zone(t.IsAdjustedToUTC()), unit: unitOf(t.TimeUnit())}
	case schema.BSONLogicalType, schema.NoLogicalType, nil:
	default:
		return form{means: other, name: strings.ToLower(t.String())}
	}
	switch c.PhysicalType() {
	case parquet.Types.Int96:
		return form{means: instant, unit: time.Nanosecond}
	case parquet.Types.ByteArray:
		if binaryAsText {
			return form{means: text}
		}
		return form{means: binary}
	case parquet.Types.FixedLenByteArray:
		return form{means: other, name: "fixed-length binary"}
	}
	return form{}
}

func zone(utc bool) meaning {
	if utc {
		return instant
	}
	return wall
}

func unitOf(u schema.TimeUnitType) time.Duration {
	switch u {
	case schema.TimeUnitMillis:
		return time.Millisecond
	case schema.TimeUnitMicros:
		return time.Microsecond
	default:
	}
	return time.Nanosecond
}

func (f form) bool(dst []byte, v bool) ([]byte, error) {
	return strconv.AppendBool(dst, v), nil
}

func (f form) int(dst []byte, v int64) ([]byte, error) {
	switch f.means {
	case unsigned:
		return strconv.AppendUint(dst, uint64(v)&(1<<uint(f.bits)-1), 10), nil
	case date:
		return appendDate(dst, v), nil
	case instant, wall:
		return appendTime(dst, timeOf(v, f.unit), f.means == instant), nil
	case decimal:
		return appendDecimal(dst, big.NewInt(v), f.scale), nil
	default:
	}
	return strconv.AppendInt(dst, v, 10), nil
}

func (f form) int96(dst []byte, v parquet.Int96) ([]byte, error) {
	return appendTime(dst, v.ToTime(), f.means == instant), nil
}

func (f form) bytes(dst, v []byte) ([]byte, error) {
	switch f.means {
	case text:
		return appendString(dst, v)
	case decimal:
		return appendDecimal(dst, bigEndian(v), f.scale), nil
	default:
	}
	dst = append(dst, '"')
	dst = base64.StdEncoding.AppendEncode(dst, v)
	return append(dst, '"'), nil
}

// bigEndian is the number of a two's complement byte string.
func bigEndian(v []byte) *big.Int {
	n := new(big.Int)
	if len(v) == 0 || v[0] < 0x80 {
		return n.SetBytes(v)
	}
	inv := slices.Clone(v)
	for i := range inv {
		inv[i] = ^inv[i]
	}
	return n.Not(n.SetBytes(inv))
}

// timeOf is exact for the whole range, which UnixNano is not.
func timeOf(v int64, unit time.Duration) time.Time {
	perSecond := int64(time.Second / unit)
	sec, frac := v/perSecond, v%perSecond
	return time.Unix(sec, frac*int64(unit)).UTC()
}
