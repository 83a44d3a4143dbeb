package rpc

import (
	"context"
	"slices"

	"google.golang.org/grpc"
	"google.golang.org/grpc/status"
)

// Calls is told of a call that begins, and answers the context of all within it, and what
// is told of the status that it ends with.
type Calls func(ctx context.Context, method string) (within context.Context, end func(error))

// observed tells of the calls with one request of what is registered with it. It stands
// around the reading of the request, where an interceptor stands behind: a message that is
// too large, or is none, is told of. A stats handler of gRPC's own would see as much, and
// costs two dozen allocations a call.
type observed struct {
	grpc.ServiceRegistrar
	calls Calls
}

// RegisterService implements grpc.ServiceRegistrar.
func (o observed) RegisterService(d *grpc.ServiceDesc, impl any) {
	o.ServiceRegistrar.RegisterService(around(d, func(name string, handle handler) handler {
		return func(srv any, ctx context.Context, read func(any) error, with grpc.UnaryServerInterceptor) (any, error) {
			within, end := o.calls(ctx, name)
			a, err := handle(srv, within, read, with)
			end(sent(ctx, err))
			return a, err
		}
	}), impl)
}

// handler is how gRPC has a method with one request called.
type handler = func(srv any, ctx context.Context, read func(any) error, with grpc.UnaryServerInterceptor) (any, error)

// around is a service whose methods with one request are handled by what with makes of their
// handlers.
func around(d *grpc.ServiceDesc, with func(method string, handle handler) handler) *grpc.ServiceDesc {
	own := *d
	own.Methods = slices.Clone(d.Methods)
	for i, m := range own.Methods {
		own.Methods[i].Handler = with("/"+d.ServiceName+"/"+m.MethodName, m.Handler)
	}
	return &own
}

// stream tells of streams, but for those that watch whether the server is well.
func (c Calls) stream(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, next grpc.StreamHandler) error {
	if healthMethods[info.FullMethod] {
		return next(srv, stream)
	}
	within, end := c(stream.Context(), info.FullMethod)
	err := next(srv, identified{ServerStream: stream, ctx: within})
	end(sent(stream.Context(), err))
	return err
}

// sent is the status that a client gets. Who has gone gets none, which is told as what it
// went by.
func sent(ctx context.Context, err error) error {
	if err == nil {
		err = ctx.Err()
	}
	if _, ok := status.FromError(err); ok {
		return err
	}
	return status.FromContextError(err).Err()
}
