package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/txcoord/txcoord/lock"
)

// storeCommands are about the place where the journal is. They ask no server.
type storeCommands struct {
	Init  storeInit  `cmd:"" help:"Make what --store names, if it has to be made (a DynamoDB table), and see that a journal can stand there."`
	Move  storeMove  `cmd:"" help:"Take the journal of a catalog to another store; serving goes on there."`
	Check storeCheck `cmd:"" help:"See that a journal can stand in what --store names: it answers, may be used, and honours conditions under writers that race."`
}

type storeInit struct{ storeTarget }

type storeCheck struct{ storeTarget }

// storeTarget is the store that a command is about.
type storeTarget struct {
	FromFile
	StoreFlags `embed:""`
}

// storeReport is what a command has found.
type storeReport struct {
	Store string `json:"store"`
	// Made says what there is now that was not there before, or why nothing is.
	Made string `json:"made,omitempty"`
	// Conditions: two writers cannot win one race there.
	Conditions bool `json:"conditions"`
	// Catalog and Incarnation of the journal in it; empty if there is none yet.
	Catalog     string `json:"catalog,omitempty"`
	Incarnation string `json:"incarnation,omitempty"`
}

func (c *storeInit) Run(ctx context.Context, s *session) error {
	store, err := c.target(s)
	if err != nil {
		return err
	}
	made := "nothing had to be made"
	if store.prepare != nil {
		if made, err = store.prepare(ctx); err != nil {
			return err
		}
	}
	return s.probed(ctx, store, made)
}

func (c *storeCheck) Run(ctx context.Context, s *session) error {
	store, err := c.target(s)
	if err != nil {
		return err
	}
	if store.absent != nil && store.absent() {
		return lock.Mark(lock.ErrMissing, fmt.Errorf("there is no %s; store init makes it, and so does the first serve", store.name))
	}
	return s.probed(ctx, store, "")
}

func (c *storeTarget) target(s *session) (*journalStore, error) {
	if c.Store == "" {
		return nil, usage("--store", "", "say which one: "+storeForms())
	}
	return c.find(s.Catalog, s.env, newLogger(&Config{LogLevel: "warn"}, s.err))
}

// probed opens a store, has writers race in it, and says what is there.
func (s *session) probed(ctx context.Context, target *journalStore, made string) (err error) {
	ctx, cancel := s.bounded(ctx)
	defer cancel()
	store, err := target.open(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	report := storeReport{Store: target.name, Made: made, Conditions: true}
	if err := lock.Probe(ctx, store); err != nil {
		return fmt.Errorf("%s: %w", target.name, err)
	}
	item, err := store.Get(ctx, lock.MetaKey)
	if errors.Is(err, lock.ErrNotFound) {
		if err := lock.Unfinished(ctx, store); err != nil { // it looks empty, and is refused to serve
			return fmt.Errorf("%s: %w", target.name, err)
		}
	} else if err != nil {
		return fmt.Errorf("%s: %w", target.name, err)
	}
	if err == nil {
		var meta lock.Meta
		if err := json.Unmarshal(item.Value, &meta); err != nil {
			return lock.Mark(lock.ErrUnfit, fmt.Errorf("%s: what stands there is not a journal of txcoord: %w", target.name, err))
		}
		report.Catalog, report.Incarnation = meta.Catalog, meta.Incarnation
	}
	return s.showStore(report)
}

func (s *session) showStore(r storeReport) error {
	switch s.Output {
	case "json":
		b, err := json.MarshalIndent(r, "", "  ")
		if err != nil {
			return err
		}
		return s.lines([]string{string(b)})
	case "id":
		return s.ids(r.Catalog) // none before the first start
	}
	g := newGrid(s.out)
	g.pair("store", r.Store)
	if r.Made != "" {
		g.pair("made", r.Made)
	}
	g.pair("conditions", "honoured, by writers that raced")
	g.pair("catalog id", orDash(r.Catalog))
	g.pair("incarnation", orDash(r.Incarnation))
	return g.flush()
}
