package rpc_test

import (
	"context"
	"net"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/test/bufconn"

	"github.com/txcoord/txcoord/coordinator"
	"github.com/txcoord/txcoord/coordinator/rpc"
	pb "github.com/txcoord/txcoord/proto/txcoord/v1"
	"github.com/txcoord/txcoord/twophase"
)

// fake is a catalog of function fields; a call without one is a panic, and so an
// INTERNAL answer.
type fake struct {
	shown      twophase.SnapshotVersion
	atLeast    func(context.Context, twophase.SnapshotVersion) error
	status     func() (coordinator.Status, error)
	begin      func(context.Context, coordinator.BeginRequest) (coordinator.Begun, error)
	stage      func(context.Context, coordinator.StageRequest) (coordinator.Staged, error)
	commit     func(context.Context, coordinator.CommitRequest) (coordinator.Outcome, error)
	commitOnce func(context.Context, coordinator.OnceRequest) (coordinator.Outcome, string, error)
	abort      func(coordinator.OutcomeRef, string) (coordinator.Outcome, error)
	outcome    func(coordinator.OutcomeRequest) (coordinator.Outcome, time.Time, error)
	about      func(context.Context, coordinator.OutcomeRef)
	list       func(coordinator.ListRequest) (coordinator.Listed, error)
	register   func(coordinator.RegisterRequest) (coordinator.TableInfo, []string, error)
	create     func(coordinator.CreateRequest) (coordinator.TableInfo, []string, error)
	table      func(string) (coordinator.TableInfo, error)
	tables     func() ([]coordinator.TableInfo, error)
	describe   func(string) (coordinator.TableDescription, error)
	release    func(string, bool) error
	fence      func(coordinator.FenceRequest) (coordinator.TableInfo, error)
	unfence    func(string) (coordinator.TableInfo, error)
	setMode    func(string, twophase.Mode) (coordinator.TableInfo, error)
	explain    func(string) (coordinator.Explanation, error)
	explainTxn func(coordinator.OutcomeRef) (coordinator.TxnExplanation, error)
	freeze     func(table, reason string) (coordinator.TableInfo, error)
	unfreeze   func(table, reason string) (coordinator.TableInfo, error)
	resolve    func(coordinator.ResolveRequest) (coordinator.Resolution, error)
	maintain   func(coordinator.MaintainRequest) (coordinator.MaintainReport, error)
	garbage    func(coordinator.GarbageRequest) (coordinator.GarbageReport, error)
	restore    func(coordinator.RestoreRequest) (coordinator.RestoreReport, error)
	lease      func(q coordinator.LeaseRequest, renew bool) (coordinator.Lease, []string, error)
	endLease   func(string) error
	leases     func() ([]coordinator.Lease, error)
	tags       func() ([]coordinator.Tag, error)
	snapshot   func(coordinator.SnapshotRef, []string) (coordinator.Snapshot, error)
	snapshots  func(string, int, string) (coordinator.SnapshotPage, error)
	watch      func(context.Context, *twophase.SnapshotVersion, func(coordinator.SnapshotChange) error) error
	diff       func(from, to twophase.SnapshotVersion) (coordinator.Diff, error)
	tag        func(string, twophase.SnapshotVersion) ([]string, error)
}

var _ rpc.Catalog = (*fake)(nil)

func (f *fake) AtLeast(ctx context.Context, v twophase.SnapshotVersion) error {
	return f.atLeast(ctx, v)
}
func (f *fake) Shown() twophase.SnapshotVersion                    { return f.shown }
func (f *fake) Status(context.Context) (coordinator.Status, error) { return f.status() }

func (f *fake) Begin(ctx context.Context, q coordinator.BeginRequest) (coordinator.Begun, error) {
	return f.begin(ctx, q)
}

func (f *fake) Stage(ctx context.Context, q coordinator.StageRequest) (coordinator.Staged, error) {
	return f.stage(ctx, q)
}

func (f *fake) Commit(ctx context.Context, q coordinator.CommitRequest) (coordinator.Outcome, error) {
	return f.commit(ctx, q)
}

func (f *fake) CommitOnce(ctx context.Context, q coordinator.OnceRequest) (coordinator.Outcome, string, error) {
	return f.commitOnce(ctx, q)
}

func (f *fake) Abort(_ context.Context, r coordinator.OutcomeRef, why string) (coordinator.Outcome, error) {
	return f.abort(r, why)
}

func (f *fake) Outcome(_ context.Context, q coordinator.OutcomeRequest) (coordinator.Outcome, time.Time, error) {
	return f.outcome(q)
}

func (f *fake) List(_ context.Context, q coordinator.ListRequest) (coordinator.Listed, error) {
	return f.list(q)
}

func (f *fake) About(ctx context.Context, r coordinator.OutcomeRef) {
	if f.about != nil {
		f.about(ctx, r)
	}
}

func (f *fake) Register(_ context.Context, q coordinator.RegisterRequest) (coordinator.TableInfo, []string, error) {
	return f.register(q)
}

func (f *fake) Create(_ context.Context, q coordinator.CreateRequest) (coordinator.TableInfo, []string, error) {
	return f.create(q)
}

