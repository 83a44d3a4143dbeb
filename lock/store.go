package lock

import (
	"context"
	"errors"
	"time"
)

// The answers that callers branch on (RULES.md R5, STYLE.md "Three answers").
// Any other error means that the operation was certainly not carried out.
var (
	// ErrConflict: the condition did not hold. Nothing was written.
	ErrConflict = errors.New("condition not met")
	// ErrUnknown: the write may have landed, or may land later. A read that finds
	// nothing concludes nothing.
	ErrUnknown = errors.New("outcome unknown")
	// ErrAway: what the store keeps everything in is not where it was opened. Nothing was
	// carried out.
	ErrAway = errors.New("the store's file is not in its place any more")
	// ErrNotFound: there is no such key.
	ErrNotFound = errors.New("key not found")
	// ErrTooLarge: the value is past what the store takes in one item.
	ErrTooLarge = errors.New("value too large for the store")
)

// Revision is what a store needs to recognise that a key still holds what was
// read or written. Opaque: never compared by callers, never derived from the value.
// Two writes of equal bytes have different revisions.
type Revision string

// Condition says when a put may be carried out.
type Condition struct {
	kind condition
	rev  Revision

	before    string
	beforeRev Revision
}

type condition uint8

const (
	always condition = iota
	ifAbsent
	ifRevision
)

// IfAbsent: only if the key does not exist.
func IfAbsent() Condition { return Condition{kind: ifAbsent} }

// IfRevision: only if the key still has the revision.
func IfRevision(r Revision) Condition { return Condition{kind: ifRevision, rev: r} }

// Always: whatever the key holds. For write-once payloads and advisory keys only.
func Always() Condition { return Condition{} }

// After is the condition, and that the store has not gone back behind a write which was
// seen: key had the revision, and is never deleted. A store that can compare a second key
// in the same request answers ErrShort where it stands at an older one, or is not there
// (R7); others take no notice.
func (c Condition) After(key string, r Revision) Condition {
	c.before, c.beforeRev = key, r
	return c
}

// Before is the write that After names.
func (c Condition) Before() (key string, r Revision, ok bool) {
	return c.before, c.beforeRev, c.before != ""
}

// Absent reports whether the condition is IfAbsent.
func (c Condition) Absent() bool { return c.kind == ifAbsent }

// Revision returns the revision of an IfRevision condition.
func (c Condition) Revision() (Revision, bool) { return c.rev, c.kind == ifRevision }

// Item is a key with its value and revision.
type Item struct {
	Key      string
	Value    []byte
	Revision Revision
}

// Store is a key-value store with compare-and-swap on one key: the only demand
// that the journal makes on any backend. Safe for concurrent use. Implementations
// never retry a conditional put by themselves, since their own landed write would
// come back as a conflict.
type Store interface {
	// Put writes a key under a condition and returns its new revision. nil: durable,
	// and seen by every later Get and Scan of every client. ErrConflict, ErrUnknown,
	// ErrTooLarge as above. A context that ends in flight gives ErrUnknown.
	Put(ctx context.Context, key string, value []byte, c Condition) (Revision, error)
	// Get reads a key, linearizably. ErrNotFound if there is none. The caller owns the value.
	Get(ctx context.Context, key string) (Item, error)
	// Scan reads up to limit keys with the prefix that come after a key, in byte
	// order; limit 0 takes the store's own page size. An empty answer is the end.
	Scan(ctx context.Context, prefix, after string, limit int) ([]Item, error)
	// Delete removes a key; a missing one is no error. Never used on the ring (R1).
	Delete(ctx context.Context, key string) error
	// Close releases the store. Operations in flight may answer ErrUnknown.
	Close() error
}

// Write is one unconditional put that goes along with a conditional one.
type Write struct {
	Key   string
	Value []byte
}

// Batcher is a Store that can carry out a conditional put and some unconditional
// ones together, for the price of one. Stores without it get the unconditional
// ones first, in parallel.
type Batcher interface {
	// PutBatch writes all of with, whether or not the condition of key holds, and
	// key under its condition. When it returns nil or ErrConflict, with is durable.
	PutBatch(ctx context.Context, key string, value []byte, c Condition, with []Write) (Revision, error)
}

// Watcher is a Store that can say when keys change. Advisory: changes may be missed,
// told late, or told twice.
type Watcher interface {
	// Watch calls changed for items with the prefix as they are written, until ctx
	// ends; with an empty item when some may have been missed. It goes on by itself
	// after errors.
	Watch(ctx context.Context, prefix string, changed func(Item))
}

// Clocked is a Store whose server tells the time.
type Clocked interface {
	// Ahead is how far this machine's clock is at least ahead of the server's, by the
	// newest answer; negative if it is behind. told is false before any answer.
	Ahead() (ahead time.Duration, told bool)
}

// Upkept is a Store that has to be kept from filling up, besides what it is asked for.
type Upkept interface {
	// CheckUpkeep sees that it may do what that takes; ErrDenied if not. It changes nothing.
	CheckUpkeep(ctx context.Context) error
}

// Sized is a Store that says how large a value may be.
type Sized interface {
	// MaxValue is the size of the largest value; a larger one is ErrTooLarge.
	MaxValue() int
}
