package coordinator_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/txcoord/txcoord/coordinator"
	"github.com/txcoord/txcoord/tables/checkpoint"
	"github.com/txcoord/txcoord/twophase"
)

func (w *world) must(errs ...error) {
	w.t.Helper()
	if err := errors.Join(errs...); err != nil {
		w.t.Fatal(err)
	}
}

// unpublished has a transaction decided that cannot be published now.
func (w *world) unpublished(r coordinator.OnceRequest) {
	w.t.Helper()
	r.WaitLimit = 50 * time.Millisecond
	o, _, err := w.catalog.CommitOnce(w.ctx(), r)
	if err != nil || o.Committed.Snapshot != 0 {
		w.t.Fatalf("%+v, %v", o.Committed, err)
	}
}

func (w *world) path(name string) string { return filepath.Join(w.dir, name) }

func (w *world) replaced(name string) bool {
	f := w.info(name).Frozen
	return f != nil && f.Cause == twophase.CauseReplaced
}

// A table's folder is dropped, or renamed, right after a put, while its sight is young:
// the next version makes no folder in its place, and the table is REPLACED.
func TestNoFolderIsMadeForALaterVersion(t *testing.T) {
	t.Parallel()
	for what, mode := range map[string]twophase.Mode{"open": twophase.ModeOpen, "exclusive": twophase.ModeExclusive} {
		w := newWorld(t)
		w.create("t", mode)
		w.create("beside", twophase.ModeExclusive)
		w.commit("1", blind("t", "1"))
		w.must(os.Rename(w.path("t"), w.path("away")))
		o := w.commit("2", blind("t", "2"), blind("beside", "2"))
		if o.Committed.Snapshot != 0 || o.Committed.PendingReason == "" {
			t.Errorf("%s: %+v", what, o.Committed)
		}
		if !w.replaced("t") {
			t.Errorf("%s: %+v", what, w.info("t").Frozen)
		}
		if _, err := os.Stat(w.path("t")); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: a folder was made: %v", what, err)
		}
	}
}

// A table is dropped and made again by another engine within the ten seconds for which a
// sight of its log stands (R9): the next version does not land in the new log, also where
// that has grown to the same number.
func TestVersionForADroppedTableDoesNotLandInTheNewOne(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, name := range []string{"short", "grown"} {
		w.create(name, twophase.ModeExclusive)
		w.commit("1"+name, blind(name, "1"))
		w.must(os.RemoveAll(w.path(name)))
		w.foreign(name, 0, []byte(`{"protocol":{"minReaderVersion":1,"minWriterVersion":2}}`+"\n"), metaData("22222222-2222-4222-8222-222222222222", schema))
		if name == "grown" {
			w.foreign(name, 1, add("theirs"))
		}
		w.commit("2"+name, blind(name, "2"))
		if !w.replaced(name) {
			t.Errorf("%s: %+v", name, w.info(name).Frozen)
		}
		if got := w.read(name, 2); got != "" {
			t.Errorf("%s: the new table has a version of ours: %s", name, got)
		}
	}
}

// The folder above all tables is renamed under the running catalog: nothing is made at
// its old place, nothing is taken for dropped, and what was decided is published when it
// is back.
func TestRootIsRenamedAndPutBack(t *testing.T) {
	t.Parallel()
	w := &world{files: true, journal: t.TempDir()}
	w.cfg.Limits = coordinator.Limits{OwnerInterval: 20 * time.Millisecond}
	w.open(t)
	w.create("t", twophase.ModeExclusive)
	w.create("open", twophase.ModeOpen)
	w.commit("1", blind("t", "1"), blind("open", "1"))
	w.settle()
	moved := w.dir + ".moved"
	w.must(os.Rename(w.dir, moved))
	t.Cleanup(func() { _ = os.Rename(moved, w.dir) })
	own := wantReason(t, "an open table", second(w.try("3", blind("open", "3"))), coordinator.ObjectsUnavailable)
	if !strings.Contains(own.Message, "the folder above all its tables is gone") {
		t.Errorf("%s", own.Message)
	}
	w.unpublished(once("2", blind("t", "2")))
	w.eventually("the trouble is told", func() bool {
		for _, tr := range w.status().Troubles {
			if tr.Place == w.uri("t") && strings.Contains(tr.Text, "is gone") {
				return true
			}
		}
		return false
	})
	if _, err := os.Stat(w.dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the old place: %v", err)
	}
	w.must(os.Rename(moved, w.dir))
	if o := w.commit("2", blind("t", "2")); o.Committed.Snapshot == 0 {
		t.Errorf("%+v", o.Committed)
	}
	w.commit("3", blind("open", "3"))
	for _, name := range []string{"t", "open"} {
		if f := w.info(name).Frozen; f != nil {
			t.Errorf("%s: %+v", name, f)
		}
	}
	w.eventually("the trouble is over", func() bool { return len(w.status().Troubles) == 0 })
}

