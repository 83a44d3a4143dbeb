//go:build unix

package fileobj

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/txcoord/txcoord/tables/objstore"
)

// folder is a folder that is open. What is done through it is done in this very folder,
// wherever it is moved and whatever takes its name.
type folder struct {
	// self is the folder as a file, for fsync and the calls that want a descriptor.
	self *os.File
	id   uint64
	// key is the folder's, without slashes at its ends; empty for the store's own.
	key string
}

func (f *folder) fd() int { return int(f.self.Fd()) }

func (f *folder) close() { _ = f.self.Close() } // Nothing was written through it.

func (f *folder) wrong(op, name string, err error) error {
	return &fs.PathError{Op: op, Path: path.Join(f.key, name), Err: err}
}

const openFolder = unix.O_RDONLY | unix.O_DIRECTORY | unix.O_CLOEXEC

// top opens the store's own folder. One that was there and is gone is no empty store.
func (s *Store) top() (int, error) {
	fd, err := again(func() (int, error) { return unix.Open(s.root, openFolder, 0) })
	switch {
	case err == nil:
		s.seen.Store(true)
		return fd, nil
	case absent(err) && s.seen.Load():
		return -1, fmt.Errorf("%s: %w", s.root, objstore.ErrAway)
	}
	return -1, &fs.PathError{Op: "open", Path: s.root, Err: err}
}

// again repeats a call that a signal broke off, as network file systems let them.
func again[T any](call func() (T, error)) (T, error) {
	for {
		v, err := call()
		if !errors.Is(err, unix.EINTR) {
			return v, err
		}
	}
}

// below opens a folder in a folder, and no symbolic link.
func below(fd int, parent, name string) (int, error) {
	sub, err := again(func() (int, error) { return unix.Openat(fd, name, openFolder|unix.O_NOFOLLOW, 0) })
	if err == nil {
		return sub, nil
	}
	// Kernels say ELOOP or ENOTDIR of a link, and the second of a file as well.
	if st, statErr := lstatAt(fd, name); statErr == nil && st.link() {
		return -1, &objstore.LinkError{Name: path.Join(parent, name)}
	}
	return -1, &fs.PathError{Op: "open", Path: path.Join(parent, name), Err: err}
}

// enter opens a folder, through no symbolic link.
func (s *Store) enter(dir string) (*folder, error) {
	dir = strings.Trim(dir, "/")
	fd, err := s.top()
	if err != nil {
		return nil, err
	}
	at := ""
	for rest := dir; rest != ""; {
		var name string
		name, rest, _ = strings.Cut(rest, "/")
		sub, err := below(fd, at, name)
		_ = unix.Close(fd)
		if err != nil {
			return nil, err
		}
		fd, at = sub, path.Join(at, name)
	}
	return newFolder(fd, dir)
}

func newFolder(fd int, key string) (*folder, error) {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return nil, errors.Join(err, unix.Close(fd))
	}
	return &folder{self: os.NewFile(uintptr(fd), key), id: st.Ino, key: key}, nil
}

// look opens a folder for reading: where links are allowed, through those that stay
// inside the store's own folder.
func (s *Store) look(dir string) (*folder, error) {
	f, err := s.enter(dir)
	if !errors.Is(err, objstore.ErrLinked) || s.strict(dir+"/") {
		return f, err
	}
	root, err := s.jail()
	if err != nil {
		return nil, err
	}
	defer func() { _ = root.Close() }()
	self, err := root.Open(strings.Trim(dir, "/"))
	if err != nil {
		return nil, unescaped(dir, err)
	}
	st, err := self.Stat()
	if err == nil && !st.IsDir() {
		err = &fs.PathError{Op: "open", Path: dir, Err: syscall.ENOTDIR}
	}
	if err != nil {
		return nil, errors.Join(err, self.Close())
	}
	return &folder{self: self, id: inode(st), key: strings.Trim(dir, "/")}, nil
}

// jail is the store's own folder for what is read through links: os.Root follows those
// that are relative and stay inside.
func (s *Store) jail() (*os.Root, error) {
	root, err := os.OpenRoot(s.root)
	if absent(err) && s.seen.Load() {
		return nil, fmt.Errorf("%s: %w", s.root, objstore.ErrAway)
	}
	return root, err
}

// strict reports whether a key lies below a folder that no link may lead to or into.
func (s *Store) strict(key string) bool {
	for _, name := range s.cfg.NoLinks {
		if strings.Contains("/"+key, "/"+name+"/") {
			return true
		}
	}
	return false
}

// unescaped makes ErrLinked of the error by which os.Root refuses to be led out.
func unescaped(name string, err error) error {
	if out := escapes(); err != nil && out != nil && errors.Is(err, out) {
		return &objstore.LinkError{Name: strings.Trim(name, "/"), Err: err}
	}
	return err
}

// escapes is that error, which os does not export.
var escapes = sync.OnceValue(func() error {
	root, err := os.OpenRoot("/")
	if err != nil {
		return nil
	}
	defer func() { _ = root.Close() }()
	_, err = root.Lstat("..")
	if refused, ok := errors.AsType[*fs.PathError](err); ok {
		return refused.Err
	}
	return nil
})

// open opens a file of the folder; of a link to one, nothing.
func (f *folder) open(name string, flags int, mode uint32) (*os.File, error) {
	fd, err := again(func() (int, error) {
		return unix.Openat(f.fd(), name, flags|unix.O_NOFOLLOW|unix.O_CLOEXEC, mode)
	})
	if err != nil {
		return nil, f.wrong("open", name, err)
	}
	return os.NewFile(uintptr(fd), path.Join(f.key, name)), nil
}

// stat is what we ask of files.
type stat struct {
	mode             uint32
	size             int64
	id               uint64
	modified, change time.Time
}

func (s stat) is(kind uint32) bool { return s.mode&unix.S_IFMT == kind }

func (s stat) link() bool   { return s.is(unix.S_IFLNK) }
func (s stat) folder() bool { return s.is(unix.S_IFDIR) }
func (s stat) file() bool   { return s.is(unix.S_IFREG) }

func statOf(st *unix.Stat_t) stat {
	return stat{
		mode: uint32(st.Mode), size: st.Size, id: st.Ino,
		modified: time.Unix(st.Mtim.Unix()), change: time.Unix(st.Ctim.Unix()),
	}
}

// statOfInfo is what is known of a file behind a link; not when it changed.
func statOfInfo(info fs.FileInfo) stat {
	st := stat{size: info.Size(), id: inode(info), modified: info.ModTime()}
	switch {
	case info.IsDir():
		st.mode = unix.S_IFDIR
	case info.Mode().IsRegular():
		st.mode = unix.S_IFREG
	}
	return st
}

func lstatAt(fd int, name string) (stat, error) {
	var st unix.Stat_t
	if err := unix.Fstatat(fd, name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return stat{}, err
	}
	return statOf(&st), nil
}

// lstat says what a name is, and not what it leads to.
func (f *folder) lstat(name string) (stat, error) {
	st, err := lstatAt(f.fd(), name)
	if err != nil {
		return stat{}, f.wrong("stat", name, err)
	}
	return st, nil
}

// fstat is lstat for an open file.
func fstat(f *os.File) (stat, error) {
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return stat{}, &fs.PathError{Op: "stat", Path: f.Name(), Err: err}
	}
	return statOf(&st), nil
}

// unlink removes a name that is no folder's.
func (f *folder) unlink(name string) error {
	if err := unix.Unlinkat(f.fd(), name, 0); err != nil {
		return f.wrong("remove", name, err)
	}
	return nil
}
