package lock_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/txcoord/txcoord/lock"
	"github.com/txcoord/txcoord/lock/memstore"
)

// breaking is a store whose puts fail, or have no known outcome, at one in three.
type breaking struct {
	lock.Store
	puts, after int
}

func (b *breaking) Put(ctx context.Context, key string, value []byte, c lock.Condition) (lock.Revision, error) {
	b.puts++
	switch {
	case b.puts > b.after:
		return "", errors.New("the store is gone")
	case b.puts%3 == 0:
		_, _ = b.Store.Put(ctx, key, value, c)
		return "", lock.ErrUnknown
	}
	return b.Store.Put(ctx, key, value, c)
}

func journalOf(t *testing.T, keys int) lock.Store {
	t.Helper()
	s := memstore.New(memstore.Config{})
	if _, err := lock.OpenJournal(t.Context(), s, 16); err != nil {
		t.Fatal(err)
	}
	for i := range keys {
		put(t, s, fmt.Sprintf("pay/%03d", i), strings.Repeat("x", i))
	}
	put(t, s, "replica/one", "me")
	return s
}

func put(t *testing.T, s lock.Store, key, value string) {
	t.Helper()
	if _, err := s.Put(t.Context(), key, []byte(value), lock.Always()); err != nil {
		t.Fatal(err)
	}
}

func dump(t *testing.T, s lock.Store) map[string]string {
	t.Helper()
	out := map[string]string{}
	for after := ""; ; {
		items, err := s.Scan(t.Context(), "", after, 7)
		if err != nil {
			t.Fatal(err)
		}
		if len(items) == 0 {
			return out
		}
		for _, i := range items {
			out[i.Key], after = string(i.Value), i.Key
		}
	}
}

func announcement(key string) bool { return strings.HasPrefix(key, "replica/") }

// A copy that breaks off after any write is taken up again, and is no journal before
// it is whole.
func TestCopyBreaksOff(t *testing.T) {
	from := journalOf(t, 30)
	want := dump(t, from)
	delete(want, "replica/one")
	for after := range 60 {
		to := memstore.New(memstore.Config{})
		_, err := lock.Copy(t.Context(), from, &breaking{Store: to, after: after}, announcement)
		if err != nil {
			if _, ok := dump(t, to)[lock.MetaKey]; ok {
				t.Fatalf("after %d puts: what is not whole has its meta", after)
			}
			if _, err := lock.Copy(t.Context(), from, to, announcement); err != nil {
				t.Fatalf("after %d puts, again: %v", after, err)
			}
		}
		if got := dump(t, to); fmt.Sprint(got) != fmt.Sprint(want) {
			t.Fatalf("after %d puts: %v", after, got)
		}
		if again, err := lock.Copy(t.Context(), from, to, announcement); err != nil || !again.Already {
			t.Fatalf("once more: %+v, %v", again, err)
		}
	}
}

// While a copy is not whole, no other journal is begun in its place: the one that is
// copied would be given up, though it is not lost.
func TestNoJournalBesideACopy(t *testing.T) {
	from := journalOf(t, 5)
	begun := memstore.New(memstore.Config{})
	if _, err := lock.Copy(t.Context(), from, &breaking{Store: begun, after: 2}, announcement); err == nil {
		t.Fatal("the copy did not break off")
	}
	before := dump(t, begun)
	if _, err := lock.OpenJournal(t.Context(), begun, 16); !errors.Is(err, lock.ErrUnfit) {
		t.Errorf("a new one: %v", err)
	}
	if _, _, err := lock.Present(t.Context(), begun); !errors.Is(err, lock.ErrUnfit) {
		t.Errorf("a new life: %v", err)
	}
	if fmt.Sprint(dump(t, begun)) != fmt.Sprint(before) {
		t.Error("the store was changed")
	}
	if _, err := lock.Copy(t.Context(), from, begun, announcement); err != nil {
		t.Fatal(err)
	}
	if _, err := lock.OpenJournal(t.Context(), begun, 16); err != nil {
		t.Error(err)
	}
	if meta, _, err := lock.Present(t.Context(), begun); meta == nil || err != nil {
		t.Errorf("%v, %v", meta, err)
	}
}

// forgetful loses every delete, as a process does that dies before it.
type forgetful struct{ lock.Store }

func (forgetful) Delete(context.Context, string) error { return errors.New("the process has died") }

// A move probes the store before it copies. One that dies in that is taken up again.
func TestCopyAfterAProbeThatDied(t *testing.T) {
	from, to := journalOf(t, 3), memstore.New(memstore.Config{})
	want := dump(t, from)
	delete(want, "replica/one")
	for _, s := range []lock.Store{from, to, to} {
		if err := lock.Probe(t.Context(), forgetful{s}); err == nil {
			t.Fatal("the probe did not die")
		}
	}
	before := len(dump(t, to))
	if _, err := lock.Copy(t.Context(), from, to, announcement); err != nil || before != 2 {
		t.Fatalf("beside %d keys of probes: %v", before, err)
	}
	got := dump(t, to)
	for key := range got {
		if _, ok := want[key]; !ok && before > 0 {
			before--
			delete(got, key)
		}
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%v", got)
	}
}

func TestCopyIsRefused(t *testing.T) {
	from := journalOf(t, 3)
	used := memstore.New(memstore.Config{})
	put(t, used, "something", "else")
	begun := memstore.New(memstore.Config{})
	if _, err := lock.Copy(t.Context(), journalOf(t, 5), &breaking{Store: begun, after: 2}, announcement); err == nil {
		t.Fatal("the copy did not break off")
	}
	for name, to := range map[string]lock.Store{"a store in use": used, "another journal": journalOf(t, 1), "another's copy": begun} {
		before := dump(t, to)
		if _, err := lock.Copy(t.Context(), from, to, announcement); !errors.Is(err, lock.ErrUnfit) {
			t.Errorf("%s: %v", name, err)
		}
		if fmt.Sprint(dump(t, to)) != fmt.Sprint(before) {
			t.Errorf("%s was changed", name)
		}
	}
	if _, err := lock.Copy(t.Context(), memstore.New(memstore.Config{}), memstore.New(memstore.Config{}), announcement); !errors.Is(err, lock.ErrNotFound) {
		t.Errorf("no journal: %v", err)
	}
}
