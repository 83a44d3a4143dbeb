package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/txcoord/txcoord/coordinator"
	"github.com/txcoord/txcoord/lock"
	"github.com/txcoord/txcoord/lock/memstore"
	"github.com/txcoord/txcoord/twophase"
)

// rebuildCommand makes a new journal for a catalog whose own is lost, from the logs of its
// tables and its manifests. It asks no server: none of the catalog may run.
type rebuildCommand struct {
	Offline
	LogStore string `help:"The DynamoDB table of Spark's S3DynamoDBLogStore, as serve has it ($$TXCOORD_LOG_STORE)." environ:"TXCOORD_LOG_STORE" placeholder:"URL"`

	Yes       bool     `help:"Do it. Without it the plan is shown, and on a terminal you are asked." xor:"do"`
	DryRun    bool     `help:"Show the plan, and ask nothing." xor:"do"`
	Accept    []string `help:"Go on although this is lost: ${rebuild_losses}. May be given several times." placeholder:"CODE"`
	Supersede string   `help:"Give up the journal that the store holds, of this incarnation. Without it the store has to be empty." placeholder:"INCARNATION"`
	CatalogID string   `name:"catalog-id" help:"Id of the catalog, where there is no manifest and tables of several were found." placeholder:"ID"`
	Table     []string `help:"Location of a table that no manifest names, and that lies outside of what is searched. May be given several times." placeholder:"URI" sep:"none"`
	NoSearch  bool     `help:"Do not search the warehouse and the allowed places for tables that no manifest names."`
	Name      []string `help:"Name of a table by its id, where nothing tells it." placeholder:"ID=NAME" sep:"none"`
	Mode      []string `help:"Mode of a table: open, exclusive or delta-storage. Without it an exclusive one comes back as open." placeholder:"TABLE=MODE" sep:"none"`
}

func rebuildLosses() string {
	var out []string
	for _, c := range coordinator.RebuildLosses() {
		out = append(out, string(c))
	}
	return strings.Join(out, ", ")
}

func (c *rebuildCommand) Run(ctx context.Context, s *session) error {
	opts, err := c.options()
	if err != nil {
		return err
	}
	if !c.Yes {
		plan, err := c.run(ctx, s, opts)
		if err != nil {
			return err
		}
		if err := s.showRebuild(plan); err != nil {
			return err
		}
		switch {
		case plan.Refused() > 0:
			return refusedRebuild(plan)
		case c.DryRun || plan.Already:
			return nil
		case !s.confirmed("Do it?"):
			s.note("nothing was done; with --yes it is")
			return nil
		}
	}
	opts.Write = true
	done, err := c.run(ctx, s, opts)
	if err != nil {
		return err
	}
	if err := s.showRebuild(done); err != nil {
		return err
	}
	if !done.Written {
		return refusedRebuild(done)
	}
	s.note("start the catalog's servers with this store, and prove it with: txcoord fsck")
	return nil
}

func refusedRebuild(r *coordinator.RebuildReport) error {
	var codes []string
	for _, f := range r.Findings {
		if f.Code.Loss() && !f.Accepted && !slices.Contains(codes, string(f.Code)) {
			codes = append(codes, string(f.Code))
		}
	}
	return &codedError{fmt.Errorf("%s that something would be lost; nothing was written. Mend what can be mended, and accept the rest with --accept %s", findingsSay(r.Refused()), strings.Join(codes, ",")), exitDataLoss}
}

// run plans or carries out, over a store that is opened for that.
func (c *rebuildCommand) run(ctx context.Context, s *session, opts coordinator.RebuildOptions) (r *coordinator.RebuildReport, err error) {
	cfg := c.config(s)
	cfg.LogStore, cfg.readOnly = c.LogStore, !opts.Write
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if !c.NoSearch {
		opts.Look = append([]string{cfg.Warehouse}, cfg.Allow...)
	}
	log := newLogger(cfg, s.err)
	place, err := openRebuild(ctx, cfg, s.Catalog, opts.Write, s)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, place.Close()) }()
	logs, closeLogs, err := cfg.openLogStore(ctx, log)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, closeLogs()) }()
	place.config.LogStore = logs
	return coordinator.Rebuild(ctx, place.config, opts)
}

