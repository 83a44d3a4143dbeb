package remote

import (
	"net/http"
	"sync"
	"time"
)

// Clock compares this machine's clock with the Date header of each answer that
// passes. Its zero value is usable.
type Clock struct {
	mu    sync.Mutex
	diff  time.Duration
	known bool
}

// trusted is how long an answer may take and still say what time it is.
const trusted = time.Second

// Ahead implements objstore.Clock.
func (c *Clock) Ahead() (time.Duration, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.diff, c.known
}

// See makes a round trip and looks at its answer.
func (c *Clock) See(r *http.Request, trip func(*http.Request) (*http.Response, error)) (*http.Response, error) {
	sent := time.Now()
	resp, err := trip(r)
	if err != nil {
		return nil, err
	}
	took := time.Since(sent)
	if date, err := http.ParseTime(resp.Header.Get("Date")); err == nil && took < trusted {
		c.mu.Lock()
		defer c.mu.Unlock()
		// The header is cut to a second, so half of one is missing on average.
		c.diff, c.known = sent.Add(took/2).Round(0).Sub(date.Add(500*time.Millisecond)), true
	}
	return resp, nil
}

// Transport is a transport that the clock looks at.
func (c *Clock) Transport(t http.RoundTripper) http.RoundTripper { return seen{c, t} }

type seen struct {
	clock *Clock
	http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (s seen) RoundTrip(r *http.Request) (*http.Response, error) {
	return s.clock.See(r, s.RoundTripper.RoundTrip)
}
