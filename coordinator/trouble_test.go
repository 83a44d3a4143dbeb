package coordinator_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/txcoord/txcoord/coordinator"
	"github.com/txcoord/txcoord/lock"
	"github.com/txcoord/txcoord/tables/objstore"
	"github.com/txcoord/txcoord/twophase"
)

// fullStore has no room while full is set.
type fullStore struct {
	lock.Store
	full *atomic.Bool
}

func (s fullStore) Put(ctx context.Context, key string, value []byte, c lock.Condition) (lock.Revision, error) {
	if s.full.Load() {
		return "", fmt.Errorf("put %s: %w: %w", key, lock.ErrUnknown, syscall.ENOSPC)
	}
	return s.Store.Put(ctx, key, value, c)
}

// A full disk under the store: calls are answered with it long before their time is up,
// the status and the table's explanation name it, and all goes on when there is room.
func TestFullStore(t *testing.T) {
	t.Parallel()
	var full atomic.Bool
	w := &world{wrapStore: func(s lock.Store) lock.Store { return fullStore{s, &full} }}
	var log logged
	w.cfg.Log = log.logger()
	w.open(t)
	w.create("t", twophase.ModeExclusive)
	full.Store(true)
	ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
	defer cancel()
	_, _, err := w.catalog.CommitOnce(ctx, once("k", blind("t", "1")))
	own := wantReason(t, "a commit", err, coordinator.OutcomeUnknown)
	if !strings.Contains(own.Message, "no space is left on the disk") || !strings.Contains(own.Message, "make room") {
		t.Errorf("%s", own.Message)
	}
	st := w.status()
	if len(st.Troubles) != 1 || st.Troubles[0].Place != "store" || st.Troubles[0].Since.IsZero() {
		t.Errorf("%+v", st.Troubles)
	}
	if f := found(t, w.explain("t"), coordinator.FoundStoreTrouble); !f.Blocks || !strings.Contains(f.Text, "no space") {
		t.Errorf("%+v", f)
	}
	full.Store(false)
	w.commit("k", blind("t", "1"))
	if st := w.status(); len(st.Troubles) != 0 {
		t.Errorf("left: %+v", st.Troubles)
	}
	if n := w.versions("t"); n != 2 {
		t.Errorf("%d versions", n)
	}
	if n := log.count("a place works again"); n != 1 || !log.has("a place works again", "place=store", "what=write", "since=") {
		t.Errorf("the log says %d times that it works again", n)
	}
}

// stuckStore has no room, and then, with room, takes its time.
type stuckStore struct {
	lock.Store
	full, stuck   *atomic.Bool
	reached, room chan struct{}
}

func (s stuckStore) Put(ctx context.Context, key string, value []byte, c lock.Condition) (lock.Revision, error) {
	if s.stuck.Load() {
		select {
		case s.reached <- struct{}{}:
		default:
		}
		<-s.room
	}
	return fullStore{s.Store, s.full}.Put(ctx, key, value, c)
}

// A call that comes when there is room again, and the next try has not ended yet, is not
// answered with the failures from before it.
func TestTroubleFromBeforeTheCall(t *testing.T) {
	t.Parallel()
	var full, stuck atomic.Bool
	reached, room := make(chan struct{}, 1), make(chan struct{})
	w := &world{wrapStore: func(s lock.Store) lock.Store { return stuckStore{s, &full, &stuck, reached, room} }}
	w.open(t)
	release := sync.OnceFunc(func() { close(room) })
	t.Cleanup(release)
	w.create("t", twophase.ModeExclusive)
	full.Store(true)
	_, _, err := w.catalog.CommitOnce(w.ctx(), once("k", blind("t", "1")))
	wantReason(t, "a commit", err, coordinator.OutcomeUnknown)
	stuck.Store(true)
	<-reached // by the try that is still to be made
	full.Store(false)
	answered := make(chan error, 1)
	go func() {
		_, _, err := w.catalog.CommitOnce(w.ctx(), once("k", blind("t", "1")))
		answered <- err
	}()
	select {
	case err := <-answered:
		t.Errorf("while the store has the put: %v", err)
	case <-time.After(2 * time.Second): // four looks at what is in trouble
		release()
		if err := <-answered; err != nil {
			t.Errorf("with room: %v", err)
		}
	}
}

// fullObjects has no room below a prefix while full is set.
type fullObjects struct {
	objstore.Store
	prefix string
	full   *atomic.Bool
}

func (s fullObjects) PutIfAbsent(ctx context.Context, key string, data []byte) error {
	if s.full.Load() && strings.HasPrefix(key, s.prefix) {
		return fmt.Errorf("put %s: %w", key, syscall.ENOSPC)
	}
	return s.Store.PutIfAbsent(ctx, key, data)
}

// A full disk under a table: what is committed is answered as committed before the
// caller's deadline, and why it is not published.
func TestFullTable(t *testing.T) {
	t.Parallel()
	var full atomic.Bool
	w := &world{wrapObjects: func(s objstore.Store) objstore.Store { return fullObjects{s, "t/_delta_log/0", &full} }}
	w.open(t)
	w.create("t", twophase.ModeExclusive)
	full.Store(true)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	o, _, err := w.catalog.CommitOnce(ctx, once("k", blind("t", "1")))
	if err != nil || o.Committed == nil || !strings.Contains(o.Committed.PendingReason, "no space is left") {
		t.Fatalf("%+v, %v", o.Committed, err)
	}
	if st := w.status(); len(st.Troubles) != 1 || st.Troubles[0].Place != w.uri("t") {
		t.Errorf("%+v", st.Troubles)
	}
	full.Store(false)
	if o := w.commit("k", blind("t", "1")); o.Committed.Snapshot == 0 {
		t.Errorf("%+v", o.Committed)
	}
	w.eventually("the trouble is over", func() bool { return len(w.status().Troubles) == 0 })
}