// A table's folder became a link, to a copy inside the root: it is neither read nor
// written through it, that is a finding, and all goes on with the folder put back.
func TestTableFolderBecomesALink(t *testing.T) {
	t.Parallel()
	w := &world{files: true}
	w.cfg.Limits = coordinator.Limits{OwnerInterval: 20 * time.Millisecond}
	w.open(t)
	w.create("t", twophase.ModeExclusive)
	w.create("idle", twophase.ModeExclusive)
	w.create("open", twophase.ModeOpen)
	for _, name := range []string{"t", "idle", "open"} {
		w.commit("1"+name, blind(name, "1"))
	}
	w.settle()
	w.stop() // a look between the steps would find the table dropped
	for _, name := range []string{"t", "idle", "open"} {
		kept := w.path(name + ".kept")
		w.must(os.Rename(w.path(name), kept), os.CopyFS(w.path(name+".copy"), os.DirFS(kept)), os.Symlink(w.path(name+".copy"), w.path(name)))
	}
	w.start()
	wantReason(t, "an open table", second(w.try("2open", blind("open", "2"))), coordinator.ObjectsUnavailable)
	if _, err := w.try("2t", blind("t", "2")); err == nil {
		t.Error("committed through a link")
	}
	for _, name := range []string{"t", "idle", "open"} {
		w.eventually("the link is a finding of "+name, func() bool {
			e, err := w.catalog.Explain(w.ctx(), name, nil)
			w.must(err)
			for _, f := range e.Findings {
				if f.Blocks && strings.Contains(f.Text, name+" is a symbolic link by now") {
					return true
				}
			}
			return false
		})
		if got := w.read(name+".copy", 2); got != "" {
			t.Errorf("%s: written through the link: %s", name, got)
		}
	}
	w.stop()
	for _, name := range []string{"t", "idle", "open"} {
		w.must(os.Remove(w.path(name)), os.Rename(w.path(name+".kept"), w.path(name)))
	}
	w.start()
	for _, name := range []string{"t", "idle", "open"} {
		if o := w.commit("2"+name, blind(name, "2")); o.Committed.Snapshot == 0 {
			t.Errorf("%s: %+v", name, o.Committed)
		}
	}
	w.eventually("the trouble is over", func() bool { return len(w.status().Troubles) == 0 })
}

// Maintenance of a table whose folder became a link removes and writes nothing behind it.
func TestMaintenanceFollowsNoLink(t *testing.T) {
	t.Parallel()
	w := &world{files: true}
	w.maintained(t)
	w.cfg.Now = func() time.Time { return time.Now().AddDate(0, 0, 60) }
	w.open(t)
	w.createWith(coordinator.CreateRequest{
		Name: "t", Schema: schema, Mode: twophase.ModeExclusive, Properties: map[string]string{"delta.checkpointInterval": "2"},
	})
	for _, k := range []string{"1", "2", "3", "4", "5"} {
		w.commit(k, blind("t", k))
	}
	w.settle()
	w.must(os.Rename(w.path("t"), w.path("theirs")), os.Symlink("theirs", w.path("t")))
	before := w.under("theirs")
	if _, err := w.catalog.Maintain(w.ctx(), coordinator.MaintainRequest{Table: "t"}); err == nil {
		t.Error("maintained through a link")
	}
	if after := w.under("theirs"); after != before {
		t.Errorf("behind the link:\n%s\nbefore:\n%s", after, before)
	}
	w.must(os.Remove(w.path("t")), os.Rename(w.path("theirs"), w.path("t")))
	r, err := w.catalog.Maintain(w.ctx(), coordinator.MaintainRequest{Table: "t"})
	if err != nil || r.CleanUp.Commits == 0 {
		t.Errorf("with the folder put back: %+v, %v", r.CleanUp, err)
	}
}

