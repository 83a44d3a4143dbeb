package datafile

import (
	"fmt"
	"math/big"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// hiveNull stands for null in a directory's name.
const hiveNull = "__HIVE_DEFAULT_PARTITION__"

// pathValues reads the name=value segments of a path's directories, unescaped
// once, the way Hive and Spark write them.
func pathValues(path string) map[string]*string {
	values := map[string]*string{}
	segments := strings.Split(path, "/")
	for _, s := range segments[:len(segments)-1] {
		name, value, ok := strings.Cut(s, "=")
		if !ok {
			continue
		}
		name, value = unescape(name), unescape(value)
		values[name] = &value
		if value == hiveNull {
			values[name] = nil
		}
	}
	return values
}

// unescape leaves alone what is no escape: + is literal, and so is a stray percent sign.
func unescape(s string) string {
	if u, err := url.PathUnescape(s); err == nil {
		return u
	}
	return s
}

// partitionValue checks a value against its column's type and returns what the
// add action says: nil for null, which the empty string is as well.
func partitionValue(f field, v *string) (*string, error) {
	if v == nil || *v == "" {
		if !f.nullable {
			return nil, fmt.Errorf("is null, and the table forbids nulls in it")
		}
		return nil, nil
	}
	if !utf8.ValidString(*v) {
		return nil, errNotUTF8
	}
	if !isOfType(f.typ.name, *v) {
		return nil, fmt.Errorf("%q is not a value of type %s", *v, f.typ.name)
	}
	return v, nil
}

func isOfType(typ, v string) bool {
	var err error
	switch typ {
	case "byte":
		_, err = strconv.ParseInt(v, 10, 8)
	case "short":
		_, err = strconv.ParseInt(v, 10, 16)
	case "integer":
		_, err = strconv.ParseInt(v, 10, 32)
	case "long":
		_, err = strconv.ParseInt(v, 10, 64)
	case "float", "double":
		_, err = strconv.ParseFloat(v, 64)
	case "boolean":
		return v == "true" || v == "false"
	case "date":
		_, err = time.Parse("2006-01-02", v)
	case "timestamp":
		return parses(v, "2006-01-02 15:04:05", "2006-01-02T15:04:05", "2006-01-02T15:04:05Z07:00")
	case "timestamp_ntz":
		return parses(v, "2006-01-02 15:04:05", "2006-01-02T15:04:05")
	default:
		var precision, scale int32
		if n, _ := fmt.Sscanf(typ, "decimal(%d,%d)", &precision, &scale); n == 2 {
			_, ok := unscaledOf(precision, scale, v)
			return ok
		}
	}
	return err == nil
}

func parses(v string, layouts ...string) bool {
	for _, l := range layouts {
		if _, err := time.Parse(l, v); err == nil {
			return true
		}
	}
	return false
}

// unscaledOf reads a decimal, exactly: v * 10^scale.
func unscaledOf(precision, scale int32, v string) (*big.Int, bool) {
	r, ok := new(big.Rat).SetString(v)
	if !ok || strings.Trim(v, "+-0123456789.") != "" {
		return nil, false
	}
	unscaled := r.Mul(r, new(big.Rat).SetInt(pow10(scale)))
	return unscaled.Num(), unscaled.IsInt() && unscaled.Num().CmpAbs(pow10(precision)) < 0
}

func pow10(n int32) *big.Int {
	return new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(n)), nil)
}
