package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	client "github.com/txcoord/txcoord/clients/go"
	txcoordv1 "github.com/txcoord/txcoord/proto/txcoord/v1"
)

type snapshotCommands struct {
	Get   snapshotGet   `cmd:"" help:"One snapshot: the version of each table that belongs to it."`
	List  snapshotList  `cmd:"" help:"List snapshots, newest first, each with what it changed."`
	Diff  snapshotDiff  `cmd:"" help:"What changed from one snapshot to another."`
	Watch snapshotWatch `cmd:"" help:"Print every snapshot as it is made, until interrupted."`
	Tag   snapshotTag   `cmd:"" help:"Give a snapshot a name, or take the name away."`
	Tags  snapshotTags  `cmd:"" help:"List all tags."`
	Lease leaseCommands `cmd:"" help:"Keep what a snapshot needs readable for some time; renew, list and end leases."`
}

type snapshotGet struct {
	Tables  []string  `arg:"" optional:"" help:"Only these tables, by name, id or URI."`
	Version *uint64   `help:"The snapshot of this version." placeholder:"SNAPSHOT" xor:"which"`
	Time    time.Time `help:"The newest snapshot that is not younger, for example 2026-11-29T18:30:00Z." placeholder:"RFC3339" xor:"which"`
	Tag     string    `help:"The snapshot with this tag." xor:"which"`
	Format  string    `help:"Print code that reads the tables at exactly these versions: spark, duckdb, python or trino." enum:",spark,duckdb,python,trino" default:"" placeholder:"ENGINE"`
}

func (c *snapshotGet) request() *txcoordv1.GetSnapshotRequest {
	q := &txcoordv1.GetSnapshotRequest{Tables: c.Tables}
	switch {
	case c.Version != nil:
		q.Select = &txcoordv1.GetSnapshotRequest_Version{Version: *c.Version}
	case c.Tag != "":
		q.Select = &txcoordv1.GetSnapshotRequest_Tag{Tag: c.Tag}
	case !c.Time.IsZero():
		q.Select = &txcoordv1.GetSnapshotRequest_Timestamp{Timestamp: timestamppb.New(c.Time)}
	}
	return q
}

func (c *snapshotGet) Run(ctx context.Context, s *session) error {
	return s.call(ctx, "asking for the snapshot", func(ctx context.Context, api *client.Client) error {
		a, err := api.Snapshots.GetSnapshot(ctx, c.request())
		if err != nil {
			return err
		}
		if c.Format != "" {
			s.quiet()
			_, err := fmt.Fprint(s.out, readingCode(c.Format, s.Catalog, a.GetSnapshot()))
			return err
		}
		return s.showSnapshot(a, c.request().GetSelect() == nil)
	})
}

// showSnapshot shows a snapshot. Of one that was chosen nothing is looked at, so nothing is
// said of its tables' state: their logs may have been cleaned past it.
func (s *session) showSnapshot(a *txcoordv1.GetSnapshotResponse, newest bool) error {
	snap := a.GetSnapshot()
	return s.show(a, []string{fmt.Sprint(snap.GetVersion())}, func(g *grid) {
		g.pair("snapshot", snap.GetVersion())
		g.pair("time", exact(snap.GetTimestamp()))
		if n := snap.GetAdded(); n > 0 {
			g.pair("added", fmt.Sprintf("%d later snapshots, whose rounds were opened by then", n))
		}
		g.pair("tags", strings.Join(snap.GetTags(), ", "))
		if len(snap.GetTables()) == 0 {
			return
		}
		g.gap()
		g.row("TABLE", "VERSION", "STATE", "LOCATION")
		for _, t := range snap.GetTables() {
			state := "ok"
			switch {
			case t.GetFrozen():
				state = "frozen"
			case !newest:
				state = "-"
			}
			g.row(t.GetName(), t.GetVersion(), state, t.GetUri())
		}
	})
}

type snapshotList struct {
	Table string `help:"Only those that changed this table." placeholder:"TABLE"`
	Limit int    `help:"At most so many." default:"20"`
}

