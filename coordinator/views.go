package coordinator

import (
	"context"
	"errors"
	"fmt"

	"github.com/txcoord/txcoord/tables"
	"github.com/txcoord/txcoord/tables/objstore"
	"github.com/txcoord/txcoord/twophase"
)

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
	if err := t.loading.take(ctx); err != nil {
		return nil, nil, err
	}
	defer t.loading.give()
	for ctx.Err() == nil {
		if p := h.profile(t); p != nil {
			return t, p, nil
		}
		if err := h.load(ctx, t); err != nil {
			return nil, nil, err
		}
	}
	return nil, nil, ctx.Err()
}

func (h *handles) profile(t *handle) *tables.Profile {
	h.c.ledger.mu.RLock()
	defer h.c.ledger.mu.RUnlock()
	if t.view == nil {
		return nil
	}
	return t.profile
}

// recordedProfile is the profile of the newest recorded version; nil if it is not
// known, or if a change of ours that is not recorded yet touches it.
func (h *handles) recordedProfile(t *handle) *tables.Profile {
	h.c.ledger.mu.RLock()
	defer h.c.ledger.mu.RUnlock()
	if t.view == nil || t.rebuild {
		return nil
	}
	return t.profile
}

// load reads the table at its recorded version and puts the pending changes on top.
// What became history while it read is read too, until it has caught up: a busy
// table moves faster than a large state can be read.
func (h *handles) load(ctx context.Context, t *handle) error {
	at, err := h.recorded(t.id)
	if err != nil {
		return err
	}
	if at == twophase.NoVersion {
		return h.loadUnborn(ctx, t)
	}
	from, err := h.read(ctx, t, at)
	if from == nil {
		return err
	}
	at = from.at
	view, profile := from.view, from.profile
	var fetched submission
	for {
		missing, done, err := h.install(t, at, view, profile, fetched.facts)
		if done || err != nil {
			return err
		}
		if err := h.c.fetch(ctx, &fetched, missing); err != nil {
			return err
		}
		to, err := h.recorded(t.id)
		if err != nil {
			return err
		}
		again, err := h.catchUp(ctx, t, view, profile, at, to)
		if again || err != nil {
			return err // protocol or metadata changed: from the beginning
		}
		at = to
	}
}

// read reads the table at its recorded version, or takes what was read a little before it.
// nil without an error: it has to be read again.
func (h *handles) read(ctx context.Context, t *handle, at twophase.Version) (*readView, error) {
	if beside := t.beside.Swap(nil); beside != nil && beside.at <= at && at-beside.at <= tailReach {
		return beside, nil
	}
	view, state, err := h.loadListed(ctx, t, at)
	if err != nil {
		if !isDamage(err) {
			err = h.c.logError(t.id, err)
			h.c.noteLoad(t, err)
			return nil, err
		}
		return nil, h.c.judgeDamage(ctx, t, at, err)
	}
	h.c.noteLoad(t, nil)
	if damage := state.Skipped(); damage != nil {
		h.c.log.Warn("a checkpoint of the table is damaged, and was passed over", "table", t.uri, "error", damage)
	}
	tail, err := t.log.TailOf(ctx, state)
	if err != nil {
		return nil, h.c.logError(t.id, err)
	}
	t.tail.offer(tail)
	return &readView{at: at, view: view, profile: state.Profile()}, nil
}

func (h *handles) loadListed(ctx context.Context, t *handle, at twophase.Version) (*tables.View, *tables.State, error) {
	log, err := t.listed.reading(ctx, at)
	if err != nil {
		return nil, nil, err
	}
	return log.Load(ctx, at)
}

// warm reads the tail of a table that has none, and keeps a view that comes with it: after
// a start a table with an open round is wanted by its publisher and by the next commit, and
// is read once for both. Whatever goes wrong is found again by who needs the tail.
func (h *handles) warm(ctx context.Context, t *handle, at twophase.Version) {
	if t.tail.there() || at == twophase.NoVersion || !t.loading.tryTake() {
		return // or somebody is reading the table, and publishing waits for no live set
	}
	defer t.loading.give()
	log, err := t.listed.reading(ctx, at)
	if err != nil {
		return
	}
	tail, view, err := log.TailAndView(ctx, at)
	if err != nil {
		return
	}
	t.tail.offer(tail)
	if view != nil {
		t.beside.Store(&readView{at: at, view: view, profile: tail.Profile()})
	}
}

