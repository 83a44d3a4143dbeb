package locktest_test

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/txcoord/txcoord/lock"
)

// broken is a good store of which one method has a defect.
type broken struct {
	lock.Store
	put    func(ctx context.Context, key string, value []byte, c lock.Condition) (lock.Revision, error)
	get    func(ctx context.Context, key string) (lock.Item, error)
	scan   func(ctx context.Context, prefix, after string, limit int) ([]lock.Item, error)
	delete func(ctx context.Context, key string) error
	close  func() error
}

func (b broken) Put(ctx context.Context, key string, value []byte, c lock.Condition) (lock.Revision, error) {
	if b.put != nil {
		return b.put(ctx, key, value, c)
	}
	return b.Store.Put(ctx, key, value, c)
}

func (b broken) Get(ctx context.Context, key string) (lock.Item, error) {
	if b.get != nil {
		return b.get(ctx, key)
	}
	return b.Store.Get(ctx, key)
}

func (b broken) Scan(ctx context.Context, prefix, after string, limit int) ([]lock.Item, error) {
	if b.scan != nil {
		return b.scan(ctx, prefix, after, limit)
	}
	return b.Store.Scan(ctx, prefix, after, limit)
}

func (b broken) Delete(ctx context.Context, key string) error {
	if b.delete != nil {
		return b.delete(ctx, key)
	}
	return b.Store.Delete(ctx, key)
}

func (b broken) Close() error {
	if b.close != nil {
		return b.close()
	}
	return b.Store.Close()
}

func overwrites(s lock.Store) lock.Store {
	return broken{Store: s, put: func(ctx context.Context, key string, value []byte, c lock.Condition) (lock.Revision, error) {
		if c.Absent() {
			c = lock.Always()
		}
		return s.Put(ctx, key, value, c)
	}}
}

// sendsAgain does what SDKs do around a conditional write.
func sendsAgain(s lock.Store) lock.Store {
	return broken{Store: s, put: func(ctx context.Context, key string, value []byte, c lock.Condition) (lock.Revision, error) {
		rev, err := s.Put(ctx, key, value, c)
		if errors.Is(err, lock.ErrUnknown) {
			return s.Put(ctx, key, value, c)
		}
		return rev, err
	}}
}

// sendsAgainUnasked needs no lost reply.
func sendsAgainUnasked(s lock.Store) lock.Store {
	return broken{Store: s, put: func(ctx context.Context, key string, value []byte, c lock.Condition) (lock.Revision, error) {
		rev, err := s.Put(ctx, key, value, c)
		if err == nil && rand.IntN(2) == 0 {
			return s.Put(ctx, key, value, c)
		}
		return rev, err
	}}
}

func saysRefusedForUnknown(s lock.Store) lock.Store {
	return broken{Store: s, put: func(ctx context.Context, key string, value []byte, c lock.Condition) (lock.Revision, error) {
		rev, err := s.Put(ctx, key, value, c)
		if errors.Is(err, lock.ErrUnknown) {
			err = lock.ErrConflict
		}
		return rev, err
	}}
}

// saysErrorForUnknown hands the driver's error on, as most code does.
func saysErrorForUnknown(s lock.Store) lock.Store {
	return broken{Store: s, delete: func(ctx context.Context, key string) error {
		if err := s.Delete(ctx, key); err != nil {
			return errors.New("read tcp: connection reset by peer")
		}
		return nil
	}}
}

func looksThenWrites(s lock.Store) lock.Store {
	return broken{Store: s, put: func(ctx context.Context, key string, value []byte, c lock.Condition) (lock.Revision, error) {
		item, err := s.Get(ctx, key)
		if rev, ok := c.Revision(); ok && (err != nil || rev != item.Revision) || c.Absent() && err == nil {
			return "", lock.ErrConflict
		}
		runtime.Gosched()
		return s.Put(ctx, key, value, lock.Always())
	}}
}

// readsOneBehind answers each key's first get after a put from before it.
func readsOneBehind(s lock.Store) lock.Store {
	var cache sync.Map
	return broken{Store: s, get: func(ctx context.Context, key string) (lock.Item, error) {
		item, err := s.Get(ctx, key)
		if err != nil {
			return item, err
		}
		if old, ok := cache.Swap(key, item); ok {
			return old.(lock.Item), nil
		}
		return item, nil
	}}
}

