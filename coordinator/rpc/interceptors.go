package rpc

import (
	"context"
	"fmt"
	"log/slog"
	"runtime/debug"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/txcoord/txcoord/coordinator/access"
)

// interceptors stand around every call: who calls, log, then recover, then limits.
type interceptors struct {
	faults   faults
	access   *access.Access
	audit    *slog.Logger
	log      *slog.Logger
	limits   Limits
	stopping <-chan struct{}
}

func newInterceptors(c Config, stopping <-chan struct{}) interceptors {
	return interceptors{faults: faults{log: c.Log}, access: c.Access, audit: c.Audit, log: c.Log, limits: c.Limits, stopping: stopping}
}

// unary are those of calls with one request, the outermost first.
func (i interceptors) unary() []grpc.UnaryServerInterceptor {
	return []grpc.UnaryServerInterceptor{i.identifyUnary, i.logUnary, i.recoverUnary, i.limitUnary}
}

func (i interceptors) logUnary(
	ctx context.Context, q any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler,
) (any, error) {
	start := time.Now()
	a, err := next(ctx, q)
	i.report(ctx, info.FullMethod, start, err)
	return a, err
}

func (i interceptors) logStream(
	srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, next grpc.StreamHandler,
) error {
	start := time.Now()
	err := next(srv, stream)
	i.report(stream.Context(), info.FullMethod, start, err)
	return err
}

// report logs a call: at debug what is the client's affair, at warn what an
// operator may have to see. Broken invariants are logged where they are found.
func (i interceptors) report(ctx context.Context, method string, start time.Time, err error) {
	st := status.Convert(err)
	level := slog.LevelDebug
	switch st.Code() {
	case codes.DataLoss, codes.Internal, codes.Unavailable, codes.ResourceExhausted:
		level = slog.LevelWarn
	default:
	}
	if !i.log.Enabled(ctx, level) {
		return
	}
	all := []slog.Attr{
		slog.String("method", method), slog.String("code", st.Code().String()),
		slog.Duration("took", time.Since(start)), slog.String("client", client(ctx)),
	}
	all = append(all, noteOf(ctx).where()...)
	if err != nil {
		all = append(all, slog.String("reason", reasonOf(st)), slog.String("message", st.Message()))
	}
	i.log.LogAttrs(ctx, level, "call", all...)
}

func reasonOf(st *status.Status) string {
	for _, d := range st.Details() {
		if info, ok := d.(*errdetails.ErrorInfo); ok {
			return info.GetReason()
		}
	}
	return ""
}

func (i interceptors) recoverUnary(
	ctx context.Context, q any, _ *grpc.UnaryServerInfo, next grpc.UnaryHandler,
) (_ any, err error) {
	defer i.recover(ctx, &err)
	return next(ctx, q)
}

func (i interceptors) recoverStream(
	srv any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, next grpc.StreamHandler,
) (err error) {
	defer i.recover(stream.Context(), &err)
	return next(srv, stream)
}

// recover answers a panic as a broken invariant: one call fails, not all of them.
func (i interceptors) recover(ctx context.Context, err *error) {
	if p := recover(); p != nil {
		*err = i.faults.broken(ctx, fmt.Errorf("panic: %v\n%s", p, debug.Stack()))
	}
}

func (i interceptors) limitUnary(
	ctx context.Context, q any, _ *grpc.UnaryServerInfo, next grpc.UnaryHandler,
) (any, error) {
	if closed(i.stopping) {
		return nil, i.faults.status(ctx, shuttingDown())
	}
	if err := i.size(q); err != nil {
		noteOf(ctx).unread()
		return nil, i.faults.status(ctx, err)
	}
	return next(ctx, q)
}

func (i interceptors) limitStream(
	srv any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, next grpc.StreamHandler,
) error {
	if closed(i.stopping) {
		return i.faults.status(stream.Context(), shuttingDown())
	}
	return next(srv, limited{ServerStream: stream, i: i})
}

// limited checks every message of a stream like a unary request.
type limited struct {
	grpc.ServerStream
	i interceptors
}

func (s limited) RecvMsg(m any) error {
	if err := s.ServerStream.RecvMsg(m); err != nil {
		if refusedUnread(err) {
			noteOf(s.Context()).unread()
		}
		return err
	}
	err := s.i.size(m)
	if err != nil {
		noteOf(s.Context()).unread()
	}
	return s.i.faults.status(s.Context(), err)
}

func (i interceptors) size(m any) error {
	p, ok := m.(proto.Message)
	if !ok {
		return nil
	}
	if n := proto.Size(p); n > i.limits.MessageBytes {
		return tooMany("message_bytes", n, i.limits.MessageBytes)
	}
	return decoded(p)
}
