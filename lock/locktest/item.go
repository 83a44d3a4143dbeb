package locktest

import (
	"errors"
	"fmt"
	"strings"

	"github.com/txcoord/txcoord/lock"
)

func itemCases() []Case {
	return []Case{
		{Name: "PutCanBeRead", Run: putCanBeRead},
		{Name: "IfAbsentKeepsTheFirst", Run: ifAbsentKeepsTheFirst},
		{Name: "IfRevisionNeedsThatRevision", Run: ifRevisionNeedsThatRevision},
		{Name: "AlwaysReplaces", Run: alwaysReplaces},
		{Name: "EqualBytesAreANewRevision", Run: equalBytesAreANewRevision},
		{Name: "RevisionsNeverRepeat", Run: revisionsNeverRepeat},
		{Name: "GetSeesTheLastPut", Run: getSeesTheLastPut},
		{Name: "MissingIsNotFound", Run: missingIsNotFound},
		{Name: "DeleteRemoves", Run: deleteRemoves},
		{Name: "TooLargeIsRefused", Run: tooLargeIsRefused},
		{Name: "ValuesAreCopied", Run: valuesAreCopied},
		{Name: "KeysAreTakenLiterally", Run: keysAreTakenLiterally},
	}
}

// must stops a case whose own steps fail.
func must(t T, err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("%v", err)
	}
}

// put is a put that has to succeed.
func put(t T, s lock.Store, key, value string, c lock.Condition) lock.Revision {
	t.Helper()
	rev, err := s.Put(t.Context(), key, []byte(value), c)
	if err != nil {
		t.Fatalf("put %q: %v", key, err)
	}
	if rev == "" {
		t.Fatalf("put %q: no revision", key)
	}
	return rev
}

// wantErr checks an answer that callers branch on.
func wantErr(t T, what string, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("%s: got %v, want %v", what, err, want)
	}
}

// wantRefused puts under a condition that does not hold.
func wantRefused(t T, s lock.Store, key string, c lock.Condition) {
	t.Helper()
	_, err := s.Put(t.Context(), key, []byte("refused"), c)
	wantErr(t, "put "+key+" under a condition that does not hold", err, lock.ErrConflict)
}

// wantItem checks what a key holds.
func wantItem(t T, s lock.Store, key, value string, rev lock.Revision) {
	t.Helper()
	item, err := s.Get(t.Context(), key)
	if err != nil || item.Key != key || string(item.Value) != value || item.Revision != rev {
		t.Errorf("get %q: got %s, %v, want %s", key, show(item), err, show(lock.Item{Key: key, Value: []byte(value), Revision: rev}))
	}
}

func wantMissing(t T, s lock.Store, key string) {
	t.Helper()
	_, err := s.Get(t.Context(), key)
	wantErr(t, "get "+key, err, lock.ErrNotFound)
}

func show(item lock.Item) string {
	return fmt.Sprintf("%q = %.40q at revision %q", item.Key, item.Value, item.Revision)
}

func putCanBeRead(t T, c Config) {
	s := c.New(t)
	for i, value := range []string{"", "x", "\x00\xff binary", strings.Repeat("v", min(c.MaxValue, 10_000))} {
		key := fmt.Sprintf("k/%d", i)
		rev := put(t, s, key, value, lock.IfAbsent())
		wantItem(t, s, key, value, rev)
		wantItem(t, c.client(t, s), key, value, rev)
	}
}

func ifAbsentKeepsTheFirst(t T, c Config) {
	s := c.New(t)
	for _, first := range []string{"first", ""} {
		key := "k" + first
		rev := put(t, s, key, first, lock.IfAbsent())
		for _, other := range []string{"second", first, ""} {
			for _, client := range []lock.Store{s, c.client(t, s)} {
				_, err := client.Put(t.Context(), key, []byte(other), lock.IfAbsent())
				wantErr(t, "second put", err, lock.ErrConflict)
			}
			wantItem(t, s, key, first, rev)
		}
	}
}

func ifRevisionNeedsThatRevision(t T, c Config) {
	s := c.New(t)
	first := put(t, s, "k", "first", lock.IfAbsent())
	other := put(t, s, "other", "first", lock.IfAbsent())
	wantRefused(t, s, "missing", lock.IfRevision(first))
	wantMissing(t, s, "missing")
	wantRefused(t, s, "k", lock.IfRevision(other))
	second := put(t, s, "k", "second", lock.IfRevision(first))
	wantRefused(t, s, "k", lock.IfRevision(first))
	wantRefused(t, c.client(t, s), "k", lock.IfRevision(first))
	wantItem(t, s, "k", "second", second)
	put(t, c.client(t, s), "k", "third", lock.IfRevision(second))
	wantItem(t, s, "other", "first", other)
}

func alwaysReplaces(t T, c Config) {
	s := c.New(t)
	for _, value := range []string{"first", "second", "", "third"} {
		rev := put(t, s, "k", value, lock.Always())
		wantItem(t, s, "k", value, rev)
	}
	wantRefused(t, s, "k", lock.IfAbsent())
}

