package coordinator

import (
	"context"
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

	look looker
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
		return nil, &Error{Reason: InvalidRequest, Message: fmt.Sprintf("table location %s: %v", uri, err),
			Field: &FieldDetail{Field: "uri", Value: uri, Remedy: "use a location under a prefix that the server allows"}, Cause: err}
	}
	return tables.NewLog(tables.LogConfig{Store: store, Key: key, URI: uri, ReadCheckpoint: h.c.cfg.ReadCheckpoint}), nil
}

// views are those of the tables that the requests write. The ledger's lock is held.
func (h *handles) views(requests []twophase.Request) map[twophase.TableID]twophase.View {
	h.mu.Lock()
	defer h.mu.Unlock()
	out := map[twophase.TableID]twophase.View{}
	for i := range requests {
		if requests[i].Commit == nil {
			continue
		}
		for j := range requests[i].Commit.Record.Parts {
			id := requests[i].Commit.Record.Parts[j].Table
			if t := h.m[id]; t != nil && t.view != nil {
				out[id] = t.view
			}
		}
	}
	return out
}

// loaded returns a table's handle with its view and profile in step with the fold.
func (h *handles) loaded(ctx context.Context, id twophase.TableID) (*handle, *tables.Profile, error) {
	t, err := h.of(id)
	if err != nil {
		return nil, nil, err
	}
	if p := h.profile(t); p != nil {
		return t, p, nil
	}
	t.loading.Lock()
	defer t.loading.Unlock()
	for {
		if p := h.profile(t); p != nil {
			return t, p, nil
		}
		if err := h.load(ctx, t); err != nil {
			return nil, nil, err
		}
	}
}

func (h *handles) profile(t *handle) *tables.Profile {
	h.c.ledger.mu.RLock()
	defer h.c.ledger.mu.RUnlock()
	if t.view == nil {
		return nil
	}
	return t.profile
}

// load reads the table at its recorded version and puts the pending changes on top.
// If the fold moved the table meanwhile it leaves the view unset, to be tried again.
func (h *handles) load(ctx context.Context, t *handle) error {
	var recorded twophase.Version
	h.c.ledger.read(func(s *twophase.State) {
		if row, ok := s.Table(t.id); ok {
			recorded = row.Recorded
		}
	})
	state, err := t.log.State(ctx, recorded)
	if err != nil {
		return h.c.logError(t.id, err)
	}
	profile := state.Profile()
	view := tables.NewView(state)
	l := h.c.ledger
	l.mu.Lock()
	defer l.mu.Unlock()
	row, ok := l.state.Table(t.id)
	if !ok || row.Recorded != recorded {
		return nil
	}
	rebuild := false
	for _, ch := range row.Pending {
		facts, err := h.c.facts.of(ctx, ch.Part.Facts, ch.Part.FactsRef)
		if err != nil {
			return err
		}
		again, err := view.Apply(ch.Number, facts)
		if err != nil {
			return fmt.Errorf("table %s: change %d: %w", t.id, ch.Number, err)
		}
		rebuild = rebuild || again
	}
	t.view, t.profile, t.rebuild = view, profile, rebuild
	return nil
}

// follow keeps the views in step with an entry. The ledger's lock is held.
func (h *handles) follow(before *foldMarks, e *twophase.Entry) {
	h.mu.Lock()
	defer h.mu.Unlock()
	s := h.c.ledger.state
	for _, r := range e.Records {
		switch r := r.(type) {
		case *twophase.Committed:
			if o := s.Outcome(r.Txn); o != nil && o.Commit == r {
				h.decided(o)
			}
		case *twophase.Published:
			for i := range r.Tables {
				h.published(s, r.Tables[i].Table)
			}
		case *twophase.Foreign:
			h.foreign(s, before, r)
		case *twophase.Barrier:
			h.drop(r.Table)
		case *twophase.Range:
			h.drop(r.Table)
		case *twophase.Thawed:
			h.drop(r.Table)
		case *twophase.Released:
			delete(h.m, r.Table)
		}
	}
}

func (h *handles) drop(id twophase.TableID) {
	if t := h.m[id]; t != nil {
		t.view, t.profile = nil, nil
	}
}

func (h *handles) decided(o *twophase.Outcome) {
	for i := range o.Commit.Parts {
		p := &o.Commit.Parts[i]
		t := h.m[p.Table]
		if t == nil || t.view == nil {
			continue
		}
		facts, ok := h.c.facts.known(p.Facts, p.FactsRef)
		if !ok {
			h.drop(p.Table)
			continue
		}
		again, err := t.view.Apply(o.Parts[i].Change, facts)
		if err != nil {
			h.drop(p.Table)
			continue
		}
		t.rebuild = t.rebuild || again
	}
}

func (h *handles) published(s *twophase.State, id twophase.TableID) {
	t := h.m[id]
	row, ok := s.Table(id)
	if t == nil || t.view == nil || !ok {
		return
	}
	if t.rebuild {
		h.drop(id)
		return
	}
	t.view.Delivered(row.Marker)
}

// foreign takes a foreign version into the view. Where it gave a change up or
// changed the table's protocol or metadata the view is loaded anew.
func (h *handles) foreign(s *twophase.State, before *foldMarks, r *twophase.Foreign) {
	t := h.m[r.Table]
	row, ok := s.Table(r.Table)
	if t == nil || t.view == nil || !ok || row.Recorded != r.Version || before.recorded[r.Table] == r.Version {
		return
	}
	for _, v := range r.Verdicts {
		if v.Conflict.Rule != twophase.RuleNone {
			h.drop(r.Table)
			return
		}
	}
	facts, known := h.c.facts.known(r.Facts, r.FactsRef)
	if !known {
		h.drop(r.Table)
		return
	}
	if again, err := t.view.Apply(0, facts); err != nil || again {
		h.drop(r.Table)
	}
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
