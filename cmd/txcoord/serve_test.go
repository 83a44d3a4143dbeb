package main

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/txcoord/txcoord/coordinator/quota"
)

const schema = `{"type":"struct","fields":[{"name":"id","type":"long","nullable":true,"metadata":{}}]}`

// A warehouse whose journal is lost, or elsewhere, is refused as data loss, and nothing
// is left behind by that. A catalog of another name there, or a new warehouse, takes the tables.
func TestLostJournal(t *testing.T) {
	dir := t.TempDir()
	warehouse, orders := filepath.Join(dir, "w"), filepath.Join(dir, "w", "orders")
	t.Run("before", func(t *testing.T) {
		s := &server{t: t, env: map[string]string{"TXCOORD_SERVER": serving(t, "--warehouse", warehouse)}}
		s.ok("tables", "create", "orders", orders, "--schema", schema)
	})
	journal := filepath.Join(dir, "none", "j.db")
	args := []string{"serve", "--listen", "127.0.0.1:0", "--warehouse", warehouse, "--store", "bolt:" + journal}
	wantCode(t, args, txcoord(t, nil, "", args...), 8, "JOURNAL_CONTRADICTION", "When the journal is lost")
	if _, err := os.Stat(filepath.Dir(journal)); err == nil {
		t.Error("the start left something behind")
	}
	args[len(args)-1] = "mem"
	wantCode(t, args, txcoord(t, nil, "", args...), 8, "JOURNAL_CONTRADICTION")
	s := &server{t: t, env: map[string]string{"TXCOORD_SERVER": serving(t, "--warehouse", warehouse, "--catalog", "again"), "TXCOORD_CATALOG": "again"}}
	s.fails(6, []string{"tables", "register", "orders", orders}, "TABLE_OWNED")
	s.ok("tables", "register", "orders", orders, "--take-over")
	token := line(s.ok("tx", "begin", "-o", "id"))
	part := line(s.with(add("a"), "tx", "stage", "orders", "--token", token, "-o", "id"))
	s.ok("tx", "commit", "--token", token, part)
}

func TestSecondProcessOnOneStore(t *testing.T) {
	s := startServer(t)
	args := []string{"serve", "--warehouse", s.warehouse, "--listen", "127.0.0.1:0"}
	wantCode(t, args, txcoord(t, nil, "", args...), 6, "in use", filepath.Join("_txcoord", "default.db"))
}

func TestAddressInUse(t *testing.T) {
	s := startServer(t)
	warehouse := filepath.Join(t.TempDir(), "misspelt")
	args := []string{"serve", "--warehouse", warehouse, "--listen", s.env["TXCOORD_SERVER"]}
	remedy := "stop it, or give another address (--listen, --admin-listen)"
	wantCode(t, args, txcoord(t, nil, "", args...), 6, "address already in use", remedy)
	admin := []string{"serve", "--warehouse", warehouse, "--listen", "127.0.0.1:0", "--admin-listen", s.env["TXCOORD_SERVER"]}
	wantCode(t, admin, txcoord(t, nil, "", admin...), 6, "address already in use", remedy)
	if _, err := os.Stat(warehouse); !os.IsNotExist(err) {
		t.Errorf("a start that failed leaves a warehouse behind: %v", err)
	}
}

// TestServeTellsItsAddress: the line on standard output and the file say the same,
// and a context that ends is a stop in order.
func TestServeTellsItsAddress(t *testing.T) {
	ready := filepath.Join(t.TempDir(), "ready")
	warehouse := filepath.Join(t.TempDir(), "not", "there", "yet")
	var out, stderr bytes.Buffer
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan int, 1)
	go func() {
		args := []string{"serve", "--listen", "127.0.0.1:0", "--catalog", "sales", "--ready-file", ready}
		ended <- run(ctx, args, strings.NewReader(""), &out, &stderr, func(name string) (string, bool) {
			return warehouse, name == "TXCOORD_WAREHOUSE"
		})
	}()
	var address string
	for address == "" {
		b, err := os.ReadFile(ready)
		if err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
		address = strings.TrimSpace(string(b))
		time.Sleep(time.Millisecond)
	}
	env := map[string]string{"TXCOORD_SERVER": address}
	wantCode(t, nil, txcoord(t, env, "", "status"), 3, "CATALOG_NOT_FOUND", "give the name of the one that this server serves", "--catalog NAME, or TXCOORD_CATALOG")
	wantCode(t, nil, txcoord(t, env, "", "status", "--catalog", "sales"), 0)
	cancel()
	if code := <-ended; code != 0 {
		t.Errorf("ends with %d: %s", code, &stderr)
	}
	if !strings.Contains(stderr.String(), "catalog sales is new") {
		t.Errorf("does not say that the catalog is new: %s", &stderr)
	}
	if want := "txcoord serves catalog sales on " + address + "\n"; out.String() != want {
		t.Errorf("says %q, want %q", &out, want)
	}
	if _, err := os.Stat(filepath.Join(warehouse, "_txcoord", "sales.db")); err != nil {
		t.Error(err)
	}
}

