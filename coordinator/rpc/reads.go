package rpc

import (
	"fmt"

	"google.golang.org/protobuf/proto"

	pb "github.com/txcoord/txcoord/proto/txcoord/v1"
	"github.com/txcoord/txcoord/tables"
	"github.com/txcoord/txcoord/twophase"
)

// What a read declaration may hold (common.proto). The number of files is the
// catalog's to limit.
const (
	maxMatches = 10_000
	maxApps    = 10_000
)

func readFromProto(field string, r *pb.ReadDeclaration) (tables.ReadDeclaration, error) {
	var out tables.ReadDeclaration
	if r == nil {
		return out, refuse(field, "", "say what was read: blind, or a version, or a snapshot version")
	}
	if err := known(field, r); err != nil {
		return out, err
	}
	if err := pointFromProto(field, r, &out); err != nil {
		return out, err
	}
	if out.Blind && r.GetReadSet() != nil {
		return out, refuse(field+".read_set", "", "leave it out: blind says that nothing was read")
	}
	if err := appsFromProto(field+".apps", r.GetApps(), &out); err != nil {
		return out, err
	}
	if err := setFromProto(field+".read_set", r.GetReadSet(), &out); err != nil {
		return out, err
	}
	return out, isolationFromProto(field+".isolation", r.GetIsolation(), &out)
}

// known refuses fields of a newer contract: to pass over a part of what was read
// would break the promise that the client asked for.
func known(field string, m proto.Message) error {
	if len(m.ProtoReflect().GetUnknown()) > 0 {
		return refuse(field, "", "it has a field that this server does not know; ask a newer server, or leave the field out")
	}
	return nil
}

func pointFromProto(field string, r *pb.ReadDeclaration, out *tables.ReadDeclaration) error {
	switch p := r.GetPoint().(type) {
	case *pb.ReadDeclaration_Blind:
		if !p.Blind {
			return refuse(field+".blind", false, "set it to true, or give a version or a snapshot version instead")
		}
		out.Blind = true
	case *pb.ReadDeclaration_Version:
		if p.Version < 0 {
			return refuse(field+".version", p.Version, "versions of a Delta table count from 0")
		}
		v := twophase.Version(p.Version)
		out.Version = &v
	case *pb.ReadDeclaration_SnapshotVersion:
		if p.SnapshotVersion == 0 {
			return refuse(field+".snapshot_version", 0, "snapshots count from 1")
		}
		v := twophase.SnapshotVersion(p.SnapshotVersion)
		out.Snapshot = &v
	default:
		return refuse(field+".point", "", "say where the table was read: blind, or a version, or a snapshot version")
	}
	return nil
}

func appsFromProto(field string, apps []string, out *tables.ReadDeclaration) error {
	if len(apps) == 0 {
		return nil
	}
	if out.Blind {
		return refuse(field, apps[0], "leave it out: blind says that nothing was read")
	}
	if n := len(apps); n > maxApps {
		return tooMany("read_apps", n, maxApps)
	}
	for i, app := range apps {
		if err := required(fmt.Sprintf("%s[%d]", field, i), app); err != nil {
			return err
		}
	}
	out.Apps = apps
	return nil
}

func isolationFromProto(field string, i pb.Isolation, out *tables.ReadDeclaration) error {
	switch i {
	case pb.Isolation_ISOLATION_UNSPECIFIED:
		out.Isolation = tables.IsolationDefault
	case pb.Isolation_ISOLATION_SERIALIZABLE:
		out.Isolation = tables.Serializable
	case pb.Isolation_ISOLATION_WRITE_SERIALIZABLE:
		out.Isolation = tables.WriteSerializable
	default:
		return refuse(field, i, "give ISOLATION_SERIALIZABLE or ISOLATION_WRITE_SERIALIZABLE, or leave it out")
	}
	return nil
}

func setFromProto(field string, s *pb.ReadSet, out *tables.ReadDeclaration) error {
	if s == nil {
		out.Kind = tables.ReadNothing
		return nil
	}
	if err := known(field, s); err != nil {
		return err
	}
	switch w := s.GetWhat().(type) {
	case nil:
		out.Kind = tables.ReadNothing
		return nil
	case *pb.ReadSet_WholeTable:
		if !w.WholeTable {
			return refuse(field+".whole_table", false, "set it to true, or leave it out")
		}
		out.Kind = tables.ReadWholeTable
		return nil
	case *pb.ReadSet_Files:
		out.Kind = tables.ReadFiles
		return filesFromProto(field+".files", w.Files, out)
	case *pb.ReadSet_Partitions:
		out.Kind = tables.ReadPartitions
		return predicateFromProto(field+".partitions", w.Partitions, out)
	default:
		return refuse(field, "", "give files, partitions or whole_table")
	}
}

func filesFromProto(field string, f *pb.FileSet, out *tables.ReadDeclaration) error {
	if err := known(field, f); err != nil {
		return err
	}
	if len(f.GetPaths()) == 0 {
		return refuse(field+".paths", "", "list at least one path, or leave the read set out if nothing was read")
	}
	for i, p := range f.GetPaths() {
		if err := required(fmt.Sprintf("%s.paths[%d]", field, i), p); err != nil {
			return err
		}
	}
	out.Files = f.GetPaths()
	return nil
}

func predicateFromProto(field string, p *pb.PartitionPredicate, out *tables.ReadDeclaration) error {
	if err := known(field, p); err != nil {
		return err
	}
	if len(p.GetAnyOf()) == 0 {
		return refuse(field+".any_of", "", "give at least one match, or leave the read set out if nothing was read")
	}
	if n := len(p.GetAnyOf()); n > maxMatches {
		return tooMany("read_matches", n, maxMatches)
	}
	for i, m := range p.GetAnyOf() {
		and, err := matchFromProto(fmt.Sprintf("%s.any_of[%d]", field, i), m)
		if err != nil {
			return err
		}
		out.Partitions = append(out.Partitions, and)
	}
	return nil
}

func matchFromProto(field string, m *pb.PartitionMatch) (tables.PartitionMatch, error) {
	if err := known(field, m); err != nil {
		return nil, err
	}
	if len(m.GetAllOf()) == 0 {
		return nil, refuse(field+".all_of", "", "give at least one condition; for every partition use whole_table")
	}
	var and tables.PartitionMatch
	seen := map[string]bool{}
	for i, c := range m.GetAllOf() {
		f := fmt.Sprintf("%s.all_of[%d].column", field, i)
		if err := known(f, c); err != nil {
			return nil, err
		}
		if err := required(f, c.GetColumn()); err != nil {
			return nil, err
		}
		if seen[c.GetColumn()] {
			return nil, refuse(f, c.GetColumn(), "name each column once in a match")
		}
		seen[c.GetColumn()] = true
		and = append(and, conditionFromProto(c))
	}
	return and, nil
}

func conditionFromProto(c *pb.PartitionCondition) tables.PartitionCondition {
	if c.Value == nil {
		return tables.PartitionCondition{Column: c.GetColumn(), OrNull: true}
	}
	return tables.PartitionCondition{Column: c.GetColumn(), Values: []string{c.GetValue()}}
}

// ---- pages

// What a page holds by default and at most.
const (
	defaultPage = 100
	maxPage     = 1000
)

func pageSize(n uint32) int {
	if n == 0 {
		return defaultPage
	}
	return int(min(n, maxPage))
}
