package objstore

import (
	"context"
	"iter"
	"time"
)

// Request is one request to a store, as it was answered. A listing is one, however
// many pages it takes, and takes as long as its reader does.
type Request struct {
	Kind  RequestKind
	Key   string // or the prefix of a listing
	Bytes int    // of the object that was put or read
	Took  time.Duration
	Err   error
}

// RequestKind is what a request does.
type RequestKind string

// The kinds.
const (
	RequestGet         RequestKind = "get"
	RequestStat        RequestKind = "stat"
	RequestPut         RequestKind = "put"
	RequestPutIfAbsent RequestKind = "put_if_absent" // a guarded one is one of these
	RequestPutIf       RequestKind = "put_if"
	RequestList        RequestKind = "list"
	RequestDelete      RequestKind = "delete"
)

// RequestKinds are all there are.
func RequestKinds() []RequestKind {
	return []RequestKind{RequestGet, RequestStat, RequestPut, RequestPutIfAbsent, RequestPutIf, RequestList, RequestDelete}
}

// Observe tells each request to a store after its answer, from the goroutine that made
// it. What the store can do beside Store, the result can do too.
func Observe(s Store, tell func(context.Context, Request)) Store {
	o := observed{s, tell}
	if c, ok := s.(Conditional); ok {
		return observedConditional{o, c}
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

func (o observed) Get(ctx context.Context, key string, r Range) ([]byte, Info, error) {
	start := time.Now()
	b, info, err := o.s.Get(ctx, key, r)
	o.told(ctx, RequestGet, key, len(b), start, err)
	return b, info, err
}

func (o observed) Stat(ctx context.Context, key string) (Info, error) {
	start := time.Now()
	info, err := o.s.Stat(ctx, key)
	o.told(ctx, RequestStat, key, 0, start, err)
	return info, err
}

func (o observed) PutIfAbsent(ctx context.Context, key string, data []byte) error {
	start := time.Now()
	err := o.s.PutIfAbsent(ctx, key, data)
	o.told(ctx, RequestPutIfAbsent, key, len(data), start, err)
	return err
}

// PutBeside implements Guarded, as far as the store does.
func (o observed) PutBeside(ctx context.Context, key string, data []byte, n Neighbour) error {
	start := time.Now()
	err := PutBeside(ctx, o.s, key, data, n)
	o.told(ctx, RequestPutIfAbsent, key, len(data), start, err)
	return err
}

func (o observed) Put(ctx context.Context, key string, data []byte) error {
	start := time.Now()
	err := o.s.Put(ctx, key, data)
	o.told(ctx, RequestPut, key, len(data), start, err)
	return err
}

func (o observed) List(ctx context.Context, opts ListOptions) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		start, failed := time.Now(), error(nil)
		defer func() { o.told(ctx, RequestList, opts.Prefix, 0, start, failed) }()
		for e, err := range o.s.List(ctx, opts) {
			failed = err
			if !yield(e, err) {
				return
			}
		}
	}
}

func (o observed) Delete(ctx context.Context, key string) error {
	start := time.Now()
	err := o.s.Delete(ctx, key)
	o.told(ctx, RequestDelete, key, 0, start, err)
	return err
}

// Drafts implements Drafter, as far as the store does. It is no request for an object.
func (o observed) Drafts(ctx context.Context, folder string, age time.Duration) ([]Info, error) {
	return Drafts(ctx, o.s, folder, age)
}

// RemoveDraft implements Drafter.
func (o observed) RemoveDraft(ctx context.Context, key string, age time.Duration) (bool, error) {
	return RemoveDraft(ctx, o.s, key, age)
}

type observedConditional struct {
	observed
	conditional Conditional
}

func (o observedConditional) PutIf(ctx context.Context, key string, data []byte, c Condition) (string, error) {
	start := time.Now()
	etag, err := o.conditional.PutIf(ctx, key, data, c)
	o.told(ctx, RequestPutIf, key, len(data), start, err)
	return etag, err
}
