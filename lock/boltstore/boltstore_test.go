package boltstore_test

import (
	"errors"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/txcoord/txcoord/lock"
	"github.com/txcoord/txcoord/lock/boltstore"
	"github.com/txcoord/txcoord/lock/locktest"
)

const maxValue = 1 << 20

// handle is a store that knows its file, so that it can be opened again.
type handle struct {
	*boltstore.Store
	path string
}

func open(t locktest.T, path string) handle {
	t.Helper()
	s, err := boltstore.Open(path, boltstore.Config{MaxValue: maxValue})
	if err != nil {
		t.Fatalf("%v", err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("%v", err)
		}
	})
	return handle{s, path}
}

func openNew(t locktest.T) handle {
	t.Helper()
	return open(t, filepath.Join(t.TempDir(), "store.db"))
}

var errDisk = errors.New("injected: input/output error")

// lossy is a store that does not learn that a commit is on disk.
func lossy(t locktest.T) (lock.Store, func()) {
	s := openNew(t)
	var armed atomic.Bool
	boltstore.OnCommit(s.Store, func(commit func() error) error {
		if err := commit(); err != nil || !armed.Swap(false) {
			return err
		}
		return errDisk
	})
	return s, func() { armed.Store(true) }
}

func TestConformance(t *testing.T) {
	locktest.Run(t, locktest.Config{
		New: func(t locktest.T) lock.Store { return openNew(t) },
		Reopen: func(t locktest.T, s lock.Store) lock.Store {
			if err := s.Close(); err != nil {
				t.Fatalf("%v", err)
			}
			return open(t, s.(handle).path)
		},
		Lossy:    lossy,
		MaxValue: maxValue,
	})
}