func (c *snapshotList) Run(ctx context.Context, s *session) error {
	if c.Limit < 1 {
		return usage("--limit", fmt.Sprint(c.Limit), "give a number above 0")
	}
	return s.call(ctx, "listing snapshots", func(ctx context.Context, api *client.Client) error {
		all := &txcoordv1.ListSnapshotsResponse{}
		for {
			a, err := api.Snapshots.ListSnapshots(ctx, &txcoordv1.ListSnapshotsRequest{
				Table: c.Table, PageSize: uint32(min(c.Limit, maxPage)), PageToken: all.GetNextPageToken(),
			})
			if err != nil {
				return err
			}
			all.LatestSnapshot, all.NextPageToken = a.GetLatestSnapshot(), a.GetNextPageToken()
			all.Snapshots = append(all.Snapshots, a.GetSnapshots()...)
			if a.GetNextPageToken() == "" || len(all.GetSnapshots()) >= c.Limit {
				break
			}
		}
		all.Snapshots = all.Snapshots[:min(len(all.Snapshots), c.Limit)]
		return s.showSnapshots(all)
	})
}

func (s *session) showSnapshots(all *txcoordv1.ListSnapshotsResponse) error {
	ids := []string{}
	for _, c := range all.GetSnapshots() {
		ids = append(ids, fmt.Sprint(c.GetVersion()))
	}
	return s.show(all, ids, func(g *grid) {
		changeHeader(g)
		for _, c := range all.GetSnapshots() {
			changeRow(g, c)
		}
	})
}

func changeHeader(g *grid) { g.row("SNAPSHOT", "TIME", "KIND", "TRANSACTIONS", "TABLES") }

func changeRow(g *grid, c *txcoordv1.SnapshotChange) {
	g.row(c.GetVersion(), exact(c.GetTimestamp()), c.GetKind(), len(c.GetTransactions()), tableChanges(c.GetTables()))
}

// tableChanges is "orders@12, items@8": what to read from then on.
func tableChanges(all []*txcoordv1.TableChange) string {
	var out []string
	for _, t := range all {
		if t.GetToVersion() < 0 {
			out = append(out, t.GetName()+" left")
			continue
		}
		out = append(out, fmt.Sprintf("%s@%d", t.GetName(), t.GetToVersion()))
	}
	return orDash(strings.Join(out, ", "))
}

const noSnapshotZero = "snapshots count from 1; leave it out for the latest"

type snapshotDiff struct {
	From uint64  `arg:"" help:"The earlier snapshot; 0 is the empty one before the first."`
	To   *uint64 `arg:"" optional:"" help:"The later snapshot; the latest if left out."`
}

func (c *snapshotDiff) Run(ctx context.Context, s *session) error {
	q := &txcoordv1.DiffSnapshotsRequest{From: c.From}
	if c.To != nil {
		if q.To = *c.To; q.GetTo() == 0 {
			return usage("to", "0", noSnapshotZero)
		}
	}
	return s.call(ctx, "comparing snapshots", func(ctx context.Context, api *client.Client) error {
		a, err := api.Snapshots.DiffSnapshots(ctx, q)
		if err != nil {
			return err
		}
		return s.show(a, nil, func(g *grid) { diffGrid(g, a) })
	})
}

func diffGrid(g *grid, a *txcoordv1.DiffSnapshotsResponse) {
	g.row("snapshots", fmt.Sprintf("%d to %d", a.GetFrom(), a.GetTo()))
	g.gap()
	g.row("TABLE", "FROM", "TO", "LOCATION")
	for _, t := range a.GetTables() {
		g.row(t.GetName(), versionText(t.GetFromVersion()), versionText(t.GetToVersion()), t.GetUri())
	}
	if len(a.GetTransactions()) == 0 {
		return
	}
	names := map[string]string{}
	for _, t := range a.GetTables() {
		names[t.GetId()] = t.GetName()
	}
	g.gap()
	g.row("SNAPSHOT", "TRANSACTION", "KEY", "TABLES")
	for _, t := range a.GetTransactions() {
		var on []string
		for _, id := range t.GetTableIds() {
			on = append(on, or(names[id], id))
		}
		g.row(t.GetSnapshotVersion(), t.GetTransactionId(), orDash(t.GetKey()), strings.Join(on, ", "))
	}
}

