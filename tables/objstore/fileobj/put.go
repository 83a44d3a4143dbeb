//go:build unix

package fileobj

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/txcoord/txcoord/tables/objstore"
)

// PutIfAbsent writes the object unless the key holds one, and whoever holds it has
// made it durable by then, or we have.
func (s *Store) PutIfAbsent(ctx context.Context, key string, data []byte) error {
	path, err := s.path(key)
	if err != nil {
		return fmt.Errorf("put: %w", err)
	}
	// A look spares the loser of an old race its writes; link(2) decides.
	err = s.taken(ctx, key, path)
	if errors.Is(err, objstore.ErrNotFound) {
		err = s.put(ctx, path, data, s.sys.newDraft, s.sys.link)
		if errors.Is(err, fs.ErrExist) {
			err = s.refused(ctx, key, path)
		}
	}
	if err != nil {
		return fmt.Errorf("put %s: %w", key, err)
	}
	return nil
}

// Put writes the object, whether or not the key holds one.
func (s *Store) Put(ctx context.Context, key string, data []byte) error {
	path, err := s.path(key)
	if err != nil {
		return fmt.Errorf("put: %w", err)
	}
	if err := s.put(ctx, path, data, newNamedDraft, s.sys.rename); err != nil {
		return fmt.Errorf("put %s: %w", key, err)
	}
	return nil
}

// taken says what a name is taken by: an object, which is settled before the
// refusal is answered, something else, or nothing.
func (s *Store) taken(ctx context.Context, key, path string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if _, err := os.Lstat(path); absent(err) {
		return objstore.ErrNotFound
	}
	st, err := os.Stat(path)
	if err != nil {
		return err
	}
	if !st.Mode().IsRegular() {
		return fmt.Errorf("%s is not a file", path)
	}
	if _, err := s.Stat(ctx, key); err != nil {
		return err
	}
	return objstore.ErrExists
}

// refused is taken for a name that link(2) found taken: if it is free again by
// now, the refusal stands.
func (s *Store) refused(ctx context.Context, key, path string) error {
	if err := s.taken(ctx, key, path); !errors.Is(err, objstore.ErrNotFound) {
		return err
	}
	return objstore.ErrExists
}

// put writes a draft and lands it. A folder that vanishes underneath (see
// Config.Prune) is made again: the kernel's "no such folder" is a refusal for
// certain, so this repeats nothing that may have been done.
func (s *Store) put(ctx context.Context, path string, data []byte, open openDraft, land landDraft) error {
	const tries = 5
	for try := 1; ; try++ {
		err := s.putOnce(ctx, path, data, open, land)
		gone := errors.Is(err, fs.ErrNotExist) && !errors.Is(err, objstore.ErrUnknown)
		if !gone || try == tries {
			return err
		}
		s.forgetFolders(filepath.Dir(path))
	}
}

type (
	openDraft func(dir string) (*draft, error)
	landDraft func(d *draft, path string) error
)

func (s *Store) putOnce(ctx context.Context, path string, data []byte, open openDraft, land landDraft) error {
	dir := filepath.Dir(path)
	if err := s.ensureFolder(dir); err != nil {
		return err
	}
	d, err := open(dir)
	if err != nil {
		return err
	}
	defer d.discard()
	id, err := d.write(data, s.sys.sync)
	if err != nil {
		return err
	}
	// Until here nothing happened; from here a context is of no use any more.
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := land(d, path); err != nil {
		return landing(err)
	}
	// The window: everybody sees the object, and a power failure takes it back.
	// Whoever builds on it settles it first; we answer after the sync.
	if err := s.syncFolder(dir); err != nil {
		return fmt.Errorf("%w: sync its folder: %w", objstore.ErrUnknown, err)
	}
	s.settled.remember(path, id)
	return nil
}

// landing tells the errors by which a kernel certainly refuses a name from those
// after which it may have taken it, which network file systems have.
func landing(err error) error {
	for _, refusal := range []syscall.Errno{
		syscall.EEXIST, syscall.ENOENT, syscall.ENOTDIR, syscall.EISDIR, syscall.ENOTEMPTY, syscall.EACCES,
		syscall.ENOSPC, syscall.EDQUOT, syscall.EROFS, syscall.ENAMETOOLONG, syscall.ELOOP, syscall.EXDEV,
		syscall.EPERM, syscall.EMLINK, syscall.EOPNOTSUPP, syscall.ENOSYS,
	} {
		if errors.Is(err, refusal) {
			return err
		}
	}
	return fmt.Errorf("%w: %w", objstore.ErrUnknown, err)
}
