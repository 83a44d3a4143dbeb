package objtest

import (
	"context"
	"iter"
	"maps"
	"path"
	"strings"
	"sync"

	"github.com/txcoord/txcoord/tables/objstore"
)

// Call is a kind of operation on a class of keys.
type Call struct {
	Kind  Kind
	Class string
}

// Counting counts the calls to a store, whatever their answer.
type Counting struct {
	objstore.Store
	class  func(key string) string
	mu     sync.Mutex
	counts map[Call]int
}

var _ objstore.Store = (*Counting)(nil)

// NewCounting wraps a store. class puts keys (for a listing: the prefix) into
// classes; nil takes Layout.
func NewCounting(s objstore.Store, class func(key string) string) *Counting {
	if class == nil {
		class = Layout
	}
	return &Counting{Store: s, class: class, counts: make(map[Call]int)}
}

// Layout tells the objects of the contract apart (docs: keys and objects): the
// folder below _txcoord/<catalog> ("manifests", "staged", "facts", "checkpoints"),
// "owner", "commit" for _delta_log/N.json, "log" for the rest of a log, else "data".
func Layout(key string) string {
	if _, ours, ok := strings.Cut("/"+key, "/_txcoord/"); ok && !strings.Contains(key, "_delta_log/") {
		_, rest, _ := strings.Cut(ours, "/")
		class, _, _ := strings.Cut(rest, "/")
		return class
	}
	_, name, ok := strings.Cut("/"+key, "/_delta_log/")
	switch {
	case !ok:
		return "data"
	case strings.HasPrefix(name, "_txcoord/"):
		return "owner"
	case isVersion(name):
		return "commit"
	default:
		return "log"
	}
}

func isVersion(name string) bool {
	ok, err := path.Match(strings.Repeat("[0-9]", 20)+".json", name)
	return ok && err == nil
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

// Get implements objstore.Store.
func (c *Counting) Get(ctx context.Context, key string, r objstore.Range) ([]byte, objstore.Info, error) {
	c.count(Get, key)
	return c.Store.Get(ctx, key, r)
}

// Stat implements objstore.Store.
func (c *Counting) Stat(ctx context.Context, key string) (objstore.Info, error) {
	c.count(Stat, key)
	return c.Store.Stat(ctx, key)
}

// PutIfAbsent implements objstore.Store.
func (c *Counting) PutIfAbsent(ctx context.Context, key string, data []byte) error {
	c.count(PutIfAbsent, key)
	return c.Store.PutIfAbsent(ctx, key, data)
}

// Put implements objstore.Store.
func (c *Counting) Put(ctx context.Context, key string, data []byte) error {
	c.count(Put, key)
	return c.Store.Put(ctx, key, data)
}

// Delete implements objstore.Store.
func (c *Counting) Delete(ctx context.Context, key string) error {
	c.count(Delete, key)
	return c.Store.Delete(ctx, key)
}

// List implements objstore.Store. It counts when the iteration begins.
func (c *Counting) List(ctx context.Context, o objstore.ListOptions) iter.Seq2[objstore.Entry, error] {
	return func(yield func(objstore.Entry, error) bool) {
		c.count(List, o.Prefix)
		c.Store.List(ctx, o)(yield)
	}
}
