package tables

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/txcoord/txcoord/twophase"
)

// Validate checks a part against the table's protocol and metadata: features by
// the allow-list, partition keys, append-only, and what a new protocol or metaData
// may say. *InputError or *FeatureError, naming line and field. What changes from
// commit to commit (live files, app versions) is View's to check.
func Validate(a *Actions, p *Profile) error {
	if err := p.CheckWritable(); err != nil {
		return err
	}
	after, err := p.after(a)
	if err != nil {
		return err
	}
	if err := after.partitionKeys(a); err != nil {
		return err
	}
	if err := after.deletionVectors(a); err != nil {
		return err
	}
	if err := after.removes(a); err != nil {
		return err
	}
	return after.domains(a)
}

// after is the profile that the part leaves behind, checked; p itself if the part
// changes neither protocol nor metadata.
func (p *Profile) after(a *Actions) (*Profile, error) {
	if a.Protocol == nil && a.MetaData == nil {
		return p, nil
	}
	protocol, meta := a.Protocol, a.MetaData
	if protocol == nil {
		protocol = &p.Protocol
	} else if err := p.checkProtocol(protocol); err != nil {
		return nil, err
	}
	if meta == nil {
		meta = &p.MetaData
	} else if err := p.checkMetaData(meta); err != nil {
		return nil, err
	}
	next := newProfile(p.URI, p.Version, protocol, meta, p)
	if err := next.checkUses(meta, next.schema); err != nil {
		return nil, err
	}
	return next, next.checkNeeds()
}

func (p *Profile) checkProtocol(next *Protocol) error {
	if err := next.wellFormed(); err != nil {
		return definitionError(err)
	}
	if err := next.checkWritable(p.URI); err != nil {
		return err
	}
	if lost := p.inForce &^ next.inForce(); lost != 0 {
		return &InputError{
			Field: "protocol.writerFeatures", Value: lost.first(), Rule: twophase.RuleProtocol,
			Reason: "a feature of the table is missing; features cannot be dropped here",
		}
	}
	return nil
}

// first names a feature of the set.
func (s featureSet) first() string {
	for i := range features {
		if s&(1<<i) != 0 {
			return features[i].name
		}
	}
	return "unknown"
}

func (p *Profile) checkMetaData(next *MetaData) error {
	refuse := func(field, value, reason, remedy string) error {
		return &InputError{Field: "metaData." + field, Value: cut(value), Reason: reason, Remedy: remedy, Rule: twophase.RuleSchema}
	}
	if next.ID != p.MetaData.ID {
		return refuse("id", next.ID, "is not the table's, which is "+p.MetaData.ID, "a table cannot be replaced in a transaction; keep the id")
	}
	s, err := parseSchema(next.Schema, true)
	switch {
	case next.Schema == "":
		return refuse("schemaString", "", "is missing", "")
	case err != nil:
		return refuse("schemaString", "", err.Error(), "")
	case next.PartitionColumns == nil:
		return refuse("partitionColumns", "", "is missing", "write [] if there are none")
	}
	for _, name := range next.PartitionColumns {
		if !slices.ContainsFunc(s.columns, func(c column) bool { return c.name == name }) {
			return refuse("partitionColumns", name, "is not a column of the schema", "")
		}
	}
	return checkSettings(next.Configuration)
}

// checkNeeds: what properties and schema ask for must be in force.
func (p *Profile) checkNeeds() error {
	needs := p.MetaData.needs(p.schema)
	for _, name := range slices.Sorted(maps.Keys(needs)) {
		if !p.inForce.has(name) {
			return &InputError{
				Field: "metaData", Value: needs[name], Rule: twophase.RuleProtocol,
				Reason: "needs the table feature " + name, Remedy: "stage a protocol action that names it",
			}
		}
	}
	return nil
}

func definitionError(err error) error {
	if fe, ok := errors.AsType[*fieldError](err); ok {
		return &InputError{Field: fe.field, Value: fe.value, Reason: fe.reason, Rule: twophase.RuleProtocol}
	}
	return err
}

// partitionKeys: each add carries a value for every partition column and for no
// other. A remove may leave its values out, but not have other ones.
func (p *Profile) partitionKeys(a *Actions) error {
	bad := make([]bool, len(a.Partitions))
	found := false
	for i, values := range a.Partitions {
		bad[i] = !p.hasKeys(values)
		found = found || bad[i]
	}
	if !found {
		return nil
	}
	for _, files := range [][]File{a.Adds, a.Removes} {
		for i := range files {
			f := &files[i]
			if f.Partition < 0 || !bad[f.Partition] {
				continue
			}
			return &InputError{
				Line: f.Line, Field: "partitionValues", Rule: twophase.RuleSchema,
				Value:  strings.Join(a.Partitions[f.Partition].columns(), ", "),
				Reason: fmt.Sprintf("keys must be the table's partition columns [%s]", strings.Join(p.keys, ", ")),
			}
		}
	}
	return nil
}

func (p *Profile) hasKeys(values PartitionValues) bool {
	if len(values) != len(p.keys) {
		return false
	}
	for i, v := range values {
		if v.Column != p.keys[i] {
			return false
		}
	}
	return true
}

func (v PartitionValues) columns() []string {
	out := make([]string, len(v))
	for i := range v {
		out[i] = v[i].Column
	}
	return out
}

func (p *Profile) deletionVectors(a *Actions) error {
	for i := range a.Adds {
		f := &a.Adds[i]
		switch {
		case f.DV == 0:
		case !p.inForce.has("deletionVectors"):
			return &InputError{
				Line: f.Line, Field: "add.deletionVector", Value: cut(f.Path), Rule: twophase.RuleProtocol,
				Reason: "the table does not have the feature deletionVectors",
			}
		case !isTrue(p.Property("delta.enableDeletionVectors")):
			return &InputError{
				Line: f.Line, Field: "add.deletionVector", Value: cut(f.Path), Rule: twophase.RuleProtocol,
				Reason: "the table's property delta.enableDeletionVectors is not true",
			}
		}
	}
	return nil
}

func (p *Profile) removes(a *Actions) error {
	if !p.appendOnly() {
		return nil
	}
	for i := range a.Removes {
		if f := &a.Removes[i]; f.DataChange {
			return &InputError{
				Line: f.Line, Field: "remove", Value: cut(f.Path), Rule: twophase.RuleAppendOnly,
				Reason: "the table is append-only (delta.appendOnly)", Remedy: "only removes with dataChange false are allowed",
			}
		}
	}
	return nil
}

// systemDomains are written by features that we refuse.
var systemDomains = map[string]string{"delta.rowTracking": "rowTracking", "delta.clustering": "clustering"}

func (p *Profile) domains(a *Actions) error {
	for _, d := range a.Domains {
		if f := systemDomains[d.Name]; f != "" {
			return &FeatureError{Table: p.URI, Write: true, Feature: f, Reason: features[bitIndex(featureBits[f])].reason}
		}
		if !p.inForce.has("domainMetadata") {
			return &InputError{
				Field: "domainMetadata.domain", Value: cut(d.Name), Rule: twophase.RuleProtocol,
				Reason: "the table does not have the feature domainMetadata",
			}
		}
	}
	return nil
}
