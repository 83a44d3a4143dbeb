package coordinator_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/txcoord/txcoord/coordinator"
	"github.com/txcoord/txcoord/e2e/checker"
	"github.com/txcoord/txcoord/twophase"
)

// closedRun is what a test knows of the transactions of a run.
type closedRun struct {
	committed []coordinator.Outcome
	refused   []twophase.TxnID
}

// check lets the independent checker replay what a world holds.
func (w *world) check(run closedRun) {
	w.t.Helper()
	w.settle()
	dir := w.dir
	if !w.files {
		dir = w.export()
	}
	r := checker.Run{Warehouse: dir, Catalog: "default", Settled: true, Schema: manifestSchema(w.t)}
	var err error
	if r.Tables, err = checker.TablesOf(dir, "default"); err != nil {
		w.t.Fatal(err)
	}
	for _, o := range run.committed {
		r.Committed = append(r.Committed, checked(o))
	}
	for _, id := range run.refused {
		r.Refused = append(r.Refused, checker.Transaction{ID: id.String()})
	}
	report, err := checker.Check(r)
	if err != nil {
		w.t.Fatal(err)
	}
	if !report.OK() {
		w.t.Errorf("the checker found:\n%s", report)
	}
	if r := w.fsck(""); !r.Proven() {
		w.t.Errorf("fsck found:\n%s", strings.Join(findings(r), "\n"))
	}
}

func checked(o coordinator.Outcome) checker.Transaction {
	tx := checker.Transaction{ID: o.Txn.String(), Snapshot: uint64(o.Committed.Snapshot)}
	for _, d := range o.Committed.Tables {
		place := int(d.Place)
		p := checker.Part{Table: d.Name, NotApplied: d.Status == twophase.StatusNotApplied}
		if d.Status == twophase.StatusPublished {
			p.Version, p.Place = int64(d.Version), &place
		}
		tx.Parts = append(tx.Parts, p)
	}
	return tx
}

func manifestSchema(t testing.TB) *checker.Schema {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("..", "docs", "manifest.schema.json"))
	if err != nil {
		t.Fatal(err)
	}
	s, err := checker.ParseSchema(b)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// export writes a world's objects into a folder.
func (w *world) export() string {
	w.t.Helper()
	dir, err := filepath.EvalSymlinks(w.t.TempDir())
	if err != nil {
		w.t.Fatal(err)
	}
	for key, content := range w.keys() {
		name, ok := strings.CutPrefix(key, "object: ")
		if !ok {
			continue
		}
		// Manifests name tables by URI.
		content = strings.ReplaceAll(content, "file://"+w.dir+"/", "file://"+dir+"/")
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			w.t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			w.t.Fatal(err)
		}
	}
	return dir
}
