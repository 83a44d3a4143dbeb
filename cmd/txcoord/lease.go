package main

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	client "github.com/txcoord/txcoord/clients/go"
	txcoordv1 "github.com/txcoord/txcoord/proto/txcoord/v1"
)

type snapshotTags struct{}

func (snapshotTags) Run(ctx context.Context, s *session) error {
	return s.call(ctx, "listing tags", func(ctx context.Context, api *client.Client) error {
		a, err := api.Snapshots.ListTags(ctx, &txcoordv1.ListTagsRequest{})
		if err != nil {
			return err
		}
		names := []string{}
		for _, t := range a.GetTags() {
			names = append(names, t.GetName())
		}
		return s.show(a, names, func(g *grid) {
			g.row("TAG", "SNAPSHOT")
			for _, t := range a.GetTags() {
				g.row(t.GetName(), t.GetSnapshotVersion())
			}
		})
	})
}

type leaseCommands struct {
	Create leaseCreate `cmd:"" default:"withargs" help:"Keep what a snapshot needs readable for some time."`
	Renew  leaseRenew  `cmd:"" help:"Make a lease last longer, from now on."`
	List   leaseList   `cmd:"" help:"List the leases that have not ended."`
	Delete leaseDelete `cmd:"" help:"End a lease now."`
}

type leaseCreate struct {
	Version *uint64        `arg:"" optional:"" name:"snapshot" help:"The snapshot; the latest if left out."`
	TTL     *time.Duration `name:"ttl" help:"How long the lease lasts; the server's default if left out (limit lease_ttl)." placeholder:"DURATION"`
	ID      string         `name:"id" help:"The lease's id; a new one if left out." placeholder:"ID"`
	Note    string         `help:"What it is for, in words."`
}

func (c *leaseCreate) Run(ctx context.Context, s *session) error {
	q := &txcoordv1.LeaseSnapshotRequest{LeaseId: c.ID, Note: c.Note}
	var err error
	if q.Ttl, err = ttlOf(c.TTL); err != nil {
		return err
	}
	if c.Version != nil {
		if q.SnapshotVersion = *c.Version; *c.Version == 0 {
			return usage("snapshot", "0", noSnapshotZero)
		}
	}
	if q.GetLeaseId() == "" { // ours, so that a repeated call makes no second lease
		var b [8]byte
		_, _ = rand.Read(b[:])
		q.LeaseId = "l-" + hex.EncodeToString(b[:])
	}
	return s.call(ctx, "leasing", func(ctx context.Context, api *client.Client) error {
		a, err := api.Snapshots.LeaseSnapshot(ctx, q)
		if err != nil {
			return err
		}
		s.warnings(a.GetWarnings())
		return s.show(a, []string{a.GetLease().GetId()}, func(g *grid) { leaseGrid(g, a.GetLease()) })
	})
}

// ttlOf is nil if none was given: the server has a default.
func ttlOf(d *time.Duration) (*durationpb.Duration, error) {
	switch {
	case d == nil:
		return nil, nil
	case *d <= 0:
		return nil, usage("--ttl", d.String(), "give a time above 0, or leave it out for the server's default")
	}
	return durationpb.New(*d), nil
}

func leaseGrid(g *grid, all ...*txcoordv1.Lease) {
	g.row("LEASE", "SNAPSHOT", "SINCE", "UNTIL", "NOTE")
	for _, l := range all {
		g.row(l.GetId(), l.GetSnapshotVersion(), l.GetSince(), l.GetUntil(), orDash(l.GetNote()))
	}
}

type leaseArg struct {
	Lease string `arg:"" help:"The lease's id."`
}

type leaseRenew struct {
	leaseArg
	TTL *time.Duration `name:"ttl" help:"How long it lasts from now on; the server's default if left out." placeholder:"DURATION"`
}

func (c *leaseRenew) Run(ctx context.Context, s *session) error {
	ttl, err := ttlOf(c.TTL)
	if err != nil {
		return err
	}
	return s.call(ctx, "renewing "+c.Lease, func(ctx context.Context, api *client.Client) error {
		a, err := api.Snapshots.RenewLease(ctx, &txcoordv1.RenewLeaseRequest{LeaseId: c.Lease, Ttl: ttl})
		if err != nil {
			return err
		}
		s.warnings(a.GetWarnings())
		return s.show(a, []string{a.GetLease().GetId()}, func(g *grid) { leaseGrid(g, a.GetLease()) })
	})
}

type leaseList struct{}

func (leaseList) Run(ctx context.Context, s *session) error {
	return s.call(ctx, "listing leases", func(ctx context.Context, api *client.Client) error {
		a, err := api.Snapshots.ListLeases(ctx, &txcoordv1.ListLeasesRequest{})
		if err != nil {
			return err
		}
		ids := []string{}
		for _, l := range a.GetLeases() {
			ids = append(ids, l.GetId())
		}
		return s.show(a, ids, func(g *grid) { leaseGrid(g, a.GetLeases()...) })
	})
}

type leaseDelete struct{ leaseArg }

func (c *leaseDelete) Run(ctx context.Context, s *session) error {
	return s.call(ctx, "ending "+c.Lease, func(ctx context.Context, api *client.Client) error {
		a, err := api.Snapshots.DeleteLease(ctx, &txcoordv1.DeleteLeaseRequest{LeaseId: c.Lease})
		if err != nil {
			return err
		}
		return s.show(a, nil, func(g *grid) { g.row(fmt.Sprintf("lease %s has ended", c.Lease)) })
	})
}