// openRebuild opens the store that the journal shall be in. One that would have to be
// made is not made for a plan.
func openRebuild(ctx context.Context, c *Config, catalog string, write bool, s *session) (*offlinePlace, error) {
	journal, err := c.journal(catalog, newLogger(c, s.err))
	if err != nil {
		return nil, err
	}
	open := *journal
	switch {
	case !write:
		open.open = func(ctx context.Context) (lock.Store, error) {
			store, err := journal.open(ctx)
			if errors.Is(err, errUnmade) {
				return memstore.New(memstore.Config{}), nil
			}
			return store, err
		}
	case journal.prepare != nil:
		if _, err := journal.prepare(ctx); err != nil {
			return nil, err
		}
	}
	place, err := openOfflineStore(ctx, c, catalog, &open, newLogger(c, s.err))
	if err != nil || !write {
		return place, err
	}
	if err := lock.Probe(ctx, place.store); err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", journal.name, err), place.Close())
	}
	return place, nil
}

// options are the flags as the coordinator takes them.
func (c *rebuildCommand) options() (coordinator.RebuildOptions, error) {
	opts := coordinator.RebuildOptions{
		Supersede: c.Supersede, Catalog: c.CatalogID, Tables: c.Table, Names: map[string]string{}, Modes: map[string]twophase.Mode{},
	}
	for _, code := range c.Accept {
		known := coordinator.RebuildCode(strings.ToUpper(code))
		if !known.Loss() {
			return opts, usage("--accept", code, "there are "+rebuildLosses())
		}
		opts.Accept = append(opts.Accept, known)
	}
	for _, given := range c.Name {
		id, name, ok := strings.Cut(given, "=")
		if !ok || id == "" || name == "" {
			return opts, usage("--name", given, "write ID=NAME")
		}
		opts.Names[id] = name
	}
	modes := map[string]twophase.Mode{}
	for _, m := range []twophase.Mode{twophase.ModeOpen, twophase.ModeExclusive, twophase.ModeDeltaStorage} {
		modes[m.String()] = m
	}
	for _, given := range c.Mode {
		table, text, _ := strings.Cut(given, "=")
		mode, ok := modes[text]
		if !ok || table == "" {
			return opts, usage("--mode", given, "write TABLE=MODE, with open, exclusive or delta-storage; a fence shows in the table's protocol")
		}
		opts.Modes[table] = mode
	}
	return opts, nil
}

func (s *session) showRebuild(r *coordinator.RebuildReport) error {
	switch s.Output {
	case "json":
		b, err := marshal(rebuildJSON(r))
		if err != nil {
			return err
		}
		return s.lines([]string{string(b)})
	case "id":
		return s.ids(r.Incarnation) // a plan has none
	}
	g := newGrid(s.out)
	state := "no: this is the plan"
	if r.Written {
		state = "yes"
	}
	if r.Already {
		state = "yes, by an earlier run"
	}
	g.pair("written", state)
	g.pair("catalog id", r.Catalog)
	g.pair("incarnation before", orDash(r.From))
	g.pair("incarnation", orDash(r.Incarnation))
	g.pair("newest manifest", uint64(r.Manifest))
	g.pair("goes on from snapshot", uint64(r.Snapshot))
	if !r.Already {
		g.pair("transactions known", r.Known)
		g.pair("keys known since", sinceText(r.Since))
	}
	if len(r.Tables) > 0 {
		g.gap()
		g.row("TABLE", "MODE", "VERSION", "IN MANIFEST", "TRANSACTIONS", "LOCATION")
	}
	for _, t := range r.Tables {
		g.row(t.Name, t.Mode, int64(t.Version), versionText(int64(t.Shown)), t.Transactions, t.URI)
	}
	rebuildFindings(g, r)
	for _, t := range r.Torn {
		for _, p := range t.Missing {
			for _, kept := range p.Kept {
				g.gap()
				g.row("staged part of "+t.Txn.String(), "kept as", kept)
			}
		}
	}
	return g.flush()
}

