package tables

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/google/uuid"

	"github.com/txcoord/txcoord/internal/nearest"
	"github.com/txcoord/txcoord/twophase"
)

// Alteration changes what a table is.
type Alteration struct {
	AddColumns      []NewColumn
	SetProperties   map[string]string
	UnsetProperties []string
	// WidenColumns are new types, ColumnComments comments, by column; nested ones as a.b.
	WidenColumns   map[string]string
	ColumnComments map[string]string
	// Description, unless nil; empty takes it away.
	Description *string
}

// NewColumn is a nullable column to add, with its type as SQL has it.
type NewColumn struct{ Name, Type, Comment string }

// Empty reports whether it changes nothing.
func (c *Alteration) Empty() bool {
	return len(c.AddColumns)+len(c.SetProperties)+len(c.UnsetProperties)+len(c.WidenColumns)+len(c.ColumnComments) == 0 && c.Description == nil
}

// byEngine are the properties that need more than a metaData action.
var byEngine = map[string]string{
	propMapping:     "the columns need ids and physical names",
	propMaxColumn:   "it counts the ids of columns",
	propRowTracking: "files that are there need row ids",
	propTimesSince:  "it is written when in-commit timestamps are switched on",
	propTimesFrom:   "it is written when in-commit timestamps are switched on",
	propProtected:   "the engine that drops a feature sets it",
}

// AlterLines makes the actions of a change to a table: metaData, and in front of it a
// protocol where a property or a type needs a feature that the table lacks. What of the
// metadata the change does not touch stays byte for byte. *InputError or *FeatureError;
// whatever else is wrong, Validate finds.
func AlterLines(p *Profile, c *Alteration) ([]byte, error) {
	if c.Empty() {
		return nil, alterError("alter", "", "changes nothing", "name a column or a property")
	}
	config, err := c.properties(p)
	if err != nil {
		return nil, err
	}
	text, err := c.schema(p, config)
	if err != nil {
		return nil, err
	}
	next := p.MetaData
	next.Configuration, next.Schema = config, text
	out, err := next.protocolFor(p)
	if err != nil {
		return nil, err
	}
	edit := patch{text: append(append([]byte(`{"metaData":`), p.MetaData.Raw...), '}')}
	meta, err := edit.action("metaData")
	if err != nil {
		return nil, fmt.Errorf("alter table %s: %w", p.URI, err)
	}
	edit.set(meta, "schemaString", appendQuoted(nil, text))
	edit.set(meta, "configuration", appendStringMap(nil, config))
	if c.Description != nil {
		edit.set(meta, "description", appendQuoted(nil, *c.Description))
	}
	return append(append(out, edit.apply()...), '\n'), nil
}

func alterError(field, value, reason, remedy string) error {
	return &InputError{Field: field, Value: cut(value), Reason: reason, Remedy: remedy, Rule: twophase.RuleSchema}
}

// properties are the table's after the change.
func (c *Alteration) properties(p *Profile) (map[string]string, error) {
	out := maps.Clone(p.MetaData.Configuration)
	if out == nil {
		out = map[string]string{}
	}
	for _, key := range c.UnsetProperties {
		if _, ok := out[key]; !ok {
			return nil, alterError("unset_properties", key, "is not set", "the table's properties are: "+strings.Join(slices.Sorted(maps.Keys(out)), ", "))
		}
		if why := byEngine[key]; why != "" {
			return nil, alterError("unset_properties", key, "cannot be taken away here: "+why, "use an engine")
		}
		delete(out, key)
	}
	for _, key := range slices.Sorted(maps.Keys(c.SetProperties)) {
		value := c.SetProperties[key]
		why := byEngine[key]
		switch {
		case slices.Contains(c.UnsetProperties, key):
			return nil, alterError("set_properties", key, "is set and taken away", "do one of them")
		case strings.HasPrefix(key, featurePrefix):
			return nil, alterError("set_properties", key, "is a feature and no property", "set the property that needs the feature")
		case why != "" && value != out[key]:
			return nil, alterError("set_properties."+key, value, "cannot be set here: "+why, "use an engine")
		}
		if err := checkOwn(key, value); err != nil {
			return nil, err
		}
		out[key] = value
	}
	return out, nil
}

