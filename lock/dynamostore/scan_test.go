//go:build unix

package dynamostore_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/txcoord/txcoord/e2e/servers"
	"github.com/txcoord/txcoord/lock"
	"github.com/txcoord/txcoord/lock/dynamostore"
	"github.com/txcoord/txcoord/lock/memstore"
)

// The layout is a format: a build that has another one finds nothing.
func TestLayoutIsPinned(t *testing.T) {
	for key, want := range map[string]string{
		"meta": "rest", "ring": "rest", "open": "rest", "pay/": "rest", "pay/1/x": "rest", "pay/07": "rest", "pay/64/x": "rest", "pay/-1/x": "rest", "pay/071/x": "rest", "payx": "rest",
		"pay/07/x": "pay/07", "pay/63/": "pay/63", "pay/00/00000000000000000042/id/t/d": "pay/00",
		"ring/a/00000000": "ring/00", "ring/a/00000001": "ring/03", "ring/a/00000002": "ring/06", "ring/": "ring/04",
		"open/a": "open/09", "open/b": "open/00",
	} {
		if got := dynamostore.PartitionOf(key); got != want {
			t.Errorf("%q lies in %s, want %s", key, got, want)
		}
	}
}

// Neighbouring slots of the ring, and the ids of transactions, lie apart.
func TestHotKeysAreSpread(t *testing.T) {
	ring, open := map[string]int{}, map[string]int{}
	for i := range 8192 {
		ring[dynamostore.PartitionOf(fmt.Sprintf("ring/0123456789abcdef0123456789abcdef/%08d", i))]++
		open[dynamostore.PartitionOf(fmt.Sprintf("open/%032x", rand.Uint64()))]++
	}
	if len(ring) != 8 || len(open) != 16 {
		t.Errorf("%d and %d partitions", len(ring), len(open))
	}
	for _, n := range ring {
		if n < 512 || n > 2048 {
			t.Errorf("the ring is spread %v", ring)
			break
		}
	}
}

func TestPrefixEnd(t *testing.T) {
	for prefix, want := range map[string]string{
		"": "", "a": "b", "a/": "a0", "é": "ê", "\ud7ff": "\ue000", "a\U0010FFFF": "b", "\U0010FFFF": "", "a\x7f": "a\u0080",
	} {
		if got, ok := dynamostore.PrefixEnd(prefix); got != want || ok != (want != "") {
			t.Errorf("after %q comes %q, %v, want %q", prefix, got, ok, want)
		}
	}
}

// A scan over partitions is one over a store that has none.
func TestScansLikeASimpleStore(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	s := openNew(t, config(servers.StartKumo(t)))
	simple := memstore.New(memstore.Config{})
	var keys []string
	for range 250 {
		key := randomKey(rng)
		for _, store := range []lock.Store{s, simple} {
			if _, err := store.Put(t.Context(), key, []byte(key), lock.Always()); err != nil {
				t.Fatal(err)
			}
		}
		keys = append(keys, key)
	}
	for range 150 {
		prefix, after := part(rng, keys), ""
		if rng.IntN(2) == 0 {
			after = part(rng, keys)
		}
		limit := rng.IntN(20)
		got, want := keysOf(t, s, prefix, after, limit), keysOf(t, simple, prefix, after, limit)
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("scan %q after %q by %d (-want +got):\n%s", prefix, after, limit, d)
		}
	}
}

func randomKey(rng *rand.Rand) string {
	switch rng.IntN(6) {
	case 0:
		return fmt.Sprintf("ring/abc/%08d", rng.IntN(50))
	case 1:
		return fmt.Sprintf("open/%x", rng.IntN(100))
	case 2, 3:
		return fmt.Sprintf("pay/%02d/%d/x", rng.IntN(70), rng.IntN(3))
	case 4:
		return []string{"meta", "pay", "pay/", "pay/x", "ring", "ring0", "open", "openly", "pay/07", "pay/070", "a", "zz"}[rng.IntN(12)]
	default:
		return fmt.Sprintf("checkpoint/%d", rng.IntN(30))
	}
}

// part of a key, or all of it.
func part(rng *rand.Rand, keys []string) string {
	key := keys[rng.IntN(len(keys))]
	return key[:rng.IntN(len(key)+1)]
}

// keysOf collects pages until the empty one.
func keysOf(t *testing.T, s lock.Store, prefix, after string, limit int) (keys []string) {
	t.Helper()
	for {
		page, err := s.Scan(t.Context(), prefix, after, limit)
		if err != nil {
			t.Fatal(err)
		}
		if len(page) == 0 {
			return keys
		}
		if limit > 0 && len(page) > limit {
			t.Fatalf("%d items, limit %d", len(page), limit)
		}
		for _, item := range page {
			keys = append(keys, item.Key)
		}
		after = keys[len(keys)-1]
	}
}

// The pages of a sweep that finds little cost few rounds of requests.
func TestScanAsksFewTimes(t *testing.T) {
	t.Parallel()
	s, proxy := throughProxy(t, servers.StartKumo(t))
	for i := range 3 {
		if _, err := s.Put(t.Context(), fmt.Sprintf("pay/%02d/x", 20*i), nil, lock.IfAbsent()); err != nil {
			t.Fatal(err)
		}
	}
	queries := make(chan servers.Request, 1000)
	proxy.Decide(func(r servers.Request) servers.Fate {
		queries <- r
		return servers.Fate{}
	})
	if got := keysOf(t, s, "pay/", "", 0); len(got) != 3 {
		t.Errorf("got %q", got)
	}
	if got := keysOf(t, s, "pay/20/", "", 0); len(got) != 1 {
		t.Errorf("got %q", got)
	}
	// Once each of the 64 shards and the rest; for the second page, those after the
	// last key; and the one shard, twice.
	if n := len(queries); n > 65+25+2 {
		t.Errorf("%d queries", n)
	}
}