func (h *handles) recorded(id twophase.TableID) (v twophase.Version, err error) {
	h.c.ledger.read(func(s *twophase.State) {
		row, ok := s.Table(id)
		if !ok || row.Released {
			err = &Error{Reason: TableNotFound, Message: "table " + string(id) + " is not in the catalog"}
			return
		}
		v = row.Recorded
	})
	return v, err
}

// catchUp takes the versions after one and up to another into a view. again says
// that the profile is not the table's any more.
func (h *handles) catchUp(ctx context.Context, t *handle, view *tables.View, profile *tables.Profile, after, to twophase.Version) (again bool, err error) {
	var failed error
	err = eachCommit(ctx, t.log, after, to, func(c *tables.Commit) error {
		if again, failed = view.Apply(0, tables.CommitFacts(c, profile)); again || failed != nil {
			return errApplied
		}
		return nil
	})
	switch {
	case err == nil, errors.Is(err, errApplied):
		return again, failed
	case errors.Is(err, objstore.ErrNotFound): // cleaned meanwhile: a checkpoint has it
		return true, nil
	case isDamage(err): // read whole, it is judged
		return true, nil
	}
	return false, h.c.logError(t.id, err)
}

// errApplied ends a catchUp with what the view has said.
var errApplied = errors.New("no more is applied")

// install puts the pending changes on top of a view at a version and makes it the
// table's, if the fold is still there. Otherwise it names the facts that it misses,
// or nothing if the table has moved. No request is made with the ledger's lock held.
func (h *handles) install(t *handle, at twophase.Version, view *tables.View, profile *tables.Profile,
	fetched map[twophase.Hash]twophase.Facts,
) (missing []twophase.ObjectRef, done bool, err error) {
	l := h.c.ledger
	l.mu.Lock()
	defer l.mu.Unlock()
	row, ok := l.state.Table(t.id)
	if !ok || row.Recorded != at {
		return nil, false, nil
	}
	pending := make([]twophase.Facts, len(row.Pending))
	for i, ch := range row.Pending {
		facts, ok := h.c.facts.known(ch.Part.Facts, ch.Part.FactsRef)
		if !ok {
			facts, ok = fetched[ch.Part.FactsRef.Hash]
		}
		if !ok {
			missing = append(missing, ch.Part.FactsRef)
		}
		pending[i] = facts
	}
	if len(missing) > 0 {
		return missing, false, nil
	}
	rebuild := false
	for i, ch := range row.Pending {
		again, err := view.Apply(ch.Number, pending[i])
		if err != nil {
			return nil, false, fmt.Errorf("table %s: change %d: %w", t.id, ch.Number, err)
		}
		rebuild = rebuild || again
	}
	t.view, t.profile, t.rebuild = view, profile, rebuild
	return nil, true, nil
}

// follow keeps the views in step with an entry. The ledger's lock is held.
func (h *handles) follow(before *foldMarks, e *twophase.Entry) {
	h.mu.Lock()
	defer h.mu.Unlock()
	s := h.c.ledger.state
	for i, r := range e.Records {
		switch r := r.(type) {
		case *twophase.Committed:
			if o := s.Outcome(r.Txn); o.By(e, i) {
				h.decided(o)
			}
		case *twophase.Published:
			for i := range r.Tables {
				h.published(s, r.Tables[i].Table)
			}
			h.left(s, e.Position)
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

// left forgets the tables that a transaction released, and removes their owner objects:
// in the background, since a place without a table does no harm.
func (h *handles) left(s *twophase.State, at twophase.Position) {
	snaps := s.Snapshots()
	for i := len(snaps) - 1; i >= 0 && snaps[i].Position == at; i-- {
		for _, id := range snaps[i].Removed {
			row, _ := s.Table(id)
			uri := row.URI
			delete(h.m, id)
			h.c.spawn(func(ctx context.Context) { h.c.disclaim(ctx, id, uri) })
		}
	}
}

func (h *handles) drop(id twophase.TableID) {
	if t := h.m[id]; t != nil {
		t.view, t.profile = nil, nil
		t.beside.Store(nil)
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
