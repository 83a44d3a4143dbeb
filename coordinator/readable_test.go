package coordinator_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/txcoord/txcoord/coordinator"
	"github.com/txcoord/txcoord/lock"
	"github.com/txcoord/txcoord/tables/objstore"
	"github.com/txcoord/txcoord/twophase"
)

// A snapshot whose versions were cleaned away gets no tag and no lease: the tables are
// named, and nothing is written. Put back, it does.
func TestHoldsOfWhatIsGone(t *testing.T) {
	t.Parallel()
	ways := map[string]struct {
		before, lose func(w *tended)
		says         string
	}{
		"a commit of one table": {nil, func(w *tended) { w.dropOne("a", 1) }, "version 2 of table a;"},
		"the first commits":     {nil, func(w *tended) { w.drop("a", 2); w.drop("b", 1) }, "version 2 of table a, version 2 of table b;"},
		"all below a checkpoint": {nil, func(w *tended) {
			w.maintain(w.maintainer(coordinator.MaintainConfig{}), "a", false) // of version 4
			w.drop("a", 4)
		}, "version 2 of table a;"},
		"the checkpoint that it rests on": {func(w *tended) {
			w.maintain(w.maintainer(coordinator.MaintainConfig{}), "a", false) // of version 2
		}, func(w *tended) {
			w.drop("a", 2)
			for key := range w.logs() {
				if strings.HasPrefix(key, "a/") && strings.Contains(key, ".checkpoint.") {
					if err := w.objects.Delete(w.ctx(), key); err != nil {
						w.t.Fatal(err)
					}
				}
			}
		}, "version 2 of table a;"},
	}
	for name, way := range ways {
		for _, old := range []bool{false, true} {
			t.Run(name+map[bool]string{true: ", old"}[old], func(t *testing.T) {
				t.Parallel()
				w := newTended(t)
				for _, table := range []string{"a", "b", "whole"} {
					w.create(table, twophase.ModeOpen)
					w.grow(table, 2)
				}
				held := w.catalog.Shown()
				if way.before != nil {
					way.before(w)
				}
				w.grow("a", 2)
				w.grow("b", 2)
				if err := w.tag(w.catalog.Tag(w.ctx(), "there", held)); err != nil {
					t.Fatal(err)
				}
				if old {
					w.later.Store(int64(24 * time.Hour))
				}
				files := w.logs()
				way.lose(w)
				w.unchanged("what is refused", func() {
					for what, err := range map[string]error{
						"tag": w.tag(w.catalog.Tag(w.ctx(), "late", held)), "lease": leaseErr(w.catalog.Lease(w.ctx(), coordinator.LeaseRequest{Snapshot: held})),
						"the tag again": w.tag(w.catalog.Tag(w.ctx(), "there", held)),
					} {
						own := wantReason(t, what, err, coordinator.SnapshotOutOfRange)
						if !strings.Contains(own.Message, way.says) || own.Table == nil || own.Table.Table != "a" || own.Table.Version != 2 {
							t.Errorf("%s: %s, %+v", what, own.Message, own.Table)
						}
					}
				})
				if got := w.leases(); len(got) != 0 {
					t.Errorf("leases %v", got)
				}
				if tags, err := w.catalog.Tags(w.ctx()); err != nil || len(tags) != 1 {
					t.Errorf("tags %v, %v", tags, err)
				}
				for key, content := range files {
					if err := w.objects.Put(w.ctx(), key, content); err != nil {
						t.Fatal(err)
					}
				}
				if err := w.tag(w.catalog.Tag(w.ctx(), "late", held)); err != nil {
					t.Errorf("put back: %v", err)
				}
				w.lease(coordinator.LeaseRequest{ID: "late", Snapshot: held})
			})
		}
	}
}

// logs is everything in the tables' logs.
func (w *tended) logs() map[string][]byte {
	w.t.Helper()
	out := map[string][]byte{}
	for e, err := range w.objects.List(w.ctx(), objstore.ListOptions{}) {
		if err != nil {
			w.t.Fatal(err)
		}
		if strings.Contains(e.Key, "/_delta_log/") {
			out[e.Key] = []byte(w.object(e.Key))
		}
	}
	return out
}

// A table that stands at a place no more is none that a snapshot could be read from.
func TestHoldsOfAReplacedTable(t *testing.T) {
	t.Parallel()
	w := newTended(t)
	w.create("a", twophase.ModeOpen)
	w.grow("a", 2)
	held := w.catalog.Shown()
	w.grow("a", 1)
	if err := w.objects.Delete(w.ctx(), "a/_delta_log/_txcoord/owner.json"); err != nil {
		t.Fatal(err)
	}
	w.stop()
	w.start()
	if _, err := w.try("finds out", blind("a", "x")); err == nil {
		t.Fatal("a table without an owner takes a commit")
	}
	if f := w.info("a").Frozen; f == nil || f.Cause != twophase.CauseReplaced {
		t.Fatalf("%+v", f)
	}
	own := wantReason(t, "tag", w.tag(w.catalog.Tag(w.ctx(), "late", held)), coordinator.SnapshotOutOfRange)
	if strings.Contains(own.Message, "put the files back") || !strings.Contains(own.Message, "another one's log stands at its place") {
		t.Errorf("nothing of its log is missing, and it says: %s", own.Message)
	}
}

// The log is cleaned between the look and the record: the tag goes back to what it named.
func TestTagMeetsACleanUp(t *testing.T) {
	t.Parallel()
	w := newTended(t)
	w.create("a", twophase.ModeOpen)
	w.grow("a", 1)
	first := w.catalog.Shown()
	w.grow("a", 1)
	held := w.catalog.Shown()
	w.grow("a", 1)
	if err := w.tag(w.catalog.Tag(w.ctx(), "moved", first)); err != nil {
		t.Fatal(err)
	}
	w.settle()
	w.stop()
	dropped := false
	w.wrapStore = func(s lock.Store) lock.Store {
		return hookedStore{Store: s, beforePut: func(key string) {
			if strings.HasPrefix(key, "ring/") && !dropped {
				dropped = true
				w.dropOne("a", 2)
			}
		}}
	}
	w.start()
	wantReason(t, "tag", w.tag(w.catalog.Tag(w.ctx(), "moved", held)), coordinator.SnapshotOutOfRange)
	tags, err := w.catalog.Tags(w.ctx())
	if err != nil || !cmp.Equal(tags, []coordinator.Tag{{Name: "moved", Snapshot: first}}) {
		t.Errorf("%v, %v", tags, err)
	}
}
