package rpc

import (
	"context"
	"net"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/protobuf/proto"

	"github.com/txcoord/txcoord/coordinator/access"
	"github.com/txcoord/txcoord/coordinator/quota"
)

// EndWith ends a connection with a certificate.
var EndWith = endWith

// StandingsMost is how many are kept.
const StandingsMost = standingsMost

// handlers are what gRPC would call, by method.
type handlers map[string]func(ctx context.Context, read func(any) error, with grpc.UnaryServerInterceptor) (any, error)

// RegisterService implements grpc.ServiceRegistrar.
func (h handlers) RegisterService(d *grpc.ServiceDesc, impl any) {
	for _, m := range d.Methods {
		h["/"+d.ServiceName+"/"+m.MethodName] = func(ctx context.Context, read func(any) error, with grpc.UnaryServerInterceptor) (any, error) {
			return m.Handler(impl, ctx, read, with)
		}
	}
}

// Caller calls methods of what NewServer would serve as gRPC does, in the caller's goroutine
// and without a connection.
type Caller struct {
	all     handlers
	with    grpc.UnaryServerInterceptor
	service *service
}

// Direct makes a Caller.
func Direct(c Config) (*Caller, error) {
	if err := c.complete(); err != nil {
		return nil, err
	}
	stopping := make(chan struct{})
	i := newInterceptors(c, stopping)
	out := &Caller{handlers{}, chain(i.unary()), newService(c, nil, stopping)}
	register(c.registrar(out.all, i), out.service)
	return out, nil
}

// Standings is how many are kept.
func (c *Caller) Standings() int { return len(c.service.standings.m) }

// By is how somebody calls who has proven so much, from one connection.
func (c *Caller) By(p access.Proof) func(method string, q proto.Message) (any, error) {
	from := &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 4711}
	headers := metadata.MD{"content-type": {"application/grpc"}, "user-agent": {"test"}}
	if p.Authorization != "" {
		headers.Set("authorization", p.Authorization)
	}
	p.Authorization = ""
	ctx := peer.NewContext(context.Background(), &peer.Peer{Addr: from, AuthInfo: newLink(nil, from, p)})
	ctx = metadata.NewIncomingContext(ctx, headers)
	return func(method string, q proto.Message) (any, error) {
		read := func(into any) error {
			proto.Merge(into.(proto.Message), q)
			return nil
		}
		return c.all[method](ctx, read, c.with)
	}
}

func chain(all []grpc.UnaryServerInterceptor) grpc.UnaryServerInterceptor {
	return func(ctx context.Context, q any, info *grpc.UnaryServerInfo, last grpc.UnaryHandler) (any, error) {
		next := last
		for n := len(all) - 1; n >= 0; n-- {
			within := next
			next = func(ctx context.Context, q any) (any, error) { return all[n](ctx, q, info, within) }
		}
		return next(ctx, q)
	}
}

// BlockBytes is from which size on a chunk is not copied.
const BlockBytes = blockBytes

// Blocks collects a stream's chunks.
type Blocks struct{ blocks }

// NewBlocks collects at most so many bytes, and counts what it takes.
func NewBlocks(b *quota.Budget, most int) *Blocks {
	return &Blocks{blocks{held: &held{budget: b}, most: most}}
}

// Add takes the next chunk.
func (b *Blocks) Add(chunk []byte) error { return b.add(chunk) }

// Taken is what it holds.
func (b *Blocks) Taken() int64 {
	n := int64(cap(b.open))
	for _, block := range b.full {
		n += int64(cap(block))
	}
	return n
}

// Join puts the chunks together.
func (b *Blocks) Join() []byte { return b.join(&sync.Mutex{}) }

// Release gives back what is counted.
func (b *Blocks) Release() { b.held.release() }
