package rpc

import (
	"context"
	"slices"
	"time"

	"github.com/txcoord/txcoord/coordinator"
	"github.com/txcoord/txcoord/coordinator/access"
	"github.com/txcoord/txcoord/twophase"
)

// About implements Catalog.
func (g guard) About(ctx context.Context, ref coordinator.OutcomeRef) { g.in.About(ctx, ref) }

// Status implements Catalog. Numbers are everybody's who may read something; tables
// are named as far as they may be seen.
func (g guard) Status(ctx context.Context) (coordinator.Status, error) {
	if err := g.onAny(access.Read); err != nil {
		return coordinator.Status{}, err
	}
	st, err := g.in.Status(ctx)
	st.Frozen = keep(st.Frozen, func(f coordinator.FrozenDetail) bool { return g.sees(f.Table) })
	for i := range st.Frozen {
		st.Frozen[i] = *g.freeze(ctx, &st.Frozen[i])
	}
	st.Opened = keep(st.Opened, func(o coordinator.OpenedTable) bool { return g.sees(o.Name) })
	if !g.rights.OnAll(access.Read) {
		st.Troubles = nil // they name locations
	}
	st.Rounds = slices.Clone(st.Rounds)
	for i := range st.Rounds {
		st.Rounds[i].Tables = keep(st.Rounds[i].Tables, g.sees)
	}
	st.Reserved = g.reservations(st.Reserved)
	return st, err
}

// reservations names the keys that go first on a table which the caller sees.
func (g guard) reservations(all []coordinator.ReservedTables) (out []coordinator.ReservedTables) {
	for _, r := range all {
		if r.Tables = keep(r.Tables, g.sees); len(r.Tables) > 0 {
			out = append(out, r)
		}
	}
	return out
}

// Table implements Catalog.
func (g guard) Table(ctx context.Context, ref string) (coordinator.TableInfo, error) {
	if err := g.on(ctx, ref, access.Read); err != nil {
		return coordinator.TableInfo{}, err
	}
	t, err := g.in.Table(ctx, ref)
	return g.info(ctx, t, err)
}

// NameOf implements Catalog.
func (g guard) NameOf(ctx context.Context, ref string) (string, bool) {
	if name := g.nameOf(ctx, ref); !g.rights.On(name, access.Read) {
		return "", false
	}
	return g.in.NameOf(ctx, ref)
}

// Tables implements Catalog.
func (g guard) Tables(ctx context.Context) ([]coordinator.TableInfo, error) {
	if err := g.onAny(access.Read); err != nil {
		return nil, err
	}
	all, err := g.in.Tables(ctx)
	all = keep(all, func(t coordinator.TableInfo) bool { return g.rights.On(t.Name, access.Read) })
	for i := range all {
		all[i].Frozen = g.freeze(ctx, all[i].Frozen)
	}
	return all, err
}

// Describe implements Catalog.
func (g guard) Describe(ctx context.Context, table string) (coordinator.TableDescription, error) {
	if err := g.on(ctx, table, access.Read); err != nil {
		return coordinator.TableDescription{}, err
	}
	d, err := g.in.Describe(ctx, table)
	d.TableInfo, err = g.info(ctx, d.TableInfo, err)
	if d.Round != nil {
		round := *d.Round
		round.Tables = keep(round.Tables, g.sees)
		d.Round = &round
	}
	return d, err
}

// Outcome implements Catalog. Resolving may record an abort, also of what was never
// begun, so it is asked for as Abort is: keys and ids can be guessed.
func (g guard) Outcome(ctx context.Context, q coordinator.OutcomeRequest) (coordinator.Outcome, time.Time, error) {
	err := g.onAny(access.Read)
	switch {
	case q.Resolve && q.Token == "":
		err = g.onAll(access.Admin)
	case q.Resolve || err != nil: // who only writes asks for its own outcomes
		err = g.onAny(access.Write)
	}
	if err != nil {
		return coordinator.Outcome{}, time.Time{}, g.refused(ctx, q.OutcomeRef, err)
	}
	o, since, err := g.in.Outcome(ctx, q)
	return g.outcome(o), since, g.redacted(ctx, err)
}

// outcome is one as the principal may see it: without tables that it may not.
func (g guard) outcome(o coordinator.Outcome) coordinator.Outcome {
	hidden := func(d coordinator.Delivery) bool { return !g.sees(d.Name) }
	if o.Committed != nil && slices.ContainsFunc(o.Committed.Tables, hidden) {
		c := *o.Committed
		c.Tables = keep(c.Tables, func(d coordinator.Delivery) bool { return g.sees(d.Name) })
		if c.PendingReason != "" {
			c.PendingReason = "it has tables that you may not see; publication goes on as far as they let it"
		}
		o.Committed = &c
	}
	if a := o.Aborted; a != nil && a.Table != "" && !g.sees(a.Table) {
		o.Aborted = lostElsewhere(a)
	}
	return o
}

