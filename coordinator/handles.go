package coordinator

import (
	"fmt"
	"sync"
	"time"

	"github.com/txcoord/txcoord/tables"
	"github.com/txcoord/txcoord/twophase"
)

// handles are what this process knows of each table besides the fold: its log,
// and a view in step with the fold.
type handles struct {
	c  *Catalog
	mu sync.Mutex
	m  map[twophase.TableID]*handle
}

// handle is one table's. view, profile and the marks are guarded by the ledger's
// lock, since they follow the fold.
type handle struct {
	id  twophase.TableID
	uri string
	log *tables.Log

	view    *tables.View
	profile *tables.Profile
	// rebuild: an undelivered change of ours touches protocol or metaData. When it
	// is published the view is loaded anew.
	rebuild bool
	loading sync.Mutex

	// sights are when this process last put, listed or read the newest versions of
	// the log (R9); etags are those of versions whose identity is known.
	sightMu sync.Mutex
	sights  map[twophase.Version]time.Duration
	etags   map[twophase.Version]seenETag
	// stopped is why this replica does not write the table.
	stopped error
	// disowned says that another catalog took the table over.
	disowned error

	look    looker
	tail    tail
	foreign foreignCounter
}

type seenETag struct {
	etag     string
	identity twophase.Hash
}

func newHandles(c *Catalog) *handles {
	return &handles{c: c, m: map[twophase.TableID]*handle{}}
}

// of returns a table's handle. It opens the object store and reads nothing. Lock
// order: the ledger's lock first, then this one.
func (h *handles) of(id twophase.TableID) (*handle, error) {
	if t := h.peek(id); t != nil {
		return t, nil
	}
	uri := h.c.row(id).URI
	log, err := h.open(uri)
	if err != nil {
		return nil, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if t, ok := h.m[id]; ok {
		return t, nil
	}
	t := &handle{id: id, uri: uri, log: log, sights: map[twophase.Version]time.Duration{}, etags: map[twophase.Version]seenETag{}}
	h.m[id] = t
	return t, nil
}

// open is the log at a canonical URI.
func (h *handles) open(uri string) (*tables.Log, error) {
	store, key, err := h.c.cfg.Objects.Open(uri)
	if err != nil {
		return nil, &Error{
			Reason: InvalidRequest, Message: fmt.Sprintf("table location %s: %v", uri, err),
			Field: &FieldDetail{Field: "uri", Value: uri, Remedy: "use a location that the server allows; its operator can allow more"}, Cause: err,
		}
	}
	return tables.NewLog(tables.LogConfig{Store: store, Key: key, URI: uri, ReadCheckpoint: h.c.cfg.ReadCheckpoint}), nil
}

// sightsKept is how many versions back sights and ETags are remembered.
const sightsKept = 16

// seen notes that a version was put, listed or read just now.
func (t *handle) seen(v twophase.Version, at time.Duration) {
	t.sightMu.Lock()
	defer t.sightMu.Unlock()
	t.sights[v] = at
	delete(t.sights, v-sightsKept)
}

// sightOf says when a version was last seen; NoSight if it was not.
func (t *handle) sightOf(v twophase.Version) time.Duration {
	t.sightMu.Lock()
	defer t.sightMu.Unlock()
	if at, ok := t.sights[v]; ok {
		return at
	}
	return twophase.NoSight
}

// know notes which ETag goes with a content, so that a listing alone can tell
// that a version is still the same (R9).
func (t *handle) know(v twophase.Version, etag string, identity twophase.Hash) {
	if etag == "" {
		return
	}
	t.sightMu.Lock()
	defer t.sightMu.Unlock()
	t.etags[v] = seenETag{etag, identity}
	delete(t.etags, v-sightsKept)
}

func (t *handle) knows(v twophase.Version, etag string) (twophase.Hash, bool) {
	t.sightMu.Lock()
	defer t.sightMu.Unlock()
	s, ok := t.etags[v]
	return s.identity, ok && etag != "" && s.etag == etag
}

// stop notes why the table is not written by this replica; nil takes it back.
func (t *handle) stop(err error) {
	t.sightMu.Lock()
	defer t.sightMu.Unlock()
	t.stopped = err
}

func (t *handle) stoppedBy() error {
	t.sightMu.Lock()
	defer t.sightMu.Unlock()
	return t.stopped
}

// peek returns a table's handle if there is one.
func (h *handles) peek(id twophase.TableID) *handle {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.m[id]
}
