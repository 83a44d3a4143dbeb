package checkpoint

import (
	"fmt"
	"strconv"
	"unicode/utf8"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
)

// node is a column, with how a JSON value that is not null gets into it. Every
// column may be null.
type node struct {
	name string
	typ  arrow.DataType
	put  func(b array.Builder, raw []byte) error
}

func (n *node) field() arrow.Field {
	return arrow.Field{Name: n.name, Type: n.typ, Nullable: true}
}

func text(name string) *node {
	return &node{name, arrow.BinaryTypes.String, func(b array.Builder, raw []byte) error {
		s, err := unquoted(raw)
		if err == nil {
			b.(*array.StringBuilder).BinaryBuilder.Append(s)
		}
		return err
	}}
}

func long(name string) *node {
	return &node{name, arrow.PrimitiveTypes.Int64, func(b array.Builder, raw []byte) error {
		v, err := integer(raw, 64)
		if err == nil {
			b.(*array.Int64Builder).Append(v)
		}
		return err
	}}
}

func number(name string) *node {
	return &node{name, arrow.PrimitiveTypes.Int32, func(b array.Builder, raw []byte) error {
		v, err := integer(raw, 32)
		if err == nil {
			b.(*array.Int32Builder).Append(int32(v))
		}
		return err
	}}
}

func integer(raw []byte, bits int) (int64, error) {
	v, err := strconv.ParseInt(string(raw), 10, bits)
	if err != nil {
		return 0, fmt.Errorf("%s is not a %d-bit integer", clip(raw), bits)
	}
	return v, nil
}

func flag(name string) *node {
	return &node{name, arrow.FixedWidthTypes.Boolean, func(b array.Builder, raw []byte) error {
		v := string(raw) == "true"
		if !v && string(raw) != "false" {
			return fmt.Errorf("%s is not a boolean", clip(raw))
		}
		b.(*array.BooleanBuilder).Append(v)
		return nil
	}}
}

// texts is a list of strings.
func texts(name string) *node {
	element := text("element")
	return &node{name, arrow.ListOfField(element.field()), func(b array.Builder, raw []byte) error {
		list := b.(*array.ListBuilder)
		list.Append(true)
		return elements(raw, func(value []byte) error { return orNull(element, list.ValueBuilder(), value) })
	}}
}

// pairs is a map from strings to strings. Values that are none are taken by their
// own text, as Spark does.
func pairs(name string) *node {
	return &node{name, arrow.MapOf(arrow.BinaryTypes.String, arrow.BinaryTypes.String), func(b array.Builder, raw []byte) error {
		m := b.(*array.MapBuilder)
		m.Append(true)
		keys, items := m.KeyBuilder().(*array.StringBuilder), m.ItemBuilder().(*array.StringBuilder)
		return members(raw, func(name, value []byte) error {
			var err error
			if len(value) > 0 && value[0] == '"' {
				value, err = unquoted(value)
			} else if !utf8.Valid(value) {
				err = errUTF8
			}
			keys.BinaryBuilder.Append(name)
			if value == nil {
				items.AppendNull()
				return err
			}
			items.BinaryBuilder.Append(value)
			return err
		})
	}}
}

func orNull(n *node, b array.Builder, raw []byte) error {
	if raw == nil {
		b.AppendNull()
		return nil
	}
	return n.put(b, raw)
}

// lenient makes null of what does not fit: for statistics, which are hints.
func lenient(n *node) *node {
	put := n.put
	n.put = func(b array.Builder, raw []byte) error {
		if put(b, raw) != nil {
			b.AppendNull()
		}
		return nil
	}
	return n
}

// fields collects the raw values of an object's members by their place.
type fields struct {
	places map[string]int
	values [][]byte
}

func (f *fields) read(raw []byte) error {
	clear(f.values)
	return members(raw, func(name, value []byte) error {
		if i, ok := f.places[string(name)]; ok {
			f.values[i] = value
		}
		return nil
	})
}

// group is a struct. derive, if set, may change the values of its fields before
// they are put. extra names members that have no column, and whose values stand
// behind those of the fields for derive to use.
func group(name string, children []*node, extra []string, derive func(values [][]byte)) *node {
	f := &fields{places: map[string]int{}, values: make([][]byte, len(children)+len(extra))}
	var columns []arrow.Field
	for i, c := range children {
		columns = append(columns, c.field())
		f.places[c.name] = i
	}
	for i, member := range extra {
		f.places[member] = len(children) + i
	}
	return &node{name, arrow.StructOf(columns...), func(b array.Builder, raw []byte) error {
		if err := f.read(raw); err != nil {
			return err
		}
		if derive != nil {
			derive(f.values)
		}
		s := b.(*array.StructBuilder)
		s.Append(true)
		for i, c := range children {
			if err := orNull(c, s.FieldBuilder(i), f.values[i]); err != nil {
				return fmt.Errorf("%s: %w", c.name, err)
			}
		}
		return nil
	}}
}

func plainGroup(name string, children ...*node) *node { return group(name, children, nil, nil) }

func clip(raw []byte) string {
	const limit = 60
	if len(raw) > limit {
		return string(raw[:limit]) + "…"
	}
	return string(raw)
}
