package main

import (
	"cmp"
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"

	client "github.com/txcoord/txcoord/clients/go"
	"github.com/txcoord/txcoord/internal/number"
	txcoordv1 "github.com/txcoord/txcoord/proto/txcoord/v1"
)

type tablesCommands struct {
	Register tablesRegister `cmd:"" help:"Bring an existing Delta table into the catalog."`
	Create   tablesCreate   `cmd:"" help:"Make a new, empty Delta table and bring it in."`
	Alter    tablesAlter    `cmd:"" help:"Add columns, set properties, widen types, comment: in a transaction of its own."`
	List     tablesList     `cmd:"" help:"List the catalog's tables."`
	Describe tablesDescribe `cmd:"" help:"Everything that the catalog and the log know of a table."`
	Release  tablesRelease  `cmd:"" help:"Take a table out of the catalog. The table itself stays."`
	Mode     tablesMode     `cmd:"" help:"Change who else may write a table."`
	Fence    tablesFence    `cmd:"" help:"Keep other writers out of a table; all readers go on."`
	Unfence  tablesUnfence  `cmd:"" help:"Let other writers into a table again."`
	Freeze   tablesFreeze   `cmd:"" help:"Let a table take no commits, as an operator; reads and what is decided go on."`
	Unfreeze tablesUnfreeze `cmd:"" help:"Take back tables freeze, and nothing else."`
	Why      tablesWhy      `cmd:"" help:"Everything that stands in a table's way, and what to do about it."`
	Resolve  tablesResolve  `cmd:"" help:"Settle a frozen table: accept what cannot be delivered there, and let it be written again."`
	Maintain tablesMaintain `cmd:"" help:"Put the logs of tables in order: checkpoints, clean-up, staged parts."`
}

// kept are the flags of how a table is kept.
type kept struct {
	Mode      string `help:"Who else may write it: open (anybody), delta-storage (Spark with S3DynamoDBLogStore; see docs/delta-storage.md), exclusive (nobody; saves a look-up for each decision) or fenced (nobody can; see tables fence)." enum:"open,exclusive,fenced,delta-storage" default:"open"`
	OneTxnPer bool   `name:"one-txn-per-version" help:"No two transactions share a version of the table."`
}

func modeOf(word string) txcoordv1.TableMode {
	return txcoordv1.TableMode(txcoordv1.TableMode_value["TABLE_MODE_"+strings.ToUpper(strings.ReplaceAll(word, "-", "_"))])
}

// modeWord is a mode as it is written on the command line.
func modeWord(m txcoordv1.TableMode) string { return strings.ReplaceAll(word(m), "_", "-") }

// place is a location as the server wants it: a path becomes absolute here, where
// its beginning is known.
func place(location string) (string, error) {
	if strings.Contains(location, "://") || filepath.IsAbs(location) {
		return location, nil
	}
	return filepath.Abs(location)
}

type tablesRegister struct {
	Name     string `arg:"" help:"Name of the table in the catalog."`
	Location string `arg:"" help:"Where it is: a URI or a path. A relative path is taken from where this command runs; the path has to be the same on the server's machine."`
	kept
	TakeOver bool `help:"Take the table from a catalog that is gone. Never from one that lives."`
}

func (c *tablesRegister) Run(ctx context.Context, s *session) error {
	uri, err := place(c.Location)
	if err != nil {
		return err
	}
	return s.call(ctx, "registering "+c.Name, func(ctx context.Context, api *client.Client) error {
		a, err := api.Tables.RegisterTable(ctx, &txcoordv1.RegisterTableRequest{
			Name: c.Name, Uri: uri, Mode: modeOf(c.Mode), TakeOver: c.TakeOver, OneTxnPerVersion: c.OneTxnPer,
		})
		if err != nil {
			return advise(err, registerHints(c.Name))
		}
		s.warnings(a.GetWarnings())
		return s.showTable(a, a.GetTable())
	})
}

type tablesCreate struct{ defineFlags }

func (c *tablesCreate) Run(ctx context.Context, s *session) error {
	t, err := c.table()
	if err != nil {
		return err
	}
	return s.call(ctx, "creating "+c.Name, func(ctx context.Context, api *client.Client) error {
		a, err := api.Tables.CreateTable(ctx, &txcoordv1.CreateTableRequest{
			Name: c.Name, Uri: t.GetUri(), SchemaJson: t.GetSchemaJson(), PartitionColumns: t.GetPartitionColumns(),
			Properties: t.GetProperties(), Description: t.GetDescription(), Mode: t.GetMode(), OneTxnPerVersion: t.GetOneTxnPerVersion(),
		})
		if err != nil {
			return advise(err, createHints)
		}
		s.warnings(a.GetWarnings())
		return s.showTable(a, a.GetTable())
	})
}

