package remote

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

// ErrStalled: no byte moved for as long as a request may stall.
var ErrStalled = fmt.Errorf("the store gave %w", objstore.ErrNoAnswer)

var errCutOff = errors.New("the answer breaks off")

// tries of a read before its error is the answer.
const tries = 4

// Read carries out a request that may be repeated, and says what its error means.
func (s *Store) Read(ctx context.Context, send func(ctx context.Context) error) error {
	_, err := s.read(ctx, func(ctx context.Context, _ func()) error { return send(ctx) })
	return err
}

// read asks until it is answered: reading again does no harm.
func (s *Store) read(ctx context.Context, send func(ctx context.Context, moved func()) error) (Verdict, error) {
	for n, wait := 1, 50*time.Millisecond; ; n, wait = n+1, 3*wait {
		_, err := s.bounded(ctx, send)
		if err == nil {
			return Certain, nil
		}
		verdict := s.verdict(err)
		passing := verdict == Throttled || verdict == Unknown
		if !passing || n == tries || !sleep(ctx, jitter(wait)) {
			return verdict, s.marked(verdict, err)
		}
	}
}

// once sends a request a single time, and says what its error means for a write.
func (s *Store) once(ctx context.Context, send func(ctx context.Context, moved func()) error) (Verdict, error) {
	sent, err := s.bounded(ctx, send)
	if err == nil {
		return Certain, nil
	}
	verdict := s.verdict(err)
	if !sent {
		verdict = Certain // It has not left this machine.
	}
	return verdict, s.marked(verdict, err)
}

// verdict is the driver's, unless the request was given up on this side.
func (s *Store) verdict(err error) Verdict {
	if errors.Is(err, ErrStalled) || errors.Is(err, errCutOff) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return Unknown
	}
	return s.driver.Verdict(err)
}

// marked adds what callers branch on, and what can be done about it.
func (s *Store) marked(v Verdict, err error) error {
	if v == NotFound {
		return fmt.Errorf("%w: %w", objstore.ErrNotFound, err)
	}
	if r := s.driver.Refusal(err); r != nil {
		return r
	}
	return err
}

// bounded sends a request when there is room for it, and ends it if no byte moves for
// too long. sent is false if it has certainly not left this machine.
func (s *Store) bounded(ctx context.Context, send func(ctx context.Context, moved func()) error) (sent bool, err error) {
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
		cancel(fmt.Errorf("%w in %v", ErrStalled, s.cfg.RequestTimeout))
	})
	defer stalled.Stop()
	var left atomic.Bool
	traced := httptrace.WithClientTrace(bounded, &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { left.Store(true) }})
	err = send(traced, func() { stalled.Reset(s.cfg.RequestTimeout) })
	if err != nil && bounded.Err() != nil && ctx.Err() == nil {
		// An SDK says "canceled", which callers would take for their own.
		err = context.Cause(bounded)
	}
	if ended := ctx.Err(); err != nil && ended != nil && !errors.Is(err, ended) {
		err = fmt.Errorf("%w: %w", ended, err)
	}
	return left.Load(), err
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
