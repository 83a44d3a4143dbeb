package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/txcoord/txcoord/coordinator"
	"github.com/txcoord/txcoord/coordinator/rpc"
	"github.com/txcoord/txcoord/lock"
	"github.com/txcoord/txcoord/tables/checkpoint"
)

// running is a catalog with what is open under it.
type running struct {
	objects *objects
	store   lock.Store
	name    string
	config  coordinator.Config
	// maintained: tables are kept in order in the background.
	maintained bool
	log        *slog.Logger
	// closeLogStore lets go of --log-store.
	closeLogStore func() error
	// created: there was no journal before. shared: other servers may serve it too.
	created, shared bool

	mu sync.Mutex
	// catalog is nil while it is opened anew, and why says why it could not be.
	catalog *coordinator.Catalog
	why     error
}

// open opens a catalog, which other replicas reach at an address.
func open(ctx context.Context, c *Config, catalog, address string, log *slog.Logger) (*running, error) {
	if err := c.noFiles(); err != nil {
		return nil, err
	}
	journal, err := c.journal(catalog, log)
	if err != nil {
		return nil, err
	}
	if journal.absent != nil && journal.absent() {
		if err := makeFolder(c.Warehouse); err != nil {
			return nil, err
		}
	}
	objects, err := newObjects(ctx, append([]string{c.Warehouse}, c.Allow...), c.BucketFlags, !c.NoProbe, log)
	if err != nil {
		return nil, err
	}
	objects.observe(c.recorder)
	r, err := openOn(ctx, c, catalog, address, objects, journal, log)
	if err != nil {
		return nil, errors.Join(err, objects.Close())
	}
	return r, nil
}

// openOn opens a catalog over the places of its objects.
func openOn(ctx context.Context, c *Config, catalog, address string, objects *objects, journal *journalStore, log *slog.Logger) (*running, error) {
	store, created, err := openStore(ctx, c, catalog, objects, journal)
	if err != nil {
		return nil, err
	}
	if err := warehouseThere(ctx, c.Warehouse, objects, created); err != nil {
		return nil, errors.Join(err, store.Close())
	}
	logs, closeLogs, err := c.openLogStore(ctx, log)
	if err != nil {
		return nil, errors.Join(err, store.Close())
	}
	store = c.recorder.Store(store)
	r := &running{
		objects: objects, store: store, name: catalog, maintained: c.Maintain, log: log, closeLogStore: closeLogs,
		created: created, shared: journal.shared,
	}
	r.config = coordinator.Config{
		Name: catalog, Warehouse: c.Warehouse, Store: store, Journal: journal.place, Objects: objects, ReadCheckpoint: checkpoint.Read,
		LogStore: logs, SharedStore: journal.shared, WarehouseMoved: c.WarehouseMoved, Address: address,
		Version: version(), Limits: c.coordinator, Maintain: c.maintenance(), Boot: bootClock(), Telemetry: c.recorder, Log: log,
	}
	if r.catalog, err = r.openCatalog(ctx); err != nil {
		return nil, errors.Join(err, closeLogs(), store.Close())
	}
	return r, nil
}

// openStore opens a store, and says whether there is no journal in it yet. Where the
// warehouse knows of one it errs, before anything is made.
func openStore(ctx context.Context, c *Config, catalog string, objects *objects, journal *journalStore) (lock.Store, bool, error) {
	if journal.absent != nil && journal.absent() {
		if err := coordinator.CheckUnused(ctx, objects, c.Warehouse, catalog); err != nil {
			return nil, false, fmt.Errorf("open %s: %w", journal.name, err)
		}
	}
	store, err := journal.open(ctx)
	if err != nil {
		return nil, false, fmt.Errorf("open the store: %w", err)
	}
	created, err := isNew(ctx, store)
	if err != nil {
		return nil, false, errors.Join(fmt.Errorf("open the store: %w", err), store.Close())
	}
	if !created {
		return store, false, nil
	}
	if err := coordinator.CheckUnused(ctx, objects, c.Warehouse, catalog); err != nil {
		// Another replica may have made the journal, and a manifest, since we looked.
		if again, againErr := isNew(ctx, store); againErr == nil && !again {
			return store, false, nil
		}
		return nil, false, errors.Join(fmt.Errorf("open %s: %w", journal.name, err), store.Close())
	}
	return store, true, nil
}

func (r *running) openCatalog(ctx context.Context) (*coordinator.Catalog, error) {
	c, err := coordinator.Open(ctx, r.config)
	if err != nil {
		return nil, fmt.Errorf("open catalog %s: %w", r.name, err)
	}
	if !r.maintained {
		return c, nil
	}
	if err := c.StartMaintenance(); err != nil {
		return nil, errors.Join(err, c.Close(ctx))
	}
	return c, nil
}

