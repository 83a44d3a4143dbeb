//go:build unix

package fileobj

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"syscall"

	"github.com/txcoord/txcoord/tables/objstore"
)

// PutIfAbsent writes the object unless the key holds one, and whoever holds it has
// made it durable by then, or we have.
func (s *Store) PutIfAbsent(ctx context.Context, key string, data []byte) error {
	return s.putNew(ctx, key, data, nil)
}

// PutBeside implements objstore.Guarded. All of it is done in one folder that is held
// open: one that takes its name meanwhile is not touched.
func (s *Store) PutBeside(ctx context.Context, key string, data []byte, n objstore.Neighbour) error {
	return s.putNew(ctx, key, data, &n)
}

func (s *Store) putNew(ctx context.Context, key string, data []byte, n *objstore.Neighbour) error {
	err := s.check(key)
	if err == nil {
		err = s.put(ctx, put{key: key, data: data, absent: true, beside: n, open: s.sys.newDraft, land: s.sys.link})
	}
	if err != nil {
		return fmt.Errorf("put %s: %w", key, err)
	}
	return nil
}

// Put writes the object, whether or not the key holds one.
func (s *Store) Put(ctx context.Context, key string, data []byte) error {
	err := s.check(key)
	if err == nil {
		err = s.put(ctx, put{key: key, data: data, open: newNamedDraft, land: s.sys.rename})
	}
	if err != nil {
		return fmt.Errorf("put %s: %w", key, err)
	}
	return nil
}

// taken says what a name is taken by: an object, which is settled before the
// refusal is answered, something else, or nothing.
func (s *Store) taken(in *folder, key string) error {
	st, err := in.lstat(path.Base(key))
	switch {
	case absent(err):
		return nil
	case err != nil:
		return err
	case st.file() || st.link():
		o, _, err := s.openIn(in, key, false)
		if err == nil {
			return errors.Join(objstore.ErrExists, o.Close())
		}
		if !errors.Is(err, objstore.ErrNotFound) || st.file() {
			return err
		}
	}
	return fmt.Errorf("%s is not a file", key)
}

// refused is taken for a name that link(2) found taken: if it is free again by
// now, the refusal stands.
func (s *Store) refused(in *folder, key string) error {
	err := s.taken(in, key)
	if err == nil || errors.Is(err, objstore.ErrNotFound) {
		return objstore.ErrExists
	}
	return err
}

// put is one put: what goes where, and how it gets there.
type put struct {
	key    string
	data   []byte
	absent bool
	beside *objstore.Neighbour
	open   openDraft
	land   landDraft
}

type (
	openDraft func(in *folder) (*draft, error)
	landDraft func(d *draft, name string) error
)

// put writes a draft and lands it. A folder that vanishes underneath (see
// Config.Prune) is made again: the kernel's "no such folder" is a refusal for
// certain, so this repeats nothing that may have been done.
func (s *Store) put(ctx context.Context, p put) error {
	const tries = 5
	for try := 1; ; try++ {
		err := s.putOnce(ctx, p)
		gone := errors.Is(err, fs.ErrNotExist) && !errors.Is(err, objstore.ErrUnknown)
		if !gone || try == tries {
			return err
		}
		s.forgetFolders(path.Dir(p.key))
	}
}

func (s *Store) putOnce(ctx context.Context, p put) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	dir, name := path.Split(p.key)
	in, err := s.found(dir, p.key)
	if err != nil {
		return err
	}
	defer in.close()
	// A look spares the loser of an old race its writes; link(2) decides.
	if p.absent {
		if err := s.taken(in, p.key); err != nil {
			return err
		}
	}
	d, err := p.open(in)
	if err != nil {
		return err
	}
	defer d.discard()
	st, err := d.write(p.data, s.sys.sync)
	if err != nil {
		return err
	}
	if p.beside != nil {
		if err := s.neighbour(in, *p.beside); err != nil {
			return err
		}
	}
	// Until here nothing happened; from here a context is of no use any more.
	if err := ctx.Err(); err != nil {
		return err
	}
	err = p.land(d, name)
	if p.absent && errors.Is(err, fs.ErrExist) {
		return s.refused(in, p.key)
	}
	if err != nil {
		return landing(err)
	}
	// The window: everybody sees the object, and a power failure takes it back.
	// Whoever builds on it settles it first; we answer after the sync.
	if err := s.sys.sync(in.self); err != nil {
		return fmt.Errorf("%w: sync its folder: %w", objstore.ErrUnknown, err)
	}
	s.settled.remember(p.key, st.id)
	if p.beside != nil { // it will be the next one's neighbour
		s.contents.remember(p.key, content{st.etag(), sha256.Sum256(p.data)})
	}
	return nil
}

// content is what a file held when it was last seen whole.
type content struct {
	etag string
	hash [32]byte
}

// neighbour sees that a folder holds an object, in the content that is meant. A file
// that was read or put in this content, and has not changed, is not read again.
func (s *Store) neighbour(in *folder, n objstore.Neighbour) error {
	key := path.Join(in.key, n.Name)
	st, err := in.lstat(n.Name)
	switch {
	case absent(err):
		return fmt.Errorf("%s is not there: %w", key, objstore.ErrMoved)
	case err != nil:
		return err
	case n.SHA256 == [32]byte{}, s.contents.holds(key, content{st.etag(), n.SHA256}):
		return nil
	}
	f, err := s.openObject(in, key)
	if absent(err) {
		return fmt.Errorf("%s is not there: %w", key, objstore.ErrMoved)
	}
	if err != nil {
		return err
	}
	hash := sha256.New()
	_, err = io.Copy(hash, f)
	if err := errors.Join(err, f.Close()); err != nil {
		return err
	}
	if [32]byte(hash.Sum(nil)) != n.SHA256 {
		return fmt.Errorf("%s has another content: %w", key, objstore.ErrMoved)
	}
	s.contents.remember(key, content{st.etag(), n.SHA256})
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
