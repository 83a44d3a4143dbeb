package rpc

import (
	"context"
	"fmt"
	"sync"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/txcoord/txcoord/coordinator"
	"github.com/txcoord/txcoord/coordinator/access"
	"github.com/txcoord/txcoord/coordinator/quota"
	"github.com/txcoord/txcoord/twophase"
)

// DefaultCatalog is the catalog of a request that names none.
const DefaultCatalog = "default"

// request is what every request has, see common.proto.
type request interface {
	GetCatalog() string
	GetAtLeastSnapshot() uint64
}

// service is what the services share.
type service struct {
	find   func(name string) (Catalog, error)
	peers  *peers // nil: calls are not sent on
	access *access.Access
	// guarded: rights are asked for, or what is asked for is noted.
	guarded bool
	faults  faults
	version string
	limits  Limits
	memory  *quota.Budget
	joining sync.Mutex // of blocks
	// quota is that of who has none of its own; book counts calls and streams.
	quota     quota.Limits
	book      *quota.Book
	standings standings
	// stopping ends watches; the catalogs end everything else.
	stopping <-chan struct{}
}

// enter finds the request's catalog, counts the call among its caller's, and waits until
// the catalog's fold holds what the client has seen. Every call begins here, and leaves
// if it was let in.
func (s *service) enter(ctx context.Context, q request, kind quota.Resource) (_ Catalog, leave func(), _ error) {
	c, st, err := s.catalog(ctx, q)
	if err != nil {
		return nil, nil, err
	}
	if leave, err = s.count(st, kind); err != nil {
		return nil, nil, err
	}
	c = billed{Catalog: c, by: &st.by}
	if q.GetAtLeastSnapshot() == 0 {
		return c, leave, nil
	}
	if err := c.AtLeast(ctx, twophase.SnapshotVersion(q.GetAtLeastSnapshot())); err != nil {
		leave()
		return nil, nil, err
	}
	return c, leave, nil
}

// catalog finds the request's, as its caller may see it.
func (s *service) catalog(ctx context.Context, q request) (Catalog, *standing, error) {
	name := q.GetCatalog()
	if name == "" {
		name = DefaultCatalog
	}
	// Who may do nothing in a catalog is not told whether it is there.
	caller := callerOf(ctx)
	caller.note.in(name)
	st, keep := s.standing(caller, name)
	if !st.rights.Any() {
		caller.note.deny()
		return nil, nil, &coordinator.Error{
			Reason:  coordinator.PermissionDenied,
			Message: fmt.Sprintf("%s may do nothing in catalog %q; a role has to be bound to it", whoIs(caller.who), text(name, maxValue)),
		}
	}
	c, err := s.find(name)
	if err != nil {
		return nil, nil, err
	}
	if keep != nil { // of catalogs that there are, whatever callers ask for
		keep()
	}
	if s.guarded {
		c = guard{caller: caller, in: c, rights: st.rights, name: name}
	}
	return c, st, nil
}

// NoCatalog is the error of a catalog that is not served.
func NoCatalog(name string) error {
	return &coordinator.Error{
		Reason:  coordinator.CatalogNotFound,
		Message: fmt.Sprintf("no catalog %q here; give the name of the one that this server serves", text(name, maxValue)),
	}
}

// unary is the frame of every call with one answer: enter, do, latest_snapshot,
// and errors as statuses.
func unary[A proto.Message](
	ctx context.Context, s *service, q request, do func(c Catalog) (A, error),
) (none A, _ error) {
	c, leave, err := s.enter(ctx, q, quota.Calls)
	if err != nil {
		return none, s.faults.status(ctx, err)
	}
	defer leave()
	a, err := do(c)
	if err != nil {
		return none, s.faults.status(ctx, err)
	}
	setLatest(a, c)
	return a, nil
}

// setLatest fills the field that every answer has. It is read after the answer
// was made, so that it is never below what the answer names.
func setLatest(a proto.Message, c Catalog) {
	m := a.ProtoReflect()
	m.Set(m.Descriptor().Fields().ByName("latest_snapshot"), protoreflect.ValueOfUint64(uint64(c.Shown())))
}

// client says who asks, for lists: the principal, if there is one, and the address.
func client(ctx context.Context) string {
	if c := callerOf(ctx); c != nil && len(c.who.Names) > 0 && c.who.Name() != access.Anonymous {
		return c.who.Name() + " at " + c.link.address
	}
	return address(ctx)
}

func address(ctx context.Context) string { return linkOf(ctx).address }
