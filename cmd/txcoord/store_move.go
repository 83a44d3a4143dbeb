package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/txcoord/txcoord/coordinator"
	"github.com/txcoord/txcoord/internal/number"
	"github.com/txcoord/txcoord/lock"
)

// storeMove takes a catalog's journal to another store. A record ends it in the old
// one, so that no replica decides anything there that the copy would not have. It may
// be broken off anywhere, and is taken up again by the same command.
type storeMove struct {
	Offline
	To string `required:"" help:"The store to move to: empty, or one that an earlier try has begun to fill." placeholder:"STORE"`
}

func (c *storeMove) Run(ctx context.Context, s *session) (err error) {
	from, to, err := c.configs(s)
	if err != nil {
		return err
	}
	log := newLogger(from, s.err)
	source, err := from.journal(s.Catalog, log)
	if err != nil {
		return err
	}
	target, err := to.journal(s.Catalog, log)
	if err != nil {
		return err
	}
	if source.name == target.name {
		return usage("--to", clean(c.To), "that is where the journal is already")
	}
	copied, err := leaveAndCopy(ctx, s, from, source, target)
	if err != nil {
		return err
	}
	if err := arrive(ctx, s, to, source.name); err != nil {
		return err
	}
	return s.say(fmt.Sprintf("the journal of catalog %s is in %s now (%s, %s copied); start its servers with --store %s", s.Catalog, target.name, number.Of(copied.Keys, "key"), number.Of(copied.Bytes, "byte"), clean(c.To)))
}

// configs are a server's in the old place, and in the new one.
func (c *storeMove) configs(s *session) (from, to *Config, err error) {
	make := func(store string) (*Config, error) {
		out := c.config(s)
		if store != "" {
			out.Store = store
		}
		return out, out.Validate()
	}
	if from, err = make(""); err != nil {
		return nil, nil, err
	}
	if to, err = make(c.To); err != nil {
		if own, ok := errors.AsType[*usageError](err); ok && own.what == "--store" {
			err = usage("--to", own.value, own.remedy)
		}
		return nil, nil, err
	}
	return from, to, nil
}

// leaveAndCopy ends the catalog's life in the old store, if that has not happened yet,
// and copies what is there. Until the catalog may leave nothing is made in the new one.
func leaveAndCopy(ctx context.Context, s *session, c *Config, source, target *journalStore) (done lock.Copied, err error) {
	old, err := source.openAlone(ctx)
	if err != nil {
		return done, fmt.Errorf("open the store to move from: %w", err)
	}
	empty, err := isNew(ctx, old)
	if empty && err == nil {
		err = lock.Mark(lock.ErrUnfit, fmt.Errorf("%s holds no journal: name the store that the catalog is in", source.name))
	}
	if err = errors.Join(err, old.Close()); err != nil {
		return done, err
	}
	running, err := open(ctx, c, s.Catalog, "", newLogger(c, s.err))
	if err != nil {
		return done, err
	}
	store, err := leave(ctx, running, target)
	if err = errors.Join(err, running.close(0)); err != nil {
		return done, err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	if old, err = source.openAlone(ctx); err != nil {
		return done, fmt.Errorf("open the store to move from: %w", err)
	}
	done, err = lock.Copy(ctx, old, store, coordinator.StaysBehind)
	return done, errors.Join(err, old.Close())
}

// drainBefore is how long a move waits for what is decided to be published.
const drainBefore = 30 * time.Second

// leave returns the new store, open.
func leave(ctx context.Context, r *running, target *journalStore) (_ lock.Store, err error) {
	to := r.catalog.MovedTo()
	if to != "" && to != target.name {
		return nil, lock.Mark(lock.ErrUnfit, fmt.Errorf("the catalog has moved to %s already", to))
	}
	if target.prepare != nil {
		if _, err := target.prepare(ctx); err != nil {
			return nil, err
		}
	}
	store, err := target.open(ctx)
	if err != nil {
		return nil, fmt.Errorf("open the store to move to: %w", err)
	}
	if to == "" {
		err = leaveFor(ctx, r, target.name, store)
	}
	if err != nil {
		return nil, errors.Join(err, store.Close())
	}
	return store, nil
}

func leaveFor(ctx context.Context, r *running, target string, store lock.Store) error {
	if err := lock.Probe(ctx, store); err != nil {
		return fmt.Errorf("the store to move to: %w", err)
	}
	if err := lock.CheckSizes(ctx, r.store, store); err != nil {
		return err
	}
	if err := claimEmpty(ctx, r.store, store); err != nil {
		return err
	}
	// What is decided is published at the new place, too; this only makes the pause short.
	short, cancel := context.WithTimeout(ctx, drainBefore)
	defer cancel()
	if err := r.catalog.Drain(short); err != nil && ctx.Err() != nil {
		return err
	}
	return r.catalog.Leave(ctx, target)
}

// claimEmpty makes the new store this journal's. Nothing is copied before the catalog leaves:
// what is whole there by then is the journal as it was when the catalog was there before, and
// to go on from that would undo what was decided since.
func claimEmpty(ctx context.Context, from, to lock.Store) error {
	_, whole, err := lock.PrepareCopy(ctx, from, to)
	if whole {
		return lock.Mark(lock.ErrUnfit, errors.New("the store to move to holds an older copy of this journal, as a move leaves it behind: delete that, or give an empty store or another prefix"))
	}
	return err
}

// arrive lets the catalog go on in the new store.
func arrive(ctx context.Context, s *session, c *Config, from string) error {
	r, err := open(ctx, c, s.Catalog, "", newLogger(c, s.err))
	if err != nil {
		return err
	}
	if r.catalog.MovedTo() != "" {
		err = r.catalog.Arrive(ctx, from)
	}
	return errors.Join(err, r.close(c.StopTimeout))
}
