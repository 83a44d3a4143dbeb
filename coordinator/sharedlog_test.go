package coordinator_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/txcoord/txcoord/coordinator"
	"github.com/txcoord/txcoord/tables/logstore"
	"github.com/txcoord/txcoord/tables/logstore/sparktest"
	"github.com/txcoord/txcoord/tables/objstore"
	"github.com/txcoord/txcoord/tables/objstore/objtest"
	"github.com/txcoord/txcoord/twophase"
)

// logEntries is a table of entries in memory. hook is called around each write.
type logEntries struct {
	mu   sync.Mutex
	all  map[string]logstore.Entry
	hook func(ctx context.Context, op string, after bool) error
}

func newLogEntries() *logEntries { return &logEntries{all: map[string]logstore.Entry{}} }

func (l *logEntries) Get(_ context.Context, path, name string) (logstore.Entry, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	e, ok := l.all[path+" "+name]
	if !ok {
		return e, logstore.ErrNoEntry
	}
	return e, nil
}

func (l *logEntries) Newest(_ context.Context, path string) (logstore.Entry, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, key := range slices.Backward(slices.Sorted(maps.Keys(l.all))) {
		if strings.HasPrefix(key, path+" ") {
			return l.all[key], nil
		}
	}
	return logstore.Entry{}, logstore.ErrNoEntry
}

// write carries a write out, with the hook before and after it.
func (l *logEntries) write(ctx context.Context, op string, do func() error) error {
	if l.hook == nil {
		return do()
	}
	if err := l.hook(ctx, op, false); err != nil {
		return err
	}
	err := do()
	if failed := l.hook(ctx, op, true); failed != nil {
		return errors.Join(logstore.ErrUnknown, failed)
	}
	return err
}

func (l *logEntries) Claim(ctx context.Context, e logstore.Entry) (held logstore.Entry, err error) {
	err = l.write(ctx, "claim", func() error {
		l.mu.Lock()
		defer l.mu.Unlock()
		if was, ok := l.all[e.TablePath+" "+e.FileName]; ok {
			held = was
			return logstore.ErrClaimed
		}
		l.all[e.TablePath+" "+e.FileName] = e
		return nil
	})
	return held, err
}

func (l *logEntries) Complete(ctx context.Context, e logstore.Entry, expires int64) error {
	return l.write(ctx, "complete", func() error {
		l.mu.Lock()
		defer l.mu.Unlock()
		was, ok := l.all[e.TablePath+" "+e.FileName]
		if ok && !was.Complete && was.TempPath == e.TempPath {
			was.Complete, was.Expires = true, expires
			l.all[e.TablePath+" "+e.FileName] = was
		}
		return nil
	})
}

// forSpark are the entries as the model of Spark asks for them; it never meets the hook.
type forSpark struct{ l *logEntries }

func (s forSpark) answer(e logstore.Entry, err error) (sparktest.Entry, error) {
	if err != nil {
		return sparktest.Entry{}, sparktest.ErrNoEntry
	}
	return sparktest.Entry{TablePath: e.TablePath, FileName: e.FileName, TempPath: e.TempPath, Complete: e.Complete, ExpireTime: e.Expires}, nil
}

func (s forSpark) Get(ctx context.Context, path, name string) (sparktest.Entry, error) {
	return s.answer(s.l.Get(ctx, path, name))
}

func (s forSpark) Newest(ctx context.Context, path string) (sparktest.Entry, error) {
	return s.answer(s.l.Newest(ctx, path))
}

func (s forSpark) PutNew(ctx context.Context, e sparktest.Entry) error {
	if _, err := s.l.Get(ctx, e.TablePath, e.FileName); err == nil {
		return sparktest.ErrFailed
	}
	s.l.mu.Lock()
	defer s.l.mu.Unlock()
	key := e.TablePath + " " + e.FileName
	if _, ok := s.l.all[key]; ok {
		return sparktest.ErrFailed
	}
	s.l.all[key] = logstore.Entry{TablePath: e.TablePath, FileName: e.FileName, TempPath: e.TempPath}
	return nil
}

func (s forSpark) Put(_ context.Context, e sparktest.Entry) error {
	s.l.mu.Lock()
	defer s.l.mu.Unlock()
	s.l.all[e.TablePath+" "+e.FileName] = logstore.Entry{TablePath: e.TablePath, FileName: e.FileName, TempPath: e.TempPath, Complete: e.Complete, Expires: e.ExpireTime}
	return nil
}

