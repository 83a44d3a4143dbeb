package rpc

import (
	"context"
	"net"
	"time"

	"google.golang.org/grpc/peer"

	"github.com/txcoord/txcoord/coordinator"
	"github.com/txcoord/txcoord/coordinator/access"
	"github.com/txcoord/txcoord/coordinator/quota"
)

// billed is a catalog that counts what is asked of it as one principal's.
type billed struct {
	Catalog
	by quota.Caller
}

// Begin implements Catalog.
func (b billed) Begin(ctx context.Context, q coordinator.BeginRequest) (coordinator.Begun, error) {
	return b.Catalog.Begin(quota.WithCaller(ctx, b.by), q)
}

// Stage implements Catalog.
func (b billed) Stage(ctx context.Context, q coordinator.StageRequest) (coordinator.Staged, error) {
	return b.Catalog.Stage(quota.WithCaller(ctx, b.by), q)
}

// Commit implements Catalog.
func (b billed) Commit(ctx context.Context, q coordinator.CommitRequest) (coordinator.Outcome, error) {
	return b.Catalog.Commit(quota.WithCaller(ctx, b.by), q)
}

// CommitOnce implements Catalog.
func (b billed) CommitOnce(ctx context.Context, q coordinator.OnceRequest) (coordinator.Outcome, string, error) {
	return b.Catalog.CommitOnce(quota.WithCaller(ctx, b.by), q)
}

// Abort implements Catalog.
func (b billed) Abort(ctx context.Context, ref coordinator.OutcomeRef, reason string) (coordinator.Outcome, error) {
	return b.Catalog.Abort(quota.WithCaller(ctx, b.by), ref, reason)
}

// Outcome implements Catalog. It may abort.
func (b billed) Outcome(ctx context.Context, q coordinator.OutcomeRequest) (coordinator.Outcome, time.Time, error) {
	return b.Catalog.Outcome(quota.WithCaller(ctx, b.by), q)
}

// payer is who a call counts for, and up to where. Those who do not say who they are
// count by where they call from: the machine, not the connection, of which one may have
// as many as it likes.
func (s *service) payer(ctx context.Context, catalog string) quota.Caller {
	who := callerOf(ctx).who
	by := quota.Caller{Name: who.Name(), Limits: s.access.Policy().Quota(who, catalog, s.quota)}
	if by.Name == access.Anonymous {
		by.Name += " at " + machine(ctx)
	}
	return by
}

// machine is where a call comes from, without the port.
func machine(ctx context.Context) string {
	p, ok := peer.FromContext(ctx)
	if !ok || p.Addr == nil {
		return ""
	}
	if host, _, err := net.SplitHostPort(p.Addr.String()); err == nil {
		return host
	}
	return p.Addr.Network() // a socket of this machine
}

// count counts a call or a stream until it leaves.
func (s *service) count(by quota.Caller, catalog string, kind quota.Resource) (leave func(), _ error) {
	by.Name = catalog + " " + by.Name // names of catalogs have no blanks
	if err := s.book.Take(by, kind, 1); err != nil {
		return nil, coordinator.OverQuota(err)
	}
	return func() { s.book.Give(by.Name, kind, 1) }, nil
}