// A journal without its warehouse: nothing is made in its place, where all tables would
// look dropped. With the warehouse back, also behind a link, the server starts.
func TestWarehouseThatIsAway(t *testing.T) {
	dir := t.TempDir()
	warehouse, moved := filepath.Join(dir, "wh"), filepath.Join(dir, "moved")
	flags := []string{"--warehouse", warehouse, "--store", "bolt:" + filepath.Join(dir, "journal.db")}
	t.Run("first", func(t *testing.T) {
		s := &server{t: t, warehouse: warehouse, env: map[string]string{"TXCOORD_SERVER": serving(t, flags...)}}
		s.ok("tables", "create", "t", filepath.Join(warehouse, "t"), "--schema", schema)
	})
	if err := os.Rename(warehouse, moved); err != nil {
		t.Fatal(err)
	}
	args := append([]string{"serve", "--listen", "127.0.0.1:0"}, flags...)
	wantCode(t, args, txcoord(t, nil, "", args...), 6, warehouse+" is not there", "mount it")
	if _, err := os.Stat(warehouse); !os.IsNotExist(err) {
		t.Errorf("made anew: %v", err)
	}
	if err := os.Symlink(moved, warehouse); err != nil {
		t.Fatal(err)
	}
	t.Run("behind a link", func(t *testing.T) {
		s := &server{t: t, warehouse: warehouse, env: map[string]string{"TXCOORD_SERVER": serving(t, flags...)}}
		s.ok("tables", "alter", "t", "--set", "owner=us")
	})
}

func TestTablesStayWhereTheyAreAllowed(t *testing.T) {
	outside, allowed := t.TempDir(), t.TempDir()
	s := startServer(t, "--allow", allowed)
	create := func(place string) []string {
		return []string{"tables", "create", filepath.Base(place), place, "--schema", schema}
	}
	s.fails(2, create(filepath.Join(outside, "a")), "is not below", "txcoord serve --allow PREFIX")
	s.fails(2, create(s.warehouse+"/../b"), "is not below")
	s.ok(create(filepath.Join(allowed, "c"))...)
	s.ok(create(filepath.Join(s.warehouse, "d"))...)
	if err := os.Symlink(outside, filepath.Join(s.warehouse, "link")); err != nil {
		t.Fatal(err)
	}
	s.fails(2, create(filepath.Join(s.warehouse, "link", "e")), "is not below")
	// The same table by another way is the same table.
	if err := os.Symlink(allowed, filepath.Join(s.warehouse, "other")); err != nil {
		t.Fatal(err)
	}
	s.fails(5, []string{"tables", "register", "again", filepath.Join(s.warehouse, "other", "c")}, "TABLE_EXISTS")
}

func TestReleaseLeavesNoFolderOfOurs(t *testing.T) {
	s := startServer(t)
	s.ok("tables", "create", "orders", filepath.Join(s.warehouse, "orders"), "--schema", schema)
	own := filepath.Join(s.warehouse, "orders", "_delta_log", "_txcoord")
	if _, err := os.Stat(own); err != nil {
		t.Fatal(err)
	}
	s.ok("tables", "release", "orders")
	if _, err := os.Stat(own); !os.IsNotExist(err) {
		t.Errorf("%s is still there: %v", own, err)
	}
	s.ok("tables", "register", "orders", filepath.Join(s.warehouse, "orders"))
}

