package checkpoint

import (
	"errors"
	"fmt"
	"math/big"
	"strconv"
	"strings"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/decimal128"
)

// primitive is one of Delta's types, with how its text form is appended. upper is
// set for an upper bound, which may be widened and never narrowed.
type primitive struct {
	arrow  arrow.DataType
	append func(b array.Builder, text string, upper bool) error
}

func typeOf(name string) (primitive, error) {
	if t, ok := primitives[name]; ok {
		return t, nil
	}
	var p, s int32
	if n, _ := fmt.Sscanf(name, "decimal(%d,%d)", &p, &s); n == 2 && p >= 1 && p <= 38 && s >= 0 && s <= p {
		return decimalType(p, s), nil
	}
	return primitive{}, fmt.Errorf("type %q has no typed column", name)
}

func (p primitive) node(name string, textOf func(raw []byte) (string, error), upper bool) *node {
	return &node{name, p.arrow, func(b array.Builder, raw []byte) error {
		text, err := textOf(raw)
		if err != nil {
			return err
		}
		return p.append(b, text, upper)
	}}
}

var primitives = map[string]primitive{
	"string": {arrow.BinaryTypes.String, func(b array.Builder, text string, _ bool) error {
		b.(*array.StringBuilder).Append(text)
		return nil
	}},
	"boolean": {arrow.FixedWidthTypes.Boolean, func(b array.Builder, text string, _ bool) error {
		v := strings.EqualFold(text, "true")
		if !v && !strings.EqualFold(text, "false") {
			return errors.New("is not a boolean")
		}
		b.(*array.BooleanBuilder).Append(v)
		return nil
	}},
	"byte":    {arrow.PrimitiveTypes.Int8, func(b array.Builder, t string, _ bool) error { return whole(b.(*array.Int8Builder).Append, t, 8) }},
	"short":   {arrow.PrimitiveTypes.Int16, func(b array.Builder, t string, _ bool) error { return whole(b.(*array.Int16Builder).Append, t, 16) }},
	"integer": {arrow.PrimitiveTypes.Int32, func(b array.Builder, t string, _ bool) error { return whole(b.(*array.Int32Builder).Append, t, 32) }},
	"long":    {arrow.PrimitiveTypes.Int64, func(b array.Builder, t string, _ bool) error { return whole(b.(*array.Int64Builder).Append, t, 64) }},
	"float": {arrow.PrimitiveTypes.Float32, func(b array.Builder, t string, _ bool) error {
		return floating(b.(*array.Float32Builder).Append, t, 32)
	}},
	"double": {arrow.PrimitiveTypes.Float64, func(b array.Builder, t string, _ bool) error {
		return floating(b.(*array.Float64Builder).Append, t, 64)
	}},
	"date": {arrow.FixedWidthTypes.Date32, func(b array.Builder, text string, _ bool) error {
		day, err := time.Parse("2006-01-02", text)
		if err == nil {
			b.(*array.Date32Builder).Append(arrow.Date32FromTime(day))
		}
		return err
	}},
	"timestamp":     {&arrow.TimestampType{Unit: arrow.Microsecond, TimeZone: "UTC"}, instant},
	"timestamp_ntz": {&arrow.TimestampType{Unit: arrow.Microsecond}, wall},
}

func whole[T int8 | int16 | int32 | int64](add func(T), text string, bits int) error {
	v, err := strconv.ParseInt(text, 10, bits)
	if err == nil {
		add(T(v))
	}
	return err
}

// floating takes "NaN" and "Infinity" too, as Spark writes them.
func floating[T float32 | float64](add func(T), text string, bits int) error {
	v, err := strconv.ParseFloat(text, bits)
	if err == nil {
		add(T(v))
	}
	return err
}

// instant is a timestamp with a zone: without one it could mean any time of a day.
func instant(b array.Builder, text string, upper bool) error {
	for _, layout := range []string{"2006-01-02T15:04:05Z07:00", "2006-01-02 15:04:05Z07:00"} {
		if t, err := time.Parse(layout, text); err == nil {
			appendMicros(b, t, text, upper)
			return nil
		}
	}
	return errors.New("is not a timestamp with a zone")
}

// wall is a timestamp without zone; some writers put a Z behind it.
func wall(b array.Builder, text string, upper bool) error {
	local := strings.TrimSuffix(text, "Z")
	for _, layout := range []string{"2006-01-02T15:04:05", "2006-01-02 15:04:05"} {
		if t, err := time.Parse(layout, local); err == nil {
			appendMicros(b, t, text, upper)
			return nil
		}
	}
	return errors.New("is not a timestamp without zone")
}

// appendMicros widens an upper bound that has three decimals or fewer: writers cut
// timestamps in statistics to milliseconds, and readers of the typed column may
// take it as exact.
func appendMicros(b array.Builder, t time.Time, text string, upper bool) {
	micros := t.UnixMicro()
	if upper && decimals(text) <= 3 {
		micros += 999
	}
	b.(*array.TimestampBuilder).Append(arrow.Timestamp(micros))
}

// decimals counts the digits of a second's fraction.
func decimals(text string) int {
	_, fraction, _ := strings.Cut(text, ".")
	n := 0
	for n < len(fraction) && '0' <= fraction[n] && fraction[n] <= '9' {
		n++
	}
	return n
}

func decimalType(precision, scale int32) primitive {
	tenTo := func(n int32) *big.Int { return new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(n)), nil) }
	factor, limit := new(big.Rat).SetInt(tenTo(scale)), tenTo(precision)
	return primitive{&arrow.Decimal128Type{Precision: precision, Scale: scale}, func(b array.Builder, text string, _ bool) error {
		if len(text) > 80 || strings.Trim(text, "+-0123456789.eE") != "" || exponent(text) > 80 {
			return errors.New("is not a decimal")
		}
		v, ok := new(big.Rat).SetString(text)
		if !ok {
			return errors.New("is not a decimal")
		}
		if v.Mul(v, factor); !v.IsInt() || v.Num().CmpAbs(limit) >= 0 {
			return errors.New("does not fit its type")
		}
		b.(*array.Decimal128Builder).Append(decimal128.FromBigInt(v.Num()))
		return nil
	}}
}

// exponent is the size of a number's exponent: a large one would make a number of
// as many digits.
func exponent(text string) int {
	i := strings.IndexAny(text, "eE")
	if i < 0 {
		return 0
	}
	n, err := strconv.Atoi(text[i+1:])
	if err != nil {
		return 1 << 30
	}
	return max(n, -n)
}
