package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/txcoord/txcoord/tables/datafile"
)

// files makes a Parquet file with an id column, and returns its path.
func parquet(t *testing.T, path string, cols []datafile.Column, rows ...[]any) string {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := datafile.Write(f, cols, datafile.WriteOptions{}, slices.Values(rows)); err != nil {
		t.Fatal(err)
	}
	return path
}

func (s *server) table(name string, flags ...string) string {
	s.t.Helper()
	root := filepath.Join(s.warehouse, name)
	s.ok(append([]string{"tables", "create", name, root, "--schema", schema}, flags...)...)
	return root
}

func (s *server) json(into any, args ...string) {
	s.t.Helper()
	out := s.ok(append(args, "-o", "json")...)
	if err := json.Unmarshal([]byte(out), into); err != nil {
		s.t.Fatalf("txcoord %s prints no JSON: %v\n%s", strings.Join(args, " "), err, out)
	}
}

func add(path string) string {
	return fmt.Sprintf(`{"add":{"path":%q,"partitionValues":{},"size":1,"modificationTime":1,"dataChange":true}}`+"\n", path)
}

func remove(path string) string {
	return fmt.Sprintf(`{"remove":{"path":%q,"deletionTimestamp":1,"dataChange":true}}`+"\n", path)
}

func line(s string) string { return strings.TrimSpace(s) }

// dated is a schema that can be partitioned by day.
const dated = `{"type":"struct","fields":[{"name":"id","type":"long","nullable":true,"metadata":{}},` +
	`{"name":"day","type":"date","nullable":true,"metadata":{}}]}`

func TestTables(t *testing.T) {
	s := startServer(t)
	id := line(s.ok("tables", "create", "orders", filepath.Join(s.warehouse, "orders"), "--schema", dated, "--partition-by", "day",
		"--property", "delta.appendOnly=true", "--description", "what was sold", "--mode", "exclusive", "-o", "id"))
	var list struct {
		LatestSnapshot uint64
		Tables         []struct{ ID, Name, Mode, URI string }
	}
	s.json(&list, "tables", "list")
	if len(list.Tables) != 1 || list.Tables[0].ID != id || list.Tables[0].Mode != "exclusive" || list.LatestSnapshot != 1 {
		t.Errorf("list: %+v", list)
	}
	same(t, "orders\n", s.ok("tables", "list", "-o", "id"))
	same(t, "", s.ok("tables", "list", "--frozen", "-o", "id"))
	for _, want := range []string{"partitioned by", "delta.appendOnly = true", "exclusive", `"name":"id"`} {
		if got := s.ok("tables", "describe", id); !strings.Contains(got, want) {
			t.Errorf("describe lacks %q:\n%s", want, got)
		}
	}
	if got := s.ok("tables", "mode", "orders", "open"); !strings.Contains(got, "open") {
		t.Errorf("mode: %s", got)
	}
	s.fails(6, []string{"tables", "resolve", "orders"}, "NOTHING_TO_RESOLVE")
	s.fails(3, []string{"tables", "describe", "nope"}, "TABLE_NOT_FOUND")
	s.fails(5, []string{"tables", "create", "orders", filepath.Join(s.warehouse, "o2"), "--schema", schema}, "TABLE_EXISTS", "To see it: txcoord tables describe orders. To change its columns or properties: txcoord tables alter orders --help")
	s.fails(6, []string{"tables", "register", "empty", filepath.Join(s.warehouse, "empty")}, "NOT_A_TABLE", "txcoord tables create empty")
	s.fails(5, []string{"tables", "register", "orders", filepath.Join(s.warehouse, "orders"), "--mode", "exclusive"}, "TABLE_EXISTS", "To see it: txcoord tables describe orders. To change its mode: txcoord tables mode orders open|exclusive")
	s.ok("tables", "release", "orders")
	s.ok("tables", "register", "sales", filepath.Join(s.warehouse, "orders"), "--one-txn-per-version")
	same(t, "sales\n", s.ok("tables", "list", "-o", "id"))
}

