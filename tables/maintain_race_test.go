package tables_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/txcoord/txcoord/tables"
	"github.com/txcoord/txcoord/twophase"
)

// TestKeepersAtOnce: several keepers make checkpoints and remove what has expired,
// which is everything that may, while somebody commits. Each may run into what
// another one has removed; the table never suffers.
func TestKeepersAtOnce(t *testing.T) {
	for _, policy := range []string{"classic", "v2"} {
		t.Run(policy, func(t *testing.T) {
			k := newKept(t)
			k.cfg.SidecarRows = 10
			k.commit(featureProtocol([]string{"v2Checkpoint"}, []string{"v2Checkpoint"}), metaOf(schemaJSON, nil,
				fmt.Sprintf(`"delta.checkpointPolicy":%q,"delta.logRetentionDuration":"interval 1 days"`, policy)))
			k.ages["0"], k.ages["_sidecars/"] = 3*day, 0
			ctx, stop := context.WithCancel(t.Context())
			var work sync.WaitGroup
			var written, removed atomic.Int64
			for range 2 {
				work.Go(func() { keepOn(ctx, k.cfg, &written, &removed) })
			}
			const versions = 10
			for v := twophase.Version(1); v <= versions; v++ {
				lines := text(addLine(fmt.Sprint("f", v)), txnLine("txcoord/c", int64(v)))
				if v%2 == 0 {
					lines = append(lines, text(removedAt(fmt.Sprint("f", v-1), time.Hour))...)
				}
				if err := k.log.PutCommit(ctx, v, lines); err != nil {
					t.Fatal(err)
				}
				before := written.Load()
				for end := time.Now().Add(300 * time.Millisecond); written.Load() == before && time.Now().Before(end); {
					time.Sleep(time.Millisecond)
				}
			}
			for end := time.Now().Add(time.Minute); written.Load() == 0 || removed.Load() == 0; time.Sleep(time.Millisecond) {
				if time.Now().After(end) {
					t.Fatalf("%d checkpoints were written and %d objects removed", written.Load(), removed.Load())
				}
			}
			stop()
			work.Wait()
			k.next = versions + 1
			k.checkpoint()
			contiguous(t, k)
			if s := k.state(); s.Version() != versions || s.NumFiles() != versions/2 || s.Marker("c") != versions {
				t.Errorf("version %d, %d files, marker %d", s.Version(), s.NumFiles(), s.Marker("c"))
			}
			k.without(isCommit)
			if s := k.state(); s.NumFiles() != versions/2 || s.Marker("c") != versions {
				t.Errorf("from the checkpoint: %d files, marker %d", s.NumFiles(), s.Marker("c"))
			}
		})
	}
}

// keepOn does a keeper's work until it is stopped. What goes wrong is for the next round.
func keepOn(ctx context.Context, cfg tables.KeeperConfig, written, removed *atomic.Int64) {
	for ctx.Err() == nil {
		keeper := tables.NewKeeper(cfg)
		s, err := keeper.Survey(ctx, tables.Latest)
		if err != nil {
			continue
		}
		if c, err := keeper.Checkpoint(ctx, s, nil); err == nil && !c.Existed {
			written.Add(1)
		}
		if p, err := keeper.PlanCleanUp(ctx, s, tables.CleanUpRules{UpTo: s.At}); err == nil {
			n, _, _ := keeper.CleanUp(ctx, p, nil)
			removed.Add(int64(n))
		}
	}
}
