package boltstore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"

	"go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"

	"github.com/txcoord/txcoord/lock"
)

// What Scan reads at once when it is asked for no number; and, so that large values
// do not pile up, at most about so many bytes whatever it is asked for.
const (
	pageKeys  = 1000
	pageBytes = 4 << 20
)

// Get reads a key.
func (s *Store) Get(ctx context.Context, key string) (lock.Item, error) {
	item, err := s.get(ctx, key)
	if err != nil {
		return lock.Item{}, fmt.Errorf("get %s: %w", key, err)
	}
	return item, nil
}

func (s *Store) get(ctx context.Context, key string) (item lock.Item, err error) {
	if err := check(ctx, key); err != nil {
		return lock.Item{}, err
	}
	found := false
	err = s.view(func(b *bbolt.Bucket) {
		if stored := b.Get([]byte(key)); stored != nil {
			item, found = decode([]byte(key), stored), true
		}
	})
	if err == nil {
		err = s.settled(ctx, func(k string) bool { return k == key })
	}
	if err == nil && !found {
		err = lock.ErrNotFound
	}
	return item, err
}

// Scan reads keys with the prefix that come after a key, in byte order.
func (s *Store) Scan(ctx context.Context, prefix, after string, limit int) ([]lock.Item, error) {
	page, err := s.scan(ctx, prefix, after, limit)
	if err != nil {
		return nil, fmt.Errorf("scan %s: %w", prefix, err)
	}
	return page, nil
}

func (s *Store) scan(ctx context.Context, prefix, after string, limit int) (page []lock.Item, err error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if limit <= 0 {
		limit = pageKeys
	}
	if err := s.view(func(b *bbolt.Bucket) { page = readPage(b, prefix, after, limit) }); err != nil {
		return nil, err
	}
	return page, s.settled(ctx, func(k string) bool { return strings.HasPrefix(k, prefix) && k > after })
}

func readPage(b *bbolt.Bucket, prefix, after string, limit int) (page []lock.Item) {
	c := b.Cursor()
	k, v := c.Seek([]byte(max(prefix, after)))
	if k != nil && string(k) == after {
		k, v = c.Next()
	}
	for size := 0; bytes.HasPrefix(k, []byte(prefix)) && k != nil; k, v = c.Next() {
		if len(page) == limit || size >= pageBytes {
			break
		}
		page = append(page, decode(k, v))
		size += len(v)
	}
	return page
}

func (s *Store) view(read func(b *bbolt.Bucket)) error {
	err := s.db.View(func(tx *bbolt.Tx) error {
		read(tx.Bucket(items))
		return nil
	})
	if errors.Is(err, bolterrors.ErrDatabaseNotOpen) {
		return ErrClosed
	}
	return err
}

// settled returns once everything that a snapshot, taken before, showed of some
// keys is durable. A commit is in flight from before bbolt shows it until it is
// durable or has failed, so looking after the snapshot is not too late.
func (s *Store) settled(ctx context.Context, touches func(key string) bool) error {
	s.mu.Lock()
	f := s.flight
	s.mu.Unlock()
	if f != nil && f.touches(touches) {
		select {
		case <-f.landed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	s.mu.Lock()
	unsettled := s.unsettled
	s.mu.Unlock()
	if !unsettled {
		return nil
	}
	if _, err := s.do(ctx, &write{}); err != nil {
		// Not %w: of a read nothing is unknown, it just was not answered.
		return fmt.Errorf("settle the store after an error: %v", err) //nolint:errorlint // must not unwrap to ErrUnknown
	}
	return nil
}

func (f *flight) touches(touches func(key string) bool) bool {
	for key := range f.keys {
		if touches(key) {
			return true
		}
	}
	return false
}
