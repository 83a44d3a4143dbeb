package tables

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/txcoord/txcoord/internal/nearest"
	"github.com/txcoord/txcoord/twophase"
)

// CreateInput describes a new table.
type CreateInput struct {
	// URI is canonical; for messages.
	URI string
	// ID is the metaData.id, a UUID.
	ID          string
	Name        string
	Description string
	// Schema is a Spark struct in JSON. It goes into the log as it is.
	Schema           string
	PartitionColumns []string
	// Properties that need a table feature turn it on; delta.feature.<name> =
	// supported does so by name.
	Properties map[string]string
	Time       twophase.Time
	// EngineVersion is this build's.
	EngineVersion string
	// Fence: the table has the fence from its first version on.
	Fence bool
}

const featurePrefix = "delta.feature."

// RenderCreate makes version 0 of a new table: commitInfo, protocol, metaData. It
// carries no tags of a catalog and no marker: version 0 is part of the history by
// the record that creates the table, and delivers nothing. *InputError or
// *FeatureError.
func RenderCreate(in CreateInput) ([]byte, error) {
	protocol, m, err := in.define()
	if err != nil {
		return nil, err
	}
	return in.renderDefinition(in.renderInfo(m), protocol, m), nil
}

// define finds protocol and metadata. The least protocol that the table needs.
func (in *CreateInput) define() (*Protocol, *MetaData, error) {
	m := &MetaData{ID: in.ID, Schema: in.Schema, PartitionColumns: in.PartitionColumns, Configuration: map[string]string{}}
	var named []string
	for _, key := range slices.Sorted(maps.Keys(in.Properties)) {
		if name, ok := strings.CutPrefix(key, featurePrefix); ok {
			named = append(named, name)
			continue
		}
		if err := checkOwn(key, in.Properties[key]); err != nil {
			return nil, nil, err
		}
		m.Configuration[key] = in.Properties[key]
	}
	in.nameRowColumns(m)
	protocol, err := in.protocol(m, named)
	if err != nil {
		return nil, nil, err
	}
	if err := checkSettings(m.Configuration); err != nil {
		return nil, nil, err
	}
	return protocol, m, refuseNewlyIgnored(nil, m.Configuration)
}

// nameRowColumns: a table whose row ids readers may use says in which columns they
// are kept when rows are written again. Engines take names that no column has.
func (in *CreateInput) nameRowColumns(m *MetaData) {
	if !isTrue(m.Configuration[propRowTracking]) {
		return
	}
	for property, prefix := range map[string]string{propRowIDColumn: "_row-id-col-", propRowVersionColumn: "_row-commit-version-col-"} {
		if m.Configuration[property] == "" {
			m.Configuration[property] = prefix + in.ID
		}
	}
}

// protocol checks the schema and finds the least protocol that the table needs:
// old protocol versions, which every engine knows, as long as they do.
func (in *CreateInput) protocol(m *MetaData, named []string) (*Protocol, error) {
	refuse := func(field, value, reason string) error {
		return &InputError{Field: field, Value: cut(value), Reason: reason, Rule: twophase.RuleSchema}
	}
	s, err := parseSchema(in.Schema, true)
	if err == nil && in.Schema != "" && !isMapped(m.Configuration[propMapping]) {
		err = checkForm(in.Schema, false)
	}
	switch {
	case in.ID == "":
		return nil, refuse("id", "", "is missing")
	case in.Schema == "":
		return nil, refuse("schema", "", "is missing")
	case err != nil:
		return nil, schemaError("schema", err)
	case len(s.columns) == 0:
		return nil, refuse("schema", "", "has no column")
	}
	for _, c := range s.columns {
		if err := checkColumnName("schema", c.name, isMapped(m.Configuration[propMapping])); err != nil {
			return nil, err
		}
	}
	if err := in.checkPartitioning(s); err != nil {
		return nil, err
	}
	if mode := m.Configuration[propMapping]; isMapped(mode) {
		return nil, refuse("properties.delta.columnMapping.mode", mode, "needs ids and physical names in the schema, which only an engine gives out; create the table with the engine and register it")
	}
	wanted := map[string]bool{"appendOnly": true, "invariants": true}
	if in.Fence {
		wanted[FenceFeature] = true
	}
	for _, name := range named {
		if name == FenceFeature {
			return nil, refuse("properties."+featurePrefix+name, "", "is set by the catalog; create the table with the mode fenced")
		}
		wanted[name] = true
	}
	for name := range m.needs(s) {
		wanted[name] = true
	}
	if wanted["rowTracking"] || wanted["clustering"] {
		wanted["domainMetadata"] = true
	}
	p := protocolOf(slices.Sorted(maps.Keys(wanted)))
	return p, p.checkWritable(in.URI)
}

