package coordinator_test

import (
	"context"
	"iter"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/txcoord/txcoord/coordinator"
	"github.com/txcoord/txcoord/tables/objstore"
	"github.com/txcoord/txcoord/twophase"
)

// atOnce is a store on which somebody else changes many objects between two requests of
// ours: whoever holds the lock.
type atOnce struct {
	objstore.Store
	sync.RWMutex
}

func (a *atOnce) over(s objstore.Store) objstore.Store {
	a.Store = s
	return a
}

func (a *atOnce) Get(ctx context.Context, key string, r objstore.Range) ([]byte, objstore.Info, error) {
	a.RLock()
	defer a.RUnlock()
	return a.Store.Get(ctx, key, r)
}

func (a *atOnce) Stat(ctx context.Context, key string) (objstore.Info, error) {
	a.RLock()
	defer a.RUnlock()
	return a.Store.Stat(ctx, key)
}

func (a *atOnce) PutIfAbsent(ctx context.Context, key string, data []byte) error {
	a.RLock()
	defer a.RUnlock()
	return a.Store.PutIfAbsent(ctx, key, data)
}

// List lists before it yields: who asks something else on the way must not wait for the
// lock that the listing holds.
func (a *atOnce) List(ctx context.Context, o objstore.ListOptions) iter.Seq2[objstore.Entry, error] {
	a.RLock()
	defer a.RUnlock()
	type line struct {
		entry objstore.Entry
		err   error
	}
	var all []line
	for entry, err := range a.Store.List(ctx, o) {
		all = append(all, line{entry, err})
	}
	return func(yield func(objstore.Entry, error) bool) {
		for _, l := range all {
			if !yield(l.entry, l.err) {
				return
			}
		}
	}
}

// swap exchanges what lies below two tables' places, with nothing below them in between.
func (w *world) swap(a, b string, between func()) {
	w.t.Helper()
	before := w.keys()
	for key := range before {
		if name, ok := strings.CutPrefix(key, "object: "); ok && (strings.HasPrefix(name, a+"/") || strings.HasPrefix(name, b+"/")) {
			w.drop(name)
		}
	}
	between()
	for key, content := range before {
		if name, ok := strings.CutPrefix(key, "object: "+a+"/"); ok {
			w.put(b+"/"+name, content)
		}
		if name, ok := strings.CutPrefix(key, "object: "+b+"/"); ok {
			w.put(a+"/"+name, content)
		}
	}
}

// The folders of two tables of the catalog are swapped: that is said as what it is, a
// take-over is refused and writes nothing, and both go on when the folders are back.
func TestSwappedFolders(t *testing.T) {
	t.Parallel()
	var objects atOnce
	w := &world{wrapObjects: objects.over}
	swap := func() {
		objects.Lock()
		defer objects.Unlock()
		w.swap("t", "u", func() {})
	}
	w.openTwo(t)
	swap()
	for _, name := range []string{"t", "u"} {
		w.eventually("it is seen at "+name, func() bool { return w.seenSwapped(name) })
		before := w.object(ownerKey(name))
		_, _, err := w.catalog.Register(w.ctx(), coordinator.RegisterRequest{Name: name, URI: w.uri(name), Mode: twophase.ModeExclusive, TakeOver: true})
		own := wantReason(t, "take over "+name, err, coordinator.TableOwned)
		if !strings.Contains(own.Message, "put the folders back") || w.object(ownerKey(name)) != before {
			t.Errorf("%v", own)
		}
	}
	swap()
	w.eventually("both take commits again", func() bool {
		_, err := w.try("2", blind("t", "2"), blind("u", "2"))
		return err == nil
	})
	// An owner object alone that names the other table is written anew.
	w.put(ownerKey("t"), w.object(ownerKey("u")))
	if _, _, err := w.catalog.Register(w.ctx(), coordinator.RegisterRequest{Name: "t", URI: w.uri("t"), Mode: twophase.ModeExclusive, TakeOver: true}); err != nil {
		t.Fatal(err)
	}
	if o := w.owner("t"); o.Table != w.info("t").ID {
		t.Errorf("%+v", o)
	}
}

