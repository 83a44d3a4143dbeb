package coordinator_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/txcoord/txcoord/coordinator"
	"github.com/txcoord/txcoord/twophase"
)

// An idle table that nobody else writes is dropped: that is noticed by its owner
// object, and no transaction over it is decided then.
func TestDroppedWhileIdle(t *testing.T) {
	for _, mode := range []twophase.Mode{twophase.ModeExclusive, twophase.ModeFenced, twophase.ModeOpen} {
		t.Run(mode.String(), func(t *testing.T) {
			t.Parallel()
			w := &world{files: true}
			w.cfg.Limits = coordinator.Limits{OwnerInterval: 20 * time.Millisecond}
			w.open(t)
			w.create("idle", mode)
			w.create("other", twophase.ModeOpen)
			w.commit("before", blind("idle", "a"), blind("other", "a"))
			if err := os.RemoveAll(filepath.Join(w.dir, "idle")); err != nil {
				t.Fatal(err)
			}
			w.eventually("the drop is noticed", func() bool {
				f := w.info("idle").Frozen
				return f != nil && f.Cause == twophase.CauseReplaced
			})
			_, err := w.try("after", blind("idle", "b"), blind("other", "b"))
			wantReason(t, "a commit over a dropped table", err, coordinator.TableFrozen)
			w.commit("alone", blind("other", "c"))
		})
	}
}