func (in *CreateInput) checkPartitioning(s *schema) error {
	refuse := func(value, reason string) error {
		return &InputError{Field: "partition_columns", Value: cut(value), Reason: reason, Rule: twophase.RuleSchema}
	}
	seen, names := map[string]bool{}, s.names()
	for _, name := range in.PartitionColumns {
		i := slices.Index(names, name)
		switch {
		case i < 0:
			return &InputError{
				Field: "partition_columns", Value: cut(name), Rule: twophase.RuleSchema,
				Reason: "is not a column of the schema", Remedy: nearest.OneOf(name, names),
			}
		case seen[name]:
			return refuse(name, "is there twice")
		case s.columns[i].dataType == "":
			return refuse(name, "is of a nested type, which cannot be partitioned by")
		}
		seen[name] = true
	}
	if len(seen) > 0 && len(seen) == len(s.columns) {
		return refuse(in.PartitionColumns[0], "every column is a partition column; a data file needs one that is not")
	}
	return nil
}

// protocolOf is the protocol for a set of features.
func protocolOf(names []string) *Protocol {
	p := &Protocol{MinReader: 1, MinWriter: 2}
	for _, name := range names {
		f, known := featureOf(name)
		if !known {
			p.MinWriter = 7
			continue
		}
		// Old versions bring all features up to theirs along; the ones above 4 have
		// duties that nobody asked for.
		if f.LegacyWriter == 0 || f.LegacyWriter > 4 {
			p.MinWriter = 7
		} else if p.MinWriter < 7 {
			p.MinWriter = max(p.MinWriter, f.LegacyWriter)
		}
		if f.Reader {
			p.MinReader = 3
		}
	}
	if p.MinWriter < 7 {
		return p
	}
	p.WriterFeatures = names
	if p.MinReader == 3 {
		p.ReaderFeatures = []string{}
		for _, name := range names {
			if f, ok := featureOf(name); ok && f.Reader {
				p.ReaderFeatures = append(p.ReaderFeatures, name)
			}
		}
	}
	return p
}

func (in *CreateInput) renderInfo(m *MetaData) []byte {
	out := []byte(`{"commitInfo":{`)
	if isTrue(m.Configuration[propTimestamps]) {
		out = append(appendInt(append(out, `"inCommitTimestamp":`...), int64(in.Time)), ',')
	}
	out = appendInt(append(out, `"timestamp":`...), int64(in.Time))
	out = append(out, `,"operation":"CREATE TABLE","operationParameters":`...)
	out = append(m.appendParameters(out), `,"engineInfo":`...)
	out = appendQuoted(out, "txcoord/"+in.EngineVersion)
	out = append(out, `,"isBlindAppend":true,"txnId":`...)
	return append(appendQuoted(out, in.ID), "}}\n"...)
}

// appendParameters are the operation's, as engines write them.
func (m *MetaData) appendParameters(out []byte) []byte {
	out = append(out, `{"partitionBy":`...)
	out = appendQuoted(out, string(appendStrings(nil, m.PartitionColumns)))
	out = append(out, `,"properties":`...)
	out = appendQuoted(out, string(appendStringMap(nil, m.Configuration)))
	return append(out, '}')
}

func (in *CreateInput) renderDefinition(out []byte, p *Protocol, m *MetaData) []byte {
	out = appendProtocol(out, p)
	out = append(out, "\n{\"metaData\":{\"id\":"...)
	out = appendQuoted(out, in.ID)
	for _, f := range []struct{ name, value string }{{"name", in.Name}, {"description", in.Description}} {
		if f.value != "" {
			out = append(out, `,"`+f.name+`":`...)
			out = appendQuoted(out, f.value)
		}
	}
	out = append(out, `,"format":{"provider":"parquet","options":{}},"schemaString":`...)
	out = appendQuoted(out, in.Schema)
	out = appendStrings(append(out, `,"partitionColumns":`...), m.PartitionColumns)
	out = appendStringMap(append(out, `,"configuration":`...), m.Configuration)
	out = appendInt(append(out, `,"createdTime":`...), int64(in.Time))
	return append(out, "}}\n"...)
}

// appendProtocol writes a protocol action's line, without its end.
func appendProtocol(out []byte, p *Protocol) []byte {
	out = fmt.Appendf(out, `{"protocol":{"minReaderVersion":%d,"minWriterVersion":%d`, p.MinReader, p.MinWriter)
	if p.ReaderFeatures != nil {
		out = appendStrings(append(out, `,"readerFeatures":`...), p.ReaderFeatures)
	}
	if p.WriterFeatures != nil {
		out = appendStrings(append(out, `,"writerFeatures":`...), p.WriterFeatures)
	}
	return append(out, "}}"...)
}

func appendStrings(out []byte, list []string) []byte {
	out = append(out, '[')
	for i, s := range list {
		if i > 0 {
			out = append(out, ',')
		}
		out = appendQuoted(out, s)
	}
	return append(out, ']')
}

func appendStringMap(out []byte, m map[string]string) []byte {
	out = append(out, '{')
	for i, key := range slices.Sorted(maps.Keys(m)) {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(appendQuoted(out, key), ':')
		out = appendQuoted(out, m[key])
	}
	return append(out, '}')
}
