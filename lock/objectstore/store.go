package objectstore

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/txcoord/txcoord/lock"
	"github.com/txcoord/txcoord/tables/objstore"
)

// ErrClosed: the store was closed. Nothing was carried out.
var ErrClosed = errors.New("store is closed")

// Config says where the journal is.
type Config struct {
	// Objects is the bucket. Required; closed by whoever opened it.
	Objects objstore.Conditional
	// Prefix is the folder of the journal, which nobody else uses.
	Prefix string
	// MaxValue is the size of the largest value; default 1 MiB. A larger entry takes
	// longer to put, and the next one waits for it.
	MaxValue int
	// RequestTimeout bounds each operation; default 10 s. A put that takes longer is
	// lock.ErrUnknown.
	RequestTimeout time.Duration
	// Parallel is how many values a scan reads at once; default 16.
	Parallel int
}

// Store is a folder of objects.
type Store struct {
	cfg    Config
	root   string // of the items, with a slash at its end
	closed atomic.Bool
	// whole: an ETag that looks like an MD5 and is not that of its content came with the
	// same content twice. So ETags are something else here.
	whole atomic.Bool
}

var (
	_ lock.Store = (*Store)(nil)
	_ lock.Sized = (*Store)(nil)
)

const (
	itemFolder = "items/"
	layoutName = "layout.json"
	layout     = `{"format":1}`
)

// Open opens the journal's folder, and makes it where there is none. It does not see
// that the bucket honours conditions: lock.Probe does.
func Open(ctx context.Context, cfg Config) (*Store, error) {
	if cfg.MaxValue == 0 {
		cfg.MaxValue = 1 << 20
	}
	if cfg.RequestTimeout == 0 {
		cfg.RequestTimeout = 10 * time.Second
	}
	if cfg.Parallel == 0 {
		cfg.Parallel = 16
	}
	cfg.Prefix = strings.Trim(cfg.Prefix, "/")
	if cfg.Objects == nil || cfg.MaxValue < 0 || cfg.RequestTimeout < 0 || cfg.Parallel < 0 {
		return nil, lock.Mark(lock.ErrMisconfigured, errors.New("open object store journal: Objects is required, and sizes and times are not below 0"))
	}
	folder := ""
	if cfg.Prefix != "" {
		folder = cfg.Prefix + "/"
	}
	s := &Store{cfg: cfg, root: folder + itemFolder}
	if err := s.checkLayout(ctx, folder+layoutName); err != nil {
		return nil, fmt.Errorf("open object store journal: %w", err)
	}
	return s, nil
}

// checkLayout reads what the first client has noted, or is the first.
func (s *Store) checkLayout(ctx context.Context, key string) error {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.RequestTimeout)
	defer cancel()
	for {
		held, _, err := s.cfg.Objects.Get(ctx, key, objstore.Range{})
		switch {
		case err == nil && string(held) == layout:
			return nil
		case err == nil:
			return lock.Mark(lock.ErrUnfit, fmt.Errorf("%s holds %.60q, and this build knows %s; use the build that made it, or a newer one", key, held, layout))
		case !errors.Is(err, objstore.ErrNotFound):
			return err
		}
		err = s.cfg.Objects.PutIfAbsent(ctx, key, []byte(layout))
		if err != nil && !errors.Is(err, objstore.ErrExists) && !errors.Is(err, objstore.ErrUnknown) {
			return err
		}
	}
}

// MaxValue implements lock.Sized.
func (s *Store) MaxValue() int { return s.cfg.MaxValue }

// Close ends the use of the store. Later operations answer ErrClosed.
func (s *Store) Close() error {
	s.closed.Store(true)
	return nil
}

// begin bounds an operation, or says why there is none.
func (s *Store) begin(ctx context.Context) (context.Context, context.CancelFunc, error) {
	if s.closed.Load() {
		return nil, nil, ErrClosed
	}
	if err := ctx.Err(); err != nil {
		return nil, nil, err
	}
	bounded, cancel := context.WithTimeoutCause(ctx, s.cfg.RequestTimeout, errSlow)
	return bounded, cancel, nil
}

var errSlow = errors.New("the object store took too long")

func (s *Store) key(key string) string { return s.root + escape(key) }

// The content of an object: mark, random number, value.
const (
	mark       = "txj1"
	headerSize = len(mark) + 26
)

func wrap(value []byte) []byte {
	return append(append(make([]byte, 0, headerSize+len(value)), mark+rand.Text()...), value...)
}

func unwrap(data []byte) ([]byte, error) {
	if len(data) < headerSize || !bytes.HasPrefix(data, []byte(mark)) {
		return nil, errors.New("the object is not txcoord's; give the journal a prefix of its own")
	}
	return data[headerSize:], nil
}

