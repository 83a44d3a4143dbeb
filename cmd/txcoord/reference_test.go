package main

import (
	"path/filepath"
	"strings"
	"testing"
)

// A table is named by a path from where the command runs, if that begins as no name does.
// What delta-rs would not find is warned of, and a new catalog has no date of 1970.
func TestTablesByPath(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	env := map[string]string{"TXCOORD_SERVER": serving(t, "--warehouse", filepath.Join(dir, "lake"))}
	if o := txcoord(t, env, "", "status"); !strings.Contains(o.out, "newest entry ") || strings.Contains(o.out, "1970") {
		t.Errorf("of a new catalog:\n%s", o.out)
	}
	for name, warns := range map[string]bool{"x": false, "half%": false, "a%20b": true} {
		o := txcoord(t, env, "", "tables", "create", "t-of-"+name[:1], filepath.Join("lake", name), "--column", "id BIGINT")
		if got := strings.Contains(o.stderr, "delta-rs"); o.code != 0 || got != warns {
			t.Errorf("%s: exit %d, warned %v: %s", name, o.code, got, o.stderr)
		}
	}
	for ref, code := range map[string]int{
		"./lake/x": 0, "../" + filepath.Base(dir) + "/lake/x": 0, "./lake/../lake/a%20b": 0, filepath.Join(dir, "lake", "x"): 0, "t-of-x": 0,
		"lake/x": 3, "./x": 3,
	} {
		wantCode(t, []string{"describe", ref}, txcoord(t, env, "", "tables", "describe", ref), code)
	}
	t.Chdir(filepath.Join(dir, "lake", "x"))
	wantCode(t, []string{"why ."}, txcoord(t, env, "", "tables", "why", ".", "-o", "id"), 0)
	o := txcoord(t, env, `{"add":{"path":"f","partitionValues":{},"size":1,"modificationTime":1,"dataChange":true}}`,
		"tx", "stage", "./", "--token", strings.TrimSpace(txcoord(t, env, "", "tx", "begin", "-o", "id").out))
	wantCode(t, []string{"stage ./"}, o, 0)
}
