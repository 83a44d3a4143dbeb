package tables

import (
	"fmt"
	"strings"
)

// policy says what we do about a table feature when a table that has it is written.
type policy uint8

const (
	// carry: whoever wrote the data files did what the feature asks for; we publish
	// the actions as they came.
	carry policy = iota
	// obey: we check the feature's rules ourselves (Validate, View).
	obey
	// refuse: a version cannot be written without rewriting actions or doing work
	// that this build does not do.
	refuse
)

// feature is one row of the allow-list. A feature that is not in the table is
// unknown and refused: for writing always, for reading if it is a reader feature.
type feature struct {
	name string
	// reader: it is in readerFeatures as well. We read logs and no data, so what
	// counts for reading is that log replay knows it.
	reader bool
	// legacyReader and legacyWriter are the protocol versions from which it is in
	// force without being named; 0: never.
	legacyReader, legacyWriter int
	write                      policy
	reason                     string
	// strict: a writer that does not know of it may write rows that break it, so a
	// change staged before it was switched on conflicts.
	strict bool
}

const (
	assignsIDs    = "every add needs row ids, which this build does not assign"
	needsStats    = "every add needs checks that this build does not make"
	rewriteTypes  = "type changes must be written anew on rebase, which this build does not do"
	needsDuties   = "this build does not keep the rules that it lays on writers"
	underCatalog  = "commits go through the table's own catalog"
	inCommitTimes = "every commit needs an in-commit timestamp, which this build does not write"
)

// features is the allow-list. The order is that of the bits in featureSet, which
// stand in journals: append only.
var features = [...]feature{
	{name: "appendOnly", legacyWriter: 2, write: obey},
	{name: "invariants", legacyWriter: 2, write: carry, strict: true},
	{name: "checkConstraints", legacyWriter: 3, write: carry, strict: true},
	{name: "changeDataFeed", legacyWriter: 4, write: carry},
	{name: "generatedColumns", legacyWriter: 4, write: carry, strict: true},
	{name: "columnMapping", reader: true, legacyReader: 2, legacyWriter: 5, write: obey},
	// Writer version 6 has it in force without a name; Validate then looks for
	// identity columns in the schema.
	{name: "identityColumns", legacyWriter: 6, write: refuse, strict: true, reason: "identity values are given out in the metadata, so two writers would reuse them"},
	{name: "deletionVectors", reader: true, write: obey},
	{name: "timestampNtz", reader: true, write: carry},
	{name: "v2Checkpoint", reader: true, write: carry},
	{name: "vacuumProtocolCheck", reader: true, write: carry},
	{name: "domainMetadata", write: obey},
	{name: "allowColumnDefaults", write: carry, strict: true},
	{name: "inCommitTimestamp", write: refuse, reason: inCommitTimes},
	{name: "rowTracking", write: refuse, reason: assignsIDs},
	{name: "clustering", write: refuse, reason: needsStats},
	{name: "typeWidening", reader: true, write: refuse, reason: rewriteTypes},
	{name: "typeWidening-preview", reader: true, write: refuse, reason: rewriteTypes},
	{name: "variantType", reader: true, write: refuse, reason: needsDuties},
	{name: "variantType-preview", reader: true, write: refuse, reason: needsDuties},
	{name: "variantShredding", reader: true, write: refuse, reason: needsDuties},
	{name: "variantShredding-preview", reader: true, write: refuse, reason: needsDuties},
	{name: "icebergCompatV1", write: refuse, reason: needsStats},
	{name: "icebergCompatV2", write: refuse, reason: needsStats},
	{name: "catalogManaged", reader: true, write: refuse, reason: underCatalog},
	{name: "catalogOwned-preview", reader: true, write: refuse, reason: underCatalog},
	{name: "checkpointProtection", write: refuse, reason: needsDuties},
}

const (
	maxReader = 3
	maxWriter = 7
)

// featureSet has a bit per known feature, and one for "something unknown".
type featureSet uint64

const unknownFeature featureSet = 1 << 63

var (
	featureBits = func() map[string]featureSet {
		m := make(map[string]featureSet, len(features))
		for i, f := range features {
			m[f.name] = 1 << i
		}
		return m
	}()
	// strictFeatures and writableFeatures are bits of the table's column of that name.
	strictFeatures, writableFeatures = func() (strict, writable featureSet) {
		for i, f := range features {
			if f.strict {
				strict |= 1 << i
			}
			if f.write != refuse {
				writable |= 1 << i
			}
		}
		// Without its name, that is by writer version 6, Validate decides by the schema.
		return strict, writable
	}()
)

// has reports that a feature of the table is in the set.
func (s featureSet) has(name string) bool { return s&featureBits[name] != 0 }

// inForce are the features of a protocol, those of old protocol versions included.
// Writer version 7 has what it names and nothing else.
func (p *Protocol) inForce() featureSet {
	var s featureSet
	if p.MinWriter >= 7 {
		for _, name := range p.WriterFeatures {
			s |= bitOf(name)
		}
	}
	if p.MinReader >= 3 {
		for _, name := range p.ReaderFeatures {
			s |= bitOf(name)
		}
	}
	for i, f := range features {
		legacy := f.legacyWriter > 0 && p.MinWriter < 7 && p.MinWriter >= f.legacyWriter ||
			f.legacyReader > 0 && p.MinReader < 3 && p.MinReader >= f.legacyReader
		if legacy {
			s |= 1 << i
		}
	}
	if p.MinReader > maxReader || p.MinWriter > maxWriter {
		s |= unknownFeature
	}
	return s
}

