package rpc

import (
	"context"
	"encoding/base64"
	"sort"

	"github.com/txcoord/txcoord/coordinator"
	pb "github.com/txcoord/txcoord/proto/txcoord/v1"
)

type tableService struct {
	pb.UnimplementedTableServiceServer
	*service
}

func (s tableService) RegisterTable(
	ctx context.Context, q *pb.RegisterTableRequest,
) (*pb.RegisterTableResponse, error) {
	return unary(ctx, s.service, q, func(c Catalog) (*pb.RegisterTableResponse, error) {
		in, err := registerFromProto(q)
		if err != nil {
			return nil, err
		}
		t, warnings, err := c.Register(ctx, in)
		return &pb.RegisterTableResponse{Table: tableToProto(t), Warnings: wholes(warnings)}, err
	})
}

func (s tableService) CreateTable(ctx context.Context, q *pb.CreateTableRequest) (*pb.CreateTableResponse, error) {
	return unary(ctx, s.service, q, func(c Catalog) (*pb.CreateTableResponse, error) {
		in, err := createFromProto(q)
		if err != nil {
			return nil, err
		}
		t, warnings, err := c.Create(ctx, in)
		return &pb.CreateTableResponse{Table: tableToProto(t), Warnings: wholes(warnings)}, err
	})
}

func (s tableService) ListTables(ctx context.Context, q *pb.ListTablesRequest) (*pb.ListTablesResponse, error) {
	return unary(ctx, s.service, q, func(c Catalog) (*pb.ListTablesResponse, error) {
		after, err := nameFromPage(q.GetPageToken())
		if err != nil {
			return nil, err
		}
		all, err := c.Tables(ctx)
		if err != nil {
			return nil, err
		}
		page, next := tablePage(all, after, q.GetFrozenOnly(), pageSize(q.GetPageSize()))
		return &pb.ListTablesResponse{Tables: each(page, tableToProto), NextPageToken: next}, nil
	})
}

// tablePage cuts a page out of the tables, which are sorted by name. A page token
// is the last name, so that tables that come and go between two pages neither
// repeat a table nor leave one out.
func tablePage(
	all []coordinator.TableInfo, after string, frozen bool, size int,
) (page []coordinator.TableInfo, next string) {
	for _, t := range all[sort.Search(len(all), func(i int) bool { return all[i].Name > after }):] {
		if frozen && t.Frozen == nil && !t.Torn {
			continue
		}
		if len(page) == size {
			return page, pageAfter(page[size-1].Name)
		}
		page = append(page, t)
	}
	return page, ""
}

func pageAfter(name string) string { return base64.RawURLEncoding.EncodeToString([]byte(name)) }

func nameFromPage(token string) (string, error) {
	name, err := base64.RawURLEncoding.DecodeString(token)
	if err != nil {
		return "", refuse("page_token", token, "give the next_page_token of the page before, or leave it out")
	}
	return string(name), nil
}

func (s tableService) DescribeTable(
	ctx context.Context, q *pb.DescribeTableRequest,
) (*pb.DescribeTableResponse, error) {
	return unary(ctx, s.service, q, func(c Catalog) (*pb.DescribeTableResponse, error) {
		if err := required("table", q.GetTable()); err != nil {
			return nil, err
		}
		d, err := c.Describe(ctx, q.GetTable())
		return descriptionToProto(d), err
	})
}

func (s tableService) ReleaseTable(
	ctx context.Context, q *pb.ReleaseTableRequest,
) (*pb.ReleaseTableResponse, error) {
	return unary(ctx, s.service, q, func(c Catalog) (*pb.ReleaseTableResponse, error) {
		if err := required("table", q.GetTable()); err != nil {
			return nil, err
		}
		return &pb.ReleaseTableResponse{}, c.Release(ctx, q.GetTable(), q.GetKeepFence())
	})
}

func (s tableService) SetTableMode(
	ctx context.Context, q *pb.SetTableModeRequest,
) (*pb.SetTableModeResponse, error) {
	return unary(ctx, s.service, q, func(c Catalog) (*pb.SetTableModeResponse, error) {
		if err := required("table", q.GetTable()); err != nil {
			return nil, err
		}
		m, err := modeFromProto(q.GetMode())
		if err != nil {
			return nil, err
		}
		t, err := c.SetMode(ctx, q.GetTable(), m)
		return &pb.SetTableModeResponse{Table: tableToProto(t)}, err
	})
}

func (s tableService) FenceTable(ctx context.Context, q *pb.FenceTableRequest) (*pb.FenceTableResponse, error) {
	return unary(ctx, s.service, q, func(c Catalog) (*pb.FenceTableResponse, error) {
		if err := required("table", q.GetTable()); err != nil {
			return nil, err
		}
		t, err := c.Fence(ctx, coordinator.FenceRequest{Table: q.GetTable(), NoOlderWriters: q.GetNoOlderWriters()})
		return &pb.FenceTableResponse{Table: tableToProto(t)}, err
	})
}

func (s tableService) UnfenceTable(ctx context.Context, q *pb.UnfenceTableRequest) (*pb.UnfenceTableResponse, error) {
	return unary(ctx, s.service, q, func(c Catalog) (*pb.UnfenceTableResponse, error) {
		if err := required("table", q.GetTable()); err != nil {
			return nil, err
		}
		t, err := c.Unfence(ctx, q.GetTable())
		return &pb.UnfenceTableResponse{Table: tableToProto(t)}, err
	})
}
