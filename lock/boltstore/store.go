package boltstore

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"

	"github.com/txcoord/txcoord/lock"
)

// Config changes what Open does; its zero value is usable.
type Config struct {
	// MaxValue is the largest value in bytes; default 8 MiB.
	MaxValue int
	// LockWait is how long Open waits for a process that has the file open to let
	// go of it, as one does that is just being killed; default 250 ms.
	LockWait time.Duration
	// ReadOnly opens a file that is there and writes nothing into it, not even its own
	// pages; puts and deletes fail. Several may read one file at once, beside no writer.
	ReadOnly bool
}

var (
	// ErrInUse: another process, or another store in this one, has the file open.
	ErrInUse = errors.New("store file is in use")
	// ErrClosed: the store was closed. Nothing was carried out.
	ErrClosed = errors.New("store is closed")
)

// items is the bucket that holds everything: key → revision, 8 bytes, and value.
// Its sequence is the last revision given out. The number is that of the format.
var items = []byte("txcoord items 1")

// Store is an open file.
type Store struct {
	db       *bbolt.DB
	path     string
	file     os.FileInfo // of the open file
	maxValue int
	// update is db.Update, except where tests let it fail.
	update func(func(*bbolt.Tx) error) error

	mu      sync.Mutex
	waiting []*write
	// flight is the commit under way, nil between two.
	flight *flight
	// unsettled: a commit failed, so what the file says may be in memory only. The
	// next commit that succeeds settles it, and nothing is answered before.
	unsettled bool
	closed    bool
	// wake tells the committer that something waits, stopped that it has left.
	wake, stopped chan struct{}
}

var _ lock.Store = (*Store)(nil)

// Open opens a store file, which it makes if there is none, in a folder that exists.
func Open(path string, cfg Config) (*Store, error) {
	if cfg.MaxValue == 0 {
		cfg.MaxValue = 8 << 20
	}
	if cfg.LockWait == 0 {
		cfg.LockWait = 250 * time.Millisecond
	}
	if err := checkLength(path); err != nil {
		return nil, fmt.Errorf("open store: %w", err)
	}
	var file os.FileInfo
	o := options(cfg)
	o.OpenFile = func(path string, flag int, mode os.FileMode) (*os.File, error) {
		f, err := os.OpenFile(path, flag, mode)
		if err == nil {
			file, err = f.Stat()
		}
		return f, err
	}
	db, err := openDB(path, o)
	if err != nil {
		return nil, openError(path, err)
	}
	if err := prepare(db, path, cfg.ReadOnly); err != nil {
		return nil, errors.Join(fmt.Errorf("open store %s: %w", path, err), db.Close())
	}
	s := &Store{
		db: db, path: path, file: file, maxValue: cfg.MaxValue, update: db.Update,
		wake: make(chan struct{}, 1), stopped: make(chan struct{}),
	}
	go s.commitAll()
	return s, nil
}

// openDB turns what bbolt asserts about its pages into an error.
func openDB(path string, o *bbolt.Options) (db *bbolt.DB, err error) {
	defer func() {
		if bad := recover(); bad != nil {
			db, err = nil, fmt.Errorf("%w: %v", ErrDamaged, bad)
		}
	}()
	return bbolt.Open(path, 0o600, o)
}

// options: the list of free pages is not written with each commit but found again
// by Open, which reads the file's branch pages; the map is large enough that
// growing seldom has to wait for readers.
func options(cfg Config) *bbolt.Options {
	return &bbolt.Options{
		Timeout:         cfg.LockWait,
		NoFreelistSync:  true,
		FreelistType:    bbolt.FreelistMapType,
		InitialMmapSize: 64 << 20,
		ReadOnly:        cfg.ReadOnly,
		NoStatistics:    true,
	}
}

// openError names the file and the way out.
func openError(path string, err error) error {
	switch {
	case errors.Is(err, bolterrors.ErrTimeout):
		return fmt.Errorf("open store %s: %w: another process serves from it; stop that one, or give this one a file of its own", path, ErrInUse)
	case errors.Is(err, bolterrors.ErrInvalid), errors.Is(err, bolterrors.ErrVersionMismatch), errors.Is(err, bolterrors.ErrChecksum):
		return fmt.Errorf("open store %s: not a store file, or damaged: %w; name another file, or bring this one back from a copy", path, err)
	default:
		return fmt.Errorf("open store %s: %w", path, err)
	}
}

// prepare makes the bucket of a new file, and the file's name durable.
func prepare(db *bbolt.DB, path string, readOnly bool) error {
	known := false
	err := db.View(func(tx *bbolt.Tx) error {
		known = tx.Bucket(items) != nil
		return tx.ForEach(func(name []byte, _ *bbolt.Bucket) error {
			if !bytes.Equal(name, items) {
				return fmt.Errorf("holds %q, which this build does not know; name another file", name)
			}
			return nil
		})
	})
	if err != nil || known {
		return err
	}
	if readOnly {
		return lock.Mark(lock.ErrUnfit, errors.New("it is empty; name the store that the catalog is in"))
	}
	err = db.Update(func(tx *bbolt.Tx) error {
		_, err := tx.CreateBucket(items)
		return err
	})
	return errors.Join(err, syncFolder(filepath.Dir(path)))
}

func syncFolder(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// inPlace refuses to write to a file that was removed, renamed or replaced since it was
// opened: nobody would ever read it.
func (s *Store) inPlace() error {
	now, err := os.Stat(s.path)
	if err == nil && os.SameFile(now, s.file) {
		return nil
	}
	return fmt.Errorf("%w: put %s back as it was, and the server goes on; or stop the server", lock.ErrAway, s.path)
}

// encode makes what the bucket holds for a key; the revision is filled in by plan.
func encode(value []byte) []byte {
	return append(make([]byte, 8, 8+len(value)), value...)
}

// decode copies, since the bytes of a transaction end with it.
func decode(key, stored []byte) lock.Item {
	return lock.Item{Key: string(key), Value: append([]byte{}, stored[8:]...), Revision: revision(stored)}
}

// revision of what the bucket holds for a key.
func revision(stored []byte) lock.Revision {
	return lock.Revision(strconv.FormatUint(binary.BigEndian.Uint64(stored), 10))
}

// Close commits what waits and lets go of the file. Later operations answer
// ErrClosed.
func (s *Store) Close() error {
	s.mu.Lock()
	closed := s.closed
	s.closed = true
	s.mu.Unlock()
	if closed {
		return nil
	}
	close(s.wake)
	<-s.stopped
	if err := s.db.Close(); err != nil {
		return fmt.Errorf("close store %s: %w", s.path, err)
	}
	return nil
}

// check says why an operation cannot be carried out at all.
func check(ctx context.Context, key string) error {
	if key == "" {
		return errors.New("empty key")
	}
	if len(key) > bbolt.MaxKeySize {
		return fmt.Errorf("key of %d bytes, limit %d", len(key), bbolt.MaxKeySize)
	}
	return ctx.Err()
}
