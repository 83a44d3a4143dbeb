package tables

import "bytes"

// A member that is there twice in one JSON object is read as the last one by some engines
// (Jackson), refused by others (serde), and as the first by a few tools. So what clients
// stage has none anywhere, and of what others wrote it counts as malformed where we read
// one of the two.

// uniqueNames errs if some object in a JSON text has a name twice, however it is escaped.
func uniqueNames(text []byte) error { return new(names).check(text) }

// uniqueFolded counts names that differ in case as one, for what is read by encoding/json,
// which does not tell them apart where a struct has one of them.
func uniqueFolded(text []byte) error { return (&names{fold: true}).check(text) }

// names are those of the objects that a cursor is in, which then may not be there twice.
type names struct {
	all  [][]byte
	fold bool
}

func (s *names) check(text []byte) error {
	c := cursor{b: text, unique: s}
	if err := c.skip(0); err != nil {
		return err
	}
	return c.end()
}

// scope is an object that the cursor is in: where its names begin, and, where they are many,
// those names in lower case.
type scope struct {
	from int
	wide map[string]bool
}

// manyNames is from how many members on names are looked up in a map.
const manyNames = 32

func (c *cursor) enter() scope {
	if c.unique == nil {
		return scope{}
	}
	return scope{from: len(c.unique.all)}
}

func (c *cursor) leave(o scope) {
	if c.unique != nil {
		c.unique.all = c.unique.all[:o.from]
	}
}

// once notes a member's name.
func (c *cursor) once(o *scope, name []byte) error {
	s := c.unique
	if s == nil {
		return nil
	}
	before := s.all[o.from:]
	s.all = append(s.all, name)
	if len(before) < manyNames {
		if s.among(before, name) {
			return twice(name)
		}
		return nil
	}
	if o.wide == nil {
		o.wide = map[string]bool{}
		for _, other := range before {
			o.wide[lower(other)] = true
		}
	}
	key := lower(name)
	if o.wide[key] && s.among(before, name) {
		return twice(name)
	}
	o.wide[key] = true
	return nil
}

func lower(name []byte) string { return string(bytes.ToLower(name)) }

func (s *names) among(all [][]byte, name []byte) bool {
	for _, other := range all {
		if string(other) == string(name) || s.fold && bytes.EqualFold(other, name) {
			return true
		}
	}
	return false
}

func twice(name []byte) error {
	return &fieldError{field: cut(name), reason: "is there twice in one object, and engines differ in which one counts", remedy: "write it once"}
}
