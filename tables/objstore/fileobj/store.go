//go:build unix

package fileobj

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
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
	// longer than kernels hold back dirty pages; negative turns it off.
	SettleWithin time.Duration
	// Prune says whether a folder, given with a leading and a trailing slash, is
	// removed when a Delete leaves it empty. Default: never.
	Prune func(folder string) bool
	// NoLinks are names of folders that have to be folders themselves: what lies below
	// one of them that is a symbolic link is answered with objstore.ErrLinked.
	NoLinks []string
}

// Store is a folder as an objstore.Store. Safe for concurrent use by many
// goroutines and processes.
type Store struct {
	root    string
	cfg     Config
	folders memory
	settled memory
	sys     system
}

// system is what a put asks of the kernel, and what tests let fail.
type system struct {
	newDraft func(dir string) (*draft, error)
	sync     func(f *os.File) error
	link     func(d *draft, path string) error
	rename   func(d *draft, path string) error
}

var _ objstore.Store = (*Store)(nil)

// New roots a store at a folder that exists; "/" makes absolute paths the keys.
func New(root string, cfg Config) (*Store, error) {
	abs, err := filepath.Abs(root)
	if err != nil {
		return nil, fmt.Errorf("object folder %s: %w", root, err)
	}
	info, err := os.Stat(abs)
	if err != nil {
		return nil, fmt.Errorf("object folder: %w", err)
	}
	if !info.IsDir() {
		return nil, fmt.Errorf("object folder %s is not a folder", abs)
	}
	if cfg.SettleWithin == 0 {
		cfg.SettleWithin = time.Minute
	}
	return &Store{root: abs, cfg: cfg, sys: system{
		newDraft: newDraft, sync: (*os.File).Sync, link: (*draft).link, rename: (*draft).rename,
	}}, nil
}

// path is where the object of a key lies.
func (s *Store) path(key string) (string, error) {
	if err := objstore.CheckKey(key); err != nil {
		return "", err
	}
	if isDraft(filepath.Base(key)) {
		return "", fmt.Errorf("key %q: the name is reserved for drafts", key)
	}
	return filepath.Join(s.root, key), s.unlinked(key)
}

// unlinked refuses a key below a folder that may be no link, and is one now.
func (s *Store) unlinked(key string) error {
	for _, name := range s.cfg.NoLinks {
		at := strings.Index("/"+key, "/"+name+"/")
		if at < 0 {
			continue
		}
		folder := filepath.Join(s.root, key[:at+len(name)])
		if info, err := os.Lstat(folder); err == nil && info.Mode()&fs.ModeSymlink != 0 {
			return fmt.Errorf("%s: %w", folder, objstore.ErrLinked)
		}
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
	path, err := s.path(key)
	if err != nil {
		return nil, objstore.Info{}, err
	}
	if err := ctx.Err(); err != nil {
		return nil, objstore.Info{}, err
	}
	f, err := openObject(path)
	if absent(err) {
		return nil, objstore.Info{}, objstore.ErrNotFound
	}
	if err != nil {
		return nil, objstore.Info{}, err
	}
	st, err := f.Stat()
	switch {
	case err == nil && !st.Mode().IsRegular():
		err = objstore.ErrNotFound
	case err == nil:
		err = s.settle(f, path, st)
	}
	if err != nil {
		return nil, objstore.Info{}, errors.Join(err, f.Close())
	}
	return f, describe(key, st), nil
}

// openObject opens without waiting, because the name may belong to a pipe.
func openObject(path string) (*os.File, error) {
	return os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
}

// Delete removes the object and makes that durable.
func (s *Store) Delete(ctx context.Context, key string) error {
	path, err := s.path(key)
	if err != nil {
		return fmt.Errorf("delete: %w", err)
	}
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("delete %s: %w", key, err)
	}
	// Not os.Remove, which would take an empty folder of that name too.
	err = syscall.Unlink(path)
	if absent(err) || isFolder(path) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("delete %s: %w", key, err)
	}
	s.settled.forget(path)
	if err := s.syncFolder(s.prune(filepath.Dir(path))); err != nil && !absent(err) {
		return fmt.Errorf("delete %s: %w: sync its folder: %w", key, objstore.ErrUnknown, err)
	}
	return nil
}

// absent reports whether an error says that a path leads nowhere.
func absent(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR)
}

func isFolder(path string) bool {
	info, err := os.Lstat(path)
	return err == nil && info.IsDir()
}

// describe makes the ETag of time, size and inode. A put stamps its file with a
// clock of nanoseconds, since that of file systems may stand still between two puts.
func describe(key string, st fs.FileInfo) objstore.Info {
	etag := strconv.FormatInt(st.ModTime().UnixNano(), 36) + "-" + strconv.FormatInt(st.Size(), 36) +
		"-" + strconv.FormatUint(inode(st), 36)
	return objstore.Info{Key: key, Size: st.Size(), ETag: etag, Modified: st.ModTime()}
}

func inode(st fs.FileInfo) uint64 {
	if sys, ok := st.Sys().(*syscall.Stat_t); ok {
		return uint64(sys.Ino)
	}
	return 0
}
