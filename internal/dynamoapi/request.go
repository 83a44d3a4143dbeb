package dynamoapi

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http/httptrace"
	"sync/atomic"
	"time"
)

// Read asks until it is answered, or the time of a request is over: reading again
// does no harm. Each try has a part of the time only, so that one connection that
// hangs does not use it up.
func (t *Table) Read(ctx context.Context, send func(ctx context.Context) error) error {
	bounded, cancel := context.WithTimeout(ctx, t.timeout)
	defer cancel()
	for wait := 20 * time.Millisecond; ; wait = min(2*wait, 500*time.Millisecond) {
		err := once(bounded, t.timeout/3, send)
		if err == nil || !passing(err) || !sleep(bounded, jitter(wait)) {
			return t.ownTimeout(ctx, bounded, err)
		}
	}
}

func once(ctx context.Context, limit time.Duration, send func(ctx context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	return send(ctx)
}

// Write sends a write once, and again only where its rate was refused. Its error is
// ErrCondition, ErrUnknown or ErrTooLarge, or the write was certainly not carried out.
func (t *Table) Write(ctx context.Context, send func(ctx context.Context) error) error {
	bounded, cancel := context.WithTimeout(ctx, t.timeout)
	defer cancel()
	for wait := 20 * time.Millisecond; ; wait = min(2*wait, time.Second) {
		var sent atomic.Bool
		err := send(noteSending(bounded, &sent))
		if err == nil {
			return nil
		}
		if !isThrottled(err) || !sleep(bounded, jitter(wait)) {
			return meaning(t.ownTimeout(ctx, bounded, err), sent.Load())
		}
	}
}

// noteSending notes that a connection was had: from then on a request may be on its way.
func noteSending(ctx context.Context, sent *atomic.Bool) context.Context {
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { sent.Store(true) }})
}

// ownTimeout hides the end of the request's time from callers whose own time is not over.
func (t *Table) ownTimeout(ctx, bounded context.Context, err error) error {
	if bounded.Err() == nil || ctx.Err() != nil || !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return fmt.Errorf("%w in %v", errNoAnswer, t.timeout)
}

var errNoAnswer = errors.New("DynamoDB gave no answer")

func jitter(d time.Duration) time.Duration { return time.Duration((0.5 + rand.Float64()) * float64(d)) }

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
