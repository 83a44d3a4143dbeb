package access

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"
)

// Keys are trusted this long without the provider having been asked again. While it
// cannot say them it is asked again in a while, and those that are known stay.
const (
	keysFor  = 10 * time.Minute
	askAgain = time.Minute
)

// A provider is asked so many times in a row, and then once in a while, whatever the
// reason is: anybody can show tokens that name keys which nobody knows.
const (
	asksInARow = 5
	askEvery   = 10 * time.Second
)

// patience is how long a caller waits for keys that take the place of others, which are
// older than keysFor and askAgain; that is so after a time without calls.
const patience = time.Second

// issuer knows the keys of an Issuer. It is asked first when the first token is shown,
// so that a server starts while the provider is away.
type issuer struct {
	Issuer
	// client's timeout is that of a whole ask.
	client   *http.Client
	patience time.Duration

	mu sync.Mutex
	// current are the keys that were read last; nil until some were.
	current *generation
	// renew is when the issuer is to be asked again.
	renew time.Time
	// asking is the ask under way; one at a time.
	asking *ask
	// failed is why the last ask read no keys; nil if it did.
	failed error
	// slot is when an ask would be in step with askEvery; it lags behind by what may be
	// asked in a row.
	slot time.Time
}

// ask is one time that an issuer is asked for its keys.
type ask struct {
	began time.Time
	done  chan struct{}
}

// keys are those that tokens are judged by. Who comes when others are due goes on with
// the known ones at once, and waits a moment only if they are so old that a key which
// was taken away would be trusted for longer than it may. Who comes when there are none
// waits as long as its context lasts.
func (i *issuer) keys(ctx context.Context, now time.Time) (*generation, error) {
	i.mu.Lock()
	keys := i.current
	var a *ask
	if keys == nil || !now.Before(i.renew) {
		a = i.start(ctx, now)
	}
	i.mu.Unlock()
	switch {
	case keys == nil:
		return i.answer(ctx, a)
	case a == nil || !now.After(keys.read.Add(keysFor+askAgain)):
		return keys, nil
	}
	brief, cancel := context.WithTimeout(ctx, i.moment(ctx, a))
	defer cancel()
	select {
	case <-a.done:
	case <-brief.Done():
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.current, nil
}

// moment is how long a caller with a context may be kept waiting for an ask, so that it
// has the time to do without.
func (i *issuer) moment(ctx context.Context, a *ask) time.Duration {
	left := i.patience - time.Since(a.began)
	if end, ok := ctx.Deadline(); ok {
		left = min(left, time.Until(end)/2)
	}
	return left
}

// newer are keys that were read after those that did not do. Where the issuer was asked
// a moment ago, its answer stands.
func (i *issuer) newer(ctx context.Context, than *generation, now time.Time) (*generation, error) {
	i.mu.Lock()
	keys := i.current
	var a *ask
	if keys == than {
		a = i.start(ctx, now)
	}
	i.mu.Unlock()
	if keys != than {
		return keys, nil
	}
	return i.answer(ctx, a)
}

// answer waits for an ask, if there is one, and gives what the last one has read.
func (i *issuer) answer(ctx context.Context, a *ask) (*generation, error) {
	if a != nil {
		select {
		case <-a.done:
		case <-ctx.Done():
			return nil, i.away(ctx.Err())
		}
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.failed != nil {
		return nil, i.away(i.failed)
	}
	return i.current, nil
}

func (i *issuer) away(why error) error {
	return fmt.Errorf("%w: ask issuer %s for its keys: %w", ErrUnavailable, i.Name, why)
}

// start is the ask under way, or a new one if the issuer may be asked now, or nil. The
// caller holds the lock. An ask outlives the caller that started it, for others wait for
// it too, and ends by the client's timeout.
func (i *issuer) start(ctx context.Context, now time.Time) *ask {
	if i.asking == nil && i.may(now) {
		i.asking = &ask{began: time.Now(), done: make(chan struct{})}
		go i.run(context.WithoutCancel(ctx), i.asking, now)
	}
	return i.asking
}

func (i *issuer) may(now time.Time) bool {
	if earliest := now.Add(-(asksInARow - 1) * askEvery); i.slot.Before(earliest) {
		i.slot = earliest
	}
	if i.slot.After(now) {
		return false
	}
	i.slot = i.slot.Add(askEvery)
	return true
}

// run asks. Keys are replaced by keys only.
func (i *issuer) run(ctx context.Context, a *ask, now time.Time) {
	ctx, cancel := context.WithTimeout(ctx, i.client.Timeout)
	defer cancel()
	keys, err := i.read(ctx, now)
	i.mu.Lock()
	defer i.mu.Unlock()
	i.asking, i.failed = nil, err
	if err == nil {
		i.current, i.renew = keys, now.Add(keysFor)
	} else if again := now.Add(askAgain); i.renew.Before(again) {
		i.renew = again
	}
	close(a.done)
}
