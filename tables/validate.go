package tables

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/txcoord/txcoord/internal/nearest"
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
	if err := after.partitionTypes(a); err != nil {
		return err
	}
	if err := after.deletionVectors(a); err != nil {
		return err
	}
	for _, check := range []func(*Actions) error{after.removes, after.counted, after.untracked, after.domains, after.clusterStats} {
		if err := check(a); err != nil {
			return err
		}
	}
	return nil
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
	if err := p.keepsProperties(next); err != nil {
		return nil, err
	}
	if a.MetaData != nil {
		if err := p.checkMapping(next); err != nil {
			return nil, err
		}
		if err := p.checkIdentities(next); err != nil {
			return nil, err
		}
	}
	if next.timestamps() && !p.timestamps() && a.MetaData == nil {
		return nil, &InputError{
			Field: "protocol", Rule: twophase.RuleProtocol, Reason: "in-commit timestamps cannot begin without a metaData that says so",
			Remedy: "stage the table's metaData with " + propTimestamps + " as well",
		}
	}
	return next, next.checkNeeds()
}

func (p *Profile) checkProtocol(next *Protocol) error {
	if err := next.wellFormed(); err != nil {
		return definitionError(err)
	}
	if err := next.checkWritable(p.URI); err != nil {
		if feature, ok := errors.AsType[*FeatureError](err); ok {
			feature.Added = true
		}
		return err
	}
	if has := next.inForce(); has&fenceBit != p.inForce&fenceBit {
		return &InputError{
			Field: "protocol.writerFeatures", Value: FenceFeature, Rule: twophase.RuleProtocol,
			Reason: "a fence is raised and lifted by the catalog alone", Remedy: "leave the feature as it is; fence or unfence the table with the call for that",
		}
	}
	if lost := p.inForce &^ next.inForce(); lost != 0 {
		return &InputError{
			Field: "protocol.writerFeatures", Value: lost.first(), Rule: twophase.RuleProtocol,
			Reason: "a feature of the table is missing; features cannot be dropped here",
		}
	}
	return nil
}

func (p *Profile) checkMetaData(next *MetaData) error {
	refuse := func(field, value, reason, remedy string) error {
		return &InputError{Field: "metaData." + field, Value: cut(value), Reason: reason, Remedy: remedy, Rule: twophase.RuleSchema}
	}
	if next.ID != p.MetaData.ID {
		return refuse("id", next.ID, "is not the table's, which is "+p.MetaData.ID, "a table cannot be replaced in a transaction; keep the id")
	}
	s, err := parseSchema(next.Schema, true)
	if err == nil && next.Schema != p.MetaData.Schema {
		err = checkForm(next.Schema, isMapped(next.Configuration[propMapping]))
	}
	switch {
	case next.Schema == "":
		return refuse("schemaString", "", "is missing", "")
	case err != nil:
		return schemaError("metaData.schemaString", err)
	case next.PartitionColumns == nil:
		return refuse("partitionColumns", "", "is missing", "write [] if there are none")
	}
	for _, name := range next.PartitionColumns {
		if names := s.names(); !slices.Contains(names, name) {
			return refuse("partitionColumns", name, "is not a column of the schema", nearest.OneOf(name, names))
		}
	}
	if err := checkSettings(next.Configuration); err != nil {
		return err
	}
	return refuseNewlyIgnored(p.MetaData.Configuration, next.Configuration)
}

