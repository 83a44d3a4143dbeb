package coordinator

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Texts that callers give are checked where they come in, and never where the journal
// is read: a catalog from before a rule keeps what it has.

// Bounds of texts, in bytes.
const (
	maxNameBytes = 255
	maxNoteBytes = 1024
)

// notText says why something is no line of text; empty if it is one. What moves a
// terminal's cursor, ends a line or turns the direction of what follows would make logs
// and lists say what they do not.
func notText(s string) string {
	if !utf8.ValidString(s) {
		return "is not valid UTF-8"
	}
	for i, r := range s {
		if unicode.IsControl(r) || r == '\u2028' || r == '\u2029' || turnsText(r) {
			return fmt.Sprintf("has the control character %U at byte %d", r, i+1)
		}
	}
	return ""
}

// turnsText: the embeddings, overrides and isolates of Unicode's bidirectional algorithm. Names
// in scripts that are written from right to left do without.
func turnsText(r rune) bool { return '\u202a' <= r && r <= '\u202e' || '\u2066' <= r && r <= '\u2069' }

// checkText is for notes and reasons, which may be empty.
func checkText(field, value string) error {
	if why := notText(value); why != "" {
		return fieldError(field, value, why, "use text of one line, in UTF-8")
	}
	return nil
}

// badName says why a name that a caller gives is none, be it a table's or a tag's.
func badName(name string) string {
	switch {
	case name == "":
		return "is missing"
	case len(name) > maxNameBytes:
		return fmt.Sprintf("is longer than %d bytes", maxNameBytes)
	case strings.TrimFunc(name, unicode.IsSpace) != name:
		return "begins or ends with a blank"
	}
	return notText(name)
}

// checkName is for new names of tables. Clients take a name for a URI, an id or a
// pattern by its looks, and some make a file or a part of a path of it.
func checkName(name string) error {
	why := badName(name)
	switch {
	case why != "":
	case isURI(name):
		why = "looks like a URI"
	case tableIDShape.MatchString(name):
		why = "looks like a table id"
	case name == "." || name == "..":
		why = "is a folder's"
	case strings.ContainsAny(name, `/\`):
		why = "has a slash"
	case strings.ContainsRune(name, '*'):
		why = "has a *, which stands for any name in access rules"
	case strings.ContainsRune(name, utf8.RuneError):
		why = "has the character for what could not be read"
	}
	if why == "" {
		return nil
	}
	return fieldError("name", name, why,
		"use 1 to 255 bytes of UTF-8 without control characters, slashes and *, no blank at the ends, not . or .., and not shaped like a URI or a table id")
}

// checkTag is for new names of snapshots.
func checkTag(name string) error {
	if why := badName(name); why != "" {
		return fieldError("tag", name, why, "use 1 to 255 bytes of UTF-8 without control characters, and no blank at the ends")
	}
	return nil
}
