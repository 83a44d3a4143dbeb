package rpc

import (
	"context"

	"google.golang.org/grpc"

	"github.com/txcoord/txcoord/coordinator"
	"github.com/txcoord/txcoord/coordinator/quota"
	pb "github.com/txcoord/txcoord/proto/txcoord/v1"
	"github.com/txcoord/txcoord/twophase"
)

type snapshotService struct {
	pb.UnimplementedSnapshotServiceServer
	*service
}

func (s snapshotService) GetSnapshot(
	ctx context.Context, q *pb.GetSnapshotRequest,
) (*pb.GetSnapshotResponse, error) {
	return unary(ctx, s.service, q, func(c Catalog) (*pb.GetSnapshotResponse, error) {
		ref, err := snapshotFromProto(q)
		if err != nil {
			return nil, err
		}
		snap, err := c.Snapshot(ctx, ref, q.GetTables())
		return &pb.GetSnapshotResponse{Snapshot: snapshotToProto(snap)}, err
	})
}

func (s snapshotService) ListSnapshots(
	ctx context.Context, q *pb.ListSnapshotsRequest,
) (*pb.ListSnapshotsResponse, error) {
	return unary(ctx, s.service, q, func(c Catalog) (*pb.ListSnapshotsResponse, error) {
		p, err := c.Snapshots(ctx, q.GetTable(), pageSize(q.GetPageSize()), q.GetPageToken())
		return pageToProto(p), err
	})
}

func (s snapshotService) DiffSnapshots(
	ctx context.Context, q *pb.DiffSnapshotsRequest,
) (*pb.DiffSnapshotsResponse, error) {
	return unary(ctx, s.service, q, func(c Catalog) (*pb.DiffSnapshotsResponse, error) {
		from, to, err := diffFromProto(q)
		if err != nil {
			return nil, err
		}
		d, err := c.Diff(ctx, from, to)
		return diffToProto(d), err
	})
}

func (s snapshotService) TagSnapshot(
	ctx context.Context, q *pb.TagSnapshotRequest,
) (*pb.TagSnapshotResponse, error) {
	return unary(ctx, s.service, q, func(c Catalog) (*pb.TagSnapshotResponse, error) {
		name, v, err := tagFromProto(q)
		if err != nil {
			return nil, err
		}
		warnings, err := c.Tag(ctx, name, v)
		return &pb.TagSnapshotResponse{Warnings: wholes(warnings)}, err
	})
}

type watchStream = grpc.ServerStreamingServer[pb.WatchSnapshotsResponse]

// WatchSnapshots ends when the caller goes, or with SHUTTING_DOWN when the server
// stops: a watch never ends by itself, and a graceful stop would wait for it.
func (s snapshotService) WatchSnapshots(q *pb.WatchSnapshotsRequest, stream watchStream) error {
	ctx, cancel := context.WithCancel(stream.Context())
	defer cancel()
	c, leave, err := s.enter(ctx, q, quota.Streams)
	if err != nil {
		return s.faults.status(ctx, err)
	}
	defer leave()
	go func() {
		select {
		case <-s.stopping:
			cancel()
		case <-ctx.Done():
		}
	}()
	err = c.Watch(ctx, (*twophase.SnapshotVersion)(q.After), func(change coordinator.SnapshotChange) error {
		m := &pb.WatchSnapshotsResponse{Snapshot: changeToProto(change)}
		setLatest(m, c)
		return stream.Send(m)
	})
	if err != nil && stream.Context().Err() == nil && s.isStopping() {
		err = shuttingDown()
	}
	return s.faults.status(stream.Context(), err)
}
