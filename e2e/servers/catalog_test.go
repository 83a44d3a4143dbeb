//go:build unix

package servers_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/txcoord/txcoord/coordinator"
	"github.com/txcoord/txcoord/e2e/checker"
	"github.com/txcoord/txcoord/e2e/servers"
	"github.com/txcoord/txcoord/lock"
	"github.com/txcoord/txcoord/lock/dynamostore"
	"github.com/txcoord/txcoord/lock/etcdstore"
	"github.com/txcoord/txcoord/tables"
	"github.com/txcoord/txcoord/tables/checkpoint"
	"github.com/txcoord/txcoord/tables/objstore"
	"github.com/txcoord/txcoord/tables/objstore/fileobj"
	"github.com/txcoord/txcoord/twophase"
)

const (
	writers   = 8
	perWriter = 40
	// ringSlots are few, so that the ring goes round several times.
	ringSlots = 128
)

var tableNames = []string{"orders", "stock", "ledger"}

const schema = `{"type":"struct","fields":[{"name":"id","type":"long","nullable":true,"metadata":{}}]}`

// world is a catalog over a real store and files, which can be restarted while it
// is used.
type world struct {
	t       *testing.T
	dir     string
	objects objstore.Store
	open    func(ctx context.Context) (lock.Store, error)

	store   lock.Store
	catalog atomic.Pointer[coordinator.Catalog]

	mu        sync.Mutex
	committed []checker.Transaction
}

func newWorld(t *testing.T, open func(ctx context.Context) (lock.Store, error)) *world {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	objects, err := fileobj.New(dir, fileobj.Config{})
	if err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, dir: dir, objects: objects, open: open}
	w.start()
	t.Cleanup(w.stop)
	for _, name := range tableNames {
		_, _, err := w.catalog.Load().Create(t.Context(), coordinator.CreateRequest{Name: name, URI: "file://" + dir + "/" + name, Schema: schema, Mode: twophase.ModeOpen})
		if err != nil {
			t.Fatal(err)
		}
	}
	return w
}

// Open implements coordinator.Objects for everything under the world's folder.
func (w *world) Open(uri string) (objstore.Store, string, error) {
	rel, err := filepath.Rel(w.dir, strings.TrimPrefix(uri, "file://"))
	if err != nil || strings.HasPrefix(rel, "..") {
		return nil, "", fmt.Errorf("%s lies outside %s", uri, w.dir)
	}
	if rel == "." {
		rel = ""
	}
	return w.objects, filepath.ToSlash(rel), nil
}

func (w *world) start() {
	w.t.Helper()
	store, err := w.open(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	c, err := coordinator.Open(w.t.Context(), coordinator.Config{
		Name: "default", Warehouse: "file://" + w.dir, Store: store, Objects: w, ReadCheckpoint: checkpoint.Read, Slots: ringSlots,
		Log: slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError})),
	})
	if err != nil {
		w.t.Fatal(errors.Join(err, store.Close()))
	}
	w.store = store
	w.catalog.Store(c)
}

// stop ends the catalog in the midst of what it does.
func (w *world) stop() {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	if err := errors.Join(w.catalog.Load().Close(ctx), w.store.Close()); err != nil {
		w.t.Error(err)
	}
}

// commit makes one transaction, and repeats it by its key until it has an answer.
func (w *world) commit(ctx context.Context, writer, n int) error {
	path := fmt.Sprintf("%d-%d.parquet", writer, n)
	req := coordinator.OnceRequest{Key: fmt.Sprintf("w%d-%d", writer, n)}
	into := tableNames[:2+(writer+n)%2]
	for _, name := range into {
		req.Tables = append(req.Tables, coordinator.OnceTable{Table: name, Read: tables.ReadDeclaration{Blind: true}, Actions: fmt.Appendf(nil,
			`{"add":{"path":%q,"partitionValues":{},"size":1,"modificationTime":1,"dataChange":true,"stats":"{\"numRecords\":1}"}}`+"\n", path)})
	}
	for {
		o, _, err := w.catalog.Load().CommitOnce(ctx, req)
		if err == nil && o.Committed != nil && len(o.Committed.Tables) == len(into) && o.Committed.Snapshot > 0 {
			w.note(o, path)
			return nil
		}
		var refused *coordinator.Error
		if errors.As(err, &refused) && refused.Reason == coordinator.Conflicted {
			return fmt.Errorf("%s: %w", req.Key, err)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s: %w: %w", req.Key, err, ctx.Err())
		case <-time.After(10 * time.Millisecond):
		}
	}
}

func (w *world) note(o coordinator.Outcome, path string) {
	x := checker.Transaction{ID: o.Txn.String(), Snapshot: uint64(o.Committed.Snapshot)}
	for _, d := range o.Committed.Tables {
		x.Parts = append(x.Parts, checker.Part{Table: d.Name, Adds: []string{path}, Version: int64(d.Version)})
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.committed = append(w.committed, x)
}

func (w *world) done() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.committed)
}

