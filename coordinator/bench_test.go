package coordinator_test

import (
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/txcoord/txcoord/coordinator"
	"github.com/txcoord/txcoord/twophase"
)

// BenchmarkCommit is one writer, PUBLISHED, over so many tables that nobody else
// writes. Allocations are those of the whole process: intake, append, publication.
func BenchmarkCommit(b *testing.B) {
	for _, n := range []int{1, 10, 50} {
		b.Run(fmt.Sprintf("tables=%d", n), func(b *testing.B) {
			w := newWorld(b)
			var names []string
			for i := range n {
				names = append(names, fmt.Sprintf("t%d", i))
				w.create(names[i], twophase.ModeExclusive)
			}
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				req := coordinator.OnceRequest{Key: fmt.Sprint("k", i)}
				for _, name := range names {
					req.Tables = append(req.Tables, blind(name, fmt.Sprintf("f%d.parquet", i)))
				}
				if _, _, err := w.catalog.CommitOnce(b.Context(), req); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkHotTable is 64 writers on one table.
func BenchmarkHotTable(b *testing.B) {
	w := newWorld(b)
	w.create("hot", twophase.ModeExclusive)
	var next atomic.Int64
	b.ResetTimer()
	var wg sync.WaitGroup
	for range 64 {
		wg.Go(func() {
			for {
				i := next.Add(1)
				if i > int64(b.N) {
					return
				}
				req := coordinator.OnceRequest{Key: fmt.Sprint("k", i), Tables: []coordinator.OnceTable{blind("hot", fmt.Sprintf("f%d.parquet", i))}}
				if _, _, err := w.catalog.CommitOnce(b.Context(), req); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
}

// BenchmarkBurst commits 30,000 transactions on one table at once; ns/op is that of
// one of them.
func BenchmarkBurst(b *testing.B) {
	w := newWorld(b)
	w.create("hot", twophase.ModeExclusive)
	const n = 30_000
	for i := 0; b.Loop(); i++ {
		d := w.timeBurst(fmt.Sprint("burst", i), n)
		b.ReportMetric(float64(d.Nanoseconds())/n, "ns/txn")
	}
}

func (w *world) timeBurst(name string, n int) time.Duration {
	runtime.GC()
	began := time.Now()
	w.hotBurst(name, n)
	return time.Since(began)
}
