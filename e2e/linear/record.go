package linear

import (
	"context"
	"math"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
)

// Call is one call as its client saw it.
type Call struct {
	Client int
	// Began and Ended are on one clock, in nanoseconds.
	Began, Ended int64
	Request      proto.Message
	Answer       proto.Message // nil with an error
	Err          error
}

// forever is the end of a call that may take effect at any time.
const forever = math.MaxInt64

// Recorder takes down the calls of any number of clients.
type Recorder struct {
	began time.Time

	mu      sync.Mutex
	clients int
	calls   []Call
}

// NewRecorder starts the clock.
func NewRecorder() *Recorder { return &Recorder{began: time.Now()} }

// Client is what a new client's connection is to be made with.
func (r *Recorder) Client() grpc.UnaryClientInterceptor {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.clients++
	id := r.clients
	return func(ctx context.Context, method string, request, answer any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
		c := Call{Client: id, Began: int64(time.Since(r.began))}
		err := invoke(ctx, method, request, answer, cc, opts...)
		c.Ended = int64(time.Since(r.began))
		c.Request, _ = request.(proto.Message)
		if c.Err = err; err == nil {
			c.Answer, _ = answer.(proto.Message)
		}
		r.mu.Lock()
		r.calls = append(r.calls, c)
		r.mu.Unlock()
		return err
	}
}

// Calls are those that have ended, in the order in which they did.
func (r *Recorder) Calls() []Call {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.calls[:len(r.calls):len(r.calls)]
}
