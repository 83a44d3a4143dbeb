package coordinator

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/txcoord/txcoord/tables"
	"github.com/txcoord/txcoord/tables/objstore"
	"github.com/txcoord/txcoord/twophase"
)

// altered is a file below a table's recorded version that is a commit, and not the one that was
// recorded. What is put on top rests on the newest version alone (R9), so the table goes on;
// readers of the log see what the file says now, and nothing here is made of it. This replica
// says so from when a renewal or a maintenance met it until the file is back, or cleaned.
type altered struct {
	version twophase.Version
	file    string
	text    string
	since   time.Time
	// was is the identity that was recorded.
	was twophase.Hash
}

const alteredRemedy = "put the file back as it was, from a copy or a former version of the bucket; the next look finds out. txcoord fsck names all such versions"

// noteAltered keeps what a reader of the log met: a LogError of fault Altered.
func (c *Catalog) noteAltered(t *handle, err error) {
	bad, _ := errors.AsType[*tables.LogError](err)
	was, known := c.recorded.noted(t.id)(bad.Version)
	if !known {
		return
	}
	a := &altered{
		version: bad.Version, file: bad.File, since: c.cfg.Now(), was: was,
		text: fmt.Sprintf("version %d of table %s has another content than was recorded (%s): %s. Commits go on; maintenance writes nothing and removes nothing", bad.Version, c.row(t.id).Name, bad.File, bad.Reason),
	}
	if t.alter(a) {
		c.log.Error("a commit below the table's recorded version was altered", "table", t.uri, "version", a.version, "file", a.file)
	}
}

// lookAltered looks once more at what was met, and returns it if it is still so.
func (c *Catalog) lookAltered(ctx context.Context, t *handle) *altered {
	a := t.alteredBy()
	if a == nil {
		return nil
	}
	raw, _, err := t.log.Store.Get(ctx, t.log.CommitKey(a.version), objstore.Range{})
	if err == nil && twophase.HashOf(raw) == a.was || errors.Is(err, objstore.ErrNotFound) {
		t.mended(a)
		return nil
	}
	return a
}

// alteredTables are those whose logs this replica met altered, and which are so still.
func (c *Catalog) alteredTables(ctx context.Context) (out []Trouble) {
	ctx, cancel := context.WithTimeout(ctx, latestWait)
	defer cancel()
	for _, t := range c.tables.those(func(t *handle) bool { return t.alteredBy() != nil }) {
		if c.troubles.hanging(t.uri) {
			continue
		}
		if a := c.lookAltered(ctx, t); a != nil {
			out = append(out, Trouble{Place: t.uri, Text: a.text, Remedy: alteredRemedy, Since: a.since})
		}
	}
	slices.SortFunc(out, func(a, b Trouble) int { return compare(a.Place, b.Place) })
	return out
}

// alter notes that a commit was altered; true if that is new.
func (t *handle) alter(a *altered) bool {
	t.sightMu.Lock()
	defer t.sightMu.Unlock()
	if was := t.altered; was != nil && was.version == a.version {
		return false
	}
	t.altered = a
	return true
}

func (t *handle) alteredBy() *altered {
	t.sightMu.Lock()
	defer t.sightMu.Unlock()
	return t.altered
}

// mended takes back what was noted, unless something else was since.
func (t *handle) mended(a *altered) {
	t.sightMu.Lock()
	defer t.sightMu.Unlock()
	if t.altered == a {
		t.altered = nil
	}
}
