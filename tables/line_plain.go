package tables

import "bytes"

// plainAdd is how a line begins that nearly all lines of a checkpoint's LiveActions are.
const plainAdd = `{"add":{"path":"`

// plain is parse for an add that has nothing but a path without escapes and a size, in the
// form in which readers of checkpoints render it. It reports false, and leaves all to
// parse, where the line is not exactly that.
func (l *line) plain(text []byte) bool {
	rest, ok := bytes.CutPrefix(text, []byte(plainAdd))
	if !ok {
		return false
	}
	n := bytes.IndexByte(rest, '"')
	if n < 0 {
		return false
	}
	for _, ch := range rest[:n] {
		if ch < ' ' || ch == '\\' {
			return false
		}
	}
	digits, sized := bytes.CutPrefix(rest[n:], []byte(`","size":`))
	digits, ended := bytes.CutSuffix(digits, []byte("}}"))
	size, whole := intOf(digits)
	if !sized || !ended || !whole || digits[0] == '-' || digits[0] == '0' && len(digits) > 1 {
		return false
	}
	*l = line{
		seen: l.seen, kind: kindAdd, name: text[len(`{"`):len(`{"add`)], body: text[len(`{"add":`) : len(text)-1],
		has: hasPath | hasSize, path: rest[:n], size: size,
	}
	return true
}
