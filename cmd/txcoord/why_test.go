package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// transaction is a file for txcoord commit that adds a file to each table.
func (s *server) transaction(key string, attempt int, name string, tables ...string) string {
	s.t.Helper()
	var parts []string
	for _, t := range tables {
		parts = append(parts, fmt.Sprintf(`{"table":%q,"blind":true,"actions":[%s]}`, t, line(add(name))))
	}
	return s.file(fmt.Sprintf(`{"key":%q,"attempt":%d,"tables":[%s]}`, key, attempt, strings.Join(parts, ",")))
}

func (s *server) file(text string) string {
	s.t.Helper()
	file := filepath.Join(s.t.TempDir(), "transaction.json")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		s.t.Fatal(err)
	}
	return file
}

// foreign writes a version as another engine would.
func (s *server) foreign(table string, version int, lines ...string) {
	s.t.Helper()
	name := filepath.Join(s.warehouse, table, "_delta_log", fmt.Sprintf("%020d.json", version))
	text := `{"commitInfo":{"timestamp":1,"operation":"DELETE","engineInfo":"delta-rs:1.6.6"}}` + "\n" + strings.Join(lines, "")
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		s.t.Fatal(err)
	}
}

// why wants texts in what tx why says.
func (s *server) why(args []string, want ...string) {
	s.t.Helper()
	got := s.ok(append([]string{"tx", "why"}, args...)...)
	for _, w := range want {
		if !strings.Contains(got, w) {
			s.t.Errorf("tx why %s lacks %q:\n%s", strings.Join(args, " "), w, got)
		}
	}
}

// TestTxWhyAndForceAbort: an open transaction, seen and ended by an operator.
func TestTxWhyAndForceAbort(t *testing.T) {
	s := startServer(t)
	s.table("orders")
	token := line(s.ok("tx", "begin", "--key", "job-7", "-o", "id"))
	s.with(add("a"), "tx", "stage", "--token", token, "orders", "--blind")
	var open struct {
		State   string
		Open    struct{ Client string }
		Outcome struct{ TransactionID string }
	}
	s.json(&open, "tx", "why", token)
	id := open.Outcome.TransactionID
	if open.State != "open" || !strings.Contains(open.Open.Client, "127.0.0.1") || len(id) != 32 {
		t.Fatalf("%+v", open)
	}
	for _, args := range [][]string{{token}, {id}, {"job-7"}, {"job-7", "--attempt", "1"}, {id, "--as", "id"}} {
		s.why(args, "open", "held by", "127.0.0.1", "orders: 1 part, ", "deadline", "tx force-abort "+id)
	}
	same(t, "open\n", s.ok("tx", "why", id, "-o", "id"))

	s.fails(2, []string{"tx", "force-abort", id}, "--reason")
	s.fails(2, []string{"tx", "force-abort", "job-7", "--reason", "x"}, "32 hex digits")
	s.fails(3, []string{"tx", "force-abort", strings.Repeat("2", 32), "--reason", "x"}, "TRANSACTION_NOT_FOUND")
	for range 2 { // its own abort is found again by a repeated call
		if got := s.ok("tx", "force-abort", id, "--reason", "it blocks the migration"); !strings.Contains(got, "operator: it blocks the migration") {
			t.Errorf("%s", got)
		}
	}
	s.why([]string{"job-7"}, "aborted", "an operator ended it (it blocks the migration)", "next attempt of the key is 2")
	s.fails(4, []string{"tx", "commit", "--token", token, "orders=" + strings.Repeat("0", 64)}, "it blocks the migration")

	// What is decided cannot be aborted.
	s.ok("commit", s.transaction("job-7", 2, "b", "orders"))
	var done struct {
		Outcome struct{ TransactionID string }
	}
	s.json(&done, "tx", "why", "job-7")
	s.fails(5, []string{"tx", "force-abort", done.Outcome.TransactionID, "--reason", "too late"}, "committed, for good")
	s.why([]string{"job-7"}, "published", "snapshot", "ATTEMPT", id)
	s.why([]string{"job-7", "--attempt", "1"}, "aborted", "nothing: attempt 2 of the key is committed")
	aborted := line(s.ok("tx", "begin", "--key", "job-8", "-o", "id"))
	s.ok("tx", "abort", "--token", aborted)
	var other struct {
		Outcome struct{ TransactionID string }
	}
	s.json(&other, "tx", "why", "job-8")
	s.fails(4, []string{"tx", "force-abort", other.Outcome.TransactionID, "--reason", "too late"}, "aborted already")

	s.fails(3, []string{"tx", "why", strings.Repeat("1", 32)}, "unknown")
	s.fails(3, []string{"tx", "why", "never-begun"}, "unknown")
	s.fails(2, []string{"tx", "why", id, "--as", "token"}, "INVALID_TOKEN")
	s.fails(2, []string{"tx", "why", id, "--as", "id", "--attempt", "1"}, "--attempt")
	if o := txcoord(t, s.env, "", "tx", "why", "never-begun", "-o", "json"); !strings.Contains(o.out, `"state": "unknown"`) || !strings.Contains(o.out, "no final answer") {
		t.Errorf("%s", o.out)
	}
}

