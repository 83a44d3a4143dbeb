package tables

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/txcoord/txcoord/twophase"
)

// A partition value that is none of its column's type makes a whole table unreadable
// for delta-rs and DuckDB, whose kernel reads the values of all files. What counts as one
// is what that kernel and Spark both take: Delta's partition value serialization.

// partitionTypes checks the values of adds: each is one of its column's type, and none is
// null where the schema has no nulls. Removes may name whatever is there.
func (p *Profile) partitionTypes(a *Actions) error {
	bad := map[int]int{} // the column, by the index of the values
	for i, values := range a.Partitions {
		for at, v := range values {
			if at < len(p.types) && (p.needsValue(at) && v.Null || !v.Null && !fitsType(p.types[at], v.Value)) {
				bad[i] = at
				break
			}
		}
	}
	if len(bad) == 0 {
		return nil
	}
	for i := range a.Adds {
		f := &a.Adds[i]
		at, ok := bad[f.Partition]
		if !ok {
			continue
		}
		v := a.Partitions[f.Partition][at]
		if v.Null {
			return &InputError{
				Line: f.Line, Field: "add.partitionValues." + v.Column, Rule: twophase.RuleSchema,
				Reason: "is null or empty, and the table's schema says that the column is never null",
				Remedy: "give its value, or make the column nullable first",
			}
		}
		return &InputError{
			Line: f.Line, Field: "add.partitionValues." + v.Column, Value: cut(v.Value), Rule: twophase.RuleSchema,
			Reason: "is no value of the column's type " + p.types[at], Remedy: formOf(p.types[at]),
		}
	}
	return nil
}

// needsValue reports whether a partition column is one that is never null.
func (p *Profile) needsValue(at int) bool {
	n, ok := p.schema.nodes[p.keys[at]]
	return ok && !n.nullable
}

var intBits = map[string]int{"byte": 8, "short": 16, "integer": 32, "long": 64}

// fitsType reports whether readers can parse a value that is not empty. Of types that
// have no form of their own (string, binary) every value can be.
func fitsType(dataType, value string) bool {
	switch dataType {
	case "byte", "short", "integer", "long":
		_, err := strconv.ParseInt(value, 10, intBits[dataType])
		return err == nil
	case "float", "double":
		return floatForm.MatchString(value)
	case "boolean":
		return strings.EqualFold(value, "true") || strings.EqualFold(value, "false")
	case "date":
		return isDay(value)
	case "timestamp":
		return isMoment(value, true)
	case "timestamp_ntz":
		return isMoment(value, false)
	}
	if precision, scale, ok := numberType(dataType); ok {
		return fitsDecimal(value, precision, scale)
	}
	return true
}

// formOf is how a value has to be written.
func formOf(dataType string) string {
	switch dataType {
	case "byte", "short", "integer", "long":
		return fmt.Sprintf("write a whole number of %d bits in decimal digits, without spaces", intBits[dataType])
	case "float", "double":
		return "write a number such as 1.5 or 1E10, or NaN, Infinity, -Infinity"
	case "boolean":
		return "write true or false"
	case "date":
		return "write it as 2026-11-29"
	case "timestamp":
		return "write it as 2026-11-29T18:30:00.000000Z, or 2026-11-29 18:30:00.000000 in the writer's zone"
	case "timestamp_ntz":
		return "write it as 2026-11-29 18:30:00.000000"
	}
	_, scale, _ := numberType(dataType)
	return fmt.Sprintf("write it with %d digits behind the point, and no more in front of it than the type has", scale)
}

var (
	floatForm  = regexp.MustCompile(`^[+-]?(?i:nan|inf|infinity|(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:e[+-]?[0-9]+)?)$`)
	dayForm    = regexp.MustCompile(`^([0-9]{4}|[+-][0-9]{4,6})-([0-9]{1,2})-([0-9]{1,2})$`)
	clockForm  = regexp.MustCompile(`^([0-9]{1,2}):([0-9]{1,2}):([0-9]{1,2})(?:\.[0-9]+)?((?i:z)|[+-][0-9]{2}:?[0-9]{2})?$`)
	numberForm = regexp.MustCompile(`^[+-]?([0-9]*)(?:\.([0-9]+))?(?:[eE]([+-]?[0-9]{1,4}))?$`)
)

// maxYear is the last that the kernel's calendar has.
const maxYear = 262142

// isDay knows years beyond four digits, too, with a sign, as engines write them.
func isDay(s string) bool {
	m := dayForm.FindStringSubmatch(s)
	if m == nil {
		return false
	}
	year, _ := strconv.Atoi(m[1])
	month, _ := strconv.Atoi(m[2])
	day, _ := strconv.Atoi(m[3])
	if month < 1 || month > 12 || day < 1 || max(year, -year) > maxYear {
		return false
	}
	return time.Date(year, time.Month(month), day, 0, 0, 0, 0, time.UTC).Day() == day
}

// isMoment: the zone is left out behind a space only; a T with no zone is nobody's form.
func isMoment(s string, zoned bool) bool {
	at := strings.IndexAny(s, " Tt")
	if at < 0 || !isDay(s[:at]) {
		return false
	}
	m := clockForm.FindStringSubmatch(s[at+1:])
	if m == nil {
		return false
	}
	hour, _ := strconv.Atoi(m[1])
	minute, _ := strconv.Atoi(m[2])
	second, _ := strconv.Atoi(m[3])
	hasZone := m[4] != ""
	return hour < 24 && minute < 60 && second <= 60 && (!hasZone && s[at] == ' ' || hasZone && zoned)
}

// numberType reads decimal(p,s); false if it is none that Delta has.
func numberType(dataType string) (precision, scale int, ok bool) {
	precision, scale, ok = decimalOf(dataType)
	return precision, scale, ok && precision >= 1 && precision <= 38 && scale >= 0 && scale <= precision
}

// fitsDecimal: the kernel wants the type's scale to the digit; Java writes a zero of
// many digits with an exponent (0E-18).
func fitsDecimal(s string, precision, scale int) bool {
	m := numberForm.FindStringSubmatch(s)
	if m == nil || m[1]+m[2] == "" {
		return false
	}
	exponent, _ := strconv.Atoi(m[3])
	return len(m[2])-exponent == scale && len(strings.TrimLeft(m[1]+m[2], "0")) <= precision
}
