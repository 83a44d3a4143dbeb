package client

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/cenkalti/backoff/v5"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/peer"
)

// RetryFor bounds how long this call is repeated, in the place of Options.RetryFor; 0 does not
// repeat it.
func RetryFor(d time.Duration) grpc.CallOption { return retryOption{d: d} }

type retryOption struct {
	grpc.EmptyCallOption
	d time.Duration
}

// retryFor is what the options of a call say of that.
func retryFor(opts []grpc.CallOption, otherwise time.Duration) time.Duration {
	for _, o := range opts {
		if r, ok := o.(retryOption); ok {
			return r.d
		}
	}
	return otherwise
}

// retry repeats a call while its outcome is unknown, with growing, random pauses,
// or with the pause that the server asks for. It gives up when the time is over,
// and returns the last error then: for a Commit that means that the transaction
// may or may not be committed. A call that the deadline cuts short says less than
// the one before it, whose error comes first. call says whom it has asked.
func (c *conn) retry(ctx context.Context, atMost time.Duration, call func(to *peer.Peer) error) error {
	pauses := newBackOff(20*time.Millisecond, 5*time.Second)
	started := time.Now()
	var last error
	refusing := refusers{}
	for {
		var to peer.Peer
		err := call(&to)
		if c.hopeless(err) || refusing.all(err, to, int(c.servers.Load())) {
			return err
		}
		if err != nil && last != nil && timeIsUp(ctx) && errors.Is(err, context.DeadlineExceeded) {
			return fmt.Errorf("%w (%w)", last, context.DeadlineExceeded)
		}
		if err == nil || !repeatable(ctx, err) {
			return err
		}
		if errors.Is(err, ErrUnavailable) {
			last = err
		}
		pause := max(pauses.NextBackOff(), retryAfter(err))
		if time.Since(started)+pause > atMost || !sleep(ctx, pause) {
			return err
		}
	}
}

// hopeless reports whether to give up at once: no server was ever reached, and either
// the two cannot agree on TLS, or the caller does not want to wait for one.
func (c *conn) hopeless(err error) bool {
	var e *Error
	if !errors.As(err, &e) {
		return false
	}
	if c.failFast && !c.reached.Load() && isUnreached(e) {
		e.unmet = ErrUnreached
	}
	return e.unmet != nil
}

// refusers are the servers that were not given the location of a table which one call needs, by
// address, where no other server has answered since.
type refusers map[string]bool

// all notes an answer, and reports whether every server of the target has given that. Where
// nobody says how many there are it is not known: other calls take their turns in between, so
// that one which is asked twice running may be one of several.
func (r refusers) all(err error, from peer.Peer, servers int) bool {
	var e *Error
	if !errors.As(err, &e) || !e.Table.GetOutOfReach() || from.Addr == nil {
		clear(r)
		return false
	}
	r[from.Addr.String()] = true
	return servers > 0 && len(r) >= servers
}

// isUnreached reports whether a call did not get as far as a server: nobody listens
// there, or the host has no address.
func isUnreached(e *Error) bool {
	if e.Code != codes.Unavailable || e.Reason != "" {
		return false
	}
	for _, part := range []string{"Error while dialing", "zero addresses", "no children to pick from", "name resolver error"} {
		if strings.Contains(e.Message, part) {
			return true
		}
	}
	return false
}

// repeatable reports whether the same call may answer otherwise.
func repeatable(ctx context.Context, err error) bool {
	var e *Error
	if ctx.Err() != nil || timeIsUp(ctx) || !errors.As(err, &e) {
		return false
	}
	return e.lost() || e.Code == codes.Unavailable || e.Code == codes.ResourceExhausted && e.RetryAfter > 0
}

// timeIsUp asks the clock: the server, which has the same deadline, may cut a call
// short a moment before the context's own timer fires.
func timeIsUp(ctx context.Context) bool {
	end, ok := ctx.Deadline()
	return ok && !time.Now().Before(end)
}

func retryAfter(err error) time.Duration {
	var e *Error
	if errors.As(err, &e) {
		return e.RetryAfter
	}
	return 0
}

// sleep reports whether it slept to the end.
func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

func newBackOff(first, most time.Duration) *backoff.ExponentialBackOff {
	b := backoff.NewExponentialBackOff()
	b.InitialInterval, b.MaxInterval, b.Multiplier = first, most, 2
	return b
}
