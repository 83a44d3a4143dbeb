package coordinator_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/txcoord/txcoord/coordinator"
	"github.com/txcoord/txcoord/lock"
	"github.com/txcoord/txcoord/tables/objstore"
	"github.com/txcoord/txcoord/twophase"
)

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
	if w.files { // with links, which the store would not list
		for key, content := range w.filesNow() {
			out["object: "+key] = content
		}
		return out
	}
	for e, err := range w.objects.List(w.ctx(), objstore.ListOptions{}) {
		if err != nil {
			w.t.Fatal(err)
		}
		out["object: "+e.Key] = w.object(e.Key)
	}
	return out
}

// filesNow are the files below the world's folder, but for the journal and drafts.
func (w *world) filesNow() map[string]string {
	out := map[string]string{}
	err := filepath.WalkDir(w.dir, func(path string, e fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil || e.IsDir() || strings.HasPrefix(e.Name(), "journal.db") || strings.HasPrefix(e.Name(), ".txcoord-") {
			return err
		}
		b, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.EISDIR) { // gone meanwhile; a link to a folder
			return nil
		}
		out[strings.TrimPrefix(path, w.dir+"/")] = string(b)
		return err
	})
	if err != nil {
		w.t.Fatal(err)
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

// payloads counts items and objects of staged parts, wherever they lie.
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

// patient is how long tests wait for what must come, on however busy a machine.
const patient = 2 * time.Minute

func (w *world) eventually(what string, ok func() bool) {
	w.t.Helper()
	for end := time.Now().Add(patient); time.Now().Before(end); time.Sleep(2 * time.Millisecond) {
		if ok() {
			return
		}
	}
	w.t.Fatalf("in %s it did not come about that %s", patient, what)
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

// has reports whether one line has all parts.
func (l *logged) has(parts ...string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.ContainsFunc(l.lines, func(line string) bool {
		return !slices.ContainsFunc(parts, func(part string) bool { return !strings.Contains(line, part) })
	})
}

// count is how many lines have a text.
func (l *logged) count(text string) (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, line := range l.lines {
		if strings.Contains(line, text) {
			n++
		}
	}
	return n
}

func (l *logged) logger() *slog.Logger { return slog.New(slog.NewTextHandler(l, nil)) }
