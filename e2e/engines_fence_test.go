package e2e_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/txcoord/txcoord/clients/go"
	"github.com/txcoord/txcoord/e2e/engines"
	txcoordv1 "github.com/txcoord/txcoord/proto/txcoord/v1"
)

func (w *world) fence(tables ...string) {
	w.t.Helper()
	for _, table := range tables {
		r, err := w.client.Tables.FenceTable(w.ctx(), &txcoordv1.FenceTableRequest{Table: table, NoOlderWriters: true})
		if err != nil {
			w.t.Fatalf("fence %s: %v\n%s", table, err, w.log())
		}
		w.knowsFence(table)
		if mode := r.GetTable().GetMode(); mode != txcoordv1.TableMode_TABLE_MODE_FENCED {
			w.t.Errorf("%s is fenced, and %s", table, mode)
		}
	}
}

func (w *world) unfence(tables ...string) {
	w.t.Helper()
	for _, table := range tables {
		if _, err := w.client.Tables.UnfenceTable(w.ctx(), &txcoordv1.UnfenceTableRequest{Table: table}); err != nil {
			w.t.Fatalf("unfence %s: %v\n%s", table, err, w.log())
		}
		w.knowsFence(table)
	}
}

// knowsFence takes the transactions that changed a table's protocol into the books.
func (w *world) knowsFence(table string) {
	w.t.Helper()
	for version, info := range w.commitsOf(table) {
		tags, _ := info["tags"].(map[string]any)
		list, _ := tags["txcoord.transactions"].(string)
		raw, err := os.ReadFile(filepath.Join(w.table(table), "_delta_log", fmt.Sprintf("%020d.json", version)))
		if list == "" || err != nil || !strings.Contains(string(raw), `{"protocol":`) {
			continue
		}
		var txns [][2]string
		if err := json.Unmarshal([]byte(list), &txns); err != nil {
			w.t.Fatal(err)
		}
		for _, txn := range txns {
			w.operated(txn[0], table)
		}
	}
}

// stillFenced: nothing that others did has ended the fence.
func (w *world) stillFenced(tables ...string) {
	w.t.Helper()
	for _, table := range tables {
		r, err := w.client.Tables.DescribeTable(w.ctx(), &txcoordv1.DescribeTableRequest{Table: table})
		if err != nil {
			w.t.Fatal(err)
		}
		if got := r.GetTable(); got.GetMode() != txcoordv1.TableMode_TABLE_MODE_FENCED {
			w.t.Errorf("%s is %s: %s", table, got.GetMode(), got.GetModeReason())
		}
	}
}

// keptOut wants an engine to refuse what it was told to do because of the fence.
func keptOut(t *testing.T, what string, err error) {
	t.Helper()
	var refused *engines.Refusal
	if !errors.As(err, &refused) || !strings.Contains(refused.Text, "txcoordFence") {
		t.Errorf("%s on a fenced table: %v", what, err)
	}
}

// TestFenceKeepsEnginesOut: on fenced tables delta-rs and DuckDB are refused whatever
// they try to commit, and go on reading; what delta-rs may do all the same, checkpoints,
// clean-up and vacuum, does no harm beside our load; without the fence they write again.
func TestFenceKeepsEnginesOut(t *testing.T) {
	t.Parallel()
	duck := engines.StartDuck(t)
	l := besideWorld(t, 3, 60*time.Millisecond, aDay())
	f := l.deltaWriter(foreignTables[0])
	d := &duckWriter{l.foreignBooks(foreignTables[1]), duck}
	f.append()
	f.merge()
	d.insert()
	l.commitsMore(5)
	l.fence(foreignTables...)
	for operation, a := range map[string]engines.Arguments{
		"append": {"first": 900, "rows": 1}, "merge": {"first": 900, "rows": 1}, "delete": {"predicate": "id = 0"}, "compact": nil,
		"z_order": {"columns": []string{"id"}}, "alter": {"properties": map[string]string{"owner": "delta-rs"}},
		"add_column": {"column": "more"}, "restore": {"version": 1},
	} {
		_, err := f.rs.Do(l.ctx(), operation, f.folder(), a)
		keptOut(t, "delta-rs "+operation, err)
	}
	_, err := duck.SQL(l.ctx(), d.folder(), "INSERT INTO t SELECT 900, 0, 'duck'")
	keptOut(t, "DuckDB", err)
	if got := f.reads("note LIKE 'delta-rs %'"); got != sum(f.has) {
		t.Errorf("delta-rs reads %v of its rows in the fenced table, want %v", got, sum(f.has))
	}
	release := l.hold(foreignTables...)
	l.age(f.table, versionIn(l.snapshot(), f.table))
	f.cleans()
	l.commitsMore(5)
	release()
	l.stillFenced(foreignTables...)
	l.unfence(foreignTables...)
	f.everything()
	d.insert()
	l.rests()
	f.checked(f.reads, f.duckReads(duck, f.table))
	d.checked(d.duckReads(duck, d.table))
}

// refusedBy wants a commit to be refused for a setting of the table, with the remedy.
func (w *world) refusedBy(table, setting, remedy string) {
	w.t.Helper()
	// Who is staged while nobody has seen the change yet loses against it.
	var err error
	for try := 0; try == 0 || errors.Is(err, client.ErrConflict); try++ {
		_, err = w.client.CommitOnce(w.ctx(), onceRequest(fmt.Sprintf("beside %s %d", setting, try), w.rows(table), client.Blind()))
	}
	if !errors.Is(err, client.ErrPrecondition) || !strings.Contains(err.Error(), setting) || !strings.Contains(err.Error(), remedy) {
		w.t.Errorf("commit to a table with %s: %v, want it to be refused with the remedy %q", setting, err, remedy)
	}
}

// TestRetentionThatDeltaRSChanges: a retention below a day is refused at registration,
// and stops new commits when an engine sets it later, until it is gone.
func TestRetentionThatDeltaRSChanges(t *testing.T) {
	t.Parallel()
	rs := engines.StartDeltaRS(t)
	w := newWorld(t, serverConfig{})
	w.start(nil)
	w.create("t", txcoordv1.TableMode_TABLE_MODE_OPEN)
	w.foreignTable("other")
	w.knows("other")
	w.look()
	set := func(table, to string) {
		t.Helper()
		_, err := rs.Do(w.ctx(), "alter", w.table(table), engines.Arguments{"properties": map[string]string{"delta.logRetentionDuration": to}})
		if err != nil {
			t.Fatal(err)
		}
	}
	w.commitOnce("before", w.rows("t"))
	for i, short := range []string{"interval 23 hours", "interval 1 minute"} {
		set("t", short)
		w.refusedBy("t", "delta.logRetentionDuration", "interval 30 days")
		set("t", "interval 1 day")
		w.commitOnce(fmt.Sprintf("after %d", i), w.rows("t"))
	}
	set("other", "interval 23 hours")
	register := &txcoordv1.RegisterTableRequest{Name: "other", Uri: w.table("other")}
	if _, err := w.client.Tables.RegisterTable(w.ctx(), register); !errors.Is(err, client.ErrPrecondition) || !strings.Contains(err.Error(), "interval 30 days") {
		t.Errorf("register a table with a short retention: %v", err)
	}
	set("other", "interval 1 day")
	if _, err := w.client.Tables.RegisterTable(w.ctx(), register); err != nil {
		t.Errorf("register: %v", err)
	}
	w.rest()
}
