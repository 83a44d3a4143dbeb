package rpc

import (
	"context"

	pb "github.com/txcoord/txcoord/proto/txcoord/v1"
)

type statusService struct {
	pb.UnimplementedStatusServiceServer
	*service
}

func (s statusService) GetStatus(ctx context.Context, q *pb.GetStatusRequest) (*pb.GetStatusResponse, error) {
	return unary(ctx, s.service, q, func(c Catalog) (*pb.GetStatusResponse, error) {
		st, err := c.Status(ctx)
		return statusToProto(st, s.version), err
	})
}
