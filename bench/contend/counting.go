package contend

import (
	"context"
	"errors"
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
	sizes  map[string]int // of keys that were put and not deleted
}

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

// Kinds that are no requests but what DynamoDB bills for some: a write unit for each KiB
// that is written, deleted, or begun; a read unit for each 4 KiB.
const (
	WriteUnits = "write units"
	ReadUnits  = "read units"
)

// bill counts the units of a request.
func (c *Counter) bill(r lock.Request) {
	switch r.Kind {
	case lock.RequestGet, lock.RequestScan:
		c.add(ReadUnits, r.Key, begun(r.Bytes, 4<<10))
	default:
		c.add(WriteUnits, r.Key, begun(c.written(r), 1<<10))
	}
}

// written is the size that a write is billed by: for a delete that of the item.
func (c *Counter) written(r lock.Request) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	if r.Kind == lock.RequestDelete {
		n := c.sizes[r.Key]
		delete(c.sizes, r.Key)
		return n
	}
	if c.sizes == nil {
		c.sizes = map[string]int{}
	}
	if r.Err == nil {
		c.sizes[r.Key] = r.Bytes
	}
	return r.Bytes
}

func begun(bytes, unit int) int64 { return int64(max((bytes+unit-1)/unit, 1)) }

// Requests are those up to now.
func (c *Counter) Requests() Requests {
	c.mu.Lock()
	defer c.mu.Unlock()
	return Requests{}.Plus(c.counts)
}

// objectKinds are the names of requests to object stores in reports.
var objectKinds = map[objstore.RequestKind]string{
	objstore.RequestGet: "get", objstore.RequestStat: "head", objstore.RequestPut: "put", objstore.RequestPutIfAbsent: "put", objstore.RequestPutIf: "put",
	objstore.RequestList: "list", objstore.RequestDelete: "delete",
}

// CountObjects counts the requests to an object store. Puts that were refused
// count apart: they were made and paid for.
func CountObjects(s objstore.Store, c *Counter) objstore.Store {
	return objstore.Observe(s, func(_ context.Context, r objstore.Request) {
		kind := objectKinds[r.Kind]
		if errors.Is(r.Err, objstore.ErrExists) {
			kind = "put refused"
		}
		c.add(kind, r.Key, 1)
	})
}

// Twice counts a put that a store sent once more by itself.
func (c *Counter) Twice(key string) { c.add("put twice", key, 1) }

// CountKeys counts the requests to a key-value store. What goes along with a
// conditional put is one request with it, and its keys count as "key along".
func CountKeys(s lock.Store, c *Counter) lock.Store {
	return lock.Observe(s, func(_ context.Context, r lock.Request) {
		if c.Aside == nil || !c.Aside("key "+string(r.Kind), r.Key) {
			c.bill(r)
		}
		if r.Kind == lock.RequestBatch {
			c.add("key put", r.Key, 1)
			c.add("key along", r.Key, int64(r.Along))
			return
		}
		c.add("key "+string(r.Kind), r.Key, 1)
	})
}
