package datafile

import (
	"errors"
	"math"
	"math/big"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

var errNotUTF8 = errors.New("text is not UTF-8")

const hexDigits = "0123456789abcdef"

// appendString writes a JSON string. Unlike encoding/json it leaves <, > and &
// alone, as Delta writers do, and refuses text that is not UTF-8 instead of
// changing it: it may be a path.
func appendString(dst, s []byte) ([]byte, error) {
	if !utf8.Valid(s) {
		return append(dst, `""`...), errNotUTF8
	}
	dst = append(dst, '"')
	from := 0
	for i, c := range s {
		if c >= 0x20 && c != '"' && c != '\\' {
			continue
		}
		dst = append(dst, s[from:i]...)
		from = i + 1
		switch c {
		case '"', '\\':
			dst = append(dst, '\\', c)
		case '\n':
			dst = append(dst, '\\', 'n')
		case '\r':
			dst = append(dst, '\\', 'r')
		case '\t':
			dst = append(dst, '\\', 't')
		default:
			dst = append(dst, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
		}
	}
	dst = append(dst, s[from:]...)
	return append(dst, '"'), nil
}

// appendFloat writes the shortest number that reads back as v, with a point, so
// that it stays a floating-point number for those who look; what JSON has no
// number for is written as a string, as Spark does.
func appendFloat(dst []byte, v float64, bits int) []byte {
	switch {
	case math.IsNaN(v):
		return append(dst, `"NaN"`...)
	case math.IsInf(v, 1):
		return append(dst, `"Infinity"`...)
	case math.IsInf(v, -1):
		return append(dst, `"-Infinity"`...)
	}
	format := byte('f')
	if abs := math.Abs(v); abs != 0 && (abs < 1e-6 || abs >= 1e21) {
		format = 'e'
	}
	start := len(dst)
	dst = strconv.AppendFloat(dst, v, format, -1, bits)
	if format == 'f' && !strings.Contains(string(dst[start:]), ".") {
		dst = append(dst, ".0"...)
	}
	return dst
}

// appendDecimal writes all digits of v / 10^scale, without exponent.
func appendDecimal(dst []byte, v *big.Int, scale int32) []byte {
	digits := v.String()
	if strings.HasPrefix(digits, "-") {
		dst, digits = append(dst, '-'), digits[1:]
	}
	if scale <= 0 {
		dst = append(dst, digits...)
		if digits != "0" {
			dst = append(dst, strings.Repeat("0", int(-scale))...)
		}
		return dst
	}
	if pad := int(scale) + 1 - len(digits); pad > 0 {
		digits = strings.Repeat("0", pad) + digits
	}
	point := len(digits) - int(scale)
	dst = append(dst, digits[:point]...)
	dst = append(dst, '.')
	return append(dst, digits[point:]...)
}

// appendDate writes the day that is v days after 1970-01-01.
func appendDate(dst []byte, v int64) []byte {
	dst = append(dst, '"')
	dst = time.Unix(v*86400, 0).UTC().AppendFormat(dst, "2006-01-02")
	return append(dst, '"')
}

// appendTime writes an ISO timestamp: three decimals, six or nine where the value has more.
func appendTime(dst []byte, t time.Time, utc bool) []byte {
	layout := "2006-01-02T15:04:05.000"
	switch ns := t.Nanosecond(); {
	case ns%1000 != 0:
		layout += "000000"
	case ns%1_000_000 != 0:
		layout += "000"
	}
	if utc {
		layout += "Z"
	}
	dst = append(dst, '"')
	dst = t.AppendFormat(dst, layout)
	return append(dst, '"')
}