// TestTxWhyLost: who won, be it a transaction or another engine.
func TestTxWhyLost(t *testing.T) {
	s := startServer(t)
	s.table("orders")
	s.ok("commit", s.transaction("seed", 1, "a", "orders"))
	deletes := func(key string) string {
		return s.file(fmt.Sprintf(`{"key":%q,"tables":[{"table":"orders","readVersion":1,"actions":[%s]}]}`, key, line(remove("a"))))
	}
	s.ok("commit", deletes("first"))
	s.fails(4, []string{"commit", deletes("second")}, "CONFLICT")
	s.why([]string{"second"}, "aborted", "somebody else removed a file that it removes: a", "lost to", "(key first), version 2 of the table", "next attempt of the key is 2")
	var lost struct {
		State  string
		Winner struct {
			Key     string
			Version int
		}
	}
	s.json(&lost, "tx", "why", "second")
	if lost.State != "aborted" || lost.Winner.Key != "first" || lost.Winner.Version != 2 {
		t.Errorf("%+v", lost)
	}

	s.ok("commit", s.transaction("more", 1, "b", "orders"))
	s.foreign("orders", 4, remove("b"))
	s.fails(4, []string{"commit", s.file(fmt.Sprintf(`{"key":"third","tables":[{"table":"orders","readVersion":3,"actions":[%s]}]}`, line(remove("b"))))}, "CONFLICT", "it lost to version 4, which is a commit of delta-rs:1.6.6 (DELETE), at 1970-01-01T00:00:00Z")
	s.why([]string{"third"}, "aborted", "lost to", "delta-rs:1.6.6 (DELETE), version 4 of the table")
}

// TestTxWhyWaiting: decided, and not published: which table, why, and who waits behind.
func TestTxWhyWaiting(t *testing.T) {
	s := startServer(t, "--limit", "freeze_after=1h")
	s.table("orders")
	s.table("items")
	s.table("refunds")
	inTheWay := filepath.Join(s.warehouse, "orders", "_delta_log", "00000000000000000001.json")
	if err := os.Mkdir(inTheWay, 0o755); err != nil {
		t.Fatal(err)
	}
	s.ok("commit", s.transaction("first", 1, "a", "orders", "items"), "--wait-limit", "100ms")
	s.ok("commit", s.transaction("second", 1, "b", "items", "refunds"), "--wait-limit", "100ms")
	s.ok("commit", s.transaction("third", 1, "c", "refunds"), "--wait-limit", "100ms")
	s.eventually("the table is named", func() bool {
		return strings.Contains(s.ok("tx", "why", "first"), "held up by orders")
	})
	s.why([]string{"first"}, "waiting", "committed at", "durably", "round", "orders", "waiting for it", "2 transactions")
	s.why([]string{"second"}, "waiting", "waits for round", "orders: ")
	var third struct {
		State     string
		Ahead     []struct{ Tables []string }
		Obstacles []struct {
			Table    string
			Findings []struct{ Text, Remedy string }
		}
	}
	s.json(&third, "tx", "why", "third")
	if third.State != "waiting" || len(third.Ahead) != 1 || len(third.Obstacles) != 1 || third.Obstacles[0].Table != "orders" || third.Obstacles[0].Findings[0].Text == "" {
		t.Errorf("%+v", third)
	}
	if err := os.Remove(inTheWay); err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"first", "second", "third"} {
		s.eventually(key+" is published", func() bool { return line(s.ok("tx", "why", key, "-o", "id")) == "published" })
	}
}

// TestTablesFreeze: an operator stops commits on one table.
func TestTablesFreeze(t *testing.T) {
	s := startServer(t)
	s.table("orders")
	s.table("items")
	s.ok("commit", s.transaction("seed", 1, "a", "orders", "items"))
	s.fails(2, []string{"tables", "freeze", "orders"}, "--reason")
	s.fails(3, []string{"tables", "freeze", "nope", "--reason", "x"}, "TABLE_NOT_FOUND")
	for range 2 {
		if got := s.ok("tables", "freeze", "orders", "--reason", "audit until noon"); !strings.Contains(got, "operator") || !strings.Contains(got, "audit until noon") {
			t.Errorf("%s", got)
		}
	}
	again := txcoord(t, s.env, "", "tables", "freeze", "orders", "--reason", "two")
	if again.code != 0 || !strings.Contains(again.stderr, `keeps its reason "audit until noon"`) {
		t.Errorf("frozen with another reason: exit %d: %s", again.code, again.stderr)
	}
	same(t, "orders\n", s.ok("tables", "list", "--frozen", "-o", "id"))
	same(t, "orders\n", s.ok("top", "-o", "id"))
	same(t, "3\n", s.ok("status", "-o", "id"))
	if got := s.ok("status"); !strings.Contains(got, "audit until noon") {
		t.Errorf("status: %s", got)
	}
	if got := s.ok("tables", "why", "orders"); !strings.Contains(got, "an operator froze it") || !strings.Contains(got, "txcoord tables unfreeze orders") {
		t.Errorf("why: %s", got)
	}
	s.fails(6, []string{"commit", s.transaction("both", 1, "b", "orders", "items")}, "TABLE_FROZEN", "audit until noon", "txcoord tables why orders")
	s.fails(6, []string{"tables", "resolve", "orders", "--yes"}, "NOTHING_TO_RESOLVE", "tables unfreeze orders")
	s.ok("commit", s.transaction("items", 1, "b", "items"))
	if got := s.ok("snapshot", "get"); !strings.Contains(got, "orders") {
		t.Errorf("snapshot: %s", got)
	}
	s.foreign("orders", 2, add("z")) // what others write is history all the same
	s.ok("tables", "maintain", "orders")
	token := line(s.ok("tx", "begin", "--key", "open", "-o", "id"))
	args := []string{"tx", "stage", "--token", token, "orders", "--blind"}
	wantCode(t, args, txcoord(t, s.env, add("y"), args...), 6, "TABLE_FROZEN")
	s.why([]string{"open"}, "open")
	for range 2 {
		if got := s.ok("tables", "unfreeze", "orders", "--reason", "audit done"); strings.Contains(got, "frozen") {
			t.Errorf("%s", got)
		}
	}
	s.ok("commit", s.transaction("both", 1, "d", "orders", "items"))
}
