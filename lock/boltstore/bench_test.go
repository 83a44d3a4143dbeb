package boltstore_test

import (
	"bytes"
	"fmt"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/txcoord/txcoord/lock"
	"github.com/txcoord/txcoord/lock/boltstore"
)

// entry is of the size of a journal entry with a few records.
var entry = bytes.Repeat([]byte("e"), 2000)

func openStore(tb testing.TB) *boltstore.Store {
	tb.Helper()
	s, err := boltstore.Open(filepath.Join(tb.TempDir(), "store.db"), boltstore.Config{})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := s.Close(); err != nil {
			tb.Error(err)
		}
	})
	return s
}

// Appends to a ring, as the journal does.
func BenchmarkPut(b *testing.B) {
	s := openStore(b)
	const slots = 512
	revs := make([]lock.Revision, slots)
	for i := 0; b.Loop(); i++ {
		cond := lock.IfAbsent()
		if rev := revs[i%slots]; rev != "" {
			cond = lock.IfRevision(rev)
		}
		rev, err := s.Put(b.Context(), fmt.Sprintf("ring/1/%04d", i%slots), entry, cond)
		if err != nil {
			b.Fatal(err)
		}
		revs[i%slots] = rev
	}
}

func BenchmarkPut64Parallel(b *testing.B) {
	s := openStore(b)
	var writers atomic.Int64
	b.SetParallelism(32) // Times two processors.
	b.RunParallel(func(pb *testing.PB) {
		w := writers.Add(1)
		for i := 0; pb.Next(); i++ {
			if _, err := s.Put(b.Context(), fmt.Sprintf("pay/%02d/%06d", w, i%100), entry, lock.Always()); err != nil {
				b.Error(err)
			}
		}
	})
	b.ReportMetric(float64(writers.Load()), "writers")
}

func BenchmarkGet(b *testing.B) {
	s := openStore(b)
	if _, err := s.Put(b.Context(), "k", entry, lock.Always()); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if _, err := s.Get(b.Context(), "k"); err != nil {
			b.Fatal(err)
		}
	}
}
