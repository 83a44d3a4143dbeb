package datafile

import "fmt"

// renderer assembles rows as JSON from the leaves' entries. Each method consumes
// exactly the entries that belong to its column in the current row.
type renderer struct {
	buf []byte
	err error
}

// row renders the next row, of so many that the row group still has. In files whose rows
// are of several kinds nearly all columns have nothing, over thousands of rows: those are
// passed at once.
func (p *renderer) row(root *column, left int64) {
	for _, ch := range root.children {
		if ch.absent == 0 {
			ch.absent = ch.passAbsent(left)
		}
	}
	p.group(root)
}

// passAbsent passes the entries of the next rows, at most so many, in which no leaf below
// the column has anything. An entry of level 0 is a row of its own.
func (c *column) passAbsent(rows int64) int64 {
	if c.def == 0 || c.first().absent(1) == 0 {
		return 0
	}
	leaves := c.leaves(nil)
	for _, l := range leaves {
		if l.absent(1) == 0 {
			return 0 // before any are counted: in a damaged file it may be so in each row
		}
	}
	for _, l := range leaves {
		rows = l.absent(rows)
	}
	for _, l := range leaves {
		l.i += int(rows)
	}
	return rows
}

func (p *renderer) group(c *column) {
	p.buf = append(p.buf, '{')
	comma := false
	for _, ch := range c.children {
		ch.wrote = false
		if ch.absent > 0 {
			ch.absent--
			continue
		}
		if ch.first().level() < ch.def || (ch.unless != nil && ch.unless.wrote) {
			p.skip(ch)
			continue
		}
		if comma {
			p.buf = append(p.buf, ',')
		}
		comma, ch.wrote = true, true
		p.string([]byte(ch.name))
		p.buf = append(p.buf, ':')
		p.field(ch)
	}
	p.buf = append(p.buf, '}')
}

func (p *renderer) field(c *column) {
	start := len(p.buf)
	p.value(c)
	if c.text {
		inner := string(p.buf[start:])
		p.buf = p.buf[:start]
		p.string([]byte(inner))
	}
}

// value renders a column whose value is there.
func (p *renderer) value(c *column) {
	switch c.kind {
	case kindLeaf:
		p.leaf(c.leaf)
	case kindGroup:
		p.group(c)
	case kindList:
		p.entries(c, '[', ']', func() { p.orNull(c.children[0]) })
	case kindMap:
		p.entries(c, '{', '}', func() { p.pair(c) })
	}
}

func (p *renderer) leaf(l *leaf) {
	if !l.more() {
		l.level()
		return
	}
	var err error
	p.buf, err = l.render(p.buf, l.v)
	if err != nil && p.err == nil {
		p.err = fmt.Errorf("column %s: %w", l.path, err)
	}
	l.next()
}

// entries renders a list or a map. An empty one takes one entry of every leaf below it.
func (p *renderer) entries(c *column, begin, end byte, one func()) {
	p.buf = append(p.buf, begin)
	first := c.first()
	if first.level() < c.entry {
		p.drop(c)
		p.buf = append(p.buf, end)
		return
	}
	one()
	for first.repeats(c.rep) {
		p.buf = append(p.buf, ',')
		one()
	}
	p.buf = append(p.buf, end)
}

func (p *renderer) orNull(c *column) {
	if c.first().level() < c.def {
		p.buf = append(p.buf, "null"...)
		p.skip(c)
		return
	}
	p.value(c)
}

// pair renders a map's entry. A key that is no string is rendered as its own text.
func (p *renderer) pair(c *column) {
	start := len(p.buf)
	p.orNull(c.children[0])
	if len(p.buf) == start || p.buf[start] != '"' {
		key := string(p.buf[start:])
		p.buf = p.buf[:start]
		p.string([]byte(key))
	}
	p.buf = append(p.buf, ':')
	if len(c.children) == 1 {
		p.buf = append(p.buf, "null"...)
		return
	}
	p.orNull(c.children[1])
}

// skip consumes a column's entries of the current row, whether or not it has values.
func (p *renderer) skip(c *column) {
	if c.first().level() < c.def || c.kind == kindLeaf {
		p.drop(c)
		return
	}
	keep := len(p.buf)
	p.value(c)
	p.buf = p.buf[:keep]
}

// drop consumes one entry of every leaf below c: what a null or empty column has.
func (p *renderer) drop(c *column) {
	if c.leaf != nil {
		c.leaf.next()
		return
	}
	for _, ch := range c.children {
		p.drop(ch)
	}
}

func (p *renderer) string(s []byte) {
	var err error
	if p.buf, err = appendString(p.buf, s); err != nil && p.err == nil {
		p.err = err
	}
}