// logStoreWorld is a world with a log store over the entries.
func logStoreWorld(t testing.TB, l *logEntries) *world {
	t.Helper()
	store, err := logstore.New(logstore.Config{Entries: l})
	if err != nil {
		t.Fatal(err)
	}
	w := &world{}
	w.cfg.LogStore = store
	return w
}

func (w *world) spark(l *logEntries, table string, s objstore.Store) *sparktest.Driver {
	return &sparktest.Driver{Objects: s, Entries: forSpark{l}, Root: table, TablePath: "file:" + w.dir + "/" + table}
}

// sparkCommits is Spark's commit loop, for a commit that adds a file.
func (w *world) sparkCommits(s *sparktest.Driver, path string) int64 {
	w.t.Helper()
	for {
		versions, err := s.List(w.ctx())
		if err != nil {
			w.t.Fatal(err)
		}
		v := versions[len(versions)-1] + 1
		err = s.Write(w.ctx(), v, path, sparkCommit(path))
		if err == nil {
			return v
		}
		if !errors.Is(err, sparktest.ErrExists) {
			w.t.Fatal(err)
		}
	}
}

func sparkCommit(path string) []byte {
	info := []byte(`{"commitInfo":{"timestamp":1700000000000,"operation":"WRITE","operationParameters":{},"engineInfo":"Apache-Spark/4.0.1 Delta-Lake/4.0.0"}}` + "\n")
	return lines(info, add(path))
}

// A table of this mode is written as Spark would write it, from version 0 on.
func TestDeltaStorage(t *testing.T) {
	t.Parallel()
	l := newLogEntries()
	w := logStoreWorld(t, l).open(t)
	if info := w.create("t", twophase.ModeDeltaStorage); info.Mode != twophase.ModeDeltaStorage {
		t.Errorf("%+v", info)
	}
	w.commit("one", blind("t", "a"))
	s := w.spark(l, "t", w.objects)
	if v := w.sparkCommits(s, "b"); v != 2 {
		t.Errorf("Spark writes version %d", v)
	}
	w.commit("two", blind("t", "c"))
	if got := w.versions("t"); got != 4 {
		t.Errorf("%d versions", got)
	}
	for v := range int64(4) {
		e, err := l.Get(w.ctx(), "file:/w/t", fmt.Sprintf("%020d.json", v))
		if err != nil || !e.Complete || e.Expires < time.Now().Add(23*time.Hour).Unix() {
			t.Errorf("entry of version %d: %+v, %v", v, e, err)
		}
		if got := w.object("t/_delta_log/" + e.TempPath); got != w.read("t", int(v)) {
			t.Errorf("version %d and its temporary file differ", v)
		}
	}
	// What Spark claims and does not put is seen before the next decision.
	left := logstore.Entry{TablePath: "file:/w/t", FileName: fmt.Sprintf("%020d.json", 4), TempPath: ".tmp/left"}
	if err := w.objects.Put(w.ctx(), "t/_delta_log/.tmp/left", lines(sparkCommit("d"), remove("a"))); err != nil {
		t.Fatal(err)
	}
	l.all[left.TablePath+" "+left.FileName] = left
	_, err := w.try("removes it too", change("t", readAt(3), remove("a")))
	if c := wantReason(t, "a removal of what is gone", err, coordinator.Conflicted).Conflict; c.Version != 4 {
		t.Errorf("%+v", c)
	}
	if e, _ := l.Newest(w.ctx(), "file:/w/t"); !e.Complete || w.versions("t") != 5 {
		t.Errorf("%+v, %d versions", e, w.versions("t"))
	}
	w.check(closedRun{})
}

