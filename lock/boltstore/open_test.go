package boltstore_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.etcd.io/bbolt"

	"github.com/txcoord/txcoord/lock"
	"github.com/txcoord/txcoord/lock/boltstore"
)

func wantOpenError(t *testing.T, path string, parts ...string) {
	t.Helper()
	s, err := boltstore.Open(path, boltstore.Config{})
	if err == nil {
		_ = s.Close()
		t.Fatalf("%s opens", path)
	}
	for _, part := range append(parts, path) {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%q does not mention %q", err, part)
		}
	}
}

func TestFilesThatAreNoStores(t *testing.T) {
	dir := t.TempDir()
	text := filepath.Join(dir, "text")
	if err := os.WriteFile(text, []byte(strings.Repeat("no store ", 10_000)), 0o600); err != nil {
		t.Fatal(err)
	}
	wantOpenError(t, text, "not a store file", "name another file")
	wantOpenError(t, dir)
	wantOpenError(t, filepath.Join(dir, "missing", "store.db"), "no such file")
	wantOpenError(t, otherBolt(t, filepath.Join(dir, "other")), "txcoord items 2", "name another file")
}

// otherBolt is a file of a later format.
func otherBolt(t *testing.T, path string) string {
	t.Helper()
	db, err := bbolt.Open(path, 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	err = db.Update(func(tx *bbolt.Tx) error {
		_, err := tx.CreateBucket([]byte("txcoord items 2"))
		return err
	})
	if err := errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestSecondStoreOnAFileIsRefusedQuickly(t *testing.T) {
	s := openNew(t)
	start := time.Now()
	wantOpenError(t, s.path, "another process", "stop that one", "a file of its own")
	if _, err := boltstore.Open(s.path, boltstore.Config{}); !errors.Is(err, boltstore.ErrInUse) {
		t.Errorf("got %v", err)
	}
	if took := time.Since(start); took > 20*time.Second {
		t.Errorf("two refusals took %v", took)
	}
	if _, err := s.Put(t.Context(), "k", nil, lock.IfAbsent()); err != nil {
		t.Errorf("the first store: %v", err)
	}
}

// A store on the same file waits a little for one that is about to let go.
func TestOpenWaitsForTheLastOne(t *testing.T) {
	s := openNew(t)
	go func() {
		time.Sleep(20 * time.Millisecond)
		_ = s.Close()
	}()
	again, err := boltstore.Open(s.path, boltstore.Config{LockWait: 10 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	if err := again.Close(); err != nil {
		t.Error(err)
	}
}

func TestBadKeysAreRefused(t *testing.T) {
	s := openNew(t)
	for _, key := range []string{"", strings.Repeat("k", bbolt.MaxKeySize+1)} {
		_, putErr := s.Put(t.Context(), key, nil, lock.Always())
		_, getErr := s.Get(t.Context(), key)
		for _, err := range []error{putErr, getErr, s.Delete(t.Context(), key)} {
			if err == nil || errors.Is(err, lock.ErrUnknown) || errors.Is(err, lock.ErrNotFound) {
				t.Errorf("key of %d bytes: %v", len(key), err)
			}
		}
	}
}

// Nothing is written to a file that was taken away, and all goes on once it is back.
func TestFileThatIsTakenAway(t *testing.T) {
	dir := t.TempDir()
	path, aside := filepath.Join(dir, "store.db"), filepath.Join(dir, "aside.db")
	s, err := boltstore.Open(path, boltstore.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	put := func(key string) error {
		_, err := s.Put(t.Context(), key, []byte("1"), lock.IfAbsent())
		return err
	}
	if err := put("before"); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path, aside); err != nil {
		t.Fatal(err)
	}
	for _, what := range []string{"removed", "replaced"} {
		if err := put(what); !errors.Is(err, lock.ErrAway) || errors.Is(err, lock.ErrUnknown) || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v", what, err)
		}
		if err := s.Delete(t.Context(), "before"); !errors.Is(err, lock.ErrAway) {
			t.Errorf("delete, %s: %v", what, err)
		}
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Rename(aside, path); err != nil {
		t.Fatal(err)
	}
	if err := put("removed"); err != nil {
		t.Errorf("once it is back: %v", err)
	}
	if _, err := s.Get(t.Context(), "before"); err != nil {
		t.Error(err)
	}
}
