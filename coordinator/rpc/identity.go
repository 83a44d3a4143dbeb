package rpc

import (
	"cmp"
	"context"
	"errors"
	"io"
	"time"

	"google.golang.org/grpc"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"

	"github.com/txcoord/txcoord/coordinator"
	"github.com/txcoord/txcoord/coordinator/access"
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

// identify finds out who calls. Health checks need not say; everybody else whose
// proof is wrong is refused here, before anything of the request is looked at.
func (i interceptors) identify(ctx context.Context, method string) (context.Context, error) {
	out := &identity{Context: ctx, caller: caller{link: linkOf(ctx), note: note{audited: i.audit != nil}}}
	if healthMethods[method] {
		return out, nil
	}
	who, err := i.access.Authenticate(ctx, proofOf(ctx, out.caller.link))
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
		within, ends := i.whileGranted(ctx, info.FullMethod)
		err = ends(next(srv, identified{ServerStream: stream, ctx: within}))
	}
	i.audited(ctx, info.FullMethod, err)
	return err
}

// grantedLook is how often a stream is looked at: what it may was found out when it began.
const grantedLook = time.Second

// whileGranted is the context of a stream, which ends when its caller's proof does, or when
// another access file is in force: who goes on calls again, and is judged by that. ends is
// given the stream's error.
func (i interceptors) whileGranted(ctx context.Context, method string) (within context.Context, ends func(error) error) {
	if i.access == nil || healthMethods[method] {
		return ctx, func(err error) error { return err }
	}
	within, cancel := context.WithCancelCause(ctx)
	policy, p := i.access.Policy(), proofOf(ctx, callerOf(ctx).link)
	go func() {
		look := time.NewTicker(grantedLook)
		defer look.Stop()
		for {
			select {
			case <-look.C:
			case <-within.Done():
				return
			}
			if i.access.Policy() != policy {
				cancel(errOtherAccess)
			} else if _, err := i.access.Authenticate(within, p); errors.Is(err, access.ErrUnauthenticated) {
				cancel(unauthenticated(err))
			}
		}
	}()
	return within, func(err error) error {
		if why := endedBy(within); err != nil && why != nil && ctx.Err() == nil {
			err = i.faults.status(ctx, why) // what was done by then is answered as done
		}
		cancel(nil)
		return err
	}
}

// endedBy is why a stream is not granted any more; nil while it is.
func endedBy(within context.Context) error {
	var why *coordinator.Error
	if errors.As(context.Cause(within), &why) {
		return why
	}
	return nil
}

// errOtherAccess ends a stream that may be granted less now.
var errOtherAccess = &coordinator.Error{
	Reason: coordinator.ShuttingDown, Message: "the server has another access file since the stream began; repeat the same call",
}

// proofOf is what a call shows.
func proofOf(ctx context.Context, l *link) access.Proof {
	p := l.proof
	if all := metadata.ValueFromIncomingContext(ctx, "authorization"); len(all) > 0 {
		p.Authorization = all[0]
	}
	return p
}

// identified is a stream whose context knows the caller.
type identified struct {
	grpc.ServerStream
	ctx context.Context
}

func (s identified) Context() context.Context { return s.ctx }

// RecvMsg takes nothing of a stream that is not granted any more, not even its end: one that
// waits for its client's next message ends with that.
func (s identified) RecvMsg(m any) error {
	err := s.ServerStream.RecvMsg(m)
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	return cmp.Or(endedBy(s.ctx), err)
}
