package tables

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/txcoord/txcoord/twophase"
)

// Policy says what we do about a table feature when a table that has it is written.
type Policy uint8

// The policies.
const (
	// Pass: whoever wrote the data files did what the feature asks for; the actions
	// are published as they came.
	Pass Policy = iota
	// Check: the feature's rules are checked when a part is staged, and again when it
	// is decided.
	Check
	// Rewrite: actions that name a version, a time or row ids are written anew for
	// the version that they get.
	Rewrite
	// Refuse: the table is not written.
	Refuse
)

var policyNames = [...]string{"pass through", "check", "rewrite", "refuse"}

func (p Policy) String() string {
	if int(p) < len(policyNames) {
		return policyNames[p]
	}
	return fmt.Sprintf("policy(%d)", uint8(p))
}

// Feature is one row of the allow-list. A feature that is not in the list is
// unknown and refused: for writing always, for reading if it is a reader feature.
type Feature struct {
	Name string
	// Reader: it is in readerFeatures as well. We read logs and no data, so what
	// counts for reading is that log replay knows it.
	Reader bool
	// LegacyReader and LegacyWriter are the protocol versions from which it is in
	// force without being named; 0: never.
	LegacyReader, LegacyWriter int
	Policy                     Policy
	// Why says what is checked or rewritten, and on what grounds nothing more is.
	Why string
	// Unsafe: a writer that does not know of it may write what breaks it, so a change
	// that was made before it was switched on conflicts. The others are those that
	// Spark calls safe.
	Unsafe bool
}

const (
	byWriter     = "rows are checked by whoever writes the data file; a change of the metadata in between conflicts"
	underCatalog = "commits of such a table go through its own catalog, and what is put into the log past it does not count; " +
		"such tables cannot take part in transactions yet"
)

// features is the allow-list. The order is that of the bits in featureSet, which
// stand in journals: append only.
var features = [...]Feature{
	{Name: "appendOnly", LegacyWriter: 2, Policy: Check, Why: "with delta.appendOnly a remove with dataChange is refused; after the decision it is impossible"},
	{Name: "invariants", LegacyWriter: 2, Policy: Pass, Unsafe: true, Why: byWriter},
	{Name: "checkConstraints", LegacyWriter: 3, Policy: Pass, Unsafe: true, Why: byWriter},
	{Name: "changeDataFeed", LegacyWriter: 4, Policy: Pass, Why: "cdc actions travel with their part, are never dropped and never made up; switching the feed on conflicts with changes made before"},
	{Name: "generatedColumns", LegacyWriter: 4, Policy: Pass, Unsafe: true, Why: byWriter},
	{Name: "columnMapping", Reader: true, LegacyReader: 2, LegacyWriter: 5, Policy: Check, Why: "partition values, statistics and clustering columns go by physical names; the largest column id may not fall"},
	{Name: "identityColumns", LegacyWriter: 6, Policy: Check, Unsafe: true, Why: "the next value stands in the metadata, so a part that gave values out carries metaData, and two of them conflict; beside a part without metaData a new next value is no conflict. It may not go back"},
	{Name: "deletionVectors", Reader: true, Policy: Check, Why: "vectors need delta.enableDeletionVectors, numRecords and a descriptor that readers can decode; conflicts are by bare path, so that no delete is lost"},
	{Name: "timestampNtz", Reader: true, Policy: Pass, Why: "a type of columns; nothing in a commit depends on it"},
	{Name: "v2Checkpoint", Reader: true, Policy: Pass, Why: "both kinds of checkpoint are read; a commit has no duty"},
	{Name: "vacuumProtocolCheck", Reader: true, Policy: Pass, Why: "a duty of VACUUM, which is not run here"},
	{Name: "domainMetadata", Policy: Check, Why: "two changes of one domain conflict; domains are kept as they came, unknown ones too"},
	{Name: "allowColumnDefaults", Policy: Pass, Unsafe: true, Why: byWriter},
	{Name: "inCommitTimestamp", Policy: Rewrite, Why: "every version of ours gets its time, first in the first line and above the time of the version before; a part that switches it on gets the two enablement properties"},
	{Name: "rowTracking", Policy: Rewrite, Why: "new files get ids above the high-water mark, which is raised, and the version as their commit version; files that stay keep theirs; numRecords is required. Nothing is given out while suspended"},
	{Name: "clustering", Policy: Check, Unsafe: true, Why: "adds need statistics on the clustering columns; two changes of the columns conflict (domain delta.clustering)"},
	{Name: "typeWidening", Reader: true, Policy: Rewrite, Why: "versions in a field's delta.typeChanges, where they stand, are those of the commit"},
	{Name: "typeWidening-preview", Reader: true, Policy: Rewrite, Why: "versions in a field's delta.typeChanges are those of the commit"},
	{Name: "variantType", Reader: true, Policy: Pass, Unsafe: true, Why: "a type of columns; nothing in a commit depends on it"},
	{Name: "variantType-preview", Reader: true, Policy: Pass, Unsafe: true, Why: "a type of columns; nothing in a commit depends on it"},
	{Name: "variantShredding", Reader: true, Policy: Pass, Unsafe: true, Why: "a form of data files; nothing in a commit depends on it"},
	{Name: "variantShredding-preview", Reader: true, Policy: Pass, Unsafe: true, Why: "a form of data files; nothing in a commit depends on it"},
	{Name: "icebergCompatV1", Policy: Check, Why: "when enabled: adds need numRecords, have no deletion vector, and the partition columns stay"},
	{Name: "icebergCompatV2", Policy: Check, Why: "when enabled: adds need numRecords, have no deletion vector, and the partition columns stay"},
	{Name: "catalogManaged", Reader: true, Policy: Refuse, Why: underCatalog},
	{Name: "catalogOwned-preview", Reader: true, Policy: Refuse, Why: underCatalog},
	{Name: "checkpointProtection", Policy: Check, Unsafe: true, Why: "the version up to which history is protected may not be changed by a part; our clean-up of the log removes what lies below it at once, or not at all"},
	{Name: FenceFeature, Policy: Check, Why: "keeps writers out that do not know it: set and taken away by the catalog that fences the table, and by no part of a client. Changes made before and after it stand beside each other"},
}

