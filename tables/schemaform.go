package tables

import (
	"encoding/json"
	"errors"
	"strings"

	"github.com/txcoord/txcoord/twophase"
)

// What parseSchema takes of the logs of others, and engines do not all take of a new
// schema: a table that begins or is changed with it would be one that delta-rs or DuckDB
// cannot open.

// formCheck walks a new schema.
type formCheck struct{ mapped bool }

// checkForm checks a schema that was parsed before.
func checkForm(text string, mapped bool) error {
	c := cursor{b: []byte(text), whole: true}
	if err := c.skip(0); err != nil {
		return err
	}
	var root any
	if err := json.Unmarshal([]byte(text), &root); err != nil {
		return err
	}
	check := formCheck{mapped}
	return check.dataType("", root)
}

func formError(path, reason, remedy string) error {
	return &fieldError{value: path, reason: reason, remedy: remedy}
}

// schemaError is what is wrong in a new schema, for the client: the value is the column.
func schemaError(field string, err error) error {
	out := &InputError{Field: field, Reason: err.Error(), Rule: twophase.RuleSchema}
	if fe, ok := errors.AsType[*fieldError](err); ok {
		out.Value, out.Remedy = cut(fe.value), fe.remedy
		if fe.field == "" {
			out.Reason = fe.reason
		}
	}
	return out
}

func (c *formCheck) dataType(path string, t any) error {
	name, primitive := t.(string)
	if primitive {
		return c.primitive(path, name)
	}
	o, _ := t.(map[string]any)
	switch o["type"] {
	case "struct":
		return c.structType(path, o)
	case "array":
		if _, ok := o["containsNull"].(bool); !ok {
			return formError(path, "is an array without containsNull", "write \"containsNull\": true, or false if no element is null")
		}
		return c.dataType(path+".element", o["elementType"])
	case "map":
		if _, ok := o["valueContainsNull"].(bool); !ok {
			return formError(path, "is a map without valueContainsNull", "write \"valueContainsNull\": true, or false if no value is null")
		}
		if err := c.dataType(path+".key", o["keyType"]); err != nil {
			return err
		}
		return c.dataType(path+".value", o["valueType"])
	}
	return nil // parseSchema knows the types
}

func (c *formCheck) primitive(path, name string) error {
	if primitives[name] {
		return nil
	}
	if _, _, ok := numberType(name); !ok {
		return formError(path, "has the type "+name+", which is none", "write decimal(precision,scale) with a precision from 1 to 38, and a scale from 0 up to that")
	}
	return nil
}

func (c *formCheck) structType(path string, t map[string]any) error {
	fields, _ := t["fields"].([]any)
	if len(fields) == 0 && path != "" {
		return formError(path, "is a struct without fields, which a data file cannot hold", "give it a field, or leave the column out")
	}
	for _, raw := range fields {
		f, _ := raw.(map[string]any)
		name, _ := f["name"].(string)
		if err := c.field(strings.TrimPrefix(path+"."+name, "."), f); err != nil {
			return err
		}
	}
	return nil
}

func (c *formCheck) field(path string, f map[string]any) error {
	if _, ok := f["nullable"].(bool); !ok {
		return formError(path, "has no nullable", "write \"nullable\": true, or false if it is never null")
	}
	metadata, ok := f["metadata"].(map[string]any)
	if !ok {
		return formError(path, "has no metadata", "write \"metadata\": {}")
	}
	for _, key := range []string{"delta.columnMapping.id", "delta.columnMapping.physicalName"} {
		if _, there := metadata[key]; there && !c.mapped {
			return formError(path, "has "+key+", and the table has no column mapping", "leave it out; ids and physical names belong to "+propMapping)
		}
	}
	return c.dataType(path, f["type"])
}
