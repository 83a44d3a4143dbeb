package e2e_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/txcoord/txcoord/clients/go"
	"github.com/txcoord/txcoord/e2e/checker"
	"github.com/txcoord/txcoord/e2e/linear"
	txcoordv1 "github.com/txcoord/txcoord/proto/txcoord/v1"
)

// world is a warehouse, a server process on it, a client, and what clients were told.
type world struct {
	t testing.TB
	*process
	*books
	client  *client.Client
	history *checker.History
	tables  []checker.Table
	// catalog is the catalog's id, once asked for.
	catalog string
	asked   sync.Once
	looking context.CancelFunc
	looked  chan struct{}
}

// newWorld is an empty folder, and a server that is yet to be started.
func newWorld(t testing.TB, config serverConfig) *world {
	t.Helper()
	if config.s3 != nil {
		config.Dir, config.Bucket = bucketDir(t, config.s3)
	} else {
		config.Dir = freshDir(t)
	}
	if err := os.Mkdir(filepath.Join(config.Dir, warehouseDir), 0o755); err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, process: &process{t: t, config: config, calls: linear.NewRecorder()}, books: newBooks()}
	t.Cleanup(w.stop)
	w.client = w.dial()
	return w
}

func freshDir(t testing.TB) string {
	t.Helper()
	dir := t.TempDir()
	if *keep != "" {
		if err := os.MkdirAll(*keep, 0o755); err != nil {
			t.Fatal(err)
		}
		var err error
		if dir, err = os.MkdirTemp(*keep, strings.ReplaceAll(t.Name(), "/", "_")+"-"); err != nil {
			t.Fatal(err)
		}
		t.Log("folder: ", dir)
	}
	real, err := filepath.EvalSymlinks(dir)
	if err != nil {
		t.Fatal(err)
	}
	return real
}

func (w *world) warehouse() string { return filepath.Join(w.config.Dir, warehouseDir) }

// table is a table's folder.
func (w *world) table(name string) string { return filepath.Join(w.warehouse(), name) }

// ctx bounds a step of a test: what takes longer hangs.
func (w *world) ctx() context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	w.t.Cleanup(cancel)
	return ctx
}

// create makes a table that rows of package e2e_test fit.
func (w *world) create(name string, mode txcoordv1.TableMode) {
	w.t.Helper()
	_, err := w.client.Tables.CreateTable(w.ctx(), &txcoordv1.CreateTableRequest{
		Name: name, Uri: w.table(name), SchemaJson: schema, Mode: mode,
	})
	if err != nil {
		w.t.Fatalf("create %s: %v\n%s", name, err, w.log())
	}
	w.knows(name)
}

// knows makes a table one that is checked.
func (w *world) knows(name string) { w.knowsAt(name, w.table(name)) }

func (w *world) knowsAt(name, dir string) {
	w.tables = append(w.tables, checker.Table{Name: name, Path: dir})
}

// look begins to remember what is in logs and manifests, so that nothing can be
// rewritten unnoticed. To be called when all tables are there.
func (w *world) look() {
	w.history = checker.NewHistory(w.warehouse(), "default", w.tables)
	ctx, cancel := context.WithCancel(context.Background())
	w.looking, w.looked = cancel, make(chan struct{})
	go func() {
		defer close(w.looked)
		for ctx.Err() == nil {
			w.sample()
			time.Sleep(20 * time.Millisecond)
		}
	}()
	w.t.Cleanup(w.lookNoMore)
}

func (w *world) sample() {
	if err := w.history.Sample(); err != nil {
		w.t.Errorf("look at the logs: %v", err)
	}
}

func (w *world) lookNoMore() {
	w.looking()
	<-w.looked
}

// settle waits until nothing is in flight any more. Clients must be done.
func (w *world) settle() {
	w.t.Helper()
	ctx := w.ctx()
	for {
		st, err := w.client.Status.GetStatus(ctx, &txcoordv1.GetStatusRequest{})
		if err != nil {
			w.t.Fatalf("settle: %v\n%s", err, w.log())
		}
		if len(st.GetOpenRounds()) == 0 && st.GetManifestSnapshot() == st.GetLatestSnapshot() {
			return
		}
		if ctx.Err() != nil {
			w.t.Fatalf("does not settle: %v\n%s", st, w.log())
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// judge has the independent checker look at everything. settled: nothing is in
// flight any more. Else the server must be dead, and a transaction that nobody was
// told of may be in some of its tables only; in no snapshot, though.
func (w *world) judge(settled bool) *checker.Report {
	w.t.Helper()
	raw, err := os.ReadFile(filepath.Join("..", "docs", "manifest.schema.json"))
	if err != nil {
		w.t.Fatal(err)
	}
	schema, err := checker.ParseSchema(raw)
	if err != nil {
		w.t.Fatal(err)
	}
	run := w.books.run()
	run.Warehouse, run.Catalog, run.Tables = w.warehouse(), "default", w.tables
	run.Schema, run.Closed, run.Settled = schema, true, settled
	if w.history != nil {
		w.sample()
		run.History = w.history.Clone() // foreign commits become snapshots meanwhile
	}
	report, err := checker.Check(run)
	if err != nil {
		w.t.Fatal(err)
	}
	if !settled {
		w.prove()
		report.Violations = slices.DeleteFunc(report.Violations, func(v checker.Violation) bool { return v.Kind == checker.TransactionTorn })
	}
	if w.gone != "" {
		report.Violations = slices.DeleteFunc(report.Violations, func(v checker.Violation) bool { return v.Table == w.gone })
	}
	if err := report.Err(); err != nil {
		w.t.Errorf("%v\n%s", err, w.log())
	}
	return report
}

// rest settles, and has everything judged.
func (w *world) rest() *checker.Report {
	w.t.Helper()
	w.settle()
	w.linearizable()
	return w.judge(true)
}

// linearizable judges what clients were told, and when.
func (w *world) linearizable() {
	w.t.Helper()
	report, err := linear.Check(w.calls.Calls(), w.replicas == nil, time.Minute)
	if err != nil {
		w.t.Errorf("what clients were told does not go together: %v", err)
	}
	w.t.Log(report)
}

// waitFor waits until something holds.
func (w *world) waitFor(what string, holds func() bool) {
	w.t.Helper()
	for end := time.Now().Add(startLimit); !holds(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			w.t.Fatalf("waited %s for %s\n%s", startLimit, what, w.log())
		}
	}
}

// staged lists the payloads that are kept as objects.
func (w *world) staged() []string {
	var files []string
	root := filepath.Join(w.warehouse(), "_txcoord", "default", "staged")
	_ = filepath.WalkDir(root, func(path string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			files = append(files, path)
		}
		return nil
	})
	return files
}

func (w *world) snapshot() *txcoordv1.Snapshot {
	w.t.Helper()
	s, err := w.client.Snapshot(w.ctx())
	if err != nil {
		w.t.Fatal(err)
	}
	return s
}

// versionIn is a table's version in a snapshot.
func versionIn(s *txcoordv1.Snapshot, table string) int64 {
	for _, t := range s.GetTables() {
		if t.GetName() == table {
			return t.GetVersion()
		}
	}
	panic(fmt.Sprintf("snapshot %d has no table %s", s.GetVersion(), table))
}
