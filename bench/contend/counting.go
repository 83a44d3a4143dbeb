package contend

import (
	"context"
	"errors"
	"iter"
	"sync"

	"github.com/txcoord/txcoord/lock"
	"github.com/txcoord/txcoord/tables/objstore"
)

// Counter counts requests to stores. The zero value is ready, and counts all.
type Counter struct {
	// Aside says of a request, by its kind and its key or prefix, that it is not to be
	// counted, since no transaction makes it.
	Aside func(kind, key string) bool

	mu     sync.Mutex
	counts Requests
}

func (c *Counter) count(kind, key string) { c.add(kind, key, 1) }

func (c *Counter) add(kind, key string, n int64) {
	if c.Aside != nil && c.Aside(kind, key) {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.counts == nil {
		c.counts = Requests{}
	}
	c.counts[kind] += n
}

// Requests are those up to now.
func (c *Counter) Requests() Requests {
	c.mu.Lock()
	defer c.mu.Unlock()
	return Requests{}.Plus(c.counts)
}

// CountObjects counts the requests to an object store. Puts that were refused
// count apart: they were made and paid for.
func CountObjects(s objstore.Store, c *Counter) objstore.Store { return countedObjects{s, c} }

type countedObjects struct {
	objstore.Store
	*Counter
}

func (s countedObjects) Get(ctx context.Context, key string, r objstore.Range) ([]byte, objstore.Info, error) {
	s.count("get", key)
	return s.Store.Get(ctx, key, r)
}

func (s countedObjects) Stat(ctx context.Context, key string) (objstore.Info, error) {
	s.count("head", key)
	return s.Store.Stat(ctx, key)
}

func (s countedObjects) PutIfAbsent(ctx context.Context, key string, data []byte) error {
	err := s.Store.PutIfAbsent(ctx, key, data)
	if errors.Is(err, objstore.ErrExists) {
		s.count("put refused", key)
	} else {
		s.count("put", key)
	}
	return err
}

func (s countedObjects) Put(ctx context.Context, key string, data []byte) error {
	s.count("put", key)
	return s.Store.Put(ctx, key, data)
}

func (s countedObjects) List(ctx context.Context, o objstore.ListOptions) iter.Seq2[objstore.Entry, error] {
	s.count("list", o.Prefix)
	return s.Store.List(ctx, o)
}

func (s countedObjects) Delete(ctx context.Context, key string) error {
	s.count("delete", key)
	return s.Store.Delete(ctx, key)
}

// CountKeys counts the requests to a key-value store. What goes along with a
// conditional put is one request with it, and its keys count as "key along".
func CountKeys(s lock.Store, c *Counter) lock.Store {
	if b, ok := s.(lock.Batcher); ok {
		return countedBatches{countedKeys{s, c}, b}
	}
	return countedKeys{s, c}
}

type countedBatches struct {
	countedKeys
	batches lock.Batcher
}

func (s countedBatches) PutBatch(
	ctx context.Context, key string, value []byte, c lock.Condition, with []lock.Write,
) (lock.Revision, error) {
	s.count("key put", key)
	s.add("key along", key, int64(len(with)))
	return s.batches.PutBatch(ctx, key, value, c, with)
}

type countedKeys struct {
	lock.Store
	*Counter
}

func (s countedKeys) Put(ctx context.Context, key string, value []byte, c lock.Condition) (lock.Revision, error) {
	s.count("key put", key)
	return s.Store.Put(ctx, key, value, c)
}

func (s countedKeys) Get(ctx context.Context, key string) (lock.Item, error) {
	s.count("key get", key)
	return s.Store.Get(ctx, key)
}

func (s countedKeys) Scan(ctx context.Context, prefix, after string, limit int) ([]lock.Item, error) {
	s.count("key scan", prefix)
	return s.Store.Scan(ctx, prefix, after, limit)
}

func (s countedKeys) Delete(ctx context.Context, key string) error {
	s.count("key delete", key)
	return s.Store.Delete(ctx, key)
}
