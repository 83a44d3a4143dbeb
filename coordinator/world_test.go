package coordinator_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
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
	cfg     coordinator.Config // Limits, Slots and what else a test sets
	catalog *coordinator.Catalog

	// store and objects lie under the wrappers: what really is there.
	store       lock.Store
	objects     objstore.Store
	wrapStore   func(lock.Store) lock.Store
	wrapObjects func(objstore.Store) objstore.Store
	seen        objstore.Store // what the catalog sees
}

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
		if w.objects, err = fileobj.New(dir, fileobj.Config{}); err != nil {
			t.Fatal(err)
		}
	} else {
		if w.objects == nil {
			w.objects = memobj.New()
		}
		w.store = memstore.New(memstore.Config{})
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
	store, err := boltstore.Open(filepath.Join(w.dir, "journal.db"), boltstore.Config{})
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
	cfg.Store, w.seen = w.store, w.objects
	if w.wrapStore != nil {
		cfg.Store = w.wrapStore(w.store)
	}
	if w.wrapObjects != nil {
		w.seen = w.wrapObjects(w.objects)
	}
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
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
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

// reason is an error's; the test fails if it has none, or another one than wanted.
func wantReason(t testing.TB, what string, err error, want coordinator.Reason) *coordinator.Error {
	t.Helper()
	var own *coordinator.Error
	if !errors.As(err, &own) {
		t.Fatalf("%s: got %v, want %s", what, err, want)
	}
	if own.Reason != want {
		t.Fatalf("%s: got %v, want %s", what, err, want)
	}
	return own
}

func commitKey(table string, v int) string {
	return fmt.Sprintf("%s/_delta_log/%020d.json", table, v)
}

// object reads what really is there; empty if nothing is.
func (w *world) object(key string) string {
	w.t.Helper()
	b, _, err := w.objects.Get(w.ctx(), key, objstore.Range{})
	if err != nil && !errors.Is(err, objstore.ErrNotFound) {
		w.t.Fatal(err)
	}
	return string(b)
}

// read is a version as it stands in a table's log; empty if there is none.
func (w *world) read(table string, v int) string {
	w.t.Helper()
	return w.object(commitKey(table, v))
}

// versions counts the commits in a table's log.
func (w *world) versions(table string) int {
	n := 0
	for w.read(table, n) != "" {
		n++
	}
	return n
}

// foreign puts a version into a table's log as another engine would.
func (w *world) foreign(table string, v int, actions ...[]byte) {
	w.t.Helper()
	info := []byte(`{"commitInfo":{"timestamp":1700000000000,"operation":"WRITE","operationParameters":{},"engineInfo":"other/1"}}` + "\n")
	if err := w.objects.PutIfAbsent(w.ctx(), commitKey(table, v), lines(append([][]byte{info}, actions...)...)); err != nil {
		w.t.Fatal(err)
	}
}

// keys is everything that is stored, but for the advisory list of open transactions.
func (w *world) keys() map[string]string {
	w.t.Helper()
	out := map[string]string{}
	after := ""
	for {
		items, err := w.store.Scan(w.ctx(), "", after, 0)
		if err != nil {
			w.t.Fatal(err)
		}
		if len(items) == 0 {
			break
		}
		for _, it := range items {
			after = it.Key
			if !strings.HasPrefix(it.Key, "open/") {
				out["store: "+it.Key] = string(it.Value)
			}
		}
	}
	for e, err := range w.objects.List(w.ctx(), objstore.ListOptions{}) {
		if err != nil {
			w.t.Fatal(err)
		}
		if !strings.HasPrefix(e.Key, "journal.db") {
			out["object: "+e.Key] = w.object(e.Key)
		}
	}
	return out
}

// unchanged runs something that must not write.
func (w *world) unchanged(what string, do func()) {
	w.t.Helper()
	w.settle()
	w.unchangedNow(what, do)
}

// unchangedNow does not wait for what is still going on.
func (w *world) unchangedNow(what string, do func()) {
	w.t.Helper()
	before := w.keys()
	do()
	if diff := cmp.Diff(before, w.keys()); diff != "" {
		w.t.Errorf("%s wrote something (-before +after):\n%s", what, diff)
	}
}

// settle waits until manifests are written and the payloads swept of transactions
// that are not open any more.
func (w *world) settle() {
	w.t.Helper()
	state := ""
	defer func() {
		if w.t.Failed() {
			w.t.Log(state)
		}
	}()
	w.eventually("everything is written and swept", func() bool {
		st, err := w.catalog.Status(w.ctx())
		if err != nil {
			w.t.Fatal(err)
		}
		list, err := w.catalog.List(w.ctx(), coordinator.ListRequest{PageSize: 1000})
		if err != nil {
			w.t.Fatal(err)
		}
		staged := 0
		for _, o := range list.Open {
			for _, t := range o.Tables {
				staged += t.Parts
			}
		}
		left := w.payloads()
		state = fmt.Sprintf("manifest %d of %d, rounds %v, %d payloads, %d staged", st.ManifestSnapshot, st.Shown, st.Rounds, left, staged)
		return st.ManifestSnapshot == st.Shown && len(st.Rounds) == 0 && left <= staged
	})
}

// payloads counts what is staged, wherever it lies.
func (w *world) payloads() int {
	w.t.Helper()
	n := 0
	for key := range w.keys() {
		if strings.HasPrefix(key, "store: pay/") || strings.Contains(key, "/staged/") {
			n++
		}
	}
	return n
}

func (w *world) eventually(what string, ok func() bool) {
	w.t.Helper()
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); time.Sleep(2 * time.Millisecond) {
		if ok() {
			return
		}
	}
	w.t.Fatalf("in 20 s it did not come about that %s", what)
}

