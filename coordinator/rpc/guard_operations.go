package rpc

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/txcoord/txcoord/coordinator"
	"github.com/txcoord/txcoord/coordinator/access"
	"github.com/txcoord/txcoord/internal/number"
)

// Explain implements Catalog. Other tables are named as far as they may be seen.
func (g guard) Explain(ctx context.Context, table string, sees func(string) bool) (coordinator.Explanation, error) {
	if err := g.on(ctx, table, access.Read); err != nil {
		return coordinator.Explanation{}, err
	}
	e, err := g.in.Explain(ctx, table, func(name string) bool { return g.sees(name) && (sees == nil || sees(name)) })
	e.Table, err = g.info(ctx, e.Table, err)
	return e, err
}

// ExplainTxn implements Catalog. Who may ask for an outcome may ask for its reasons.
func (g guard) ExplainTxn(ctx context.Context, ref coordinator.OutcomeRef, sees func(string) bool) (coordinator.TxnExplanation, error) {
	err := g.onAny(access.Read)
	if err != nil { // who only writes asks for its own
		err = g.onAny(access.Write)
	}
	if err != nil {
		return coordinator.TxnExplanation{}, g.refused(ctx, ref, err)
	}
	x, err := g.in.ExplainTxn(ctx, ref, func(name string) bool { return g.sees(name) && (sees == nil || sees(name)) })
	x.Outcome = g.outcome(x.Outcome)
	x.Attempts = slices.Clone(x.Attempts)
	for i := range x.Attempts {
		x.Attempts[i] = g.outcome(x.Attempts[i])
	}
	if x.Open != nil {
		if open := g.openTxns([]coordinator.OpenTxn{*x.Open}); len(open) == 1 {
			x.Open = &open[0]
		} else {
			x.Open = nil
		}
	}
	return x, g.redacted(ctx, err)
}

// FreezeTable implements Catalog.
func (g guard) FreezeTable(ctx context.Context, table, reason string) (coordinator.TableInfo, error) {
	g.note.tell(reason)
	if err := g.on(ctx, table, access.Admin); err != nil {
		return coordinator.TableInfo{}, err
	}
	t, err := g.in.FreezeTable(ctx, table, reason)
	return g.info(ctx, t, err)
}

// UnfreezeTable implements Catalog.
func (g guard) UnfreezeTable(ctx context.Context, table, reason string) (coordinator.TableInfo, error) {
	g.note.tell(reason)
	if err := g.on(ctx, table, access.Admin); err != nil {
		return coordinator.TableInfo{}, err
	}
	t, err := g.in.UnfreezeTable(ctx, table, reason)
	return g.info(ctx, t, err)
}

// Resolve implements Catalog. It frees the tables of a round together, so it names them
// to who may resolve one of them.
func (g guard) Resolve(ctx context.Context, q coordinator.ResolveRequest) (coordinator.Resolution, error) {
	g.note.tell(resolveAbout(q))
	if err := g.on(ctx, q.Table, access.Admin); err != nil {
		return coordinator.Resolution{}, err
	}
	return g.in.Resolve(ctx, q)
}

// resolveAbout is what the audit log says of an operator's word on a table.
func resolveAbout(q coordinator.ResolveRequest) string {
	about := "resolve"
	if q.GiveUp {
		about = "give up"
	}
	if q.Preview {
		about = lookedOnly + ", " + about
	}
	if q.Reason != "" {
		about += ": " + q.Reason
	}
	return about
}

// Maintain implements Catalog.
func (g guard) Maintain(ctx context.Context, q coordinator.MaintainRequest) (coordinator.MaintainReport, error) {
	if q.DryRun {
		g.note.tell(lookedOnly)
	}
	if err := g.on(ctx, q.Table, access.Admin); err != nil {
		return coordinator.MaintainReport{}, err
	}
	r, err := g.in.Maintain(ctx, q)
	r.Table, err = g.info(ctx, r.Table, err)
	if !q.DryRun {
		g.note.tell(maintainAbout(r))
	}
	return r, err
}

// maintainAbout is what the audit log says of a table's upkeep, also of one that broke off.
func maintainAbout(r coordinator.MaintainReport) string {
	files := r.CleanUp.Commits + r.CleanUp.Checkpoints + r.CleanUp.Sidecars + r.CleanUp.Others
	about := fmt.Sprintf("removed %s of the log and %s", number.Of(files, "file"), number.Of(r.Payloads.Parts, "staged part"))
	if r.Checkpoint.Written {
		return "wrote a checkpoint, " + about
	}
	return about
}

