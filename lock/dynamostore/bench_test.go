//go:build unix

package dynamostore_test

import (
	"bytes"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/txcoord/txcoord/e2e/servers"
	"github.com/txcoord/txcoord/lock"
	"github.com/txcoord/txcoord/lock/dynamostore"
)

// The puts of a journal, 4 KB under a condition. The server shares the machine.
func BenchmarkPut(b *testing.B) {
	cfg := config(servers.StartKumo(b))
	if _, err := dynamostore.Init(b.Context(), cfg); err != nil {
		b.Fatal(err)
	}
	s, err := dynamostore.Open(b.Context(), cfg)
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	value := bytes.Repeat([]byte("v"), 4<<10)
	var n atomic.Int64
	for _, parallel := range []int{1, 32} {
		b.Run(fmt.Sprintf("parallel=%d", parallel), func(b *testing.B) {
			b.SetParallelism(parallel)
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					if _, err := s.Put(b.Context(), fmt.Sprintf("ring/%d", n.Add(1)), value, lock.IfAbsent()); err != nil {
						b.Error(err)
						return
					}
				}
			})
		})
	}
}
