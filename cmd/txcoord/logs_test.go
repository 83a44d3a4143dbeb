package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/types/known/durationpb"

	client "github.com/txcoord/txcoord/clients/go"
	txcoordv1 "github.com/txcoord/txcoord/proto/txcoord/v1"
)

// lives are transactions, each of which ends in another way.
type lives struct {
	t *testing.T
	c *client.Client
}

// begin begins a transaction, and stages a part for a table unless that is empty.
func (l *lives) begin(key string, ttl time.Duration, table string, read *txcoordv1.ReadDeclaration) (*txcoordv1.BeginResponse, *txcoordv1.CommitRequest) {
	l.t.Helper()
	b, err := l.c.Transactions.Begin(l.t.Context(), &txcoordv1.BeginRequest{Key: key, Ttl: durationpb.New(ttl)})
	if err != nil {
		l.t.Fatal(err)
	}
	q := &txcoordv1.CommitRequest{Token: b.GetToken()}
	if table == "" {
		return b, q
	}
	s, err := l.c.Transactions.Stage(l.t.Context(), &txcoordv1.StageRequest{
		Token: b.GetToken(), Table: table, Read: read,
		Actions: []byte(`{"add":{"path":"` + key + `","partitionValues":{},"size":1,"modificationTime":1,"dataChange":true}}`),
	})
	if err != nil {
		l.t.Fatal(err)
	}
	q.Tables = []*txcoordv1.TableParts{{Table: table, Digests: []string{s.GetPart().GetDigest()}}}
	return b, q
}

func (l *lives) ends() (committed, lost, refused, aborted, expired string) {
	ctx, t := l.t.Context(), l.t
	blind := &txcoordv1.ReadDeclaration{Point: &txcoordv1.ReadDeclaration_Blind{Blind: true}}
	one, q := l.begin("committed", time.Hour, "orders", blind)
	two, late := l.begin("lost", time.Hour, "orders", &txcoordv1.ReadDeclaration{
		Point: &txcoordv1.ReadDeclaration_Version{Version: 0}, ReadSet: &txcoordv1.ReadSet{What: &txcoordv1.ReadSet_WholeTable{WholeTable: true}},
	})
	if _, err := l.c.Transactions.Commit(ctx, q); err != nil {
		t.Fatal(err)
	}
	if _, err := l.c.Transactions.Commit(ctx, late); err == nil {
		t.Fatal("it read the table before, and is committed")
	}
	three, q := l.begin("refused", time.Hour, "orders", blind)
	q.Wait = txcoordv1.Wait_WAIT_DECIDED
	if _, err := l.c.Transactions.Commit(ctx, q); err == nil {
		t.Fatal("its table has no fence, and it is answered as decided")
	}
	four, _ := l.begin("aborted", time.Hour, "orders", blind)
	if _, err := l.c.Transactions.Abort(ctx, &txcoordv1.AbortRequest{Transaction: &txcoordv1.AbortRequest_Token{Token: four.GetToken()}}); err != nil {
		t.Fatal(err)
	}
	five, _ := l.begin("expired", time.Millisecond, "", nil)
	return one.GetTransactionId(), two.GetTransactionId(), three.GetTransactionId(), four.GetTransactionId(), five.GetTransactionId()
}

// Every line of the log that is about a transaction names it as txn, and its catalog,
// whatever became of it; so do the audit log's.
func TestLogsNameTheirTransaction(t *testing.T) {
	warehouse := t.TempDir()
	audit := filepath.Join(warehouse, "audit")
	log := &lockedBuffer{}
	address, stop := servingWith(t, log, "--warehouse", warehouse, "--log-level", "debug", "--log-format", "json", "--audit-log", audit)
	s := &server{t: t, warehouse: warehouse, env: map[string]string{"TXCOORD_SERVER": address}}
	s.ok("tables", "create", "orders", filepath.Join(warehouse, "orders"), "--schema", schema, "--mode", "exclusive")
	c, err := client.Dial(address, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	committed, lost, refused, aborted, expired := (&lives{t, c}).ends()
	for end := time.Now().Add(5 * time.Minute); !strings.Contains(log.String(), `"msg":"aborted","catalog":"default","txn":"`+expired); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("it does not expire\n%s", log)
		}
	}
	code, stderr := stop()
	if code != 0 {
		t.Fatalf("serve ends with %d\n%s", code, stderr)
	}
	const service = "/txcoord.v1.TransactionService/"
	want := map[string][]string{
		committed: {"call " + service + "Begin OK", "call " + service + "Commit OK", "call " + service + "Stage OK", "commit committed"},
		lost: {
			"call " + service + "Begin OK", "call " + service + "Commit Aborted CONFLICT", "call " + service + "Stage OK", "commit aborted CONFLICT",
		},
		refused: {
			"call " + service + "Begin OK", "call " + service + "Commit FailedPrecondition DECIDED_NOT_OFFERED", "call " + service + "Stage OK", "commit refused DECIDED_NOT_OFFERED",
		},
		aborted: {"aborted by client", "call " + service + "Abort OK", "call " + service + "Begin OK", "call " + service + "Stage OK"},
		expired: {"aborted expired", "call " + service + "Begin OK"},
	}
	if diff := cmp.Diff(want, linesOf(t, stderr, slices.Collect(maps.Keys(want)))); diff != "" {
		t.Errorf("the log's lines, by transaction (-want +got):\n%s\n%s", diff, stderr)
	}
	for id, lines := range want { // the audit log has calls that ask for more than reading
		want[id] = slices.DeleteFunc(lines, func(line string) bool { return !strings.HasPrefix(line, "call ") })
	}
	raw, err := os.ReadFile(audit)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, linesOf(t, string(raw), slices.Collect(maps.Keys(want)))); diff != "" {
		t.Errorf("the audit log's lines, by transaction (-want +got):\n%s", diff)
	}
}

// linesOf are the lines that name transactions, by transaction, sorted, each once.
func linesOf(t *testing.T, log string, ids []string) map[string][]string {
	t.Helper()
	out := map[string][]string{}
	for line := range strings.Lines(log) {
		if !slices.ContainsFunc(ids, func(id string) bool { return strings.Contains(line, id) }) {
			continue
		}
		var said map[string]any
		if err := json.Unmarshal([]byte(line), &said); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		id, _ := said["txn"].(string)
		if !slices.Contains(ids, id) || said["catalog"] != "default" {
			t.Errorf("it does not say which transaction it is about, or of which catalog: %s", line)
		}
		what := fmt.Sprint(said["msg"])
		for _, key := range []string{"method", "outcome", "rule", "code", "reason"} {
			if v, ok := said[key].(string); ok && v != "" {
				what += " " + v
			}
		}
		if !slices.Contains(out[id], what) {
			out[id] = append(out[id], what)
		}
		slices.Sort(out[id])
	}
	return out
}
