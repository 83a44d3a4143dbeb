package coordinator_test

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/txcoord/txcoord/coordinator"
	"github.com/txcoord/txcoord/lock"
	"github.com/txcoord/txcoord/lock/boltstore"
	"github.com/txcoord/txcoord/lock/memstore"
	"github.com/txcoord/txcoord/tables"
	"github.com/txcoord/txcoord/tables/checkpoint"
	"github.com/txcoord/txcoord/tables/objstore"
	"github.com/txcoord/txcoord/tables/objstore/fileobj"
	"github.com/txcoord/txcoord/tables/objstore/memobj"
	"github.com/txcoord/txcoord/twophase"
)

// Whatever a catalog starts has to be gone when it is closed.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const schema = `{"type":"struct","fields":[{"name":"id","type":"long","nullable":true,"metadata":{}}]}`

// world is a catalog, its store, and the tables around it. The zero value with open
// has everything in memory.
type world struct {
	t       testing.TB
	dir     string
	files   bool
	journal string             // with files, the folder of the journal; dir without it
	cfg     coordinator.Config // Limits, Slots and what else a test sets
	catalog *coordinator.Catalog

	// store and objects lie under the wrappers: what really is there.
	store       lock.Store
	shared      lock.Store // another world's
	objects     objstore.Store
	wrapStore   func(lock.Store) lock.Store
	wrapObjects func(objstore.Store) objstore.Store
	objectsAs   func(coordinator.Objects) coordinator.Objects
	seen        objstore.Store // what the catalog sees
}

// filesAsServed is how the server opens its folders.
var filesAsServed = fileobj.Config{NoLinks: []string{"_delta_log", "_txcoord"}, Makes: tables.MakesFolder, Later: true}

// newWorld is a catalog over real files in a temporary folder.
func newWorld(t testing.TB) *world { return (&world{files: true}).open(t) }

// open starts the world's catalog and ends it with the test.
func (w *world) open(t testing.TB) *world {
	t.Helper()
	w.t, w.dir = t, "/w"
	if w.files {
		dir, err := filepath.EvalSymlinks(t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		w.dir = dir
		if w.objects, err = fileobj.New(dir, filesAsServed); err != nil {
			t.Fatal(err)
		}
	} else {
		if w.objects == nil {
			w.objects = memobj.New()
		}
		if w.store = w.shared; w.store == nil {
			w.store = memstore.New(memstore.Config{})
		}
	}
	w.openStore()
	w.start()
	t.Cleanup(func() { w.close() })
	return w
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
	return w.seen, filepath.ToSlash(rel), nil
}

func (w *world) openStore() {
	if !w.files {
		return
	}
	store, err := boltstore.Open(filepath.Join(cmp.Or(w.journal, w.dir), "journal.db"), boltstore.Config{})
	if err != nil {
		w.t.Fatal(err)
	}
	w.store = store
}

func (w *world) start() {
	w.t.Helper()
	if err := w.tryStart(); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) tryStart() error {
	cfg := w.cfg
	cfg.Warehouse, cfg.Objects, cfg.ReadCheckpoint = "file://"+w.dir, w, checkpoint.Read
	if w.objectsAs != nil {
		cfg.Objects = w.objectsAs(w)
	}
	cfg.Store, w.seen = w.store, w.objects
	if w.wrapStore != nil {
		cfg.Store = w.wrapStore(w.store)
	}
	if w.wrapObjects != nil {
		w.seen = w.wrapObjects(w.objects)
	}
	cfg.Store, w.seen = holdUp(cfg.Store, w.seen)
	if cfg.Log == nil && testing.Verbose() {
		cfg.Log = slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelInfo}))
	}
	if cfg.Limits.PollInterval == 0 {
		cfg.Limits.PollInterval = time.Hour // tests that want it say so
	}
	c, err := coordinator.Open(context.Background(), cfg)
	w.catalog = c
	return err
}

// stop ends the catalog; its store stays open.
func (w *world) stop() {
	if w.catalog == nil {
		return
	}
	if err := w.catalog.Close(context.Background()); err != nil {
		w.t.Error(err)
	}
	w.catalog = nil
}

func (w *world) close() {
	w.stop()
	if !w.files {
		return
	}
	if err := w.store.Close(); err != nil {
		w.t.Error(err)
	}
}

// restart closes the catalog and its store, and opens them again.
func (w *world) restart() {
	w.t.Helper()
	w.close()
	w.openStore()
	w.start()
}

func (w *world) ctx() context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), patient)
	w.t.Cleanup(cancel)
	return ctx
}

func (w *world) uri(name string) string { return "file://" + w.dir + "/" + name }

func (w *world) create(name string, mode twophase.Mode) coordinator.TableInfo {
	w.t.Helper()
	return w.createWith(coordinator.CreateRequest{Name: name, Schema: schema, Mode: mode})
}

