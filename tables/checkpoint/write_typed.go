package checkpoint

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/txcoord/txcoord/tables"
)

// The table properties that say how a checkpoint keeps statistics.
const (
	propStatsJSON    = "delta.checkpoint.writeStatsAsJson"
	propStatsStruct  = "delta.checkpoint.writeStatsAsStruct"
	propIndexedCols  = "delta.dataSkippingNumIndexedCols"
	propStatsColumns = "delta.dataSkippingStatsColumns"
	propMapping      = "delta.columnMapping.mode"
)

// defaultIndexed is Delta's number of leaf columns that have statistics.
const defaultIndexed = 32

func statsAsJSON(m *tables.MetaData) bool {
	return !strings.EqualFold(m.Configuration[propStatsJSON], "false")
}

// typedColumns are stats_parsed and partitionValues_parsed; nil where there is none.
type typedColumns struct{ stats, partition *node }

func typedOf(c tables.CheckpointColumns) (out typedColumns, err error) {
	m := c.MetaData
	if !strings.EqualFold(m.Configuration[propStatsStruct], "true") || m.Schema == "" {
		return out, nil
	}
	var root structType
	if err := json.Unmarshal([]byte(m.Schema), &root); err != nil {
		return out, fmt.Errorf("schemaString: %w", err)
	}
	mapped := m.Configuration[propMapping]
	root.rename(mapped != "" && !strings.EqualFold(mapped, "none"))
	var data, partition []structField
	for _, f := range root.Fields {
		if slices.ContainsFunc(m.PartitionColumns, func(p string) bool { return strings.EqualFold(p, f.Name) }) {
			partition = append(partition, f)
		} else {
			data = append(data, f)
		}
	}
	pick, err := newPicker(m.Configuration)
	if err != nil {
		return out, err
	}
	out.stats = statsColumn(pick.fields(data, nil), slices.Contains(c.Protocol.WriterFeatures, "deletionVectors"))
	out.partition = partitionColumn(partition)
	return out, nil
}

// structType and structField are Spark's schema JSON, as far as we need it.
type structType struct {
	Type   string        `json:"type"`
	Fields []structField `json:"fields"`
}

type structField struct {
	Name     string                     `json:"name"`
	Type     json.RawMessage            `json:"type"`
	Metadata map[string]json.RawMessage `json:"metadata"`

	// physical is the name that files and statistics use.
	physical string
	// primitive is the type's name; empty for structs, arrays and maps.
	primitive string
	// nested is set for a struct.
	nested *structType
}

func (t *structType) rename(mapped bool) {
	for i := range t.Fields {
		f := &t.Fields[i]
		f.physical = f.Name
		var physical string
		if mapped && json.Unmarshal(f.Metadata["delta.columnMapping.physicalName"], &physical) == nil && physical != "" {
			f.physical = physical
		}
		if json.Unmarshal(f.Type, &f.primitive) == nil {
			f.primitive = strings.ReplaceAll(f.primitive, " ", "")
			continue
		}
		var nested structType
		if json.Unmarshal(f.Type, &nested) == nil && nested.Type == "struct" {
			nested.rename(mapped)
			f.nested = &nested
		}
	}
}

// picker chooses the columns that have statistics.
type picker struct {
	left  int        // leaf columns that may still be taken; below 0: all
	named [][]string // delta.dataSkippingStatsColumns, if it is set
}

func newPicker(config map[string]string) (*picker, error) {
	if v, ok := config[propStatsColumns]; ok {
		return &picker{left: -1, named: columnNames(v)}, nil
	}
	v, ok := config[propIndexedCols]
	if !ok {
		return &picker{left: defaultIndexed}, nil
	}
	n, err := strconv.Atoi(v)
	if err != nil {
		return nil, fmt.Errorf("%s is %q, which is not a number", propIndexedCols, v)
	}
	return &picker{left: n}, nil
}