func (w *world) maintained(t *testing.T) {
	w.cfg.Maintain = &coordinator.MaintainConfig{Format: checkpoint.Format(), TempDir: t.TempDir()}
}

// under lists a folder.
func (w *world) under(name string) string {
	var out []string
	w.must(filepath.WalkDir(w.path(name), func(path string, _ fs.DirEntry, err error) error {
		out = append(out, path)
		return err
	}))
	return strings.Join(out, "\n")
}

// An owner object that makes no sense: nobody knows whose the table is, so it takes no
// commits, and is not maintained, until the file is put back or written anew.
func TestOwnerObjectMakesNoSense(t *testing.T) {
	t.Parallel()
	for name, garbage := range map[string]string{"cut off": `{"format":1,"cat`, "empty": "", "of a later build": `{"format":99,"catalog":"x"}`} {
		w := &world{files: true}
		w.cfg.Limits = coordinator.Limits{OwnerInterval: 20 * time.Millisecond}
		w.maintained(t)
		w.open(t)
		w.create("t", twophase.ModeExclusive)
		w.commit("1", blind("t", "1"))
		w.settle()
		file := filepath.Join(w.path("t"), "_delta_log/_txcoord/owner.json")
		good, err := os.ReadFile(file)
		w.must(err)
		damage := func() {
			w.must(os.WriteFile(file, []byte(garbage), 0o666))
			w.eventually("the damage is noticed", func() bool { return w.info("t").Stopped != "" })
		}
		well := func() bool { return w.info("t").Stopped == "" }
		damage()
		own := wantReason(t, name, second(w.try("2", blind("t", "2"))), coordinator.LogContradiction)
		if own.Table == nil || own.Table.File != "_delta_log/_txcoord/owner.json" || !strings.Contains(own.Message, "--take-over --mode exclusive") {
			t.Errorf("%s: %+v", name, own)
		}
		_, err = w.catalog.Maintain(w.ctx(), coordinator.MaintainRequest{Table: "t"})
		wantReason(t, name+": maintenance", err, coordinator.LogContradiction)
		e, err := w.catalog.Explain(w.ctx(), "t", nil)
		w.must(err)
		if len(e.Findings) == 0 || e.Findings[0].Code != coordinator.FoundStopped || !e.Findings[0].Blocks || e.Findings[0].File != own.Table.File ||
			!strings.Contains(e.Findings[0].Remedy, "--take-over --mode exclusive") {
			t.Errorf("%s: %+v", name, e.Findings)
		}
		w.must(os.WriteFile(file, good, 0o666))
		w.eventually("the file is back", well)
		w.commit("2", blind("t", "2"))

		damage()
		again := coordinator.RegisterRequest{Name: "t", URI: w.uri("t"), Mode: twophase.ModeExclusive}
		_, _, err = w.catalog.Register(w.ctx(), again)
		wantReason(t, name, err, coordinator.LogContradiction)
		again.TakeOver = true
		if _, _, err := w.catalog.Register(w.ctx(), again); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		w.commit("3", blind("t", "3"))
		if now, _ := os.ReadFile(file); string(now) != string(good) {
			t.Errorf("%s: written anew: %s", name, now)
		}
	}
}

// A Register that is repeated where the table's folder is gone makes none.
func TestRegisterAgainMakesNoFolder(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.create("t", twophase.ModeExclusive)
	w.settle()
	w.must(os.RemoveAll(w.path("t")))
	_, _, err := w.catalog.Register(w.ctx(), coordinator.RegisterRequest{Name: "t", URI: w.uri("t"), Mode: twophase.ModeExclusive})
	wantReason(t, "again", err, coordinator.NotATable)
	if _, err := os.Stat(w.path("t")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a folder was made: %v", err)
	}
}
