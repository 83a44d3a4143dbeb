package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// wantNothing: what was refused has made nothing.
func wantNothing(t *testing.T, path string) {
	t.Helper()
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%s is there: %v", path, err)
	}
}

func TestWhatIsRefusedMakesNothing(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "none")
	store := "bolt:" + filepath.Join(folder, "x.db")
	for _, c := range []struct {
		args []string
		code int
		says string
	}{
		{[]string{"store", "check", "--store", store}, exitNotFound, "store init"},
		{[]string{"store", "init", "--store", store, "--catalog", "a/b"}, exitUsage, "--catalog"},
		{[]string{"serve", "--warehouse", folder, "--listen", "127.0.0.1:0", "--catalog", "a/b"}, exitUsage, "--catalog"},
		{[]string{"fsck", "--warehouse", folder, "--catalog", ".."}, exitUsage, "--catalog"},
		{[]string{"serve", "--warehouse", folder, "--listen", "127.0.0.1:99999"}, exitUsage, "--listen"},
		{[]string{"serve", "--warehouse", folder, "--listen", "127.0.0.1:0", "--advertise", "h:-1"}, exitUsage, "--advertise"},
		{[]string{"serve", "--warehouse", folder, "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:no-port"}, exitUsage, "--admin-listen"},
	} {
		wantCode(t, c.args, txcoord(t, nil, "", c.args...), c.code, c.says)
		wantNothing(t, folder)
	}
	file := filepath.Join(filepath.Dir(folder), "file")
	put(t, file, "")
	for _, args := range [][]string{{"--warehouse", file}, {"--warehouse", filepath.Join(file, "below")}, {"--warehouse", folder, "--allow", file}} {
		o := txcoord(t, nil, "", append([]string{"serve", "--listen", "127.0.0.1:0"}, args...)...)
		wantCode(t, args, o, exitUsage, args[len(args)-2]+": ", file+" is a file; name a folder")
		wantNothing(t, folder)
	}
	wantCode(t, nil, txcoord(t, nil, "", "store", "init", "--store", store), 0)
	wantCode(t, nil, txcoord(t, nil, "", "store", "check", "--store", store), 0)
}

// A time of nothing is not one that was left out: the server's default would be taken.
func TestTimesOfNothingAreRefused(t *testing.T) {
	for _, args := range [][]string{{"tx", "begin", "--key", "k"}, {"snapshot", "lease"}, {"snapshot", "lease", "renew", "l"}} {
		for _, ttl := range []string{"0s", "-1s"} {
			args := append(args, "--ttl="+ttl)
			wantCode(t, args, txcoord(t, nil, "", args...), exitUsage, "--ttl", ttl, "give a time above 0, or leave it out")
		}
	}
}

// TestOutputJSON: a program that asks for JSON gets it from every command.
func TestOutputJSON(t *testing.T) {
	folder := t.TempDir()
	config, rules := filepath.Join(folder, "c.yaml"), filepath.Join(folder, "a.yaml")
	put(t, config, "warehouse: /x\nlimit: {key_bytes: 9}\n")
	put(t, rules, "roles:\n  w: [{catalogs: [default], tables: [\"o*\"], actions: [read]}]\nbindings: [{role: w, principals: [\"token:x\"]}]\n")
	for _, c := range []struct {
		args []string
		has  string
	}{
		{[]string{"version"}, `{"version":"`},
		{[]string{"config", "check", config}, `"inOrder":true`},
		{[]string{"config", "print", config}, `"limit":{"value":{"key_bytes":"9"},"from":"file"}`},
		{[]string{"config", "print", config}, `"stop-timeout":{"value":"`},
		{[]string{"access", "check", rules}, `"inOrder":true`},
		{[]string{"access", "check", rules, "--principal", "token:x", "--table", "orders"}, `"actions":["read"]`},
		{[]string{"access", "check", rules, "--principal", "token:y", "--table", "orders"}, `"actions":[]`},
		{[]string{"serve", "--list-limits"}, `{"name":"key_bytes","default":"512"`},
	} {
		got := txcoord(t, nil, "", append([]string{"-o", "json"}, c.args...)...)
		var flat bytes.Buffer
		if err := json.Compact(&flat, []byte(got.out)); got.code != 0 || err != nil || !strings.Contains(flat.String(), c.has) {
			t.Errorf("%q: exit %d, %v\n%s%s", c.args, got.code, err, got.out, got.stderr)
		}
	}
}

