package coordinator

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/txcoord/txcoord/tables"
	"github.com/txcoord/txcoord/tables/objstore"
	"github.com/txcoord/txcoord/twophase"
)

// damagedVersion is a recorded version of a log whose file is not as it was.
type damagedVersion struct {
	version twophase.Version
	file    string
	// what is wrong: it is missing, altered, or no commit.
	what string
}

// comparison is what holding the commits that are there against the recorded ones shows.
type comparison struct {
	// own: at least one of them is as it was recorded, so this is the table's log or a copy.
	own     bool
	damaged []damagedVersion
}

// compareLog looks at all recorded versions of a table's log: those that are there are
// compared with what was recorded of them, as far as the ring still has that, and those
// after the newest checkpoint have to be there.
func (c *Catalog) compareLog(ctx context.Context, t *handle, in twophase.WalkInput) (out comparison, err error) {
	recorded, err := c.identitiesOf(ctx, t.id)
	if err != nil {
		return out, err
	}
	listing, err := t.log.List(ctx, 0)
	if err != nil {
		return out, c.objectsError(t.uri, err)
	}
	first := twophase.Version(0)
	if cp, ok := listing.NewestCheckpoint(tables.Latest); ok {
		first = cp.Version + 1
	}
	found := make([]damagedVersion, in.Recorded+1)
	var mu sync.Mutex
	err = parallelIndex(len(found), t.log.ReadAhead, func(i int) error {
		v := twophase.Version(i)
		want, known := recorded(v)
		if v == in.Recorded && !in.Identity.IsZero() {
			want, known = in.Identity, true
		}
		if _, there := listing.Commit(v); !there && v < first || there && v < first && !known {
			return nil
		}
		what, same, err := c.compareVersion(ctx, t, v, want)
		if err != nil {
			return err
		}
		found[i] = damagedVersion{v, t.log.CommitKey(v), what}
		mu.Lock()
		defer mu.Unlock()
		out.own = out.own || known && same
		return nil
	})
	for _, d := range found {
		if d.what != "" {
			out.damaged = append(out.damaged, d)
		}
	}
	return out, err
}

// compareVersion says what is wrong with a version; empty if nothing is known to be. want is
// zero if nothing is known of its content.
func (c *Catalog) compareVersion(ctx context.Context, t *handle, v twophase.Version, want twophase.Hash) (what string, same bool, err error) {
	raw, _, err := t.log.Store.Get(ctx, t.log.CommitKey(v), objstore.Range{})
	switch {
	case errors.Is(err, objstore.ErrNotFound):
		return "is missing", false, nil
	case err != nil:
		return "", false, c.objectsError(t.uri, err)
	case twophase.HashOf(raw) == want:
		return "", true, nil
	case !want.IsZero():
		return "has other content than was recorded", false, nil
	}
	_, err = t.log.ReadCommit(ctx, v)
	if bad, ok := errors.AsType[*tables.LogError](err); ok {
		return "is no whole commit: " + bad.Fault.String(), false, nil
	}
	return "", false, c.objectsError(t.uri, err)
}

// damageNamed is how many damaged versions an error names.
const damageNamed = 5

// damagedError: what stands at the place of a replaced table is its own log, and not whole.
// It is not closed for that without a word: a file that is put back mends it.
func damagedError(row TableInfo, damaged []damagedVersion) error {
	var all []string
	for _, d := range damaged[:min(len(damaged), damageNamed)] {
		all = append(all, fmt.Sprintf("version %d %s (%s)", d.version, d.what, d.file))
	}
	if more := len(damaged) - damageNamed; more > 0 {
		all = append(all, fmt.Sprintf("%d more", more))
	}
	text := strings.Join(all, ", ")
	return &Error{
		Reason: LogContradiction,
		Message: fmt.Sprintf("the log at the place of table %s is its own, and not whole: %s. Nothing was done. Put that back as it was, and resolve again: the table goes on, and nothing is given up. To close it for good all the same: --give-up",
			row.Name, text),
		Table: &TableDetail{Table: row.Name, TableID: row.ID, URI: row.URI, Version: damaged[0].version, File: damaged[0].file, Detail: clip(text, 500)},
	}
}