// schema is the table's after the change. New columns of a table with column mapping
// get ids and physical names, and config the highest id.
func (c *Alteration) schema(p *Profile, config map[string]string) (string, error) {
	if len(c.AddColumns)+len(c.WidenColumns)+len(c.ColumnComments) == 0 {
		return p.MetaData.Schema, nil
	}
	var root schemaStruct
	if err := json.Unmarshal([]byte(p.MetaData.Schema), &root); err != nil {
		return "", alterError("schema", "", "cannot be read: "+err.Error(), "")
	}
	for _, path := range slices.Sorted(maps.Keys(c.WidenColumns)) {
		if slices.Contains(p.MetaData.PartitionColumns, path) {
			return "", alterError("widen_columns", path, "is a partition column", "use an engine, which looks at the partition values")
		}
		if err := root.edit(path, func(f *schemaField) error { return f.widen(path, c.WidenColumns[path], config) }); err != nil {
			return "", root.noColumn("widen_columns", path, err)
		}
	}
	for _, path := range slices.Sorted(maps.Keys(c.ColumnComments)) {
		if err := root.edit(path, func(f *schemaField) error { f.comment(c.ColumnComments[path]); return nil }); err != nil {
			return "", root.noColumn("column_comments", path, err)
		}
	}
	ids := columnIDs{on: isMapped(config[propMapping])}
	ids.max, _ = strconv.ParseInt(config[propMaxColumn], 10, 64)
	for _, column := range c.AddColumns {
		if err := checkColumnName("add_columns", column.Name, ids.on); err != nil {
			return "", err
		}
		t, err := sqlType(column.Type)
		if err != nil {
			return "", alterError("add_columns."+column.Name, column.Type, err.Error(), "write it as in SQL, such as INT or DECIMAL(10,2)")
		}
		if slices.ContainsFunc(root.Fields, func(f schemaField) bool { return strings.EqualFold(f.Name, column.Name) }) {
			return "", alterError("add_columns", column.Name, "the table has a column of this name already", "to change its type or comment: widen_columns, column_comments")
		}
		var field schemaField
		if err := json.Unmarshal(newField(column.Name, t, column.Comment), &field); err != nil {
			return "", err
		}
		if err := ids.give(&field); err != nil {
			return "", err
		}
		root.Fields = append(root.Fields, field)
	}
	if ids.on {
		config[propMaxColumn] = strconv.FormatInt(ids.max, 10)
	}
	for i := range root.Fields {
		root.Fields[i].complete()
	}
	out, err := json.Marshal(root)
	return string(out), err
}

// complete writes what older engines left out the way that readers take it: without
// nullable a column may be null, and without metadata it has none.
func (f *schemaField) complete() {
	if f.Nullable == nil {
		f.Nullable = new(true)
	}
	if f.Metadata == nil {
		f.Metadata = map[string]json.RawMessage{}
	}
}

// schemaStruct and schemaField are a schema that is written again: types stay as they are.
type schemaStruct struct {
	Type   string        `json:"type"`
	Fields []schemaField `json:"fields"`
}

type schemaField struct {
	Name     string                     `json:"name"`
	Type     json.RawMessage            `json:"type"`
	Nullable *bool                      `json:"nullable"`
	Metadata map[string]json.RawMessage `json:"metadata"`
}

// errNoColumn: edit has found no field.
var errNoColumn = errors.New("no such column")

// noColumn says that of a path, if it is what edit has found.
func (s *schemaStruct) noColumn(field, path string, err error) error {
	if !errors.Is(err, errNoColumn) {
		return err
	}
	return alterError(field, path, "is not a column of the table", nearest.OneOf(path, s.paths("")))
}

// paths are those of all fields that edit finds.
func (s *schemaStruct) paths(prefix string) (all []string) {
	for _, f := range s.Fields {
		all = append(all, prefix+f.Name)
		var inner schemaStruct
		if json.Unmarshal(f.Type, &inner) == nil && inner.Type == "struct" {
			all = append(all, inner.paths(prefix+f.Name+".")...)
		}
	}
	return all
}

// edit changes a field; nested ones are found through structs. errNoColumn if there is none.
func (s *schemaStruct) edit(path string, change func(*schemaField) error) error {
	for i := range s.Fields {
		f := &s.Fields[i]
		if strings.EqualFold(f.Name, path) {
			if f.Metadata == nil {
				f.Metadata = map[string]json.RawMessage{}
			}
			return change(f)
		}
		rest, ok := cutFold(path, f.Name+".")
		if !ok {
			continue
		}
		var inner schemaStruct
		if json.Unmarshal(f.Type, &inner) != nil || inner.Type != "struct" {
			continue
		}
		if err := inner.edit(rest, change); err != nil {
			return err
		}
		var err error
		for i := range inner.Fields {
			inner.Fields[i].complete()
		}
		f.Type, err = json.Marshal(inner)
		return err
	}
	return errNoColumn
}