func or(a, b string) string {
	if a == "" {
		return b
	}
	return a
}

type snapshotWatch struct {
	After *uint64 `help:"Begin with the snapshot after this one; 0 is from the first on. Without it: those made from now on." placeholder:"SNAPSHOT"`
	Count int     `help:"End after so many." placeholder:"N"`
}

// Run prints until it is interrupted, so --timeout does not bound it. A lost
// connection is made again, and the watch goes on where it was.
func (c *snapshotWatch) Run(ctx context.Context, s *session) error {
	api, err := s.client()
	if err != nil {
		return err
	}
	after, err := c.start(ctx, s)
	if err != nil {
		return err
	}
	printed := 0
	for change, err := range api.Watch(ctx, after) {
		if err != nil {
			return s.explain(err)
		}
		if err := s.showChange(change, printed == 0); err != nil {
			return err
		}
		if printed++; printed == c.Count {
			return nil
		}
	}
	return nil
}

func (c *snapshotWatch) start(ctx context.Context, s *session) (after uint64, err error) {
	if c.After != nil {
		return *c.After, nil
	}
	err = s.call(ctx, "asking for the latest snapshot", func(ctx context.Context, api *client.Client) error {
		a, err := api.Status.GetStatus(ctx, &txcoordv1.GetStatusRequest{})
		after = a.GetLatestSnapshot()
		return err
	})
	return after, err
}

// showChange prints one line at once: a grid would wait for the rest.
func (s *session) showChange(c *txcoordv1.SnapshotChange, first bool) error {
	switch s.Output {
	case "json":
		return s.showJSON(c, "")
	case "id":
		return s.lines([]string{fmt.Sprint(c.GetVersion())})
	}
	if first {
		if _, err := fmt.Fprintf(s.out, "%-10s%-26s%-13s%-14s%s\n", "SNAPSHOT", "TIME", "KIND", "TRANSACTIONS", "TABLES"); err != nil {
			return err
		}
	}
	_, err := fmt.Fprintf(s.out, "%-10d%-26s%-13s%-14d%s\n", c.GetVersion(), exact(c.GetTimestamp()), c.GetKind(),
		len(c.GetTransactions()), printable(tableChanges(c.GetTables())))
	return err
}

type snapshotTag struct {
	Tag     string  `arg:"" help:"The name."`
	Version *uint64 `arg:"" optional:"" help:"The snapshot; the latest if left out."`
	Delete  bool    `help:"Take the name away instead."`
}

func (c *snapshotTag) Run(ctx context.Context, s *session) error {
	if c.Delete && c.Version != nil {
		return usage("--delete", "", "leave the version out: the name is taken away from whatever has it")
	}
	if c.Version != nil && *c.Version == 0 {
		return usage("version", "0", noSnapshotZero)
	}
	return s.call(ctx, "tagging", func(ctx context.Context, api *client.Client) error {
		var version uint64
		if c.Version != nil {
			version = *c.Version
		} else if !c.Delete {
			a, err := api.Snapshots.GetSnapshot(ctx, &txcoordv1.GetSnapshotRequest{})
			if err != nil {
				return err
			}
			version = a.GetSnapshot().GetVersion()
		}
		a, err := api.Snapshots.TagSnapshot(ctx, &txcoordv1.TagSnapshotRequest{Tag: c.Tag, SnapshotVersion: version})
		if err != nil {
			return err
		}
		s.warnings(a.GetWarnings())
		return s.show(a, []string{fmt.Sprint(version)}, func(g *grid) {
			if c.Delete {
				g.row("tag " + c.Tag + " is gone")
				return
			}
			g.row(fmt.Sprintf("tag %s is snapshot %d", c.Tag, version))
		})
	})
}