func TestSchemaFromAFile(t *testing.T) {
	s := startServer(t)
	file := filepath.Join(t.TempDir(), "schema.json")
	if err := os.WriteFile(file, []byte(schema), 0o600); err != nil {
		t.Fatal(err)
	}
	s.ok("tables", "create", "orders", filepath.Join(s.warehouse, "orders"), "--schema", "@"+file)
	s.fails(2, []string{"tables", "create", "items", filepath.Join(s.warehouse, "items"), "--schema", "@nope"}, "no such file")
}

// TestTransactionStepByStep is the way of a shell script.
func TestTransactionStepByStep(t *testing.T) {
	s := startServer(t)
	s.table("orders")
	s.table("items")
	token := line(s.ok("tx", "begin", "--key", "job-1", "--ttl", "10m", "-o", "id"))
	again := s.ok("tx", "begin", "--key", "job-1")
	if !strings.Contains(again, "attempt") {
		t.Errorf("begin: %s", again)
	}
	s.fails(2, []string{"tx", "stage", "orders", "--token", token}, "there is no action")
	orders := line(s.with(add("a"), "tx", "stage", "orders", "--token", token, "-o", "id"))
	items := line(s.with(add("b"), "tx", "stage", "items", "-", "--token", token, "-o", "id"))
	if !strings.HasPrefix(orders, "orders=") {
		t.Errorf("stage: %s", orders)
	}
	if got := s.ok("tx", "list"); !strings.Contains(got, "job-1") || !strings.Contains(got, "open") {
		t.Errorf("list: %s", got)
	}
	longer := line(s.ok("tx", "begin", "--extend", token, "--ttl", "2h", "-o", "id"))
	var done struct {
		Outcome struct {
			TransactionID string
			Committed     struct {
				SnapshotVersion uint64
				Tables          []struct {
					Table, State string
					Version      int64
				}
			}
		}
	}
	s.json(&done, "tx", "commit", "--token", longer, orders, items)
	if c := done.Outcome.Committed; c.SnapshotVersion != 3 || len(c.Tables) != 2 || c.Tables[1].State != "published" || c.Tables[1].Version != 1 {
		t.Errorf("commit: %+v", done)
	}
	// The same call again is the same answer.
	same(t, done.Outcome.TransactionID+"\n", s.ok("tx", "commit", "--token", longer, orders, items, "-o", "id"))
	for _, which := range [][]string{{"--token", token}, {"--key", "job-1"}, {"--id", done.Outcome.TransactionID}} {
		if got := s.ok(append([]string{"tx", "show"}, which...)...); !strings.Contains(got, "committed") || !strings.Contains(got, "orders") {
			t.Errorf("show %s: %s", which, got)
		}
	}
	s.fails(5, []string{"tx", "abort", "--token", token}, "the commit came first")
	s.fails(5, []string{"tx", "commit", "--token", longer, orders}, "OTHER_DIGESTS")
	if got := s.ok("tx", "list", "--all", "--table", "items", "--limit", "1"); !strings.Contains(got, "orders@1, items@1") || strings.Count(got, "\n") != 2 {
		t.Errorf("list: %s", got)
	}
	again = txcoord(t, s.env, "", "tx", "begin", "--key", "job-1").stderr
	if !strings.Contains(again, "committed already, as attempt 1") {
		t.Errorf("begin of a key that is committed says %q", again)
	}
}

func TestAborts(t *testing.T) {
	s := startServer(t)
	s.table("orders")
	token := line(s.ok("tx", "begin", "--key", "k", "-o", "id"))
	if got := s.ok("tx", "abort", "--token", token, "--reason", "changed my mind"); !strings.Contains(got, "aborted") || !strings.Contains(got, "changed my mind") {
		t.Errorf("abort: %s", got)
	}
	part := line(s.with(add("a"), "tx", "stage", "orders", "--token", line(s.ok("tx", "begin", "-o", "id")), "-o", "id"))
	s.fails(4, []string{"tx", "commit", "--token", token, part}, "ABORTED", "rule: client", "txcoord tx begin --key k --attempt 2")
	begun := txcoord(t, s.env, "", "tx", "begin", "--key", "k")
	wantCode(t, nil, begun, 0, "attempt 1 of this key is aborted", "use --attempt 2")
	second := line(s.ok("tx", "begin", "--key", "k", "--attempt", "2", "-o", "id"))
	got := s.ok("tx", "show", "--token", second, "--resolve")
	if !strings.Contains(got, "aborted") || !strings.Contains(got, "attempt      2") {
		t.Errorf("resolve: %s", got)
	}
	s.fails(6, []string{"tx", "show", "--key", "unheard", "--resolve"}, "OUTCOME_EXPIRED", "--begun-after")
	if got := s.ok("tx", "show", "--key", "unheard", "--resolve", "--begun-after", time.Now().Format(time.RFC3339)); !strings.Contains(got, "aborted") {
		t.Errorf("resolve by key and time: %s", got)
	}
	var open struct{ TransactionID string }
	s.json(&open, "tx", "begin", "--key", "k3")
	s.fails(3, []string{"tx", "show", "--id", strings.Repeat("1", 32)}, "TRANSACTION_NOT_FOUND")
}

