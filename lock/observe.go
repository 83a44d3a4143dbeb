package lock

import (
	"context"
	"math"
	"time"
)

// Request is one request to a store, as it was answered.
type Request struct {
	Kind RequestKind
	// Key, or the prefix of a scan. Of a batch it is the one with the condition.
	Key string
	// Along counts the unconditional writes that went along with a conditional put.
	Along int
	// Bytes of the keys and values that were written or found.
	Bytes int
	Took  time.Duration
	Err   error
}

// RequestKind is what a request does.
type RequestKind string

// The kinds. A batch is one request.
const (
	RequestPut    RequestKind = "put"
	RequestBatch  RequestKind = "put_batch"
	RequestGet    RequestKind = "get"
	RequestScan   RequestKind = "scan"
	RequestDelete RequestKind = "delete"
)

// RequestKinds are all there are.
func RequestKinds() []RequestKind {
	return []RequestKind{RequestPut, RequestBatch, RequestGet, RequestScan, RequestDelete}
}

// Observe tells each request to a store after its answer, from the goroutine that made
// it. What the store can do beside Store, the result can do too.
func Observe(s Store, tell func(context.Context, Request)) Store {
	o := observed{s, tell}
	b, batches := s.(Batcher)
	w, watches := s.(Watcher)
	switch {
	case batches && watches:
		return observedBoth{observedBatches{o, b}, w}
	case batches:
		return observedBatches{o, b}
	case watches:
		return observedWatches{o, w}
	}
	return o
}

type observed struct {
	s    Store
	tell func(context.Context, Request)
}

func (o observed) told(ctx context.Context, kind RequestKind, key string, bytes int, start time.Time, err error) {
	o.tell(ctx, Request{Kind: kind, Key: key, Bytes: bytes, Took: time.Since(start), Err: err})
}

// size is what items weigh.
func size(items ...Item) (n int) {
	for _, it := range items {
		n += len(it.Key) + len(it.Value)
	}
	return n
}

func (o observed) Put(ctx context.Context, key string, value []byte, c Condition) (Revision, error) {
	start := time.Now()
	r, err := o.s.Put(ctx, key, value, c)
	o.told(ctx, RequestPut, key, len(key)+len(value), start, err)
	return r, err
}

func (o observed) Get(ctx context.Context, key string) (Item, error) {
	start := time.Now()
	it, err := o.s.Get(ctx, key)
	o.told(ctx, RequestGet, key, size(it), start, err)
	return it, err
}

func (o observed) Scan(ctx context.Context, prefix, after string, limit int) ([]Item, error) {
	start := time.Now()
	items, err := o.s.Scan(ctx, prefix, after, limit)
	o.told(ctx, RequestScan, prefix, size(items...), start, err)
	return items, err
}

func (o observed) Delete(ctx context.Context, key string) error {
	start := time.Now()
	err := o.s.Delete(ctx, key)
	o.told(ctx, RequestDelete, key, 0, start, err)
	return err
}

func (o observed) Close() error { return o.s.Close() }

// MaxValue implements Sized; a store that names no size has none.
func (o observed) MaxValue() int {
	if s, ok := o.s.(Sized); ok {
		return s.MaxValue()
	}
	return math.MaxInt
}

// Ahead implements Clocked; a store without a clock tells nothing.
func (o observed) Ahead() (time.Duration, bool) {
	if s, ok := o.s.(Clocked); ok {
		return s.Ahead()
	}
	return 0, false
}

type observedBatches struct {
	observed
	batches Batcher
}

func (o observedBatches) PutBatch(ctx context.Context, key string, value []byte, c Condition, with []Write) (Revision, error) {
	start := time.Now()
	r, err := o.batches.PutBatch(ctx, key, value, c, with)
	bytes := len(key) + len(value)
	for _, w := range with {
		bytes += len(w.Key) + len(w.Value)
	}
	o.tell(ctx, Request{Kind: RequestBatch, Key: key, Along: len(with), Bytes: bytes, Took: time.Since(start), Err: err})
	return r, err
}

type observedWatches struct {
	observed
	watches Watcher
}

func (o observedWatches) Watch(ctx context.Context, prefix string, changed func(Item)) {
	o.watches.Watch(ctx, prefix, changed)
}

type observedBoth struct {
	observedBatches
	watches Watcher
}

func (o observedBoth) Watch(ctx context.Context, prefix string, changed func(Item)) {
	o.watches.Watch(ctx, prefix, changed)
}
