package s3obj

import (
	"net/http"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
)

// clock looks at the Date header of each answer that passes.
type clock struct {
	client aws.HTTPClient

	mu    sync.Mutex
	diff  time.Duration
	known bool
}

// trusted is how long an answer may take and still say what time it is.
const trusted = time.Second

// Do implements aws.HTTPClient.
func (c *clock) Do(r *http.Request) (*http.Response, error) {
	sent := time.Now()
	resp, err := c.client.Do(r)
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

func (c *clock) ahead() (time.Duration, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.diff, c.known
}
