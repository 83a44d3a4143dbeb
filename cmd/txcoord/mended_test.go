package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestMendedLog: the last commit is altered while no server runs, and put back.
func TestMendedLog(t *testing.T) {
	l := &lossy{server: &server{t: t, warehouse: t.TempDir()}}
	l.serve()
	l.table("orders")
	l.table("items")
	l.ok("commit", l.whole("1", "a"))
	l.stop()
	file := filepath.Join(l.warehouse, "orders", "_delta_log", "00000000000000000001.json")
	was, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	put := func(content []byte) {
		t.Helper()
		if err := os.WriteFile(file, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	put(was[:len(was)-10])
	l.serve()
	l.fails(6, []string{"commit", l.whole("2", "b")}, "TABLE_FROZEN", "replaced")
	if why := l.ok("tables", "why", "orders"); !strings.Contains(why, "own log is put back") {
		t.Errorf("%s", why)
	}
	put(was)
	if plan := l.ok("tables", "resolve", "orders"); !strings.Contains(plan, "mended of orders") || strings.Contains(plan, "GIVEN UP ON") || !strings.Contains(plan, "--give-up") {
		t.Errorf("%s", plan)
	}
	if done := l.ok("tables", "resolve", "orders", "--yes"); !strings.Contains(done, "Was appended") || strings.Contains(done, "--give-up") {
		t.Errorf("%s", done)
	}
	l.ok("commit", l.whole("2", "b"))
	if got := l.ok("tables", "list", "--frozen", "-o", "id"); got != "" {
		t.Errorf("frozen: %s", got)
	}
}