// knownUnknowns are names that were seen in the wild and are not released: for them
// the refusal can say more than that the name is not known.
var knownUnknowns = map[string]string{
	"adaptiveMetadata":             "commits point into a tree of manifests, and two of them cannot be put together",
	"adaptiveMetadata-preview":     "commits point into a tree of manifests, and two of them cannot be put together",
	"materializePartitionColumns":  "it was taken out of the protocol again",
	"icebergCompatV3":              "it is a proposal",
	"icebergWriterCompatV1":        "it is a proposal",
	"collations":                   "it is a proposal: statistics and partition values compare by collation",
	"collations-preview":           "it is a proposal: statistics and partition values compare by collation",
	"timestampNanos":               "it is a proposal",
	"geospatial":                   "it is a proposal",
	"redirectReaderWriter-preview": "the table is a pointer to another one; register that",
	"redirectWriterOnly-preview":   "the table is a pointer to another one; register that",
	"coordinatedCommits-preview":   underCatalog,
	"multiTableTransaction":        "it is a proposal for transactions of another coordinator",
	"multiTableTransaction-dev":    "it is a proposal for transactions of another coordinator",
}

// Features is the allow-list: what is done about each feature that is known.
func Features() []Feature { return slices.Clone(features[:]) }

// UnreleasedFeatures are names of features that are refused, with what is known of them.
func UnreleasedFeatures() map[string]string { return maps.Clone(knownUnknowns) }

func unknownReason(name string) string {
	if why, ok := knownUnknowns[name]; ok {
		return "this build does not know it: " + why
	}
	return "this build does not know it"
}

// featureSet has a bit per known feature, and one for "something unknown".
type featureSet uint64

const unknownFeature featureSet = 1 << 63

var (
	featureBits = func() map[string]featureSet {
		m := make(map[string]featureSet, len(features))
		for i, f := range features {
			m[f.Name] = 1 << i
		}
		return m
	}()
	unsafeFeatures = func() (s featureSet) {
		for i, f := range features {
			if f.Unsafe {
				s |= 1 << i
			}
		}
		return s
	}()
)

// has reports that a feature of the table is in the set.
func (s featureSet) has(name string) bool { return s&featureBits[name] != 0 }

// first names a feature of the set.
func (s featureSet) first() string {
	for i := range features {
		if s&(1<<i) != 0 {
			return features[i].Name
		}
	}
	return "unknown"
}