func (w *world) createWith(r coordinator.CreateRequest) coordinator.TableInfo {
	w.t.Helper()
	if r.URI == "" {
		r.URI = w.uri(r.Name)
	}
	info, _, err := w.catalog.Create(w.ctx(), r)
	if err != nil {
		w.t.Fatal(err)
	}
	return info
}

func (w *world) info(name string) coordinator.TableInfo {
	w.t.Helper()
	all, err := w.catalog.Tables(w.ctx())
	if err != nil {
		w.t.Fatal(err)
	}
	for _, i := range all {
		if i.Name == name {
			return i
		}
	}
	w.t.Fatalf("there is no table %s", name)
	return coordinator.TableInfo{}
}

func add(path string) []byte {
	return fmt.Appendf(nil, `{"add":{"path":%q,"partitionValues":{},"size":1,"modificationTime":1,"dataChange":true,"stats":"{\"numRecords\":1}"}}`+"\n", path)
}

func remove(path string) []byte {
	return fmt.Appendf(nil, `{"remove":{"path":%q,"deletionTimestamp":1,"dataChange":true,"extendedFileMetadata":true,"partitionValues":{},"size":1}}`+"\n", path)
}

func txnAction(app string, version int64) []byte {
	return fmt.Appendf(nil, `{"txn":{"appId":%q,"version":%d}}`+"\n", app, version)
}

func lines(all ...[]byte) []byte {
	var out []byte
	for _, b := range all {
		out = append(out, b...)
	}
	return out
}

// tag is the error of a call that answers warnings as well.
func (w *world) tag(_ []string, err error) error { return err }

// resolve is the operator's word on a frozen table.
func (w *world) resolve(table string) error {
	_, err := w.catalog.Resolve(w.ctx(), coordinator.ResolveRequest{Table: table})
	return err
}

// Read declarations.
var blindRead = tables.ReadDeclaration{Blind: true}

func readAt(v twophase.Version) tables.ReadDeclaration { return tables.ReadDeclaration{Version: &v} }

func readWhole(v twophase.Version) tables.ReadDeclaration {
	return tables.ReadDeclaration{Version: &v, Kind: tables.ReadWholeTable}
}

func blind(table, path string) coordinator.OnceTable {
	return coordinator.OnceTable{Table: table, Read: blindRead, Actions: add(path)}
}

func change(table string, read tables.ReadDeclaration, actions ...[]byte) coordinator.OnceTable {
	return coordinator.OnceTable{Table: table, Read: read, Actions: lines(actions...)}
}

func once(key string, parts ...coordinator.OnceTable) coordinator.OnceRequest {
	return coordinator.OnceRequest{Key: key, Tables: parts}
}

// try commits in one call.
func (w *world) try(key string, parts ...coordinator.OnceTable) (coordinator.Outcome, error) {
	o, _, err := w.catalog.CommitOnce(w.ctx(), once(key, parts...))
	return o, err
}

// commit commits in one call, and has to succeed.
func (w *world) commit(key string, parts ...coordinator.OnceTable) coordinator.Outcome {
	w.t.Helper()
	o, err := w.try(key, parts...)
	if err != nil {
		w.t.Fatalf("commit %s: %v", key, err)
	}
	return o
}

func (w *world) begin(key string) coordinator.Begun {
	w.t.Helper()
	b, err := w.catalog.Begin(w.ctx(), coordinator.BeginRequest{Key: key})
	if err != nil {
		w.t.Fatal(err)
	}
	return b
}

func (w *world) stage(token string, part coordinator.OnceTable) coordinator.Staged {
	w.t.Helper()
	st, err := w.catalog.Stage(w.ctx(), coordinator.StageRequest{Token: token, Table: part.Table, Read: part.Read, Actions: part.Actions})
	if err != nil {
		w.t.Fatal(err)
	}
	return st
}

func parts(table string, digests ...twophase.Digest) coordinator.TableParts {
	return coordinator.TableParts{Table: table, Digests: digests}
}

// hookedStore calls a hook before each put.
type hookedStore struct {
	lock.Store
	beforePut func(key string)
}

func (h hookedStore) Put(ctx context.Context, key string, value []byte, c lock.Condition) (lock.Revision, error) {
	h.beforePut(key)
	return h.Store.Put(ctx, key, value, c)
}

// hookedBatches does so for a store that writes payloads and entry together: the hook sees
// the entry.
type hookedBatches struct {
	lock.Store
	beforePut func(key string)
}

func (h hookedBatches) Put(ctx context.Context, key string, value []byte, c lock.Condition) (lock.Revision, error) {
	h.beforePut(key)
	return h.Store.Put(ctx, key, value, c)
}

func (h hookedBatches) PutBatch(ctx context.Context, key string, value []byte, c lock.Condition, with []lock.Write) (lock.Revision, error) {
	h.beforePut(key)
	return h.Store.(lock.Batcher).PutBatch(ctx, key, value, c, with)
}
