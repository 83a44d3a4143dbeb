package checker

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
)

// Schema is a JSON Schema, as far as docs/manifest.schema.json uses it. A keyword
// outside that part is refused when the schema is read, so nothing that a schema
// says goes unchecked.
type Schema struct {
	Type                 string             `json:"type"`
	Const                any                `json:"const"`
	Enum                 []any              `json:"enum"`
	Pattern              string             `json:"pattern"`
	Minimum              *json.Number       `json:"minimum"`
	MinLength            int                `json:"minLength"`
	Required             []string           `json:"required"`
	Properties           map[string]*Schema `json:"properties"`
	Items                *Schema            `json:"items"`
	UniqueItems          bool               `json:"uniqueItems"`
	MinItems             int                `json:"minItems"`
	AdditionalProperties *bool              `json:"additionalProperties"`

	// Meta says what the schema is; it restricts nothing.
	Meta        string `json:"$schema"`
	ID          string `json:"$id"`
	Title       string `json:"title"`
	Description string `json:"description"`

	pattern *regexp.Regexp
}

// ParseSchema reads a schema.
func ParseSchema(b []byte) (*Schema, error) {
	s := &Schema{}
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	d.UseNumber()
	if err := d.Decode(s); err != nil {
		return nil, fmt.Errorf("parse schema: %w", err)
	}
	return s, s.compile()
}

func (s *Schema) compile() error {
	if s == nil {
		return nil
	}
	if s.Pattern != "" {
		re, err := regexp.Compile(s.Pattern)
		if err != nil {
			return fmt.Errorf("parse schema: %w", err)
		}
		s.pattern = re
	}
	for _, p := range s.Properties {
		if err := p.compile(); err != nil {
			return err
		}
	}
	return s.Items.compile()
}

// Validate checks a JSON document. The error names the place.
func (s *Schema) Validate(doc []byte) error {
	var v any
	d := json.NewDecoder(bytes.NewReader(doc))
	d.UseNumber()
	if err := d.Decode(&v); err != nil {
		return err
	}
	if d.More() {
		return errors.New("more than one value")
	}
	return s.check("", v)
}

func (s *Schema) check(at string, v any) error {
	if err := s.checkValue(v); err != nil {
		return fmt.Errorf("%s: %w", cmpOr(at, "the document"), err)
	}
	switch v := v.(type) {
	case map[string]any:
		return s.checkObject(at, v)
	case []any:
		return s.checkArray(at, v)
	}
	return nil
}

func cmpOr(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}

func (s *Schema) checkValue(v any) error {
	switch {
	case s.Type != "" && !isType(s.Type, v):
		return fmt.Errorf("%v is not of type %s", v, s.Type)
	case s.Const != nil && s.Const != v:
		return fmt.Errorf("%v is not %v", v, s.Const)
	case s.Enum != nil && !slices.Contains(s.Enum, v):
		return fmt.Errorf("%v is not one of %v", v, s.Enum)
	}
	if text, ok := v.(string); ok {
		return s.checkString(text)
	}
	if n, ok := v.(json.Number); ok && s.Minimum != nil {
		return atLeast(n, *s.Minimum)
	}
	return nil
}

func (s *Schema) checkString(v string) error {
	switch {
	case len(v) < s.MinLength:
		return fmt.Errorf("%q is shorter than %d", v, s.MinLength)
	case s.pattern != nil && !s.pattern.MatchString(v):
		return fmt.Errorf("%q does not match %s", v, s.Pattern)
	}
	return nil
}

func atLeast(n, low json.Number) error {
	a, err := n.Float64()
	if err != nil {
		return err
	}
	if b, err := low.Float64(); err != nil || a < b {
		return fmt.Errorf("%s is below %s", n, low)
	}
	return nil
}

func isType(name string, v any) bool {
	switch v := v.(type) {
	case map[string]any:
		return name == "object"
	case []any:
		return name == "array"
	case string:
		return name == "string"
	case bool:
		return name == "boolean"
	case json.Number:
		_, err := v.Int64()
		return name == "number" || name == "integer" && err == nil
	}
	return name == "null"
}

func (s *Schema) checkObject(at string, v map[string]any) error {
	for _, name := range s.Required {
		if _, ok := v[name]; !ok {
			return fmt.Errorf("%s: %s is missing", cmpOr(at, "the document"), name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(v)) {
		p, known := s.Properties[name]
		if !known && s.AdditionalProperties != nil && !*s.AdditionalProperties {
			return fmt.Errorf("%s: %s is not a known field", cmpOr(at, "the document"), name)
		}
		if !known {
			continue
		}
		if err := p.check(at+"/"+name, v[name]); err != nil {
			return err
		}
	}
	return nil
}

func (s *Schema) checkArray(at string, v []any) error {
	if len(v) < s.MinItems {
		return fmt.Errorf("%s: %d items, want %d at least", cmpOr(at, "the document"), len(v), s.MinItems)
	}
	seen := map[string]bool{}
	for i, e := range v {
		place := fmt.Sprintf("%s/%d", at, i)
		if s.Items != nil {
			if err := s.Items.check(place, e); err != nil {
				return err
			}
		}
		b, err := json.Marshal(e)
		if err != nil {
			return err
		}
		if s.UniqueItems && seen[string(b)] {
			return fmt.Errorf("%s: %s is there twice", place, b)
		}
		seen[string(b)] = true
	}
	return nil
}
