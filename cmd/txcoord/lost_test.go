package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// lossy is a server whose tables are orders and items, with a decided transaction (key
// lost) whose part for orders was deleted before orders had it.
type lossy struct {
	*server
	part string
	was  []byte
	stop func() (int, string)
}

func (l *lossy) serve() {
	l.t.Helper()
	address, stop := servingUntil(l.t, "--warehouse", l.warehouse, "--stop-timeout", "100ms", "--limit", "freeze_after=50ms", "--limit", "inline_bytes=100", "--limit", "store_grace=1s", "--limit", "put_deadline=1s")
	l.env, l.stop = map[string]string{"TXCOORD_SERVER": address}, stop
}

// whole is a transaction file over both tables.
func (l *lossy) whole(key, name string) string {
	l.t.Helper()
	file := filepath.Join(l.t.TempDir(), "transaction.json")
	text := `{"key":"` + key + `","tables":[{"table":"orders","blind":true,"actions":[` + line(add(name)) + `]},{"table":"items","blind":true,"actions":[` + line(add(name)) + `]}]}`
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		l.t.Fatal(err)
	}
	return file
}

func newLossy(t *testing.T) *lossy {
	t.Helper()
	l := &lossy{server: &server{t: t, warehouse: t.TempDir()}}
	l.serve()
	l.table("orders")
	l.table("items")
	// A folder in the place of the next version: it is not free, and cannot be read.
	inTheWay := filepath.Join(l.warehouse, "orders", "_delta_log", "00000000000000000001.json")
	if err := os.Mkdir(inTheWay, 0o755); err != nil {
		t.Fatal(err)
	}
	if got := l.ok("commit", l.whole("lost", "a"), "--wait-limit", "100ms"); !strings.Contains(got, "pending") {
		t.Fatalf("commit: %s", got)
	}
	var tables struct {
		Tables []struct{ ID, Name string }
	}
	l.json(&tables, "tables", "list")
	l.stop()
	for _, table := range tables.Tables {
		if table.Name == "orders" {
			found, err := filepath.Glob(filepath.Join(l.warehouse, "_txcoord/default/staged/*/*", table.ID, "*"))
			if err != nil || len(found) != 1 {
				t.Fatalf("%v, %v", found, err)
			}
			l.part = found[0]
		}
	}
	var err error
	if l.was, err = os.ReadFile(l.part); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{l.part, inTheWay} {
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
	l.serve()
	l.eventually("orders is frozen as lost", func() bool {
		return strings.Contains(l.ok("tables", "list", "--frozen"), "frozen:lost")
	})
	return l
}

func (s *server) eventually(what string, ok func() bool) {
	s.t.Helper()
	for end := time.Now().Add(2 * time.Minute); !ok(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			s.t.Fatalf("it did not come about that %s", what)
		}
	}
}

// TestLostPart: what an operator sees of a lost part, and does about it.
func TestLostPart(t *testing.T) {
	l := newLossy(t)
	why := l.ok("tables", "why", "orders")
	for _, want := range []string{"PART LOST", "key: lost", filepath.Base(l.part), "put the part back", "tables resolve orders --give-up", "lost)"} {
		if !strings.Contains(why, want) {
			t.Errorf("why lacks %q:\n%s", want, why)
		}
	}
	var found struct {
		Findings []struct{ Code, File, TransactionID, Key string }
	}
	l.json(&found, "tables", "why", "orders")
	if f := found.Findings[0]; f.Code != "part_lost" || f.File != "file://"+l.part || f.Key != "lost" {
		t.Errorf("%+v", f)
	}
	l.fails(6, []string{"tables", "resolve", "orders", "--yes"}, "NOTHING_TO_RESOLVE", "--give-up", filepath.Base(l.part))
	l.fails(6, []string{"commit", l.whole("more", "b")}, "TABLE_FROZEN", "lost")

	if err := os.WriteFile(l.part, l.was, 0o600); err != nil {
		t.Fatal(err)
	}
	l.eventually("it goes on by itself", func() bool { return l.ok("tables", "list", "--frozen", "-o", "id") == "" })
	if got := l.ok("tx", "show", "--key", "lost"); strings.Contains(got, "not_applied") || strings.Contains(got, "pending") {
		t.Errorf("%s", got)
	}
	l.ok("commit", l.whole("more", "b"))
}

// TestLostPartGivenUp: nobody has it any more.
func TestLostPartGivenUp(t *testing.T) {
	l := newLossy(t)
	plan := l.ok("tables", "resolve", "orders", "--give-up")
	for _, want := range []string{"barrier of orders", "the change below is not applied there", "lost", "operator", "items: ", "may be written again  items, orders"} {
		if !strings.Contains(plan, want) {
			t.Errorf("the plan lacks %q:\n%s", want, plan)
		}
	}
	if l.ok("tables", "list", "--frozen", "-o", "id") == "" {
		t.Error("a preview thawed it")
	}
	if got := l.ok("tables", "resolve", "orders", "--give-up", "--yes", "--reason", "the bucket's rule ate it"); !strings.Contains(got, "barrier") {
		t.Errorf("%s", got)
	}
	l.eventually("it goes on", func() bool { return l.ok("tables", "list", "--frozen", "-o", "id") == "" })
	if got := l.ok("tx", "show", "--key", "lost"); !strings.Contains(got, "not_applied") || !strings.Contains(got, "published") {
		t.Errorf("%s", got)
	}
	// The client comes back with its key: that is not what it asked for.
	again := []string{"commit", l.whole("lost", "a")}
	l.fails(12, again, "given up for good on orders (operator)", "another key")
	o := txcoord(t, l.env, "", append(again, "-o", "json")...)
	if o.code != 12 || !strings.Contains(o.out, `"not_applied"`) || !strings.Contains(strings.ReplaceAll(o.stderr, " ", ""), `"exit":12`) {
		t.Errorf("%d: %s%s", o.code, o.out, o.stderr)
	}
	for _, asking := range [][]string{{"tx", "show", "--key", "lost"}, {"tx", "begin", "--key", "lost"}} {
		if o := txcoord(t, l.env, "", asking...); o.code != 0 || !strings.Contains(o.stderr, "given up for good on orders") {
			t.Errorf("%v: %d %s", asking, o.code, o.stderr)
		}
	}
	l.ok("commit", l.whole("more", "b"))
}
