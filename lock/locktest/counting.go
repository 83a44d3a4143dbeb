package locktest

import (
	"context"
	"maps"
	"strings"
	"sync"

	"github.com/txcoord/txcoord/lock"
)

// Call is a kind of operation on a class of keys.
type Call struct {
	Kind  Kind
	Class string
}

// Counting counts the calls to a store, whatever their answer. It is no lock.Batcher
// itself, see Batching.
type Counting struct {
	lock.Store
	class  func(key string) string
	mu     sync.Mutex
	counts map[Call]int
}

var _ lock.Store = (*Counting)(nil)

// NewCounting wraps a store. class puts keys (for a scan: the prefix) into classes;
// nil takes what stands before the first slash: "meta", "ring", "pay", "open".
func NewCounting(s lock.Store, class func(key string) string) *Counting {
	if class == nil {
		class = func(key string) string {
			first, _, _ := strings.Cut(key, "/")
			return first
		}
	}
	return &Counting{Store: s, class: class, counts: make(map[Call]int)}
}

// Counts are the calls since the start or the last Reset; without an entry, none.
func (c *Counting) Counts() map[Call]int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.counts)
}

// Reset starts again from zero.
func (c *Counting) Reset() {
	c.mu.Lock()
	defer c.mu.Unlock()
	clear(c.counts)
}

func (c *Counting) count(kind Kind, key string) {
	call := Call{kind, c.class(key)}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.counts[call]++
}

// Put implements lock.Store.
func (c *Counting) Put(ctx context.Context, key string, value []byte, cond lock.Condition) (lock.Revision, error) {
	c.count(Put, key)
	return c.Store.Put(ctx, key, value, cond)
}

// Get implements lock.Store.
func (c *Counting) Get(ctx context.Context, key string) (lock.Item, error) {
	c.count(Get, key)
	return c.Store.Get(ctx, key)
}

// Scan implements lock.Store.
func (c *Counting) Scan(ctx context.Context, prefix, after string, limit int) ([]lock.Item, error) {
	c.count(Scan, prefix)
	return c.Store.Scan(ctx, prefix, after, limit)
}

// Delete implements lock.Store.
func (c *Counting) Delete(ctx context.Context, key string) error {
	c.count(Delete, key)
	return c.Store.Delete(ctx, key)
}
