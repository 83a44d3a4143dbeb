package objtest

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/txcoord/txcoord/tables/objstore"
)

func listingCases() []Case {
	return []Case{
		{Name: "ListIsInByteOrder", Run: listIsInByteOrder},
		{Name: "ListMissesNothing", Run: listMissesNothing},
		{Name: "ListHonoursThePrefix", Run: listHonoursThePrefix},
		{Name: "ListStartsAfter", Run: listStartsAfter},
		{Name: "DelimiterFoldsFolders", Run: delimiterFoldsFolders},
		{Name: "ListFollowsPutsAndDeletes", Run: listFollowsPutsAndDeletes},
		{Name: "ListCanBeLeft", Run: listCanBeLeft},
		{Name: "BadPrefixesFindNothing", Run: badPrefixesFindNothing},
	}
}

// list collects a listing.
func list(t T, s objstore.Store, o objstore.ListOptions) []objstore.Entry {
	t.Helper()
	var entries []objstore.Entry
	for e, err := range s.List(t.Context(), o) {
		if err != nil {
			t.Fatalf("list %+v: %v", o, err)
		}
		entries = append(entries, e)
	}
	return entries
}

// names are the keys, and the prefixes, of a listing.
func names(entries []objstore.Entry) []string {
	var out []string
	for _, e := range entries {
		out = append(out, e.Prefix+e.Key)
	}
	return out
}

func wantListed(t T, s objstore.Store, o objstore.ListOptions, want []string) {
	t.Helper()
	if got := names(list(t, s, o)); !slices.Equal(got, want) {
		t.Errorf("list %+v:\n got %q\nwant %q", o, got, want)
	}
}

func sorted(keys []string) []string { return slices.Sorted(slices.Values(keys)) }

// tricky are keys whose byte order is not the order in which a walk of folders
// meets them: "a.x" < "a/…" < "a0", though the folder is called "a".
func tricky() []string {
	return []string{
		"a.x", "a/b", "a/b.c", "a/c/d", "a/c/e", "a/c0", "a/c-", "a/é", "a0", "a-", "A", "z/1", "z/10", "z/2",
		"_delta_log/00000000000000000009.json", "_delta_log/00000000000000000010.json",
		"_delta_log/00000000000000000010.checkpoint.parquet", "_delta_log/_last_checkpoint",
		"_delta_log/_sidecars/x.parquet", "_delta_log/_txcoord/owner.json",
	}
}

// fill puts objects, some at a time.
func fill(t T, s objstore.Store, keys []string) {
	t.Helper()
	const writers = 16
	race(writers, func(i int) {
		for ; i < len(keys); i += writers {
			reportErr(t, s.Put(t.Context(), keys[i], []byte(keys[i])))
		}
	})
}

// listIsInByteOrder looks at the order alone, and listMissesNothing at the set.
func listIsInByteOrder(t T, c Config) {
	s := c.New(t)
	fill(t, s, tricky())
	for _, o := range []objstore.ListOptions{{}, {Prefix: "a"}, {Delimiter: true}, {Prefix: "a/", Delimiter: true}, {StartAfter: "a"}} {
		if got := names(list(t, s, o)); !slices.IsSorted(got) {
			t.Errorf("list %+v is not in byte order: %q", o, got)
		}
	}
}

// listMissesNothing has more keys than any store puts on a page.
func listMissesNothing(t T, c Config) {
	s := c.New(t)
	var keys []string
	for i := range 2100 {
		keys = append(keys, fmt.Sprintf("many/%d/%04d", i%2, i))
	}
	fill(t, s, keys)
	if got := sorted(names(list(t, s, objstore.ListOptions{}))); !slices.Equal(got, sorted(keys)) {
		t.Errorf("list yields %d keys, want %d; differs from what was put", len(got), len(keys))
	}
	after := objstore.ListOptions{Prefix: "many/1/", StartAfter: "many/1/0099"}
	if got := names(list(t, s, after)); len(got) != 1000 {
		t.Errorf("list %+v yields %d keys, want 1000", after, len(got))
	}
}

func listHonoursThePrefix(t T, c Config) {
	s := c.New(t)
	fill(t, s, tricky())
	for _, prefix := range []string{"", "a", "a/", "a/b", "a/c", "a/c/", "a/c/d", "a/c/dd", "b", "b/", "a.", "_delta_log/0000", "z/1", "zz", "a/é", "A/"} {
		var want []string
		for _, key := range sorted(tricky()) {
			if strings.HasPrefix(key, prefix) {
				want = append(want, key)
			}
		}
		wantListed(t, s, objstore.ListOptions{Prefix: prefix}, want)
	}
}

