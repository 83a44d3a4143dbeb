package coordinator

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/txcoord/txcoord/tables"
	"github.com/txcoord/txcoord/twophase"
)

// torn is a file above a table's recorded version that is there, and no whole commit: of a
// writer that died, or is not done. No version is put there, and nothing on top of it, until
// it is whole, or gone.
type torn struct {
	version      twophase.Version
	file         string
	text, remedy string
	since        time.Time
}

const (
	tornWords  = " is no whole commit: "
	removeTorn = "whoever may remove files there takes it away"
	tornRemedy = "once it is whole, the table goes on by itself; if its writer is gone for good, "
)

// tornBy is what is said of a version that a walk has read; nil if it is not torn.
func (c *Catalog) tornBy(t *handle, err error) *torn {
	bad, ok := errors.AsType[*tables.LogError](err)
	if !ok || !bad.InPart() {
		return nil
	}
	return &torn{
		version: bad.Version, file: bad.File, since: c.cfg.Now(),
		text: fmt.Sprintf("version %d of table %s%s%s %s; another writer left it like that, or is not done",
			bad.Version, c.row(t.id).Name, tornWords, bad.File, bad.Ailment()),
		remedy: tornRemedy + mendTorn(bad),
	}
}

// mendTorn is what an operator does who knows that the writer does not come back.
func mendTorn(bad *tables.LogError) string {
	switch {
	case bad.Fault == tables.Empty:
		return removeTorn + ", and ends the sessions of engines that read the table since (Spark takes an empty file for a commit without actions)"
	case bad.Fault == tables.Torn || bad.NotJSON:
		return removeTorn + " (no engine reads past it)"
	default:
		return "and no engine has read that version, " + removeTorn
	}
}

// err is the answer to whoever needs the version. read is what reading it said, and bad what
// logError makes of that.
func (f *torn) err(read, bad error) error {
	own, ok := errors.AsType[*Error](bad)
	if !ok {
		return bad
	}
	out := *own
	out.Message, out.Cause = f.text+"; "+f.remedy, &tornError{read, f}
	return &out
}

// tornError is what reading a torn commit said, and what that means.
type tornError struct {
	error
	torn *torn
}

func (e *tornError) Unwrap() error { return e.error }

// torn reports whether a torn commit froze it. Its log is looked at all the same.
func (f *FrozenDetail) torn() bool { return f != nil && f.ground == twophase.GroundTorn }

// tornAt is what a table's last walk found torn; nil if nothing.
func (h *handles) tornAt(id twophase.TableID) *torn {
	if t := h.peek(id); t != nil {
		return t.tornBy()
	}
	return nil
}

// tornTables looks once more at what walks of this replica found torn, so that what was
// mended is not told any more, and returns the rest: a trouble of each table's place. Of a
// frozen table the freeze says it.
func (c *Catalog) tornTables(ctx context.Context) (out []Trouble) {
	found := c.tables.those(func(t *handle) bool { return t.tornBy() != nil })
	if len(found) == 0 {
		return nil
	}
	looking, cancel := context.WithTimeout(ctx, latestWait)
	defer cancel()
	_ = parallel(found, 16, func(t *handle) error {
		if !c.troubles.hanging(t.uri) {
			c.lookFor(looking, c.row(t.id))
		}
		return nil
	})
	for _, t := range found {
		if f := t.tornBy(); f != nil && c.isTornOnly(t.id) {
			out = append(out, Trouble{Place: t.uri, Text: f.text, Remedy: f.remedy, Since: f.since})
		}
	}
	slices.SortFunc(out, func(a, b Trouble) int { return compare(a.Place, b.Place) })
	return out
}

// isTornOnly reports whether a table is in the catalog, and nothing has frozen it.
func (c *Catalog) isTornOnly(id twophase.TableID) (is bool) {
	c.ledger.read(func(s *twophase.State) {
		t, ok := s.Table(id)
		is = ok && !t.Released && t.Frozen == nil
	})
	return is
}

// those are the handles of which something is so.
func (h *handles) those(is func(*handle) bool) (out []*handle) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, t := range h.m {
		if is(t) {
			out = append(out, t)
		}
	}
	return out
}

// tornBy is what the table's last walk found torn.
func (t *handle) tornBy() *torn {
	t.sightMu.Lock()
	defer t.sightMu.Unlock()
	return t.torn
}

// stopTorn is stop, for a torn commit. That it is torn since an earlier walk stays known.
func (t *handle) stopTorn(err error, f *torn) {
	t.sightMu.Lock()
	defer t.sightMu.Unlock()
	if was := t.torn; was != nil && was.version == f.version {
		f.since = was.since
	}
	t.stopped, t.torn = err, f
}
