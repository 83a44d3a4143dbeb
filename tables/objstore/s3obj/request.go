package s3obj

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http/httptrace"
	"sync/atomic"
	"time"

	"github.com/txcoord/txcoord/tables/objstore"
)

// Errors of a request that the server has not answered in full.
var (
	errStalled = errors.New("the store gave no answer")
	errCutOff  = errors.New("the answer breaks off")
)

// tries of a read before its error is the answer.
const tries = 4

// read asks until it is answered: reading again does no harm.
func (s *Store) read(ctx context.Context, send func(ctx context.Context, moved func()) error) error {
	for n, wait := 1, 50*time.Millisecond; ; n, wait = n+1, 3*wait {
		_, err := s.once(ctx, send)
		if err == nil || n == tries || !passing(err) || !sleep(ctx, jitter(wait)) {
			return err
		}
	}
}

// once sends one request when there is room for it, and ends it if no byte moves for
// too long. sent is false if it has certainly not left this machine.
func (s *Store) once(ctx context.Context, send func(ctx context.Context, moved func()) error) (sent bool, err error) {
	if err := ctx.Err(); err != nil {
		return false, err
	}
	select {
	case s.slots <- struct{}{}:
		defer func() { <-s.slots }()
	case <-ctx.Done():
		return false, ctx.Err()
	}
	bounded, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stalled := time.AfterFunc(s.cfg.RequestTimeout, func() {
		cancel(fmt.Errorf("%w in %v", errStalled, s.cfg.RequestTimeout))
	})
	defer stalled.Stop()
	var left atomic.Bool
	traced := httptrace.WithClientTrace(bounded, &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { left.Store(true) }})
	err = send(traced, func() { stalled.Reset(s.cfg.RequestTimeout) })
	if err != nil && bounded.Err() != nil && ctx.Err() == nil {
		// The SDK says "canceled", which callers would take for their own.
		return left.Load(), context.Cause(bounded)
	}
	return left.Load(), meaning(err)
}

// meaning adds what callers branch on.
func meaning(err error) error {
	if err != nil && isNotFound(err) {
		return fmt.Errorf("%w: %w", objstore.ErrNotFound, err)
	}
	return err
}

func jitter(d time.Duration) time.Duration {
	return time.Duration((0.5 + rand.Float64()) * float64(d))
}

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
