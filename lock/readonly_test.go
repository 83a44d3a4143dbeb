package lock_test

import (
	"errors"
	"testing"

	"github.com/txcoord/txcoord/lock"
	"github.com/txcoord/txcoord/lock/memstore"
)

func TestReadOnly(t *testing.T) {
	under := memstore.New(memstore.Config{})
	if _, err := lock.ExistingJournal(t.Context(), lock.ReadOnly(under)); !errors.Is(err, lock.ErrNotFound) {
		t.Errorf("a journal that is not there: %v", err)
	}
	if items, err := under.Scan(t.Context(), "", "", 0); err != nil || len(items) != 0 {
		t.Errorf("looking for a journal left %v, %v", items, err)
	}
	made, err := lock.OpenJournal(t.Context(), under, 8)
	if err != nil {
		t.Fatal(err)
	}
	s := lock.ReadOnly(under)
	found, err := lock.ExistingJournal(t.Context(), s)
	if err != nil || found.Meta() != made.Meta() {
		t.Errorf("%+v, %v", found, err)
	}
	if _, err := s.Put(t.Context(), "k", nil, lock.Always()); !errors.Is(err, lock.ErrReadOnly) {
		t.Errorf("put: %v", err)
	}
	if err := s.Delete(t.Context(), lock.MetaKey); !errors.Is(err, lock.ErrReadOnly) {
		t.Errorf("delete: %v", err)
	}
	if items, err := s.Scan(t.Context(), "", "", 0); err != nil || len(items) != 1 {
		t.Errorf("scan: %v, %v", items, err)
	}
}