// The mode is refused where it would protect nobody, with the remedy.
func TestDeltaStorageIsRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	_, _, err := w.catalog.Create(w.ctx(), coordinator.CreateRequest{Name: "t", URI: w.uri("t"), Schema: schema, Mode: twophase.ModeDeltaStorage})
	if f := wantReason(t, "no log store", err, coordinator.InvalidRequest).Field; f.Field != "mode" || !strings.Contains(f.Remedy, "--log-store") {
		t.Errorf("%+v", f)
	}
	l := newLogEntries()
	s := logStoreWorld(t, l).open(t)
	_, _, err = s.catalog.Create(s.ctx(), coordinator.CreateRequest{Name: "t", URI: s.uri("a b"), Schema: schema, Mode: twophase.ModeDeltaStorage})
	if f := wantReason(t, "a space", err, coordinator.InvalidRequest).Field; f.Field != "uri" {
		t.Errorf("%+v", f)
	}
	s.create("t", twophase.ModeOpen)
	alias := logstore.Entry{TablePath: "file:/w/t/", FileName: fmt.Sprintf("%020d.json", 0), Complete: true}
	l.all[alias.TablePath+" "+alias.FileName] = alias
	_, err = s.catalog.SetMode(s.ctx(), "t", twophase.ModeDeltaStorage)
	if f := wantReason(t, "entries under another key", err, coordinator.InvalidRequest).Field; f.Field != "uri" || !strings.Contains(f.Remedy, "one scheme") {
		t.Errorf("%+v", f)
	}
	clear(l.all)
	if info, err := s.catalog.SetMode(s.ctx(), "t", twophase.ModeDeltaStorage); err != nil || info.Mode != twophase.ModeDeltaStorage {
		t.Fatalf("%+v, %v", info, err)
	}
	s.commit("k", blind("t", "a"))
	if e, err := l.Newest(s.ctx(), "file:/w/t"); err != nil || !e.Complete {
		t.Errorf("%+v, %v", e, err)
	}
	// A server without the log store does not start on such a catalog.
	s.stop()
	s.cfg.LogStore = nil
	wantReason(t, "started without the log store", s.tryStart(), coordinator.WrongMode)
}

// Entries of a table that was dropped stop the new one, and say so.
func TestDeltaStorageOldEntries(t *testing.T) {
	t.Parallel()
	l := newLogEntries()
	w := logStoreWorld(t, l).open(t)
	old := logstore.Entry{TablePath: "file:/w/t", FileName: fmt.Sprintf("%020d.json", 0), TempPath: ".tmp/x", Complete: true}
	l.all[old.TablePath+" "+old.FileName] = old
	_, _, err := w.catalog.Create(w.ctx(), coordinator.CreateRequest{Name: "t", URI: w.uri("t"), Schema: schema, Mode: twophase.ModeDeltaStorage})
	if f := wantReason(t, "old entries", err, coordinator.InvalidRequest).Field; f.Field != "uri" || !strings.Contains(f.Remedy, "remove the entries of file:/w/t") {
		t.Errorf("%+v", f)
	}
}

// dying ends the process at one of its writes: it never returns from it.
type dying struct {
	left  atomic.Int64
	after bool
	dead  atomic.Bool
	died  chan struct{}
}

func (d *dying) meet(ctx context.Context, after bool) error {
	if !d.dead.Load() {
		if after != d.after || d.left.Add(-1) != 0 {
			return nil
		}
		d.dead.Store(true)
		close(d.died)
	}
	<-ctx.Done()
	return ctx.Err()
}

func (d *dying) over(s objstore.Store) objstore.Store { return dyingObjects{s, d} }

// dyingObjects is a store whose user dies at a write into a table's log.
type dyingObjects struct {
	objstore.Store
	d *dying
}

func (o dyingObjects) PutIfAbsent(ctx context.Context, key string, data []byte) error {
	return o.around(ctx, key, func() error { return o.Store.PutIfAbsent(ctx, key, data) })
}

func (o dyingObjects) Put(ctx context.Context, key string, data []byte) error {
	return o.around(ctx, key, func() error { return o.Store.Put(ctx, key, data) })
}

func (o dyingObjects) around(ctx context.Context, key string, do func() error) error {
	if !strings.Contains(key, "/_delta_log/") || strings.Contains(key, "_txcoord") {
		return do()
	}
	if err := o.d.meet(ctx, false); err != nil {
		return err
	}
	err := do()
	if failed := o.d.meet(ctx, true); failed != nil {
		return errors.Join(objstore.ErrUnknown, failed)
	}
	return err
}

