package tables

import "fmt"

// A scanner for JSON that checks the whole grammar and copies as little as it can.
// Action lines go through it on every commit, and their bytes are published as
// they came: what is not read as a value is still checked, and 64-bit integers
// never become floats.

// maxDepth bounds nesting, and with it the recursion.
const maxDepth = 128

// cursor walks over one JSON text.
type cursor struct {
	b []byte
	i int
	// unique holds names where none may be there twice in one object; nil if that is of
	// no interest.
	unique *names
	// whole refuses strings with half a surrogate pair in them.
	whole bool
}

// syntaxError says where a text is not JSON.
type syntaxError struct {
	offset int
	what   string
}

func (e *syntaxError) Error() string {
	return fmt.Sprintf("not JSON at byte %d: %s", e.offset+1, e.what)
}

func (c *cursor) fail(what string) error { return &syntaxError{c.i, what} }

func (c *cursor) space() {
	for c.i < len(c.b) {
		switch c.b[c.i] {
		case ' ', '\t', '\r', '\n':
			c.i++
		default:
			return
		}
	}
}

// peek is the next byte that is not white space; 0 at the end.
func (c *cursor) peek() byte {
	c.space()
	if c.i >= len(c.b) {
		return 0
	}
	return c.b[c.i]
}

// end wants nothing but white space.
func (c *cursor) end() error {
	if c.peek() != 0 || c.i < len(c.b) {
		return c.fail("something follows the value")
	}
	return nil
}

// open enters an object or array.
func (c *cursor) open(bracket byte) error {
	if c.peek() != bracket {
		return c.fail("expected " + string(rune(bracket)))
	}
	c.i++
	return nil
}

// key moves to the next member of an object and returns its raw name (between
// the quotes, escapes as they stand); more is false at the object's end. n counts
// the members.
func (c *cursor) key(n *int) (name []byte, more bool, err error) {
	switch c.peek() {
	case '}':
		c.i++
		return nil, false, nil
	case ',':
		if *n == 0 {
			return nil, false, c.fail("unexpected comma")
		}
		c.i++
	default:
		if *n > 0 {
			return nil, false, c.fail("expected a comma")
		}
	}
	*n++
	if c.peek() != '"' {
		return nil, false, c.fail("expected a name in quotes")
	}
	name, escaped, err := c.quoted()
	if err != nil {
		return nil, false, err
	}
	if escaped {
		name = unquote(nil, name)
	}
	if c.peek() != ':' {
		return nil, false, c.fail("expected a colon")
	}
	c.i++
	return name, true, nil
}

// element moves to the next element of an array; false at its end.
func (c *cursor) element(n *int) (bool, error) {
	switch c.peek() {
	case ']':
		c.i++
		return false, nil
	case ',':
		if *n == 0 {
			return false, c.fail("unexpected comma")
		}
		c.i++
	default:
		if *n > 0 {
			return false, c.fail("expected a comma")
		}
	}
	*n++
	return true, nil
}

// quoted reads a string and returns what stands between the quotes.
func (c *cursor) quoted() (raw []byte, escaped bool, err error) {
	b, start := c.b, c.i+1
	for i := start; i < len(b); i++ {
		switch ch := b[i]; {
		case ch == '"':
			c.i = i + 1
			if c.whole && escaped && halved(b[start:i]) {
				return nil, false, errHalved(b[start:i])
			}
			return b[start:i], escaped, nil
		case ch < 0x20:
			c.i = i
			return nil, false, c.fail("control character in a string")
		case ch == '\\':
			escaped = true
			n := escapeLen(b[i:])
			if n == 0 {
				c.i = i
				return nil, false, c.fail("bad escape")
			}
			i += n - 1
		}
	}
	c.i = len(b)
	return nil, false, c.fail("string breaks off")
}

func escapeLen(b []byte) int {
	if len(b) < 2 {
		return 0
	}
	switch b[1] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return 2
	case 'u':
		if len(b) < 6 {
			return 0
		}
		for _, h := range b[2:6] {
			if unhex(h) < 0 {
				return 0
			}
		}
		return 6
	}
	return 0
}

// value passes over the next value and returns its bytes.
func (c *cursor) value() ([]byte, error) {
	c.space()
	start := c.i
	if err := c.skip(0); err != nil {
		return nil, err
	}
	return c.b[start:c.i], nil
}

func (c *cursor) skip(depth int) error {
	if depth > maxDepth {
		return c.fail("nested too deeply")
	}
	switch ch := c.peek(); ch {
	case '"':
		_, _, err := c.quoted()
		return err
	case '{':
		return c.skipObject(depth)
	case '[':
		return c.skipArray(depth)
	case 't':
		return c.word("true")
	case 'f':
		return c.word("false")
	case 'n':
		return c.word("null")
	case 0:
		if c.i >= len(c.b) {
			return c.fail("value is missing")
		}
	}
	return c.number()
}

func (c *cursor) skipObject(depth int) error {
	c.i++
	o := c.enter()
	defer c.leave(o)
	for n := 0; ; {
		name, more, err := c.key(&n)
		if err != nil || !more {
			return err
		}
		if err := c.once(&o, name); err != nil {
			return err
		}
		if err := c.skip(depth + 1); err != nil {
			return below(name, err)
		}
	}
}

func (c *cursor) skipArray(depth int) error {
	c.i++
	for n := 0; ; {
		more, err := c.element(&n)
		if err != nil || !more {
			return err
		}
		if err := c.skip(depth + 1); err != nil {
			return err
		}
	}
}

func (c *cursor) word(w string) error {
	if len(c.b)-c.i < len(w) || string(c.b[c.i:c.i+len(w)]) != w {
		return c.fail("unknown word")
	}
	c.i += len(w)
	return nil
}

func (c *cursor) number() error {
	start := c.i
	if c.at('-') {
		c.i++
	}
	whole := c.digits()
	if whole == 0 || whole > 1 && c.b[c.i-whole] == '0' {
		c.i = start
		return c.fail("expected a value")
	}
	if c.at('.') {
		c.i++
		if c.digits() == 0 {
			return c.fail("bad number")
		}
	}
	if c.at('e') || c.at('E') {
		c.i++
		if c.at('+') || c.at('-') {
			c.i++
		}
		if c.digits() == 0 {
			return c.fail("bad number")
		}
	}
	return nil
}

func (c *cursor) at(ch byte) bool { return c.i < len(c.b) && c.b[c.i] == ch }

func (c *cursor) digits() int {
	start := c.i
	for c.i < len(c.b) && '0' <= c.b[c.i] && c.b[c.i] <= '9' {
		c.i++
	}
	return c.i - start
}
