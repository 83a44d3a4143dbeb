package rpc_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"google.golang.org/grpc/status"

	client "github.com/txcoord/txcoord/clients/go"
	"github.com/txcoord/txcoord/coordinator"
	"github.com/txcoord/txcoord/coordinator/rpc"
	pb "github.com/txcoord/txcoord/proto/txcoord/v1"
	"github.com/txcoord/txcoord/twophase"
)

// What answers name besides is cut to what is granted.
func TestAnswersNameOnlyWhatIsGranted(t *testing.T) {
	a, tokens := accessFile(t)
	c := dial(t, rpc.Config{Catalogs: map[string]rpc.Catalog{"default": inAndOut()}, Access: a})
	for _, who := range []string{"full", "root"} {
		ctx, sees := as(t.Context(), tokens[who]), who == "root"
		for name, call := range answers(c) {
			text, err := call(ctx)
			if err != nil {
				t.Errorf("%s by %s: %v", name, who, err)
				continue
			}
			if !strings.Contains(text, `"in"`) {
				t.Errorf("%s by %s leaves out what is granted: %s", name, who, text)
			}
			if got := strings.Contains(text, `"out"`) || strings.Contains(text, "secret") || strings.Contains(text, id2.String()); got != sees {
				t.Errorf("%s by %s names what is not granted: %t, in %s", name, who, got, text)
			}
		}
	}
}

// A page has room for what the caller sees, not for what others have open before it.
func TestOpenTransactionsOfOthersTakeNoRoom(t *testing.T) {
	a, tokens := accessFile(t)
	f := inAndOut()
	f.list = func(q coordinator.ListRequest) (l coordinator.Listed, _ error) {
		for _, o := range []coordinator.OpenTxn{
			{Txn: id2, Tables: []coordinator.StagedTable{{Name: "out"}}}, {Txn: id1, Tables: []coordinator.StagedTable{{Name: "in"}}},
		} {
			if len(l.Open) < q.PageSize && (q.Shows == nil || q.Shows(o)) {
				l.Open = append(l.Open, o)
			}
		}
		return l, nil
	}
	c := dial(t, rpc.Config{Catalogs: map[string]rpc.Catalog{"default": f}, Access: a})
	for who, want := range map[string]string{"full": id1.String(), "root": id2.String()} {
		l, err := c.ListTransactions(as(t.Context(), tokens[who]), &pb.ListTransactionsRequest{PageSize: 1})
		if err != nil || len(l.GetOpen()) != 1 || l.GetOpen()[0].GetTransactionId() != want {
			t.Errorf("%s is shown %v, %v; want %s", who, l.GetOpen(), err, want)
		}
	}
}

