package remote

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/txcoord/txcoord/tables/objstore"
)

// PutIfAbsent writes the object unless the key holds one.
func (s *Store) PutIfAbsent(ctx context.Context, key string, data []byte) error {
	_, err := s.PutIf(ctx, key, data, objstore.IfAbsent())
	return err
}

// Put writes the object, whether or not the key holds one.
func (s *Store) Put(ctx context.Context, key string, data []byte) error {
	_, err := s.PutIf(ctx, key, data, objstore.Always())
	return err
}

// PutIf implements objstore.Conditional.
func (s *Store) PutIf(ctx context.Context, key string, data []byte, c objstore.Condition) (etag string, err error) {
	err = errors.Join(objstore.CheckKey(key), ctx.Err())
	if err == nil {
		etag, err = s.putIf(ctx, key, data, c)
	}
	if err != nil {
		return "", fmt.Errorf("put %s: %w", s.driver.Name(key), err)
	}
	return etag, nil
}

func (s *Store) putIf(ctx context.Context, key string, data []byte, c objstore.Condition) (string, error) {
	token := rand.Text()
	a := s.decided(ctx, key, data, c, token)
	if a.Err == nil {
		return a.ETag, nil
	}
	switch a.Verdict {
	case Refused, Undecided, Unknown:
	default:
		return "", a.Err
	}
	// Refused, or nobody knows. Something on the way may have sent it twice, and a
	// refusal is then that of the second, so that both are settled alike.
	held, holder, headErr := s.head(ctx, key)
	switch {
	case headErr == nil && holder == token:
		return held.ETag, nil
	case a.Verdict == Refused && (headErr == nil || errors.Is(headErr, objstore.ErrNotFound)):
		return "", errors.Join(c.Refusal(), a.Err)
	case headErr == nil && c.IsAbsent():
		return "", errors.Join(objstore.ErrExists, a.Err)
	}
	return "", errors.Join(objstore.ErrUnknown, a.Err, headErr)
}

// maxUndecided is how often a put is sent of which the store says that nothing is
// settled, before it is unknown.
const maxUndecided = 8

// decided puts until the answer is another one than undecided. Each time it is the
// same put.
func (s *Store) decided(ctx context.Context, key string, data []byte, c objstore.Condition, token string) Sent {
	send := func(ctx context.Context) Sent { return s.send(ctx, key, data, c, token) }
	landed := func(ctx context.Context) (string, bool) {
		held, holder, err := s.head(ctx, key)
		return held.ETag, err == nil && holder == token
	}
	// The one that comes too late is refused, unless it has no condition: it would put back
	// what has been replaced since. And it is read after the answer.
	hedge := s.cfg.HedgeAfter
	if _, replaces := c.ETag(); !replaces && !c.IsAbsent() {
		hedge = 0
	}
	if hedge > 0 {
		data = bytes.Clone(data)
	}
	for n, wait := 1, 30*time.Millisecond; ; n, wait = n+1, 2*wait {
		a := Hedged(ctx, hedge, send, landed)
		if a.Err == nil || a.Verdict != Undecided || n == maxUndecided || !sleep(ctx, jitter(wait)) {
			return a
		}
	}
}

// send sends a put once.
func (s *Store) send(ctx context.Context, key string, data []byte, c objstore.Condition, token string) (a Sent) {
	a.Verdict, a.Err = s.once(ctx, func(ctx context.Context, moved func()) (err error) {
		a.ETag, err = s.driver.Put(ctx, key, &seekable{bytes.NewReader(data), moved}, int64(len(data)), c, token)
		return err
	})
	if _, ok := c.ETag(); ok && a.Verdict == NotFound {
		a.Verdict = Refused
	}
	return a
}

// seekable notes that it is being read, and so sent. It has no WriteTo, which would
// give everything away at once.
type seekable struct {
	io.ReadSeeker
	moved func()
}

// Read implements io.Reader.
func (s *seekable) Read(p []byte) (int, error) {
	s.moved()
	return s.ReadSeeker.Read(p)
}
