package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestTornCommit: what each command says of a table whose next version another writer left
// half written, and that all of it is over when the file is taken away.
func TestTornCommit(t *testing.T) {
	s := startServer(t)
	s.table("orders")
	s.table("items")
	s.ok("commit", s.transaction("k", 1, "a", "orders"))
	torn := filepath.Join(s.warehouse, "orders", "_delta_log", "00000000000000000002.json")
	put(t, torn, add("x")+`{"add":{"pa`)
	const (
		what  = "version 2 of table orders is no whole commit: _delta_log/00000000000000000002.json is cut off at byte "
		where = ", in line 2; another writer left it like that, or is not done"
		mend  = "once it is whole, the table goes on by itself; if its writer is gone for good, whoever may remove files there takes it away (no engine reads past it)"
	)
	s.fails(8, []string{"commit", s.transaction("k2", 1, "b", "orders")}, what, where, mend)
	for _, args := range [][]string{{"status"}, {"tables", "list", "--frozen"}, {"tables", "why", "orders"}} {
		out := s.ok(args...)
		for _, text := range []string{what, where, mend} {
			if !strings.Contains(out, text) {
				t.Errorf("%v does not say %q:\n%s", args, text, out)
			}
		}
	}
	if out := s.ok("tables", "list", "--frozen", "-o", "id"); out != "orders\n" {
		t.Errorf("no commits are taken by %q", out)
	}
	if out := s.ok("tables", "list"); strings.Contains(out, "REASON") || !strings.Contains(out, "stopped") {
		t.Errorf("listed as\n%s", out)
	}
	x := doctor(t, s.env, 14, nil, [3]string{"error", "journal", what})
	if x.Errors != 1 || x.Findings[0].Remedy != mend {
		t.Errorf("said once more, or without what to do: %+v", x.Findings)
	}
	if err := os.Remove(torn); err != nil {
		t.Fatal(err)
	}
	if out := s.ok("status"); strings.Contains(out, "TROUBLE") {
		t.Errorf("taken away, and still there is\n%s", out)
	}
	if out := s.ok("tables", "list", "--frozen", "-o", "id"); out != "" {
		t.Errorf("no commits are taken by %q", out)
	}
	s.ok("commit", s.transaction("k2", 1, "b", "orders"))
}
