package client

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	txcoordv1 "github.com/txcoord/txcoord/proto/txcoord/v1"
)

// conn puts what every call needs around a connection: catalog and snapshot
// version into the request, repeats, the answer's snapshot version, errors.
type conn struct {
	under    grpc.ClientConnInterface
	catalog  string
	retryFor time.Duration
	tryFor   time.Duration
	seen     *atomic.Uint64
	failFast bool
	reached  *atomic.Bool  // some server, by some call
	servers  *atomic.Int32 // that the target stands for; 0 if nobody says
	// addresses are the target's, as far as it names them itself, and creds what they
	// are reached with; nil is without TLS.
	addresses []string
	creds     credentials.TransportCredentials
	// tokenless: no call shows a token.
	tokenless bool
}

// Invoke makes a call until its answer says something. All calls of the contract
// may be repeated with the same arguments. For ResolveTable and DeleteLease a
// repeated call whose first answer was lost finds nothing left to do, and says so.
func (c *conn) Invoke(ctx context.Context, method string, args, reply any, opts ...grpc.CallOption) error {
	limit := c.tryFor
	return c.retry(ctx, retryFor(opts, c.retryFor), func(to *peer.Peer) error {
		ctx, cancel := try(ctx, limit)
		defer cancel()
		err := c.under.Invoke(ctx, method, c.fill(args), reply, append(slices.Clip(opts), grpc.Peer(to))...)
		err = fromRPC(unanswered(ctx, limit, err))
		limit *= 2
		c.arrived(err, to.Addr != nil)
		if err != nil {
			return c.diagnose(ctx, err)
		}
		c.observeAnswer(reply)
		return nil
	})
}

// arrived notes that a server was reached: the call was answered, or it was sent over a
// connection that stood, however it ended then. One that breaks off before both sides
// have greeted each other is none, whatever the error says of it.
func (c *conn) arrived(err error, sent bool) {
	var e *Error
	if err == nil || sent || errors.As(err, &e) && !e.lost() {
		c.reached.Store(true)
	}
}

// NewStream opens a stream. It is not repeated: who reads it knows where to go on.
func (c *conn) NewStream(
	ctx context.Context, desc *grpc.StreamDesc, method string, opts ...grpc.CallOption,
) (grpc.ClientStream, error) {
	s, err := c.under.NewStream(ctx, desc, method, opts...)
	if err != nil {
		return nil, c.diagnose(ctx, fromRPC(err))
	}
	c.arrived(nil, true)
	return &stream{ClientStream: s, conn: c}, nil
}

type stream struct {
	grpc.ClientStream
	conn *conn
}

func (s *stream) SendMsg(m any) error {
	return fromRPC(s.ClientStream.SendMsg(s.conn.fill(m)))
}

func (s *stream) RecvMsg(m any) error {
	if err := s.ClientStream.RecvMsg(m); err != nil {
		return s.conn.diagnose(s.Context(), fromRPC(err))
	}
	s.conn.observeAnswer(m)
	return nil
}

// fill returns the request with its catalog and snapshot version set where the
// caller left them out. The caller's message is not changed, since it may be in
// use elsewhere; the copy shares its fields.
func (c *conn) fill(request any) any {
	if s, ok := request.(*txcoordv1.StageStreamRequest); ok {
		if h := s.GetHeader(); h != nil {
			filled := c.fill(h).(*txcoordv1.StageHeader)
			return &txcoordv1.StageStreamRequest{Message: &txcoordv1.StageStreamRequest_Header{Header: filled}}
		}
		return request
	}
	m, ok := request.(proto.Message)
	if !ok {
		return request
	}
	from := m.ProtoReflect()
	to := from.New()
	from.Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		to.Set(f, v)
		return true
	})
	setMissing(to, "catalog", protoreflect.ValueOfString(c.catalog))
	setMissing(to, "at_least_snapshot", protoreflect.ValueOfUint64(c.seen.Load()))
	return to.Interface()
}

func setMissing(m protoreflect.Message, field protoreflect.Name, v protoreflect.Value) {
	if f := m.Descriptor().Fields().ByName(field); f != nil && !m.Has(f) {
		m.Set(f, v)
	}
}

func (c *conn) observeAnswer(answer any) {
	if a, ok := answer.(interface{ GetLatestSnapshot() uint64 }); ok {
		c.observe(a.GetLatestSnapshot())
	}
}

func (c *conn) observe(snapshot uint64) {
	for {
		seen := c.seen.Load()
		if snapshot <= seen || c.seen.CompareAndSwap(seen, snapshot) {
			return
		}
	}
}
