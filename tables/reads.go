package tables

import (
	"fmt"
	"slices"
	"strings"

	"github.com/txcoord/txcoord/internal/nearest"
	"github.com/txcoord/txcoord/twophase"
)

// ReadKind says what a client read of a table.
type ReadKind uint8

// What can be read.
const (
	// ReadNothing: only write/write conflicts are found.
	ReadNothing ReadKind = iota
	ReadFiles
	ReadPartitions
	ReadWholeTable
)

var readKindNames = [...]string{"nothing", "files", "partitions", "whole-table"}

func (k ReadKind) String() string {
	if int(k) < len(readKindNames) {
		return readKindNames[k]
	}
	return fmt.Sprintf("read(%d)", uint8(k))
}

// ReadDeclaration is what a client says of its reading of one table.
type ReadDeclaration struct {
	// Blind: nothing was read; the part holds adds and txn only. Else exactly one of
	// Version and Snapshot is the read point.
	Blind    bool
	Version  *twophase.Version
	Snapshot *twophase.SnapshotVersion

	Kind ReadKind
	// Files are paths as they stand in the log.
	Files []string
	// Partitions that fit any of the matches were read.
	Partitions []PartitionMatch
	// Apps whose version the client has read: a change to one is a conflict.
	Apps      []string
	Isolation Isolation
}

// PartitionMatch fits a partition if all of its conditions do.
type PartitionMatch []PartitionCondition

// PartitionCondition fits a partition whose value in a column is one of a list.
type PartitionCondition struct {
	// Column is the logical name.
	Column string
	// Values as they stand in partitionValues; the empty string is null.
	Values []string
	OrNull bool
}

// Check refuses a declaration that contradicts itself. *InputError. The other
// functions of this package expect that it was asked.
func (r *ReadDeclaration) Check() error {
	refuse := func(field, reason string) error {
		return &InputError{Field: "read." + field, Reason: reason}
	}
	points := 0
	for _, set := range []bool{r.Blind, r.Version != nil, r.Snapshot != nil} {
		if set {
			points++
		}
	}
	switch {
	case points != 1:
		return refuse("point", "exactly one of blind, version and snapshot version is needed; it never defaults")
	case r.Version != nil && *r.Version < 0:
		return refuse("version", "must not be negative")
	case r.Blind && (r.Kind != ReadNothing || len(r.Apps) > 0):
		return refuse("read_set", "a blind part has read nothing")
	case r.Kind != ReadFiles && len(r.Files) > 0, r.Kind != ReadPartitions && len(r.Partitions) > 0:
		return refuse("read_set", "holds what its kind does not have")
	case r.Kind == ReadPartitions && len(r.Partitions) == 0:
		return refuse("partitions", "needs a match")
	case r.Kind > ReadWholeTable || r.Isolation > WriteSerializable:
		return refuse("read_set", "is of a kind that is not known")
	}
	for _, m := range r.Partitions {
		if len(m) == 0 {
			return refuse("partitions", "a match needs a condition; read the whole table instead")
		}
		for _, c := range m {
			if c.Column == "" || len(c.Values) == 0 && !c.OrNull {
				return refuse("partitions", "a condition needs a column and a value")
			}
		}
	}
	return nil
}

// Equal reports whether two pieces of one part may be put together: their
// declarations must say the same.
func (r *ReadDeclaration) Equal(o *ReadDeclaration) bool {
	return slices.Equal(r.canonical(nil), o.canonical(nil))
}

// addReads puts the declaration into facts.
func (b *builder) addReads(p *Profile, r *ReadDeclaration) error {
	level := r.Isolation
	if level == IsolationDefault {
		level = p.isolation()
	}
	if level == WriteSerializable {
		b.flags |= flagWriteSerializable
	}
	if r.Blind {
		b.flags |= flagBlind
	}
	for _, app := range r.Apps {
		b.readAppList = append(b.readAppList, hashTexts("app", app))
	}
	switch r.Kind {
	case ReadNothing:
	case ReadFiles:
		b.flags |= flagReadFiles
		for _, path := range r.Files {
			canonical, err := p.place.canonical(path)
			if err != nil {
				return &InputError{Field: "read.files", Value: cut(path), Reason: err.Error()}
			}
			b.fileList = append(b.fileList, uint64(HashPath(canonical)))
		}
	case ReadPartitions:
		b.flags |= flagReadPartitions
		return b.addPredicate(p, r.Partitions)
	case ReadWholeTable:
		b.flags |= flagReadWhole
	}
	return nil
}

func (b *builder) addPredicate(p *Profile, matches []PartitionMatch) error {
	for _, m := range matches {
		var out match
		for _, c := range m {
			i, err := p.partitionColumn(c.Column)
			if err != nil {
				return err
			}
			cond := condition{column: p.columns[i]}
			for _, v := range c.Values {
				cond.values = append(cond.values, valueHash(p.types[i], v))
			}
			if c.OrNull {
				cond.values = append(cond.values, nullValue)
			}
			out = append(out, cond)
		}
		b.matches = append(b.matches, out)
	}
	return nil
}

// partitionColumn finds a partition column by its logical name, whose case does
// not matter, and returns its place among the keys.
func (p *Profile) partitionColumn(name string) (int, error) {
	for _, column := range p.MetaData.PartitionColumns {
		if strings.EqualFold(column, name) {
			return slices.Index(p.keys, p.physicalName(column)), nil
		}
	}
	return 0, &InputError{
		Field: "read.partitions.column", Value: cut(name), Rule: twophase.RuleSchema,
		Reason: "is not a partition column of the table", Remedy: nearest.OneOf(name, p.MetaData.PartitionColumns),
	}
}
