package coordinator_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/txcoord/txcoord/coordinator"
	"github.com/txcoord/txcoord/twophase"
)

// TestAMovedTagSaysFromWhere: a new tag, and one that stays, say nothing of that kind.
func TestAMovedTagSaysFromWhere(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.create("t", twophase.ModeExclusive)
	w.commit("1", blind("t", "1"))
	for _, c := range []struct {
		to   twophase.SnapshotVersion
		says string
	}{{1, ""}, {1, ""}, {2, "tag x named snapshot 1 until now, and names 2"}, {0, ""}, {1, ""}} {
		warnings, err := w.catalog.Tag(w.ctx(), "x", c.to)
		said := ""
		for _, line := range warnings {
			if strings.HasPrefix(line, "tag x named") {
				said = line
			}
		}
		if err != nil || said != c.says {
			t.Errorf("to %d: %q, want %q, %v", c.to, warnings, c.says, err)
		}
	}
	if tags, err := w.catalog.Tags(w.ctx()); err != nil || fmt.Sprint(tags) != fmt.Sprint([]coordinator.Tag{{Name: "x", Snapshot: 1}}) {
		t.Errorf("%v, %v", tags, err)
	}
}