// checkNeeds: what properties and schema ask for must be in force.
func (p *Profile) checkNeeds() error {
	needs := p.MetaData.needs(p.schema)
	for _, name := range slices.Sorted(maps.Keys(needs)) {
		if !p.inForce.covers(name) {
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

func (p *Profile) domains(a *Actions) error {
	for i := range a.Domains {
		d := &a.Domains[i]
		refuse := func(reason, remedy string) error {
			return &InputError{Field: "domainMetadata.domain", Value: cut(d.Name), Reason: reason, Remedy: remedy, Rule: twophase.RuleProtocol}
		}
		switch {
		case !p.inForce.has("domainMetadata"):
			return refuse("the table does not have the feature domainMetadata", "")
		case d.Name == clusteringDomain && !p.inForce.has("clustering"):
			return refuse("the table does not have the feature clustering", "")
		case d.Name != rowTrackingDomain:
		case !p.inForce.has("rowTracking"):
			return refuse("the table does not have the feature rowTracking", "")
		case !p.tracksRows():
			return refuse("row tracking is suspended", "leave the domain out")
		default:
			if err := p.rowDomain(a, d); err != nil {
				return err
			}
		}
	}
	return nil
}

// rowDomain: the mark may be raised by the ids that the part gives out, which are
// given out anew when it is published. Ids that are only reserved could be somebody
// else's by then.
func (p *Profile) rowDomain(a *Actions, d *Domain) error {
	refuse := func(reason string) error {
		return &InputError{
			Field: "domainMetadata", Value: cut(d.Configuration), Rule: twophase.RuleDomain, Reason: reason,
			Remedy: "leave the domain " + rowTrackingDomain + " out; row ids are given out when the part is published",
		}
	}
	mark, ok := markOf(d.Configuration)
	if d.Removed || !ok {
		return refuse("does not hold " + markField)
	}
	rows := make([]stagedRows, len(a.staged))
	for i := range a.staged {
		rows[i] = a.staged[i].rows
	}
	if given(rows, mark) == mark {
		return refuse("row ids cannot be reserved in a transaction: no add of the part has those below the mark that it raises")
	}
	return nil
}

// counted: every add says how many rows it has, where a feature counts on it.
func (p *Profile) counted(a *Actions) error {
	if !p.counts() {
		return nil
	}
	feature := "rowTracking"
	if name := p.iceberg(); name != "" {
		feature = name
	}
	for i := range a.Adds {
		f := &a.Adds[i]
		switch {
		case !f.NumRecords:
			return &InputError{
				Line: f.Line, Field: "add.stats", Value: cut(f.Path), Rule: twophase.RuleProtocol,
				Reason: "numRecords is missing, which the table's feature " + feature + " needs",
			}
		case f.DV != 0 && p.iceberg() != "":
			return &InputError{
				Line: f.Line, Field: "add.deletionVector", Value: cut(f.Path), Rule: twophase.RuleProtocol,
				Reason: "the table's feature " + feature + " does not allow deletion vectors",
			}
		}
	}
	return nil
}

// untracked: row ids on a table that gives none out would be somebody else's once it
// does.
func (p *Profile) untracked(a *Actions) error {
	if p.inForce.has("rowTracking") {
		return nil
	}
	for i := range a.staged {
		if a.staged[i].rows.has&(hasRowID|hasRowVersion) != 0 {
			return &InputError{
				Line: a.Adds[i].Line, Field: "add.baseRowId", Value: cut(a.Adds[i].Path), Rule: twophase.RuleProtocol,
				Reason: "the table does not have the feature rowTracking", Remedy: "leave baseRowId and defaultRowCommitVersion out",
			}
		}
	}
	return nil
}

// keepsProperties: what a new metaData may not do to properties of features. p is the
// table before it.
func (p *Profile) keepsProperties(next *Profile) error {
	refuse := func(property, reason string) error {
		return &InputError{Field: property, Value: cut(next.Property(property)), Reason: reason, Rule: twophase.RuleProtocol}
	}
	if p.timestamps() && next.timestamps() {
		for _, property := range []string{propTimesSince, propTimesFrom} {
			if next.Property(property) != p.Property(property) {
				return refuse(property, "says since when versions have in-commit timestamps, and may not change")
			}
		}
	}
	was, is := p.Property(propMapping), next.Property(propMapping)
	switch {
	case isMapped(was) && !strings.EqualFold(was, is):
		return refuse(propMapping, "cannot be changed from "+was)
	case isMapped(is) && p.Property(propMaxColumn) != next.Property(propMaxColumn) && !rises(p.Property(propMaxColumn), next.Property(propMaxColumn)):
		return refuse(propMaxColumn, "the largest column id may not fall; it is "+p.Property(propMaxColumn))
	case p.Property(propProtected) != next.Property(propProtected):
		return refuse(propProtected, "is set by the engine that drops a feature, in a version of its own")
	case isTrue(next.Property(propRowTracking)) && isTrue(next.Property(propRowsSuspended)):
		return refuse(propRowsSuspended, "row tracking cannot be enabled and suspended")
	case isTrue(next.Property(propRowTracking)) && next.Property(propRowIDColumn) == "":
		return refuse(propRowIDColumn, "must name the column that keeps row ids while row tracking is enabled")
	case isTrue(next.Property(propRowTracking)) && next.Property(propRowVersionColumn) == "":
		return refuse(propRowVersionColumn, "must name the column that keeps commit versions while row tracking is enabled")
	case next.iceberg() != "" && p.iceberg() != "" && !slices.Equal(p.MetaData.PartitionColumns, next.MetaData.PartitionColumns):
		return refuse("partitionColumns", "cannot change while "+next.iceberg()+" is enabled")
	}
	return nil
}