// equalBytesAreANewRevision is the ABA story: a key went from A to B and back to A,
// and who read the first A must not take the second for it.
func equalBytesAreANewRevision(t T, c Config) {
	s := c.New(t)
	a := put(t, s, "k", "A", lock.IfAbsent())
	again := put(t, s, "k", "A", lock.IfRevision(a))
	if again == a {
		t.Errorf("two writes of equal bytes have the revision %q", a)
	}
	b := put(t, s, "k", "B", lock.IfRevision(again))
	back := put(t, s, "k", "A", lock.IfRevision(b))
	wantRefused(t, s, "k", lock.IfRevision(a))
	wantRefused(t, s, "k", lock.IfRevision(again))
	wantItem(t, s, "k", "A", back)
	if twin := put(t, s, "k", "A", lock.Always()); twin == back {
		t.Errorf("an unconditional write of equal bytes keeps the revision %q", back)
	}
}

// revisionsNeverRepeat on a key, not even when it was gone for a while.
func revisionsNeverRepeat(t T, c Config) {
	s := c.New(t)
	seen := map[lock.Revision]bool{}
	var last lock.Revision
	for range 10 {
		rev := put(t, s, "k", "same", lock.IfAbsent())
		if last != "" {
			wantRefused(t, s, "k", lock.IfRevision(last))
		}
		last = put(t, s, "k", "same", lock.IfRevision(rev))
		if seen[rev] || seen[last] || rev == last {
			t.Errorf("revision %q or %q was there before", rev, last)
		}
		seen[rev], seen[last] = true, true
		must(t, s.Delete(t.Context(), "k"))
		wantRefused(t, s, "k", lock.IfRevision(last))
	}
}

func getSeesTheLastPut(t T, c Config) {
	s := c.New(t)
	other := c.client(t, s)
	rev := put(t, s, "k", "0", lock.IfAbsent())
	for i := range 50 {
		value := fmt.Sprint(i + 1)
		rev = put(t, s, "k", value, lock.IfRevision(rev))
		wantItem(t, s, "k", value, rev)
		wantItem(t, other, "k", value, rev)
	}
	must(t, s.Delete(t.Context(), "k"))
	wantMissing(t, other, "k")
	wantMissing(t, s, "k")
}

func missingIsNotFound(t T, c Config) {
	s := c.New(t)
	put(t, s, "folder/key", "x", lock.IfAbsent())
	for _, key := range []string{"missing", "folder", "folder/", "folder/ke", "folder/key2"} {
		wantMissing(t, s, key)
	}
}

func deleteRemoves(t T, c Config) {
	s := c.New(t)
	put(t, s, "k", "x", lock.IfAbsent())
	kept := put(t, s, "kept", "x", lock.IfAbsent())
	for range 2 {
		must(t, s.Delete(t.Context(), "k"))
		wantMissing(t, s, "k")
		wantMissing(t, c.client(t, s), "k")
	}
	wantItem(t, s, "kept", "x", kept)
	rev := put(t, s, "k", "again", lock.IfAbsent())
	wantItem(t, s, "k", "again", rev)
}

func tooLargeIsRefused(t T, c Config) {
	s := c.New(t)
	largest := strings.Repeat("v", c.MaxValue)
	rev := put(t, s, "largest", largest, lock.IfAbsent())
	wantItem(t, s, "largest", largest, rev)
	for key, cond := range map[string]lock.Condition{"new": lock.IfAbsent(), "largest": lock.Always(), "other": lock.IfRevision(rev)} {
		_, err := s.Put(t.Context(), key, []byte(largest+"v"), cond)
		wantErr(t, "put of one byte more", err, lock.ErrTooLarge)
	}
	wantMissing(t, s, "new")
	wantItem(t, s, "largest", largest, rev)
}

func valuesAreCopied(t T, c Config) {
	s := c.New(t)
	value := []byte("original")
	rev, err := s.Put(t.Context(), "k", value, lock.IfAbsent())
	must(t, err)
	copy(value, "xxxxxxxx")
	got, err := s.Get(t.Context(), "k")
	must(t, err)
	copy(got.Value, "yyyyyyyy")
	page, err := s.Scan(t.Context(), "k", "", 0)
	must(t, err)
	for _, item := range page {
		copy(item.Value, "zzzzzzzz")
	}
	wantItem(t, s, "k", "original", rev)
}

// keysAreTakenLiterally: no two of these are one key, and none is special.
func keysAreTakenLiterally(t T, c Config) {
	s := c.New(t)
	revs := map[string]lock.Revision{}
	for _, key := range awkwardKeys() {
		revs[key] = put(t, s, key, "v "+key, lock.IfAbsent())
	}
	for key, rev := range revs {
		wantItem(t, s, key, "v "+key, rev)
	}
	wantScanned(t, s, "", awkwardKeys())
}

func awkwardKeys() []string {
	return []string{
		"a", "a/", "a//", "a/b", "a//b", "/a", "A", "a b", "a%20b", "a+b", "a%2Fb", "é", "e\u0301", "日本語", "\U0001F600",
		".", "..", "a/../b", "*", "a*", "a?", "'a'", "\"a\"", "a\\b", "a\tb", "a\nb", " a", "a ", "#a", "$a", "a:b", "a=b", "{a}",
		"pay/07/00000000000000000042/" + strings.Repeat("0123456789abcdef", 12),
	}
}
