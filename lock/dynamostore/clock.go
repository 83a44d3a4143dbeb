package dynamostore

import (
	"net/http"
	"sync/atomic"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/txcoord/txcoord/lock"
)

var _ lock.Clocked = (*Store)(nil)

// clock compares this machine's clock with the server's.
type clock struct {
	told  atomic.Bool
	ahead atomic.Int64
}

// Ahead implements lock.Clocked.
func (s *Store) Ahead() (ahead time.Duration, told bool) {
	return time.Duration(s.clock.ahead.Load()), s.clock.told.Load()
}

// dated reads the Date of each answer. It is given in whole seconds, and was written
// after the request was sent: what is left of the difference is certain.
type dated struct {
	under aws.HTTPClient
	clock *clock
}

// Do implements aws.HTTPClient.
func (d dated) Do(r *http.Request) (*http.Response, error) {
	sent := time.Now()
	resp, err := d.under.Do(r)
	if err != nil {
		return resp, err
	}
	if date, err := http.ParseTime(resp.Header.Get("Date")); err == nil {
		d.clock.ahead.Store(int64(sent.Sub(date) - time.Second))
		d.clock.told.Store(true)
	}
	return resp, nil
}
