package rpc

import (
	"context"
	"time"

	"github.com/txcoord/txcoord/coordinator"
	"github.com/txcoord/txcoord/coordinator/access"
	"github.com/txcoord/txcoord/coordinator/quota"
)

// billed is a catalog that counts what is asked of it as one principal's.
type billed struct {
	Catalog
	by *quota.Caller
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

// payerOf is who a call counts for. Those who do not say who they are count by where they
// call from: the machine, not the connection, of which one may have as many as it likes.
func payerOf(c *caller) string {
	if name := c.who.Name(); name != access.Anonymous {
		return name
	}
	return c.link.stranger
}

// count counts a call or a stream until it leaves.
func (s *service) count(st *standing, kind quota.Resource) (leave func(), _ error) {
	if err := s.book.Take(st.account, kind, 1); err != nil {
		return nil, coordinator.OverQuota(err)
	}
	return func() { s.book.Give(st.account.Name, kind, 1) }, nil
}
