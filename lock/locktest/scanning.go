package locktest

import (
	"fmt"
	"slices"
	"strings"

	"github.com/txcoord/txcoord/lock"
)

func scanCases() []Case {
	return []Case{
		{Name: "ScanIsOrdered", Run: scanIsOrdered},
		{Name: "ScanMissesNothing", Run: scanMissesNothing},
		{Name: "ScanHonoursThePrefix", Run: scanHonoursThePrefix},
		{Name: "ScanStartsAfter", Run: scanStartsAfter},
		{Name: "ScanKeepsTheLimit", Run: scanKeepsTheLimit},
		{Name: "ScanSeesTheLastPut", Run: scanSeesTheLastPut},
		{Name: "ScanCarriesTheItems", Run: scanCarriesTheItems},
	}
}

// scanAll collects pages until the empty one.
func scanAll(t T, s lock.Store, prefix, after string, limit int) []lock.Item {
	t.Helper()
	var all []lock.Item
	for {
		page, err := s.Scan(t.Context(), prefix, after, limit)
		if err != nil {
			t.Fatalf("scan %q after %q: %v", prefix, after, err)
		}
		if len(page) == 0 {
			return all
		}
		last := page[len(page)-1].Key
		if last <= after {
			t.Fatalf("scan %q after %q ends at %q: it would never end", prefix, after, last)
		}
		all, after = append(all, page...), last
	}
}

func keysOf(items []lock.Item) []string {
	var keys []string
	for _, item := range items {
		keys = append(keys, item.Key)
	}
	return keys
}

// wantScanned checks the keys of a scan.
func wantScanned(t T, s lock.Store, prefix string, want []string) {
	t.Helper()
	got := keysOf(scanAll(t, s, prefix, "", 0))
	if want = slices.Sorted(slices.Values(want)); !slices.Equal(got, want) {
		t.Errorf("scan %q:\n got %q\nwant %q", prefix, got, want)
	}
}

// fill puts keys in an order that is not theirs, each with itself as its value.
func fill(t T, s lock.Store, keys []string) {
	t.Helper()
	const writers = 16
	race(writers, func(w int) {
		for i := len(keys) - 1 - w; i >= 0; i -= writers {
			if _, err := s.Put(t.Context(), keys[i], []byte(keys[i]), lock.IfAbsent()); err != nil {
				t.Errorf("put %q: %v", keys[i], err)
			}
		}
	})
}

// manyKeys are more than a store reads at once, of lengths that mix.
func manyKeys() []string {
	var keys []string
	for i := range 2500 {
		keys = append(keys, fmt.Sprintf("many/%d", i))
	}
	return keys
}

// scanIsOrdered looks at the order alone, and scanMissesNothing at the set.
func scanIsOrdered(t T, c Config) {
	s := c.New(t)
	fill(t, s, append(manyKeys(), awkwardKeys()...))
	for _, prefix := range []string{"", "many/", "a"} {
		page, err := s.Scan(t.Context(), prefix, "", 0)
		must(t, err)
		if got := keysOf(page); !slices.IsSorted(got) {
			t.Errorf("scan %q is not in byte order: %q", prefix, got[:min(len(got), 20)])
		}
	}
}

func scanMissesNothing(t T, c Config) {
	s := c.New(t)
	fill(t, s, manyKeys())
	want := slices.Sorted(slices.Values(manyKeys()))
	for _, limit := range []int{0, 7, 1000, 5000} {
		got := keysOf(scanAll(t, s, "", "", limit))
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Errorf("scan by pages of %d yields %d keys, want %d, missing %q", limit, len(got), len(want), missing(got, want))
		}
	}
}

func missing(got, want []string) []string {
	return slices.DeleteFunc(slices.Clone(want), func(key string) bool { return slices.Contains(got, key) })
}

// edges are keys at which a prefix, taken for a range, begins and ends.
func edges() []string {
	return []string{"a", "a.", "a/", "a/1", "a/10", "a/2", "a/\u007f", "a/ÿ", "a/\U0010FFFF", "a0", "b", "b/", "b/1", "\U0010FFFF", "\U0010FFFF/1"}
}

func scanHonoursThePrefix(t T, c Config) {
	s := c.New(t)
	fill(t, s, edges())
	for _, prefix := range append(edges(), "", "a/3", "c", "0", "b/1/") {
		var want []string
		for _, key := range edges() {
			if strings.HasPrefix(key, prefix) {
				want = append(want, key)
			}
		}
		wantScanned(t, s, prefix, want)
	}
}

func scanStartsAfter(t T, c Config) {
	s := c.New(t)
	fill(t, s, edges())
	for _, prefix := range []string{"", "a/", "a/1", "b"} {
		for _, after := range append(edges(), "", "A", "a/11", "zz") {
			var want []string
			for _, key := range slices.Sorted(slices.Values(edges())) {
				if strings.HasPrefix(key, prefix) && key > after {
					want = append(want, key)
				}
			}
			if got := keysOf(scanAll(t, s, prefix, after, 0)); !slices.Equal(got, want) {
				t.Errorf("scan %q after %q:\n got %q\nwant %q", prefix, after, got, want)
			}
		}
	}
}

// scanKeepsTheLimit: a page may be shorter than asked for, but only the end is empty.
func scanKeepsTheLimit(t T, c Config) {
	s := c.New(t)
	fill(t, s, edges())
	for limit := 1; limit <= len(edges())+1; limit++ {
		page, err := s.Scan(t.Context(), "", "", limit)
		must(t, err)
		if len(page) == 0 || len(page) > limit {
			t.Errorf("a page of at most %d has %d items", limit, len(page))
		}
		if got := scanAll(t, s, "", "", limit); len(got) != len(edges()) {
			t.Errorf("pages of %d yield %d items, want %d", limit, len(got), len(edges()))
		}
	}
	if page, err := s.Scan(t.Context(), "", "\U0010FFFF\U0010FFFF", 0); err != nil || len(page) != 0 {
		t.Errorf("scan after the last key: %d items, %v", len(page), err)
	}
}

func scanSeesTheLastPut(t T, c Config) {
	s := c.New(t)
	other := c.client(t, s)
	var keys []string
	for i := range 30 {
		key := fmt.Sprintf("k/%02d", i)
		put(t, s, key, key, lock.IfAbsent())
		keys = append(keys, key)
		wantScanned(t, s, "k/", keys)
		wantScanned(t, other, "k/", keys)
	}
	for len(keys) > 0 {
		must(t, s.Delete(t.Context(), keys[0]))
		keys = keys[1:]
		wantScanned(t, other, "k/", keys)
	}
}

func scanCarriesTheItems(t T, c Config) {
	s := c.New(t)
	fill(t, s, edges())
	put(t, s, "a/1", "replaced", lock.Always())
	for _, item := range scanAll(t, s, "", "", 0) {
		wantItem(t, s, item.Key, string(item.Value), item.Revision)
	}
}
