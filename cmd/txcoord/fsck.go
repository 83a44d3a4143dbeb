package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"

	"github.com/txcoord/txcoord/coordinator"
	"github.com/txcoord/txcoord/internal/number"
	"github.com/txcoord/txcoord/lock"
	"github.com/txcoord/txcoord/lock/boltstore"
	"github.com/txcoord/txcoord/tables/checkpoint"
	"github.com/txcoord/txcoord/twophase"
)

// fsckCommand proves a catalog from what stands in its store and its tables, and asks no
// server. It writes nothing.
type fsckCommand struct {
	Offline
	Table string `help:"Look at this table alone, and at no manifest." placeholder:"NAME"`
}

func (c *fsckCommand) Run(ctx context.Context, s *session) (err error) {
	cfg := c.config(s)
	cfg.readOnly = true
	if err := cfg.Validate(); err != nil {
		return err
	}
	place, err := openOffline(ctx, cfg, s.Catalog, newLogger(cfg, s.err))
	if errors.Is(err, boltstore.ErrInUse) {
		return fmt.Errorf("%w; a server can be asked while it runs: txcoord status, txcoord doctor, txcoord tables why NAME", err)
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, place.Close()) }()
	r, err := coordinator.Fsck(ctx, place.config, c.Table)
	if err != nil {
		var own *coordinator.Error
		if errors.As(err, &own) && own.Reason == coordinator.TableNotFound {
			return &codedError{err, exitNotFound}
		}
		return sameAllow(err)
	}
	if err := s.showFsck(r); err != nil {
		return err
	}
	if n := r.Wrong(); n > 0 {
		return &codedError{fmt.Errorf("%s that catalog %s is not whole", findingsSay(n), s.Catalog), exitDataLoss}
	}
	return nil
}

// Offline are the flags of serve that a command needs which opens the store itself.
type Offline struct {
	FromFile
	Warehouse  string `required:"" help:"The catalog's warehouse, as serve has it ($$TXCOORD_WAREHOUSE)." environ:"TXCOORD_WAREHOUSE" placeholder:"PATH"`
	StoreFlags `embed:""`
	Allow      []string `help:"Where tables may lie besides, as serve has it." placeholder:"PREFIX" sep:"none"`
}

// config is a server's configuration with these flags.
func (o *Offline) config(s *session) *Config {
	return &Config{
		Warehouse: o.Warehouse, StoreFlags: o.StoreFlags, Allow: slices.Clone(o.Allow), Listen: "127.0.0.1:0", StopTimeout: drainBefore,
		LogLevel: "warn", LogFormat: "text", env: s.env,
	}
}

// offlinePlace is the store of a catalog, and where its objects are, without the catalog.
type offlinePlace struct {
	config  coordinator.Config
	objects *objects
	store   lock.Store
}

func (p *offlinePlace) Close() error { return errors.Join(p.store.Close(), p.objects.Close()) }

// openOffline opens what a server opens, and probes nothing.
func openOffline(ctx context.Context, c *Config, catalog string, log *slog.Logger) (*offlinePlace, error) {
	journal, err := c.journal(catalog, log)
	if err != nil {
		return nil, err
	}
	return openOfflineStore(ctx, c, catalog, journal, log)
}

func openOfflineStore(ctx context.Context, c *Config, catalog string, journal *journalStore, log *slog.Logger) (*offlinePlace, error) {
	objects, err := newObjects(ctx, append([]string{c.Warehouse}, c.Allow...), c.BucketFlags, false, log)
	if err != nil {
		return nil, err
	}
	store, err := journal.openAlone(ctx)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open the store: %w", err), objects.Close())
	}
	config := coordinator.Config{
		Name: catalog, Warehouse: c.Warehouse, Store: store, Objects: objects, ReadCheckpoint: checkpoint.Read,
		SharedStore: journal.shared, Version: version(), Log: log,
	}
	return &offlinePlace{config, objects, store}, nil
}

