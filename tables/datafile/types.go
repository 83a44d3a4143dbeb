package datafile

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/apache/arrow-go/v18/parquet"
)

// dataType is a type of Delta's schema language. Names are those of the schema
// JSON; a file's type that Delta has not keeps the name that Parquet gives it.
type dataType struct {
	// name of a primitive ("long", "decimal(10,2)"), or struct, array, map.
	name string
	// fields of a struct.
	fields []field
	// parts: the element of an array; key and value of a map.
	parts []field
}

// field is a column, of a table or of a file.
type field struct {
	name string
	// physical is the name that files use; name itself without column mapping.
	physical string
	typ      dataType
	// nullable: nulls are allowed (a table), or cannot be ruled out (a file).
	nullable bool
	// leaf is the file's column that holds a primitive; nil on a table's side.
	leaf *leaf
}

const physicalNameKey = "delta.columnMapping.physicalName"

// parseSchema reads a metaData action's schemaString.
func parseSchema(schemaString string) (dataType, error) {
	var t dataType
	if err := json.Unmarshal([]byte(schemaString), &t); err != nil {
		return t, fmt.Errorf("parse schema: %w", err)
	}
	if t.name != "struct" {
		return t, fmt.Errorf("parse schema: the top level is %q, not a struct", t.name)
	}
	return t, nil
}

type fieldJSON struct {
	Name     string                     `json:"name"`
	Type     dataType                   `json:"type"`
	Nullable bool                       `json:"nullable"`
	Metadata map[string]json.RawMessage `json:"metadata"`
}

type nestedJSON struct {
	Type              string      `json:"type"`
	Fields            []fieldJSON `json:"fields"`
	ElementType       *dataType   `json:"elementType"`
	ContainsNull      bool        `json:"containsNull"`
	KeyType           *dataType   `json:"keyType"`
	ValueType         *dataType   `json:"valueType"`
	ValueContainsNull bool        `json:"valueContainsNull"`
}

// UnmarshalJSON reads a type: a name, or an object for struct, array and map.
func (t *dataType) UnmarshalJSON(b []byte) error {
	if err := json.Unmarshal(b, &t.name); err == nil {
		t.name = strings.ReplaceAll(t.name, " ", "")
		return nil
	}
	var n nestedJSON
	if err := json.Unmarshal(b, &n); err != nil {
		return err
	}
	t.name = n.Type
	switch {
	case n.Type == "struct":
		return t.setFields(n.Fields)
	case n.Type == "array" && n.ElementType != nil:
		t.parts = []field{{name: "element", typ: *n.ElementType, nullable: n.ContainsNull}}
	case n.Type == "map" && n.KeyType != nil && n.ValueType != nil:
		t.parts = []field{
			{name: "key", typ: *n.KeyType},
			{name: "value", typ: *n.ValueType, nullable: n.ValueContainsNull},
		}
	default:
		return fmt.Errorf("type %q is incomplete or unknown", n.Type)
	}
	return nil
}

func (t *dataType) setFields(fields []fieldJSON) error {
	for _, f := range fields {
		to := field{name: f.Name, physical: f.Name, typ: f.Type, nullable: f.Nullable}
		if raw, ok := f.Metadata[physicalNameKey]; ok {
			if err := json.Unmarshal(raw, &to.physical); err != nil {
				return fmt.Errorf("field %s: %s: %w", f.Name, physicalNameKey, err)
			}
		}
		if to.name == "" || to.physical == "" || to.typ.name == "" {
			return errors.New("a field lacks its name or type")
		}
		t.fields = append(t.fields, to)
	}
	return nil
}

// fileType is the Delta type that a file's column has.
func fileType(c *column) dataType {
	switch c.kind {
	case kindGroup:
		return dataType{name: "struct", fields: fileFields(c)}
	case kindList:
		return dataType{name: "array", parts: []field{fileField(c.children[0], "element", c.entry)}}
	case kindMap:
		t := dataType{name: "map"}
		for i, part := range c.children {
			t.parts = append(t.parts, fileField(part, [...]string{"key", "value"}[i], c.entry))
		}
		return t
	default:
	}
	return dataType{name: leafType(c.leaf)}
}

func fileFields(c *column) []field {
	var fields []field
	for _, ch := range c.children {
		fields = append(fields, fileField(ch, ch.name, c.def))
	}
	return fields
}

func fileField(c *column, name string, parentDef int16) field {
	return field{name: name, physical: name, typ: fileType(c), nullable: c.def > parentDef, leaf: c.leaf}
}

func leafType(l *leaf) string {
	f := l.form
	switch f.means {
	case text:
		return "string"
	case binary:
		return "binary"
	case date:
		return "date"
	case decimal:
		return fmt.Sprintf("decimal(%d,%d)", f.precision, f.scale)
	case unsigned:
		return fmt.Sprintf("unsigned %d-bit integer", f.bits)
	case other:
		return f.name
	case instant:
		return timestampType("timestamp", l)
	case wall:
		return timestampType("timestamp_ntz", l)
	default:
	}
	return plainType(l)
}

// timestampType: Spark does not read nanoseconds, except in the old 96-bit form.
func timestampType(name string, l *leaf) string {
	if l.form.unit == time.Nanosecond && l.physical != parquet.Types.Int96 {
		return name + " in nanoseconds"
	}
	return name
}

func plainType(l *leaf) string {
	switch {
	case l.form.bits == 8:
		return "byte"
	case l.form.bits == 16:
		return "short"
	}
	switch l.physical {
	case parquet.Types.Boolean:
		return "boolean"
	case parquet.Types.Int32:
		return "integer"
	case parquet.Types.Int64:
		return "long"
	case parquet.Types.Float:
		return "float"
	case parquet.Types.Double:
		return "double"
	}
	return l.physical.String()
}
