//go:build unix

package etcdstore_test

import (
	"bytes"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/txcoord/txcoord/e2e/servers"
	"github.com/txcoord/txcoord/lock"
	"github.com/txcoord/txcoord/lock/etcdstore"
)

// The puts of a journal: 4 KB under a condition, alone and with payloads beside it.
func BenchmarkPut(b *testing.B) {
	e := servers.StartEtcd(b, servers.EtcdConfig{})
	s, err := etcdstore.Open(b.Context(), fresh(e.Endpoints()...))
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	value := bytes.Repeat([]byte("v"), 4<<10)
	var n atomic.Int64
	for _, beside := range []int{0, 10} {
		for _, parallel := range []int{1, 32} {
			b.Run(fmt.Sprintf("beside=%d/parallel=%d", beside, parallel), func(b *testing.B) {
				b.SetParallelism(parallel)
				b.RunParallel(func(pb *testing.PB) {
					for pb.Next() {
						i := n.Add(1)
						var with []lock.Write
						for j := range beside {
							with = append(with, lock.Write{Key: fmt.Sprintf("pay/%d/%d", i, j), Value: value[:500]})
						}
						if _, err := s.PutBatch(b.Context(), fmt.Sprintf("ring/%d", i), value, lock.IfAbsent(), with); err != nil {
							b.Error(err)
							return
						}
					}
				})
			})
		}
	}
}