// TestAccessCheckOfABareName: a principal without its kind is nobody's, which is said.
func TestAccessCheckOfABareName(t *testing.T) {
	rules := filepath.Join(t.TempDir(), "access.yaml")
	put(t, rules, "roles:\n  w: [{catalogs: [default], tables: [\"o*\"], actions: [read]}]\nbindings: [{role: w, principals: [\"token:etl\"]}]\n")
	for principal, hint := range map[string]bool{"etl": true, "token:etl": false, "anonymous": false} {
		got := txcoord(t, nil, "", "access", "check", rules, "--principal", principal)
		if got.code != 0 || strings.Contains(got.stderr, "token:"+principal) != hint {
			t.Errorf("%s: exit %d, %s", principal, got.code, got.stderr)
		}
	}
}

// Without a table it says what the bindings grant; a role for few tables is none on "*".
func TestAccessCheckWithoutATable(t *testing.T) {
	rules := filepath.Join(t.TempDir(), "access.yaml")
	put(t, rules, `
roles: {w: [{catalogs: [default], tables: ["o*", items], actions: [read, write]}, {catalogs: [other], tables: [x], actions: [ddl]}]}
bindings: [{role: w, principals: ["token:etl"]}]
`)
	for _, c := range []struct{ principal, text, json string }{
		{"token:etl", "token:etl may read, write tables o*, items of catalog default\n", `"grants":[{"tables":["o*","items"],"actions":["read","write"]}]`},
		{"token:no", "token:no may do nothing with any table of catalog default\n", `"grants":[]`},
	} {
		args := []string{"access", "check", rules, "--principal", c.principal}
		if got := txcoord(t, nil, "", args...); got.code != 0 || !strings.HasPrefix(got.out, c.text) {
			t.Errorf("%q: exit %d, %s%s", args, got.code, got.out, got.stderr)
		}
		var flat bytes.Buffer
		got := txcoord(t, nil, "", append([]string{"-o", "json"}, args...)...)
		if err := json.Compact(&flat, []byte(got.out)); err != nil || !strings.Contains(flat.String(), c.json) {
			t.Errorf("%s: %v, %s", c.principal, err, flat.String())
		}
	}
}

// TestAccessCheckSaysLimits: those that the file gives a principal in a catalog, and that
// the others are the server's. Limits are no matter of tables: they are said whichever is asked for.
func TestAccessCheckSaysLimits(t *testing.T) {
	rules := filepath.Join(t.TempDir(), "access.yaml")
	put(t, rules, `
roles: {w: [{catalogs: ["*"], tables: ["sales.*"], actions: [write]}]}
bindings: [{role: w, principals: ["token:*"]}]
quotas:
- {principals: ["token:etl"], catalogs: [sales], limits: {principal_commits: 20}}
- {roles: [w], catalogs: [sales, stock], limits: {principal_commits: 200, principal_staged_bytes: 1KiB, principal_streams: 0}}
`)
	for _, c := range []struct{ catalog, principal, text, json string }{
		{
			"sales", "token:etl", "principal_staged_bytes 1024, principal_commits 20, principal_streams none; others are the server's",
			`"limits":{"principal_commits":20,"principal_staged_bytes":1024,"principal_streams":0}`,
		},
		{
			"stock", "token:etl", "principal_staged_bytes 1024, principal_commits 200, principal_streams none; others are the server's",
			`"limits":{"principal_commits":200,"principal_staged_bytes":1024,"principal_streams":0}`,
		},
		{"other", "token:etl", "limits: the server's", `"limits":{}`},
	} {
		args := []string{"--catalog", c.catalog, "access", "check", rules, "--principal", c.principal}
		if got := txcoord(t, nil, "", args...); got.code != 0 || !strings.Contains(got.out, c.text) {
			t.Errorf("%q: exit %d, %s%s", args, got.code, got.out, got.stderr)
		}
		var flat bytes.Buffer
		got := txcoord(t, nil, "", append([]string{"-o", "json"}, args...)...)
		if err := json.Compact(&flat, []byte(got.out)); err != nil || !strings.Contains(flat.String(), c.json) {
			t.Errorf("%q: %v, %s", args, err, flat.String())
		}
	}
}

