//go:build unix

package etcdstore_test

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/txcoord/txcoord/e2e/servers"
	"github.com/txcoord/txcoord/lock"
)

func writes(n, size int) []lock.Write {
	var all []lock.Write
	for i := range n {
		all = append(all, lock.Write{Key: fmt.Sprintf("pay/%d/%d", size, i), Value: bytes.Repeat([]byte{byte(i)}, size)})
	}
	return all
}

// Batches of any number and size are written: what does not fit one transaction
// goes into others.
func TestLargeBatches(t *testing.T) {
	t.Parallel()
	e := servers.StartEtcd(t, servers.EtcdConfig{})
	s := open(t, patient(e.Endpoints()...))
	for i, with := range [][]lock.Write{writes(123, 1), writes(124, 2), writes(125, 3), writes(600, 10), writes(9, 500_000), writes(3, maxValue)} {
		key := fmt.Sprint("k/", i)
		rev, err := s.PutBatch(t.Context(), key, bytes.Repeat([]byte("v"), 400_000), lock.IfAbsent(), with)
		if err != nil {
			t.Fatalf("batch %d: %v", i, err)
		}
		if item, err := s.Get(t.Context(), key); err != nil || item.Revision != rev {
			t.Errorf("batch %d: %s, %v", i, item.Revision, err)
		}
		for _, w := range with {
			if item, err := s.Get(t.Context(), w.Key); err != nil || !bytes.Equal(item.Value, w.Value) {
				t.Errorf("batch %d: %s: %v", i, w.Key, err)
			}
		}
	}
}

func TestBatchWithOneKeyTwice(t *testing.T) {
	t.Parallel()
	e := servers.StartEtcd(t, servers.EtcdConfig{})
	s := open(t, patient(e.Endpoints()...))
	with := []lock.Write{{Key: "w", Value: []byte("first")}, {Key: "other"}, {Key: "w", Value: []byte("last")}}
	if _, err := s.PutBatch(t.Context(), "k", nil, lock.IfAbsent(), with); err != nil {
		t.Fatal(err)
	}
	if item, err := s.Get(t.Context(), "w"); err != nil || string(item.Value) != "last" {
		t.Errorf("%q, %v", item.Value, err)
	}
	if _, err := s.PutBatch(t.Context(), "k", nil, lock.Always(), []lock.Write{{Key: "k"}}); err == nil {
		t.Error("a key stands beside itself")
	}
}

// Large values make a page short, not the answer large.
func TestScanOfLargeValues(t *testing.T) {
	t.Parallel()
	e := servers.StartEtcd(t, servers.EtcdConfig{})
	s := open(t, patient(e.Endpoints()...))
	for _, w := range append(writes(40, 1<<20), writes(300, 10)...) {
		if _, err := s.Put(t.Context(), w.Key, w.Value, lock.Always()); err != nil {
			t.Fatal(err)
		}
	}
	after, n := "", 0
	for {
		page, err := s.Scan(t.Context(), "pay/", after, 0)
		if err != nil {
			t.Fatal(err)
		}
		if len(page) == 0 {
			break
		}
		n += len(page)
		after = page[len(page)-1].Key
	}
	if n != 340 {
		t.Errorf("%d keys, want 340", n)
	}
}