// Dying before or after any of the four writes of a commit loses and doubles nothing,
// whoever goes on: a new process of ours, or Spark. Either way Spark's next commit
// stands above ours.
func TestDeltaStorageDiesAtEachWrite(t *testing.T) {
	t.Parallel()
	for write := range 4 {
		for _, after := range []bool{false, true} {
			for _, sparkFirst := range []bool{false, true} {
				t.Run(fmt.Sprintf("write %d, after %v, Spark first %v", write+1, after, sparkFirst), func(t *testing.T) {
					t.Parallel()
					l := newLogEntries()
					w := logStoreWorld(t, l).open(t)
					w.create("t", twophase.ModeDeltaStorage)
					w.commit("before", blind("t", "a"))
					w.stop()
					d := &dying{after: after, died: make(chan struct{})}
					d.left.Store(int64(write) + 1)
					w.wrapObjects = d.over
					l.hook = func(ctx context.Context, _ string, after bool) error { return d.meet(ctx, after) }
					w.start()
					pending := w.background("dies", blind("t", "b"))
					<-d.died
					w.stop()
					<-pending
					w.wrapObjects, l.hook = nil, nil
					s := w.spark(l, "t", w.objects)
					if sparkFirst {
						w.sparkCommits(s, "s1")
					}
					w.start()
					w.commit("dies", blind("t", "b"))
					w.sparkCommits(s, "s2")
					w.commit("after", blind("t", "c"))
					w.isWholeToSpark(l, s, map[string]int{"a": 1, "b": 1, "c": 1, "s1": map[bool]int{true: 1}[sparkFirst], "s2": 1})
				})
			}
		}
	}
}

// isWholeToSpark: Spark lists every version, every file was added as often as it
// should, all entries are complete, and every temporary file is what its commit is.
func (w *world) isWholeToSpark(l *logEntries, s *sparktest.Driver, want map[string]int) {
	w.t.Helper()
	w.settle()
	versions, err := s.List(w.ctx())
	if err != nil || len(versions) != w.versions("t") {
		w.t.Fatalf("Spark lists %v, %v, of %d versions", versions, err, w.versions("t"))
	}
	got := map[string]int{}
	for path := range want {
		for v := range versions {
			got[path] += strings.Count(w.read("t", v), fmt.Sprintf(`"path":%q`, path))
		}
	}
	if !maps.Equal(got, want) {
		w.t.Errorf("files were added %v, want %v", got, want)
	}
	for key, e := range l.all {
		name := strings.TrimPrefix(key, e.TablePath+" ")
		if !e.Complete || w.object("t/_delta_log/"+e.TempPath) != w.object("t/_delta_log/"+name) {
			w.t.Errorf("%+v", e)
		}
	}
	w.check(closedRun{})
}

// Two replicas and Spark's drivers, all at once, with an object store and entries
// that fail now and then.
func TestDeltaStorageTogether(t *testing.T) {
	t.Parallel()
	l := newLogEntries()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	var mu sync.Mutex
	rng := rand.New(rand.NewPCG(seed, 0))
	odds := func(n int) bool {
		mu.Lock()
		defer mu.Unlock()
		return rng.IntN(n) == 0
	}
	one := logStoreWorld(t, l)
	one.open(t)
	one.create("t", twophase.ModeDeltaStorage)
	two := logStoreWorld(t, l)
	two.shared, two.objects = one.store, one.objects
	flaky := func(s objstore.Store) objstore.Store {
		return objtest.Faulty{Store: s, Hook: func(_ context.Context, op objtest.Op) objtest.Fate {
			switch {
			case !strings.Contains(op.Key, "/_delta_log/") || !odds(15):
				return objtest.Done()
			case op.Kind == objtest.PutIfAbsent && odds(2):
				return objtest.Landed()
			case op.Kind == objtest.PutIfAbsent:
				return objtest.Lost()
			}
			return objtest.Refused()
		}}
	}
	one.stop()
	one.wrapObjects, two.wrapObjects = flaky, flaky
	l.hook = func(_ context.Context, _ string, after bool) error {
		if odds(15) {
			return logstore.ErrUnknown
		}
		return nil
	}
	one.start()
	two.open(t)
	want := map[string]int{}
	var all sync.WaitGroup
	for i, w := range []*world{one, two} {
		for n := range 12 {
			name := fmt.Sprintf("ours-%d-%d", i, n)
			want[name] = 1
		}
		all.Go(func() {
			for n := range 12 {
				name := fmt.Sprintf("ours-%d-%d", i, n)
				for {
					if _, err := w.try(name, blind("t", name)); err == nil {
						break
					} else if w.t.Context().Err() != nil {
						return
					}
				}
			}
		})
	}
	for i := range 2 {
		for n := range 12 {
			want[fmt.Sprintf("spark-%d-%d", i, n)] = 1
		}
		all.Go(func() {
			s := one.spark(l, "t", one.objects)
			s.Conditional = i == 0
			for n := range 12 {
				one.sparkCommits(s, fmt.Sprintf("spark-%d-%d", i, n))
			}
		})
	}
	all.Wait()
	two.stop()
	one.stop()
	one.wrapObjects, l.hook = nil, nil
	one.start()
	one.isWholeToSpark(l, one.spark(l, "t", one.objects), want)
}
