//go:build unix

package fileobj

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/txcoord/txcoord/tables/objstore"
)

// memory holds what is known of some paths, to save work that was done before.
// It forgets everything when it is full: a catalog has no end of folders.
type memory[T comparable] struct {
	mu    sync.Mutex
	paths map[string]T
}

const memorySize = 8192

func (m *memory[T]) holds(path string, what T) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	got, ok := m.paths[path]
	return ok && got == what
}

func (m *memory[T]) remember(path string, what T) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.paths == nil || len(m.paths) >= memorySize {
		m.paths = make(map[string]T)
	}
	m.paths[path] = what
}

func (m *memory[T]) forget(path string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.paths, path)
}

// found opens a folder for a put, and makes it and those above it exist durably as far
// as the configuration lets this key. Who made a folder may not have synced it (or be
// about to), so the first put into an existing one syncs the folders above it too;
// later puts find it in memory.
func (s *Store) found(dir, key string) (*folder, error) {
	dir = strings.Trim(dir, "/")
	f, err := s.enter(dir)
	if err == nil && (dir == "" || s.folders.holds(dir, f.id)) || err != nil && !errors.Is(err, fs.ErrNotExist) {
		return f, err
	}
	if err == nil {
		f.close()
	}
	f, err = s.foundTop(key)
	for rest := dir; rest != "" && err == nil; {
		var name string
		name, rest, _ = strings.Cut(rest, "/")
		var sub *folder
		sub, err = s.foundBelow(f, name, key)
		f.close()
		f = sub
	}
	return f, err
}

// foundTop makes the store's own folder, if that was never there.
func (s *Store) foundTop(key string) (*folder, error) {
	f, err := s.enter("")
	if !absent(err) {
		return f, err
	}
	if !s.mayMake("", key) {
		return nil, fmt.Errorf("%s: %w", s.root, objstore.ErrNoFolder)
	}
	if err := makeDurably(s.root, s.sys.sync); err != nil {
		return nil, err
	}
	return s.enter("")
}

// makeDurably makes a folder and those above it by path: it stands above everything
// that the store keeps.
func makeDurably(dir string, sync func(*os.File) error) error {
	parent := filepath.Dir(dir)
	if _, err := os.Stat(dir); err == nil || parent == dir {
		return err
	}
	if err := makeDurably(parent, sync); err != nil {
		return err
	}
	if err := os.Mkdir(dir, 0o777); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	f, err := os.Open(parent)
	if err != nil {
		return err
	}
	return errors.Join(sync(f), f.Close())
}

func (s *Store) mayMake(dir, key string) bool {
	return s.cfg.Makes == nil || s.cfg.Makes("/"+dir, "/"+key)
}

func (s *Store) foundBelow(f *folder, name, key string) (*folder, error) {
	dir := path.Join(f.key, name)
	fd, err := below(f.fd(), f.key, name)
	made := false
	if errors.Is(err, fs.ErrNotExist) {
		if !s.mayMake(dir, key) {
			return nil, fmt.Errorf("%s: %w", filepath.Join(s.root, dir), objstore.ErrNoFolder)
		}
		if err := unix.Mkdirat(f.fd(), name, 0o777); err != nil && !errors.Is(err, fs.ErrExist) {
			return nil, f.wrong("make", name, err)
		}
		made = true
		fd, err = below(f.fd(), f.key, name)
	}
	if err != nil {
		return nil, err
	}
	sub, err := newFolder(fd, dir)
	if err != nil {
		return nil, err
	}
	if made || !s.folders.holds(dir, sub.id) {
		if err := s.sys.sync(f.self); err != nil && (made || !unsyncable(err)) {
			sub.close()
			return nil, fmt.Errorf("sync folder: %w", err)
		}
		s.folders.remember(dir, sub.id)
	}
	return sub, nil
}

// forgetFolders is for a folder that turned out to be gone.
func (s *Store) forgetFolders(dir string) {
	for ; dir != "." && dir != ""; dir = path.Dir(dir) {
		s.folders.forget(dir)
	}
}

// prune removes folders that are empty, as far up as the configuration allows, and
// makes the lowest that is left durable. A put that loses its folder on the way makes
// it again.
func (s *Store) prune(f *folder) error {
	dir := f.key
	if dir == "" || s.cfg.Prune == nil || !s.cfg.Prune("/"+dir+"/") {
		return s.sys.sync(f.self)
	}
	above, err := s.enter(strings.TrimSuffix(path.Dir(dir), "."))
	if err != nil {
		return err
	}
	defer above.close()
	if unix.Unlinkat(above.fd(), path.Base(dir), unix.AT_REMOVEDIR) != nil {
		return s.sys.sync(f.self)
	}
	s.folders.forget(dir)
	return s.prune(above)
}

// settle makes a young object of another writer durable, see Config.SettleWithin.
func (s *Store) settle(o *os.File, in *folder, key string, st stat) error {
	if time.Since(st.changed()) > s.cfg.SettleWithin || s.settled.holds(key, st.id) {
		return nil
	}
	if err := s.syncObject(o, in); err != nil && !unsyncable(err) {
		return fmt.Errorf("settle: %w", err)
	}
	s.settled.remember(key, st.id)
	return nil
}

func (s *Store) syncObject(o *os.File, in *folder) error {
	if err := s.sys.sync(o); err != nil {
		return err
	}
	above, err := s.found(in.key, in.key) // those above it
	if err == nil {
		above.close()
	} else if !errors.Is(err, objstore.ErrLinked) { // nothing of ours is above what is read through a link
		return err
	}
	return s.sys.sync(in.self)
}

// unsyncable tells "may not" and "need not" from "went wrong": we may lack the
// right to open a folder that belongs to others, or stand on read-only storage.
func unsyncable(err error) bool {
	return errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EROFS) ||
		errors.Is(err, syscall.EINVAL) || errors.Is(err, errors.ErrUnsupported)
}
