package rpc_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/status"

	client "github.com/txcoord/txcoord/clients/go"
	"github.com/txcoord/txcoord/coordinator"
	"github.com/txcoord/txcoord/coordinator/rpc"
	pb "github.com/txcoord/txcoord/proto/txcoord/v1"
	"github.com/txcoord/txcoord/twophase"
)

// A table may be frozen by what was found at another one of its round, which the caller may
// not see: then no answer, and no refusal, says what that was.
func TestFreezesTellOnlyWhatIsGranted(t *testing.T) {
	a, tokens := accessFile(t)
	f := inAndOut()
	in, _ := f.table("in")
	frozen := &coordinator.FrozenDetail{
		Table: "in", TableID: in.ID, Cause: twophase.CauseDiverged, Origin: "t-00000000000000bb", Detail: "secret file of out",
	}
	in.Frozen = frozen
	refused := &coordinator.Error{Reason: coordinator.TableFrozen, Message: frozen.Message(), Frozen: frozen}
	find := f.table
	f.table = func(ref string) (coordinator.TableInfo, error) {
		if t, err := find(ref); err != nil || t.Name != "in" {
			return t, err
		}
		return in, nil
	}
	f.tables = func() ([]coordinator.TableInfo, error) { return []coordinator.TableInfo{in}, nil }
	f.describe = func(string) (coordinator.TableDescription, error) {
		return coordinator.TableDescription{TableInfo: in}, nil
	}
	f.status = func() (coordinator.Status, error) {
		return coordinator.Status{Frozen: []coordinator.FrozenDetail{*frozen}}, nil
	}
	f.explain = func(string) (coordinator.Explanation, error) { return coordinator.Explanation{Table: in}, nil }
	f.maintain = func(coordinator.MaintainRequest) (coordinator.MaintainReport, error) {
		return coordinator.MaintainReport{Table: in}, refused
	}
	f.fence = func(coordinator.FenceRequest) (coordinator.TableInfo, error) { return in, nil }
	f.setMode = func(string, twophase.Mode) (coordinator.TableInfo, error) { return coordinator.TableInfo{}, refused }
	f.commitOnce = func(context.Context, coordinator.OnceRequest) (coordinator.Outcome, string, error) {
		return coordinator.Outcome{}, "", refused
	}
	f.outcome = func(coordinator.OutcomeRequest) (coordinator.Outcome, time.Time, error) {
		return coordinator.Outcome{Txn: id1, Committed: &coordinator.Committed{
			Tables: []coordinator.Delivery{{Name: "in"}, {Name: "out"}}, PendingReason: "table out is frozen: secret file of out",
		}}, at, nil
	}
	c := dial(t, rpc.Config{Catalogs: map[string]rpc.Catalog{"default": f}, Access: a})
	for name, call := range map[string]func(context.Context) (any, error){
		"DescribeTable": func(ctx context.Context) (any, error) {
			return c.DescribeTable(ctx, &pb.DescribeTableRequest{Table: "in"})
		},
		"ExplainTable": func(ctx context.Context) (any, error) {
			return c.ExplainTable(ctx, &pb.ExplainTableRequest{Table: "in"})
		},
		"MaintainTable": func(ctx context.Context) (any, error) {
			return c.MaintainTable(ctx, &pb.MaintainTableRequest{Table: "in"})
		},
		"ListTables": func(ctx context.Context) (any, error) { return c.ListTables(ctx, &pb.ListTablesRequest{}) },
		"GetStatus":  func(ctx context.Context) (any, error) { return c.GetStatus(ctx, &pb.GetStatusRequest{}) },
		"FenceTable": func(ctx context.Context) (any, error) { return c.FenceTable(ctx, &pb.FenceTableRequest{Table: "in"}) },
		"SetTableMode": func(ctx context.Context) (any, error) {
			return c.SetTableMode(ctx, &pb.SetTableModeRequest{Table: "in", Mode: pb.TableMode_TABLE_MODE_OPEN})
		},
		"GetOutcome": func(ctx context.Context) (any, error) {
			return c.GetOutcome(ctx, &pb.GetOutcomeRequest{Transaction: &pb.GetOutcomeRequest_Token{Token: "t"}})
		},
		"CommitOnce": func(ctx context.Context) (any, error) {
			return c.CommitOnce(ctx, &pb.CommitOnceRequest{Key: "k", Tables: []*pb.OnceTable{{Table: "in", Read: client.Blind(), Actions: []byte(addLine)}}})
		},
	} {
		for _, who := range []string{"full", "root"} {
			answer, err := call(as(t.Context(), tokens[who]))
			text := fmt.Sprint(answer, status.Convert(err).Proto())
			if got, sees := strings.Contains(text, "secret"), who == "root"; got != sees {
				t.Errorf("%s by %s tells of what is not granted: %t, in %s", name, who, got, text)
			}
		}
	}
}
