package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// The journal's file is lost: a plan that writes nothing, the rebuild, and a server that
// goes on; run again, it finds that it is done.
func TestRebuildCommand(t *testing.T) {
	warehouse := t.TempDir()
	rebuild := func(more ...string) []string { return append([]string{"rebuild", "--warehouse", warehouse}, more...) }
	wantCode(t, rebuild(), txcoord(t, nil, "", rebuild()...), 6, "nothing to rebuild from")
	wantCode(t, rebuild("--accept", "x"), txcoord(t, nil, "", rebuild("--accept", "x")...), 2, "TORN")
	wantCode(t, rebuild("--mode", "orders=fenced"), txcoord(t, nil, "", rebuild("--mode", "orders=fenced")...), 2, "TABLE=MODE")
	wantCode(t, rebuild("--name", "orders"), txcoord(t, nil, "", rebuild("--name", "orders")...), 2, "ID=NAME")
	commit := func(s *server, key string) string {
		return s.with(`{"key": "`+key+`", "tables": [{"table": "orders", "blind": true, "actions": [`+
			`{"add": {"path": "`+key+`", "partitionValues": {}, "size": 1, "modificationTime": 1, "dataChange": true}}]}]}`, "commit", "-", "-o", "id")
	}
	var first string
	t.Run("serving", func(t *testing.T) {
		s := &server{t: t, warehouse: warehouse, env: map[string]string{"TXCOORD_SERVER": serving(t, "--warehouse", warehouse)}}
		s.ok("tables", "create", "orders", filepath.Join(warehouse, "orders"), "--schema", schema, "--mode", "exclusive")
		s.ok("tables", "create", "items", filepath.Join(warehouse, "items"), "--schema", schema)
		first = commit(s, "one")
		wantCode(t, rebuild(), txcoord(t, nil, "", rebuild()...), 6, "in use", "end that first")
	})
	wantCode(t, rebuild("--yes"), txcoord(t, nil, "", rebuild("--yes")...), 6, "--supersede")
	if err := os.Remove(filepath.Join(warehouse, "_txcoord", "default.db")); err != nil {
		t.Fatal(err)
	}
	before := folderState(t, warehouse)
	plan := txcoord(t, nil, "", rebuild("-o", "json")...)
	wantCode(t, rebuild(), plan, 0)
	if diff := cmp.Diff(before, folderState(t, warehouse)); diff != "" {
		t.Errorf("a plan wrote: %s", diff)
	}
	ids := rebuild("--dry-run", "-o", "id")
	if got := txcoord(t, nil, "", ids...); got.code != 0 || got.out != "" {
		t.Errorf("a plan has the id %q, code %d", got.out, got.code)
	}
	var said struct {
		Written bool
		Known   int
		Tables  []struct{ Name, Mode string }
		Torn    []any
	}
	if err := json.Unmarshal([]byte(plan.out), &said); err != nil || said.Written || said.Known != 1 || len(said.Tables) != 2 || said.Torn == nil {
		t.Errorf("%+v, %v", said, err)
	}
	done := txcoord(t, nil, "", rebuild("--yes", "--mode", "orders=exclusive")...)
	wantCode(t, rebuild("--yes"), done, 0)
	if !strings.Contains(done.out, "orders") || !strings.Contains(done.out, "TAGS_AND_LEASES_LOST") {
		t.Errorf("says %q", done.out)
	}
	again := txcoord(t, nil, "", rebuild("--yes")...)
	wantCode(t, rebuild("--yes"), again, 0)
	if !strings.Contains(again.out, "by an earlier run") {
		t.Errorf("says %q", again.out)
	}
	t.Run("serving again", func(t *testing.T) {
		s := &server{t: t, warehouse: warehouse, env: map[string]string{"TXCOORD_SERVER": serving(t, "--warehouse", warehouse)}}
		if got := commit(s, "one"); got != first {
			t.Errorf("the same key is %q, was %q", got, first)
		}
		commit(s, "two")
		if got := s.ok("tables", "list"); !strings.Contains(got, "exclusive") {
			t.Errorf("says %q", got)
		}
	})
	fsck := []string{"fsck", "--warehouse", warehouse}
	wantCode(t, fsck, txcoord(t, nil, "", fsck...), 0)
	owner := filepath.Join(warehouse, "orders", "_delta_log", "_txcoord", "owner.json")
	if err := os.Remove(filepath.Join(warehouse, "_txcoord", "default.db")); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(owner); err != nil {
		t.Fatal(err)
	}
	wantCode(t, rebuild("--yes"), txcoord(t, nil, "", rebuild("--yes")...), 8, "--accept TABLE_NOT_OWNED")
	wantCode(t, rebuild("--yes"), txcoord(t, nil, "", rebuild("--yes", "--accept", "table_not_owned")...), 0)
}