func (s *session) showFsck(r *coordinator.FsckReport) error {
	switch s.Output {
	case "json":
		b, err := marshal(fsckJSON(r))
		if err != nil {
			return err
		}
		return s.lines([]string{string(b)})
	case "id":
		var ids []string
		for _, f := range r.Findings {
			if f.Code.Wrong() {
				ids = append(ids, fsckID(f))
			}
		}
		return s.lines(ids)
	}
	g := newGrid(s.out)
	g.pair("proven", map[bool]string{true: "yes", false: "no"}[r.Proven()])
	g.pair("catalog id", r.Catalog)
	g.pair("incarnation", r.Incarnation)
	g.pair("journal", fmt.Sprintf("entries %d to %d", r.From, int64(r.Position)-1))
	g.pair("looked at", fmt.Sprintf("%s, %s, %s, %s", number.Of(r.Tables, "table"), number.Of(r.Versions, "version"), number.Of(r.Transactions, "committed transaction"), number.Of(r.Manifests, "manifest")))
	if r.Forgotten > 0 {
		g.pair("forgotten", number.Of(r.Forgotten, "transaction")+" in the logs older than what the journal remembers")
	}
	if len(r.Findings) > 0 {
		g.gap()
		g.row("CODE", "TABLE", "VERSION", "TRANSACTION", "WHAT")
	}
	told := map[coordinator.FsckCode]bool{}
	for _, f := range r.Findings {
		g.row(f.Code, orDash(f.Table), fsckVersion(f), orDash(txnText(f.Txn)), f.What)
	}
	for _, f := range r.Findings {
		if remedy := f.Code.Remedy(); remedy != "" && !told[f.Code] {
			if len(told) == 0 {
				g.gap()
			}
			told[f.Code] = true
			g.row(f.Code, remedy)
		}
	}
	return g.flush()
}

// findingsSay begins what so many findings say.
func findingsSay(n int) string {
	return number.Of(n, "finding") + number.Verb(n, " says", " say")
}

// fsckID names what is wrong in one word: the transaction, else the place in a table's log
// or the table, else the snapshot, else what was found.
func fsckID(f coordinator.FsckFinding) string {
	switch {
	case !f.Txn.IsZero():
		return f.Txn.String()
	case f.Table != "" && f.Version >= 0:
		return fmt.Sprintf("%s@%d", f.Table, f.Version)
	case f.Table != "":
		return f.Table
	case f.Snapshot > 0:
		return fmt.Sprintf("@%d", f.Snapshot)
	}
	return string(f.Code)
}

// fsckVersion is a table's version, or the snapshot of a manifest.
func fsckVersion(f coordinator.FsckFinding) string {
	if f.Snapshot > 0 {
		return fmt.Sprintf("snapshot %d", f.Snapshot)
	}
	return versionText(int64(f.Version))
}

func txnText(id twophase.TxnID) string {
	if id.IsZero() {
		return ""
	}
	return id.String()
}

func fsckJSON(r *coordinator.FsckReport) object {
	findings := []object{}
	for _, f := range r.Findings {
		one := object{{"code", string(f.Code)}, {"wrong", f.Code.Wrong()}}
		add := func(name string, set bool, value any) {
			if set {
				one = append(one, field{name, value})
			}
		}
		add("table", f.Table != "", f.Table)
		add("tableId", f.TableID != "", string(f.TableID))
		add("version", f.Version >= 0, int64(f.Version))
		add("snapshot", f.Snapshot > 0, uint64(f.Snapshot))
		add("transaction", !f.Txn.IsZero(), f.Txn.String())
		add("what", true, f.What)
		add("remedy", f.Code.Remedy() != "", f.Code.Remedy())
		findings = append(findings, one)
	}
	return object{
		{"proven", r.Proven()},
		{"catalog", r.Catalog},
		{"incarnation", r.Incarnation},
		{"from", uint64(r.From)},
		{"position", uint64(r.Position)},
		{"snapshot", uint64(r.Snapshot)},
		{"tables", r.Tables},
		{"versions", r.Versions},
		{"transactions", r.Transactions},
		{"manifests", r.Manifests},
		{"forgotten", r.Forgotten},
		{"findings", findings},
	}
}
