package coordinator

import (
	"context"
	"errors"
	"strings"

	"github.com/txcoord/txcoord/tables/objstore"
)

// quarantineMark is the name of the object, below quarantine/<run>/, that says that the call
// which fills the run may still remove something. It is durable before the run's first copy,
// and goes when every removal of the run was answered. Whoever sees a copy, and after that no
// mark, knows that nobody removes the original any more because of this copy. Without it
// (TestRestoreBesideCollector) a restore finds the original in its place, takes the copy away,
// and then the collector, having looked at its copy before, removes the original.
//
// A collector that dies, or that never learns of a removal, leaves its mark: then the copies
// stay when they are put back, and go by their age.
const quarantineMark = "filling"

func markOf(run string) string { return quarantineFolder + "/" + run + "/" + quarantineMark }

// isMark reports whether an object of the catalog's folder is the mark of a run.
func isMark(key string) bool {
	run, ok := strings.CutPrefix(key, quarantineFolder+"/")
	run, name, _ := strings.Cut(run, "/")
	return ok && run != "" && name == quarantineMark
}

// mark says that this call is filling its run, if it is going to.
func (g *collector) mark(ctx context.Context) error {
	for i := range g.found {
		if k := g.found[i].Kind; k != GarbageDraft && k != GarbageQuarantined {
			g.marked = true
			return g.c.objectsError("", g.c.own.putOnce(ctx, markOf(g.run), []byte(g.run)))
		}
	}
	return nil
}

// unmark takes the mark away, unless the answer to a removal is missing: that may happen yet.
func (g *collector) unmark(ctx context.Context) {
	if !g.marked || g.unanswered {
		return
	}
	if err := g.c.own.store.Delete(ctx, g.c.own.key(markOf(g.run))); err != nil {
		g.skip("quarantine %s stays marked as being filled: %v", g.run, err)
	}
}

// removed notes a removal whose answer is missing.
func (g *collector) removed(err error) error {
	if err != nil {
		g.mu.Lock()
		g.unanswered = true
		g.mu.Unlock()
	}
	return err
}

// filling reports whether somebody may still remove originals of a run's copies. It is asked
// after the copies were listed.
func (c *Catalog) filling(ctx context.Context, run string) (bool, error) {
	_, err := c.own.store.Stat(ctx, c.own.key(markOf(run)))
	if errors.Is(err, objstore.ErrNotFound) {
		return false, nil
	}
	return err == nil, c.objectsError("", err)
}
