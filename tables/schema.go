package tables

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
)

// schema is what we have to know of a table's schema: its columns, what features
// it makes use of, and enough of each nested field to compare two schemas.
type schema struct {
	columns []column
	// nodes are all columns and nested fields by physical path.
	nodes map[string]node
	// needs are the features that types and field metadata ask for, with the field
	// that does.
	needs map[string]string
	// identities are the identity columns, by physical path.
	identities map[string]identity
	strict     bool
}

// column is a top-level field.
type column struct {
	name, physical string
	// dataType is the type's name if it is a primitive one, else empty.
	dataType string
}

type node struct {
	name     string // the logical one; empty for elements, keys and values
	dataType string
	nullable bool
	meta     string // what of the field's metadata writers have to know
}

// jsonField is a field in Spark's schema JSON.
type jsonField struct {
	Name     string                     `json:"name"`
	Type     json.RawMessage            `json:"type"`
	Nullable *bool                      `json:"nullable"`
	Metadata map[string]json.RawMessage `json:"metadata"`
}

// jsonType is a nested type.
type jsonType struct {
	Type         string          `json:"type"`
	Fields       []jsonField     `json:"fields"`
	ElementType  json.RawMessage `json:"elementType"`
	ContainsNull *bool           `json:"containsNull"`
	KeyType      json.RawMessage `json:"keyType"`
	ValueType    json.RawMessage `json:"valueType"`
}

// primitives are the type names that Delta knows; decimal has its two numbers.
var primitives = map[string]bool{
	"string": true, "long": true, "integer": true, "short": true, "byte": true, "float": true, "double": true,
	"boolean": true, "binary": true, "date": true, "timestamp": true, "timestamp_ntz": true, "variant": true, "void": true,
}

// fieldFeatures are the keys in a field's metadata that need a feature.
var fieldFeatures = map[string]string{
	"delta.invariants":           "invariants",
	"delta.generationExpression": "generatedColumns",
	"CURRENT_DEFAULT":            "allowColumnDefaults",
	"delta.identity.start":       "identityColumns",
	"delta.identity.step":        "identityColumns",
	"delta.typeChanges":          "typeWidening",
}

var typeFeatures = map[string]string{"timestamp_ntz": "timestampNtz", "variant": "variantType"}

// parseSchema reads a schemaString. Old logs have none: then there are no columns.
// strict refuses types that we do not know; a reader of logs does not care.
func parseSchema(text string, strict bool) (*schema, error) {
	s := &schema{strict: strict, nodes: map[string]node{}, needs: map[string]string{}, identities: map[string]identity{}}
	if text == "" {
		return s, nil
	}
	var root jsonType
	if err := json.Unmarshal([]byte(text), &root); err != nil {
		return nil, fmt.Errorf("schemaString: %w", err)
	}
	if err := uniqueFolded([]byte(text)); err != nil {
		return nil, fmt.Errorf("schemaString: %w", err)
	}
	if root.Type != "struct" {
		return nil, fmt.Errorf("schemaString: type is %q, want struct", root.Type)
	}
	if err := s.addFields("", root.Fields, 0); err != nil {
		return nil, err
	}
	for _, f := range root.Fields {
		var primitive string
		if json.Unmarshal(f.Type, &primitive) != nil {
			primitive = ""
		}
		s.columns = append(s.columns, column{name: f.Name, physical: physicalName(f), dataType: primitive})
	}
	return s, nil
}

// names are those of the columns, in order.
func (s *schema) names() []string {
	all := make([]string, len(s.columns))
	for i, c := range s.columns {
		all[i] = c.name
	}
	return all
}

func physicalName(f jsonField) string {
	var name string
	if json.Unmarshal(f.Metadata["delta.columnMapping.physicalName"], &name) == nil && name != "" {
		return name
	}
	return f.Name
}

func (s *schema) addFields(prefix string, fields []jsonField, depth int) error {
	seen := map[string]bool{}
	for _, f := range fields {
		folded := strings.ToLower(f.Name)
		switch {
		case f.Name == "":
			return fmt.Errorf("schemaString: a field in %q has no name", prefix)
		case seen[folded]:
			return fmt.Errorf("schemaString: field %q is there twice, counted without case", prefix+f.Name)
		case depth > maxDepth:
			return fmt.Errorf("schemaString: nested too deeply")
		}
		seen[folded] = true
		for key, feature := range fieldFeatures {
			if raw, ok := f.Metadata[key]; ok && !bytes.Equal(raw, []byte("null")) {
				s.needs[feature] = "field " + prefix + f.Name
			}
		}
		nullable := f.Nullable == nil || *f.Nullable
		path := prefix + physicalName(f)
		if err := s.addType(path, f.Type, nullable, depth); err != nil {
			return err
		}
		if i, ok := identityOf(f.Metadata); ok {
			s.identities[path] = i
		}
		n := s.nodes[path]
		n.name, n.meta = f.Name, writersMeta(f.Metadata)
		s.nodes[path] = n
	}
	return nil
}

func (s *schema) addType(path string, raw json.RawMessage, nullable bool, depth int) error {
	var name string
	if json.Unmarshal(raw, &name) == nil {
		if s.strict && !primitives[name] && !strings.HasPrefix(name, "decimal") {
			return fmt.Errorf("schemaString: field %q has unknown type %q", path, name)
		}
		if feature := typeFeatures[name]; feature != "" {
			s.needs[feature] = "field " + strings.ReplaceAll(path, "\x00", ".")
		}
		s.nodes[path] = node{dataType: name, nullable: nullable}
		return nil
	}
	var t jsonType
	if err := json.Unmarshal(raw, &t); err != nil {
		return fmt.Errorf("schemaString: type of field %q: %w", path, err)
	}
	s.nodes[path] = node{dataType: t.Type, nullable: nullable}
	switch t.Type {
	case "struct":
		return s.addFields(path+"\x00", t.Fields, depth+1)
	case "array":
		return s.addType(path+"\x00element", t.ElementType, t.ContainsNull == nil || *t.ContainsNull, depth+1)
	case "map":
		if err := s.addType(path+"\x00key", t.KeyType, false, depth+1); err != nil {
			return err
		}
		return s.addType(path+"\x00value", t.ValueType, true, depth+1)
	}
	if !s.strict {
		return nil
	}
	return fmt.Errorf("schemaString: field %q has unknown type %q", path, t.Type)
}

// holds reports whether files written under an older schema are still sound under
// this one: no field with another type, no new field that must not be null. A
// field that is gone does no harm.
func (s *schema) holds(older *schema) bool {
	for path, now := range s.nodes {
		then, ok := older.nodes[path]
		switch {
		case !ok && !now.nullable && parentIn(older, path):
			return false
		case ok && then.dataType != now.dataType && !widens(then.dataType, now.dataType):
			return false
		case ok && then.nullable && !now.nullable:
			return false
		}
	}
	return true
}

// parentIn: a new field only matters where the struct around it was there before.
func parentIn(s *schema, path string) bool {
	i := strings.LastIndexByte(path, 0)
	if i < 0 {
		return true
	}
	_, ok := s.nodes[path[:i]]
	return ok
}
