package boltstore_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/txcoord/txcoord/lock"
	"github.com/txcoord/txcoord/lock/boltstore"
)

// A file that was cut is refused by name; it must not end the process.
func TestCutFileIsRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store.db")
	s, err := boltstore.Open(path, boltstore.Config{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 200 {
		if _, err := s.Put(t.Context(), fmt.Sprint("k", i), make([]byte, 4000), lock.Always()); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, size := range []int{8192, 12288, 20000, 65536, 400_000} {
		if err := os.WriteFile(path, whole[:size], 0o600); err != nil {
			t.Fatal(err)
		}
		if s, err := boltstore.Open(path, boltstore.Config{}); !errors.Is(err, boltstore.ErrDamaged) {
			t.Errorf("cut to %d bytes: %v, %v", size, s, err)
		}
	}
	if err := os.WriteFile(path, whole, 0o600); err != nil {
		t.Fatal(err)
	}
	if s, err = boltstore.Open(path, boltstore.Config{}); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}
