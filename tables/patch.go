package tables

import (
	"fmt"
	"slices"
	"unicode/utf16"
)

// patch changes members of objects in a JSON text and leaves every other byte as it
// is: unknown fields, 64-bit integers and the spelling of strings survive.
type patch struct {
	text  []byte
	edits []edit
}

// edit puts a text in the place of another.
type edit struct {
	from, to int
	with     []byte
}

// jsonObject is an object in the text: the places of its members' values by name, and
// of its closing brace.
type jsonObject struct {
	from, close int
	members     []memberAt
	grown       bool // members were put in
}

type memberAt struct {
	name     string
	from, to int
}

// objectAt reads the object that begins at a place of the text.
func (p *patch) objectAt(at int) (*jsonObject, error) {
	c := cursor{b: p.text, i: at}
	if err := c.open('{'); err != nil {
		return nil, err
	}
	out := &jsonObject{from: at}
	for n := 0; ; {
		name, more, err := c.key(&n)
		if err != nil {
			return nil, err
		}
		if !more {
			out.close = c.i - 1
			return out, nil
		}
		value, err := c.value()
		if err != nil {
			return nil, err
		}
		out.members = append(out.members, memberAt{string(name), c.i - len(value), c.i})
	}
}

// action opens the object of an action line.
func (p *patch) action(name string) (*jsonObject, error) {
	line, err := p.objectAt(0)
	if err != nil {
		return nil, err
	}
	m, ok := line.member(name)
	if !ok {
		return nil, fmt.Errorf("there is no %s in the line", name)
	}
	return p.objectAt(m.from)
}

// member finds a member; the last one of a name counts, as for everybody who reads it.
func (o *jsonObject) member(name string) (memberAt, bool) {
	for _, m := range slices.Backward(o.members) {
		if m.name == name {
			return m, true
		}
	}
	return memberAt{}, false
}

// set gives a member a raw value, or adds it at the object's end.
func (p *patch) set(o *jsonObject, name string, value []byte) {
	if m, ok := o.member(name); ok {
		p.edits = append(p.edits, edit{m.from, m.to, value})
		return
	}
	var with []byte
	if len(o.members) > 0 || o.grown {
		with = append(with, ',')
	}
	o.grown = true
	with = append(appendQuoted(with, name), ':')
	p.edits = append(p.edits, edit{o.close, o.close, append(with, value...)})
}

// setInt is set for an integer.
func (p *patch) setInt(o *jsonObject, name string, n int64) { p.set(o, name, appendInt(nil, n)) }

// apply returns the text with all edits, in memory of its own.
func (p *patch) apply() []byte {
	slices.SortStableFunc(p.edits, func(a, b edit) int { return a.from - b.from })
	size := len(p.text)
	for _, e := range p.edits {
		size += len(e.with)
	}
	out, at := make([]byte, 0, size), 0
	for _, e := range p.edits {
		out = append(append(out, p.text[at:e.from]...), e.with...)
		at = e.to
	}
	return append(out, p.text[at:]...)
}

// patchString is a patch of the JSON text inside a string of another JSON text. Its
// edits, which may hold no character that a string escapes, go to the outer text.
func (p *patch) patchString(m memberAt) (inner *patch, done func()) {
	text, places := unquoteMapped(p.text[m.from+1:m.to-1], m.from+1)
	inner = &patch{text: text}
	return inner, func() {
		for _, e := range inner.edits {
			p.edits = append(p.edits, edit{places[e.from], places[e.to], e.with})
		}
	}
}

// unquoteMapped is unquote that also says where each byte of the text came from.
func unquoteMapped(raw []byte, at int) (text []byte, places []int) {
	for i := 0; i < len(raw); {
		n := 1
		if raw[i] == '\\' {
			n = escapeLen(raw[i:])
			if n == 6 && utf16.IsSurrogate(hex4(raw[i+2:])) && escapeLen(raw[i+6:]) == 6 {
				n = 12 // a pair
			}
		}
		text = unquote(text, raw[i:i+n])
		for len(places) < len(text) {
			places = append(places, at+i)
		}
		i += n
	}
	return text, append(places, at+len(raw))
}
