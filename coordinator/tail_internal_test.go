package coordinator

import (
	"bytes"
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/txcoord/txcoord/tables"
	"github.com/txcoord/txcoord/tables/objstore/memobj"
	"github.com/txcoord/txcoord/tables/objstore/objtest"
)

// Commits that a tail or a view lacks are read several at once, and no more than fit into 16 MiB,
// whatever is in them: 320 of those that other engines write may take more than a machine has.
func TestLargeCommitsAreReadFewAtOnce(t *testing.T) {
	var mu sync.Mutex
	now, most := 0, 0
	count := func(by int) {
		mu.Lock()
		defer mu.Unlock()
		now += by
		most = max(most, now)
	}
	objects := memobj.New()
	log := tables.NewLog(tables.LogConfig{Key: "t", URI: "s3://b/t", ReadAhead: 64, Store: objtest.Faulty{Store: objects, Hook: func(_ context.Context, op objtest.Op) objtest.Fate {
		if op.Kind == objtest.Get {
			count(1)
			time.Sleep(5 * time.Millisecond)
			count(-1)
		}
		return objtest.Done()
	}}})
	line := append(append([]byte(`{"commitInfo":{"x":"`), bytes.Repeat([]byte("x"), 3<<20)...), "\"}}\n"...)
	for v := range 24 {
		if err := objects.PutIfAbsent(t.Context(), fmt.Sprintf("t/_delta_log/%020d.json", v), line); err != nil {
			t.Fatal(err)
		}
	}
	used := 0
	err := eachCommit(t.Context(), log, 1, 21, func(*tables.Commit) error { used++; return nil })
	if err != nil || used != 20 || most > 5 || most < 2 {
		t.Errorf("%d were used, %d were read at once: %v", used, most, err)
	}
}
