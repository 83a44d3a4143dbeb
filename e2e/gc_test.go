package e2e_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/txcoord/txcoord/coordinator"
	"github.com/txcoord/txcoord/e2e/servers"
	"github.com/txcoord/txcoord/lock"
	"github.com/txcoord/txcoord/lock/dynamostore"
	"github.com/txcoord/txcoord/tables"
	"github.com/txcoord/txcoord/tables/checkpoint"
	"github.com/txcoord/txcoord/tables/objstore"
	"github.com/txcoord/txcoord/twophase"
)

// TestGarbageOnStores: gc on every store that servers share, with the warehouse in a
// bucket: what came late goes and comes back, and all else is the same.
func TestGarbageOnStores(t *testing.T) {
	t.Parallel()
	bucket := servers.StartVersity(t)
	for name, open := range map[string]func(t *testing.T) *sharedStore{
		"etcd": func(t *testing.T) *sharedStore {
			return &sharedStore{Endpoints: servers.StartEtcd(t, servers.EtcdConfig{Members: 1}).Endpoints()}
		},
		"dynamodb": func(t *testing.T) *sharedStore {
			server := servers.StartKumo(t)
			s := &sharedStore{Table: "t" + rand.Text(), Region: server.Region, Endpoint: server.Endpoint, Access: server.AccessKey, Secret: server.SecretKey}
			if _, err := dynamostore.Init(t.Context(), s.dynamo()); err != nil {
				t.Fatal(err)
			}
			return s
		},
		"bucket": func(t *testing.T) *sharedStore {
			return &sharedStore{Bucket: bucket.Bucket(t), Region: bucket.Region, Endpoint: bucket.Endpoint, Access: bucket.AccessKey, Secret: bucket.SecretKey}
		},
	} {
		t.Run(name, func(t *testing.T) {
			shared := open(t)
			shared.Timeout = time.Minute // nothing loses requests here
			w := newGarbageWorld(t, shared, serverConfig{s3: bucket})
			w.run()
		})
	}
}

// garbageWorld is a catalog in this process, with a clock that can be set ahead. While it
// is, nothing is appended (R16).
type garbageWorld struct {
	t       *testing.T
	later   atomic.Int64
	store   lock.Store
	objects objstore.Store
	catalog *coordinator.Catalog
}

func newGarbageWorld(t *testing.T, shared *sharedStore, c serverConfig) *garbageWorld {
	t.Helper()
	c.Dir, c.Bucket = bucketDir(t, c.s3)
	root := c.Dir + "/" + warehouseDir
	objects, err := openObjects(t.Context(), c, root)
	if err != nil {
		t.Fatal(err)
	}
	store, err := shared.open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	w := &garbageWorld{t: t, store: store, objects: objects}
	w.catalog, err = coordinator.Open(t.Context(), coordinator.Config{
		Name: "default", Warehouse: root, Store: store, Objects: folder{root, objects}, ReadCheckpoint: checkpoint.Read, SharedStore: true,
		Slots: 64, Now: func() time.Time { return time.Now().Add(time.Duration(w.later.Load())) },
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := w.catalog.Close(ctx); err != nil {
			t.Error(err)
		}
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	if _, _, err := w.catalog.Create(t.Context(), coordinator.CreateRequest{Name: "a", URI: root + "/a", Schema: schema, Mode: twophase.ModeExclusive}); err != nil {
		t.Fatal(err)
	}
	return w
}

func (w *garbageWorld) run() {
	w.t.Helper()
	live := w.stage("lives", false)
	late := w.stage("aborted", true)
	for key, value := range late {
		w.put(key, value)
	}
	w.later.Store(int64(30 * time.Hour))
	r, err := w.catalog.CollectGarbage(w.t.Context(), coordinator.GarbageRequest{Remove: true})
	if err != nil || len(r.Found) != len(late) || len(late) != 2 {
		w.t.Fatalf("%+v, %v, late are %d", r, err, len(late))
	}
	w.wantThere(live, true)
	w.wantThere(late, false)
	back, err := w.catalog.RestoreGarbage(w.t.Context(), coordinator.RestoreRequest{Run: r.Run})
	if err != nil || back.Count != len(late) {
		w.t.Fatalf("%+v, %v", back, err)
	}
	w.wantThere(live, true)
	w.wantThere(late, true)
}

// stage stages a small part and a large one, and aborts them if it shall. It returns where
// they lay, and with what.
func (w *garbageWorld) stage(key string, abort bool) map[string][]byte {
	w.t.Helper()
	b, err := w.catalog.Begin(w.t.Context(), coordinator.BeginRequest{Key: key})
	if err != nil {
		w.t.Fatal(err)
	}
	out := map[string][]byte{}
	for _, path := range []string{key, key + strings.Repeat("x", 40<<10)} {
		st, err := w.catalog.Stage(w.t.Context(), coordinator.StageRequest{
			Token: b.Token, Table: "a", Read: tables.ReadDeclaration{Blind: true},
			Actions: fmt.Appendf(nil, `{"add":{"path":%q,"partitionValues":{},"size":1,"modificationTime":1,"dataChange":true}}`+"\n", path),
		})
		if err != nil {
			w.t.Fatal(err)
		}
		tail := fmt.Sprintf("%020d/%s/%s/%s", b.Position, b.Txn, st.Table, st.Digest)
		for _, at := range []string{fmt.Sprintf("pay/%02d/", st.Digest[0]%64) + tail, "_txcoord/default/staged/" + tail} {
			if value, ok := w.get(at); ok {
				out[at] = value
			}
		}
	}
	if abort {
		if _, err := w.catalog.Abort(w.t.Context(), coordinator.OutcomeRef{Token: b.Token}, ""); err != nil {
			w.t.Fatal(err)
		}
		for end := time.Now().Add(3 * time.Minute); time.Now().Before(end) && w.any(out); time.Sleep(5 * time.Millisecond) {
		}
		w.wantThere(out, false)
	}
	return out
}

func (w *garbageWorld) any(of map[string][]byte) bool {
	for key := range of {
		if _, ok := w.get(key); ok {
			return true
		}
	}
	return false
}

// get reads a key of the store, or an object.
func (w *garbageWorld) get(key string) ([]byte, bool) {
	w.t.Helper()
	var value []byte
	var err error
	if strings.HasPrefix(key, "_txcoord/") {
		value, _, err = w.objects.Get(w.t.Context(), key, objstore.Range{})
	} else {
		var item lock.Item
		item, err = w.store.Get(w.t.Context(), key)
		value = item.Value
	}
	switch {
	case err == nil:
		return value, true
	case errors.Is(err, objstore.ErrNotFound), errors.Is(err, lock.ErrNotFound):
		return nil, false
	}
	w.t.Fatal(err)
	return nil, false
}

func (w *garbageWorld) put(key string, value []byte) {
	w.t.Helper()
	var err error
	if strings.HasPrefix(key, "_txcoord/") {
		err = w.objects.PutIfAbsent(w.t.Context(), key, value)
	} else {
		_, err = w.store.Put(w.t.Context(), key, value, lock.IfAbsent())
	}
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *garbageWorld) wantThere(all map[string][]byte, there bool) {
	w.t.Helper()
	for key, want := range all {
		got, ok := w.get(key)
		if ok != there {
			w.t.Errorf("%s is there: %t", key, ok)
		}
		if ok && !bytes.Equal(want, got) {
			w.t.Errorf("%s: %s", key, cmp.Diff(want, got))
		}
	}
}