func bitOf(name string) featureSet {
	if bit, ok := featureBits[name]; ok {
		return bit
	}
	return unknownFeature
}

// checkReadable refuses a protocol under which we cannot even replay the log.
func (p *Protocol) checkReadable(table string) error {
	if p.MinReader > maxReader || p.MinReader < 1 {
		return &FeatureError{
			Table: table, Feature: fmt.Sprintf("minReaderVersion %d", p.MinReader),
			Reason: fmt.Sprintf("this build reads versions 1 to %d", maxReader),
		}
	}
	if p.MinReader < 3 {
		return nil
	}
	for _, name := range p.ReaderFeatures {
		if bit, ok := featureBits[name]; !ok || !features[bitIndex(bit)].reader {
			return &FeatureError{Table: table, Feature: name, Reason: "this build does not know it"}
		}
	}
	return nil
}

// checkWritable refuses, by name, a protocol under which we may not write.
func (p *Protocol) checkWritable(table string) error {
	if err := p.checkReadable(table); err != nil {
		return err
	}
	if p.MinWriter > maxWriter || p.MinWriter < 1 {
		return &FeatureError{
			Table: table, Write: true, Feature: fmt.Sprintf("minWriterVersion %d", p.MinWriter),
			Reason: fmt.Sprintf("this build writes versions 1 to %d", maxWriter),
		}
	}
	if p.MinWriter < 7 {
		return nil
	}
	for _, name := range p.WriterFeatures {
		bit, ok := featureBits[name]
		if !ok {
			return &FeatureError{Table: table, Write: true, Feature: name, Reason: "this build does not know it"}
		}
		if f := features[bitIndex(bit)]; f.write == refuse {
			return &FeatureError{Table: table, Write: true, Feature: name, Reason: f.reason}
		}
	}
	return nil
}

func bitIndex(s featureSet) int {
	for i := range features {
		if s == 1<<i {
			return i
		}
	}
	return 0
}

// wellFormed checks what the protocol's text asks of a protocol action that is
// about to be written.
func (p *Protocol) wellFormed() error {
	reader, writer := p.MinReader >= 3, p.MinWriter >= 7
	switch {
	case reader && !writer:
		return &fieldError{field: "protocol.minWriterVersion", reason: "must be 7 with minReaderVersion 3"}
	case reader != (p.ReaderFeatures != nil):
		return &fieldError{field: "protocol.readerFeatures", reason: "must be there with minReaderVersion 3 and only then"}
	case writer != (p.WriterFeatures != nil):
		return &fieldError{field: "protocol.writerFeatures", reason: "must be there with minWriterVersion 7 and only then"}
	}
	listed := map[string]bool{}
	for _, name := range p.WriterFeatures {
		listed[name] = true
	}
	for _, name := range p.ReaderFeatures {
		if !listed[name] {
			return &fieldError{field: "protocol.readerFeatures", value: name, reason: "a reader feature must be in writerFeatures as well"}
		}
	}
	for name := range listed {
		bit, ok := featureBits[name]
		if !ok || p.MinReader < 3 || !features[bitIndex(bit)].reader {
			continue
		}
		if !contains(p.ReaderFeatures, name) {
			return &fieldError{field: "protocol.writerFeatures", value: name, reason: "must be in readerFeatures as well"}
		}
	}
	return nil
}

func contains(list []string, s string) bool {
	for _, x := range list {
		if x == s {
			return true
		}
	}
	return false
}

// propertyFeatures are the table properties that do nothing unless a feature is in
// force. Turning one on without the feature would promise what no engine keeps.
var propertyFeatures = []struct {
	property, feature string
	on                func(value string) bool
}{
	{"delta.appendOnly", "appendOnly", isTrue},
	{"delta.enableChangeDataFeed", "changeDataFeed", isTrue},
	{"delta.enableDeletionVectors", "deletionVectors", isTrue},
	{"delta.columnMapping.mode", "columnMapping", func(v string) bool { return v != "" && !strings.EqualFold(v, "none") }},
	{"delta.checkpointPolicy", "v2Checkpoint", func(v string) bool { return strings.EqualFold(v, "v2") }},
	{"delta.enableInCommitTimestamps", "inCommitTimestamp", isTrue},
	{"delta.enableRowTracking", "rowTracking", isTrue},
	{"delta.enableTypeWidening", "typeWidening", isTrue},
	{"delta.enableVariantShredding", "variantShredding", isTrue},
	{"delta.enableIcebergCompatV1", "icebergCompatV1", isTrue},
	{"delta.enableIcebergCompatV2", "icebergCompatV2", isTrue},
}

const constraintPrefix = "delta.constraints."

func isTrue(v string) bool { return strings.EqualFold(v, "true") }

// needs are the features that a metadata asks for, with what asks for each.
func (m *MetaData) needs(s *schema) map[string]string {
	out := map[string]string{}
	for _, p := range propertyFeatures {
		if v := m.Configuration[p.property]; p.on(v) {
			out[p.feature] = "property " + p.property
		}
	}
	for key := range m.Configuration {
		if strings.HasPrefix(key, constraintPrefix) {
			out["checkConstraints"] = "property " + key
		}
	}
	for name, by := range s.needs {
		out[name] = by
	}
	return out
}