// featureOf returns the row of a feature that is known.
func featureOf(name string) (*Feature, bool) {
	for i := range features {
		if features[i].Name == name {
			return &features[i], true
		}
	}
	return nil, false
}

func bitOf(name string) featureSet {
	if bit, ok := featureBits[name]; ok {
		return bit
	}
	return unknownFeature
}

// propertyFeatures are the table properties that do nothing unless a feature is in
// force. Turning one on without the feature would promise what no engine keeps.
var propertyFeatures = []struct {
	property, feature string
	on                func(value string) bool
}{
	{"delta.appendOnly", "appendOnly", isTrue},
	{"delta.enableChangeDataFeed", "changeDataFeed", isTrue},
	{propVectors, "deletionVectors", isTrue},
	{propMapping, "columnMapping", isMapped},
	{propCheckpointPolicy, "v2Checkpoint", func(v string) bool { return strings.EqualFold(v, "v2") }},
	{propTimestamps, "inCommitTimestamp", isTrue},
	{propRowTracking, "rowTracking", isTrue},
	{"delta.enableTypeWidening", "typeWidening", isTrue},
	{"delta.enableVariantShredding", "variantShredding", isTrue},
	{"delta.enableIcebergCompatV1", "icebergCompatV1", isTrue},
	{"delta.enableIcebergCompatV2", "icebergCompatV2", isTrue},
	{propProtected, "checkpointProtection", func(v string) bool { return v != "" }},
}

// sameDuty are features of which one stands for the other.
var sameDuty = map[string]string{
	"typeWidening": "typeWidening-preview", "variantType": "variantType-preview", "variantShredding": "variantShredding-preview",
}

// covers reports that a feature, or its preview, is in the set.
func (s featureSet) covers(name string) bool { return s.has(name) || s.has(sameDuty[name]) }

// The properties that features are switched on by, or that commits have to mind.
const (
	propVectors          = "delta.enableDeletionVectors"
	propMapping          = "delta.columnMapping.mode"
	propMaxColumn        = "delta.columnMapping.maxColumnId"
	propTimestamps       = "delta.enableInCommitTimestamps"
	propTimesSince       = "delta.inCommitTimestampEnablementVersion"
	propTimesFrom        = "delta.inCommitTimestampEnablementTimestamp"
	propRowTracking      = "delta.enableRowTracking"
	propRowsSuspended    = "delta.rowTrackingSuspended"
	propRowIDColumn      = "delta.rowTracking.materializedRowIdColumnName"
	propRowVersionColumn = "delta.rowTracking.materializedRowCommitVersionColumnName"
	propProtected        = "delta.requireCheckpointProtectionBeforeVersion"
	constraintPrefix     = "delta.constraints."
)

func isTrue(v string) bool { return strings.EqualFold(v, "true") }

func isMapped(mode string) bool { return mode != "" && !strings.EqualFold(mode, "none") }

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

// What of the features is active, with the properties that switch it on.

func (p *Profile) isOn(feature, property string) bool {
	return p.inForce.has(feature) && isTrue(p.Property(property))
}

func (p *Profile) appendOnly() bool { return p.isOn("appendOnly", "delta.appendOnly") }

// timestamps: every version has an in-commit timestamp.
func (p *Profile) timestamps() bool { return p.isOn("inCommitTimestamp", propTimestamps) }

// tracksRows: every add needs row ids, whether or not readers may use them.
func (p *Profile) tracksRows() bool {
	return p.inForce.has("rowTracking") && !isTrue(p.Property(propRowsSuspended))
}

// iceberg names the compatibility feature that is enabled, if one is.
func (p *Profile) iceberg() string {
	for _, name := range []string{"icebergCompatV1", "icebergCompatV2"} {
		if p.isOn(name, "delta.enableI"+name[1:]) {
			return name
		}
	}
	return ""
}

// counts: every add needs stats.numRecords.
func (p *Profile) counts() bool { return p.tracksRows() || p.iceberg() != "" }

// ProtectedBefore is the version below which checkpoints and log clean-up must leave
// the history alone (feature checkpointProtection); 0 if there is none.
func (p *Profile) ProtectedBefore() twophase.Version {
	if !p.inForce.has("checkpointProtection") {
		return 0
	}
	v, _ := intOf([]byte(p.Property(propProtected)))
	return twophase.Version(max(v, 0))
}