func (f *fake) Table(_ context.Context, ref string) (coordinator.TableInfo, error) {
	return f.table(ref)
}

func (f *fake) NameOf(_ context.Context, ref string) (string, bool) {
	t, err := f.table(ref)
	return t.Name, err == nil
}

func (f *fake) Tables(context.Context) ([]coordinator.TableInfo, error) { return f.tables() }

func (f *fake) Describe(_ context.Context, t string) (coordinator.TableDescription, error) {
	return f.describe(t)
}

func (f *fake) Release(_ context.Context, t string, keepFence bool) error {
	return f.release(t, keepFence)
}

func (f *fake) Fence(_ context.Context, q coordinator.FenceRequest) (coordinator.TableInfo, error) {
	return f.fence(q)
}

func (f *fake) Unfence(_ context.Context, t string) (coordinator.TableInfo, error) {
	return f.unfence(t)
}

func (f *fake) SetMode(_ context.Context, t string, m twophase.Mode) (coordinator.TableInfo, error) {
	return f.setMode(t, m)
}

func (f *fake) Explain(_ context.Context, t string, _ func(string) bool) (coordinator.Explanation, error) {
	return f.explain(t)
}

func (f *fake) ExplainTxn(_ context.Context, r coordinator.OutcomeRef, _ func(string) bool) (coordinator.TxnExplanation, error) {
	return f.explainTxn(r)
}

func (f *fake) FreezeTable(_ context.Context, t, reason string) (coordinator.TableInfo, error) {
	return f.freeze(t, reason)
}

func (f *fake) UnfreezeTable(_ context.Context, t, reason string) (coordinator.TableInfo, error) {
	return f.unfreeze(t, reason)
}

func (f *fake) Resolve(_ context.Context, q coordinator.ResolveRequest) (coordinator.Resolution, error) {
	return f.resolve(q)
}

func (f *fake) CollectGarbage(_ context.Context, q coordinator.GarbageRequest) (coordinator.GarbageReport, error) {
	return f.garbage(q)
}

func (f *fake) RestoreGarbage(_ context.Context, q coordinator.RestoreRequest) (coordinator.RestoreReport, error) {
	return f.restore(q)
}

func (f *fake) Maintain(_ context.Context, q coordinator.MaintainRequest) (coordinator.MaintainReport, error) {
	return f.maintain(q)
}

func (f *fake) Lease(_ context.Context, q coordinator.LeaseRequest) (coordinator.Lease, []string, error) {
	return f.lease(q, false)
}

func (f *fake) RenewLease(_ context.Context, q coordinator.LeaseRequest) (coordinator.Lease, []string, error) {
	return f.lease(q, true)
}

func (f *fake) EndLease(_ context.Context, id string) error { return f.endLease(id) }

func (f *fake) Leases(context.Context) ([]coordinator.Lease, error) { return f.leases() }

func (f *fake) Tags(context.Context) ([]coordinator.Tag, error) { return f.tags() }

func (f *fake) Snapshot(_ context.Context, r coordinator.SnapshotRef, tables []string) (coordinator.Snapshot, error) {
	return f.snapshot(r, tables)
}

func (f *fake) Snapshots(_ context.Context, t string, size int, token string) (coordinator.SnapshotPage, error) {
	return f.snapshots(t, size, token)
}

func (f *fake) Watch(
	ctx context.Context, after *twophase.SnapshotVersion, yield func(coordinator.SnapshotChange) error,
) error {
	return f.watch(ctx, after, yield)
}

func (f *fake) Diff(_ context.Context, from, to twophase.SnapshotVersion) (coordinator.Diff, error) {
	return f.diff(from, to)
}

func (f *fake) Tag(_ context.Context, name string, v twophase.SnapshotVersion) ([]string, error) {
	return f.tag(name, v)
}

// clients are the stubs of a server over bufconn.
type clients struct {
	pb.TransactionServiceClient
	pb.TableServiceClient
	pb.SnapshotServiceClient
	pb.StatusServiceClient
	pb.OperationServiceClient
	conn   *grpc.ClientConn
	server *rpc.Server
}

func dial(t testing.TB, c rpc.Config) clients {
	t.Helper()
	s, err := rpc.NewServer(c)
	if err != nil {
		t.Fatal(err)
	}
	l := bufconn.Listen(1 << 20)
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	conn, err := grpc.NewClient("passthrough:bufconn", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return l.DialContext(ctx) }))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := conn.Close(); err != nil {
			t.Error(err)
		}
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		s.Stop(ctx)
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return clients{
		pb.NewTransactionServiceClient(conn), pb.NewTableServiceClient(conn), pb.NewSnapshotServiceClient(conn),
		pb.NewStatusServiceClient(conn), pb.NewOperationServiceClient(conn), conn, s,
	}
}

// dialFake serves one fake as the default catalog.
func dialFake(t *testing.T, f *fake) clients {
	t.Helper()
	return dial(t, rpc.Config{Catalogs: map[string]rpc.Catalog{rpc.DefaultCatalog: f}})
}