// Put writes a key under a condition and returns its new revision.
func (s *Store) Put(ctx context.Context, key string, value []byte, c lock.Condition) (lock.Revision, error) {
	bounded, cancel, err := s.begin(ctx)
	if err != nil {
		return "", fmt.Errorf("put %s: %w", key, err)
	}
	defer cancel()
	if len(value) > s.cfg.MaxValue {
		return "", fmt.Errorf("put %s: %d bytes, limit %d: %w", key, len(value), s.cfg.MaxValue, lock.ErrTooLarge)
	}
	condition := objstore.Always()
	if c.Absent() {
		condition = objstore.IfAbsent()
	} else if rev, ok := c.Revision(); ok {
		condition = objstore.IfETag(string(rev))
	}
	etag, err := s.cfg.Objects.PutIf(bounded, s.key(key), wrap(value), condition)
	if err != nil {
		return "", fmt.Errorf("put %s: %w", key, own(ctx, bounded, err))
	}
	return lock.Revision(etag), nil
}

// own turns an answer of objects into one of a lock.Store. The end of an operation's
// own time is not the end of its caller's.
func own(ctx, bounded context.Context, err error) error {
	if bounded.Err() != nil && ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded) {
		err = &overdue{err}
	}
	switch { // In this order: a refusal may say that it is because there is nothing.
	case errors.Is(err, objstore.ErrUnknown):
		return fmt.Errorf("%w: %w", lock.ErrUnknown, err)
	case errors.Is(err, objstore.ErrExists), errors.Is(err, objstore.ErrChanged):
		return fmt.Errorf("%w: %w", lock.ErrConflict, err)
	case errors.Is(err, objstore.ErrNotFound):
		return fmt.Errorf("%w: %w", lock.ErrNotFound, err)
	}
	return err
}

// overdue keeps what an error says about the outcome and hides that it was a deadline.
type overdue struct{ err error }

func (o *overdue) Error() string { return errSlow.Error() + ": " + o.err.Error() }

func (o *overdue) Is(target error) bool {
	return target == objstore.ErrNoAnswer || target != context.DeadlineExceeded && errors.Is(o.err, target)
}

// Get reads a key.
func (s *Store) Get(ctx context.Context, key string) (lock.Item, error) {
	bounded, cancel, err := s.begin(ctx)
	if err != nil {
		return lock.Item{}, fmt.Errorf("get %s: %w", key, err)
	}
	defer cancel()
	item, err := s.get(bounded, key)
	if err != nil {
		return lock.Item{}, fmt.Errorf("get %s: %w", key, own(ctx, bounded, err))
	}
	return item, nil
}

func (s *Store) get(ctx context.Context, key string) (lock.Item, error) {
	data, etag, err := s.object(ctx, s.key(key))
	if err != nil {
		return lock.Item{}, err
	}
	value, err := unwrap(data)
	return lock.Item{Key: key, Value: value, Revision: lock.Revision(etag)}, err
}

// pageSize is how many items a scan reads where it is not told.
const pageSize = 256

// Scan reads up to limit keys with the prefix that come after a key: the names by a
// listing, and then the values. A page ends early rather than outlive its time.
func (s *Store) Scan(ctx context.Context, prefix, after string, limit int) ([]lock.Item, error) {
	bounded, cancel, err := s.begin(ctx)
	if err != nil {
		return nil, fmt.Errorf("scan %s: %w", prefix, err)
	}
	defer cancel()
	if limit <= 0 || limit > pageSize {
		limit = pageSize
	}
	for {
		keys, err := s.list(bounded, prefix, after, limit)
		var items []lock.Item
		if err == nil {
			items, err = s.getAll(bounded, keys)
		}
		if err != nil {
			return nil, fmt.Errorf("scan %s: %w", prefix, own(ctx, bounded, err))
		}
		if len(items) > 0 || len(keys) == 0 {
			return items, nil
		}
		after = keys[len(keys)-1] // All of them were deleted meanwhile; an empty page would be the end.
	}
}

func (s *Store) list(ctx context.Context, prefix, after string, limit int) ([]string, error) {
	o := objstore.ListOptions{Prefix: s.key(prefix)}
	if after != "" {
		o.StartAfter = s.key(after)
	}
	var keys []string
	for e, err := range s.cfg.Objects.List(ctx, o) {
		if err != nil {
			return nil, err
		}
		key, err := unescape(strings.TrimPrefix(e.Key, s.root))
		if err != nil {
			return nil, err
		}
		if keys = append(keys, key); len(keys) == limit {
			break
		}
	}
	return keys, nil
}

// getAll reads keys, less those that are gone.
func (s *Store) getAll(ctx context.Context, keys []string) ([]lock.Item, error) {
	found := make([]lock.Item, len(keys))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(s.cfg.Parallel)
	for i, key := range keys {
		group.Go(func() error {
			item, err := s.get(ctx, key)
			if errors.Is(err, objstore.ErrNotFound) {
				return nil
			}
			found[i] = item
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	var items []lock.Item
	for _, item := range found {
		if item.Revision != "" {
			items = append(items, item)
		}
	}
	return items, nil
}

// Delete removes a key; a missing one is no error.
func (s *Store) Delete(ctx context.Context, key string) error {
	bounded, cancel, err := s.begin(ctx)
	if err != nil {
		return fmt.Errorf("delete %s: %w", key, err)
	}
	defer cancel()
	if err := s.cfg.Objects.Delete(bounded, s.key(key)); err != nil {
		return fmt.Errorf("delete %s: %w", key, own(ctx, bounded, err))
	}
	return nil
}
