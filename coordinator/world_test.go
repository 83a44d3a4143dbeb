package coordinator_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/txcoord/txcoord/coordinator"
	"github.com/txcoord/txcoord/lock"
	"github.com/txcoord/txcoord/lock/boltstore"
	"github.com/txcoord/txcoord/tables"
	"github.com/txcoord/txcoord/tables/checkpoint"
	"github.com/txcoord/txcoord/tables/objstore"
	"github.com/txcoord/txcoord/tables/objstore/fileobj"
	"github.com/txcoord/txcoord/twophase"
)

const schema = `{"type":"struct","fields":[{"name":"id","type":"long","nullable":true,"metadata":{}}]}`

// world is a catalog over real files in a temporary folder.
type world struct {
	t       testing.TB
	dir     string
	store   lock.Store
	objects objstore.Store
	catalog *coordinator.Catalog
	limits  coordinator.Limits
}

// Open implements coordinator.Objects for everything under the world's folder.
func (w *world) Open(uri string) (objstore.Store, string, error) {
	path, ok := strings.CutPrefix(uri, "file://")
	rel, err := filepath.Rel(w.dir, path)
	if !ok || err != nil || strings.HasPrefix(rel, "..") {
		return nil, "", fmt.Errorf("%s lies outside %s", uri, w.dir)
	}
	if rel == "." {
		rel = ""
	}
	return w.objects, filepath.ToSlash(rel), nil
}

func newWorld(t testing.TB) *world {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	objects, err := fileobj.New(dir, fileobj.Config{})
	if err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, dir: dir, objects: objects}
	w.openStore()
	w.start()
	t.Cleanup(w.close)
	return w
}

func (w *world) openStore() {
	store, err := boltstore.Open(filepath.Join(w.dir, "journal.db"), boltstore.Config{})
	if err != nil {
		w.t.Fatal(err)
	}
	w.store = store
}

func (w *world) start() {
	level := slog.LevelWarn
	if testing.Verbose() {
		level = slog.LevelInfo
	}
	c, err := coordinator.Open(context.Background(), coordinator.Config{
		Warehouse: "file://" + w.dir, Store: w.store, Objects: w, ReadCheckpoint: checkpoint.Read, Limits: w.limits,
		Log: slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: level})),
	})
	if err != nil {
		w.t.Fatal(err)
	}
	w.catalog = c
}

func (w *world) close() {
	if err := w.catalog.Close(context.Background()); err != nil {
		w.t.Error(err)
	}
	if err := w.store.Close(); err != nil {
		w.t.Error(err)
	}
}

// restart closes the catalog and its store, and opens them again.
func (w *world) restart() {
	w.close()
	w.openStore()
	w.start()
}

func (w *world) create(name string, mode twophase.Mode) coordinator.TableInfo {
	w.t.Helper()
	info, _, err := w.catalog.Create(context.Background(), coordinator.CreateRequest{Name: name, URI: "file://" + w.dir + "/" + name, Schema: schema, Mode: mode})
	if err != nil {
		w.t.Fatal(err)
	}
	return info
}

func add(path string) []byte {
	return fmt.Appendf(nil, `{"add":{"path":%q,"partitionValues":{},"size":1,"modificationTime":1,"dataChange":true,"stats":"{\"numRecords\":1}"}}`+"\n", path)
}

func blind(table, path string) coordinator.OnceTable {
	return coordinator.OnceTable{Table: table, Read: tables.ReadDeclaration{Blind: true}, Actions: add(path)}
}

func (w *world) ctx() context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	w.t.Cleanup(cancel)
	return ctx
}

// log is what a table's folder says, read from the files.
func (w *world) read(table string, v int) string {
	w.t.Helper()
	b, err := os.ReadFile(filepath.Join(w.dir, table, "_delta_log", fmt.Sprintf("%020d.json", v)))
	if err != nil {
		w.t.Fatal(err)
	}
	return string(b)
}
