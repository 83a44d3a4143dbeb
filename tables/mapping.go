package tables

import (
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/txcoord/txcoord/twophase"
)

// mappingCheck walks the fields of a schema with column mapping: each has an id and a
// physical name, no two the same, and no id is above the table's highest.
type mappingCheck struct {
	max   int64
	ids   map[int64]string // physical names by id
	names map[string]bool
	bad   error
}

// checkMapping checks the ids and physical names that a metaData gives to columns. p is
// the table before it: an id goes on meaning the same column.
func (p *Profile) checkMapping(next *Profile) error {
	if !isMapped(next.Property(propMapping)) {
		return nil
	}
	now, err := readMapping(next)
	if err != nil {
		return err
	}
	if !isMapped(p.Property(propMapping)) {
		return nil
	}
	was, err := readMapping(p)
	if err != nil {
		return nil // another engine's; what it wrote is not this part's fault
	}
	for id, name := range now.ids {
		if before, ok := was.ids[id]; ok && before != name {
			return mappingError(strconv.FormatInt(id, 10), fmt.Sprintf("is the id of column %s of the table, and not of %s", before, name))
		}
	}
	return nil
}

func mappingError(value, reason string) error {
	return &InputError{
		Field: "metaData.schemaString", Value: cut(value), Reason: reason, Rule: twophase.RuleSchema,
		Remedy: "under column mapping each field has a delta.columnMapping.id of its own, up to " + propMaxColumn + ", and a physical name",
	}
}

func readMapping(p *Profile) (*mappingCheck, error) {
	c := &mappingCheck{ids: map[int64]string{}, names: map[string]bool{}}
	var err error
	if c.max, err = strconv.ParseInt(p.Property(propMaxColumn), 10, 64); err != nil {
		return nil, &InputError{Field: propMaxColumn, Value: cut(p.Property(propMaxColumn)), Reason: "is not the highest column id", Rule: twophase.RuleSchema}
	}
	var root jsonType
	if err := json.Unmarshal([]byte(p.MetaData.Schema), &root); err != nil {
		return nil, mappingError("", err.Error())
	}
	c.fields("", root.Fields)
	return c, c.bad
}

func (c *mappingCheck) fields(path string, all []jsonField) {
	for i := range all {
		f := &all[i]
		at := path + f.Name
		var id int64
		var name string
		switch {
		case json.Unmarshal(f.Metadata["delta.columnMapping.id"], &id) != nil || id < 1:
			c.fail(at, "has no id")
		case json.Unmarshal(f.Metadata["delta.columnMapping.physicalName"], &name) != nil || name == "":
			c.fail(at, "has no physical name")
		case c.ids[id] != "":
			c.fail(at, fmt.Sprintf("has id %d, which another field has", id))
		case c.names[path+"\x00"+name]:
			c.fail(at, fmt.Sprintf("has the physical name %s, which another field has", name))
		case id > c.max:
			c.fail(at, fmt.Sprintf("has id %d, above %s, which is %d", id, propMaxColumn, c.max))
		default:
			c.ids[id], c.names[path+"\x00"+name] = name, true
		}
		c.nested(at+".", f.Type)
	}
}

// nested looks into a type for structs.
func (c *mappingCheck) nested(path string, raw json.RawMessage) {
	var t jsonType
	if len(raw) == 0 || json.Unmarshal(raw, &t) != nil {
		return
	}
	c.fields(path, t.Fields)
	for _, inner := range []json.RawMessage{t.ElementType, t.KeyType, t.ValueType} {
		c.nested(path, inner)
	}
}

func (c *mappingCheck) fail(field, reason string) {
	if c.bad == nil {
		c.bad = mappingError(field, reason)
	}
}
