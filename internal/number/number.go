// Package number says how many of something there are, in words.
package number

import (
	"fmt"
	"strings"
)

// Integer is what things are counted in.
type Integer interface {
	~int | ~int32 | ~int64 | ~uint | ~uint32 | ~uint64
}

// Of is a number of things: 1 error, 2 errors. A word in -y, -x, -s or -h takes the ending
// that it has to.
func Of[N Integer](n N, one string) string {
	if n == 1 {
		return "1 " + one
	}
	switch {
	case hasAny(one, "ay", "ey", "oy", "uy"):
		one += "s"
	case strings.HasSuffix(one, "y"):
		one = strings.TrimSuffix(one, "y") + "ies"
	case hasAny(one, "x", "s", "h"):
		one += "es"
	default:
		one += "s"
	}
	return fmt.Sprintf("%d %s", n, one)
}

// Verb is the form of a verb that goes with a number: is or are, was or were.
func Verb[N Integer](n N, one, several string) string {
	if n == 1 {
		return one
	}
	return several
}

func hasAny(word string, endings ...string) bool {
	for _, e := range endings {
		if strings.HasSuffix(word, e) {
			return true
		}
	}
	return false
}
