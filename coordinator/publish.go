package coordinator

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/txcoord/txcoord/tables"
	"github.com/txcoord/txcoord/tables/objstore"
	"github.com/txcoord/txcoord/twophase"
)

// publisher turns decided transactions into Delta versions. Rounds run in parallel;
// in a round all tables go at once, per table one put is in flight. A publisher that
// dies anywhere loses nothing: the next one walks the same logs (R3).
type publisher struct {
	c     *Catalog
	ready chan struct{}
	puts  putPlaces

	mu      sync.Mutex
	running map[twophase.RoundID]bool
	turns   turns

	// progress is when a put or read last succeeded, by bucket (R12).
	progressMu sync.Mutex
	progress   map[string]time.Duration
}

func newPublisher(c *Catalog) *publisher {
	return &publisher{
		c: c, ready: make(chan struct{}, 1), puts: newPutPlaces(c.cfg.Limits),
		running: map[twophase.RoundID]bool{}, progress: map[string]time.Duration{},
		turns: turns{at: map[twophase.RoundID]time.Duration{}},
	}
}

// look says that the fold has moved.
func (p *publisher) look() {
	select {
	case p.ready <- struct{}{}:
	default:
	}
}

// run starts a worker for each open round that has none.
func (p *publisher) run(ctx context.Context) {
	var workers sync.WaitGroup
	defer workers.Wait()
	for {
		select {
		case <-p.ready:
		case <-ctx.Done():
			return
		}
		open := p.open()
		p.turns.keep(open)
		for id, o := range open {
			now, later := p.due(id, o.tables)
			if later > 0 {
				time.AfterFunc(later, p.look)
			}
			if now && p.claim(id) {
				workers.Go(func() {
					defer p.release(id)
					o.work(ctx)
				})
			}
		}
	}
}

// openRound is a round to work on, or what stands for the next ones.
type openRound struct {
	tables int
	work   func(context.Context)
}

// open is what there is to do now.
func (p *publisher) open() map[twophase.RoundID]openRound {
	open := map[twophase.RoundID]openRound{}
	p.c.ledger.read(func(s *twophase.State) {
		if ended(s) { // nobody may append; where the catalog goes on, rounds do, and its first entry opens what gathers
			return
		}
		for _, r := range s.Rounds() {
			open[r.ID] = openRound{r.Tables(), func(ctx context.Context) { p.round(ctx, r.ID) }}
		}
		switch caps := s.Caps(); {
		case s.Waiting() > 0 && !caps.Gather:
			open[nextRounds(s.Next()-1)] = openRound{0, func(ctx context.Context) { p.ask(ctx, &twophase.SettingChanged{Caps: gathers(caps)}) }}
		case s.Gathering():
			open[nextRounds(s.Next()-1)] = openRound{0, func(ctx context.Context) { p.ask(ctx, &twophase.Turned{}) }}
		}
	})
	return open
}

func (p *publisher) claim(id twophase.RoundID) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.running[id] {
		return false
	}
	p.running[id] = true
	return true
}

func (p *publisher) release(id twophase.RoundID) {
	p.mu.Lock()
	delete(p.running, id)
	p.mu.Unlock()
	p.look()
}

// round works on one round until it is closed.
func (p *publisher) round(ctx context.Context, id twophase.RoundID) {
	began := p.c.cfg.Boot()
	wait := 20 * time.Millisecond
	for ctx.Err() == nil {
		plan, held, open := p.plan(id)
		if !open {
			return
		}
		found, failures := p.publish(ctx, id, plan)
		if len(failures) == 0 && !held {
			if err := p.close(ctx, id, found); err != nil && ctx.Err() == nil {
				p.c.log.Warn("record a publication", "round", id.String(), p.c.roundAttr(id), "error", err)
			}
			if !p.isOpen(id) {
				return
			}
		}
		if p.c.cfg.Boot()-began > p.c.cfg.Limits.FreezeAfter {
			p.freeze(ctx, id, failures)
		}
		p.rest(ctx, id, wait, held)
		wait = min(2*wait, 2*time.Second)
	}
}

