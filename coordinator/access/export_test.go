package access

import (
	"context"
	"time"
)

// SetClock has what is asked from now on happen at other times.
func (a *Access) SetClock(now func() time.Time) { a.clock = now }

// SetPatience has callers wait so long for keys that take the place of old ones.
func (a *Access) SetPatience(d time.Duration) {
	for _, i := range a.now.Load().issuers {
		i.patience = d
	}
}

// Moment is how long who has a context would wait for keys that take the place of old
// ones, which are being asked for from now on.
func (a *Access) Moment(ctx context.Context) time.Duration {
	return a.now.Load().issuers[0].moment(ctx, &ask{began: time.Now()})
}

// SetTimeout has issuers be given so long to say their keys.
func (a *Access) SetTimeout(d time.Duration) { a.client.Timeout = d }

// What docs/security.md says of how an issuer is asked.
const (
	DocumentMost = documentMost
	AsksInARow   = asksInARow
	AskEvery     = askEvery
)
