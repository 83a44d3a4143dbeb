package coordinator_test

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/txcoord/txcoord/coordinator"
	"github.com/txcoord/txcoord/tables/objstore"
	"github.com/txcoord/txcoord/twophase"
)

// commitsRead notes which commits of table a are read.
type commitsRead struct {
	objstore.Store
	mu   sync.Mutex
	keys []string
}

func (r *commitsRead) Get(ctx context.Context, key string, of objstore.Range) ([]byte, objstore.Info, error) {
	if strings.HasPrefix(key, "a/_delta_log/") && strings.HasSuffix(key, ".json") {
		r.mu.Lock()
		r.keys = append(r.keys, key)
		r.mu.Unlock()
	}
	return r.Store.Get(ctx, key, of)
}

// below are those below a version that were read since the last call.
func (r *commitsRead) below(v int) (out []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, key := range r.keys {
		if key < commitKey("a", v) {
			out = append(out, key)
		}
	}
	r.keys = nil
	return out
}

// renewing is a world with a table whose log has 40 commits and no checkpoint, and an extract
// of the version before the last.
func renewing(t *testing.T, mode twophase.Mode, files bool) (w *tended, r *commitsRead) {
	t.Helper()
	r = &commitsRead{}
	w = &tended{world: &world{}}
	w.world.files = files
	w.cfg.Limits.FileExtractEvery = 1000
	w.wrapObjects = func(s objstore.Store) objstore.Store { r.Store = s; return r }
	w.open(t)
	w.create("a", mode)
	w.grow("a", 39)
	w.settle()
	w.cfg.Limits.FileExtractEvery = 1
	w.restart()
	w.catalog.Renew(w.ctx(), w.info("a").ID)
	if !strings.Contains(strings.Join(w.objectKeys(), " "), "/extracts/"+string(w.info("a").ID)) {
		t.Fatal("there is no extract")
	}
	w.cfg.Limits.FileExtractEvery = 1000
	w.restart()
	w.grow("a", 1)
	w.settle()
	return w, r
}

func (w *tended) objectKeys() (out []string) {
	for key := range w.keys() {
		out = append(out, key)
	}
	return out
}

// TestStartFromARenewedExtract: after a start the commits below the extract are not read for a
// table's first commit, which is judged by them all the same.
func TestStartFromARenewedExtract(t *testing.T) {
	t.Parallel()
	for _, mode := range []twophase.Mode{twophase.ModeExclusive, twophase.ModeOpen} {
		for _, files := range []bool{false, true} {
			w, r := renewing(t, mode, files)
			w.restart()
			r.below(0)
			for path, want := range map[string]string{"a-3": "part of the table already", "a-39": "part of the table already"} {
				if why := w.refused(path+" again", blind("a", path)); !strings.Contains(why, want) {
					t.Errorf("%v, files %v: %s", mode, files, why)
				}
			}
			w.commit("replaces", change("a", readAt(40), remove("a-3"), add("other")))
			w.commit("next", blind("a", "a-3"))
			if read := r.below(39); len(read) > 0 {
				t.Errorf("%v, files %v: %q was read", mode, files, read)
			}
			if n := w.state("a").NumFiles(); n != 41 {
				t.Errorf("%d files are live, want 41", n)
			}
			w.check(closedRun{})
		}
	}
}

// TestExtractIsMadeInTheBackground: without maintenance, and without being asked.
func TestExtractIsMadeInTheBackground(t *testing.T) {
	t.Parallel()
	w := &tended{world: &world{}}
	w.cfg.Limits.FileExtractEvery = 3
	w.open(t)
	w.create("a", twophase.ModeExclusive)
	w.grow("a", 4)
	extract := "object: _txcoord/" + w.catalog.Name() + "/extracts/" + string(w.info("a").ID)
	w.world.eventually("the table has an extract", func() bool { return slices.Contains(w.objectKeys(), extract) })
	if err := w.catalog.Release(w.ctx(), "a", false); err != nil {
		t.Fatal(err)
	}
	w.world.eventually("it goes with its table", func() bool { return !slices.Contains(w.objectKeys(), extract) })
}

