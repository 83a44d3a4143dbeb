package tables

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/txcoord/txcoord/twophase"
)

// Protocol is a protocol action.
type Protocol struct {
	MinReader, MinWriter int
	// ReaderFeatures and WriterFeatures are nil where the action has none.
	ReaderFeatures, WriterFeatures []string
	// Raw is the action's object, byte for byte.
	Raw []byte
}

// MetaData is a metaData action.
type MetaData struct {
	ID               string
	Name             string
	Description      string
	Schema           string
	PartitionColumns []string
	Configuration    map[string]string
	// Raw is the action's object, byte for byte.
	Raw []byte
}

func parseProtocol(body []byte) (*Protocol, error) {
	if err := uniqueNames(body); err != nil {
		return nil, within("protocol", err)
	}
	p := &Protocol{Raw: slices.Clone(body)}
	var reader, writer int64
	err := members(body, func(name, value []byte) bool {
		ok := true
		switch string(name) {
		case "minReaderVersion":
			reader, ok = intOf(value)
		case "minWriterVersion":
			writer, ok = intOf(value)
		case "readerFeatures":
			p.ReaderFeatures, ok = stringsOf(value)
		case "writerFeatures":
			p.WriterFeatures, ok = stringsOf(value)
		}
		return ok
	})
	if err != nil {
		return nil, within("protocol", err)
	}
	const most = 1 << 30
	if reader < 1 || reader > most || writer < 1 || writer > most {
		return nil, &fieldError{field: "protocol", value: cut(body), reason: "needs minReaderVersion and minWriterVersion from 1 up"}
	}
	p.MinReader, p.MinWriter = int(reader), int(writer)
	return p, nil
}

func parseMetaData(body []byte) (*MetaData, error) {
	if err := uniqueNames(body); err != nil {
		return nil, within("metaData", err)
	}
	m := &MetaData{Raw: slices.Clone(body), Configuration: map[string]string{}}
	err := members(body, func(name, value []byte) bool {
		ok := true
		switch string(name) {
		case "id":
			m.ID, ok = textOf(value)
		case "name":
			m.Name, ok = textOf(value)
		case "description":
			m.Description, ok = textOf(value)
		case "schemaString":
			m.Schema, ok = textOf(value)
		case "partitionColumns":
			m.PartitionColumns, ok = stringsOf(value)
		case "configuration":
			err := members(value, func(key, v []byte) bool {
				text, isText := textOf(v)
				m.Configuration[string(key)] = text
				return isText
			})
			ok = err == nil
		}
		return ok
	})
	if err != nil {
		return nil, within("metaData", err)
	}
	if m.ID == "" {
		return nil, &fieldError{field: "metaData.id", reason: "is missing"}
	}
	return m, nil
}

// within puts the action's name in front of a member's error.
func within(action string, err error) error {
	if fe, ok := errors.AsType[*fieldError](err); ok {
		return &fieldError{field: strings.TrimSuffix(action+"."+fe.field, "."), value: fe.value, reason: fe.reason, remedy: fe.remedy}
	}
	return err
}

// below is within for a name as it stands in a text; errors of the grammar have a place
// of their own.
func below(name []byte, err error) error {
	if _, ok := errors.AsType[*fieldError](err); ok {
		return within(cut(name), err)
	}
	return err
}

func textOf(raw []byte) (string, bool) {
	b, ok := stringOf(raw)
	return string(b), ok
}

func stringsOf(raw []byte) ([]string, bool) {
	out := []string{}
	err := elements(raw, func(value []byte) bool {
		s, ok := textOf(value)
		out = append(out, s)
		return ok
	})
	return out, err == nil
}

// Profile is what one has to know of a table besides its files and applications:
// what changes rarely. Immutable, so that it can be shared.
type Profile struct {
	URI string
	// Version is the one at which protocol and metadata came into force, as far as
	// the replay saw it.
	Version  twophase.Version
	Protocol Protocol
	MetaData MetaData

	place    place
	inForce  featureSet
	schema   *schema
	broken   error    // schemaString cannot be read
	writable error    // why it may not be written
	keys     []string // partition columns by physical name, sorted
	keysHash uint64
	// columns and types go with keys: hashes of the names, and the data types.
	columns []uint64
	types   []string
	idHash  uint64
	// look stands for schema and partition columns, config for the properties.
	look, config uint64
	fingerprint  Fingerprint
	// earlier are the metadata before this one, newest first, so that CommitFacts
	// can say under which of them a file may have been written.
	earlier []earlier
	// clustering are the columns that adds need statistics of, by physical names, as
	// the domain says that clusteredBy is the text of.
	clustering     [][]string
	clusteringText string
}

// earlier is a metadata that a part may have been made under, with what led from it
// to the present one.
type earlier struct {
	look, config uint64
	schema       *schema
	step         step
}

// maxEarlier bounds Profile.earlier.
const maxEarlier = 8