// find is rpc.Config.Find.
func (r *running) find(name string) (rpc.Catalog, error) {
	if name != r.name {
		return nil, rpc.NoCatalog(name)
	}
	c, why := r.current()
	if c == nil {
		return nil, &coordinator.Error{
			Reason: coordinator.ReplicaBehind, RetryAfter: time.Second, Cause: why,
			Message: "this replica was away for so long that it starts again from the newest checkpoint; repeat the call, at any replica",
		}
	}
	return c, nil
}

func (r *running) current() (*coordinator.Catalog, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.catalog, r.why
}

// ready says why the catalog is not served here; nil if it is.
func (r *running) ready() error {
	c, _ := r.current()
	if c == nil {
		return errStartingAgain
	}
	return c.Ready()
}

func (r *running) set(c *coordinator.Catalog, why error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.catalog, r.why = c, why
}

// keepUp opens the catalog anew whenever the journal has gone past it, until ctx
// ends.
func (r *running) keepUp(ctx context.Context) {
	for {
		c, _ := r.current()
		select {
		case <-c.Behind():
		case <-ctx.Done():
			return
		}
		r.log.Warn("the journal went past this replica; it starts again from the newest checkpoint")
		r.set(nil, nil)
		if err := c.Close(ctx); err != nil {
			r.log.Error("close a catalog that fell behind", "error", err)
		}
		if !r.reopen(ctx) {
			return
		}
	}
}

// reopen tries until it succeeds, or ctx ends.
func (r *running) reopen(ctx context.Context) bool {
	for wait := 100 * time.Millisecond; ; wait = min(2*wait, 5*time.Second) {
		c, err := r.openCatalog(ctx)
		if err == nil {
			r.set(c, nil)
			return true
		}
		r.set(nil, err)
		r.log.Error("start again from the newest checkpoint", "error", err)
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return false
		}
	}
}

// warehouseThere makes the warehouse that a new catalog lacks. That of an old one is
// somewhere else: made anew, it would look as if all its tables were dropped.
func warehouseThere(ctx context.Context, warehouse string, objects *objects, created bool) error {
	p, err := parsePlace(warehouse)
	if err != nil || !p.local() {
		return err
	}
	if _, err := os.Stat(p.String()); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if !created {
		return lock.Mark(lock.ErrUnfit, fmt.Errorf("the store holds the journal of a catalog, and its warehouse %s is not there: "+
			"mount it, give it back its name, or correct --warehouse or --store", p))
	}
	if err := makeFolder(warehouse); err != nil {
		return err
	}
	return objects.Probe(ctx, warehouse)
}

// makeFolder makes a local warehouse that a first start lacks.
func makeFolder(warehouse string) error {
	p, err := parsePlace(warehouse)
	if err != nil || !p.local() {
		return err
	}
	return os.MkdirAll("/"+p.key, 0o755)
}

// close ends the catalog, after it has published what it can in a time, and what is
// open under it. What is left goes on in another replica, or in the next start.
func (r *running) close(drain time.Duration) error {
	var err error
	if catalog, _ := r.current(); catalog != nil {
		err = r.closeCatalog(catalog, drain)
	}
	return errors.Join(err, r.closeLogStore(), r.store.Close(), r.objects.Close())
}

// closing is how long a catalog may take to let go of what it has under way.
const closing = 30 * time.Second

func (r *running) closeCatalog(catalog *coordinator.Catalog, drain time.Duration) error {
	ctx, cancel := context.WithTimeout(context.Background(), drain)
	defer cancel()
	if err := catalog.Drain(ctx); err != nil {
		r.log.Warn("stopped before everything was published and had its manifest; another replica, or the next start, goes on", "error", err)
	}
	ctx, cancel = context.WithTimeout(context.Background(), closing)
	defer cancel()
	return catalog.Close(ctx)
}

// maintenance is how tables are kept in order, on request and in the background.
func (c *Config) maintenance() *coordinator.MaintainConfig {
	m := c.maintain
	m.Format, m.CleanOpen, m.KeepLogs = checkpoint.Format(), c.CleanOpen, c.KeepLogs
	return &m
}

// movedTo names the store in which the catalog lives now; empty if it is this one.
func (r *running) movedTo() string {
	if c, _ := r.current(); c != nil {
		return c.MovedTo()
	}
	return ""
}

// untilMoved waits until the catalog has moved to another store, which it names, or
// ctx ends.
func (r *running) untilMoved(ctx context.Context) string {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return ""
		case <-tick.C:
		}
		if to := r.movedTo(); to != "" {
			return to
		}
	}
}