// columnNames parts a list of columns at its commas, and each name at its dots;
// backticks keep a part together, and a doubled one stands for itself.
func columnNames(list string) (out [][]string) {
	var path []string
	var part strings.Builder
	quoted := false
	end := func() {
		path = append(path, strings.TrimSpace(part.String()))
		part.Reset()
	}
	for i := 0; i < len(list); i++ {
		switch c := list[i]; {
		case c == '`' && quoted && i+1 < len(list) && list[i+1] == '`':
			part.WriteByte('`')
			i++
		case c == '`':
			quoted = !quoted
		case c == '.' && !quoted:
			end()
		case c == ',' && !quoted:
			end()
			out, path = append(out, path), nil
		default:
			part.WriteByte(c)
		}
	}
	end()
	return append(out, path)
}

// fields are those that are taken, structs with the part of them that is.
func (p *picker) fields(in []structField, above []string) (out []structField) {
	for _, f := range in {
		path := append(slices.Clone(above), f.Name)
		if f.nested != nil {
			f.nested = &structType{Fields: p.fields(f.nested.Fields, path)}
			if len(f.nested.Fields) > 0 {
				out = append(out, f)
			}
			continue
		}
		if p.takes(path) {
			out = append(out, f)
		}
	}
	return out
}

func (p *picker) takes(path []string) bool {
	if p.named != nil {
		return slices.ContainsFunc(p.named, func(name []string) bool {
			return len(name) <= len(path) && slices.EqualFunc(name, path[:len(name)], strings.EqualFold)
		})
	}
	if p.left == 0 {
		return false
	}
	p.left--
	return true
}

// statsColumn is stats_parsed: bounds for the types that have an order which
// readers use, null counts for all.
func statsColumn(columns []structField, vectors bool) *node {
	children := []*node{lenient(long("numRecords"))}
	if vectors {
		children = append(children, lenient(flag("tightBounds")))
	}
	for _, g := range []struct {
		name string
		leaf func(f structField) *node
	}{
		{"minValues", func(f structField) *node { return boundColumn(f, false) }},
		{"maxValues", func(f structField) *node { return boundColumn(f, true) }},
		{"nullCount", func(f structField) *node { return lenient(long(f.physical)) }},
	} {
		if n := statsGroup(g.name, columns, g.leaf); n != nil {
			children = append(children, n)
		}
	}
	return lenient(plainGroup("stats_parsed", children...))
}

func statsGroup(name string, columns []structField, leaf func(structField) *node) *node {
	var children []*node
	for _, f := range columns {
		var n *node
		if f.nested != nil {
			n = statsGroup(f.physical, f.nested.Fields, leaf)
		} else {
			n = leaf(f)
		}
		if n != nil {
			children = append(children, n)
		}
	}
	if children == nil {
		return nil
	}
	return lenient(plainGroup(name, children...))
}

// boundColumn is nil for a type that has no bounds.
func boundColumn(f structField, upper bool) *node {
	switch f.primitive {
	case "boolean", "binary":
		return nil
	}
	t, err := typeOf(f.primitive)
	if err != nil {
		return nil
	}
	return lenient(t.node(f.physical, func(raw []byte) (string, error) { return literal(raw) }, upper))
}

// literal is the text of a JSON string or number.
func literal(raw []byte) (string, error) {
	if len(raw) == 0 || raw[0] == '{' || raw[0] == '[' {
		return "", errors.New("is not a value")
	}
	if raw[0] != '"' {
		return string(raw), nil
	}
	s, err := unquoted(raw)
	return string(s), err
}

// partitionColumn is partitionValues_parsed. Either all columns can be typed or
// there is none: readers take a missing value for null.
func partitionColumn(columns []structField) *node {
	var children []*node
	for _, f := range columns {
		t, err := typeOf(f.primitive)
		if err != nil || f.primitive == "timestamp" || f.primitive == "binary" {
			return nil
		}
		children = append(children, lenient(t.node(f.physical, partitionText, false)))
	}
	if children == nil {
		return nil
	}
	return lenient(plainGroup("partitionValues_parsed", children...))
}

// partitionText: an empty string is null, whatever the type.
func partitionText(raw []byte) (string, error) {
	s, err := literal(raw)
	if err == nil && s == "" {
		err = errors.New("is null")
	}
	return s, err
}
