package coordinator_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/txcoord/txcoord/coordinator"
	"github.com/txcoord/txcoord/tables/objstore"
	"github.com/txcoord/txcoord/twophase"
)

// gotten notes what is read of tables' checkpoints and of their extracts.
type gotten struct {
	objstore.Store
	mu   sync.Mutex
	keys []string
	// stuck: no version of a table can be put.
	stuck atomic.Bool
}

func (g *gotten) PutIfAbsent(ctx context.Context, key string, b []byte) error {
	if g.stuck.Load() && strings.HasPrefix(key, "a/_delta_log/") {
		return fmt.Errorf("put %s: the disk is full", key)
	}
	return g.Store.PutIfAbsent(ctx, key, b)
}

func (g *gotten) Get(ctx context.Context, key string, r objstore.Range) ([]byte, objstore.Info, error) {
	if strings.Contains(key, ".checkpoint.") || strings.Contains(key, "/extracts/") {
		g.mu.Lock()
		g.keys = append(g.keys, key)
		g.mu.Unlock()
	}
	return g.Store.Get(ctx, key, r)
}

// since is what was read since the last call, each once.
func (g *gotten) since() []string {
	keys := g.each()
	slices.Sort(keys)
	return slices.Compact(keys)
}

// each is all that was read since the last call, in order.
func (g *gotten) each() []string {
	g.mu.Lock()
	defer g.mu.Unlock()
	keys := g.keys
	g.keys = nil
	return keys
}

// extracted is a world with a table of many files, its checkpoint and its extract.
func extracted(t *testing.T, files bool) (w *tended, g *gotten, extract string) {
	g = &gotten{}
	w = &tended{world: &world{}}
	w.world.files = files
	w.wrapObjects = func(s objstore.Store) objstore.Store { g.Store = s; return g }
	w.open(t)
	w.create("a", twophase.ModeExclusive)
	var adds [][]byte
	for i := range 1500 {
		adds = append(adds, add(fmt.Sprintf("%s.parquet", twophase.HashOf([]byte{byte(i), byte(i >> 8)}))))
	}
	w.commit("many", change("a", blindRead, adds...))
	w.maintain(w.maintainer(coordinator.MaintainConfig{}), "a", false)
	return w, g, "_txcoord/" + w.catalog.Name() + "/extracts/" + string(w.info("a").ID)
}

// refused is why a commit is aborted.
func (w *tended) refused(key string, part coordinator.OnceTable) string {
	w.t.Helper()
	o, err := w.try(key, part)
	if err == nil {
		w.t.Fatalf("%s: committed: %+v", key, o)
	}
	_, why, _ := strings.Cut(err.Error(), " is aborted: ")
	return why
}

// TestFirstCommitFromAnExtract: after a start a table's first commit is judged from the
// extract of its checkpoint, which is not read. It is judged alike without one, and with
// one that is damaged.
func TestFirstCommitFromAnExtract(t *testing.T) {
	for _, files := range []bool{false, true} {
		t.Run(fmt.Sprint("files=", files), func(t *testing.T) {
			w, g, extract := extracted(t, files)
			whole, _, err := w.objects.Get(w.ctx(), extract, objstore.Range{})
			if err != nil {
				t.Fatal(err)
			}
			live, absent := twophase.HashOf([]byte{7, 1}).String()+".parquet", "nobody.parquet"
			judge := func(what string, read ...string) (why []string) {
				t.Helper()
				w.restart()
				g.since()
				why = append(why, w.refused(what+", a path that is there", blind("a", live)))
				if diff := cmp.Diff(read, g.since()); diff != "" {
					t.Errorf("%s (-want +read):\n%s", what, diff)
				}
				why = append(why, w.refused(what+", one that is not removed", change("a", readAt(1), remove(absent))))
				return why
			}
			checkpoint := fmt.Sprintf("a/_delta_log/%020d.checkpoint.parquet", 1)
			want := judge("with its extract", extract)
			if !strings.Contains(want[0], "part of the table already") || !strings.Contains(want[1], "not part of the table") {
				t.Errorf("%q", want)
			}
			for what, b := range map[string][]byte{"damaged": append(slices.Clone(whole[:len(whole)-1]), whole[len(whole)-1]^1), "empty": {}} {
				w.put(extract, string(b))
				if diff := cmp.Diff(want, judge(what, extract, checkpoint)); diff != "" {
					t.Errorf("%s: %s", what, diff)
				}
			}
			if err := w.objects.Delete(w.ctx(), extract); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, judge("gone", extract, checkpoint)); diff != "" {
				t.Errorf("gone: %s", diff)
			}
			w.put(extract, string(whole))
			w.commit("new", change("a", blindRead, add(absent)))
			w.restart()
			g.since()
			w.commit("replaces", change("a", readAt(2), remove(absent), remove(live), add("next.parquet")))
			if diff := cmp.Diff([]string{extract}, g.since()); diff != "" {
				t.Errorf("a commit that removes (-want +read):\n%s", diff)
			}
			if n := w.state("a").NumFiles(); n != 1500 {
				t.Errorf("%d files are live, want 1500", n)
			}
		})
	}
}

// TestExtractGoesWithItsTable: it is removed when the table leaves the catalog.
func TestExtractGoesWithItsTable(t *testing.T) {
	w, _, extract := extracted(t, false)
	if _, err := w.objects.Stat(w.ctx(), extract); err != nil {
		t.Fatal(err)
	}
	if err := w.catalog.Release(w.ctx(), "a", false); err != nil {
		t.Fatal(err)
	}
	if w.keys()["object: "+extract] != "" {
		t.Error("it is there still")
	}
}

// TestOpenRoundReadsOnce: a table whose round was open when its server died is read once
// after the start, for the publisher and for the next commit, which is judged by it.
func TestOpenRoundReadsOnce(t *testing.T) {
	w, g, extract := extracted(t, false)
	g.stuck.Store(true)
	req := once("open", blind("a", "open.parquet"))
	req.WaitLimit = 10 * time.Millisecond
	o, _, err := w.catalog.CommitOnce(w.ctx(), req)
	if err != nil || o.Committed == nil {
		t.Fatalf("%+v, %v", o, err)
	}
	w.stop()
	g.stuck.Store(false)
	g.each()
	w.start()
	w.world.eventually("the round is published", func() bool { return w.info("a").Version == 2 })
	live := twophase.HashOf([]byte{7, 1}).String() + ".parquet"
	for path, want := range map[string]string{live: "part of the table already", "open.parquet": "part of the table already"} {
		if why := w.refused(path, blind("a", path)); !strings.Contains(why, want) {
			t.Errorf("%s: %s", path, why)
		}
	}
	w.commit("next", blind("a", "next.parquet"))
	if diff := cmp.Diff([]string{extract}, g.each()); diff != "" {
		t.Errorf("(-want +read):\n%s", diff)
	}
	if n := w.state("a").NumFiles(); n != 1502 {
		t.Errorf("%d files are live, want 1502", n)
	}
}