// showTable prints an answer that is about one table.
func (s *session) showTable(answer proto.Message, t *txcoordv1.Table) error {
	return s.show(answer, []string{t.GetId()}, func(g *grid) { tablePairs(g, t) })
}

func tablePairs(g *grid, t *txcoordv1.Table) {
	g.pair("name", t.GetName())
	g.pair("id", t.GetId())
	g.pair("location", t.GetUri())
	g.pair("mode", modeWord(t.GetMode()))
	fencePairs(g, t)
	g.pair("version", t.GetVersion())
	g.pair("pending", t.GetPendingChanges())
	if t.GetOneTxnPerVersion() {
		g.pair("versions", "one transaction each")
	}
	if f := t.GetFreeze(); f != nil {
		g.pair("frozen", freezeWord(f))
		g.pair("since", f.GetSince())
		g.pair("frozen by", f.GetTransactionId())
		g.pair("reason", f.GetReason())
	}
	g.pair("stopped", t.GetStopped())
	g.pair("trouble", t.GetTrouble())
}

// freezeWord is the cause, and the operator's freeze beside it.
func freezeWord(f *txcoordv1.Freeze) string {
	if f.GetHeld() && f.GetCause() != txcoordv1.FreezeCause_FREEZE_CAUSE_OPERATOR {
		return word(f.GetCause()) + ", and by an operator"
	}
	return word(f.GetCause())
}

type tablesList struct {
	Frozen bool `help:"Only tables that take no commits, and why: frozen ones, and those that a torn commit of another writer stops."`
}

func (c *tablesList) Run(ctx context.Context, s *session) error {
	return s.call(ctx, "listing tables", func(ctx context.Context, api *client.Client) error {
		all := &txcoordv1.ListTablesResponse{}
		for {
			a, err := api.Tables.ListTables(ctx, &txcoordv1.ListTablesRequest{
				FrozenOnly: c.Frozen, PageSize: maxPage, PageToken: all.GetNextPageToken(),
			})
			if err != nil {
				return err
			}
			all.LatestSnapshot, all.NextPageToken = a.GetLatestSnapshot(), a.GetNextPageToken()
			all.Tables = append(all.Tables, a.GetTables()...)
			if a.GetNextPageToken() == "" {
				return s.showTables(all, c.Frozen)
			}
		}
	})
}

// maxPage is what the server puts on a page at most.
const maxPage = 1000

// showTables says why, too, of tables that take no commits.
func (s *session) showTables(all *txcoordv1.ListTablesResponse, why bool) error {
	names := []string{}
	for _, t := range all.GetTables() {
		names = append(names, t.GetName())
	}
	return s.show(all, names, func(g *grid) { tablesGrid(g, all.GetTables(), why) })
}

func tablesGrid(g *grid, all []*txcoordv1.Table, why bool) {
	head := []any{"NAME", "VERSION", "MODE", "PENDING", "STATE", "LOCATION"}
	if why {
		head = append(head, "REASON")
	}
	g.row(head...)
	for _, t := range all {
		cells := []any{t.GetName(), t.GetVersion(), word(t.GetMode()), t.GetPendingChanges(), tableState(t), t.GetUri()}
		if why {
			cells = append(cells, orDash(cmp.Or(t.GetFreeze().GetReason(), t.GetStopped())))
		}
		g.row(cells...)
	}
}

// tableState is one word, or two.
func tableState(t *txcoordv1.Table) string {
	var all []string
	if t.GetFreeze() != nil {
		all = append(all, "frozen:"+word(t.GetFreeze().GetCause()))
		if t.GetFreeze().GetHeld() && t.GetFreeze().GetCause() != txcoordv1.FreezeCause_FREEZE_CAUSE_OPERATOR {
			all = append(all, "frozen:operator")
		}
	}
	if t.GetStopped() != "" {
		all = append(all, "stopped")
	}
	if t.GetTrouble() != "" {
		all = append(all, "trouble")
	}
	if t.GetUnseen() {
		all = append(all, "unseen")
	}
	if f := t.GetFence(); f != nil && !f.GetCounts() {
		all = append(all, "grace")
	}
	if t.GetModeReason() != "" {
		all = append(all, "mode")
	}
	if all == nil {
		return "ok"
	}
	return strings.Join(all, ",")
}