// run commits all transactions; disturb is called at a third and at two thirds.
func (w *world) run(disturb func(time int)) {
	ctx, cancel := context.WithTimeout(w.t.Context(), 2*time.Minute)
	defer cancel()
	began := time.Now()
	var all sync.WaitGroup
	for writer := range writers {
		all.Go(func() {
			for n := range perWriter {
				if err := w.commit(ctx, writer, n); err != nil {
					w.t.Error(err)
					return
				}
			}
		})
	}
	for i := range 2 {
		for w.done() < (i+1)*writers*perWriter/3 && ctx.Err() == nil {
			time.Sleep(time.Millisecond)
		}
		disturb(i)
	}
	all.Wait()
	w.t.Logf("%d transactions, with two disturbances: %v", w.done(), time.Since(began).Round(time.Millisecond))
}

// check waits until all is published and in manifests, and has the checker judge.
func (w *world) check() {
	w.t.Helper()
	for range 1000 {
		st, err := w.catalog.Load().Status(w.t.Context())
		if err != nil {
			w.t.Fatal(err)
		}
		if len(st.Rounds) == 0 && st.ManifestSnapshot >= st.Shown {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	run := checker.Run{Warehouse: w.dir, Catalog: "default", Committed: w.committed, Closed: true, Dense: true, Settled: true}
	for _, name := range tableNames {
		run.Tables = append(run.Tables, checker.Table{Name: name, Path: filepath.Join(w.dir, name)})
	}
	report, err := checker.Check(run)
	if err != nil {
		w.t.Fatal(err)
	}
	if err := report.Err(); err != nil {
		w.t.Error(err)
	}
	w.prove()
	if len(w.committed) != writers*perWriter {
		w.t.Errorf("%d transactions, want %d", len(w.committed), writers*perWriter)
	}
}

// prove has fsck look at the catalog while it is served.
func (w *world) prove() {
	w.t.Helper()
	r, err := coordinator.Fsck(w.t.Context(), coordinator.Config{
		Name: "default", Warehouse: "file://" + w.dir, Store: w.store, Objects: w, ReadCheckpoint: checkpoint.Read, SharedStore: true,
	}, "")
	if err != nil {
		w.t.Fatal(err)
	}
	if !r.Proven() || r.Transactions == 0 {
		w.t.Errorf("fsck: %+v", r)
	}
}

// A catalog in etcd: it is restarted, and the leader of the cluster killed, while
// clients commit.
func TestCatalogInEtcd(t *testing.T) {
	t.Parallel()
	e := servers.StartEtcd(t, servers.EtcdConfig{Members: 3})
	w := newWorld(t, func(ctx context.Context) (lock.Store, error) {
		return etcdstore.Open(ctx, etcdstore.Config{Endpoints: e.Endpoints(), Prefix: "catalog/"})
	})
	w.run(func(i int) {
		if i == 0 {
			w.stop()
			w.start()
			return
		}
		leader, err := e.Leader(t.Context())
		if err != nil {
			t.Error(err)
			return
		}
		leader.Kill()
		if err := leader.Start(t.Context()); err != nil {
			t.Error(err)
		}
	})
	w.check()
}

// A catalog in DynamoDB: it is restarted, and for a while every third request meets
// some fault, while clients commit.
func TestCatalogInDynamoDB(t *testing.T) {
	t.Parallel()
	s := servers.StartKumo(t)
	proxy := servers.NewHTTPFaults(t, s.Endpoint)
	cfg := dynamostore.Config{Table: "t" + rand.Text(), Region: s.Region, Endpoint: proxy.URL, AccessKey: s.AccessKey, SecretKey: s.SecretKey, RequestTimeout: time.Second}
	if _, err := dynamostore.Init(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	w := newWorld(t, func(ctx context.Context) (lock.Store, error) { return dynamostore.Open(ctx, cfg) })
	w.run(func(i int) {
		if i == 0 {
			w.stop()
			w.start()
			return
		}
		proxy.Decide(faults())
		time.Sleep(2 * time.Second)
		proxy.Decide(func(servers.Request) servers.Fate { return servers.Fate{} })
	})
	w.check()
}

// faults takes turns with all that a network and a busy server do.
func faults() func(servers.Request) servers.Fate {
	fates := []servers.Fate{
		{Lost: true},
		{After: servers.DynamoError(500, "InternalServerError", "")},
		{Instead: servers.DynamoError(500, "InternalServerError", "")},
		{Instead: servers.DynamoError(400, "ThrottlingException", "")},
		{Instead: servers.DynamoError(400, "TransactionConflictException", "")},
		{Delay: 50 * time.Millisecond},
		{Delay: 1500 * time.Millisecond},
		{Twice: true},
	}
	var n atomic.Int64
	return func(servers.Request) servers.Fate {
		i := n.Add(1)
		if i%3 != 0 {
			return servers.Fate{}
		}
		return fates[int(i/3)%len(fates)]
	}
}
