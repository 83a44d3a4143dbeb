package checker_test

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/txcoord/txcoord/e2e/checker"
)

const catalogID = "cat-1"

// world is a hand-made warehouse with two tables, before it is written to disk.
// Mutations change its files or the client's books.
type world struct {
	t      *testing.T
	dir    string
	files  map[string]string
	run    checker.Run
	during func() // runs after the history was sampled
}

func id(name string) string     { return hash(name)[:32] }
func digest(name string) string { return hash("digest " + name) }

func hash(s string) string {
	h := sha256.Sum256([]byte(s))
	return hex.EncodeToString(h[:])
}

func logFile(table string, version int) string {
	return fmt.Sprintf("%s/_delta_log/%020d.json", table, version)
}

func manifestFile(n int) string {
	return fmt.Sprintf("_txcoord/default/manifests/%020d.json", n)
}

func fullFile(n int) string {
	return fmt.Sprintf("_txcoord/default/manifests/%020d.checkpoint.json", n)
}

func checkpointFile(table string, version int) string {
	return fmt.Sprintf("%s/_delta_log/%020d.checkpoint.parquet", table, version)
}

func lines(ls ...string) string { return strings.Join(ls, "\n") + "\n" }

func add(path string) string {
	return fmt.Sprintf(`{"add":{"path":%q,"partitionValues":{},"size":460,"modificationTime":1700000000000,"dataChange":true}}`, path)
}

func foreign(path string) string {
	return lines(`{"commitInfo":{"timestamp":1700000000000,"operation":"WRITE","engineInfo":"delta-rs"}}`, add(path))
}

func created() string {
	return lines(
		`{"protocol":{"minReaderVersion":1,"minWriterVersion":2}}`,
		`{"metaData":{"id":"m","format":{"provider":"parquet","options":{}},"schemaString":"{}","partitionColumns":[],"configuration":{}}}`)
}

// own renders a version of ours as CONTRACT.md section 5 has it.
func own(marker int, txns []string, payload ...string) string {
	return ownTags(marker, map[string]string{"txcoord.transactions": pairs(txns)}, txns, payload...)
}

func barrier(marker int, notApplied ...string) string {
	return ownTags(marker, map[string]string{"txcoord.transactions": "[]", "txcoord.notApplied": pairs(notApplied)}, nil)
}

func pairs(txns []string) string {
	var p [][]string
	for _, x := range txns {
		p = append(p, []string{id(x), digest(x)})
	}
	b, _ := json.Marshal(p)
	return string(b)
}

func ownTags(marker int, tags map[string]string, txns []string, payload ...string) string {
	tags["txcoord.catalog"], tags["txcoord.incarnation"], tags["txcoord.round"] = catalogID, "1", "7.0"
	if len(txns) == 1 {
		tags["delta.multiTableTransaction.transactionId"] = id(txns[0])
	}
	info, _ := json.Marshal(map[string]any{"commitInfo": map[string]any{
		"timestamp": 1700000000000, "operation": "WRITE", "operationParameters": map[string]any{},
		"engineInfo": "txcoord/0.1", "isBlindAppend": true, "txnId": "7.0/orders", "tags": tags,
	}})
	head := []string{string(info), fmt.Sprintf(`{"txn":{"appId":"txcoord/%s","version":%d}}`, catalogID, marker)}
	return lines(append(head, payload...)...)
}

type tableVersion struct {
	name    string
	version int
}

func manifestText(w *world, n int, kind string, txns []string, full bool, tables ...tableVersion) string {
	return fileOf(full, snapshot(w, n, kind, txns, tables...))
}

// snapshot is what one snapshot changed, as it stands in a manifest.
func snapshot(w *world, n int, kind string, txns []string, tables ...tableVersion) map[string]any {
	ids := []string{}
	for _, x := range txns {
		ids = append(ids, id(x))
	}
	list := []map[string]any{}
	for _, t := range tables {
		list = append(list, map[string]any{"id": "id-" + t.name, "name": t.name, "uri": "file://" + filepath.Join(w.dir, t.name), "version": t.version})
	}
	return map[string]any{"snapshot": n, "timestamp": 1700000000000 + n, "kind": kind, "transactions": ids, "tables": list}
}

func fileOf(full bool, snapshots ...map[string]any) string {
	m := map[string]any{"format": 2, "catalog": catalogID, "incarnation": "1", "snapshots": snapshots}
	if full {
		m["full"] = true
	}
	b, _ := json.Marshal(m)
	return string(b) + "\n"
}