func sinceText(t time.Time) string {
	if t.IsZero() {
		return "the beginning"
	}
	return t.UTC().Format(time.RFC3339)
}

func rebuildFindings(g *grid, r *coordinator.RebuildReport) {
	if len(r.Findings) > 0 {
		g.gap()
		g.row("CODE", "LOST", "TABLE", "TRANSACTION", "WHAT")
	}
	var told []coordinator.RebuildCode
	for _, f := range r.Findings {
		lost := "-"
		if f.Code.Loss() {
			lost = map[bool]string{true: "accepted", false: "not accepted"}[f.Accepted]
		}
		g.row(string(f.Code), lost, orDash(f.Table), orDash(txnText(f.Txn)), f.What)
	}
	for _, f := range r.Findings {
		if remedy := f.Code.Remedy(); remedy != "" && !slices.Contains(told, f.Code) {
			if len(told) == 0 {
				g.gap()
			}
			told = append(told, f.Code)
			g.row(string(f.Code), remedy)
		}
	}
}

func rebuildJSON(r *coordinator.RebuildReport) object {
	rows, torn, findings := []object{}, []object{}, []object{}
	for _, t := range r.Tables {
		row := object{{"id", string(t.ID)}, {"name", t.Name}, {"uri", t.URI}, {"mode", t.Mode.String()}, {"version", int64(t.Version)}}
		if t.Shown != twophase.NoVersion {
			row = append(row, field{"manifestVersion", int64(t.Shown)})
		}
		rows = append(rows, append(row, field{"transactions", t.Transactions}))
	}
	for _, t := range r.Torn {
		torn = append(torn, object{{"transaction", t.Txn.String()}, {"in", tornJSON(t.In)}, {"missing", tornJSON(t.Missing)}, {"missingUnnamed", t.More}})
	}
	for _, f := range r.Findings {
		one := object{{"code", string(f.Code)}, {"loss", f.Code.Loss()}, {"accepted", f.Accepted}}
		if f.Table != "" {
			one = append(one, field{"table", f.Table})
		}
		if f.TableID != "" {
			one = append(one, field{"tableId", string(f.TableID)})
		}
		if !f.Txn.IsZero() {
			one = append(one, field{"transaction", f.Txn.String()})
		}
		findings = append(findings, append(one, field{"what", f.What}, field{"remedy", f.Code.Remedy()}))
	}
	out := object{
		{"written", r.Written},
		{"already", r.Already},
		{"catalog", r.Catalog},
		{"from", r.From},
		{"incarnation", r.Incarnation},
		{"manifest", uint64(r.Manifest)},
		{"snapshot", uint64(r.Snapshot)},
		{"known", r.Known},
	}
	if !r.Since.IsZero() {
		out = append(out, field{"since", r.Since.UTC().Format(time.RFC3339Nano)})
	}
	return append(out, field{"tables", rows}, field{"torn", torn}, field{"findings", findings})
}

// texts is a list that is there also when it is empty.
func texts(in []string) []string { return append([]string{}, in...) }

func tornJSON(parts []coordinator.TornPart) []object {
	out := []object{}
	for _, p := range parts {
		one := object{{"tableId", string(p.ID)}}
		if p.Name != "" {
			one = append(one, field{"table", p.Name})
		}
		if p.Version != twophase.NoVersion {
			one = append(one, field{"version", int64(p.Version)})
		} else {
			one = append(one, field{"staged", texts(p.Staged)}, field{"kept", texts(p.Kept)}, field{"cleaned", p.Cleaned})
		}
		out = append(out, one)
	}
	return out
}