// TestDamageBelowAnExtract: a commit that the extract spares is damaged while no server runs.
// The table is found damaged, frozen and mended as without an extract.
func TestDamageBelowAnExtract(t *testing.T) {
	t.Parallel()
	for name, alter := range alterations {
		for _, v := range []int{0, 17, 39} {
			w, r := renewing(t, twophase.ModeExclusive, false)
			was := w.read("a", v)
			w.stop()
			w.overwrite("a", v, alter(was))
			w.start()
			r.below(0)
			if name == "altered" { // a commit still, so nobody who reads the state can tell
				w.commit("x", blind("a", "x"))
				if read := r.below(39); len(read) < 39 {
					t.Errorf("version %d is altered, and %d commits were read", v, len(read))
				}
				continue
			}
			wantReason(t, name, second(w.try("x", blind("a", "x"))), coordinator.LogContradiction)
			w.frozenTable("a", twophase.CauseContradiction)
			w.overwrite("a", v, was)
			if err := w.resolve("a"); err != nil {
				t.Fatal(err)
			}
			w.commit("x", blind("a", "x"))
			w.check(closedRun{})
		}
	}
}

func (w *world) frozenTable(table string, cause twophase.Cause) {
	w.t.Helper()
	if f := w.info(table).Frozen; f == nil || f.Cause != cause {
		w.t.Fatalf("table %s is frozen: %+v, want for %v", table, f, cause)
	}
}

// TestRenewalMeetsDamage: what is read for an extract is compared with what was recorded. A file
// that is no commit any more freezes the table, as whoever reads it does; one that is another
// commit is in no extract.
func TestRenewalMeetsDamage(t *testing.T) {
	t.Parallel()
	for name, alter := range alterations {
		w := &tended{world: &world{}}
		w.cfg.Limits.FileExtractEvery = 1000
		w.open(t)
		w.create("a", twophase.ModeExclusive)
		w.grow("a", 5)
		w.settle()
		was := w.read("a", 3)
		w.overwrite("a", 3, alter(was))
		w.cfg.Limits.FileExtractEvery = 1
		w.restart()
		w.catalog.Renew(w.ctx(), w.info("a").ID)
		if keys := strings.Join(w.objectKeys(), " "); strings.Contains(keys, "/extracts/") {
			t.Errorf("%s: %s", name, keys)
		}
		if name == "altered" {
			w.commit("x", blind("a", "x"))
			continue
		}
		w.frozenTable("a", twophase.CauseContradiction)
		w.overwrite("a", 3, was)
		if err := w.resolve("a"); err != nil {
			t.Fatal(err)
		}
		w.commit("x", blind("a", "x"))
	}
}

// TestAlteredCommitIsTold: a renewal, or a maintenance, meets a commit that is another one than was
// recorded. The table goes on, and everybody who asks is told, until the file is back.
func TestAlteredCommitIsTold(t *testing.T) {
	t.Parallel()
	for name, meet := range map[string]func(w *tended){
		"a renewal": func(w *tended) { w.catalog.Renew(w.ctx(), w.info("a").ID) },
		"a maintenance": func(w *tended) {
			_, err := w.maintainer(coordinator.MaintainConfig{}).Maintain(w.ctx(), coordinator.MaintainRequest{Table: "a"})
			wantReason(t, "maintain", err, coordinator.LogContradiction)
		},
	} {
		t.Run(name, func(t *testing.T) {
			var log logged
			w := &tended{world: &world{}}
			w.cfg.Limits.FileExtractEvery = 1
			w.cfg.Log = log.logger()
			w.open(t)
			w.create("a", twophase.ModeExclusive)
			w.grow("a", 5)
			w.settle()
			was := w.read("a", 3)
			w.overwrite("a", 3, withoutAdds(was))
			meet(w)
			meet(w)
			w.commit("x", blind("a", "x"))
			says := "version 3 of table a has another content than was recorded (_delta_log/00000000000000000003.json)"
			f := found(t, w.explain("a"), coordinator.FoundLogAltered)
			if f.Blocks || f.Version != 3 || !strings.HasSuffix(f.File, "03.json") || !strings.Contains(f.Text, says) || !strings.Contains(f.Remedy, "put the file back") {
				t.Errorf("%+v", f)
			}
			if st := w.status(); len(st.Frozen) != 0 || len(st.Troubles) != 1 || st.Troubles[0].Place != w.uri("a") || !strings.Contains(st.Troubles[0].Text, says) {
				t.Errorf("%+v, %+v", st.Frozen, st.Troubles)
			}
			if in := w.listed()["a"]; !strings.Contains(in.Trouble, says) || in.Stopped != "" {
				t.Errorf("%+v", in)
			}
			if n := log.count("was altered"); n != 1 {
				t.Errorf("said %d times:\n%v", n, log.lines)
			}
			w.overwrite("a", 3, was)
			if st := w.status(); len(st.Troubles) != 0 {
				t.Errorf("put back, and %+v", st.Troubles)
			}
			if in := w.listed()["a"]; in.Trouble != "" {
				t.Errorf("put back, and %s", in.Trouble)
			}
			for _, f := range w.explain("a").Findings {
				if f.Code == coordinator.FoundLogAltered {
					t.Errorf("put back, and %+v", f)
				}
			}
		})
	}
}