// A location that is a link to nothing is refused by name, and so is a place whose store
// does not keep its promises; neither leaves anything behind.
func TestPlacesThatCannotHoldTables(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for name, target := range map[string]string{"dangling": filepath.Join(w.dir, "nothing"), "cyclic": filepath.Join(w.dir, "cyclic")} {
		if err := os.Symlink(target, filepath.Join(w.dir, name)); err != nil {
			t.Fatal(err)
		}
		for _, uri := range []string{w.uri(name), w.uri(name + "/below")} {
			_, _, err := w.catalog.Create(w.ctx(), coordinator.CreateRequest{Name: name, URI: uri, Schema: schema})
			own := wantReason(t, uri, err, coordinator.InvalidRequest)
			if !strings.Contains(own.Message, name+" is a symbolic link to something that is not there") || own.Field.Field != "uri" || own.Field.Remedy == "" {
				t.Errorf("%s", own.Message)
			}
			_, _, err = w.catalog.Register(w.ctx(), coordinator.RegisterRequest{Name: name, URI: uri})
			wantReason(t, uri, err, coordinator.InvalidRequest)
		}
	}
	if _, err := os.Stat(filepath.Join(w.dir, "nothing")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the link was followed: %v", err)
	}
}

// What a list says of tables after a start: of those that were not looked at that they were
// not, of a place that cannot be read what is wrong, and of one that the server may not use
// that. A list itself looks at nothing.
func TestListAfterAStart(t *testing.T) {
	t.Parallel()
	var refused string
	w := &world{files: true}
	w.cfg.Limits = coordinator.Limits{PollInterval: time.Hour, OwnerInterval: 300 * time.Millisecond}
	w.objectsAs = func(o coordinator.Objects) coordinator.Objects { return &notAllowed{o, &refused} }
	w.open(t)
	for _, name := range []string{"linked", "refused", "whole"} {
		if info := w.create(name, twophase.ModeExclusive); info.Unseen {
			t.Errorf("%s was created a moment ago, and counts as not looked at", name)
		}
	}
	w.must(os.Rename(w.path("linked"), w.path("away")), os.Symlink("away", w.path("linked")))
	refused = w.uri("refused")
	w.cfg.Limits.OwnerInterval = time.Hour
	w.restart()
	for name, in := range w.listed() {
		if in.Unseen != (name != "refused") || in.Trouble != "" || (in.Stopped != "") != (name == "refused") {
			t.Errorf("%s: unseen %v, trouble %q, stopped %q", name, in.Unseen, in.Trouble, in.Stopped)
		}
	}
	w.cfg.Limits.OwnerInterval = 20 * time.Millisecond
	w.restart()
	w.eventually("all are looked at", func() bool {
		all := w.listed()
		return strings.Contains(all["linked"].Trouble, "is a symbolic link by now") && !all["linked"].Unseen &&
			strings.Contains(all["refused"].Stopped, "may not use the location") && all["whole"].Trouble == "" && !all["whole"].Unseen
	})
	w.must(os.Remove(w.path("linked")), os.Rename(w.path("away"), w.path("linked")))
	w.eventually("the folder is back", func() bool { return w.listed()["linked"].Trouble == "" })
}

func (w *world) listed() map[string]coordinator.TableInfo {
	w.t.Helper()
	all, err := w.catalog.Tables(w.ctx())
	if err != nil {
		w.t.Fatal(err)
	}
	out := map[string]coordinator.TableInfo{}
	for _, in := range all {
		out[in.Name] = in
	}
	return out
}

// notAllowed is an Objects without one place.
type notAllowed struct {
	coordinator.Objects
	uri *string
}

func (r *notAllowed) Open(uri string) (objstore.Store, string, error) {
	if uri == *r.uri {
		return nil, "", errors.New("it is not allowed")
	}
	return r.Objects.Open(uri)
}

// probing is an Objects that finds a store unfit.
type probing struct {
	coordinator.Objects
	err error
}

func (p probing) Probe(context.Context, string) error { return p.err }

func TestUnfitPlace(t *testing.T) {
	t.Parallel()
	for what, c := range map[string]struct {
		err  error
		want string
	}{
		"overwrites": {fmt.Errorf("probe: %w", objstore.ErrUnconditional), "two writers win"},
		"away":       {errors.New("connection reset"), "the server's log has the reason"},
	} {
		w := &world{}
		w.objectsAs = func(o coordinator.Objects) coordinator.Objects { return probing{o, c.err} }
		w.open(t)
		_, _, err := w.catalog.Create(w.ctx(), coordinator.CreateRequest{Name: "t", URI: w.uri("t"), Schema: schema})
		if own := wantReason(t, what, err, coordinator.ObjectsUnsuitable); !strings.Contains(own.Message, c.want) || strings.Contains(own.Message, "reset") {
			t.Errorf("%s: %s", what, own.Message)
		}
		if all, _ := w.catalog.Tables(w.ctx()); len(all) != 0 {
			t.Errorf("%s: %+v", what, all)
		}
	}
}
