package remote

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"

	"github.com/txcoord/txcoord/tables/objstore"
)

// Store is a bucket behind a driver.
type Store struct {
	driver Driver
	cfg    Config
	slots  chan struct{} // one for each request in flight
}

var _ objstore.Conditional = (*Store)(nil)

// New makes a store of a driver.
func New(d Driver, cfg Config) *Store {
	cfg = cfg.WithDefaults()
	return &Store{driver: d, cfg: cfg, slots: make(chan struct{}, cfg.MaxRequests)}
}

// Get reads an object, or a range of it.
func (s *Store) Get(ctx context.Context, key string, r objstore.Range) ([]byte, objstore.Info, error) {
	data, info, err := s.get(ctx, key, r)
	if err != nil {
		return nil, objstore.Info{}, fmt.Errorf("get %s: %w", s.driver.Name(key), err)
	}
	return data, info, nil
}

func (s *Store) get(ctx context.Context, key string, r objstore.Range) (data []byte, info objstore.Info, err error) {
	if err := objstore.CheckKey(key); err != nil {
		return nil, info, err
	}
	if _, _, err := r.Clip(0); err != nil {
		return nil, info, err
	}
	verdict, err := s.read(ctx, func(ctx context.Context, moved func()) (err error) {
		data, info, err = s.getOnce(ctx, key, r, moved)
		return err
	})
	if verdict == BadRange {
		info, _, err = s.head(ctx, key)
		return []byte{}, info, err
	}
	return data, info, err
}

func (s *Store) getOnce(ctx context.Context, key string, r objstore.Range, moved func()) ([]byte, objstore.Info, error) {
	o, err := s.driver.Get(ctx, key, r)
	if err != nil {
		return nil, objstore.Info{}, err
	}
	defer o.Body.Close()
	from, length, err := r.Clip(o.Info.Size)
	if err != nil {
		return nil, objstore.Info{}, err
	}
	if from < o.From || from+length > o.From+o.Length {
		return nil, objstore.Info{}, fmt.Errorf("asked for %d bytes from %d, the answer has %d from %d", length, from, o.Length, o.From)
	}
	if _, err := io.CopyN(io.Discard, &body{o.Body, moved}, from-o.From); err != nil {
		return nil, objstore.Info{}, fmt.Errorf("%w: %w", errCutOff, err)
	}
	data := make([]byte, length)
	if _, err := io.ReadFull(&body{o.Body, moved}, data); err != nil {
		return nil, objstore.Info{}, fmt.Errorf("%w: %w", errCutOff, err)
	}
	return data, o.Info, nil
}

// body notes that bytes move.
type body struct {
	io.Reader
	moved func()
}

// Read implements io.Reader.
func (b *body) Read(p []byte) (int, error) {
	n, err := b.Reader.Read(p)
	b.moved()
	return n, err
}

// Stat is Get without the bytes.
func (s *Store) Stat(ctx context.Context, key string) (objstore.Info, error) {
	err := objstore.CheckKey(key)
	var info objstore.Info
	if err == nil {
		info, _, err = s.head(ctx, key)
	}
	if err != nil {
		return objstore.Info{}, fmt.Errorf("stat %s: %w", s.driver.Name(key), err)
	}
	return info, nil
}

func (s *Store) head(ctx context.Context, key string) (info objstore.Info, token string, err error) {
	_, err = s.read(ctx, func(ctx context.Context, _ func()) (err error) {
		info, token, err = s.driver.Head(ctx, key)
		return err
	})
	return info, token, err
}

// Delete removes the object; a missing one is no error. It is sent once: repeated, it
// might meet an object that was put in between.
func (s *Store) Delete(ctx context.Context, key string) error {
	err := objstore.CheckKey(key)
	if err == nil {
		var verdict Verdict
		verdict, err = s.once(ctx, func(ctx context.Context, _ func()) error { return s.driver.Delete(ctx, key) })
		switch {
		case err == nil, verdict == NotFound:
			return nil
		case verdict == Unknown:
			err = fmt.Errorf("%w: %w", objstore.ErrUnknown, err)
		}
	}
	return fmt.Errorf("delete %s: %w", s.driver.Name(key), err)
}

// List yields the entries page by page, each as it was when its page was asked for.
func (s *Store) List(ctx context.Context, o objstore.ListOptions) iter.Seq2[objstore.Entry, error] {
	return func(yield func(objstore.Entry, error) bool) {
		err := objstore.CheckPrefix(o.Prefix)
		if err == nil {
			err = s.list(ctx, o, yield)
		}
		if err != nil && !errors.Is(err, errLeft) {
			yield(objstore.Entry{}, fmt.Errorf("list %s: %w", s.driver.Name(o.Prefix), err))
		}
	}
}

// errLeft: whoever reads the listing wants no more of it.
var errLeft = errors.New("left")

func (s *Store) list(ctx context.Context, o objstore.ListOptions, yield func(objstore.Entry, error) bool) error {
	for page := ""; ; {
		var entries []objstore.Entry
		var next string
		_, err := s.read(ctx, func(ctx context.Context, _ func()) (err error) {
			entries, next, err = s.driver.List(ctx, o, page)
			return err
		})
		if err != nil {
			return err
		}
		for _, e := range entries {
			if err := ctx.Err(); err != nil {
				return err
			}
			if !yield(e, nil) {
				return errLeft
			}
		}
		if page = next; page == "" {
			return ctx.Err()
		}
	}
}
