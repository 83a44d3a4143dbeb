package client

import (
	"slices"
	"strings"

	txcoordv1 "github.com/txcoord/txcoord/proto/txcoord/v1"
)

// Blind declares that nothing of the table was read: the change only adds files
// and sets application versions. Only such changes share versions and never
// conflict with appends of others.
func Blind() *txcoordv1.ReadDeclaration {
	return &txcoordv1.ReadDeclaration{Point: &txcoordv1.ReadDeclaration_Blind{Blind: true}}
}

// AtVersion declares the Delta version of the table that was read, and what of it;
// nil: write/write conflicts are found, write skew is not.
func AtVersion(version int64, what *txcoordv1.ReadSet) *txcoordv1.ReadDeclaration {
	return &txcoordv1.ReadDeclaration{
		Point: &txcoordv1.ReadDeclaration_Version{Version: version}, ReadSet: what,
	}
}

// AtSnapshot is AtVersion with the version that the table has in a snapshot.
func AtSnapshot(snapshot uint64, what *txcoordv1.ReadSet) *txcoordv1.ReadDeclaration {
	return &txcoordv1.ReadDeclaration{
		Point: &txcoordv1.ReadDeclaration_SnapshotVersion{SnapshotVersion: snapshot}, ReadSet: what,
	}
}

// WholeTable: every concurrent change of the table is a conflict.
func WholeTable() *txcoordv1.ReadSet {
	return &txcoordv1.ReadSet{What: &txcoordv1.ReadSet_WholeTable{WholeTable: true}}
}

// Files: a concurrent removal of one of these is a conflict. Paths as the log has them.
func Files(paths ...string) *txcoordv1.ReadSet {
	return &txcoordv1.ReadSet{What: &txcoordv1.ReadSet_Files{Files: &txcoordv1.FileSet{Paths: paths}}}
}

// Partitions: concurrent changes in partitions that fit any of the matches are
// conflicts.
func Partitions(anyOf ...Partition) *txcoordv1.ReadSet {
	p := &txcoordv1.PartitionPredicate{}
	for _, match := range anyOf {
		p.AnyOf = append(p.AnyOf, match.match())
	}
	return &txcoordv1.ReadSet{What: &txcoordv1.ReadSet_Partitions{Partitions: p}}
}

// Partition gives partition columns their values, as Delta writes them in
// `partitionValues`; nil is null. Columns that are left out may have any value.
type Partition map[string]*string

func (p Partition) match() *txcoordv1.PartitionMatch {
	m := &txcoordv1.PartitionMatch{}
	for column, value := range p {
		m.AllOf = append(m.AllOf, &txcoordv1.PartitionCondition{Column: column, Value: value})
	}
	slices.SortFunc(m.AllOf, func(a, b *txcoordv1.PartitionCondition) int {
		return strings.Compare(a.GetColumn(), b.GetColumn())
	})
	return m
}