// readsFromAFollower sees each second read's world as it was before the last write.
func readsFromAFollower(s lock.Store) lock.Store {
	var mu sync.Mutex
	behind := map[string]lock.Item{}
	var reads atomic.Int32
	return broken{
		Store: s,
		put: func(ctx context.Context, key string, value []byte, c lock.Condition) (lock.Revision, error) {
			mu.Lock()
			defer mu.Unlock()
			if item, err := s.Get(ctx, key); err == nil {
				behind[key] = item
			}
			return s.Put(ctx, key, value, c)
		},
		get: func(ctx context.Context, key string) (lock.Item, error) {
			mu.Lock()
			defer mu.Unlock()
			item, err := s.Get(ctx, key)
			if old, ok := behind[key]; ok && err == nil && reads.Add(1)%2 == 0 {
				return old, nil
			}
			return item, err
		},
	}
}

// pages changes what a scan found.
func pages(change func([]lock.Item) []lock.Item) func(lock.Store) lock.Store {
	return func(s lock.Store) lock.Store {
		return broken{Store: s, scan: func(ctx context.Context, prefix, after string, limit int) ([]lock.Item, error) {
			page, err := s.Scan(ctx, prefix, after, limit)
			if err != nil {
				return nil, err
			}
			return change(page), nil
		}}
	}
}

// unordered has the right keys on the right pages, the last one last.
func unordered(page []lock.Item) []lock.Item {
	if len(page) > 2 {
		slices.Reverse(page[:len(page)-1])
	}
	return page
}

func dropsOne(page []lock.Item) []lock.Item {
	if len(page) > 900 {
		return slices.Delete(page, 500, 501)
	}
	return page
}

// skipsAtPages starts a page one key too late.
func skipsAtPages(s lock.Store) lock.Store {
	return broken{Store: s, scan: func(ctx context.Context, prefix, after string, limit int) ([]lock.Item, error) {
		page, err := s.Scan(ctx, prefix, after, limit)
		if after != "" && len(page) > 1 {
			page = page[1:]
		}
		return page, err
	}}
}

func prefixIsARange(s lock.Store) lock.Store {
	return broken{Store: s, scan: func(ctx context.Context, prefix, after string, limit int) ([]lock.Item, error) {
		page, err := s.Scan(ctx, "", max(after, prefix[:max(0, len(prefix)-1)]), limit)
		return slices.DeleteFunc(page, func(item lock.Item) bool { return item.Key < prefix || item.Key > prefix+"~" }), err
	}}
}

func includesAfter(s lock.Store) lock.Store {
	return broken{Store: s, scan: func(ctx context.Context, prefix, after string, limit int) ([]lock.Item, error) {
		page, err := s.Scan(ctx, prefix, after, limit)
		if item, getErr := s.Get(ctx, after); len(page) > 0 && getErr == nil && strings.HasPrefix(after, prefix) {
			page = slices.Insert(page, 0, item)
		}
		return page, err
	}}
}

func ignoresTheLimit(s lock.Store) lock.Store {
	return broken{Store: s, scan: func(ctx context.Context, prefix, after string, _ int) ([]lock.Item, error) {
		return s.Scan(ctx, prefix, after, 0)
	}}
}

// scansAnIndex that learns of a key with the next put.
func scansAnIndex(s lock.Store) lock.Store {
	var last atomic.Value
	return broken{
		Store: s,
		put: func(ctx context.Context, key string, value []byte, c lock.Condition) (lock.Revision, error) {
			last.Store(key)
			return s.Put(ctx, key, value, c)
		},
		scan: func(ctx context.Context, prefix, after string, limit int) ([]lock.Item, error) {
			page, err := s.Scan(ctx, prefix, after, limit)
			return slices.DeleteFunc(page, func(item lock.Item) bool { return item.Key == last.Load() }), err
		},
	}
}

func withoutValues(page []lock.Item) []lock.Item {
	for i := range page {
		page[i].Value = nil
	}
	return page
}