// TestOlderExtractIsPutBack: an extract of a version before is believed for what it says, and
// the commits since are read.
func TestOlderExtractIsPutBack(t *testing.T) {
	t.Parallel()
	w, r := renewing(t, twophase.ModeExclusive, false)
	key := "_txcoord/" + w.catalog.Name() + "/extracts/" + string(w.info("a").ID)
	old := w.object(key)
	w.cfg.Limits.FileExtractEvery = 1
	w.restart()
	w.grow("a", 2)
	w.settle()
	w.catalog.Renew(w.ctx(), w.info("a").ID)
	if w.object(key) == old {
		t.Fatal("the extract is as it was")
	}
	w.cfg.Limits.FileExtractEvery = 1000
	w.stop()
	w.put(key, old)
	w.start()
	r.below(0)
	w.commit("x", blind("a", "x"))
	read := r.below(43)
	slices.Sort(read)
	if diff := cmp.Diff([]string{commitKey("a", 40), commitKey("a", 41), commitKey("a", 42)}, slices.Compact(read)); diff != "" {
		t.Errorf("(-want +read):\n%s", diff)
	}
	w.check(closedRun{})
}

// TestRenewalsOfIgnoredRecords: the fold ignores records that came too late. They name tables
// that are none, and versions that a table does not come to: it gets its turn once for those.
func TestRenewalsOfIgnoredRecords(t *testing.T) {
	t.Parallel()
	for _, held := range []bool{false, true} {
		w := &tended{world: &world{}}
		w.cfg.Limits.FileExtractEvery = 5
		w.open(t)
		w.create("a", twophase.ModeOpen)
		w.settle()
		id := w.info("a").ID
		if held {
			if err := w.catalog.Append(w.ctx(), &twophase.Frozen{Table: id, Cause: twophase.CauseContradiction, Detail: "test"}); err != nil {
				t.Fatal(err)
			}
		}
		w.catalog.Noticed(&twophase.Entry{Records: []twophase.Record{
			&twophase.Registered{Table: "t-0000000000000001", Name: "a", URI: w.info("a").URI, Version: 3},
			&twophase.Range{Table: id, From: 1, To: 100},
		}})
		if turns := w.catalog.RenewDue(w.ctx(), 50); turns > 1 {
			t.Errorf("frozen %v: %d turns for versions that nobody recorded", held, turns)
		}
		if held {
			continue
		}
		w.grow("a", 1)
		w.settle()
		w.catalog.Noticed(&twophase.Entry{Records: []twophase.Record{&twophase.Range{Table: id, From: 2, To: 101}}})
		if turns := w.catalog.RenewDue(w.ctx(), 50); turns > 1 {
			t.Errorf("%d turns for another one", turns)
		}
	}
}
