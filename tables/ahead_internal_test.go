package tables

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/txcoord/txcoord/tables/objstore/memobj"
	"github.com/txcoord/txcoord/tables/objstore/objtest"
	"github.com/txcoord/txcoord/twophase"
)

func TestCommitsAreReadAhead(t *testing.T) {
	for readAhead, want := range map[int]int64{0: 64, 16: 16} {
		synctest.Test(t, func(t *testing.T) {
			var now, most atomic.Int64
			s := objtest.Faulty{Store: memobj.New(), Hook: func(_ context.Context, op objtest.Op) objtest.Fate {
				if op.Kind == objtest.Get && objtest.Layout(op.Key) == "commit" {
					most.Store(max(most.Load(), now.Add(1)))
					time.Sleep(time.Millisecond)
					now.Add(-1)
				}
				return objtest.Done()
			}}
			log := NewLog(LogConfig{Store: s, Key: "t", URI: "s3://b/t", ReadAhead: readAhead})
			for v := range twophase.Version(200) {
				data := fmt.Appendf(nil, `{"protocol":{"minReaderVersion":1,"minWriterVersion":2}}
{"metaData":{"id":"x","format":{"provider":"parquet"},"schemaString":"{\"type\":\"struct\",\"fields\":[]}","partitionColumns":[],"configuration":{"v":"%d"}}}`, v)
				if err := s.PutIfAbsent(t.Context(), log.CommitKey(v), data); err != nil {
					t.Fatal(err)
				}
			}
			if _, _, err := log.Load(t.Context(), 199); err != nil || most.Load() != want {
				t.Errorf("%d: %d at once, %v", readAhead, most.Load(), err)
			}
		})
	}
}