// revisionsAreHashes, so that equal bytes are taken for no change.
func revisionsAreHashes(s lock.Store) lock.Store {
	hash := func(value []byte) lock.Revision { return lock.Revision("#" + string(value)) }
	var mu sync.Mutex
	return broken{
		Store: s,
		get: func(ctx context.Context, key string) (lock.Item, error) {
			item, err := s.Get(ctx, key)
			item.Revision = hash(item.Value)
			return item, err
		},
		put: func(ctx context.Context, key string, value []byte, c lock.Condition) (lock.Revision, error) {
			mu.Lock()
			defer mu.Unlock()
			if rev, ok := c.Revision(); ok {
				item, err := s.Get(ctx, key)
				if err != nil || hash(item.Value) != rev {
					return "", lock.ErrConflict
				}
				c = lock.Always()
			}
			_, err := s.Put(ctx, key, value, c)
			return hash(value), err
		},
	}
}

// revisionsPerKey count from one again when a key is made again.
func revisionsPerKey(s lock.Store) lock.Store {
	var mu sync.Mutex
	counts := map[string]int{}
	inner := map[string]lock.Revision{}
	name := func(key string) lock.Revision { return lock.Revision(strings.Repeat("i", counts[key])) }
	return broken{
		Store: s,
		put: func(ctx context.Context, key string, value []byte, c lock.Condition) (lock.Revision, error) {
			mu.Lock()
			defer mu.Unlock()
			if rev, ok := c.Revision(); ok {
				if counts[key] == 0 || rev != name(key) {
					return "", lock.ErrConflict
				}
				c = lock.IfRevision(inner[key])
			}
			rev, err := s.Put(ctx, key, value, c)
			if err != nil {
				return "", err
			}
			counts[key]++
			inner[key] = rev
			return name(key), nil
		},
		delete: func(ctx context.Context, key string) error {
			mu.Lock()
			defer mu.Unlock()
			delete(counts, key)
			return s.Delete(ctx, key)
		},
	}
}

func ignoresRevisions(s lock.Store) lock.Store {
	return broken{Store: s, put: func(ctx context.Context, key string, value []byte, c lock.Condition) (lock.Revision, error) {
		if _, ok := c.Revision(); ok {
			c = lock.Always()
		}
		return s.Put(ctx, key, value, c)
	}}
}

func alwaysMeansAbsent(s lock.Store) lock.Store {
	return broken{Store: s, put: func(ctx context.Context, key string, value []byte, c lock.Condition) (lock.Revision, error) {
		if _, ok := c.Revision(); !ok {
			c = lock.IfAbsent()
		}
		return s.Put(ctx, key, value, c)
	}}
}

func dropsEmptyValues(s lock.Store) lock.Store {
	return broken{Store: s, put: func(ctx context.Context, key string, value []byte, c lock.Condition) (lock.Revision, error) {
		if len(value) == 0 {
			return "1", nil
		}
		return s.Put(ctx, key, value, c)
	}}
}

func missingIsEmpty(s lock.Store) lock.Store {
	return broken{Store: s, get: func(ctx context.Context, key string) (lock.Item, error) {
		item, err := s.Get(ctx, key)
		if errors.Is(err, lock.ErrNotFound) {
			return lock.Item{Key: key}, nil
		}
		return item, err
	}}
}

func deleteLeavesEmpty(s lock.Store) lock.Store {
	return broken{Store: s, delete: func(ctx context.Context, key string) error {
		_, err := s.Put(ctx, key, nil, lock.Always())
		return err
	}}
}

func cutsValues(s lock.Store) lock.Store {
	return broken{Store: s, put: func(ctx context.Context, key string, value []byte, c lock.Condition) (lock.Revision, error) {
		return s.Put(ctx, key, value[:min(len(value), testMaxValue)], c)
	}}
}

// sharesValues hands out what it was given.
func sharesValues(s lock.Store) lock.Store {
	var shared sync.Map
	return broken{
		Store: s,
		put: func(ctx context.Context, key string, value []byte, c lock.Condition) (lock.Revision, error) {
			shared.Store(key, value)
			return s.Put(ctx, key, bytes.Clone(value), c)
		},
		get: func(ctx context.Context, key string) (lock.Item, error) {
			item, err := s.Get(ctx, key)
			if value, ok := shared.Load(key); ok && err == nil {
				item.Value = value.([]byte)
			}
			return item, err
		},
	}
}

func foldsKeys(s lock.Store) lock.Store {
	return broken{Store: s, put: func(ctx context.Context, key string, value []byte, c lock.Condition) (lock.Revision, error) {
		return s.Put(ctx, strings.ReplaceAll(key, "//", "/"), value, c)
	}}
}
