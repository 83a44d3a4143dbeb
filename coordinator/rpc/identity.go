package rpc

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"

	"google.golang.org/grpc"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/txcoord/txcoord/coordinator"
	"github.com/txcoord/txcoord/coordinator/access"
	"github.com/txcoord/txcoord/tables"
)

// caller is who makes a call, and what is noted about it.
type caller struct {
	who  access.Principal
	link *link
	note note
}

// identity is the context of a call whose caller is known.
type identity struct {
	context.Context
	caller caller
}

type callerKey struct{}

// Value implements context.Context.
func (i *identity) Value(key any) any {
	if key == (callerKey{}) {
		return &i.caller
	}
	return i.Context.Value(key)
}

// callerOf is nil where none is known.
func callerOf(ctx context.Context) *caller {
	c, _ := ctx.Value(callerKey{}).(*caller)
	return c
}

// noteOf is nil where nothing is noted.
func noteOf(ctx context.Context) *note {
	if c := callerOf(ctx); c != nil {
		return &c.note
	}
	return nil
}

// note collects what the audit log says of a call: which tables it asked for which
// actions, and whether one was refused. A nil note takes nothing down.
type note struct {
	// audited: somebody reads what was asked for.
	audited bool

	mu     sync.Mutex
	asked  []asked
	denied bool
	about  string
	// catalog is what the request calls it; subject is the transaction.
	catalog string
	subject coordinator.Subject
}

type asked struct {
	table  string
	action access.Action
}

// askedMost bounds what one call's line of the audit log holds.
const askedMost = 64

func (n *note) on(table string, a access.Action) {
	if n == nil || !n.audited {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.asked) < askedMost {
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

func (n *note) deny() {
	if n == nil {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.denied = true
}

// identify finds out who calls. Health checks need not say; everybody else whose
// proof is wrong is refused here, before anything of the request is looked at.
func (i interceptors) identify(ctx context.Context, method string) (context.Context, error) {
	out := &identity{Context: ctx, caller: caller{link: linkOf(ctx), note: note{audited: i.audit != nil}}}
	if healthMethods[method] {
		return out, nil
	}
	p := out.caller.link.proof
	if all := metadata.ValueFromIncomingContext(ctx, "authorization"); len(all) > 0 {
		p.Authorization = all[0]
	}
	who, err := i.access.Authenticate(ctx, p)
	if err != nil {
		return ctx, i.faults.status(ctx, unauthenticated(err))
	}
	out.caller.who = who
	return coordinator.WithSubject(out, &out.caller.note.subject), nil
}

var healthMethods = map[string]bool{
	healthpb.Health_Check_FullMethodName: true, healthpb.Health_Watch_FullMethodName: true, healthpb.Health_List_FullMethodName: true,
}

func unauthenticated(err error) error {
	if errors.Is(err, access.ErrUnavailable) {
		return &coordinator.Error{Reason: coordinator.StoreUnavailable, Message: "who you are cannot be found out now: " + err.Error(), Cause: err}
	}
	return &coordinator.Error{Reason: coordinator.Unauthenticated, Message: err.Error()}
}

func (i interceptors) identifyUnary(ctx context.Context, q any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
	ctx, err := i.identify(ctx, info.FullMethod)
	if err != nil {
		i.audited(ctx, info.FullMethod, err)
		return nil, err
	}
	a, err := next(ctx, q)
	i.audited(ctx, info.FullMethod, err)
	return a, err
}

func (i interceptors) identifyStream(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, next grpc.StreamHandler) error {
	ctx, err := i.identify(stream.Context(), info.FullMethod)
	if err == nil {
		err = next(srv, identified{ServerStream: stream, ctx: ctx})
	}
	i.audited(ctx, info.FullMethod, err)
	return err
}

// identified is a stream whose context knows the caller.
type identified struct {
	grpc.ServerStream
	ctx context.Context
}

func (s identified) Context() context.Context { return s.ctx }

// unproven is the audit log's word for who showed something that proves nothing, or
// nothing yet: not access.Anonymous, who shows nothing.
const unproven = "unauthenticated"

// audited writes the audit log's line of a call: those that ask for more than
// reading, and those that are refused.
func (i interceptors) audited(ctx context.Context, method string, err error) {
	if i.audit == nil {
		return
	}
	c, st, principal := callerOf(ctx), status.Convert(err), unproven
	if c != nil {
		principal = c.who.Name()
	}
	all := []slog.Attr{
		slog.String("principal", principal), slog.String("client", address(ctx)), slog.String("method", method),
	}
	all = append(all, noteOf(ctx).where()...)
	more, refused := false, c == nil
	if n := noteOf(ctx); n != nil {
		n.mu.Lock()
		refused = n.denied
		var tables []string
		for _, a := range n.asked {
			more = more || a.action != access.Read
			tables = append(tables, fmt.Sprintf("%s:%s", a.action, a.table))
		}
		about := n.about
		n.mu.Unlock()
		all = append(all, slog.Any("asked", tables))
		if about != "" {
			all = append(all, slog.String("about", about))
		}
	}
	if !more && !refused {
		return
	}
	all = append(all, slog.String("code", st.Code().String()))
	if err != nil {
		all = append(all, slog.String("reason", reasonOf(st)))
	}
	if c == nil {
		all = append(all, slog.String("detail", text(st.Message(), maxText))) // what is wrong with the proof, never the proof
	}
	i.audit.LogAttrs(ctx, slog.LevelInfo, "call", all...)
}
