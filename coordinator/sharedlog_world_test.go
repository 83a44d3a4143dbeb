package coordinator_test

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/txcoord/txcoord/tables/logstore"
	"github.com/txcoord/txcoord/tables/logstore/sparktest"
	"github.com/txcoord/txcoord/tables/objstore"
)

// logEntries is a table of entries in memory. hook is called around each write.
type logEntries struct {
	mu   sync.Mutex
	all  map[string]logstore.Entry
	hook func(ctx context.Context, op string, after bool) error
}

func newLogEntries() *logEntries { return &logEntries{all: map[string]logstore.Entry{}} }

func (l *logEntries) put(e logstore.Entry) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all[e.TablePath+" "+e.FileName] = e
}

func (l *logEntries) copy() map[string]logstore.Entry {
	l.mu.Lock()
	defer l.mu.Unlock()
	return maps.Clone(l.all)
}

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