func (w *world) status() coordinator.Status {
	w.t.Helper()
	st, err := w.catalog.Status(w.ctx())
	if err != nil {
		w.t.Fatal(err)
	}
	return st
}

// snapshot is the versions of a snapshot's tables by name; of the latest for 0.
func (w *world) snapshot(v twophase.SnapshotVersion) map[string]twophase.Version {
	w.t.Helper()
	s, err := w.catalog.Snapshot(w.ctx(), coordinator.SnapshotRef{Version: v}, nil)
	if err != nil {
		w.t.Fatal(err)
	}
	out := map[string]twophase.Version{}
	for _, t := range s.Tables {
		out[t.Name] = t.Version
	}
	return out
}

// tables counts one table's place in an outcome.
func deliveries(o coordinator.Outcome) map[string]twophase.Version {
	out := map[string]twophase.Version{}
	for _, d := range o.Committed.Tables {
		out[d.Name] = d.Version
	}
	return out
}

// setMeta changes the journal's write-once key behind the catalog's back.
func (w *world) setMeta(change func(m *lock.Meta)) {
	w.t.Helper()
	it, err := w.store.Get(w.ctx(), lock.MetaKey)
	if err != nil {
		w.t.Fatal(err)
	}
	var m lock.Meta
	if err := json.Unmarshal(it.Value, &m); err != nil {
		w.t.Fatal(err)
	}
	change(&m)
	b, err := json.Marshal(m)
	if err != nil {
		w.t.Fatal(err)
	}
	if _, err := w.store.Put(w.ctx(), lock.MetaKey, b, lock.Always()); err != nil {
		w.t.Fatal(err)
	}
}

// logged collects what a catalog says.
type logged struct {
	mu    sync.Mutex
	lines []string
}

func (l *logged) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines, string(b))
	return len(b), nil
}

func (l *logged) has(part string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, s := range l.lines {
		if strings.Contains(s, part) {
			return true
		}
	}
	return false
}

func (l *logged) logger() *slog.Logger { return slog.New(slog.NewTextHandler(l, nil)) }

// hookedStore calls a hook before each put.
type hookedStore struct {
	lock.Store
	beforePut func(key string)
}

func (h hookedStore) Put(ctx context.Context, key string, value []byte, c lock.Condition) (lock.Revision, error) {
	h.beforePut(key)
	return h.Store.Put(ctx, key, value, c)
}