func TestConflictsAndBadInput(t *testing.T) {
	s := startServer(t)
	s.table("orders")
	s.table("kept", "--property", "delta.appendOnly=true")
	commit := func(file string) []string {
		path := filepath.Join(t.TempDir(), "commit.json")
		if err := os.WriteFile(path, []byte(file), 0o600); err != nil {
			t.Fatal(err)
		}
		return []string{"commit", path}
	}
	one := func(key, table, rest, action string) []string {
		return commit(fmt.Sprintf(`{"key":%q,"tables":[{"table":%q,%s"actions":[%s]}]}`, key, table, rest, action))
	}
	s.ok(one("1", "orders", "", add("a"))...)
	s.ok(one("2", "orders", `"readVersion":1,`, remove("a"))...)
	s.fails(4, one("3", "orders", `"readVersion":1,`, remove("a")), `"attempt": 2 in the file`, "CONFLICT", "rule: delete_delete", "path: a", "version: 2")
	s.fails(4, one("4", "orders", `"readVersion":1,"readTable":true,`, add("b")), "CONFLICT")
	s.fails(3, one("5", "nope", "", add("a")), "TABLE_NOT_FOUND")
	s.fails(2, one("6", "orders", "", `{"add":{"path":"x"}}`), "INVALID_ACTION", "line: 1")
	s.fails(2, one("7", "orders", "", add("x")+","+add("x")), "INVALID_ACTION")
	s.fails(2, one("8", "orders", `"readVersion":9,`, add("x")), "INVALID_REQUEST")
	s.fails(2, one("9", "orders", "", `{"nope":{}}`), `action: "nope"`)
	s.fails(2, commit("{"), "line 1")
	s.fails(2, one("10", "kept", `"readVersion":0,`, remove("a")), "append-only")
}