func listStartsAfter(t T, c Config) {
	s := c.New(t)
	fill(t, s, tricky())
	for _, after := range []string{"", "A", "a", "a.", "a.x", "a/", "a/b", "a/bb", "a/c/", "a/c/d", "a/c/z", "a/cc", "a0", "z/1", "z/2", "zz", "_delta_log/00000000000000000009.json"} {
		for _, prefix := range []string{"", "a/", "a/c", "z/", "_delta_log/"} {
			var want []string
			for _, key := range sorted(tricky()) {
				if strings.HasPrefix(key, prefix) && key > after {
					want = append(want, key)
				}
			}
			wantListed(t, s, objstore.ListOptions{Prefix: prefix, StartAfter: after}, want)
		}
	}
}

// delimiterFoldsFolders leaves open whether the folder in which StartAfter lies is
// listed: stores differ, and nobody should depend on it.
func delimiterFoldsFolders(t T, c Config) {
	s := c.New(t)
	fill(t, s, tricky())
	for _, o := range []struct {
		prefix, after string
		want          []string
	}{
		{"", "", []string{"A", "_delta_log/", "a-", "a.x", "a/", "a0", "z/"}},
		{"a", "", []string{"a-", "a.x", "a/", "a0"}},
		{"a/", "", []string{"a/b", "a/b.c", "a/c-", "a/c/", "a/c0", "a/é"}},
		{"a/c", "", []string{"a/c-", "a/c/", "a/c0"}},
		{"a/c/", "", []string{"a/c/d", "a/c/e"}},
		{"a/c/d", "", []string{"a/c/d"}},
		{"none/", "", nil},
		{"a/", "a/b", []string{"a/b.c", "a/c-", "a/c/", "a/c0", "a/é"}},
		{"a/", "a/c0", []string{"a/é"}},
		{"_delta_log/", "_delta_log/00000000000000000009.json", []string{
			"_delta_log/00000000000000000010.checkpoint.parquet", "_delta_log/00000000000000000010.json",
			"_delta_log/_last_checkpoint", "_delta_log/_sidecars/", "_delta_log/_txcoord/",
		}},
	} {
		wantListed(t, s, objstore.ListOptions{Prefix: o.prefix, StartAfter: o.after, Delimiter: true}, o.want)
	}
}

func listFollowsPutsAndDeletes(t T, c Config) {
	s := c.New(t)
	other := c.second(t, s)
	wantListed(t, s, objstore.ListOptions{}, nil)
	must(t, s.PutIfAbsent(t.Context(), "log/1", nil))
	wantListed(t, other, objstore.ListOptions{}, []string{"log/1"})
	must(t, other.PutIfAbsent(t.Context(), "log/2", nil))
	wantListed(t, s, objstore.ListOptions{Prefix: "log/", Delimiter: true}, []string{"log/1", "log/2"})
	must(t, s.Delete(t.Context(), "log/1"))
	wantListed(t, other, objstore.ListOptions{Prefix: "log/"}, []string{"log/2"})
}

// listCanBeLeft breaks off, and is broken off.
func listCanBeLeft(t T, c Config) {
	s := c.New(t)
	fill(t, s, tricky())
	for _, err := range s.List(t.Context(), objstore.ListOptions{}) {
		if err != nil {
			t.Fatalf("list: %v", err)
		}
		break
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	entries, errs := 0, 0
	for _, err := range s.List(ctx, objstore.ListOptions{}) {
		if err != nil {
			errs++
			continue
		}
		entries++
		cancel()
	}
	if errs > 1 || errs == 0 && entries != len(tricky()) {
		t.Errorf("a listing that was cancelled yields %d of %d entries and %d errors", entries, len(tricky()), errs)
	}
}

func badPrefixesFindNothing(t T, c Config) {
	s := c.New(t)
	fill(t, s, tricky())
	for _, prefix := range []string{"/", "/a", "../", "a/../a/", "a//", "./a"} {
		for e, err := range s.List(t.Context(), objstore.ListOptions{Prefix: prefix}) {
			if err == nil {
				t.Errorf("list %q yields %+v", prefix, e)
			}
		}
	}
}