func cutFold(s, prefix string) (string, bool) {
	if len(s) < len(prefix) || !strings.EqualFold(s[:len(prefix)], prefix) {
		return s, false
	}
	return s[len(prefix):], true
}

// widen gives a column a wider type, and notes the change where readers look for it.
func (f *schemaField) widen(path, to string, config map[string]string) error {
	refuse := func(reason, remedy string) error { return alterError("widen_columns."+path, to, reason, remedy) }
	if !isTrue(config["delta.enableTypeWidening"]) {
		return refuse("the table's property delta.enableTypeWidening is not true", "set it, in the same change or before")
	}
	t, err := sqlType(to)
	if err != nil {
		return refuse(err.Error(), "write it as in SQL, such as BIGINT")
	}
	var was, is string
	if json.Unmarshal(f.Type, &was) != nil || json.Unmarshal(t, &is) != nil || !widens(was, is) {
		return refuse(fmt.Sprintf("not every value of the present type %s fits it", f.Type), "")
	}
	var changes []json.RawMessage
	if raw, ok := f.Metadata["delta.typeChanges"]; ok {
		if err := json.Unmarshal(raw, &changes); err != nil {
			return refuse("the column's earlier type changes cannot be read: "+err.Error(), "")
		}
	}
	note, err := json.Marshal(map[string]string{"fromType": was, "toType": is})
	if err != nil {
		return err
	}
	f.Metadata["delta.typeChanges"], err = json.Marshal(append(changes, note))
	f.Type = t
	return err
}

func (f *schemaField) comment(text string) {
	delete(f.Metadata, "comment")
	if text != "" {
		f.Metadata["comment"], _ = json.Marshal(text)
	}
}

// columnIDs gives out ids and physical names on tables with column mapping.
type columnIDs struct {
	on  bool
	max int64
}

func (c *columnIDs) give(f *schemaField) error {
	if !c.on {
		return nil
	}
	c.max++
	f.Metadata["delta.columnMapping.id"] = appendInt(nil, c.max)
	f.Metadata["delta.columnMapping.physicalName"] = appendQuoted(nil, "col-"+uuid.NewString())
	var inner schemaStruct
	if json.Unmarshal(f.Type, &inner) != nil || inner.Type != "struct" {
		if strings.Contains(string(f.Type), `"struct"`) {
			return alterError("add_columns."+f.Name, string(f.Type), "structs in arrays and maps get no ids here", "use an engine")
		}
		return nil
	}
	for i := range inner.Fields {
		if err := c.give(&inner.Fields[i]); err != nil {
			return err
		}
	}
	var err error
	f.Type, err = json.Marshal(inner)
	return err
}

// protocolFor is the protocol action that the new metadata needs on a table; nothing if
// what is in force is enough.
func (m *MetaData) protocolFor(p *Profile) ([]byte, error) {
	s, err := parseSchema(m.Schema, true)
	if err != nil {
		return nil, alterError("alter", "", err.Error(), "")
	}
	var missing []string
	for name := range m.needs(s) {
		if !p.inForce.covers(name) {
			missing = append(missing, name)
		}
	}
	if len(missing) == 0 {
		return nil, nil
	}
	names := append(p.inForce.names(), missing...)
	slices.Sort(names)
	next := protocolOf(slices.Compact(names))
	if p.Protocol.MinWriter >= 7 && next.MinWriter < 7 || p.Protocol.MinReader > next.MinReader {
		next = p.Protocol.with(names)
	}
	return append(appendProtocol(nil, next), '\n'), nil
}

// with is a protocol of listed features.
func (p *Protocol) with(names []string) *Protocol {
	out := &Protocol{MinReader: p.MinReader, MinWriter: 7, WriterFeatures: names}
	for _, name := range names {
		if f, ok := featureOf(name); ok && f.Reader {
			out.MinReader = 3
		}
	}
	if out.MinReader < 3 {
		return out
	}
	out.ReaderFeatures = []string{}
	for _, name := range names {
		if f, ok := featureOf(name); ok && f.Reader {
			out.ReaderFeatures = append(out.ReaderFeatures, name)
		}
	}
	return out
}
