package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/txcoord/txcoord/coordinator"
	"github.com/txcoord/txcoord/coordinator/rpc"
	"github.com/txcoord/txcoord/lock"
	"github.com/txcoord/txcoord/tables/checkpoint"
)

type serveCommand struct {
	Config
	ListLimits listLimits `help:"List the limits that --limit sets, and end."`
}

// listLimits ends the program before the rest of the flags is asked for.
type listLimits bool

// BeforeReset is called when the flag is met.
func (listLimits) BeforeReset(s *session) error {
	if err := s.showLimits(); err != nil {
		return err
	}
	panic(exit(exitOK))
}

func (c *serveCommand) Run(ctx context.Context, s *session) error {
	c.env = s.env
	return serve(ctx, &c.Config, s.Catalog, s.out, s.err)
}

// serve runs until the context ends, and then stops in order: no new calls, the
// calls in flight, the catalog, the store. It returns when all of it has ended.
func serve(ctx context.Context, c *Config, catalog string, out, log io.Writer) (err error) {
	logger := newLogger(c, log)
	// First, so that a start that cannot serve leaves nothing behind.
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", c.Listen)
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	defer listener.Close() // again, where the server has closed it: that changes nothing
	guards, err := c.Security.open(logger)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, guards.close()) }()
	running, err := open(ctx, c, catalog, logger)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, running.close(c.StopTimeout)) }()
	if running.created {
		tellCreated(c, catalog, log, logger)
	}
	server, err := rpc.NewServer(rpc.Config{
		Catalogs: map[string]rpc.Catalog{catalog: running.catalog}, Version: version(), Limits: c.rpc, Log: logger,
		Access: guards.access, TLS: guards.tls, Audit: guards.audit,
	})
	if err != nil {
		return err
	}
	var group errgroup.Group
	group.Go(func() error { return server.Serve(listener) })
	following, unfollow := context.WithCancel(ctx)
	defer unfollow()
	group.Go(func() error { guards.follow(following, logger); return nil })
	if err := ready(c, catalog, listener.Addr().String(), out); err != nil {
		unfollow()
		stop(server, c.StopTimeout)
		return errors.Join(err, group.Wait())
	}
	<-ctx.Done()
	logger.Info("stopping", "timeout", c.StopTimeout)
	stop(server, c.StopTimeout)
	return group.Wait()
}

// tellCreated says that nothing was there, whatever the log level: a misspelt
// warehouse looks like this.
func tellCreated(c *Config, catalog string, out io.Writer, log *slog.Logger) {
	if c.LogFormat == "json" {
		log.Info("a new catalog was created", "catalog", catalog, "warehouse", c.Warehouse)
		return
	}
	fmt.Fprintf(out, "txcoord: catalog %s is new: there was none in %s\n", catalog, c.Warehouse)
}

func stop(server *rpc.Server, timeout time.Duration) {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	server.Stop(ctx)
}

// ready says where the server is to be found. The file appears whole.
func ready(c *Config, catalog, address string, out io.Writer) error {
	if _, err := fmt.Fprintf(out, "txcoord serves catalog %s on %s\n", catalog, address); err != nil {
		return err
	}
	if c.ReadyFile == "" {
		return nil
	}
	draft := c.ReadyFile + ".draft"
	if err := os.WriteFile(draft, []byte(address+"\n"), 0o644); err != nil {
		return fmt.Errorf("write the ready file: %w", err)
	}
	return os.Rename(draft, c.ReadyFile)
}

// running is a catalog with what is open under it.
type running struct {
	objects *objects
	store   lock.Store
	catalog *coordinator.Catalog
	log     *slog.Logger
	// closeLogStore lets go of --log-store.
	closeLogStore func() error
	// created: there was no journal before.
	created bool
}

func open(ctx context.Context, c *Config, catalog string, log *slog.Logger) (*running, error) {
	journal, err := c.journal(catalog, log)
	if err != nil {
		return nil, err
	}
	objects, err := newObjects(ctx, append([]string{c.Warehouse}, c.Allow...), c.BucketFlags, log)
	if err != nil {
		return nil, err
	}
	r, err := openOn(ctx, c, catalog, objects, journal, log)
	if err != nil {
		return nil, errors.Join(err, objects.Close())
	}
	return r, nil
}

// openOn opens a catalog over the places of its objects.
func openOn(ctx context.Context, c *Config, catalog string, objects *objects, journal *journalStore, log *slog.Logger) (*running, error) {
	if err := makeFolder(c.Warehouse); err != nil {
		return nil, err
	}
	store, err := journal.open(ctx)
	if err != nil {
		return nil, fmt.Errorf("open the store: %w", err)
	}
	created, err := isNew(ctx, store)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open the store: %w", err), store.Close())
	}
	logs, closeLogs, err := c.openLogStore(ctx, log)
	if err != nil {
		return nil, errors.Join(err, store.Close())
	}
	open, err := coordinator.Open(ctx, coordinator.Config{
		Name: catalog, Warehouse: c.Warehouse, Store: store, Objects: objects, ReadCheckpoint: checkpoint.Read,
		LogStore: logs, SharedStore: journal.shared, WarehouseMoved: c.WarehouseMoved,
		Version: version(), Limits: c.coordinator, Maintain: c.maintenance(), Boot: bootClock(), Log: log,
	})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open catalog %s: %w", catalog, err), closeLogs(), store.Close())
	}
	r := &running{objects: objects, store: store, catalog: open, log: log, closeLogStore: closeLogs, created: created}
	if c.Maintain {
		if err := open.StartMaintenance(); err != nil {
			return nil, errors.Join(err, r.close(c.StopTimeout))
		}
	}
	return r, nil
}

// maintenance is how tables are kept in order, on request and in the background.
func (c *Config) maintenance() *coordinator.MaintainConfig {
	m := c.maintain
	m.Format, m.CleanOpen, m.KeepLogs = checkpoint.Format(), c.CleanOpen, c.KeepLogs
	return &m
}

// makeFolder makes a local warehouse that a first start lacks.
func makeFolder(warehouse string) error {
	p, err := parsePlace(warehouse)
	if err != nil || !p.local() {
		return err
	}
	return os.MkdirAll("/"+p.key, 0o755)
}

func (r *running) close(timeout time.Duration) error {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	// What is decided is published by the next server anyway; draining spares its
	// readers the wait.
	if err := r.catalog.Drain(ctx); err != nil {
		r.log.Warn("stopped before everything was published and had its manifest; the next start goes on", "error", err)
	}
	closing, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	return errors.Join(r.catalog.Close(closing), r.closeLogStore(), r.store.Close(), r.objects.Close())
}

func newLogger(c *Config, w io.Writer) *slog.Logger {
	o := &slog.HandlerOptions{Level: c.level()}
	if c.LogFormat == "json" {
		return slog.New(slog.NewJSONHandler(w, o))
	}
	return slog.New(slog.NewTextHandler(w, o))
}
