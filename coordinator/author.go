package coordinator

import (
	"fmt"
	"slices"
	"time"

	"github.com/txcoord/txcoord/tables"
	"github.com/txcoord/txcoord/twophase"
)

// author is who wrote a foreign version, as its commitInfo says: each of it may be missing.
type author struct {
	engine, operation string
	at                time.Time
}

// String is who it was in words.
func (a author) String() string {
	text := named(a.engine)
	if a.operation != "" {
		text += " (" + a.operation + ")"
	}
	return text + a.when()
}

// authorOf is a commit's.
func authorOf(c *tables.Commit) author {
	a := author{engine: c.Engine, operation: clip(c.Operation, 200)}
	if at := c.Timestamp.Std(); at.UnixMilli() > 0 && at.UTC().Year() < 10_000 {
		a.at = at
	}
	return a
}

// when is empty if the commit does not say it.
func (a author) when() string {
	if a.at.IsZero() {
		return ""
	}
	return ", at " + a.at.UTC().Format(time.RFC3339)
}

// wroteBy notes who wrote a foreign version that was read.
func (t *handle) wroteBy(v twophase.Version, a author) {
	t.sightMu.Lock()
	defer t.sightMu.Unlock()
	t.authors[v] = a
	for len(t.authors) > etagsKept {
		oldest := v
		for known := range t.authors {
			oldest = min(oldest, known)
		}
		delete(t.authors, oldest)
	}
}

// author is who wrote a version, if that is known without reading it and was no
// transaction of ours.
func (c *Catalog) author(id twophase.TableID, v twophase.Version) (a author, known bool) {
	if t := c.tables.peek(id); t != nil {
		t.sightMu.Lock()
		a, known = t.authors[v]
		t.sightMu.Unlock()
	}
	if known {
		return a, true
	}
	c.ledger.read(func(s *twophase.State) {
		if t, ok := s.Table(id); ok {
			i := slices.IndexFunc(t.Guests, func(g twophase.Guest) bool { return g.Version == v })
			if known = i >= 0; known {
				a.engine = t.Guests[i].Engine
			}
		}
	})
	return a, known
}

// abortedError is the answer about an aborted transaction. Of one that lost to a commit of
// another engine the journal has the version alone.
func (c *Catalog) abortedError(o Outcome) error {
	err := abortedError(o)
	if d := o.Aborted; d.Winner.IsZero() && d.Version != twophase.NoVersion {
		if a, known := c.author(d.TableID, d.Version); known {
			err.Message += fmt.Sprintf("; it lost to version %d, which is a commit of %s", d.Version, a)
		}
	}
	return err
}
