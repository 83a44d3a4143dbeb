package rpc_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	client "github.com/txcoord/txcoord/clients/go"
	"github.com/txcoord/txcoord/coordinator"
	"github.com/txcoord/txcoord/coordinator/rpc"
	pb "github.com/txcoord/txcoord/proto/txcoord/v1"
	"github.com/txcoord/txcoord/tables"
	"github.com/txcoord/txcoord/twophase"
)

var at = time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)

func same(t *testing.T, want, got any) {
	t.Helper()
	if d := cmp.Diff(want, got, protocmp.Transform()); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

func TestBegin(t *testing.T) {
	var asked coordinator.BeginRequest
	f := &fake{shown: 9, begin: func(_ context.Context, q coordinator.BeginRequest) (coordinator.Begun, error) {
		asked = q
		return coordinator.Begun{
			Token: "tok", Txn: id1, Key: q.Key, Attempt: q.Attempt, CatalogID: "cat", Incarnation: "1", Position: 5,
			Deadline: at, RememberedSince: at.Add(-time.Hour),
			Known: []coordinator.Outcome{{Txn: id2, Key: "k", Attempt: 2, DecidedAt: at, Aborted: &coordinator.ConflictDetail{Version: -1, Rule: twophase.RuleExpired}}},
		}, nil
	}}
	got, err := dialFake(t, f).Begin(t.Context(), &pb.BeginRequest{Key: "k", Ttl: durationpb.New(time.Minute)})
	if err != nil {
		t.Fatal(err)
	}
	if asked.Client == "" {
		t.Error("the catalog does not learn who asks")
	}
	asked.Client = ""
	same(t, coordinator.BeginRequest{Key: "k", Attempt: 1, TTL: time.Minute}, asked)
	same(t, &pb.BeginResponse{
		LatestSnapshot: 9, Token: "tok", TransactionId: id1.String(), Attempt: 1, CatalogId: "cat", Incarnation: "1",
		Position: 5, Deadline: timestamppb.New(at), RememberedSince: timestamppb.New(at.Add(-time.Hour)),
		Known: []*pb.Outcome{{
			TransactionId: id2.String(), Key: "k", Attempt: 2, State: &pb.Outcome_Aborted{Aborted: &pb.AbortedOutcome{
				DecidedAt: timestamppb.New(at), Conflict: &pb.ConflictDetail{Version: -1, Rule: pb.Rule_RULE_EXPIRED},
			}},
		}},
	}, got)
}

func TestCommit(t *testing.T) {
	var asked coordinator.CommitRequest
	f := &fake{shown: 4, commit: func(_ context.Context, q coordinator.CommitRequest) (coordinator.Outcome, error) {
		asked = q
		return coordinator.Outcome{
			Txn: id1, DecidedAt: at, Position: 7,
			Committed: &coordinator.Committed{PendingReason: "orders is frozen", Tables: []coordinator.Delivery{
				{Table: "t1", Name: "orders", Status: twophase.StatusPublished, Version: 12, Place: 3},
				{Table: "t2", Name: "items", Status: twophase.StatusDelivered, Version: 8},
				{Table: "t3", Name: "customers", Status: twophase.StatusDiverged, Conflict: &coordinator.ConflictDetail{Rule: twophase.RulePathExists, Version: 4}},
				{Table: "t4", Name: "stock", Status: twophase.StatusNotApplied},
				{Table: "t5", Name: "old", Status: twophase.StatusPublished, Version: twophase.NoVersion},
			}},
		}, nil
	}}
	got, err := dialFake(t, f).Commit(t.Context(), &pb.CommitRequest{
		Token: "tok", Tables: []*pb.TableParts{parts("orders", digest)},
		Reads: []*pb.ReadParticipant{{Table: "customers", Read: whole}},
		Wait:  pb.Wait_WAIT_DECIDED, WaitLimit: durationpb.New(time.Second), VerifyFiles: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	asked.Client = ""
	three := twophase.Version(3)
	d, err := twophase.ParseHash(digest)
	if err != nil {
		t.Fatal(err)
	}
	same(t, coordinator.CommitRequest{
		Token: "tok", Tables: []coordinator.TableParts{{Table: "orders", Digests: []twophase.Digest{d}}},
		Reads: []coordinator.ReadOnly{{Table: "customers", Read: tables.ReadDeclaration{Version: &three, Kind: tables.ReadWholeTable}}},
		Wait:  coordinator.WaitDecided, WaitLimit: time.Second, VerifyFiles: true,
	}, asked)
	same(t, []*pb.TableDelivery{
		{TableId: "t1", Table: "orders", State: pb.DeliveryState_DELIVERY_STATE_PUBLISHED, Version: 12, Place: 3},
		{TableId: "t2", Table: "items", State: pb.DeliveryState_DELIVERY_STATE_PENDING, Version: -1},
		{TableId: "t3", Table: "customers", State: pb.DeliveryState_DELIVERY_STATE_DIVERGED, Version: -1, Conflict: &pb.ConflictDetail{Rule: pb.Rule_RULE_PATH_EXISTS, Version: 4}},
		{TableId: "t4", Table: "stock", State: pb.DeliveryState_DELIVERY_STATE_NOT_APPLIED, Version: -1},
		{TableId: "t5", Table: "old", State: pb.DeliveryState_DELIVERY_STATE_PUBLISHED, Version: -1},
	}, got.GetOutcome().GetCommitted().GetTables())
	if c := got.GetOutcome().GetCommitted(); c.GetPosition() != 7 || c.GetPendingReason() != "orders is frozen" {
		t.Errorf("got %v", c)
	}
}

func TestOutcomeAttempts(t *testing.T) {
	var asked coordinator.OutcomeRequest
	f := &fake{outcome: func(q coordinator.OutcomeRequest) (coordinator.Outcome, time.Time, error) {
		asked = q
		return coordinator.Outcome{Txn: id1, Deadline: at}, at, nil
	}}
	c := dialFake(t, f)
	key := &pb.GetOutcomeRequest_Key{Key: "k"}
	got, err := c.GetOutcome(t.Context(), &pb.GetOutcomeRequest{Transaction: key})
	if err != nil {
		t.Fatal(err)
	}
	same(t, coordinator.OutcomeRequest{OutcomeRef: coordinator.OutcomeRef{Key: "k"}}, asked)
	same(t, &pb.OpenOutcome{Deadline: timestamppb.New(at)}, got.GetOutcome().GetOpen())
	_, err = c.GetOutcome(t.Context(), &pb.GetOutcomeRequest{Transaction: key, Resolve: true, BegunAfter: timestamppb.New(at)})
	if err != nil {
		t.Fatal(err)
	}
	same(t, coordinator.OutcomeRequest{
		OutcomeRef: coordinator.OutcomeRef{Key: "k", Attempt: 1}, Resolve: true, BegunAfter: at,
	}, asked)
}

func TestCatalogsAreFoundByName(t *testing.T) {
	status := func(id string) *fake {
		return &fake{status: func() (coordinator.Status, error) { return coordinator.Status{CatalogID: id}, nil }}
	}
	c := dial(t, rpc.Config{
		Version:  "1.2.3",
		Catalogs: map[string]rpc.Catalog{"default": status("one"), "sales": status("two")},
	})
	for name, want := range map[string]string{"": "one", "default": "one", "sales": "two"} {
		got, err := c.GetStatus(t.Context(), &pb.GetStatusRequest{Catalog: name})
		if err != nil || got.GetCatalogId() != want || got.GetServerVersion() != "1.2.3" {
			t.Errorf("catalog %q: %v, %v", name, got, err)
		}
	}
	err := send(t.Context(), c, &pb.BeginRequest{Catalog: "nope"})
	var e *client.Error
	if !errors.As(err, &e) || e.Reason != "CATALOG_NOT_FOUND" {
		t.Errorf("unknown catalog: %v", err)
	}
}

// requests are one valid request for every call.
func requests() []proto.Message {
	return []proto.Message{
		&pb.BeginRequest{}, readOf(client.Blind()), &pb.CommitRequest{Token: "t", Tables: []*pb.TableParts{parts("a", digest)}},
		once("a", client.Blind()), &pb.AbortRequest{Transaction: &pb.AbortRequest_Token{Token: "t"}},
		&pb.GetOutcomeRequest{Transaction: &pb.GetOutcomeRequest_Token{Token: "t"}}, &pb.ListTransactionsRequest{},
		&pb.RegisterTableRequest{Name: "n", Uri: "/x"}, &pb.CreateTableRequest{Name: "n", Uri: "/x", SchemaJson: "{}"},
		&pb.ListTablesRequest{}, &pb.DescribeTableRequest{Table: "a"}, &pb.ReleaseTableRequest{Table: "a"},
		&pb.SetTableModeRequest{Table: "a", Mode: 1}, &pb.FenceTableRequest{Table: "a"}, &pb.UnfenceTableRequest{Table: "a"}, &pb.GetSnapshotRequest{},
		&pb.ListSnapshotsRequest{}, &pb.DiffSnapshotsRequest{}, &pb.TagSnapshotRequest{Tag: "x"},
		&pb.ExplainTableRequest{Table: "a"}, &pb.ResolveTableRequest{Table: "a"}, &pb.MaintainTableRequest{Table: "a"}, &pb.ListTagsRequest{},
		&pb.CollectGarbageRequest{}, &pb.RestoreGarbageRequest{Run: "r"},
		&pb.ExplainTransactionRequest{Transaction: &pb.ExplainTransactionRequest_Key{Key: "k"}}, &pb.FreezeTableRequest{Table: "a"}, &pb.UnfreezeTableRequest{Table: "a"},
		&pb.LeaseSnapshotRequest{}, &pb.RenewLeaseRequest{LeaseId: "a"}, &pb.ListLeasesRequest{}, &pb.DeleteLeaseRequest{LeaseId: "a"},
	}
}

// TestEveryCallWaitsForTheClientsSnapshot: a replica that is behind answers no
// call; the catalog's methods would panic.
func TestEveryCallWaitsForTheClientsSnapshot(t *testing.T) {
	var waited []twophase.SnapshotVersion
	f := &fake{atLeast: func(_ context.Context, v twophase.SnapshotVersion) error {
		waited = append(waited, v)
		return &coordinator.Error{Reason: coordinator.ReplicaBehind, Message: "behind"}
	}}
	c := dialFake(t, f)
	all := requests()
	for _, q := range all {
		m := q.ProtoReflect()
		m.Set(m.Descriptor().Fields().ByName("at_least_snapshot"), protoreflect.ValueOfUint64(6))
		var e *client.Error
		if err := send(t.Context(), c, q); !errors.As(err, &e) || e.Reason != "REPLICA_BEHIND" {
			t.Errorf("%T: %v", q, err)
		}
	}
	w, err := c.WatchSnapshots(t.Context(), &pb.WatchSnapshotsRequest{AtLeastSnapshot: 6})
	if err == nil {
		_, err = w.Recv()
	}
	if err == nil {
		t.Error("a watch begins on a replica that is behind")
	}
	if len(waited) != len(all)+1 {
		t.Errorf("%d calls asked, of %d", len(waited), len(all)+1)
	}
}

// TestEveryAnswerNamesTheLatestSnapshot relies on the descriptors: an answer
// without the field would be a mistake in the contract.
func TestEveryAnswerNamesTheLatestSnapshot(t *testing.T) {
	files := []protoreflect.FileDescriptor{
		pb.File_txcoord_v1_transactions_proto, pb.File_txcoord_v1_tables_proto, pb.File_txcoord_v1_snapshots_proto,
		pb.File_txcoord_v1_status_proto, pb.File_txcoord_v1_operations_proto,
	}
	calls := 0
	for _, f := range files {
		for i := range f.Services().Len() {
			methods := f.Services().Get(i).Methods()
			for k := range methods.Len() {
				calls++
				out := methods.Get(k).Output()
				if fd := out.Fields().ByName("latest_snapshot"); fd == nil || fd.Kind() != protoreflect.Uint64Kind {
					t.Errorf("%s has no latest_snapshot", out.Name())
				}
			}
		}
	}
	if want := len(requests()) + 3; calls != want { // status, watch, stream
		t.Errorf("%d calls in the contract, the tests know %d", calls, want)
	}
}

func TestTablePages(t *testing.T) {
	all := make([]coordinator.TableInfo, 250)
	for i := range all {
		all[i].Name = fmt.Sprintf("t%03d", i)
		if i%10 == 0 {
			all[i].Frozen = &coordinator.FrozenDetail{Cause: twophase.CauseOperator}
		}
		all[i].Torn = i%50 == 1 // takes no commits, either
	}
	c := dialFake(t, &fake{tables: func() ([]coordinator.TableInfo, error) { return all, nil }})
	for _, q := range []struct {
		size                uint32
		frozen              bool
		want, pages, remove int
	}{{0, false, 250, 3, -1}, {50, false, 250, 5, -1}, {5000, false, 250, 1, -1}, {10, true, 30, 3, -1}, {50, false, 250, 5, 49}} {
		names, pages, token := map[string]bool{}, 0, ""
		whole := all
		for {
			got, err := c.ListTables(t.Context(), &pb.ListTablesRequest{PageSize: q.size, FrozenOnly: q.frozen, PageToken: token})
			if err != nil {
				t.Fatal(err)
			}
			for _, table := range got.GetTables() {
				if names[table.GetName()] {
					t.Errorf("%s comes twice", table.GetName())
				}
				names[table.GetName()] = true
			}
			if q.remove >= 0 && pages == 0 { // the table at the edge of the page goes
				all = append(append([]coordinator.TableInfo{}, all[:q.remove]...), all[q.remove+1:]...)
			}
			pages++
			if token = got.GetNextPageToken(); token == "" {
				break
			}
		}
		all = whole
		if len(names) != q.want || pages != q.pages {
			t.Errorf("page size %d: %d tables on %d pages, want %d on %d", q.size, len(names), pages, q.want, q.pages)
		}
	}
}

func TestSnapshots(t *testing.T) {
	var ref coordinator.SnapshotRef
	f := &fake{shown: 3, snapshot: func(r coordinator.SnapshotRef, only []string) (coordinator.Snapshot, error) {
		ref = r
		return coordinator.Snapshot{Version: 3, Time: at, Tags: []string{"eod"}, Tables: []coordinator.SnapshotTable{
			{ID: "t1", Name: "orders", URI: "file:///d/orders", Version: 0, Frozen: true},
		}}, nil
	}}
	c := dialFake(t, f)
	got, err := c.GetSnapshot(t.Context(), &pb.GetSnapshotRequest{Select: &pb.GetSnapshotRequest_Timestamp{Timestamp: timestamppb.New(at)}})
	if err != nil {
		t.Fatal(err)
	}
	same(t, coordinator.SnapshotRef{Time: at}, ref)
	same(t, &pb.GetSnapshotResponse{LatestSnapshot: 3, Snapshot: &pb.Snapshot{
		Version: 3, Timestamp: timestamppb.New(at), Tags: []string{"eod"},
		Tables: []*pb.SnapshotTable{{Id: "t1", Name: "orders", Uri: "file:///d/orders", Frozen: true}},
	}}, got)
}

// TestNumbersOfTheListsAgree: rules, causes, modes and isolations are cast.
func TestNumbersOfTheListsAgree(t *testing.T) {
	for r, name := range map[twophase.Rule]pb.Rule{
		twophase.RuleNone: pb.Rule_RULE_UNSPECIFIED, twophase.RuleProtocol: pb.Rule_RULE_PROTOCOL,
		twophase.RuleMetadata: pb.Rule_RULE_METADATA, twophase.RuleDeleteDelete: pb.Rule_RULE_DELETE_DELETE,
		twophase.RuleDeleteRead: pb.Rule_RULE_DELETE_READ, twophase.RuleAppendRead: pb.Rule_RULE_APPEND_READ,
		twophase.RuleAppVersion: pb.Rule_RULE_APP_VERSION, twophase.RuleDomain: pb.Rule_RULE_DOMAIN,
		twophase.RuleSchema: pb.Rule_RULE_SCHEMA, twophase.RuleAppendOnly: pb.Rule_RULE_APPEND_ONLY,
		twophase.RulePathExists: pb.Rule_RULE_PATH_EXISTS, twophase.RulePathMissing: pb.Rule_RULE_PATH_MISSING,
		twophase.RuleTableReplaced: pb.Rule_RULE_TABLE_REPLACED, twophase.RuleExpired: pb.Rule_RULE_EXPIRED,
		twophase.RuleClient: pb.Rule_RULE_CLIENT, twophase.RuleOperator: pb.Rule_RULE_OPERATOR,
		twophase.RuleResolved: pb.Rule_RULE_RESOLVED, twophase.RuleTableReleased: pb.Rule_RULE_TABLE_RELEASED,
		twophase.RuleTableExists: pb.Rule_RULE_TABLE_EXISTS,
	} {
		if pb.Rule(r) != name {
			t.Errorf("rule %s is %d, on the wire %s", r, r, name)
		}
	}
	for c, name := range map[twophase.Cause]pb.FreezeCause{
		twophase.CauseStalled: pb.FreezeCause_FREEZE_CAUSE_STALLED, twophase.CauseDiverged: pb.FreezeCause_FREEZE_CAUSE_DIVERGED,
		twophase.CauseReplaced: pb.FreezeCause_FREEZE_CAUSE_REPLACED, twophase.CauseContradiction: pb.FreezeCause_FREEZE_CAUSE_CONTRADICTION,
		twophase.CauseOperator: pb.FreezeCause_FREEZE_CAUSE_OPERATOR, twophase.CauseLost: pb.FreezeCause_FREEZE_CAUSE_LOST,
	} {
		if pb.FreezeCause(c) != name {
			t.Errorf("cause %s is %d, on the wire %s", c, c, name)
		}
	}
	if pb.TableMode(twophase.ModeOpen) != pb.TableMode_TABLE_MODE_OPEN || pb.TableMode(twophase.ModeExclusive) != pb.TableMode_TABLE_MODE_EXCLUSIVE ||
		pb.TableMode(twophase.ModeFenced) != pb.TableMode_TABLE_MODE_FENCED || pb.TableMode(twophase.ModeDeltaStorage) != pb.TableMode_TABLE_MODE_DELTA_STORAGE {
		t.Error("modes differ")
	}
	if pb.TransactionState(coordinator.TxnUnknown) != pb.TransactionState_TRANSACTION_STATE_UNKNOWN ||
		pb.TransactionState(coordinator.TxnGivenUp) != pb.TransactionState_TRANSACTION_STATE_GIVEN_UP || len(pb.TransactionState_name) != 9 {
		t.Error("states of transactions differ")
	}
	if len(pb.Rule_name) != 19 || len(pb.FreezeCause_name) != 7 || len(pb.TableMode_name) != 5 {
		t.Error("a list on the wire has grown; this test has to know")
	}
}
