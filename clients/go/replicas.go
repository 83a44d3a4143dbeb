package client

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/resolver/manual"
	"google.golang.org/grpc/status"
)

// tryFor is Options.TryFor where there are several replicas.
const tryFor = 5 * time.Second

// replicas resolves a list of addresses; nil for any other target. Certificates are
// held against the host of each.
func replicas(target string) *manual.Resolver {
	if !strings.Contains(target, ",") || strings.Contains(target, "://") || strings.HasPrefix(target, "ipv4:") || strings.HasPrefix(target, "ipv6:") {
		return nil
	}
	var state resolver.State
	for _, address := range strings.Split(target, ",") {
		host, _, err := net.SplitHostPort(address)
		if err != nil {
			host = address
		}
		at := resolver.Address{Addr: address, ServerName: host}
		state.Endpoints = append(state.Endpoints, resolver.Endpoint{Addresses: []resolver.Address{at}})
	}
	r := manual.NewBuilderWithScheme("txcoord")
	r.InitialState(state)
	return r
}

// counted is a resolver that says how many servers the target stands for: a name may stand for
// several.
type counted struct {
	resolver.Builder
	found *atomic.Int32
}

// Build implements resolver.Builder.
func (c counted) Build(target resolver.Target, to resolver.ClientConn, o resolver.BuildOptions) (resolver.Resolver, error) {
	return c.Builder.Build(target, counting{to, c.found}, o)
}

type counting struct {
	resolver.ClientConn
	found *atomic.Int32
}

// UpdateState implements resolver.ClientConn.
func (c counting) UpdateState(s resolver.State) error {
	c.found.Store(int32(max(len(s.Addresses), len(s.Endpoints)))) //nolint:gosec // a few
	return c.ClientConn.UpdateState(s)
}

// errTryOver ends a try at a replica that gives no answer.
var errTryOver = errors.New("no answer")

// try is the context of one try of a call. The server is not told of the limit: it
// would take it for the time after which the caller wants to hear that publication is
// still pending.
func try(ctx context.Context, limit time.Duration) (context.Context, context.CancelFunc) {
	if limit <= 0 {
		return ctx, func() {}
	}
	ctx, cancel := context.WithCancelCause(ctx)
	timer := time.AfterFunc(limit, func() { cancel(errTryOver) })
	return ctx, func() {
		timer.Stop()
		cancel(nil)
	}
}

// unanswered says of a try that was over without an answer just that: gRPC has one word for
// it and for a caller who cancels the call.
func unanswered(try context.Context, limit time.Duration, err error) error {
	if status.Code(err) != codes.Canceled || !errors.Is(context.Cause(try), errTryOver) {
		return err
	}
	return status.Errorf(codes.DeadlineExceeded, "no answer in %s", limit)
}
