package objstore

import (
	"context"
	"errors"
	"time"
)

// ErrChanged: the put was refused, because the key does not hold the object that the
// condition names. Nothing was written.
var ErrChanged = errors.New("object changed")

// Condition says when a put may be carried out. The zero value is always.
type Condition struct {
	absent bool
	etag   string
}

// IfAbsent: only if the key holds no object.
func IfAbsent() Condition { return Condition{absent: true} }

// IfETag: only if the key holds the object with this ETag.
func IfETag(etag string) Condition { return Condition{etag: etag} }

// Always: whatever the key holds.
func Always() Condition { return Condition{} }

// IsAbsent reports whether the condition is IfAbsent.
func (c Condition) IsAbsent() bool { return c.absent }

// ETag returns the ETag of an IfETag condition.
func (c Condition) ETag() (string, bool) { return c.etag, c.etag != "" }

// Refusal is the error of a put whose condition did not hold.
func (c Condition) Refusal() error {
	if c.absent {
		return ErrExists
	}
	return ErrChanged
}

// Conditional is a Store that can also replace an object on the condition that it is
// still the one that was read. Its ETags are those of Info. Two puts of equal bytes
// may have the same ETag.
type Conditional interface {
	Store
	// PutIf writes the object if the condition holds, and returns the new ETag. nil:
	// written and durable. ErrExists, ErrChanged, ErrUnknown as above. Of any number
	// of racing puts on one ETag at most one returns nil, if their bytes differ.
	PutIf(ctx context.Context, key string, data []byte, c Condition) (etag string, err error)
}

// Clock is a Store that knows what time it is where the objects are (R16).
type Clock interface {
	// Ahead is by how much this machine's clock was ahead of the store's at its last
	// answer, to about a second. Without an answer yet, ok is false.
	Ahead() (d time.Duration, ok bool)
}