// rest waits before the next try; a held round waits for an operator's record, and
// tries what is left of it now and then.
func (p *publisher) rest(ctx context.Context, id twophase.RoundID, d time.Duration, held bool) {
	if !held {
		pause(ctx, d)
		return
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	_ = p.c.ledger.wait(ctx, func(s *twophase.State) bool {
		r, ok := s.Round(id)
		return !ok || !s.Held(r) || ended(s)
	})
}

func (p *publisher) isOpen(id twophase.RoundID) (open bool) {
	p.c.ledger.read(func(s *twophase.State) { _, open = s.Round(id); open = open && !ended(s) })
	return open
}

type tableWork struct {
	id twophase.TableID
	// closed: nothing may be put into the table. left: something should be.
	closed, left bool
	// fenced tables come after the others (R13).
	fenced bool
}

func (p *publisher) plan(id twophase.RoundID) (work []tableWork, held, open bool) {
	p.c.ledger.read(func(s *twophase.State) {
		r, ok := s.Round(id)
		if !ok || ended(s) {
			return
		}
		open, held = true, s.Held(r)
		for _, tp := range s.Plan(r) {
			work = append(work, tableWork{id: tp.Table.Table, closed: tp.Closed, left: len(tp.Changes) > 0, fenced: tp.Table.OffersDecided()})
		}
	})
	return work, held, open
}

// publish walks all tables of a round at once and puts what is missing. Tables whose
// fence counts come after the others, and not before those are done: if a foreign
// commit makes a transaction impossible on an open table, nothing of it is visible yet
// on most (R13). The round needs them all anyway. A table that lacks a staged part waits
// for an operator, and holds up none of the others.
func (p *publisher) publish(ctx context.Context, id twophase.RoundID, work []tableWork) ([]twophase.PublishedTable, map[twophase.TableID]error) {
	found := make([]twophase.PublishedTable, len(work))
	failures := map[twophase.TableID]error{}
	for _, fenced := range []bool{false, true} {
		var batch []int
		for i := range work {
			if work[i].fenced == fenced {
				batch = append(batch, i)
			}
		}
		errs := make([]error, len(batch))
		_ = parallelIndex(len(batch), len(batch), func(n int) error {
			found[batch[n]], errs[n] = p.publishTable(ctx, work[batch[n]])
			return nil
		})
		for n, err := range errs {
			if err != nil {
				failures[work[batch[n]].id] = err
				if ctx.Err() == nil {
					p.c.log.Warn("publish", "table", work[batch[n]].id, "round", id.String(), p.c.roundAttr(id), "error", err)
				}
			}
		}
		if stops(failures) {
			break
		}
	}
	return found, failures
}

func (p *publisher) publishTable(ctx context.Context, work tableWork) (twophase.PublishedTable, error) {
	found := twophase.PublishedTable{Table: work.id}
	if work.closed { // what was to go there is given up
		if work.left {
			return found, errors.New("the table is closed")
		}
		return found, nil
	}
	t, err := p.c.tables.of(work.id)
	if err != nil {
		return found, err
	}
	done, err := p.c.walk(ctx, t, false)
	t.lacksPart.Store(lackOf(err) != nil)
	p.c.noteWork(ctx, t.uri, written, err)
	if err != nil {
		return found, err
	}
	found.Versions = done.Found
	p.progressed(bucketOf(t.uri))
	return found, nil
}

// close appends the publication record. Stale means that the fold has moved: the
// next plan looks again.
func (p *publisher) close(ctx context.Context, id twophase.RoundID, found []twophase.PublishedTable) error {
	err := p.c.seq.submit(ctx, twophase.Request{Record: &twophase.Published{Round: id, Tables: found}})
	var refused *twophase.Refused
	if errors.As(err, &refused) && refused.Reason == twophase.ReasonStale {
		return nil
	}
	return err
}

// putVersion renders the changes as a version and puts it. Its content is a pure
// function of journal, payloads and the log below it, so every publisher puts the
// same actions (R2).
func (c *Catalog) putVersion(ctx context.Context, t *handle, w *twophase.Walk, from *twophase.WalkInput, e twophase.PutVersion) (twophase.WalkResult, error) {
	in, err := c.versionOf(ctx, t, from, e)
	if err != nil {
		return nil, err
	}
	return c.put(ctx, t, w, e.Version, in, e.Changes[0].Round.Tables() > 1)
}

// versionOf is what a version of the changes is made of.
func (c *Catalog) versionOf(ctx context.Context, t *handle, from *twophase.WalkInput, e twophase.PutVersion) (tables.RenderInput, error) {
	in := tables.RenderInput{Marker: e.Changes[len(e.Changes)-1].Number}
	in.Later = laterVersions(from, changesAfter(from, in.Marker, nil))
	for _, ch := range e.Changes {
		txn, err := c.renderTxn(ctx, t, ch)
		if err != nil {
			return in, err
		}
		in.Txns = append(in.Txns, txn)
	}
	c.renderHead(&in, e.Changes[0].Round)
	return in, nil
}

func (c *Catalog) putBarrier(ctx context.Context, t *handle, w *twophase.Walk, from *twophase.WalkInput, e twophase.PutBarrier) (twophase.WalkResult, error) {
	in := tables.RenderInput{Marker: e.Marker}
	in.Later = laterVersions(from, changesAfter(from, e.Marker, e.GiveUp))
	for _, ch := range e.GiveUp {
		for _, d := range ch.Part.Digests {
			in.NotApplied = append(in.NotApplied, tables.TxnRef{ID: ch.Txn, Digest: d})
		}
	}
	c.renderHead(&in, e.GiveUp[0].Round)
	return c.put(ctx, t, w, e.Version, in, false)
}

func (c *Catalog) renderHead(in *tables.RenderInput, r *twophase.Round) {
	meta := c.journal.Meta()
	in.Catalog, in.Incarnation, in.EngineVersion = meta.Catalog, meta.Incarnation, c.cfg.Version
	in.Round, in.Time = r.ID.String(), r.Time
}

// renderTxn fetches a change's lines.
func (c *Catalog) renderTxn(ctx context.Context, t *handle, ch *twophase.Change) (tables.RenderTxn, error) {
	out := tables.RenderTxn{ID: ch.Txn, Digests: ch.Part.Digests, Tables: c.writtenBy(ch.Txn), Blind: ch.Part.Read.Blind, Read: ch.Part.Read.Version}
	var pieces []*payload
	for _, id := range c.piecesOf(ch) {
		p, err := c.payloads.get(ctx, id)
		if err != nil {
			return out, c.lacks(ctx, t, id, err)
		}
		pieces = append(pieces, p)
		out.Pieces = append(out.Pieces, p.actions)
	}
	if ch.Part.Create != nil {
		definition, err := defineLines(pieces, ch.Round.Time)
		if err != nil {
			return out, c.cannotWrite(ctx, t, &unwritable{ch.Txn, err})
		}
		out.Pieces[0] = append(definition, out.Pieces[0]...)
	}
	return out, nil
}

// writtenBy are the tables of a decided transaction.
func (c *Catalog) writtenBy(id twophase.TxnID) (out []twophase.TableID) {
	c.ledger.read(func(s *twophase.State) {
		if o := s.Outcome(id); o != nil && o.Commit != nil {
			for i := range o.Commit.Parts {
				out = append(out, o.Commit.Parts[i].Table)
			}
		}
	})
	return out
}

// piecesOf are the pieces of a decided change.
func (c *Catalog) piecesOf(ch *twophase.Change) (out []located) {
	c.ledger.read(func(s *twophase.State) {
		if o := s.Outcome(ch.Txn); o != nil && o.Commit != nil {
			out = piecesOfPart(ch.Txn, o.Commit, ch.Part)
		}
	})
	return out
}

// put renders a version and puts it, if what the walk rests on is still young
// enough when everything is ready (R9, R10). several: its round writes other tables, too.
func (c *Catalog) put(ctx context.Context, t *handle, w *twophase.Walk, v twophase.Version, in tables.RenderInput, several bool) (twophase.WalkResult, error) {
	var data []byte
	err := c.awaited(t, read, c.cfg.Limits.PutDeadline, func() (err error) {
		data, err = c.render(ctx, t, v, in)
		return err
	})
	if bad, ok := errors.AsType[*unwritable](err); ok {
		err = c.cannotWrite(ctx, t, bad)
	}
	if err != nil {
		return nil, err
	}
	if err := c.freshFold(ctx); err != nil {
		return nil, err
	}
	if err := c.ledger.stopped(); err != nil {
		return nil, err // R7: what it decided may be unknown to the journal that goes on
	}
	if !w.MayPut(c.cfg.Boot(), time.Duration(c.headAt.Load())) {
		return nil, errLookAgain
	}
	began := time.Now()
	err = c.awaited(t, written, c.cfg.Limits.PutDeadline, func() error {
		if v == 0 {
			return t.log.PutCommit(ctx, v, data)
		}
		return t.log.PutAfter(ctx, v, data, w.Sight().Identity)
	})
	c.notePut(t, v, &in, several, began, err)
	switch {
	case errors.Is(err, objstore.ErrNoFolder), errors.Is(err, objstore.ErrMoved):
		t.forgetSight() // the log has to be listed now: the table may be gone, or replaced
		return nil, fmt.Errorf("%w: %w", errMoved, err)
	case err == nil:
		t.tail.saw(v, data)
		return twophase.PutResult{Done: true, Identity: twophase.HashOf(data)}, nil
	case errors.Is(err, objstore.ErrExists):
		return twophase.PutResult{Exists: true}, nil
	case errors.Is(err, objstore.ErrUnknown):
		return twophase.PutResult{Unknown: true}, nil
	}
	return nil, c.objectsError(t.uri, err)
}
