package rpc

import (
	"context"
	"fmt"
	"log/slog"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/txcoord/txcoord/coordinator"
	"github.com/txcoord/txcoord/coordinator/access"
	"github.com/txcoord/txcoord/tables"
)

// note collects what the audit log says of a call: which tables it asked for which
// actions, and whether one was refused. A nil note takes nothing down.
type note struct {
	// audited: somebody reads what was asked for.
	audited bool

	mu    sync.Mutex
	asked []asked
	// of counts what was asked for, by action, also what is not among asked.
	of map[access.Action]int
	// line: the call has one, though reading may be all that it asked for.
	line  bool
	about string
	// catalog is what the request calls it; subject is the transaction.
	catalog string
	subject coordinator.Subject
}

type asked struct {
	table  string
	action access.Action
}

// askedMost bounds what one call's line of the audit log holds of one action: what is read
// takes no place from what is written.
const askedMost = 64

func (n *note) on(table string, a access.Action) {
	if n == nil || !n.audited {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.of == nil {
		n.of = map[access.Action]int{}
	}
	if n.of[a]++; n.of[a] <= askedMost {
		n.asked = append(n.asked, asked{text(tables.WithoutPassword(table), maxValue), a})
	}
}

// tell says what an operator's call is about, besides tables. Never a token.
func (n *note) tell(about string) {
	if n == nil {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.about = text(about, maxText)
}

// in says which catalog the call is for.
func (n *note) in(catalog string) {
	if n == nil {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.catalog = text(catalog, maxValue)
}

// where is what every log line of a call says of its catalog and its transaction, as far
// as they are known.
func (n *note) where() (out []slog.Attr) {
	if n == nil {
		return nil
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.catalog != "" {
		out = append(out, slog.String("catalog", n.catalog))
	}
	if id := n.subject.Txn(); !id.IsZero() {
		out = append(out, coordinator.TxnAttr(id))
	}
	return out
}

// deny says that the call is refused for who makes it.
func (n *note) deny() { n.write() }

// changes says that the call does something, though reading is all that it has to be granted.
func (n *note) changes() { n.write() }

// unread says that the request is not one that could be read.
func (n *note) unread() { n.write() }

func (n *note) write() {
	if n == nil {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.line = true
}

// unproven is the audit log's word for who showed something that proves nothing, or
// nothing yet: not access.Anonymous, who shows nothing.
const unproven = "unauthenticated"

// audited writes the audit log's line of a call: those that ask for more than reading, those
// that are refused for who makes them, and those whose request was not read.
func (i interceptors) audited(ctx context.Context, method string, err error) {
	if i.audit == nil {
		return
	}
	c, principal := callerOf(ctx), unproven
	if c != nil {
		principal = c.who.Name()
	}
	asked, written := noteOf(ctx).asks()
	if !written && c != nil {
		return
	}
	all := []slog.Attr{
		slog.String("principal", principal), slog.String("client", address(ctx)), slog.String("method", method),
	}
	all = append(all, noteOf(ctx).where()...)
	all = append(append(all, asked...), ended(err, c != nil)...)
	i.audit.LogAttrs(ctx, slog.LevelInfo, "call", all...)
}

// asks is what a line says of what was asked for, and whether there is to be one.
func (n *note) asks() (out []slog.Attr, written bool) {
	if n == nil {
		return []slog.Attr{slog.Any("asked", []string{})}, false
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	written = n.line
	asked, left := make([]string, len(n.asked)), -len(n.asked)
	for i, a := range n.asked {
		asked[i] = fmt.Sprintf("%s:%s", a.action, a.table)
	}
	for a, times := range n.of {
		written, left = written || a != access.Read, left+times
	}
	out = append(out, slog.Any("asked", asked))
	if left > 0 {
		out = append(out, slog.Int("asked_more", left))
	}
	if n.about != "" {
		out = append(out, slog.String("about", n.about))
	}
	return out, written
}

// ended is what a line says of how a call has ended. What is wrong with a proof is said
// (never the proof), and what gRPC itself says, which has no reason of ours.
func ended(err error, proven bool) []slog.Attr {
	st := status.Convert(err)
	out := []slog.Attr{slog.String("code", st.Code().String())}
	if err == nil {
		return out
	}
	reason := reasonOf(st)
	out = append(out, slog.String("reason", reason))
	if !proven || reason == "" {
		out = append(out, slog.String("detail", text(st.Message(), maxText)))
	}
	return out
}

// unreadable has the calls with one request in the audit log whose request gRPC does not
// read to its end, as it is too large: interceptors are not told of them.
type unreadable struct {
	grpc.ServiceRegistrar
	interceptors
}

// RegisterService implements grpc.ServiceRegistrar.
func (u unreadable) RegisterService(d *grpc.ServiceDesc, impl any) {
	u.ServiceRegistrar.RegisterService(around(d, func(name string, handle handler) handler {
		return func(srv any, ctx context.Context, read func(any) error, with grpc.UnaryServerInterceptor) (any, error) {
			var broken error
			a, err := handle(srv, ctx, func(q any) error {
				broken = read(q)
				return broken
			}, with)
			if refusedUnread(broken) {
				u.unread(ctx, name, broken)
			}
			return a, err
		}
	}), impl)
}

// refusedUnread tells a request that gRPC does not take from a client that went.
func refusedUnread(err error) bool {
	switch status.Code(err) {
	case codes.ResourceExhausted, codes.Internal, codes.InvalidArgument, codes.Unimplemented:
		return true
	default:
		return false
	}
}

// unread finds out who has made a call that nothing is known of but its method.
func (i interceptors) unread(ctx context.Context, method string, err error) {
	if within, failed := i.identify(ctx, method); failed == nil {
		noteOf(within).unread()
		ctx = within
	}
	i.audited(ctx, method, err)
}
