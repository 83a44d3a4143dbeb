//go:build unix

package fileobj

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"
)

// memory holds what is known of some paths, to save work that was done before.
// It forgets everything when it is full: a catalog has no end of folders.
type memory struct {
	mu    sync.Mutex
	paths map[string]uint64
}

const memorySize = 8192

func (m *memory) holds(path string, id uint64) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	got, ok := m.paths[path]
	return ok && got == id
}

func (m *memory) remember(path string, id uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.paths == nil || len(m.paths) >= memorySize {
		m.paths = make(map[string]uint64)
	}
	m.paths[path] = id
}

func (m *memory) forget(path string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.paths, path)
}

// ensureFolder makes a folder and those above it exist durably. Who made a folder
// may not have synced it (or be about to), so the first put into an existing one
// syncs the folders above it too; later puts find it in memory.
func (s *Store) ensureFolder(dir string) error {
	if len(dir) <= len(s.root) || s.folders.holds(dir, 0) {
		return nil
	}
	parent := filepath.Dir(dir)
	if err := s.ensureFolder(parent); err != nil {
		return err
	}
	made, err := makeFolder(dir)
	if err != nil {
		return err
	}
	if err := s.syncFolder(parent); err != nil && (made || !unsyncable(err)) {
		return fmt.Errorf("sync folder: %w", err)
	}
	s.folders.remember(dir, 0)
	return nil
}

// makeFolder reports whether it made the folder: others may at the same time.
func makeFolder(dir string) (made bool, err error) {
	if _, err := os.Stat(dir); err == nil {
		return false, nil
	}
	err = os.Mkdir(dir, 0o777)
	if errors.Is(err, fs.ErrExist) {
		return false, nil
	}
	return err == nil, err
}

// forgetFolders is for a folder that turned out to be gone.
func (s *Store) forgetFolders(dir string) {
	for ; len(dir) > len(s.root); dir = filepath.Dir(dir) {
		s.folders.forget(dir)
	}
}

// prune removes folders that are empty, as far up as the configuration allows, and
// answers with the lowest that is left. A put that loses its folder on the way makes
// it again.
func (s *Store) prune(dir string) (left string) {
	for len(dir) > len(s.root) && s.cfg.Prune != nil && s.cfg.Prune(dir+"/") && syscall.Rmdir(dir) == nil {
		s.folders.forget(dir)
		dir = filepath.Dir(dir)
	}
	return dir
}

// settle makes a young object of another writer durable, see Config.SettleWithin.
func (s *Store) settle(f *os.File, path string, st fs.FileInfo) error {
	id := inode(st)
	if time.Since(changed(st)) > s.cfg.SettleWithin || s.settled.holds(path, id) {
		return nil
	}
	if err := s.syncObject(f, filepath.Dir(path)); err != nil && !unsyncable(err) {
		return fmt.Errorf("settle: %w", err)
	}
	s.settled.remember(path, id)
	return nil
}

func (s *Store) syncObject(f *os.File, dir string) error {
	if err := s.sys.sync(f); err != nil {
		return err
	}
	if err := s.ensureFolder(dir); err != nil {
		return err
	}
	return s.syncFolder(dir)
}

// unsyncable tells "may not" and "need not" from "went wrong": we may lack the
// right to open a folder that belongs to others, or stand on read-only storage.
func unsyncable(err error) bool {
	return errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EROFS) ||
		errors.Is(err, syscall.EINVAL) || errors.Is(err, errors.ErrUnsupported)
}

// syncFolder makes the names in a folder durable.
func (s *Store) syncFolder(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(s.sys.sync(f), f.Close())
}