// goodWorld: two tables; A and B on both, C on orders, D on both but given up on
// orders, E refused, F without an answer and nowhere.
func goodWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, dir: t.TempDir()}
	w.files = map[string]string{
		logFile("orders", 0): created(),
		logFile("orders", 1): own(1, []string{"A"}, add("a.parquet")),
		logFile("orders", 2): foreign("foreign.parquet"),
		logFile("orders", 3): own(3, []string{"B", "C"}, add("b.parquet"), add("c%20c.parquet")),
		logFile("orders", 4): barrier(3, "D"),
		logFile("items", 0):  created(),
		logFile("items", 1):  own(1, []string{"A"}, add("a.parquet")),
		logFile("items", 2):  own(2, []string{"B"}, add("b.parquet")),
		logFile("items", 3):  own(3, []string{"D"}, add("d.parquet")),

		manifestFile(1): fileOf(false, snapshot(w, 1, "register", nil, tableVersion{"orders", 0}), snapshot(w, 2, "register", nil, tableVersion{"items", 0})),
		manifestFile(3): manifestText(w, 3, "publication", []string{"A"}, false, tableVersion{"orders", 1}, tableVersion{"items", 1}),
		manifestFile(4): manifestText(w, 4, "foreign", nil, false, tableVersion{"orders", 2}),
		manifestFile(5): manifestText(w, 5, "publication", []string{"B", "C"}, false, tableVersion{"orders", 3}, tableVersion{"items", 2}),
		fullFile(5):     manifestText(w, 5, "publication", []string{"B", "C"}, true, tableVersion{"items", 2}, tableVersion{"orders", 3}),
		manifestFile(6): manifestText(w, 6, "publication", []string{"D"}, false, tableVersion{"orders", 4}, tableVersion{"items", 3}),
	}
	w.run = checker.Run{
		Warehouse: w.dir, Catalog: "default", Closed: true, Settled: true,
		Tables: []checker.Table{{Name: "orders", Path: filepath.Join(w.dir, "orders")}, {Name: "items", Path: filepath.Join(w.dir, "items")}},
		Committed: []checker.Transaction{
			{ID: id("A"), Snapshot: 3, Parts: []checker.Part{part("orders", "A", 1, "a.parquet"), part("items", "A", 1, "a.parquet")}},
			{ID: id("B"), Snapshot: 5, Parts: []checker.Part{part("orders", "B", 3, "b.parquet"), part("items", "B", 2, "b.parquet")}},
			{ID: id("C"), Parts: []checker.Part{part("orders", "C", 0, "c%20c.parquet")}},
			{ID: id("D"), Parts: []checker.Part{{Table: "orders", NotApplied: true, Adds: []string{"d.parquet"}}, part("items", "D", 3, "d.parquet")}},
		},
		Refused:    []checker.Transaction{{ID: id("E"), Parts: []checker.Part{part("orders", "E", 0, "e.parquet")}}},
		Unresolved: []checker.Transaction{{ID: id("F"), Parts: []checker.Part{part("orders", "F", 0, "f.parquet"), part("items", "F", 0, "f.parquet")}}},
		Schema:     schema(t),
	}
	return w
}

func part(table, txn string, version int64, adds ...string) checker.Part {
	return checker.Part{Table: table, Adds: adds, Digests: []string{digest(txn)}, Version: version}
}

func schema(t *testing.T) *checker.Schema {
	t.Helper()
	b, err := os.ReadFile("../../docs/manifest.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	s, err := checker.ParseSchema(b)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func (w *world) write(name, text string) {
	w.t.Helper()
	path := filepath.Join(w.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		w.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) remove(name string) {
	w.t.Helper()
	if err := os.Remove(filepath.Join(w.dir, name)); err != nil {
		w.t.Fatal(err)
	}
}

// edit replaces text in a file that is not written yet; the text must be there.
func (w *world) edit(name, old, new string) {
	w.t.Helper()
	if !strings.Contains(w.files[name], old) {
		w.t.Fatalf("%s does not hold %q:\n%s", name, old, w.files[name])
	}
	w.files[name] = strings.Replace(w.files[name], old, new, 1)
}

// check writes the world, samples a history, lets time pass, and checks.
func (w *world) check() *checker.Report {
	w.t.Helper()
	for name, text := range w.files {
		w.write(name, text)
	}
	w.run.History = checker.NewHistory(w.run.Warehouse, w.run.Catalog, w.run.Tables)
	if err := w.run.History.Sample(); err != nil {
		w.t.Fatal(err)
	}
	if w.during != nil {
		w.during()
	}
	report, err := checker.Check(w.run)
	if err != nil {
		w.t.Fatal(err)
	}
	return report
}
