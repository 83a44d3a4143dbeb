package datafile

import (
	"errors"
	"fmt"
	"strings"

	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/schema"
)

type kind uint8

const (
	kindLeaf kind = iota
	kindGroup
	kindList
	kindMap
)

// column is a node of the tree that rows are assembled by. Definition and
// repetition levels are those of the Parquet format ("Dremel").
type column struct {
	name string
	kind kind
	// def is the definition level from which on the value is there (not null).
	def int16
	// entry and rep belong to lists and maps: the definition level from which on
	// there is an entry at all, and the repetition level of a further entry.
	entry, rep int16
	// children: the fields of a group, the element of a list, key and value of a map.
	children []*column
	leaf     *leaf
	// text and unless carry Select.Text: rendered inside a string, unless that sibling was.
	text   bool
	unless *column
	wrote  bool
	// absent counts the next rows that have nothing of the column, and whose entries are
	// passed already. Columns of the top level only.
	absent int64
}

// first is the leftmost leaf, whose levels stand for the whole column.
func (c *column) first() *leaf {
	for c.leaf == nil {
		c = c.children[0]
	}
	return c.leaf
}

func (c *column) leaves(to []*leaf) []*leaf {
	if c.leaf != nil {
		return append(to, c.leaf)
	}
	for _, ch := range c.children {
		to = ch.leaves(to)
	}
	return to
}

type treeBuilder struct {
	schema *schema.Schema
	sel    Select
}

// ErrNoColumns: nothing in the file is what was selected.
var ErrNoColumns = errors.New("the file has none of the columns asked for")

func buildTree(s *schema.Schema, sel Select) (*column, error) {
	b := treeBuilder{schema: s, sel: sel}
	root, err := b.group(s.Root(), "", level{})
	if err != nil {
		return nil, err
	}
	if root == nil {
		return nil, ErrNoColumns
	}
	return root, nil
}

// level is the pair of levels at which a node stands.
type level struct{ def, rep int16 }

// under is the level of a node below l.
func (l level) under(n schema.Node) level {
	switch n.RepetitionType() {
	case parquet.Repetitions.Optional:
		l.def++
	case parquet.Repetitions.Repeated:
		l.def++
		l.rep++
	}
	return l
}

// node builds the column for n, or nil if none of it is kept.
func (b treeBuilder) node(n schema.Node, path string, at level) (*column, error) {
	if b.sel.Keep != nil && !b.sel.Keep(path) {
		return nil, nil
	}
	if n.RepetitionType() == parquet.Repetitions.Repeated {
		return b.bareList(n, path, at)
	}
	c, err := b.value(n, path, at.under(n))
	if c != nil {
		c.name = n.Name()
	}
	return c, err
}

// value builds the column for n without regard to how n is repeated; at is n's own level.
func (b treeBuilder) value(n schema.Node, path string, at level) (*column, error) {
	g, ok := n.(*schema.GroupNode)
	if !ok {
		l, err := newLeaf(b.schema, n, path, b.sel.BinaryAsText)
		return &column{kind: kindLeaf, def: at.def, leaf: l}, err
	}
	switch n.LogicalType().(type) {
	case schema.ListLogicalType:
		return b.list(g, path, at)
	case schema.MapLogicalType:
		return b.mapping(g, path, at)
	}
	return b.group(g, path, at)
}

func (b treeBuilder) group(g *schema.GroupNode, path string, at level) (*column, error) {
	c := &column{kind: kindGroup, def: at.def}
	var texts []*column
	for i := range g.NumFields() {
		sub := join(path, g.Field(i).Name())
		ch, err := b.node(g.Field(i), sub, at)
		if err != nil {
			return nil, err
		}
		if ch == nil {
			continue
		}
		if name, ok := b.sel.Text[sub]; ok {
			ch.name, ch.text = name, true
			texts = append(texts, ch)
			continue
		}
		c.children = append(c.children, ch)
	}
	for _, t := range texts {
		t.unless = c.child(t.name)
		c.children = append(c.children, t)
	}
	if len(c.children) == 0 {
		return nil, nil
	}
	return c, nil
}

func (c *column) child(name string) *column {
	for _, ch := range c.children {
		if ch.name == name {
			return ch
		}
	}
	return nil
}

// bareList is a repeated field without a list around it: a list that cannot be null.
func (b treeBuilder) bareList(n schema.Node, path string, at level) (*column, error) {
	below := at.under(n)
	el, err := b.value(n, path, below)
	if el == nil || err != nil {
		return nil, err
	}
	return &column{name: n.Name(), kind: kindList, def: at.def, entry: below.def, rep: below.rep, children: []*column{el}}, nil
}

// list follows the format's rules for lists, the backward-compatible ones included:
// the repeated node is the element itself if it is no group, has several fields,
// or is named "array" or "<list>_tuple".
func (b treeBuilder) list(g *schema.GroupNode, path string, at level) (*column, error) {
	if g.NumFields() != 1 || g.Field(0).RepetitionType() != parquet.Repetitions.Repeated {
		return nil, fmt.Errorf("column %s: a list must have one repeated field", path)
	}
	rep := g.Field(0)
	below := at.under(rep)
	c := &column{kind: kindList, def: at.def, entry: below.def, rep: below.rep}
	sub := join(path, rep.Name())
	var el *column
	var err error
	if inner, ok := rep.(*schema.GroupNode); ok && inner.NumFields() == 1 &&
		rep.Name() != "array" && rep.Name() != g.Name()+"_tuple" {
		el, err = b.node(inner.Field(0), join(sub, inner.Field(0).Name()), below)
	} else {
		el, err = b.value(rep, sub, below)
	}
	if el == nil || err != nil {
		return nil, err
	}
	c.children = []*column{el}
	return c, nil
}

func (b treeBuilder) mapping(g *schema.GroupNode, path string, at level) (*column, error) {
	kv, ok := g.Field(0).(*schema.GroupNode)
	if !ok || g.NumFields() != 1 || kv.RepetitionType() != parquet.Repetitions.Repeated || kv.NumFields() < 1 || kv.NumFields() > 2 {
		return nil, fmt.Errorf("column %s: a map must have one repeated group of key and value", path)
	}
	below := at.under(kv)
	c := &column{kind: kindMap, def: at.def, entry: below.def, rep: below.rep}
	for i := range kv.NumFields() {
		ch, err := b.node(kv.Field(i), join(join(path, kv.Name()), kv.Field(i).Name()), below)
		if ch == nil || err != nil {
			return nil, err
		}
		c.children = append(c.children, ch)
	}
	return c, nil
}

func join(path, name string) string {
	return strings.TrimPrefix(path+"."+name, ".")
}