func TestAddFiles(t *testing.T) {
	s := startServer(t)
	root := filepath.Join(s.warehouse, "orders")
	cols := []datafile.Column{{Name: "id", Type: "long", Nullable: true}}
	s.ok("tables", "create", "orders", root, "--partition-by", "day", "--schema", dated)
	in := parquet(t, filepath.Join(root, "day=2026-11-28", "a b.parquet"), cols, []any{int64(1)}, []any{nil})
	plain := parquet(t, filepath.Join(root, "plain.parquet"), cols, []any{int64(7)})
	if got := s.ok("tx", "add", "orders", in, "--key", "files"); !strings.Contains(got, "committed") {
		t.Errorf("add: %s", got)
	}
	token := line(s.ok("tx", "begin", "-o", "id"))
	part := line(s.ok("tx", "add", "orders", plain, "--partition", "day=2026-11-29", "--token", token, "-o", "id"))
	s.ok("tx", "commit", "--token", token, part, "--verify-files")
	log, err := os.ReadFile(filepath.Join(root, "_delta_log", "00000000000000000001.json"))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"path":"day=2026-11-28/a%20b.parquet"`, `"day":"2026-11-28"`, `\"numRecords\":2`, `\"nullCount\":{\"id\":1}`} {
		if !strings.Contains(string(log), want) {
			t.Errorf("the log lacks %s:\n%s", want, log)
		}
	}
	relative := parquet(t, filepath.Join(root, "day=2026-11-30", "r.parquet"), cols, []any{int64(8)})
	s.ok("tx", "add", "orders", "day=2026-11-30/r.parquet", "--key", "relative", "--partition", "day=2026-11-30")
	s.fails(4, []string{"tx", "add", "orders", relative, "--key", "relative too"}, "CONFLICT", "it is most likely done; otherwise write them under other names", "write yours under a name of its own", "--attempt 2")
	s.fails(4, []string{"tx", "add", "orders", relative, "--key", "relative too", "--attempt", "2"}, "CONFLICT", "--attempt 3")
	s.fails(2, []string{"tx", "add", "orders", root}, root+`": it is a folder; name the Parquet files in it`)
	s.fails(2, []string{"tx", "add", "orders", "nowhere.parquet"}, "no such file, neither in", root)
	s.fails(2, []string{"tx", "add", "orders", in, "--partition", "day=2026-09-09"}, `"2026-11-28"`, `"2026-09-09"`)
	holds := parquet(t, filepath.Join(root, "holds.parquet"), []datafile.Column{cols[0], {Name: "day", Type: "date"}},
		[]any{int64(8), time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC)})
	s.fails(2, []string{"tx", "add", "orders", holds, "--partition", "day=2026-12-02"}, `holds "2026-12-01"`, `"2026-12-02"`)
	outside := parquet(t, filepath.Join(t.TempDir(), "o.parquet"), cols, []any{int64(1)})
	s.fails(2, []string{"tx", "add", "orders", outside}, "does not lie below the table's folder")
	s.fails(2, []string{"tx", "add", "orders", plain}, "plain.parquet", "day")
	s.fails(2, []string{"tx", "add", "orders", filepath.Join(root, "_delta_log", "00000000000000000000.json")}, "no place for data")
	text := filepath.Join(root, "text.parquet")
	if err := os.WriteFile(text, []byte("no parquet at all"), 0o600); err != nil {
		t.Fatal(err)
	}
	s.fails(2, []string{"tx", "add", "orders", text}, "footer cannot be read")
	wrong := parquet(t, filepath.Join(root, "day=2026-11-28", "wrong.parquet"), []datafile.Column{{Name: "id", Type: "string", Nullable: true}}, []any{"x"})
	s.fails(2, []string{"tx", "add", "orders", wrong}, "wrong.parquet", "id")
	s.fails(2, []string{"tx", "add", "orders", filepath.Join(root, "missing.parquet")}, "no such file")
}

// TestLargeParts go as a stream.
func TestLargeParts(t *testing.T) {
	s := startServer(t)
	s.table("orders")
	lines, n := manyAdds(2 * streamAbove)
	token := line(s.ok("tx", "begin", "-o", "id"))
	part := line(s.with(lines, "tx", "stage", "orders", "--token", token, "-o", "id"))
	same(t, part, line(s.with(lines, "tx", "stage", "orders", "--token", token, "-o", "id")))
	s.ok("tx", "commit", "--token", token, part)
	same(t, n, s.liveFiles("orders"))
}

// TestLargeCommitFiles that do not fit a message go by begin, stage and commit
// under the same key.
func TestLargeCommitFiles(t *testing.T) {
	s := startServer(t)
	s.table("orders")
	lines, n := manyAdds(onceAbove + 1)
	file := fmt.Sprintf(`{"key":"large","tables":[{"table":"orders","actions":[%s]}]}`,
		strings.ReplaceAll(strings.TrimSuffix(lines, "\n"), "\n", ","))
	first := s.with(file, "commit", "-", "-o", "id")
	same(t, first, s.with(file, "commit", "-", "-o", "id"))
	same(t, n, s.liveFiles("orders"))
}

// manyAdds are n adds with long paths, of some size together.
func manyAdds(size int) (lines string, n int) {
	var b strings.Builder
	for ; b.Len() < size; n++ {
		b.WriteString(add(fmt.Sprintf("%030000d", n)))
	}
	return b.String(), n
}

func (s *server) liveFiles(table string) int {
	s.t.Helper()
	var d struct{ State struct{ Files int } }
	s.json(&d, "tables", "describe", table)
	return d.State.Files
}