// List implements Catalog. A transaction is listed if the principal may see one of
// its tables; one that has staged nothing, if it may see all.
func (g guard) List(ctx context.Context, q coordinator.ListRequest) (coordinator.Listed, error) {
	err := g.onAny(access.Read)
	if q.Table != "" {
		err = g.on(ctx, q.Table, access.Read)
	}
	if err != nil {
		return coordinator.Listed{}, err
	}
	q.Shows = func(o coordinator.OpenTxn) bool { _, ok := g.openTxn(o); return ok }
	l, err := g.in.List(ctx, q)
	l.Open = g.openTxns(l.Open)
	l.Decided = keep(l.Decided, func(o coordinator.Outcome) bool {
		if o.Committed != nil {
			return slices.ContainsFunc(o.Committed.Tables, func(d coordinator.Delivery) bool { return g.sees(d.Name) })
		}
		return o.Aborted != nil && g.sees(o.Aborted.Table) || g.rights.OnAll(access.Read)
	})
	for i := range l.Decided {
		l.Decided[i] = g.outcome(l.Decided[i])
	}
	return l, err
}

func (g guard) openTxns(all []coordinator.OpenTxn) (out []coordinator.OpenTxn) {
	for _, o := range all {
		if o, ok := g.openTxn(o); ok {
			out = append(out, o)
		}
	}
	return out
}

// openTxn is one as the principal may see it, and whether it may.
func (g guard) openTxn(o coordinator.OpenTxn) (coordinator.OpenTxn, bool) {
	if len(o.Tables) == 0 {
		return o, g.rights.OnAll(access.Read)
	}
	o.Tables = keep(o.Tables, func(t coordinator.StagedTable) bool { return g.sees(t.Name) })
	return o, len(o.Tables) > 0
}

// Snapshot implements Catalog.
func (g guard) Snapshot(ctx context.Context, ref coordinator.SnapshotRef, tables []string) (coordinator.Snapshot, error) {
	if err := g.onAny(access.Read); err != nil {
		return coordinator.Snapshot{}, err
	}
	for _, t := range tables {
		if err := g.on(ctx, t, access.Read); err != nil {
			return coordinator.Snapshot{}, err
		}
	}
	s, err := g.in.Snapshot(ctx, ref, tables)
	s.Tables = keep(s.Tables, func(t coordinator.SnapshotTable) bool { return g.rights.On(t.Name, access.Read) })
	return s, err
}

// Snapshots implements Catalog.
func (g guard) Snapshots(ctx context.Context, table string, pageSize int, pageToken string) (coordinator.SnapshotPage, error) {
	err := g.onAny(access.Read)
	if table != "" {
		err = g.on(ctx, table, access.Read)
	}
	if err != nil {
		return coordinator.SnapshotPage{}, err
	}
	p, err := g.in.Snapshots(ctx, table, pageSize, pageToken)
	p.Snapshots = slices.Clone(p.Snapshots)
	for i := range p.Snapshots {
		p.Snapshots[i] = g.snapshotChange(ctx, p.Snapshots[i])
	}
	return p, err
}

// Watch implements Catalog. Every snapshot comes, so that versions have no gaps.
func (g guard) Watch(ctx context.Context, after *twophase.SnapshotVersion, yield func(coordinator.SnapshotChange) error) error {
	if err := g.onAny(access.Read); err != nil {
		return err
	}
	return g.in.Watch(ctx, after, func(c coordinator.SnapshotChange) error { return yield(g.snapshotChange(ctx, c)) })
}

func (g guard) snapshotChange(ctx context.Context, c coordinator.SnapshotChange) coordinator.SnapshotChange {
	c.Tables, c.Txns = g.tableChanges(c.Tables), g.snapshotTxns(ctx, c.Txns)
	return c
}

func (g guard) tableChanges(all []coordinator.TableChange) []coordinator.TableChange {
	return keep(all, func(t coordinator.TableChange) bool { return g.rights.On(t.Name, access.Read) })
}

func (g guard) snapshotTxns(ctx context.Context, all []coordinator.SnapshotTxn) (out []coordinator.SnapshotTxn) {
	for _, t := range all {
		t.Tables = keep(t.Tables, func(id twophase.TableID) bool {
			return g.rights.On(g.nameOf(ctx, string(id)), access.Read)
		})
		if len(t.Tables) > 0 {
			out = append(out, t)
		}
	}
	return out
}

// Diff implements Catalog.
func (g guard) Diff(ctx context.Context, from, to twophase.SnapshotVersion) (coordinator.Diff, error) {
	if err := g.onAny(access.Read); err != nil {
		return coordinator.Diff{}, err
	}
	d, err := g.in.Diff(ctx, from, to)
	d.Tables, d.Txns = g.tableChanges(d.Tables), g.snapshotTxns(ctx, d.Txns)
	return d, err
}

// keep is a new list of what fits, nil for nil.
func keep[T any](in []T, fits func(T) bool) []T {
	return slices.DeleteFunc(slices.Clone(in), func(v T) bool { return !fits(v) })
}
