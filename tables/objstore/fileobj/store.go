//go:build unix

package fileobj

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/txcoord/txcoord/tables/objstore"
)

// Config changes what New sets up; its zero value is usable.
type Config struct {
	// SettleWithin: an object that somebody else put this short a time ago may be
	// in memory only (most Delta writers never sync), or its writer may have died
	// before it was durable. It is synced before Get or Stat answer, so that nothing
	// durable is built on something that a power failure takes back. Default 1 min,
	// longer than kernels hold back dirty pages; negative turns it off. What is read
	// with objstore.Durable is not synced.
	SettleWithin time.Duration
	// Prune says whether a folder, given with a leading and a trailing slash, is
	// removed when a Delete leaves it empty. Default: never.
	Prune func(folder string) bool
	// NoLinks are names of folders below which nothing is read through a symbolic link
	// in place of a folder: not of theirs, nor of those above them up to the root. What
	// is asked for there is answered with objstore.ErrLinked. Elsewhere a link is read
	// through if it is relative and stays inside the root. Nothing is ever written or
	// deleted through one.
	NoLinks []string
	// Makes says whether a folder that is missing may be made to put an object, both
	// given with a leading slash; the root is "/". If not, the put is refused with
	// objstore.ErrNoFolder. Default: always.
	Makes func(folder, key string) bool
	// Later: the root need not be there yet.
	Later bool
}

// Store is a folder as an objstore.Store. Safe for concurrent use by many
// goroutines and processes.
type Store struct {
	root     string
	cfg      Config
	seen     atomic.Bool // the root was there
	folders  memory[uint64]
	settled  memory[uint64]
	contents memory[content]
	sys      system
}

// system is what a put asks of the kernel, and what tests let fail.
type system struct {
	newDraft openDraft
	sync     func(f *os.File) error
	link     landDraft
	rename   landDraft
}

var _ objstore.Guarded = (*Store)(nil)

// New roots a store at a folder; "/" makes absolute paths the keys. The root itself, and
// what lies above it, may be links: they are the operator's.
func New(root string, cfg Config) (*Store, error) {
	abs, err := filepath.Abs(root)
	if err != nil {
		return nil, fmt.Errorf("object folder %s: %w", root, err)
	}
	info, err := os.Stat(abs)
	if err != nil && !(cfg.Later && absent(err)) {
		return nil, fmt.Errorf("object folder: %w", err)
	}
	if err == nil && !info.IsDir() {
		return nil, fmt.Errorf("object folder %s is not a folder", abs)
	}
	if cfg.SettleWithin == 0 {
		cfg.SettleWithin = time.Minute
	}
	s := &Store{root: abs, cfg: cfg, sys: system{
		newDraft: newDraft, sync: (*os.File).Sync, link: (*draft).link, rename: (*draft).rename,
	}}
	s.seen.Store(err == nil)
	return s, nil
}

// Expect says that the root has been there: if it is not, it was moved away, and is
// neither empty nor to be made.
func (s *Store) Expect() { s.seen.Store(true) }

// check refuses keys that no object has.
func (s *Store) check(key string) error {
	if err := objstore.CheckKey(key); err != nil {
		return err
	}
	if isDraft(path.Base(key)) {
		return fmt.Errorf("key %q: the name is reserved for drafts", key)
	}
	return nil
}

// Get reads an object, or a range of it.
func (s *Store) Get(ctx context.Context, key string, r objstore.Range) ([]byte, objstore.Info, error) {
	f, info, err := s.open(ctx, key)
	if err != nil {
		return nil, objstore.Info{}, fmt.Errorf("get %s: %w", key, err)
	}
	defer f.Close() // Nothing was written: there is nothing to learn from it.
	from, length, err := r.Clip(info.Size)
	if err != nil {
		return nil, objstore.Info{}, fmt.Errorf("get %s: %w", key, err)
	}
	data := make([]byte, length)
	if _, err := io.ReadFull(io.NewSectionReader(f, from, length), data); err != nil {
		return nil, objstore.Info{}, fmt.Errorf("get %s: %w", key, err)
	}
	return data, info, nil
}

