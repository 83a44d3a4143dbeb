// Package nearest finds the word that somebody meant who wrote another one.
package nearest

import (
	"fmt"
	"strings"
)

// Meant is what an error about a word that is not known says behind it: "; did you mean "X"?";
// empty if no known word is near. It comes last, as a question. (The command line's own words are guessed by its parser.)
func Meant(word string, known []string) string {
	if found := Word(word, known); found != "" {
		return fmt.Sprintf("; did you mean %q?", found)
	}
	return ""
}

// OneOf is the remedy for a name that is none of those that there are: the first of them, and
// what Meant says.
func OneOf(name string, known []string) string {
	const most = 20
	switch {
	case len(known) == 0:
		return "there is none"
	case len(known) > most:
		return fmt.Sprintf("name one of %s and %d more%s", strings.Join(known[:most], ", "), len(known)-most, Meant(name, known))
	}
	return "name one of " + strings.Join(known, ", ") + Meant(name, known)
}

// Word is the known word that is nearest, the first of several; empty if none is near: a
// third of the letters may be wrong, missing, too many or swapped with the next one, and three
// at most. Case, "-" and "_" count for nothing.
func Word(word string, known []string) (found string) {
	a := letters(word)
	best := min(max(len(a)/3, 1), 3) + 1
	for _, k := range known {
		b := letters(k)
		if len(a) == 0 || len(a)-len(b) >= best || len(b)-len(a) >= best {
			continue
		}
		if d := distance(a, b); d < best {
			best, found = d, k
		}
	}
	return found
}

const longest = 64 // what is longer is no word

func letters(s string) []rune {
	s = strings.NewReplacer("-", "", "_", "").Replace(strings.ToLower(s))
	if len(s) > longest {
		return nil
	}
	return []rune(s)
}

// distance counts letters that are changed, put in, left out, or swapped with the next one.
func distance(a, b []rune) int {
	before, last := make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := range a {
		row := make([]int, len(b)+1)
		row[0] = i + 1
		for j := range b {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			row[j+1] = min(last[j]+cost, last[j+1]+1, row[j]+1)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				row[j+1] = min(row[j+1], before[j-1]+1)
			}
		}
		before, last = last, row
	}
	return last[len(b)]
}