// tableArg is a table that is there.
type tableArg struct {
	Table string `arg:"" help:"The table, by name, id or URI, or by a path: an absolute one, or one that begins with ./ or ../."`
}

// AfterApply is called by the parser.
func (t *tableArg) AfterApply() (err error) {
	t.Table, err = tableRef(t.Table)
	return err
}

// tableRef makes a path from where the command runs, which the server does not know, an
// absolute one. No name of a table begins so.
func tableRef(ref string) (string, error) {
	if ref == "." || ref == ".." || strings.HasPrefix(ref, "./") || strings.HasPrefix(ref, "../") {
		return filepath.Abs(ref)
	}
	return ref, nil
}

type tablesDescribe struct{ tableArg }

func (c *tablesDescribe) Run(ctx context.Context, s *session) error {
	return s.call(ctx, "reading the log of "+c.Table, func(ctx context.Context, api *client.Client) error {
		a, err := api.Tables.DescribeTable(ctx, &txcoordv1.DescribeTableRequest{Table: c.Table})
		if err != nil {
			return err
		}
		s.warnings(a.GetWarnings())
		return s.show(a, []string{a.GetTable().GetId()}, func(g *grid) { descriptionGrid(g, a) })
	})
}

func descriptionGrid(g *grid, a *txcoordv1.DescribeTableResponse) {
	tablePairs(g, a.GetTable())
	g.pair("metadata id", a.GetTable().GetMetadataId())
	if st := a.GetState(); st != nil {
		g.pair("files", st.GetFiles())
		g.pair("bytes", st.GetBytes())
		g.pair("protocol", fmt.Sprintf("reader %d, writer %d", st.GetMinReaderVersion(), st.GetMinWriterVersion()))
		g.pair("features", strings.Join(features(st), ", "))
		g.pair("partitioned by", strings.Join(st.GetPartitionColumns(), ", "))
		for _, k := range sortedKeys(st.GetProperties()) {
			g.pair("property", k+" = "+st.GetProperties()[k])
		}
		g.pair("log kept for", st.GetLogRetention().AsDuration())
		g.pair("removed files kept for", st.GetDeletedFileRetention().AsDuration())
		g.pair("schema", st.GetSchemaJson())
	}
	if r := a.GetOpenRound(); r != nil {
		g.pair("open round", fmt.Sprintf("%s, %s, since %s", r.GetId(), number.Of(r.GetTransactions(), "transaction"), clock(r.GetOpenedAt())))
	}
	if len(a.GetPending()) > 0 {
		g.gap()
		g.row("CHANGE", "TRANSACTION", "GIVEN UP")
		for _, p := range a.GetPending() {
			g.row(p.GetChangeNumber(), p.GetTransactionId(), orDash(word(p.GetGivenUp())))
		}
	}
}

// features are those of both sides, each once.
func features(st *txcoordv1.TableState) []string {
	all := slices.Concat(st.GetReaderFeatures(), st.GetWriterFeatures())
	slices.Sort(all)
	return slices.Compact(all)
}

func sortedKeys[V any](m map[string]V) []string {
	var all []string
	for k := range m {
		all = append(all, k)
	}
	slices.Sort(all)
	return all
}

type tablesRelease struct {
	tableArg
	KeepFence bool `help:"Also a fenced table, with its fence: nobody writes it until somebody takes that out."`
}

func (c *tablesRelease) Run(ctx context.Context, s *session) error {
	return s.call(ctx, "releasing "+c.Table, func(ctx context.Context, api *client.Client) error {
		a, err := api.Tables.ReleaseTable(ctx, &txcoordv1.ReleaseTableRequest{Table: c.Table, KeepFence: c.KeepFence})
		if err != nil {
			return err
		}
		return s.show(a, nil, func(g *grid) { g.row("released " + c.Table) })
	})
}

type tablesMode struct {
	tableArg
	Mode string `arg:"" enum:"open,exclusive,delta-storage" help:"open (anybody may write), delta-storage (Spark with S3DynamoDBLogStore may) or exclusive (nobody else does). For fences see tables fence."`
}

func (c *tablesMode) Run(ctx context.Context, s *session) error {
	return s.call(ctx, "changing "+c.Table, func(ctx context.Context, api *client.Client) error {
		a, err := api.Tables.SetTableMode(ctx, &txcoordv1.SetTableModeRequest{Table: c.Table, Mode: modeOf(c.Mode)})
		if err != nil {
			return err
		}
		return s.showTable(a, a.GetTable())
	})
}
