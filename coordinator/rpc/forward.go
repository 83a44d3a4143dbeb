package rpc

import (
	"context"
	"errors"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/txcoord/txcoord/coordinator"
)

// forwardedKey marks a call that another replica sent on; it is not sent on again.
const forwardedKey = "txcoord-forwarded"

// peers are connections to other replicas, made when they are needed first.
type peers struct {
	dial func(address string) (*grpc.ClientConn, error)

	mu    sync.Mutex
	conns map[string]*grpc.ClientConn
}

// maxPeers bounds the connections: addresses come out of the journal.
const maxPeers = 64

func (p *peers) conn(address string) (*grpc.ClientConn, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if cc := p.conns[address]; cc != nil {
		return cc, nil
	}
	if len(p.conns) >= maxPeers {
		return nil, errors.New("too many other replicas")
	}
	cc, err := p.dial(address)
	if err == nil {
		p.conns[address] = cc
	}
	return cc, err
}

func (p *peers) close() {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for address, cc := range p.conns {
		_ = cc.Close() // what was sent on is here too
		delete(p.conns, address)
	}
}

// forwarding lets the coordinator send a call on to another replica (R15), as the
// same caller. Nobody reads the reply, and since a call may be sent on again while it
// is under way, each has its own.
func (s *service) forwarding(ctx context.Context, method string, q proto.Message) context.Context {
	if s.peers == nil || len(metadata.ValueFromIncomingContext(ctx, forwardedKey)) > 0 {
		return ctx
	}
	out := metadata.Pairs(forwardedKey, "1")
	out.Append("authorization", metadata.ValueFromIncomingContext(ctx, "authorization")...)
	return coordinator.WithForward(ctx, func(ctx context.Context, address string) error {
		cc, err := s.peers.conn(address)
		if err != nil {
			return err
		}
		return cc.Invoke(metadata.NewOutgoingContext(ctx, out), method, q, &emptypb.Empty{})
	})
}
