package checkpoint

import (
	"errors"
	"unicode/utf16"
	"unicode/utf8"
)

var (
	errSyntax = errors.New("is not JSON")
	errUTF8   = errors.New("is not valid UTF-8")
)

// maxDepth bounds nesting, and with it the recursion.
const maxDepth = 128

// scanner walks over a JSON text that somebody checked before: it never reads past
// the end, but takes numbers and words as they come. Values are slices of the text.
type scanner struct {
	b []byte
	i int
	// short: the text ended where an entry or a bracket should have been.
	short bool
}

func (s *scanner) peek() byte {
	for s.i < len(s.b) {
		switch s.b[s.i] {
		case ' ', '\t', '\r', '\n':
			s.i++
		default:
			return s.b[s.i]
		}
	}
	return 0
}

func (s *scanner) open(bracket byte) bool {
	if s.peek() != bracket {
		return false
	}
	s.i++
	return true
}

// more moves behind the comma in front of the next entry; false at the closing
// bracket, and at the end of a text that breaks off.
func (s *scanner) more(closing byte) bool {
	c := s.peek()
	if c == ',' {
		s.i++
		c = s.peek()
	}
	if c == closing {
		s.i++
		return false
	}
	s.short = s.short || c == 0
	return c != 0
}

func (s *scanner) end() error {
	if s.short {
		return errSyntax
	}
	return nil
}

// key reads a member's name and its colon.
func (s *scanner) key() ([]byte, error) {
	if s.peek() != '"' {
		return nil, errSyntax
	}
	raw, err := s.value(0)
	if err != nil {
		return nil, err
	}
	if s.peek() != ':' {
		return nil, errSyntax
	}
	s.i++
	return unquoted(raw)
}

// value passes over the next value and returns it.
func (s *scanner) value(depth int) ([]byte, error) {
	c := s.peek()
	start := s.i
	var err error
	switch {
	case depth > maxDepth || c == 0:
		err = errSyntax
	case c == '"':
		err = s.quoted()
	case c == '{':
		err = s.nested('}', true, depth)
	case c == '[':
		err = s.nested(']', false, depth)
	default:
		err = s.bare()
	}
	return s.b[start:s.i], err
}

func (s *scanner) quoted() error {
	for i := s.i + 1; i < len(s.b); i++ {
		switch s.b[i] {
		case '\\':
			i++
		case '"':
			s.i = i + 1
			return nil
		}
	}
	return errSyntax
}

func (s *scanner) nested(closing byte, named bool, depth int) error {
	s.i++
	for s.more(closing) {
		if named {
			if _, err := s.key(); err != nil {
				return err
			}
		}
		if _, err := s.value(depth + 1); err != nil {
			return err
		}
	}
	return s.end()
}

// bare passes over a number or a word.
func (s *scanner) bare() error {
	start := s.i
	for s.i < len(s.b) {
		switch s.b[s.i] {
		case ',', '}', ']', ':', '"', '{', '[', ' ', '\t', '\r', '\n':
			if s.i == start {
				return errSyntax
			}
			return nil
		}
		s.i++
	}
	return nil
}

// members calls f for each member of an object whose value is not null.
func members(raw []byte, f func(name, value []byte) error) error {
	s := scanner{b: raw}
	if !s.open('{') {
		return errors.New("is not an object")
	}
	for s.more('}') {
		name, err := s.key()
		if err != nil {
			return err
		}
		value, err := s.value(0)
		if err != nil {
			return err
		}
		if isNull(value) {
			value = nil
		}
		if err := f(name, value); err != nil {
			return err
		}
	}
	return s.end()
}

// elements calls f for each element of an array; nil stands for null.
func elements(raw []byte, f func(value []byte) error) error {
	s := scanner{b: raw}
	if !s.open('[') {
		return errors.New("is not an array")
	}
	for s.more(']') {
		value, err := s.value(0)
		if err != nil {
			return err
		}
		if isNull(value) {
			value = nil
		}
		if err := f(value); err != nil {
			return err
		}
	}
	return s.end()
}

func isNull(raw []byte) bool { return string(raw) == "null" }

// unquoted is the text of a JSON string. It shares the value's memory where there
// is no escape in it.
func unquoted(raw []byte) ([]byte, error) {
	if len(raw) < 2 || raw[0] != '"' {
		return nil, errors.New("is not a string")
	}
	raw = raw[1 : len(raw)-1]
	text := raw
	for i, c := range raw {
		if c == '\\' {
			text = unescaped(append(make([]byte, 0, len(raw)), raw[:i]...), raw[i:])
			break
		}
	}
	if !utf8.Valid(text) {
		return nil, errUTF8
	}
	return text, nil
}

var escapes = [256]byte{'b': '\b', 'f': '\f', 'n': '\n', 'r': '\r', 't': '\t', '"': '"', '\\': '\\', '/': '/'}

// halfPair stands for half a surrogate pair, which Parquet has no text for: with U+FFFD
// the checkpoint would name another file than the log. It is no UTF-8, so the text is refused.
const halfPair = 0xff

func unescaped(dst, raw []byte) []byte {
	for i := 0; i < len(raw); i++ {
		if raw[i] != '\\' || i+1 == len(raw) {
			dst = append(dst, raw[i])
			continue
		}
		i++
		if raw[i] != 'u' {
			dst = append(dst, escapes[raw[i]])
			continue
		}
		r := hex4(raw[i+1:])
		i += 4
		if !utf16.IsSurrogate(r) {
			dst = utf8.AppendRune(dst, r)
			continue
		}
		if i+2 >= len(raw) || raw[i+1] != '\\' || raw[i+2] != 'u' || utf16.DecodeRune(r, hex4(raw[i+3:])) == utf8.RuneError {
			dst = append(dst, halfPair)
			continue
		}
		dst = utf8.AppendRune(dst, utf16.DecodeRune(r, hex4(raw[i+3:])))
		i += 6
	}
	return dst
}

// hex4 reads four hex digits; what is none makes a rune that is none.
func hex4(b []byte) rune {
	if len(b) < 4 {
		return utf8.RuneError
	}
	var r rune
	for _, h := range b[:4] {
		switch {
		case '0' <= h && h <= '9':
			h -= '0'
		case 'a' <= h|0x20 && h|0x20 <= 'f':
			h = h | 0x20 - 'a' + 10
		default:
			return utf8.RuneError
		}
		r = r<<4 | rune(h)
	}
	return r
}
