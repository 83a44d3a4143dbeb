package rpc

import (
	"context"
	"time"

	"github.com/txcoord/txcoord/coordinator"
	"github.com/txcoord/txcoord/twophase"
)

// Catalog is what the services ask of a catalog; *coordinator.Catalog has it all.
// Safe for concurrent use. Every error is a *coordinator.Error or that of the
// context.
type Catalog interface {
	Replica
	Transactions
	Tables
	Snapshots
	Operations
	Leases
}

var _ Catalog = (*coordinator.Catalog)(nil)

// Replica says where this replica's fold stands.
type Replica interface {
	// AtLeast waits a little for the fold to contain a snapshot, then refuses with
	// REPLICA_BEHIND.
	AtLeast(ctx context.Context, v twophase.SnapshotVersion) error
	// Shown is the newest snapshot of the fold. It never goes back.
	Shown() twophase.SnapshotVersion
	Status(ctx context.Context) (coordinator.Status, error)
}

// Transactions is the way of a transaction.
type Transactions interface {
	Begin(ctx context.Context, q coordinator.BeginRequest) (coordinator.Begun, error)
	Stage(ctx context.Context, q coordinator.StageRequest) (coordinator.Staged, error)
	Commit(ctx context.Context, q coordinator.CommitRequest) (coordinator.Outcome, error)
	// CommitOnce also answers the transaction's token.
	CommitOnce(ctx context.Context, q coordinator.OnceRequest) (coordinator.Outcome, string, error)
	Abort(ctx context.Context, ref coordinator.OutcomeRef, reason string) (coordinator.Outcome, error)
	// Outcome also answers since when outcomes are remembered.
	Outcome(ctx context.Context, q coordinator.OutcomeRequest) (coordinator.Outcome, time.Time, error)
	List(ctx context.Context, q coordinator.ListRequest) (coordinator.Listed, error)
	// About notes in the context which transaction a call is about that comes no further.
	About(ctx context.Context, ref coordinator.OutcomeRef)
}

// Tables says which tables belong to the catalog.
type Tables interface {
	// Register and Create also answer warnings, in words.
	Register(ctx context.Context, q coordinator.RegisterRequest) (coordinator.TableInfo, []string, error)
	Create(ctx context.Context, q coordinator.CreateRequest) (coordinator.TableInfo, []string, error)
	// Table finds one by name, id or URI. It reads no log.
	Table(ctx context.Context, ref string) (coordinator.TableInfo, error)
	// NameOf is the name of one that Table finds.
	NameOf(ctx context.Context, ref string) (string, bool)
	// Tables lists them all, by name.
	Tables(ctx context.Context) ([]coordinator.TableInfo, error)
	Describe(ctx context.Context, table string) (coordinator.TableDescription, error)
	Release(ctx context.Context, table string, keepFence bool) error
	SetMode(ctx context.Context, table string, m twophase.Mode) (coordinator.TableInfo, error)
	Fences
}

// Operations is for those who run the catalog.
type Operations interface {
	// Explain names other tables that the caller sees; all, if sees is nil.
	Explain(ctx context.Context, table string, sees func(name string) bool) (coordinator.Explanation, error)
	// ExplainTxn likewise names tables, and transactions on them, that the caller sees.
	ExplainTxn(ctx context.Context, ref coordinator.OutcomeRef, sees func(name string) bool) (coordinator.TxnExplanation, error)
	FreezeTable(ctx context.Context, table, reason string) (coordinator.TableInfo, error)
	UnfreezeTable(ctx context.Context, table, reason string) (coordinator.TableInfo, error)
	Resolve(ctx context.Context, q coordinator.ResolveRequest) (coordinator.Resolution, error)
	Maintain(ctx context.Context, q coordinator.MaintainRequest) (coordinator.MaintainReport, error)
	Garbage
}

// Garbage is what nothing names any more.
type Garbage interface {
	CollectGarbage(ctx context.Context, q coordinator.GarbageRequest) (coordinator.GarbageReport, error)
	RestoreGarbage(ctx context.Context, q coordinator.RestoreRequest) (coordinator.RestoreReport, error)
}

// Leases keep snapshots readable.
type Leases interface {
	Tags(ctx context.Context) ([]coordinator.Tag, error)
	// Lease and RenewLease also answer warnings, in words.
	Lease(ctx context.Context, q coordinator.LeaseRequest) (coordinator.Lease, []string, error)
	RenewLease(ctx context.Context, q coordinator.LeaseRequest) (coordinator.Lease, []string, error)
	EndLease(ctx context.Context, id string) error
	Leases(ctx context.Context) ([]coordinator.Lease, error)
}

// Fences keep out writers that do not know the catalog.
type Fences interface {
	Fence(ctx context.Context, q coordinator.FenceRequest) (coordinator.TableInfo, error)
	Unfence(ctx context.Context, table string) (coordinator.TableInfo, error)
}

// Snapshots says which versions of the tables belong together.
type Snapshots interface {
	Snapshot(ctx context.Context, ref coordinator.SnapshotRef, tables []string) (coordinator.Snapshot, error)
	Snapshots(ctx context.Context, table string, pageSize int, pageToken string) (coordinator.SnapshotPage, error)
	// Watch yields every snapshot after one, in order, until yield or the context
	// ends it. Without a start it yields those made from now on.
	Watch(ctx context.Context, after *twophase.SnapshotVersion, yield func(coordinator.SnapshotChange) error) error
	Diff(ctx context.Context, from, to twophase.SnapshotVersion) (coordinator.Diff, error)
	// Tag also answers warnings, in words.
	Tag(ctx context.Context, name string, v twophase.SnapshotVersion) ([]string, error)
}