// A place that is asked for may be a table's that the caller may not see.
func TestErrorsNameOnlyWhatIsGranted(t *testing.T) {
	a, tokens := accessFile(t)
	taken := &coordinator.Error{
		Reason: coordinator.TableExists, Message: "table out at file:///w/out is registered already",
		Table: &coordinator.TableDetail{Table: "out", TableID: "t-00000000000000bb", URI: "file:///w/out"},
	}
	f := inAndOut()
	f.stage = func(context.Context, coordinator.StageRequest) (coordinator.Staged, error) {
		return coordinator.Staged{}, taken
	}
	f.commitOnce = func(context.Context, coordinator.OnceRequest) (coordinator.Outcome, string, error) {
		return coordinator.Outcome{}, "", taken
	}
	f.register = func(coordinator.RegisterRequest) (coordinator.TableInfo, []string, error) {
		return coordinator.TableInfo{}, nil, taken
	}
	f.create = func(coordinator.CreateRequest) (coordinator.TableInfo, []string, error) {
		return coordinator.TableInfo{}, nil, taken
	}
	c := dial(t, rpc.Config{Catalogs: map[string]rpc.Catalog{"default": f}, Access: a})
	create := &pb.NewTable{Uri: "/w/out", SchemaJson: "{}"}
	for name, call := range map[string]func(context.Context) error{
		"Stage": func(ctx context.Context) error {
			_, err := c.Stage(ctx, &pb.StageRequest{Token: "t", Table: "in2", Create: create})
			return err
		},
		"CommitOnce": func(ctx context.Context) error {
			_, err := c.CommitOnce(ctx, &pb.CommitOnceRequest{Key: "k", Tables: []*pb.OnceTable{{Table: "in2", Create: create}}})
			return err
		},
		"RegisterTable": func(ctx context.Context) error {
			_, err := c.RegisterTable(ctx, &pb.RegisterTableRequest{Name: "in2", Uri: "/w/out"})
			return err
		},
		"CreateTable": func(ctx context.Context) error {
			_, err := c.CreateTable(ctx, &pb.CreateTableRequest{Name: "in2", Uri: "/w/out", SchemaJson: "{}"})
			return err
		},
	} {
		for _, who := range []string{"full", "root"} {
			text := fmt.Sprint(status.Convert(call(as(t.Context(), tokens[who]))).Proto())
			if got, sees := strings.Contains(text, "table out") || strings.Contains(text, "00bb"), who == "root"; got != sees {
				t.Errorf("%s by %s names what is not granted: %t, in %s", name, who, got, text)
			}
		}
	}
}

// A key can be guessed: what its transaction lost to may be on a table that the caller may
// not see. Nor is one named that a table which comes in is a copy of.
func TestWhatOthersHaveIsNotTold(t *testing.T) {
	a, tokens := accessFile(t)
	lost := &coordinator.Error{
		Reason: coordinator.Conflicted, Message: "transaction is aborted: delete/read on table out: secret.parquet",
		Conflict: &coordinator.ConflictDetail{Txn: id1, Table: "out", TableID: "t-00000000000000bb", Path: "secret.parquet", Winner: id2, Rule: twophase.RuleDeleteRead},
	}
	f := inAndOut()
	f.commit = func(context.Context, coordinator.CommitRequest) (coordinator.Outcome, error) {
		return coordinator.Outcome{}, lost
	}
	f.commitOnce = func(context.Context, coordinator.OnceRequest) (coordinator.Outcome, string, error) {
		return coordinator.Outcome{}, "", lost
	}
	f.register = func(q coordinator.RegisterRequest) (t coordinator.TableInfo, warnings []string, err error) {
		if q.Shows("out") {
			warnings = []string{"table out has the same metaData.id"}
		}
		return t, warnings, nil
	}
	c := dial(t, rpc.Config{Catalogs: map[string]rpc.Catalog{"default": f}, Access: a})
	for name, call := range map[string]func(context.Context) (any, error){
		"Commit": func(ctx context.Context) (any, error) {
			return c.Commit(ctx, &pb.CommitRequest{Token: "t", Tables: []*pb.TableParts{{Table: "in", Digests: []string{strings.Repeat("0", 64)}}}})
		},
		"CommitOnce": func(ctx context.Context) (any, error) {
			return c.CommitOnce(ctx, &pb.CommitOnceRequest{Key: "k", Tables: []*pb.OnceTable{{Table: "in", Read: client.Blind(), Actions: []byte(addLine)}}})
		},
		"RegisterTable": func(ctx context.Context) (any, error) {
			return c.RegisterTable(ctx, &pb.RegisterTableRequest{Name: "in2", Uri: "/w/in2"})
		},
	} {
		for _, who := range []string{"full", "root"} {
			answer, err := call(as(t.Context(), tokens[who]))
			text := fmt.Sprint(answer, status.Convert(err).Proto())
			if got, sees := strings.Contains(text, "table out") || strings.Contains(text, "00bb") || strings.Contains(text, "secret"), who == "root"; got != sees {
				t.Errorf("%s by %s names what is not granted: %t, in %s", name, who, got, text)
			}
		}
	}
}
