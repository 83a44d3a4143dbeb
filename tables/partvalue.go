package tables

import (
	"math"
	"strconv"
	"strings"
	"time"
)

// Values of partitions in facts.
const (
	// anyValue fits every other: we cannot tell whether two spellings are one value.
	anyValue uint64 = iota
	nullValue
	firstValue
)

// valueHash hashes a partition value so that two spellings of one value are equal,
// or says anyValue where that cannot be told: a missed conflict is a lost update, a
// needless one is a retry.
func valueHash(dataType, value string) uint64 {
	if value == "" {
		return nullValue
	}
	same, ok := plainValue(dataType, value)
	if !ok {
		return anyValue
	}
	return max(hashTexts("value", same), firstValue)
}

// plainValue is the one spelling of a value; false if it is not known.
func plainValue(dataType, value string) (string, bool) {
	switch dataType {
	case "string":
		return value, true
	case "byte", "short", "integer", "long":
		n, err := strconv.ParseInt(strings.TrimSpace(value), 10, 64)
		return strconv.FormatInt(n, 10), err == nil
	case "boolean":
		value = strings.ToLower(value)
		return value, value == "true" || value == "false"
	case "date":
		return value, isDate(value)
	case "timestamp":
		return plainInstant(value)
	case "timestamp_ntz":
		return plainLocal(value)
	case "float":
		return plainFloat(value, 32)
	case "double":
		return plainFloat(value, 64)
	}
	if strings.HasPrefix(dataType, "decimal") {
		return plainDecimal(value)
	}
	return "", false
}

// isDate knows the form that all engines write; "2020-1-1" is not in it.
func isDate(s string) bool {
	if len(s) != len("2020-01-01") {
		return false
	}
	for i := range len(s) {
		dash := i == 4 || i == 7
		if dash && s[i] != '-' || !dash && (s[i] < '0' || s[i] > '9') {
			return false
		}
	}
	return true
}

// plainInstant knows timestamps that say their zone. Those that do not are in the
// zone of whichever session wrote them, and two spellings may be any two instants.
func plainInstant(s string) (string, bool) {
	t, err := time.Parse("2006-01-02T15:04:05.999999999Z07:00", s)
	if err != nil {
		return "", false
	}
	return strconv.FormatInt(t.UnixMicro(), 10), true
}

// plainLocal knows timestamps without a zone, in both forms that engines write.
func plainLocal(s string) (string, bool) {
	for _, form := range []string{"2006-01-02 15:04:05.999999999", "2006-01-02T15:04:05.999999999"} {
		if t, err := time.Parse(form, s); err == nil {
			return strconv.FormatInt(t.UnixMicro(), 10), true
		}
	}
	return "", false
}

// plainFloat: 1.0, 1 and 1E0 are one value, and so are both zeros.
func plainFloat(s string, bits int) (string, bool) {
	if strings.Trim(s, "+-.0123456789eE") != "" {
		return "", false // NaN, the infinities, and spellings that only Go takes
	}
	f, err := strconv.ParseFloat(s, bits)
	if err != nil {
		return "", false
	}
	if f == 0 {
		f = 0 // without its sign
	}
	return strconv.FormatUint(math.Float64bits(f), 16), true
}

// plainDecimal: digits with a sign and a point; zeros at the ends do not count.
func plainDecimal(s string) (string, bool) {
	digits := strings.TrimPrefix(s, "+")
	negative := strings.HasPrefix(s, "-")
	if negative {
		digits = s[1:]
	}
	whole, part, _ := strings.Cut(digits, ".")
	if whole+part == "" || strings.Trim(whole+part, "0123456789") != "" {
		return "", false // Java writes exponents now and then
	}
	whole, part = strings.TrimLeft(whole, "0"), strings.TrimRight(part, "0")
	if negative && whole+part != "" {
		whole = "-" + whole
	}
	return whole + "." + part, true
}