func TestObjects(t *testing.T) {
	root := t.TempDir()
	o, err := newObjects(t.Context(), []string{root}, BucketFlags{}, true, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	for uri, want := range map[string]string{
		"file://" + root:                      root,
		"file://" + root + "/a b":             root + "/a b",
		"file://" + root + "/50%25 off/x%3Fy": root + "/50% off/x?y",
	} {
		store, key, err := o.Open(uri)
		if err != nil || filepath.Join(root, key) != want {
			t.Errorf("%s: key %q, %v", uri, key, err)
			continue
		}
		if err := store.PutIfAbsent(t.Context(), strings.TrimPrefix(key+"/f", "/"), []byte("x")); err != nil {
			t.Error(err)
		}
		if _, err := os.Stat(filepath.Join(want, "f")); err != nil {
			t.Error(err)
		}
	}
	for _, uri := range []string{"file://" + root + "x", "file://" + filepath.Dir(root), "s3://bucket/x", "file:///", "orders"} {
		if _, _, err := o.Open(uri); err == nil {
			t.Errorf("%s is opened", uri)
		}
	}
}

// TestLimitsAreNamedAsErrorsNameThem looks for the names in the code that makes the
// errors.
func TestLimitsAreNamedAsErrorsNameThem(t *testing.T) {
	known := map[string]bool{}
	for _, l := range limits {
		if known[l.name] {
			t.Errorf("%s twice", l.name)
		}
		known[l.name] = true
		c := &Config{}
		if err := setLimit(c, l.name, l.def); err != nil {
			t.Errorf("%s: its default: %v", l.name, err)
		}
	}
	// Those that the contract fixes, and one of table maintenance, which serve does not do.
	fixed := map[string]bool{"read_matches": true, "read_apps": true, "tag_bytes": true, "maintain_bytes": true}
	re := regexp.MustCompile(`(?:limitError|tooMany)\("([a-z_]+)"|Limit: +"([a-z_]+)"|LimitDetail\{Name: "([a-z_]+)"`)
	found := 0
	for _, folder := range []string{"../../coordinator", "../../tables"} {
		err := filepath.WalkDir(folder, func(path string, e fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			b, err := os.ReadFile(path)
			for _, m := range re.FindAllStringSubmatch(string(b), -1) {
				found++
				if name := m[1] + m[2] + m[3]; !known[name] && !fixed[name] {
					t.Errorf("%s: limit %s is not among those that can be set", path, name)
				}
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if found < 10 {
		t.Errorf("found %d limits in the code", found)
	}
	for _, name := range quota.Names() {
		if !known[name] {
			t.Errorf("limit %s of principals is not among those that can be set", name)
		}
	}
}

func TestLimitsReachTheServer(t *testing.T) {
	s := startServer(t, "--limit", "principal_open_transactions=1", "--limit", "principal_calls=0", "--limit", "key_bytes=4", "--limit", "message_bytes=2KiB", "--limit", "chunk_bytes=1KiB")
	s.ok("tx", "begin", "--key", "abcd")
	s.ok("tx", "begin", "--key", "abcd")
	s.fails(10, []string{"--timeout", "5s", "tx", "begin", "--key", "abce"}, "QUOTA_EXCEEDED", "name: principal_open_transactions", "value: 2", "limit: 1")
	if got := txcoord(t, s.env, "", "tx", "begin", "--ttl", "48h"); got.code != 2 || !strings.Contains(got.stderr, "is 48h, the limit is 24h") || strings.Contains(got.stderr, "000") {
		t.Errorf("%d %s", got.code, got.stderr)
	}
	s.fails(2, []string{"tx", "begin", "--key", "abcde"}, "LIMIT_EXCEEDED", "name: key_bytes", "value: 5", "limit: 4")
	s.fails(2, []string{"tx", "begin", "--key", strings.Repeat("x", 3000)}, "name: message_bytes")
}

// A table that only we write gets its checkpoint from us.
func TestMaintainWritesCheckpoints(t *testing.T) {
	t.Parallel()
	s := startServer(t, "--maintain")
	table := filepath.Join(s.warehouse, "orders")
	s.ok("tables", "create", "orders", table, "--schema", schema, "--mode", "exclusive", "--property", "delta.checkpointInterval=3")
	for i := range 4 {
		s.with(fmt.Sprintf(`{"key":"k%d","tables":[{"table":"orders","actions":[{"add":{"path":"f%d","partitionValues":{},"size":1,"modificationTime":1,"dataChange":true}}]}]}`, i, i), "commit", "-")
	}
	pointer := filepath.Join(table, "_delta_log", "_last_checkpoint")
	for end := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
		if b, err := os.ReadFile(pointer); err == nil && strings.Contains(string(b), `"numOfAddFiles"`) {
			return
		}
		if time.Now().After(end) {
			t.Fatal("no checkpoint in a minute")
		}
	}
}
