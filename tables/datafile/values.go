package datafile

import (
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/decimal128"
)

func arrowSchema(columns []Column) (*arrow.Schema, error) {
	var fields []arrow.Field
	for _, c := range columns {
		t, err := arrowType(c.Type)
		if err != nil {
			return nil, fmt.Errorf("column %s: %w", c.Name, err)
		}
		fields = append(fields, arrow.Field{Name: c.Name, Type: t, Nullable: c.Nullable})
	}
	return arrow.NewSchema(fields, nil), nil
}

func arrowType(name string) (arrow.DataType, error) {
	switch name {
	case "boolean":
		return arrow.FixedWidthTypes.Boolean, nil
	case "byte":
		return arrow.PrimitiveTypes.Int8, nil
	case "short":
		return arrow.PrimitiveTypes.Int16, nil
	case "integer":
		return arrow.PrimitiveTypes.Int32, nil
	case "long":
		return arrow.PrimitiveTypes.Int64, nil
	case "float":
		return arrow.PrimitiveTypes.Float32, nil
	case "double":
		return arrow.PrimitiveTypes.Float64, nil
	case "string":
		return arrow.BinaryTypes.String, nil
	case "binary":
		return arrow.BinaryTypes.Binary, nil
	case "date":
		return arrow.FixedWidthTypes.Date32, nil
	case "timestamp":
		return &arrow.TimestampType{Unit: arrow.Microsecond, TimeZone: "UTC"}, nil
	case "timestamp_ntz":
		return &arrow.TimestampType{Unit: arrow.Microsecond}, nil
	}
	var p, s int32
	if n, _ := fmt.Sscanf(name, "decimal(%d,%d)", &p, &s); n != 2 || p < 1 || p > 38 || s < 0 || s > p {
		return nil, fmt.Errorf("type %q cannot be written", name)
	}
	return &arrow.Decimal128Type{Precision: p, Scale: s}, nil
}

var errNull = errors.New("is null and may not be")

func appendValue(b array.Builder, c Column, v any) error {
	if v == nil {
		if !c.Nullable {
			return errNull
		}
		b.AppendNull()
		return nil
	}
	ok := false
	switch b := b.(type) {
	case *array.BooleanBuilder:
		ok = appendTo(b.Append, v)
	case *array.Int8Builder:
		ok = appendInt(b.Append, v, math.MinInt8, math.MaxInt8)
	case *array.Int16Builder:
		ok = appendInt(b.Append, v, math.MinInt16, math.MaxInt16)
	case *array.Int32Builder:
		ok = appendInt(b.Append, v, math.MinInt32, math.MaxInt32)
	case *array.Int64Builder:
		ok = appendInt(b.Append, v, math.MinInt64, math.MaxInt64)
	case *array.Float32Builder:
		ok = appendTo(b.Append, v)
	case *array.Float64Builder:
		ok = appendTo(b.Append, v)
	case *array.StringBuilder:
		ok = appendTo(b.Append, v)
	case *array.BinaryBuilder:
		ok = appendTo(b.Append, v)
	case *array.Date32Builder:
		ok = appendDay(b, v)
	case *array.TimestampBuilder:
		ok = appendTimestamp(b, v)
	case *array.Decimal128Builder:
		ok = appendUnscaled(b, v)
	}
	if !ok {
		return fmt.Errorf("%v (%T) is not a value of type %s", v, v, c.Type)
	}
	return nil
}

func appendTo[T any](add func(T), v any) bool {
	x, ok := v.(T)
	if ok {
		add(x)
	}
	return ok
}

func appendInt[T int8 | int16 | int32 | int64](add func(T), v any, low, high int64) bool {
	n, ok := toInt64(v)
	if ok = ok && low <= n && n <= high; ok {
		add(T(n))
	}
	return ok
}

func toInt64(v any) (int64, bool) {
	switch v := v.(type) {
	case int:
		return int64(v), true
	case int8:
		return int64(v), true
	case int16:
		return int64(v), true
	case int32:
		return int64(v), true
	case int64:
		return v, true
	}
	return 0, false
}

// appendDay takes the calendar day that the time shows in its own zone.
func appendDay(b *array.Date32Builder, v any) bool {
	t, ok := v.(time.Time)
	if ok {
		y, m, d := t.Date()
		b.Append(arrow.Date32(time.Date(y, m, d, 0, 0, 0, 0, time.UTC).Unix() / 86400))
	}
	return ok
}

func appendTimestamp(b *array.TimestampBuilder, v any) bool {
	t, ok := v.(time.Time)
	if ok {
		b.Append(arrow.Timestamp(t.UnixMicro()))
	}
	return ok
}

func appendUnscaled(b *array.Decimal128Builder, v any) bool {
	s, ok := v.(string)
	if !ok {
		return false
	}
	t := b.Type().(*arrow.Decimal128Type)
	n, ok := unscaledOf(t.Precision, t.Scale, s)
	if ok {
		b.Append(decimal128.FromBigInt(n))
	}
	return ok
}