// CollectGarbage implements Catalog. What it finds is named by keys alone, which are of
// all tables.
func (g guard) CollectGarbage(ctx context.Context, q coordinator.GarbageRequest) (coordinator.GarbageReport, error) {
	if err := g.onAll(access.Admin); err != nil {
		return coordinator.GarbageReport{}, err
	}
	g.note.tell(lookedOnly)
	r, err := g.in.CollectGarbage(ctx, q)
	if q.Remove {
		g.note.tell(removedAbout(r))
	}
	return r, err
}

// lookedOnly begins what the audit log says of an operator's call that writes nothing.
const lookedOnly = "looked only"

// removedAbout is what the audit log says of what gc has removed. Things whose time in
// quarantine is over go without another.
func removedAbout(r coordinator.GarbageReport) string {
	n := 0
	for _, t := range r.Totals {
		n += t.Count
	}
	about := fmt.Sprintf("removed %s", number.Of(n, "thing"))
	if r.Run != "" {
		about += ", quarantine " + r.Run
	}
	return about
}

// RestoreGarbage implements Catalog.
func (g guard) RestoreGarbage(ctx context.Context, q coordinator.RestoreRequest) (coordinator.RestoreReport, error) {
	about := "quarantine " + q.Run
	if q.DryRun {
		about = lookedOnly + ", " + about
	}
	g.note.tell(about)
	if err := g.onAll(access.Admin); err != nil {
		return coordinator.RestoreReport{}, err
	}
	r, err := g.in.RestoreGarbage(ctx, q)
	if !q.DryRun {
		g.note.tell(fmt.Sprintf("put back %s, %s", number.Of(r.Count, "thing"), about))
	}
	return r, err
}

// Tags implements Catalog.
func (g guard) Tags(ctx context.Context) ([]coordinator.Tag, error) {
	if err := g.onAny(access.Read); err != nil {
		return nil, err
	}
	return g.in.Tags(ctx)
}

// Lease implements Catalog. A lease keeps the logs of all tables for a bounded time; who
// may read them all may keep them readable.
func (g guard) Lease(ctx context.Context, q coordinator.LeaseRequest) (coordinator.Lease, []string, error) {
	return g.lease(ctx, q, g.in.Lease)
}

// RenewLease implements Catalog.
func (g guard) RenewLease(ctx context.Context, q coordinator.LeaseRequest) (coordinator.Lease, []string, error) {
	return g.lease(ctx, q, g.in.RenewLease)
}

// lease is in the audit log, though reading is all that it takes: files stay while it lasts.
func (g guard) lease(
	ctx context.Context, q coordinator.LeaseRequest, do func(context.Context, coordinator.LeaseRequest) (coordinator.Lease, []string, error),
) (coordinator.Lease, []string, error) {
	g.note.changes()
	g.note.tell(leaseAbout(coordinator.Lease{ID: q.ID, Snapshot: q.Snapshot, Note: q.Note}))
	if err := g.onAll(access.Read); err != nil {
		return coordinator.Lease{}, nil, err
	}
	l, warnings, err := do(ctx, q)
	if err == nil { // with the id and the snapshot that the catalog has chosen
		g.note.tell(leaseAbout(l))
	}
	return l, warnings, err
}

// leaseAbout is what the audit log says of a lease, as far as it is known.
func leaseAbout(l coordinator.Lease) string {
	about := "lease"
	if l.ID != "" {
		about += " " + text(l.ID, maxValue)
	}
	if l.Snapshot != 0 {
		about += fmt.Sprintf(" of snapshot %d", l.Snapshot)
	}
	if !l.Until.IsZero() {
		about += " until " + l.Until.UTC().Format(time.RFC3339)
	}
	if l.Note != "" {
		about += ": " + l.Note
	}
	return about
}

// EndLease implements Catalog. It may be somebody else's lease.
func (g guard) EndLease(ctx context.Context, id string) error {
	g.note.tell(leaseAbout(coordinator.Lease{ID: id}))
	if err := g.onAll(access.Admin); err != nil {
		return err
	}
	return g.in.EndLease(ctx, id)
}

// Leases implements Catalog.
func (g guard) Leases(ctx context.Context) ([]coordinator.Lease, error) {
	if err := g.onAny(access.Read); err != nil {
		return nil, err
	}
	return g.in.Leases(ctx)
}