// TestErrorsOfManyTables: each line of standard error is JSON, also where some tables
// failed and some did not.
func TestErrorsOfManyTables(t *testing.T) {
	s := startServer(t)
	s.ok("tables", "create", "t1", filepath.Join(s.warehouse, "t1"), "--column", "id BIGINT")
	got := txcoord(t, s.env, "", "-o", "json", "tables", "maintain", "t1", "no", "nor")
	if got.code != exitNotFound || !json.Valid([]byte(got.out)) {
		t.Errorf("exit %d, %s", got.code, got.out)
	}
	for line := range strings.Lines(got.stderr) {
		if !strings.HasPrefix(line, `{"error":{"exit":3`) || !json.Valid([]byte(line)) {
			t.Errorf("no JSON: %s", line)
		}
	}
	if !strings.Contains(got.stderr, "nor: ") {
		t.Errorf("does not name the second table: %s", got.stderr)
	}
}

// TestMaintainAllBesidePlacesThatCannotBeRead: such tables are told, each, and hold the others up
// no longer than --timeout together.
func TestMaintainAllBesidePlacesThatCannotBeRead(t *testing.T) {
	s := startServer(t)
	for _, name := range []string{"a", "b", "c", "d", "whole"} {
		s.ok("tables", "create", name, filepath.Join(s.warehouse, name), "--column", "id BIGINT")
		if name == "whole" {
			break
		}
		away := filepath.Join(t.TempDir(), name)
		if err := errors.Join(os.Rename(filepath.Join(s.warehouse, name), away), os.Symlink(away, filepath.Join(s.warehouse, name))); err != nil {
			t.Fatal(err)
		}
	}
	began := time.Now()
	got := txcoord(t, s.env, "", "--timeout", "4s", "tables", "maintain", "--all")
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("it took %s", took)
	}
	for _, name := range []string{"a", "b", "c", "d"} {
		if !strings.Contains(got.stderr, name+": OBJECTS_UNAVAILABLE") {
			t.Errorf("%s is not told:\n%s", name, got.stderr)
		}
	}
	if got.code != exitUnavailable || !strings.Contains(got.out, "whole  0        written") {
		t.Errorf("exit %d, %s", got.code, got.out)
	}
	if list := s.ok("tables", "list"); strings.Count(list, "  trouble  ") != 4 || strings.Count(list, "  ok  ") != 1 {
		t.Errorf("%s", list)
	}
	if got := s.ok("tables", "describe", "a"); !strings.Contains(got, "a is a symbolic link by now") {
		t.Errorf("%s", got)
	}
}

func TestLocationsThatNoFileSystemTakes(t *testing.T) {
	s := startServer(t)
	for _, path := range []string{strings.Repeat("z", 300), strings.Repeat(strings.Repeat("z", 200)+"/", 19)} {
		got := txcoord(t, s.env, "", "tables", "create", "u1", filepath.Join(s.warehouse, path), "--column", "id BIGINT")
		wantCode(t, []string{"tables", "create"}, got, exitUsage, "bytes")
		file := `{"key":"k","tables":[{"table":"u1","create":{"location":"` + filepath.Join(s.warehouse, path) + `","schema":{"type":"struct","fields":[{"name":"id","type":"long","nullable":true,"metadata":{}}]}}}]}`
		wantCode(t, []string{"commit"}, txcoord(t, s.env, file, "commit", "-"), exitUsage, "bytes")
	}
	s.ok("tables", "create", "u2", filepath.Join(s.warehouse, strings.Repeat("z", 255)), "--column", "id BIGINT")
}
