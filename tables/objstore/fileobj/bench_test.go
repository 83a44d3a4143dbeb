package fileobj_test

import (
	"bytes"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/txcoord/txcoord/tables/objstore/fileobj"
)

// commit is of the size of a small commit file.
var commit = bytes.Repeat([]byte("x"), 2000)

func BenchmarkPutIfAbsent(b *testing.B) {
	s := open(b, b.TempDir(), fileobj.Config{})
	for i := 0; b.Loop(); i++ {
		if err := s.PutIfAbsent(b.Context(), fmt.Sprintf("_delta_log/%020d.json", i), commit); err != nil {
			b.Fatal(err)
		}
	}
}

// One put in flight in each of ten folders, as a round over ten tables has.
func BenchmarkPutIfAbsentTenFolders(b *testing.B) {
	s := open(b, b.TempDir(), fileobj.Config{})
	var n atomic.Int64
	b.SetParallelism(5)
	b.RunParallel(func(pb *testing.PB) {
		table := n.Add(1)
		for i := 0; pb.Next(); i++ {
			if err := s.PutIfAbsent(b.Context(), fmt.Sprintf("t%d/_delta_log/%020d.json", table, i), commit); err != nil {
				b.Error(err)
			}
		}
	})
}
