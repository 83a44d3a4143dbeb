package rpc

import (
	"context"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/txcoord/txcoord/coordinator"
	pb "github.com/txcoord/txcoord/proto/txcoord/v1"
	"github.com/txcoord/txcoord/twophase"
)

func (s snapshotService) ListTags(ctx context.Context, q *pb.ListTagsRequest) (*pb.ListTagsResponse, error) {
	return unary(ctx, s.service, q, func(c Catalog) (*pb.ListTagsResponse, error) {
		all, err := c.Tags(ctx)
		return &pb.ListTagsResponse{Tags: each(all, func(t coordinator.Tag) *pb.Tag {
			return &pb.Tag{Name: whole(t.Name), SnapshotVersion: uint64(t.Snapshot)}
		})}, err
	})
}

func (s snapshotService) LeaseSnapshot(ctx context.Context, q *pb.LeaseSnapshotRequest) (*pb.LeaseSnapshotResponse, error) {
	return unary(ctx, s.service, q, func(c Catalog) (*pb.LeaseSnapshotResponse, error) {
		ttl, err := leaseTTL(q.GetTtl())
		if err != nil {
			return nil, err
		}
		l, warnings, err := c.Lease(ctx, coordinator.LeaseRequest{
			ID: q.GetLeaseId(), Snapshot: twophase.SnapshotVersion(q.GetSnapshotVersion()), TTL: ttl, Note: q.GetNote(),
		})
		return &pb.LeaseSnapshotResponse{Lease: leaseToProto(l), Warnings: wholes(warnings)}, err
	})
}

func (s snapshotService) RenewLease(ctx context.Context, q *pb.RenewLeaseRequest) (*pb.RenewLeaseResponse, error) {
	return unary(ctx, s.service, q, func(c Catalog) (*pb.RenewLeaseResponse, error) {
		if err := required("lease_id", q.GetLeaseId()); err != nil {
			return nil, err
		}
		ttl, err := leaseTTL(q.GetTtl())
		if err != nil {
			return nil, err
		}
		l, warnings, err := c.RenewLease(ctx, coordinator.LeaseRequest{ID: q.GetLeaseId(), TTL: ttl})
		return &pb.RenewLeaseResponse{Lease: leaseToProto(l), Warnings: wholes(warnings)}, err
	})
}

func (s snapshotService) ListLeases(ctx context.Context, q *pb.ListLeasesRequest) (*pb.ListLeasesResponse, error) {
	return unary(ctx, s.service, q, func(c Catalog) (*pb.ListLeasesResponse, error) {
		all, err := c.Leases(ctx)
		return &pb.ListLeasesResponse{Leases: each(all, leaseToProto)}, err
	})
}

func (s snapshotService) DeleteLease(ctx context.Context, q *pb.DeleteLeaseRequest) (*pb.DeleteLeaseResponse, error) {
	return unary(ctx, s.service, q, func(c Catalog) (*pb.DeleteLeaseResponse, error) {
		if err := required("lease_id", q.GetLeaseId()); err != nil {
			return nil, err
		}
		return &pb.DeleteLeaseResponse{}, c.EndLease(ctx, q.GetLeaseId())
	})
}

func leaseToProto(l coordinator.Lease) *pb.Lease {
	return &pb.Lease{
		Id: whole(l.ID), SnapshotVersion: uint64(l.Snapshot), Note: whole(l.Note), Since: timestamp(l.Since), Until: timestamp(l.Until),
	}
}

// leaseTTL: unset is the server's default, and nothing else is.
func leaseTTL(d *durationpb.Duration) (time.Duration, error) {
	if d == nil {
		return 0, nil
	}
	ttl := d.AsDuration()
	if err := d.CheckValid(); err != nil || ttl <= 0 {
		return 0, refuse("ttl", ttl, "give a time above 0, or leave it out for the server's default")
	}
	return ttl, nil
}
