package coordinator

import (
	"context"
	"errors"
	"slices"
	"time"
)

// unloaded is why a table could not be read for a commit: damage that nothing older makes up for,
// in what is read for commits alone, such as the files of a checkpoint (tables.Portion). Nothing
// is frozen for it, as the log's end is whole: what is decided is published, and what comes is
// refused. This replica says so until the table can be read again.
type unloaded struct {
	err   *Error
	since time.Time
}

const unloadedRemedy = "put the file back as it was, from a copy or a former version of the bucket; the next look finds out"

// noteLoad keeps what the last reading for a commit said.
func (c *Catalog) noteLoad(t *handle, err error) {
	own, _ := errors.AsType[*Error](err)
	switch was := t.unloaded.Load(); {
	case err == nil:
		t.unloaded.Store(nil)
	case own == nil || own.Reason != LogContradiction:
	case was == nil:
		t.unloaded.Store(&unloaded{own, c.cfg.Now()})
	default:
		t.unloaded.Store(&unloaded{own, was.since})
	}
}

// loadAgain tries once more where that has failed, and says why it does.
func (c *Catalog) loadAgain(ctx context.Context, t *handle) *unloaded {
	if t.unloaded.Load() != nil {
		_, _, _ = c.tables.loaded(ctx, t.id) // which notes what comes of it
	}
	return t.unloaded.Load()
}

// unloadedTables are those that this replica could not read for a commit.
func (c *Catalog) unloadedTables() (out []Trouble) {
	for _, t := range c.tables.those(func(t *handle) bool { return t.unloaded.Load() != nil }) {
		if u := t.unloaded.Load(); u != nil {
			out = append(out, Trouble{Place: t.uri, Text: unreadableText(u.err), Remedy: unloadedRemedy, Since: u.since})
		}
	}
	slices.SortFunc(out, func(a, b Trouble) int { return compare(a.Place, b.Place) })
	return out
}
