package main

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/txcoord/txcoord/e2e/checker"
	"github.com/txcoord/txcoord/e2e/readers"
	txcoordv1 "github.com/txcoord/txcoord/proto/txcoord/v1"
)

var full = flag.Bool("demo.full", false, "run the demo at its full size")

// TestDemo runs it with real processes, has its story told, and then has others
// look at what it left: the independent checker, delta-rs and DuckDB.
func TestDemo(t *testing.T) {
	t.Setenv(selfVariable, "1")
	folder := filepath.Join(t.TempDir(), "it's here")
	args := []string{"demo", folder, "--transactions", "120"}
	if *full {
		args = args[:2]
	}
	o := txcoord(t, nil, "", args...)
	if o.code != 0 {
		t.Fatalf("ends with %d\n%s%s", o.code, o.out, o.stderr)
	}
	for _, want := range []string{
		"in one transaction", "SIGKILL for server", "read by path", "they disagree", "read by manifests", "they agree",
		"serves again", "each exactly once in each of its tables", "agree at every one of them", "the longest",
		"CREATE OR REPLACE VIEW \"orders\"", "DeltaTable(", "txcoord serve --warehouse '",
	} {
		if !strings.Contains(o.out, want) {
			t.Errorf("does not say %q:\n%s", want, o.out)
		}
	}
	checkDemo(t, folder)
	args = []string{"fsck", "--warehouse", folder} // after a SIGKILL in the middle of publishing
	wantCode(t, args, txcoord(t, nil, "", args...), 0)
	args = []string{"demo", folder}
	wantCode(t, args, txcoord(t, nil, "", args...), 2, "it is not empty")
}

func checkDemo(t *testing.T, folder string) {
	t.Helper()
	tables, err := checker.TablesOf(folder, "default")
	if err != nil {
		t.Fatal(err)
	}
	report, err := checker.Check(checker.Run{Warehouse: folder, Catalog: "default", Tables: tables, Settled: true})
	if err != nil {
		t.Fatal(err)
	}
	if err := report.Err(); err != nil || report.Transactions < 120 || len(tables) != 3 {
		t.Errorf("%d tables, %s, %v", len(tables), report, err)
	}
}

// TestDemoIsReadByOthers asks engines that know nothing of us for the sums that have
// to agree, at the versions of the last snapshot.
func TestDemoIsReadByOthers(t *testing.T) {
	engines := readers.Require(t)
	t.Setenv(selfVariable, "1")
	folder := filepath.Join(t.TempDir(), "demo")
	o := txcoord(t, nil, "", "demo", folder, "--transactions", "40")
	if o.code != 0 {
		t.Fatalf("ends with %d\n%s%s", o.code, o.out, o.stderr)
	}
	var queries []readers.Query
	for i, sums := range [][]string{{"total_cents", "items", "first_order"}, {"amount_cents"}, nil} {
		name := shopTables[i].name
		m := regexp.MustCompile(`(?m)^` + name + ` +(\d+) +file:`).FindStringSubmatch(o.out)
		if m == nil {
			t.Fatalf("no version of %s in\n%s", name, o.out)
		}
		version, err := strconv.ParseInt(m[1], 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		queries = append(queries, readers.Query{Name: name, Path: filepath.Join(folder, name), Versions: []int64{version}, Sums: sums})
	}
	got, err := engines.ReadAgreed(t.Context(), queries...)
	if err != nil {
		t.Fatal(err)
	}
	orders, items, customers := got[0], got[1], got[2]
	same(t, orders.Sums["total_cents"], items.Sums["amount_cents"])
	same(t, orders.Sums["items"], strconv.FormatInt(items.Count, 10))
	same(t, orders.Sums["first_order"], strconv.FormatInt(customers.Count, 10))
}

func TestDemoFolders(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, want := range []string{"txcoord-demo", "txcoord-demo-2", "txcoord-demo-3"} {
		got, err := freshFolder("")
		if err != nil || filepath.Base(got) != want || !filepath.IsAbs(got) {
			t.Errorf("got %s, %v", got, err)
		}
	}
}

// A demo in the next free folder says that the pages' lines mean another one.
func TestDemoSaysWhichFolderIsItsOwn(t *testing.T) {
	for _, another := range []bool{false, true} {
		var out strings.Builder
		d := &demo{session: &session{out: &out}, warehouse: "/w/txcoord-demo-2", another: another}
		if err := d.farewell(&txcoordv1.Snapshot{}); err != nil {
			t.Fatal(err)
		}
		said := strings.Contains(out.String(), "where a page says txcoord-demo, this one's folder is txcoord-demo-2")
		if said != another || !strings.Contains(out.String(), "txcoord serve --warehouse /w/txcoord-demo-2\n") {
			t.Errorf("another: %t, and it says\n%s", another, out.String())
		}
	}
}

// TestPathReaderSeesWhatIsTorn: a table whose partner lags behind.
func TestPathReaderSeesWhatIsTorn(t *testing.T) {
	warehouse := t.TempDir()
	for i := range shopTables {
		if err := os.MkdirAll(filepath.Join(warehouse, shopTables[i].name, "_delta_log"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	b := newShop(0, 1, nil).orders(5, 0.5)
	if err := b.write(warehouse); err != nil {
		t.Fatal(err)
	}
	r := newPathReader(warehouse)
	commit := func(table, version int, actions []byte) {
		if err := os.WriteFile(r.logs[table].commit(version), actions, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	look := func(want bool) {
		t.Helper()
		if got, err := r.look(t.Context()); err != nil || got != want {
			t.Errorf("agree is %v, %v", got, err)
		}
	}
	look(true)
	for i := range shopTables {
		commit(i, 0, replacing(shopFile{}, b.files[i]))
		look(i == 2)
	}
	fresh := b.repriced(7)
	if err := fresh.write(warehouse); err != nil {
		t.Fatal(err)
	}
	commit(itemsTable, 1, replacing(b.files[itemsTable], fresh.files[itemsTable]))
	look(false)
	commit(ordersTable, 1, replacing(b.files[ordersTable], fresh.files[ordersTable]))
	look(true)
	if l := r.looks; l.total != 6 || l.torn != 3 || len(l.windows) != 2 {
		t.Errorf("looks: %+v", l)
	}
	var a struct{ Remove struct{ Size int64 } }
	if err := json.Unmarshal(replacing(b.files[0], shopFile{}), &a); err != nil || a.Remove.Size != b.files[0].size {
		t.Errorf("remove: %+v, %v", a, err)
	}
}

func TestMoney(t *testing.T) {
	for cents, want := range map[int64]string{5: "0.05", 99_999: "999.99", 123_456_789: "1,234,567.89", 100_000_00: "100,000.00"} {
		same(t, want, money(cents))
	}
}
