package coordinator

import (
	"fmt"
	"sync"
	"sync/atomic"

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
	loading turn
	// beside is what was read beside the tail, until the first commit wants it.
	beside atomic.Pointer[readView]

	// sight is the newest that a walk saw of the log's end (R9), and glances counts how
	// often that was forgotten; etags are those of versions whose identity is known.
	sightMu sync.Mutex
	sight   twophase.Sight
	glances uint64
	etags   map[twophase.Version]seenETag
	// stopped is why this replica does not write the table; torn, if that is a commit that is
	// not whole.
	stopped error
	torn    *torn
	// altered is a commit below the recorded version that is not what it was.
	altered *altered
	// unloaded is why it could not be read for a commit, when that was last tried.
	unloaded atomic.Pointer[unloaded]
	// authors are who wrote the newest foreign versions, as far as this process read them.
	authors map[twophase.Version]author
	// lacksPart: the publisher's last walk found that a staged part is lost.
	lacksPart atomic.Bool
	// disowned says that another catalog took the table over.
	disowned error

	look    looker
	listed  *listedLog
	tail    tail
	foreign foreignCounter
}

// readView is a table's view at a version.
type readView struct {
	at      twophase.Version
	view    *tables.View
	profile *tables.Profile
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
	row := h.c.row(id)
	uri := row.URI
	if e, ok := h.c.cfg.Objects.(Expecter); ok && row.Version != twophase.NoVersion {
		e.Expect(uri)
	}
	log, err := h.at(uri, func() twophase.Mode { return h.c.modeOf(id) })
	if err != nil {
		return nil, outOfReach(row, err)
	}
	log.Extracts = extracts{h.c, id}
	h.mu.Lock()
	defer h.mu.Unlock()
	if t, ok := h.m[id]; ok {
		return t, nil
	}
	t := &handle{id: id, uri: uri, log: log, loading: newTurn(), listed: newListedLog(log, h.c.cfg.Boot), sight: twophase.Sight{At: twophase.NoSight}, etags: map[twophase.Version]seenETag{}, authors: map[twophase.Version]author{}}
	h.m[id] = t
	return t, nil
}

// outOfReach is about a table of the catalog at a place that this replica was not given.
// Another one may have been: its clients ask that with the same call.
func outOfReach(row TableInfo, err error) *Error {
	return &Error{
		Reason: ObjectsUnavailable, Cause: err,
		Message: fmt.Sprintf("this server may not use the location of table %s: %v; another server of the catalog may, so repeat the call there", row.Name, err),
		Table:   &TableDetail{Table: row.Name, TableID: row.ID, URI: row.URI, Version: twophase.NoVersion, OutOfReach: true},
	}
}

// open is the log at a canonical URI that a caller gives.
func (h *handles) open(uri string, mode func() twophase.Mode) (*tables.Log, error) {
	log, err := h.at(uri, mode)
	if err != nil {
		return nil, &Error{
			Reason: InvalidRequest, Message: fmt.Sprintf("table location %s: %v", uri, err),
			Field: &FieldDetail{Field: "uri", Value: uri, Remedy: "use a location that the server allows; its operator can allow more"}, Cause: err,
		}
	}
	return log, nil
}

// at is the log at a canonical URI, read and written as the table's mode wants it.
func (h *handles) at(uri string, mode func() twophase.Mode) (*tables.Log, error) {
	store, key, err := h.c.cfg.Objects.Open(uri)
	if err != nil {
		return nil, err
	}
	store = h.c.modalStore(store, key, uri, mode)
	return tables.NewLog(tables.LogConfig{Store: store, Key: key, URI: uri, ReadCheckpoint: h.c.cfg.ReadCheckpoint, ReadAhead: h.c.cfg.Limits.readAhead(uri)}), nil
}

// etagsKept is how many versions back ETags are remembered.
const etagsKept = 16

// keepSight keeps what a walk has seen of the log's end, if that is newer and nothing
// was forgotten since the walk began.
func (t *handle) keepSight(glance uint64, s twophase.Sight) {
	t.sightMu.Lock()
	defer t.sightMu.Unlock()
	if glance == t.glances && s.At > t.sight.At {
		t.sight = s
	}
}

// lastSight is what is known of the log's end; glance goes to keepSight.
func (t *handle) lastSight() (s twophase.Sight, glance uint64) {
	t.sightMu.Lock()
	defer t.sightMu.Unlock()
	return t.sight, t.glances
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
	delete(t.etags, v-etagsKept)
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
	t.stopped, t.torn = err, nil
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
