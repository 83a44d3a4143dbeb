// Package memstore is a lock.Store in memory: for tests, and for runs that may
// forget. Nothing survives its process.
package memstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/txcoord/txcoord/lock"
)

// Config changes what New makes; its zero value is usable.
type Config struct {
	// MaxValue is the largest value in bytes; default 8 MiB.
	MaxValue int
}

// ErrClosed: the store was closed. Nothing was carried out.
var ErrClosed = errors.New("store is closed")

// What Scan reads at once when it is asked for no number; and, so that large values
// do not pile up, at most about so many bytes whatever it is asked for.
const (
	pageKeys  = 1000
	pageBytes = 4 << 20
)

// Store holds its items in one map behind one lock: every operation happens at one
// moment, in the order of arrival at the lock.
type Store struct {
	maxValue int

	mu     sync.RWMutex
	items  map[string]lock.Item
	puts   uint64
	closed bool
}

var _ lock.Store = (*Store)(nil)

// New makes an empty store.
func New(cfg Config) *Store {
	if cfg.MaxValue == 0 {
		cfg.MaxValue = 8 << 20
	}
	return &Store{maxValue: cfg.MaxValue, items: make(map[string]lock.Item)}
}

// Put writes a key under a condition and returns its new revision.
func (s *Store) Put(ctx context.Context, key string, value []byte, c lock.Condition) (lock.Revision, error) {
	if len(value) > s.maxValue {
		return "", fmt.Errorf("put %s: %d bytes, limit %d: %w", key, len(value), s.maxValue, lock.ErrTooLarge)
	}
	value = append([]byte{}, value...)
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.check(ctx, key); err != nil {
		return "", fmt.Errorf("put %s: %w", key, err)
	}
	if !s.holds(key, c) {
		return "", fmt.Errorf("put %s: %w", key, lock.ErrConflict)
	}
	// The number goes on over deletes, so no revision comes twice.
	s.puts++
	rev := lock.Revision(strconv.FormatUint(s.puts, 10))
	s.items[key] = lock.Item{Key: key, Value: value, Revision: rev}
	return rev, nil
}

// check says why an operation cannot be carried out at all.
func (s *Store) check(ctx context.Context, key string) error {
	switch {
	case key == "":
		return errors.New("empty key")
	case s.closed:
		return ErrClosed
	default:
		return ctx.Err()
	}
}

// holds reports whether a condition does.
func (s *Store) holds(key string, c lock.Condition) bool {
	item, exists := s.items[key]
	if rev, ok := c.Revision(); ok {
		return exists && item.Revision == rev
	}
	return !c.Absent() || !exists
}

// Get reads a key.
func (s *Store) Get(ctx context.Context, key string) (lock.Item, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if err := s.check(ctx, key); err != nil {
		return lock.Item{}, fmt.Errorf("get %s: %w", key, err)
	}
	item, ok := s.items[key]
	if !ok {
		return lock.Item{}, fmt.Errorf("get %s: %w", key, lock.ErrNotFound)
	}
	return owned(item), nil
}

// owned is the item with a value of its own.
func owned(item lock.Item) lock.Item {
	item.Value = slices.Clone(item.Value)
	return item
}

// Scan reads keys with the prefix that come after a key, in byte order.
func (s *Store) Scan(ctx context.Context, prefix, after string, limit int) ([]lock.Item, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if err := s.check(ctx, "any"); err != nil {
		return nil, fmt.Errorf("scan %s: %w", prefix, err)
	}
	if limit <= 0 {
		limit = pageKeys
	}
	var page []lock.Item
	size := 0
	for _, key := range s.keys(prefix, after) {
		if len(page) == limit || size >= pageBytes {
			break
		}
		page = append(page, owned(s.items[key]))
		size += len(s.items[key].Value)
	}
	return page, nil
}

func (s *Store) keys(prefix, after string) []string {
	var keys []string
	for key := range s.items {
		if strings.HasPrefix(key, prefix) && key > after {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return keys
}

// Delete removes a key; a missing one is no error.
func (s *Store) Delete(ctx context.Context, key string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.check(ctx, key); err != nil {
		return fmt.Errorf("delete %s: %w", key, err)
	}
	delete(s.items, key)
	return nil
}

// Close drops the items. Later operations answer ErrClosed.
func (s *Store) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed, s.items = true, nil
	return nil
}