// Stat is Get without the bytes.
func (s *Store) Stat(ctx context.Context, key string) (objstore.Info, error) {
	f, info, err := s.open(ctx, key)
	if err != nil {
		return objstore.Info{}, fmt.Errorf("stat %s: %w", key, err)
	}
	return info, f.Close()
}

// open opens an object and settles it. The file stays whole whatever happens to
// its name, since objects are replaced and never rewritten.
func (s *Store) open(ctx context.Context, key string) (*os.File, objstore.Info, error) {
	if err := s.check(key); err != nil {
		return nil, objstore.Info{}, err
	}
	if err := ctx.Err(); err != nil {
		return nil, objstore.Info{}, err
	}
	in, err := s.look(path.Dir("/" + key)[1:])
	if absent(err) {
		return nil, objstore.Info{}, objstore.ErrNotFound
	}
	if err != nil {
		return nil, objstore.Info{}, err
	}
	defer in.close()
	return s.openIn(in, key, objstore.IsDurable(ctx))
}

// openIn opens the object of a key in its folder, and settles one that is not known to be
// durable.
func (s *Store) openIn(in *folder, key string, durable bool) (*os.File, objstore.Info, error) {
	f, err := s.openObject(in, key)
	if absent(err) {
		return nil, objstore.Info{}, objstore.ErrNotFound
	}
	if err != nil {
		return nil, objstore.Info{}, err
	}
	st, err := fstat(f)
	switch {
	case err == nil && !st.file():
		err = objstore.ErrNotFound
	case err == nil && !durable:
		err = s.settle(f, in, key, st)
	}
	if err != nil {
		return nil, objstore.Info{}, errors.Join(err, f.Close())
	}
	return f, describe(key, st), nil
}

// openObject opens without waiting, because the name may belong to a pipe. An object
// that is itself a link is read if that stays inside the store's own folder.
func (s *Store) openObject(in *folder, key string) (*os.File, error) {
	const how = os.O_RDONLY | syscall.O_NONBLOCK
	f, err := in.open(path.Base(key), how, 0)
	if !errors.Is(err, syscall.ELOOP) && !errors.Is(err, syscall.EMLINK) { // which BSD says
		return f, err
	}
	root, err := s.jail()
	if err != nil {
		return nil, err
	}
	defer func() { _ = root.Close() }()
	f, err = root.OpenFile(path.Join(in.key, path.Base(key)), how, 0)
	return f, unescaped(key, err)
}

// Delete removes the object and makes that durable. Of one that is a link, the link.
func (s *Store) Delete(ctx context.Context, key string) error {
	if err := s.check(key); err != nil {
		return fmt.Errorf("delete: %w", err)
	}
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("delete %s: %w", key, err)
	}
	if err := s.remove(key); err != nil {
		return fmt.Errorf("delete %s: %w", key, err)
	}
	return nil
}

func (s *Store) remove(key string) error {
	dir, name := path.Split(key)
	in, err := s.enter(dir)
	if absent(err) {
		return nil
	}
	if err != nil {
		return err
	}
	defer in.close()
	err = in.unlink(name)
	if absent(err) || in.isFolder(name) {
		return nil
	}
	if err != nil {
		return err
	}
	s.settled.forget(key)
	s.contents.forget(key)
	if err := s.prune(in); err != nil && !absent(err) {
		return fmt.Errorf("%w: sync its folder: %w", objstore.ErrUnknown, err)
	}
	return nil
}

// absent reports whether an error says that a path leads nowhere.
func absent(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR)
}

func (f *folder) isFolder(name string) bool {
	st, err := f.lstat(name)
	return err == nil && st.folder()
}

// describe makes the ETag of time, size and inode. A put stamps its file with a
// clock of nanoseconds, since that of file systems may stand still between two puts.
func describe(key string, st stat) objstore.Info {
	return objstore.Info{Key: key, Size: st.size, ETag: st.etag(), Modified: st.modified}
}

func (s stat) etag() string {
	return strconv.FormatInt(s.modified.UnixNano(), 36) + "-" + strconv.FormatInt(s.size, 36) + "-" + strconv.FormatUint(s.id, 36)
}

func inode(st fs.FileInfo) uint64 {
	if sys, ok := st.Sys().(*syscall.Stat_t); ok {
		return uint64(sys.Ino)
	}
	return 0
}
