package rpc_test

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	client "github.com/txcoord/txcoord/clients/go"
	"github.com/txcoord/txcoord/coordinator"
	"github.com/txcoord/txcoord/coordinator/access"
	"github.com/txcoord/txcoord/coordinator/rpc"
	pb "github.com/txcoord/txcoord/proto/txcoord/v1"
	"github.com/txcoord/txcoord/twophase"
)

// The principals of these tests, each with one action on tables in*, but for full,
// which has all of them there, and root, which has all of them everywhere.
var principals = []string{"read", "write", "ddl", "fence", "admin", "full", "root", "nobody"}

// accessFile lets them in, each with a token of its own.
func accessFile(t testing.TB) (a *access.Access, tokens map[string]string) {
	t.Helper()
	tokens = map[string]string{}
	all := "[read, write, ddl, fence, admin]"
	var file strings.Builder
	file.WriteString("tokens:\n")
	for _, p := range principals {
		secret, known := access.NewToken(p, nil)
		tokens[p] = secret
		file.WriteString("- {principal: " + p + ", sha256: " + known.SHA256 + "}\n")
	}
	file.WriteString("roles:\n")
	for _, p := range principals[:5] {
		file.WriteString("  " + p + ": [{catalogs: [default], tables: [in*], actions: [" + p + "]}]\n")
	}
	file.WriteString("  full: [{catalogs: [default], tables: [in*], actions: " + all + "}]\n")
	file.WriteString("  root: [{catalogs: ['*'], tables: ['*'], actions: " + all + "}]\n")
	file.WriteString("bindings:\n")
	for _, p := range principals[:7] {
		file.WriteString("- {role: " + p + ", principals: ['token:" + p + "']}\n")
	}
	path := filepath.Join(t.TempDir(), "access.yaml")
	if err := os.WriteFile(path, []byte(file.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	a, err := access.Load(path)
	if err != nil {
		t.Fatal(err)
	}
	return a, tokens
}

// bound is an access file by which some may do everything.
func bound(t testing.TB, names ...string) *access.Access {
	t.Helper()
	path := filepath.Join(t.TempDir(), "access.yaml")
	file := "roles: {all: [{catalogs: ['*'], tables: ['*'], actions: [read, write, ddl, fence, admin]}]}\n" +
		"bindings: [{role: all, principals: ['" + strings.Join(names, "', '") + "']}]\n"
	if err := os.WriteFile(path, []byte(file), 0o600); err != nil {
		t.Fatal(err)
	}
	a, err := access.Load(path)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func as(ctx context.Context, token string) context.Context {
	if token == "" {
		return ctx
	}
	return metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+token)
}

// inAndOut is a catalog with the tables "in" and "out", whose every method answers.
func inAndOut() *fake {
	infos := []coordinator.TableInfo{
		{ID: "t-00000000000000aa", Name: "in", URI: "file:///w/in"}, {ID: "t-00000000000000bb", Name: "out", URI: "file:///w/out"},
	}
	find := func(ref string) (coordinator.TableInfo, error) {
		for _, t := range infos {
			if ref == t.Name || ref == string(t.ID) || ref == t.URI {
				return t, nil
			}
		}
		return coordinator.TableInfo{}, &coordinator.Error{Reason: coordinator.TableNotFound, Message: "no such table"}
	}
	both := func() *coordinator.Committed {
		return &coordinator.Committed{Tables: []coordinator.Delivery{{Table: infos[0].ID, Name: "in"}, {Table: infos[1].ID, Name: "out"}}}
	}
	outcome := func() coordinator.Outcome { return coordinator.Outcome{Txn: id1, Key: "k", Committed: both()} }
	change := coordinator.SnapshotChange{
		Version: 3, Tables: []coordinator.TableChange{{ID: infos[0].ID, Name: "in"}, {ID: infos[1].ID, Name: "out"}},
		Txns: []coordinator.SnapshotTxn{{Txn: id1, Tables: []twophase.TableID{infos[0].ID, infos[1].ID}}, {Txn: id2, Tables: []twophase.TableID{infos[1].ID}}},
	}
	return &fake{
		shown: 3,
		status: func() (coordinator.Status, error) {
			return coordinator.Status{
				Frozen: []coordinator.FrozenDetail{{Table: "in"}, {Table: "out"}},
				Opened: []coordinator.OpenedTable{{Name: "in"}, {Name: "out", Reason: "a secret writer"}},
				Reserved: []coordinator.ReservedTables{
					{Key: "a reader", Tables: []string{"in", "out"}}, {Key: "another's secret", Tables: []string{"out"}},
				},
				Rounds: []coordinator.RoundInfo{{Tables: []string{"in", "out"}}},
			}, nil
		},
		begin: func(context.Context, coordinator.BeginRequest) (coordinator.Begun, error) {
			return coordinator.Begun{Token: "tok", Txn: id1, Known: []coordinator.Outcome{outcome()}}, nil
		},
		stage: func(context.Context, coordinator.StageRequest) (coordinator.Staged, error) {
			return coordinator.Staged{}, nil
		},
		commit: func(context.Context, coordinator.CommitRequest) (coordinator.Outcome, error) { return outcome(), nil },
		commitOnce: func(context.Context, coordinator.OnceRequest) (coordinator.Outcome, string, error) {
			return outcome(), "tok", nil
		},
		abort:   func(coordinator.OutcomeRef, string) (coordinator.Outcome, error) { return outcome(), nil },
		outcome: func(coordinator.OutcomeRequest) (coordinator.Outcome, time.Time, error) { return outcome(), at, nil },
		list: func(coordinator.ListRequest) (coordinator.Listed, error) {
			return coordinator.Listed{
				Open: []coordinator.OpenTxn{
					{Txn: id1, Tables: []coordinator.StagedTable{{Name: "in"}, {Name: "out"}}}, {Txn: id2, Tables: []coordinator.StagedTable{{Name: "out"}}}, {Txn: id2},
				},
				Decided: []coordinator.Outcome{
					outcome(), {Txn: id2, Aborted: &coordinator.ConflictDetail{Table: "out", Path: "secret"}},
				},
			}, nil
		},
		register: func(coordinator.RegisterRequest) (coordinator.TableInfo, []string, error) { return infos[0], nil, nil },
		create:   func(coordinator.CreateRequest) (coordinator.TableInfo, []string, error) { return infos[0], nil, nil },
		table:    find,
		tables:   func() ([]coordinator.TableInfo, error) { return slices.Clone(infos), nil },
		describe: func(string) (coordinator.TableDescription, error) {
			return coordinator.TableDescription{TableInfo: infos[0], Round: &coordinator.RoundInfo{Tables: []string{"in", "out"}}}, nil
		},
		release: func(string, bool) error { return nil },
		fence:   func(coordinator.FenceRequest) (coordinator.TableInfo, error) { return infos[0], nil },
		unfence: func(string) (coordinator.TableInfo, error) { return infos[0], nil },
		setMode: func(string, twophase.Mode) (coordinator.TableInfo, error) { return infos[0], nil },
		explain: func(string) (coordinator.Explanation, error) { return coordinator.Explanation{}, nil },
		explainTxn: func(coordinator.OutcomeRef) (coordinator.TxnExplanation, error) {
			return coordinator.TxnExplanation{
				Outcome: outcome(), Attempts: []coordinator.Outcome{outcome()},
				Open: &coordinator.OpenTxn{Txn: id1, Tables: []coordinator.StagedTable{{Name: "in"}, {Name: "out"}}},
			}, nil
		},
		freeze:   func(string, string) (coordinator.TableInfo, error) { return infos[0], nil },
		unfreeze: func(string, string) (coordinator.TableInfo, error) { return infos[0], nil },
		resolve:  func(coordinator.ResolveRequest) (coordinator.Resolution, error) { return coordinator.Resolution{}, nil },
		maintain: func(coordinator.MaintainRequest) (coordinator.MaintainReport, error) {
			return coordinator.MaintainReport{}, nil
		},
		garbage: func(coordinator.GarbageRequest) (coordinator.GarbageReport, error) {
			return coordinator.GarbageReport{}, nil
		},
		restore: func(coordinator.RestoreRequest) (coordinator.RestoreReport, error) {
			return coordinator.RestoreReport{}, nil
		},
		lease: func(coordinator.LeaseRequest, bool) (coordinator.Lease, []string, error) {
			return coordinator.Lease{}, nil, nil
		},
		endLease: func(string) error { return nil },
		leases:   func() ([]coordinator.Lease, error) { return nil, nil },
		tags:     func() ([]coordinator.Tag, error) { return nil, nil },
		snapshot: func(coordinator.SnapshotRef, []string) (coordinator.Snapshot, error) {
			return coordinator.Snapshot{Version: 3, Tables: []coordinator.SnapshotTable{{Name: "in"}, {Name: "out"}}}, nil
		},
		snapshots: func(string, int, string) (coordinator.SnapshotPage, error) {
			return coordinator.SnapshotPage{Snapshots: []coordinator.SnapshotChange{change}}, nil
		},
		watch: func(_ context.Context, _ *twophase.SnapshotVersion, yield func(coordinator.SnapshotChange) error) error {
			return yield(change)
		},
		diff: func(from, to twophase.SnapshotVersion) (coordinator.Diff, error) {
			return coordinator.Diff{From: from, To: to, Tables: change.Tables, Txns: change.Txns}, nil
		},
		tag: func(string, twophase.SnapshotVersion) ([]string, error) { return nil, nil },
	}
}

const addLine, metaLine = `{"add":{"path":"a"}}`, `{"metaData":{"id":"x"}}`

// Every call, by everybody, on a table that is granted and on one that is not, by
// name, id and URI, and in the middle of what is granted.
func TestWhoMayCallWhat(t *testing.T) {
	a, tokens := accessFile(t)
	c := dial(t, rpc.Config{Catalogs: map[string]rpc.Catalog{"default": inAndOut()}, Access: a})
	for _, p := range probes {
		tables := []string{"in"}
		if p.names {
			tables = []string{"in", "t-00000000000000aa", "file:///w/in", "out", "t-00000000000000bb", "file:///w/out", "unknown"}
			if p.method == "RegisterTable" || p.method == "CreateTable" {
				tables = []string{"in", "out", "unknown"}
			}
		}
		for _, who := range principals {
			for _, table := range tables {
				inside := table == "in" || table == "t-00000000000000aa" || table == "file:///w/in"
				want := slices.Contains(strings.Fields(p.may), who) && (inside || who == "root")
				err := p.call(as(t.Context(), tokens[who]), c, table)
				switch code := status.Code(err); {
				case want && code != codes.OK, !want && code != codes.PermissionDenied:
					t.Errorf("%s of %s by %s (may: %s): %v", p.method, table, who, p.may, err)
				}
			}
		}
		for what, token := range map[string]string{"no token": "", "a wrong token": "txcoord_x", "no token of ours": "abc"} {
			want := codes.Unauthenticated
			if token == "" {
				want = codes.PermissionDenied // nothing is granted to who does not say his name
			}
			if err := p.call(as(t.Context(), token), c, "in"); status.Code(err) != want {
				t.Errorf("%s with %s: %v", p.method, what, err)
			}
		}
	}
}

// A call that stands in no probe is not thought about.
func TestEveryCallIsProbed(t *testing.T) {
	probed := map[string]bool{}
	for _, p := range probes {
		probed[p.method] = true
	}
	for _, service := range services {
		for i := range service.Methods().Len() {
			if name := string(service.Methods().Get(i).Name()); !probed[name] {
				t.Errorf("no probe calls %s", name)
			}
		}
	}
}

var services = []protoreflect.ServiceDescriptor{
	pb.File_txcoord_v1_transactions_proto.Services().Get(0), pb.File_txcoord_v1_tables_proto.Services().Get(0),
	pb.File_txcoord_v1_snapshots_proto.Services().Get(0), pb.File_txcoord_v1_status_proto.Services().Get(0),
	pb.File_txcoord_v1_operations_proto.Services().Get(0),
}

// answers are calls whose answers name tables, as text.
func answers(c clients) map[string]func(context.Context) (string, error) {
	return map[string]func(context.Context) (string, error){
		"Begin": func(ctx context.Context) (string, error) { return textOf(c.Begin(ctx, &pb.BeginRequest{Key: "k"})) },
		"Commit": func(ctx context.Context) (string, error) {
			return textOf(c.Commit(ctx, &pb.CommitRequest{Token: "t", Tables: []*pb.TableParts{parts("in", digest)}}))
		},
		"GetOutcome": func(ctx context.Context) (string, error) {
			return textOf(c.GetOutcome(ctx, &pb.GetOutcomeRequest{Transaction: &pb.GetOutcomeRequest_Key{Key: "k"}}))
		},
		"ListTransactions": func(ctx context.Context) (string, error) {
			return textOf(c.ListTransactions(ctx, &pb.ListTransactionsRequest{IncludeDecided: true}))
		},
		"ListTables": func(ctx context.Context) (string, error) { return textOf(c.ListTables(ctx, &pb.ListTablesRequest{})) },
		"DescribeTable": func(ctx context.Context) (string, error) {
			return textOf(c.DescribeTable(ctx, &pb.DescribeTableRequest{Table: "in"}))
		},
		"ExplainTransaction": func(ctx context.Context) (string, error) {
			return textOf(c.ExplainTransaction(ctx, &pb.ExplainTransactionRequest{Transaction: &pb.ExplainTransactionRequest_Key{Key: "k"}}))
		},
		"GetSnapshot": func(ctx context.Context) (string, error) { return textOf(c.GetSnapshot(ctx, &pb.GetSnapshotRequest{})) },
		"ListSnapshots": func(ctx context.Context) (string, error) {
			return textOf(c.ListSnapshots(ctx, &pb.ListSnapshotsRequest{}))
		},
		"WatchSnapshots": func(ctx context.Context) (string, error) {
			s, err := c.WatchSnapshots(ctx, &pb.WatchSnapshotsRequest{})
			if err != nil {
				return "", err
			}
			return textOf(s.Recv())
		},
		"DiffSnapshots": func(ctx context.Context) (string, error) {
			return textOf(c.DiffSnapshots(ctx, &pb.DiffSnapshotsRequest{From: 1, To: 2}))
		},
		"GetStatus": func(ctx context.Context) (string, error) { return textOf(c.GetStatus(ctx, &pb.GetStatusRequest{})) },
	}
}

func textOf[M proto.Message](m M, err error) (string, error) {
	if err != nil {
		return "", err
	}
	b, err := protojson.Marshal(m)
	return string(b), err
}

func TestAnUnknownCatalogIsNotTold(t *testing.T) {
	a, tokens := accessFile(t)
	c := dial(t, rpc.Config{Catalogs: map[string]rpc.Catalog{"default": inAndOut(), "sales": inAndOut()}, Access: a})
	for _, catalog := range []string{"sales", "none"} {
		_, err := c.GetStatus(as(t.Context(), tokens["full"]), &pb.GetStatusRequest{Catalog: catalog})
		if status.Code(err) != codes.PermissionDenied {
			t.Errorf("catalog %s: %v", catalog, err)
		}
	}
	_, err := c.GetStatus(as(t.Context(), tokens["root"]), &pb.GetStatusRequest{Catalog: "none"})
	if status.Code(err) != codes.NotFound {
		t.Errorf("no catalog, to root: %v", err)
	}
}

// TestBystanders: the catalog is told which of the tables that a transaction reads its
// caller may not write, whatever the request calls them.
func TestBystanders(t *testing.T) {
	reader, known := access.NewToken("reader", nil)
	writer, knownToo := access.NewToken("writer", nil)
	path := filepath.Join(t.TempDir(), "access.yaml")
	file := "tokens:\n- {principal: reader, sha256: " + known.SHA256 + "}\n- {principal: writer, sha256: " + knownToo.SHA256 + "}\n" + `roles:
  reader: [{catalogs: [default], tables: [in], actions: [read]}, {catalogs: [default], tables: [own], actions: [write]}]
  writer: [{catalogs: [default], tables: [in, own], actions: [read, write]}]
bindings:
- {role: reader, principals: ['token:reader']}
- {role: writer, principals: ['token:writer']}
`
	if err := os.WriteFile(path, []byte(file), 0o600); err != nil {
		t.Fatal(err)
	}
	a, err := access.Load(path)
	if err != nil {
		t.Fatal(err)
	}
	f := inAndOut()
	var got []coordinator.ReadOnly
	f.commit = func(_ context.Context, q coordinator.CommitRequest) (coordinator.Outcome, error) {
		got = q.Reads
		return coordinator.Outcome{Txn: id1}, nil
	}
	f.commitOnce = func(_ context.Context, q coordinator.OnceRequest) (coordinator.Outcome, string, error) {
		got = q.Reads
		return coordinator.Outcome{Txn: id1}, "tok", nil
	}
	c := dial(t, rpc.Config{Catalogs: map[string]rpc.Catalog{"default": f}, Access: a})
	for token, want := range map[string]bool{reader: true, writer: false} {
		for _, table := range []string{"in", "t-00000000000000aa", "file:///w/in"} {
			reads := []*pb.ReadParticipant{{Table: table, Read: whole}}
			calls := map[string]func(ctx context.Context) error{
				"Commit": func(ctx context.Context) error {
					_, err := c.Commit(ctx, &pb.CommitRequest{Token: "t", Tables: []*pb.TableParts{parts("own", digest)}, Reads: reads})
					return err
				},
				"CommitOnce": func(ctx context.Context) error {
					_, err := c.CommitOnce(ctx, &pb.CommitOnceRequest{Key: "k", Reads: reads, Tables: []*pb.OnceTable{{Table: "own", Read: client.Blind(), Actions: []byte(addLine)}}})
					return err
				},
			}
			for name, call := range calls {
				got = nil
				if err := call(as(t.Context(), token)); err != nil {
					t.Errorf("%s of %s: %v", name, table, err)
				} else if len(got) != 1 || got[0].Bystander != want {
					t.Errorf("%s of %s: the catalog is told %+v, want a bystander: %v", name, table, got, want)
				}
			}
		}
	}
}
