package tables

import (
	"errors"
	"unicode/utf8"
)

// CheckJSON errs unless a text is one JSON value that all who read it read alike: in
// UTF-8, no name twice in one object at any depth, no half of a surrogate pair. The
// error says where in words; a text that ends too early, or holds no JSON, is left to
// whoever decodes it.
func CheckJSON(text []byte) error {
	if !utf8.Valid(text) {
		return errors.New("it is not valid UTF-8")
	}
	c := cursor{b: text, unique: new(names), whole: true}
	// A file of a client's wraps actions, which may be maxDepth deep themselves.
	err := c.skip(-wrapped)
	if fe, ok := errors.AsType[*fieldError](err); ok {
		return &placeError{fe, c.i}
	}
	return nil
}

// wrapped is how much deeper than a line a text that holds lines may be.
const wrapped = 8

// placeError says where in a text something is wrong.
type placeError struct {
	*fieldError
	at int
}

// Offset is how many bytes of the text were read.
func (e *placeError) Offset() int64 { return int64(e.at) }

func (e *placeError) Error() string {
	text := e.fieldError.Error()
	if e.value != "" {
		text = e.field + ": " + e.value + ": " + e.reason
	}
	if e.remedy != "" {
		text += "; " + e.remedy
	}
	return text
}
