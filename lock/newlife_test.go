package lock_test

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/txcoord/txcoord/lock"
	"github.com/txcoord/txcoord/lock/memstore"
	"github.com/txcoord/txcoord/twophase"
)

// entriesOf are the first entries of a life.
func entriesOf(m lock.Meta, n int) [][]byte {
	var out [][]byte
	previous := twophase.Hash{}
	for i := range n {
		e := twophase.Entry{Header: twophase.Header{Catalog: m.Catalog, Incarnation: m.Incarnation, Position: twophase.Position(i), Previous: previous}}
		out = append(out, e.Encode())
		previous = twophase.HashOf(out[i])
	}
	return out
}

// A life that is begun in a store breaks off at any write, and there is the journal
// before, or none; begun again it is whole.
func TestNewLifeBreaksOff(t *testing.T) {
	for _, before := range []bool{false, true} {
		for after := range 12 {
			store := memstore.New(memstore.Config{})
			if before {
				if _, err := lock.OpenJournal(t.Context(), store, 16); err != nil {
					t.Fatal(err)
				}
			}
			old, rev, err := lock.Present(t.Context(), store)
			if err != nil || (old != nil) != before {
				t.Fatalf("what is there: %v, %v", old, err)
			}
			first := lock.NewMeta("c", 16)
			err = lock.NewLife(&breaking{Store: store, after: after}, first).Begin(t.Context(), entriesOf(first, 4), rev)
			have, _, readErr := lock.Present(t.Context(), store)
			if readErr != nil || err != nil && !cmp.Equal(have, old) || err == nil && !cmp.Equal(have, &first) {
				t.Fatalf("after %d writes: %v, and the store has %+v, %v", after, err, have, readErr)
			}
			if err == nil {
				continue
			}
			second := lock.NewMeta("c", 16)
			if err := lock.NewLife(store, second).Begin(t.Context(), entriesOf(second, 4), rev); err != nil {
				t.Fatalf("after %d writes, once more: %v", after, err)
			}
			j, err := lock.ExistingJournal(t.Context(), store)
			if err != nil || j.Meta() != second {
				t.Fatalf("the journal: %v", err)
			}
			if next, err := j.Next(t.Context()); err != nil || next != 4 {
				t.Errorf("it ends at %d, %v", next, err)
			}
		}
	}
}

// Of two that begin a life, one wins; the other is told so, and leaves the winner's.
func TestNewLifeRaced(t *testing.T) {
	store := memstore.New(memstore.Config{})
	one, two := lock.NewMeta("c", 16), lock.NewMeta("c", 16)
	if err := lock.NewLife(store, one).Begin(t.Context(), entriesOf(one, 2), ""); err != nil {
		t.Fatal(err)
	}
	if err := lock.NewLife(store, two).Begin(t.Context(), entriesOf(two, 3), ""); !errors.Is(err, lock.ErrUnfit) {
		t.Errorf("the second: %v", err)
	}
	have, rev, err := lock.Present(t.Context(), store)
	if err != nil || *have != one {
		t.Fatalf("it has %+v, %v", have, err)
	}
	if err := lock.NewLife(store, two).Begin(t.Context(), entriesOf(two, 3), rev); err != nil {
		t.Errorf("in the place of the first: %v", err)
	}
	if err := lock.NewLife(store, lock.NewMeta("c", 16)).Begin(t.Context(), nil, rev); !errors.Is(err, lock.ErrUnfit) {
		t.Errorf("in the place of one that is gone: %v", err)
	}
	if err := lock.NewLife(store, lock.NewMeta("c", 4)).Begin(t.Context(), entriesOf(one, 2), ""); !errors.Is(err, lock.ErrUnfit) {
		t.Errorf("a small ring: %v", err)
	}
}