// The same, seen half done: a look falls between the folders' going and their coming, and
// both logs are gone. That freezes (R22), the swap is named beside it, and when the folders
// are back the operator's word is all that both need.
func TestSwappedFoldersSeenHalfDone(t *testing.T) {
	t.Parallel()
	w := &world{}
	w.openTwo(t)
	names := []string{"t", "u"}
	w.swap("t", "u", func() {
		w.eventually("both are seen gone", func() bool {
			return !slices.ContainsFunc(names, func(name string) bool { return w.info(name).Frozen == nil })
		})
	})
	for _, name := range names {
		if f := w.info(name).Frozen; f.Cause != twophase.CauseReplaced {
			t.Errorf("%s: %+v", name, f)
		}
		w.eventually("the swap is named at "+name, func() bool { return w.seenSwapped(name) })
		if err := w.resolve(name); err == nil {
			t.Errorf("%s is resolved over the other's log", name)
		}
	}
	w.swap("t", "u", func() {})
	for _, name := range names {
		w.eventually(name+" is resolved", func() bool { return w.resolve(name) == nil })
	}
	w.eventually("both take commits again", func() bool {
		_, err := w.try("2", blind("t", "2"), blind("u", "2"))
		return err == nil
	})
}

// openTwo opens a world with two exclusive tables, a commit in each, whose owner objects
// are looked at all the time.
func (w *world) openTwo(t *testing.T) {
	w.cfg.Limits.OwnerInterval = 5 * time.Millisecond
	w.open(t)
	for _, name := range []string{"t", "u"} {
		w.create(name, twophase.ModeExclusive)
		w.commit("1"+name, blind(name, "1"))
	}
	w.settle()
}

// seenSwapped: what explains t or u says that the other's folder lies at its place.
func (w *world) seenSwapped(name string) bool {
	other := map[string]string{"t": "u", "u": "t"}[name]
	return slices.ContainsFunc(w.explain(name).Findings, func(f coordinator.Finding) bool {
		return f.Code == coordinator.FoundOwnedElsewhere &&
			strings.Contains(f.Text, "that of table "+other+" of this catalog") && strings.Contains(f.Remedy, "put the folders back")
	})
}

// The newest version goes while the server runs and trusts what it saw shortly before: who
// asks why, resolves or maintains finds out, and not only the next look at owners.
func TestNewestVersionGoneWhileRunning(t *testing.T) {
	t.Parallel()
	for name, ask := range map[string]func(w *tended){
		"why": func(w *tended) { w.explain("t") },
		"resolve": func(w *tended) {
			err := w.resolve("t")
			wantReason(w.t, "resolve", err, coordinator.LogContradiction)
		},
		"describe": func(w *tended) { w.catalog.Describe(w.ctx(), "t") }, //nolint:errcheck // what it finds is in the row
		"maintain": func(w *tended) {
			_, err := w.maintainer(coordinator.MaintainConfig{}).Maintain(w.ctx(), coordinator.MaintainRequest{Table: "t"})
			wantReason(w.t, "maintain", err, coordinator.TableFrozen)
		},
	} {
		for _, mode := range []twophase.Mode{twophase.ModeOpen, twophase.ModeExclusive} {
			t.Run(name+" "+mode.String(), func(t *testing.T) {
				t.Parallel()
				w := newTended(t)
				w.create("t", mode)
				w.grow("t", 2)
				was := w.read("t", 2)
				w.world.drop(commitKey("t", 2))
				ask(w)
				if f := w.info("t").Frozen; f == nil || f.Cause != twophase.CauseReplaced {
					t.Fatalf("%+v", f)
				}
				w.put(commitKey("t", 2), was)
				if err := w.resolve("t"); err != nil {
					t.Fatal(err)
				}
				w.commit("3", blind("t", "3"))
			})
		}
	}
}
