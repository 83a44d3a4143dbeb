// Package memobj is object storage in memory: first-class in tests, gone with its
// process. It is held to the same suite as the others.
package memobj

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/txcoord/txcoord/tables/objstore"
)

// Store is a bucket in memory. Its zero value is empty and usable.
type Store struct {
	mu      sync.RWMutex
	objects map[string]object
	puts    uint64
}

// object is what a key holds. Its bytes are never written again, so they are
// shared with nobody and need no lock.
type object struct {
	data []byte
	info objstore.Info
}

var _ objstore.Conditional = (*Store)(nil)

// New makes an empty store.
func New() *Store { return &Store{} }

// Get reads an object, or a range of it.
func (s *Store) Get(ctx context.Context, key string, r objstore.Range) ([]byte, objstore.Info, error) {
	o, err := s.find(ctx, key)
	if err != nil {
		return nil, objstore.Info{}, fmt.Errorf("get %s: %w", key, err)
	}
	from, length, err := r.Clip(o.info.Size)
	if err != nil {
		return nil, objstore.Info{}, fmt.Errorf("get %s: %w", key, err)
	}
	return bytes.Clone(o.data[from : from+length]), o.info, nil
}

// Stat is Get without the bytes.
func (s *Store) Stat(ctx context.Context, key string) (objstore.Info, error) {
	o, err := s.find(ctx, key)
	if err != nil {
		return objstore.Info{}, fmt.Errorf("stat %s: %w", key, err)
	}
	return o.info, nil
}

func (s *Store) find(ctx context.Context, key string) (object, error) {
	if err := check(ctx, key); err != nil {
		return object{}, err
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	o, ok := s.objects[key]
	if !ok {
		return object{}, objstore.ErrNotFound
	}
	return o, nil
}

func check(ctx context.Context, key string) error {
	if err := objstore.CheckKey(key); err != nil {
		return err
	}
	return ctx.Err()
}

// PutIfAbsent writes the object unless the key holds one.
func (s *Store) PutIfAbsent(ctx context.Context, key string, data []byte) error {
	_, err := s.PutIf(ctx, key, data, objstore.IfAbsent())
	return err
}

// Put writes the object, whether or not the key holds one.
func (s *Store) Put(ctx context.Context, key string, data []byte) error {
	_, err := s.PutIf(ctx, key, data, objstore.Always())
	return err
}

// PutIf implements objstore.Conditional.
func (s *Store) PutIf(ctx context.Context, key string, data []byte, c objstore.Condition) (etag string, err error) {
	if err := check(ctx, key); err != nil {
		return "", fmt.Errorf("put %s: %w", key, err)
	}
	data = append([]byte{}, data...)
	s.mu.Lock()
	defer s.mu.Unlock()
	held, ok := s.objects[key]
	if want, conditional := c.ETag(); ok && c.IsAbsent() || conditional && (!ok || held.info.ETag != want) {
		return "", fmt.Errorf("put %s: %w", key, c.Refusal())
	}
	if s.objects == nil {
		s.objects = make(map[string]object)
	}
	s.puts++
	etag = strconv.FormatUint(s.puts, 10)
	s.objects[key] = object{data, objstore.Info{Key: key, Size: int64(len(data)), ETag: etag, Modified: time.Now()}}
	return etag, nil
}

// Delete removes the object; a missing one is no error.
func (s *Store) Delete(ctx context.Context, key string) error {
	if err := check(ctx, key); err != nil {
		return fmt.Errorf("delete %s: %w", key, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.objects, key)
	return nil
}

// List yields what there was when the iteration began.
func (s *Store) List(ctx context.Context, o objstore.ListOptions) iter.Seq2[objstore.Entry, error] {
	return func(yield func(objstore.Entry, error) bool) {
		err := objstore.CheckPrefix(o.Prefix)
		if err == nil {
			err = s.list(ctx, o, yield)
		}
		if err != nil {
			yield(objstore.Entry{}, fmt.Errorf("list %s: %w", o.Prefix, err))
		}
	}
}

func (s *Store) list(ctx context.Context, o objstore.ListOptions, yield func(objstore.Entry, error) bool) error {
	folder := ""
	for _, info := range s.infos(o) {
		if err := ctx.Err(); err != nil {
			return err
		}
		entry := fold(o, info)
		if entry.Prefix != "" && entry.Prefix == folder {
			continue
		}
		folder = entry.Prefix
		if !yield(entry, nil) {
			return nil
		}
	}
	return ctx.Err()
}

// infos is everything a listing is about, in order.
func (s *Store) infos(o objstore.ListOptions) []objstore.Info {
	s.mu.RLock()
	defer s.mu.RUnlock()
	var infos []objstore.Info
	for key, object := range s.objects {
		if strings.HasPrefix(key, o.Prefix) && key > o.StartAfter {
			infos = append(infos, object.info)
		}
	}
	slices.SortFunc(infos, func(a, b objstore.Info) int { return cmp.Compare(a.Key, b.Key) })
	return infos
}

// fold turns an object into the line of the listing that stands for it.
func fold(o objstore.ListOptions, info objstore.Info) objstore.Entry {
	if o.Delimiter {
		if i := strings.IndexByte(info.Key[len(o.Prefix):], '/'); i >= 0 {
			return objstore.Entry{Prefix: info.Key[:len(o.Prefix)+i+1]}
		}
	}
	return objstore.Entry{Info: info}
}
