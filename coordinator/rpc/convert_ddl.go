package rpc

import (
	"fmt"
	"maps"
	"slices"

	"github.com/txcoord/txcoord/coordinator"
	pb "github.com/txcoord/txcoord/proto/txcoord/v1"
	"github.com/txcoord/txcoord/tables"
)

// change is what a staged part says of its table besides its actions.
type change interface {
	GetTable() string
	GetRead() *pb.ReadDeclaration
	GetCreate() *pb.NewTable
	GetAlter() *pb.TableAlteration
}

// changeFromProto reads it; prefix stands in front of field names. The read declaration
// is required, save for a table that begins, or that is altered as it is.
func changeFromProto(prefix string, q change) (out coordinator.OnceTable, err error) {
	out.Table = q.GetTable()
	if q.GetRead() != nil || q.GetCreate() == nil && q.GetAlter() == nil {
		if out.Read, err = readFromProto(prefix+"read", q.GetRead()); err != nil {
			return out, err
		}
	}
	if n := q.GetCreate(); n != nil {
		if out.Create, err = newTableFromProto(prefix+"create.", n); err != nil {
			return out, err
		}
	}
	if a := q.GetAlter(); a != nil {
		out.Alter, err = alterationFromProto(prefix+"alter.", a)
	}
	return out, err
}

func newTableFromProto(prefix string, n *pb.NewTable) (*coordinator.NewTable, error) {
	for _, f := range [][2]string{{"uri", n.GetUri()}, {"schema_json", n.GetSchemaJson()}} {
		if err := required(prefix+f[0], f[1]); err != nil {
			return nil, err
		}
	}
	mode, err := modeOrOpen(n.GetMode())
	return &coordinator.NewTable{
		URI: n.GetUri(), Schema: n.GetSchemaJson(), PartitionColumns: n.GetPartitionColumns(), Properties: n.GetProperties(),
		Description: n.GetDescription(), Mode: mode, OneTxnPerVersion: n.GetOneTxnPerVersion(),
	}, err
}

func alterationFromProto(prefix string, a *pb.TableAlteration) (*tables.Alteration, error) {
	out := &tables.Alteration{
		SetProperties: maps.Clone(a.GetSetProperties()), UnsetProperties: slices.Clone(a.GetUnsetProperties()),
		WidenColumns: maps.Clone(a.GetWidenColumns()), ColumnComments: maps.Clone(a.GetColumnComments()), Description: a.Description,
	}
	for i, c := range a.GetAddColumns() {
		for _, f := range [][2]string{{"name", c.GetName()}, {"type", c.GetType()}} {
			if err := required(fmt.Sprintf("%sadd_columns[%d].%s", prefix, i, f[0]), f[1]); err != nil {
				return nil, err
			}
		}
		out.AddColumns = append(out.AddColumns, tables.NewColumn{Name: c.GetName(), Type: c.GetType(), Comment: c.GetComment()})
	}
	if out.Empty() {
		return nil, refuse(prefix[:len(prefix)-1], "", "name a column or a property to change")
	}
	return out, nil
}

func releasesFromProto(all []string) ([]string, error) {
	seen := names{}
	for i, table := range all {
		if err := seen.take(fmt.Sprintf("releases[%d]", i), table); err != nil {
			return nil, err
		}
	}
	return all, nil
}