// newProfile derives what the rules need. prev is the profile before, or nil.
func newProfile(uri string, v twophase.Version, p *Protocol, m *MetaData, prev *Profile) *Profile {
	out := &Profile{URI: uri, Version: v, Protocol: *p, MetaData: *m, place: placeOf(uri)}
	out.inForce = p.inForce()
	out.schema, out.broken = parseSchema(m.Schema, false)
	if out.broken != nil {
		out.schema = &schema{}
	}
	out.keys = out.physical(m.PartitionColumns)
	slices.Sort(out.keys)
	out.keysHash = hashKeys(out.keys)
	for _, key := range out.keys {
		out.columns = append(out.columns, hashTexts("column", key))
		out.types = append(out.types, out.dataType(key))
	}
	out.idHash = hashTexts("id", m.ID)
	out.look = hashTexts("look", append([]string{m.Schema}, m.PartitionColumns...)...)
	out.config = hashConfig(m.Configuration)
	out.fingerprint = Fingerprint(fmt.Sprintf(fingerprintForm, out.look, out.config, uint64(out.inForce)))
	if prev != nil {
		out.clustering, out.clusteringText = prev.clustering, prev.clusteringText
		out.earlier = out.follow(prev)
	}
	out.writable = out.checkWritable()
	return out
}

// follow is what was before, seen from a new profile.
func (p *Profile) follow(prev *Profile) []earlier {
	taken := prev.stepTo(p)
	if taken == stepSame {
		return prev.earlier
	}
	out := []earlier{{prev.look, prev.config, prev.schema, taken}}
	for _, e := range prev.earlier {
		e.step = min(e.step, taken)
		out = append(out, e)
	}
	return out[:min(len(out), maxEarlier)]
}

// Fingerprint stands for what a writer has to know of a table: schema, partition
// columns, properties, features. It is kept with a staged part.
type Fingerprint string

const fingerprintForm = "%016x-%016x-%016x"

// Fingerprint is the profile's.
func (p *Profile) Fingerprint() Fingerprint { return p.fingerprint }

// Property returns a table property, empty if it is not set.
func (p *Profile) Property(key string) string { return p.MetaData.Configuration[key] }

// PartitionKeys are the keys that partitionValues must have: the partition
// columns, by their physical names under column mapping, sorted.
func (p *Profile) PartitionKeys() []string { return slices.Clone(p.keys) }

// physical maps columns to their physical names. Without column mapping a field
// has no other name than its own.
func (p *Profile) physical(columns []string) []string {
	out := make([]string, len(columns))
	for i, name := range columns {
		out[i] = p.physicalName(name)
	}
	return out
}

func (p *Profile) physicalName(column string) string {
	if !isMapped(p.Property(propMapping)) {
		return column
	}
	for _, c := range p.schema.columns {
		if strings.EqualFold(c.name, column) {
			return c.physical
		}
	}
	return column
}

// dataType is the type of a column, by physical name; empty if it is not a
// primitive one or not known.
func (p *Profile) dataType(physical string) string {
	for _, c := range p.schema.columns {
		if p.physicalName(c.name) == physical {
			return c.dataType
		}
	}
	return ""
}

// CheckWritable refuses, by name, a table with a feature beside which we may not
// write, or whose schema cannot be read. *FeatureError or *InputError.
func (p *Profile) CheckWritable() error { return p.writable }

func (p *Profile) checkWritable() error {
	if err := p.Protocol.checkWritable(p.URI); err != nil {
		return err
	}
	if p.broken != nil {
		return &InputError{Field: "metaData.schemaString", Reason: p.broken.Error(), Rule: twophase.RuleSchema}
	}
	return p.checkUses(&p.MetaData, p.schema)
}

// checkUses refuses what properties and schema make use of and we may not write
// beside, although no feature's name says so (writer version 6, say).
func (p *Profile) checkUses(m *MetaData, s *schema) error {
	needs := m.needs(s)
	for _, name := range slices.Sorted(maps.Keys(needs)) {
		if f, ok := featureOf(name); ok && p.inForce.has(name) && f.Policy == Refuse {
			return &FeatureError{Table: p.URI, Write: true, Feature: name, Reason: fmt.Sprintf("%s (%s)", f.Why, needs[name])}
		}
	}
	return nil
}

func hashKeys(sorted []string) uint64 { return hashTexts("keys", sorted...) }

func hashConfig(c map[string]string) uint64 {
	var all []string
	for _, k := range slices.Sorted(maps.Keys(c)) {
		all = append(all, k, c[k])
	}
	return hashTexts("config", all...)
}

// hashTexts hashes texts, each with its length, so that no two lists look alike.
func hashTexts(what string, texts ...string) uint64 {
	h := sha256.New()
	var n [8]byte
	for _, s := range append([]string{what}, texts...) {
		binary.BigEndian.PutUint64(n[:], uint64(len(s)))
		h.Write(n[:])
		h.Write([]byte(s))
	}
	return binary.BigEndian.Uint64(h.Sum(nil))
}