func TestSnapshotCommands(t *testing.T) {
	s := startServer(t)
	orders := s.table("orders")
	s.table("items")
	for i := range 3 {
		s.with(fmt.Sprintf(`{"key":"%d","tables":[{"table":"orders","actions":[%s]}]}`, i, add(fmt.Sprint(i))), "commit", "-")
	}
	var snap struct {
		Snapshot struct {
			Version   uint64
			Timestamp time.Time
			Tables    []struct {
				Name    string
				Version int64
			}
		}
	}
	s.json(&snap, "snapshot", "get")
	if v := snap.Snapshot; v.Version != 5 || len(v.Tables) != 2 || v.Tables[1].Version != 3 {
		t.Errorf("latest: %+v", snap)
	}
	at := snap.Snapshot.Timestamp.Format(time.RFC3339Nano)
	same(t, "5\n", s.ok("snapshot", "get", "--time", at, "-o", "id"))
	for n := 1; n <= 5; n++ { // and by what is shown to people one of that time is found
		time := regexp.MustCompile(`time +\S+`)
		shown := time.FindString(s.ok("snapshot", "get", "--version", fmt.Sprint(n)))
		at := strings.Fields(shown)[1]
		same(t, shown, time.FindString(s.ok("snapshot", "get", "--time", at)))
		if list := s.ok("snapshot", "list"); !strings.Contains(list, " "+at+" ") {
			t.Errorf("the list does not have the time %s of snapshot %d:\n%s", at, n, list)
		}
	}
	same(t, "2\n", s.ok("snapshot", "get", "--version", "2", "-o", "id"))
	if got := s.ok("snapshot", "get"); !strings.Contains(got, " ok ") {
		t.Errorf("the newest one: %s", got)
	}
	// Of an older one nothing is looked at.
	if got := s.ok("snapshot", "get", "items", "--version", "4"); strings.Contains(got, "orders") || !strings.Contains(got, "items") || strings.Contains(got, " ok ") {
		t.Errorf("one table: %s", got)
	}
	if got := s.ok("snapshot", "get", "orders", "--version", "4", "--format", "python"); !strings.Contains(got, fmt.Sprintf("DeltaTable(%q, version=2)", orders)) {
		t.Errorf("code: %s", got)
	}
	s.ok("snapshot", "tag", "eod", "4")
	same(t, "4\n", s.ok("snapshot", "get", "--tag", "eod", "-o", "id"))
	s.ok("snapshot", "tag", "eod")
	same(t, "5\n", s.ok("snapshot", "get", "--tag", "eod", "-o", "id"))
	s.ok("snapshot", "tag", "eod", "--delete")
	s.fails(3, []string{"snapshot", "get", "--tag", "eod"}, "SNAPSHOT_NOT_FOUND")
	s.fails(2, []string{"snapshot", "get", "--version", "0"}, "INVALID_REQUEST", "snapshots count from 1")
	s.fails(3, []string{"snapshot", "get", "--version", "77"}, "SNAPSHOT_NOT_FOUND")
	same(t, "5\n4\n", s.ok("snapshot", "list", "--limit", "2", "-o", "id"))
	same(t, "2\n", s.ok("snapshot", "list", "--table", "items", "-o", "id"))
	if got := s.ok("snapshot", "diff", "3", "5"); !strings.Contains(got, "orders  1     3") || strings.Contains(got, "items") {
		t.Errorf("diff: %s", got)
	}
	s.fails(2, []string{"snapshot", "diff", "5", "3"}, "from")
	same(t, "3\n4\n5\n", s.ok("snapshot", "watch", "--after", "2", "--count", "3", "-o", "id"))
	if got := s.ok("snapshot", "watch", "--after", "4", "--count", "1"); !strings.Contains(got, "publication") || !strings.Contains(got, "orders@3") {
		t.Errorf("watch: %s", got)
	}
	if got := s.ok("snapshot", "watch", "--after", "4", "--count", "1", "-o", "json"); strings.Count(got, "\n") != 1 || !strings.Contains(got, `"kind":"publication"`) {
		t.Errorf("watch: %s", got)
	}
	// The replica waits for 3 s before it says so; a busy machine needs more.
	for _, limit := range []string{"4s", "20s", "100s"} {
		args := []string{"status", "--at-least", "99", "--timeout", limit}
		o := txcoord(t, s.env, "", args...)
		if strings.Contains(o.stderr, "REPLICA_BEHIND") || limit == "100s" {
			wantCode(t, args, o, 7, "REPLICA_BEHIND", "its newest is 5")
			break
		}
	}
	if got := s.ok("status"); !strings.Contains(got, "snapshot") || !strings.Contains(got, "the beginning") {
		t.Errorf("status: %s", got)
	}
}
