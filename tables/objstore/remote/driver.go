package remote

import (
	"context"
	"io"
	"time"

	"github.com/txcoord/txcoord/tables/objstore"
)

// TokenName is the metadata of an object that names the put that wrote it. Some APIs
// take names without hyphens only.
const TokenName = "txcoord_put"

// Driver sends requests of one API to one bucket, each of them once. Keys and ranges
// have been checked.
type Driver interface {
	// Name is a key as errors say it.
	Name(key string) string
	// Get opens an object at a range, or at a larger one.
	Get(ctx context.Context, key string, r objstore.Range) (Opened, error)
	// Head describes an object, and says which put wrote it.
	Head(ctx context.Context, key string) (info objstore.Info, token string, err error)
	// Put writes an object under a condition, with a token, and returns its ETag.
	Put(ctx context.Context, key string, body io.ReadSeeker, size int64, c objstore.Condition, token string) (etag string, err error)
	// Delete removes an object.
	Delete(ctx context.Context, key string) error
	// List returns a page in byte order, and what names the next; empty at the end.
	List(ctx context.Context, o objstore.ListOptions, page string) (entries []objstore.Entry, next string, err error)
	// Verdict says what an error of the above means.
	Verdict(err error) Verdict
	// Refusal says what can be done about an error of the above; nil if that is not known.
	Refusal(err error) *objstore.Refusal
}

// Opened is an object under way.
type Opened struct {
	// Body gives Length bytes of the object, from From on.
	Body         io.ReadCloser
	From, Length int64
	// Info describes the whole object.
	Info objstore.Info
}

// Verdict is what a request is known to have come to. Only an answer that the store
// itself has given is one: any proxy can say 403.
type Verdict int

const (
	// Certain: not carried out, and it would be no different the next time.
	Certain Verdict = iota
	// Throttled: not carried out, for now.
	Throttled
	// NotFound: there is no such object.
	NotFound
	// BadRange: the object ends before the range, or is empty.
	BadRange
	// Refused: the condition does not hold.
	Refused
	// Undecided: another request on the key was under way. Nothing was written, and
	// nothing is settled.
	Undecided
	// Unknown: a write may have landed, or may land later.
	Unknown
)

// Config bounds what a Store asks of its Driver.
type Config struct {
	// RequestTimeout is how long a request may go on without a byte moving; default 10 s.
	RequestTimeout time.Duration
	// MaxRequests bounds the requests in flight; default 128.
	MaxRequests int
	// HedgeAfter sends a put a second time if it is not answered by then; 0 never does.
	HedgeAfter time.Duration
}

// WithDefaults fills in what is not set.
func (c Config) WithDefaults() Config {
	if c.RequestTimeout == 0 {
		c.RequestTimeout = 10 * time.Second
	}
	if c.MaxRequests == 0 {
		c.MaxRequests = 128
	}
	return c
}
