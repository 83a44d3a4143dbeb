package main

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// folderState is every file below a folder, with its content and the time of its last change.
func folderState(t *testing.T, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		out[path] = fmt.Sprintf("%s %x", info.ModTime(), b)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestFsck(t *testing.T) {
	warehouse := t.TempDir()
	args := []string{"fsck", "--warehouse", warehouse}
	wantCode(t, args, txcoord(t, nil, "", args...), 6, "name the store")
	t.Run("serving", func(t *testing.T) {
		s := &server{t: t, warehouse: warehouse, env: map[string]string{"TXCOORD_SERVER": serving(t, "--warehouse", warehouse)}}
		s.ok("tables", "create", "orders", filepath.Join(warehouse, "orders"), "--schema", schema)
		s.ok("tables", "create", "items", filepath.Join(warehouse, "items"), "--schema", schema)
		beside := txcoord(t, nil, "", args...)
		wantCode(t, args, beside, 6, "in use", "default.db", "end that first", "txcoord doctor")
		if strings.Contains(beside.stderr, "a file of its own") { // which is what another server would need
			t.Errorf("it advises %s", beside.stderr)
		}
	})
	before := folderState(t, warehouse)
	o := txcoord(t, nil, "", args...)
	wantCode(t, args, o, 0)
	if !strings.Contains(o.out, "proven") || !strings.Contains(o.out, "2 tables, 2 versions") {
		t.Errorf("says %q", o.out)
	}
	if diff := cmp.Diff(before, folderState(t, warehouse)); diff != "" {
		t.Errorf("fsck wrote: %s", diff)
	}
	gone := filepath.Join(warehouse, "orders", "_delta_log", "_txcoord", "owner.json")
	if err := os.Remove(gone); err != nil {
		t.Fatal(err)
	}
	o = txcoord(t, nil, "", args...)
	wantCode(t, args, o, 8, "not whole")
	if !strings.Contains(o.out, "OWNER_WRONG") || !strings.Contains(o.out, "orders") {
		t.Errorf("says %q", o.out)
	}
	ids := append(args, "-o", "id")
	o = txcoord(t, nil, "", ids...)
	wantCode(t, ids, o, 8, "1 finding says")
	same(t, "orders\n", o.out)
	inJSON := append(args, "-o", "json")
	o = txcoord(t, nil, "", inJSON...)
	wantCode(t, inJSON, o, 8)
	if !strings.Contains(o.out, `"proven":false`) || !strings.Contains(o.out, `"code":"OWNER_WRONG","wrong":true,"table":"orders"`) {
		t.Errorf("says %q", o.out)
	}
	other := append(args, "--table", "items")
	wantCode(t, other, txcoord(t, nil, "", other...), 0)
	nobody := append(args, "--table", "nobody")
	wantCode(t, nobody, txcoord(t, nil, "", nobody...), 3, "not in the catalog")
}

// A server, or fsck, that was not given the place of a table says that, and does not blame
// the caller for a location that others use.
func TestTableWhereThisServerMayNotLook(t *testing.T) {
	warehouse, allowed := t.TempDir(), t.TempDir()
	location := filepath.Join(allowed, "orders")
	t.Run("one that may", func(t *testing.T) {
		s := &server{t: t, warehouse: warehouse, env: map[string]string{"TXCOORD_SERVER": serving(t, "--warehouse", warehouse, "--allow", allowed)}}
		s.ok("tables", "create", "orders", location, "--schema", schema)
		s.ok("tables", "create", "items", filepath.Join(warehouse, "items"), "--schema", schema)
	})
	args := []string{"fsck", "--warehouse", warehouse}
	wantCode(t, args, txcoord(t, nil, "", args...), 2, location+" is not below "+warehouse, "give this command the --allow")
	wantCode(t, args, txcoord(t, nil, "", append(args, "--table", "items")...), 0)
	wantCode(t, args, txcoord(t, nil, "", append(args, "--allow", allowed)...), 0)
	t.Run("one that may not", func(t *testing.T) {
		s := &server{t: t, warehouse: warehouse, env: map[string]string{"TXCOORD_SERVER": serving(t, "--warehouse", warehouse)}}
		s.ok("tables", "describe", "items")
		began := time.Now()
		s.fails(7, []string{"tables", "describe", "orders"}, "OBJECTS_UNAVAILABLE", "this server may not use the location of table orders", location+" is not below", "--allow PREFIX")
		if took := time.Since(began); took > 30*time.Second { // of the minute of --timeout
			t.Errorf("a server that may never look was asked for %s", took)
		}
		s.fails(2, []string{"tables", "register", "others", filepath.Join(allowed, "others")}, "INVALID_REQUEST", "is not below")
	})
}
