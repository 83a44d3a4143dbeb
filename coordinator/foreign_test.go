package coordinator_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/txcoord/txcoord/coordinator"
	"github.com/txcoord/txcoord/tables/objstore"
	"github.com/txcoord/txcoord/twophase"
)

func (w *world) kinds() []string {
	w.t.Helper()
	page, err := w.catalog.Snapshots(w.ctx(), "", 1000, "")
	if err != nil {
		w.t.Fatal(err)
	}
	var out []string
	for _, s := range page.Snapshots {
		out = append([]string{s.Kind}, out...)
	}
	return out
}

func TestForeignCommitsAreAbsorbedFirst(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.create("t", twophase.ModeOpen)
	w.foreign("t", 1, add("x"))
	w.foreign("t", 2, add("y"))
	if o := w.commit("k", blind("t", "1")); deliveries(o)["t"] != 3 {
		t.Errorf("%+v", o.Committed)
	}
	w.foreign("t", 4, remove("1"))
	_, err := w.try("removes it too", change("t", readAt(3), remove("1")))
	if got := wantReason(t, "a removal of what is gone", err, coordinator.Conflicted).Conflict; got.Rule != twophase.RuleDeleteDelete || got.Version != 4 || !got.Winner.IsZero() {
		t.Errorf("%+v", got)
	}
	if diff := cmp.Diff([]string{"create", "foreign", "foreign", "publication", "foreign"}, w.kinds()); diff != "" {
		t.Errorf("snapshots (-want +got):\n%s", diff)
	}
	w.check(closedRun{})
}

func TestForeignCommitsAreFoundByPolling(t *testing.T) {
	t.Parallel()
	w := &world{}
	w.cfg.Limits.PollInterval = 5 * time.Millisecond
	w.open(t)
	w.create("t", twophase.ModeOpen)
	w.create("exclusive", twophase.ModeExclusive)
	ctx, cancel := context.WithCancel(w.ctx())
	defer cancel()
	seen := make(chan coordinator.SnapshotChange, 10)
	done := make(chan error, 1)
	go func() {
		done <- w.catalog.Watch(ctx, nil, func(c coordinator.SnapshotChange) error { seen <- c; return nil })
	}()
	w.eventually("the watch is on", func() bool { return w.status().Shown == 2 })
	time.Sleep(20 * time.Millisecond)
	w.foreign("exclusive", 1, add("x"))
	w.foreign("t", 1, add("x"))
	got := <-seen
	if got.Kind != "foreign" || len(got.Tables) != 1 || got.Tables[0].Name != "t" || got.Tables[0].From != 0 || got.Tables[0].To != 1 || len(got.Txns) != 0 {
		t.Errorf("%+v", got)
	}
	cancel()
	<-done
	if v := w.snapshot(0)["exclusive"]; v != 0 {
		t.Errorf("the exclusive table was looked at: version %d", v)
	}
}

func TestForeignCommitOpensAnExclusiveTable(t *testing.T) {
	t.Parallel()
	log := &logged{}
	w := &world{}
	w.cfg.Log = log.logger()
	w.open(t)
	w.create("t", twophase.ModeExclusive)
	w.commit("1", blind("t", "1"))
	w.foreign("t", 2, add("x"))
	if o := w.commit("2", blind("t", "2")); deliveries(o)["t"] != 3 {
		t.Errorf("%+v", o.Committed)
	}
	w.eventually("the mode is open", func() bool { return w.info("t").Mode == twophase.ModeOpen })
	if !log.has("somebody else wrote an exclusive table") {
		t.Error("no alarm")
	}
	// From now on the next version is looked at first.
	w.foreign("t", 4, remove("1"))
	_, err := w.try("3", change("t", readAt(3), remove("1")))
	wantReason(t, "a removal of what is gone", err, coordinator.Conflicted)
	// The operator may vouch again.
	if info, err := w.catalog.SetMode(w.ctx(), "t", twophase.ModeExclusive); err != nil || info.Mode != twophase.ModeExclusive || info.Version != 4 {
		t.Errorf("%+v, %v", info, err)
	}
}

// A foreign engine appends beside us, as fast as it can: nothing is lost on either
// side and nothing is written twice.
func TestForeignWriterBesideUs(t *testing.T) {
	t.Parallel()
	w := &world{files: true}
	w.cfg.Limits.PollInterval = 20 * time.Millisecond
	w.open(t)
	w.create("a", twophase.ModeOpen)
	w.create("b", twophase.ModeOpen)
	stop := make(chan struct{})
	foreign := make(chan int)
	go func() {
		n, v := 0, 1
		for n < 60 {
			select {
			case <-stop:
				foreign <- n
				return
			default:
			}
			err := w.objects.PutIfAbsent(context.Background(), commitKey("a", v), lines([]byte(`{"commitInfo":{"timestamp":1}}`+"\n"), add(fmt.Sprint("foreign ", n))))
			if v++; err == nil {
				n++
				time.Sleep(5 * time.Millisecond) // as quick as another engine is
			}
		}
		<-stop
		foreign <- n
	}()
	var run closedRun
	var mu sync.Mutex
	var wg sync.WaitGroup
	for writer := range 4 {
		wg.Go(func() {
			for i := range 25 {
				name := fmt.Sprintf("%d-%d", writer, i)
				o, err := w.try(name, blind("a", name), blind("b", name))
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				run.committed = append(run.committed, o)
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	close(stop)
	n := <-foreign
	log := ""
	for v := range w.versions("a") {
		log += w.read("a", v)
	}
	if got := strings.Count(log, `"foreign `); got != n || n == 0 {
		t.Errorf("the foreign writer made %d commits, %d stand in the log", n, got)
	}
	w.check(run)
}

// What slips in between decision and publication is judged by what is still possible (R13).
func TestForeignCommitAfterTheDecision(t *testing.T) {
	t.Parallel()
	for _, mode := range []twophase.Mode{twophase.ModeOpen, twophase.ModeExclusive} {
		gate := newGate()
		w := &world{files: true, wrapObjects: gate.over}
		w.open(t)
		w.create("t", mode)
		w.commit("seed", change("t", blindRead, add("1"), add("2")))
		gate.hold(commitKey("t", 2))
		pending := w.background("k", change("t", readWhole(1), remove("1"), add("3")))
		w.eventually("it is decided", func() bool { return w.info("t").Pending == 1 })
		w.foreign("t", 2, add("4")) // a read set that is hit after the decision counts no more
		w.foreign("t", 3, remove("2"))
		gate.release()
		if err := <-pending; err != nil {
			t.Fatal(err)
		}
		if log := w.read("t", 4); !strings.Contains(log, `"3"`) {
			t.Errorf("version 4: %s", log)
		}
		w.settle()
		w.check(closedRun{})
	}
}

func TestDivergedTable(t *testing.T) {
	t.Parallel()
	gate := newGate()
	w := &world{files: true, wrapObjects: gate.over}
	w.open(t)
	for _, name := range []string{"t", "beside", "apart"} {
		w.create(name, twophase.ModeOpen)
	}
	w.commit("seed", change("t", blindRead, add("1"), add("2")), blind("beside", "1"))
	gate.hold(commitKey("t", 2))
	w.catalog.CommitOnce(shortly(t), once("k", change("t", readAt(1), remove("1"), add("3")), blind("beside", "2"))) //nolint:errcheck // its caller gives up
	w.eventually("it is decided", func() bool { return w.info("t").Pending == 1 })
	w.foreign("t", 2, remove("1"), add("4"))
	gate.release()

	// The same call again: COMMITTED, and why it is not published.
	o := w.commit("k", change("t", readAt(1), remove("1"), add("3")), blind("beside", "2"))
	if o.Committed.Snapshot != 0 || !strings.Contains(o.Committed.PendingReason, "frozen: diverged") {
		t.Fatalf("%+v", o.Committed)
	}
	var at coordinator.Delivery
	for _, d := range o.Committed.Tables {
		if d.Name == "t" {
			at = d
		}
	}
	if at.Status != twophase.StatusDiverged || at.Conflict == nil || at.Conflict.Rule != twophase.RulePathMissing {
		t.Errorf("on t: %+v", at)
	}
	w.eventually("the other table's version is put", func() bool { return w.versions("beside") == 3 })
	if log := w.read("t", 3); log != "" {
		t.Errorf("something was put over the divergence: %s", log)
	}

	// Both tables of the round take no commits; others do.
	for _, name := range []string{"t", "beside"} {
		own := wantReason(t, name, second(w.try("refused "+name, blind(name, "9"))), coordinator.TableFrozen)
		if own.Frozen == nil || own.Frozen.Cause != twophase.CauseDiverged || own.Frozen.Txn != o.Txn {
			t.Errorf("%s: %+v", name, own.Frozen)
		}
	}
	w.commit("others go on", blind("apart", "1"))
	if diff := cmp.Diff(map[string]twophase.Version{"t": 1, "beside": 1, "apart": 1}, w.snapshot(0)); diff != "" {
		t.Errorf("snapshot while frozen (-want +got):\n%s", diff)
	}
	w.restart() // it stays so
	if st := w.status(); len(st.Frozen) != 2 || len(st.Rounds) != 1 {
		t.Errorf("status %+v", st)
	}

	var preview coordinator.Thaw
	w.unchangedNow("a preview", func() {
		var err error
		if preview, err = w.catalog.Thaw(w.ctx(), "beside", true, ""); err != nil {
			t.Fatal(err)
		}
	})
	if len(preview.GivenUp) != 1 || preview.GivenUp[0].Key != "k" || preview.GivenUp[0].Conflict.Rule != twophase.RulePathMissing ||
		!cmp.Equal(preview.GivenUp[0].AppliedOn, []string{"beside"}) {
		t.Errorf("preview %+v", preview)
	}
	if _, err := w.catalog.Thaw(w.ctx(), "t", false, "looked at it"); err != nil {
		t.Fatal(err)
	}
	again := w.commit("k", change("t", readAt(1), remove("1"), add("3")), blind("beside", "2"))
	if again.Committed.Snapshot == 0 || deliveries(again)["beside"] != 2 {
		t.Errorf("after the thaw: %+v", again.Committed)
	}
	for _, d := range again.Committed.Tables {
		if d.Name == "t" && d.Status != twophase.StatusNotApplied {
			t.Errorf("on t: %+v", d)
		}
	}
	w.commit("writable again", blind("t", "5"), blind("beside", "5"))
	_, err := w.catalog.Thaw(w.ctx(), "t", false, "")
	wantReason(t, "thaw of what is not frozen", err, coordinator.NothingToThaw)
	w.check(closedRun{})
}

func second[A any](_ A, err error) error { return err }

// shortly is the context of a caller who gives up soon.
func shortly(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	t.Cleanup(cancel)
	return ctx
}

// dropAndCreate puts another table in the place of one.
func (w *world) dropAndCreate(name string) {
	w.t.Helper()
	for key := range w.keys() {
		if k, ok := strings.CutPrefix(key, "object: "+name+"/"); ok {
			if err := w.objects.Delete(w.ctx(), name+"/"+k); err != nil {
				w.t.Fatal(err)
			}
		}
	}
	w.foreign(name, 0, []byte(`{"protocol":{"minReaderVersion":1,"minWriterVersion":2}}`+"\n"), metaData("22222222-2222-4222-8222-222222222222", schema))
}

func TestReplacedTable(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		mode    twophase.Mode
		pending bool
	}{
		"idle":               {twophase.ModeOpen, false},
		"with changes":       {twophase.ModeOpen, true},
		"exclusive, changes": {twophase.ModeExclusive, true},
	} {
		gate := newGate()
		clock := &clock{}
		w := &world{wrapObjects: gate.over}
		w.cfg.Boot = clock.now
		w.open(t)
		w.create("t", c.mode)
		w.create("beside", twophase.ModeOpen)
		w.commit("1", blind("t", "1"))
		if c.pending {
			gate.refuse()
			w.catalog.CommitOnce(shortly(t), once("k", blind("t", "2"), blind("beside", "2"))) //nolint:errcheck // its caller gives up
			w.eventually("it is decided", func() bool { return w.info("t").Pending == 1 })
		}
		w.dropAndCreate("t")
		w.foreign("t", 1, add("other"))
		before := w.read("t", 1)
		clock.advance(time.Minute) // the sight of version 1 is too old
		gate.release()
		if c.mode == twophase.ModeOpen {
			own := wantReason(t, name, second(w.try("refused", blind("t", "3"))), coordinator.TableFrozen)
			if own.Frozen == nil || own.Frozen.Cause != twophase.CauseReplaced {
				t.Errorf("%s: %+v", name, own.Frozen)
			}
		}
		w.eventually("the table is frozen", func() bool { f := w.info("t").Frozen; return f != nil && f.Cause == twophase.CauseReplaced })
		wantReason(t, name, second(w.try("refused at once", blind("t", "3"))), coordinator.TableFrozen)
		if w.versions("t") != 2 || w.read("t", 1) != before {
			t.Errorf("%s: the new table was written", name)
		}
		_, err := w.catalog.SetMode(w.ctx(), "t", twophase.ModeExclusive)
		if c.mode == twophase.ModeOpen {
			wantReason(t, name+": a look at it", err, coordinator.TableFrozen)
		}
		th, err := w.catalog.Thaw(w.ctx(), "t", false, "it is gone")
		if err != nil || len(th.GivenUp) != map[bool]int{true: 1}[c.pending] {
			t.Errorf("%s: thaw %+v, %v", name, th, err)
		}
		if c.pending {
			o := w.commit("k", blind("t", "2"), blind("beside", "2"))
			if o.Committed.Snapshot == 0 || deliveries(o)["beside"] != 1 {
				t.Errorf("%s: %+v", name, o.Committed)
			}
		}
		// It is never written again; the other table is free.
		wantReason(t, name, second(w.try("closed for good", blind("t", "4"))), coordinator.TableFrozen)
		w.commit("beside", blind("beside", "3"))
		if w.versions("t") != 2 {
			t.Errorf("%s: the new table was written", name)
		}
	}
}

// clock is a boot clock that tests turn forward.
type clock struct {
	mu    sync.Mutex
	extra time.Duration
}

var clockStart = time.Now()

func (c *clock) now() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return time.Since(clockStart) + c.extra
}

func (c *clock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.extra += d
}

// The log holds a version that claims to be ours and cannot be: stop, never guess (R3).
func TestVersionThatClaimsToBeOurs(t *testing.T) {
	t.Parallel()
	w := (&world{}).open(t)
	w.create("t", twophase.ModeOpen)
	w.create("beside", twophase.ModeOpen)
	w.commit("1", blind("t", "1"))
	forged := strings.ReplaceAll(w.read("t", 1), "1.parquet", "forged.parquet")
	w.rawCommit("t", 2, forged)
	own := wantReason(t, "a commit on it", second(w.try("2", blind("t", "2"), blind("beside", "2"))), coordinator.LogContradiction)
	if own.Table == nil || own.Table.Table != "t" {
		t.Errorf("%+v", own.Table)
	}
	own = wantReason(t, "the next one", second(w.try("3", blind("t", "2"))), coordinator.TableFrozen)
	if own.Frozen.Cause != twophase.CauseContradiction {
		t.Errorf("%+v", own.Frozen)
	}
	w.commit("others go on", blind("beside", "3"))
	if n := w.versions("t"); n != 3 {
		t.Errorf("%d versions", n)
	}
	// An operator who says that it was mended, and it was not: the same again.
	if _, err := w.catalog.Thaw(w.ctx(), "t", false, ""); err != nil {
		t.Fatal(err)
	}
	wantReason(t, "after a thaw", second(w.try("4", blind("t", "2"))), coordinator.LogContradiction)
}

// CREATE OR REPLACE TABLE inside one log: what was staged before is refused, and the
// table goes on (R13).
func TestReplaceInsideTheLog(t *testing.T) {
	t.Parallel()
	w := (&world{}).open(t)
	w.create("t", twophase.ModeOpen)
	w.commit("1", blind("t", "1"))
	b := w.begin("before")
	st := w.stage(b.Token, blind("t", "2"))
	w.foreign("t", 2, metaData("33333333-3333-4333-8333-333333333333", schema), remove("1"), add("new"))
	_, err := w.catalog.Commit(w.ctx(), coordinator.CommitRequest{Token: b.Token, Tables: []coordinator.TableParts{parts("t", st.Digest)}})
	if got := wantReason(t, "staged before", err, coordinator.Conflicted).Conflict; got.Rule != twophase.RuleTableReplaced {
		t.Errorf("%+v", got)
	}
	if info := w.info("t"); info.Frozen != nil || info.MetaDataID != "33333333-3333-4333-8333-333333333333" {
		t.Errorf("%+v", info)
	}
	w.commit("after", change("t", readAt(2), remove("new"), add("3")))
}

// checkpointed is a table with a V2 checkpoint in JSON at a version, as another engine
// leaves it behind; with the commits below, and that at the version, cleaned away.
func (w *world) checkpointed(table string, at int, marker int64, files ...string) {
	w.t.Helper()
	var protocol, meta string
	for _, l := range strings.Split(w.read(table, 0), "\n") {
		switch {
		case strings.HasPrefix(l, `{"protocol"`):
			protocol = l
		case strings.HasPrefix(l, `{"metaData"`):
			meta = l
		}
	}
	cp := fmt.Sprintf("{\"checkpointMetadata\":{\"version\":%d}}\n%s\n%s\n", at, protocol, meta)
	if marker > 0 {
		cp += string(txnAction("txcoord/"+w.status().CatalogID, marker))
	}
	for _, f := range files {
		cp += string(add(f))
	}
	key := fmt.Sprintf("%s/_delta_log/%020d.checkpoint.80a083e8-7026-4e79-81be-64bd76c43a11.json", table, at)
	if err := w.objects.PutIfAbsent(w.ctx(), key, []byte(cp)); err != nil {
		w.t.Fatal(err)
	}
	for v := range at + 1 {
		if err := w.objects.Delete(w.ctx(), commitKey(table, v)); err != nil {
			w.t.Fatal(err)
		}
	}
}

func TestCleanedLog(t *testing.T) {
	t.Parallel()
	gate := newGate()
	clock := &clock{}
	w := &world{wrapObjects: gate.over}
	w.cfg.Boot = clock.now
	w.open(t)
	for _, name := range []string{"idle", "busy", "lost", "unmarked"} {
		w.createWith(coordinator.CreateRequest{Name: name, Schema: schema, Mode: twophase.ModeOpen, Properties: map[string]string{"delta.checkpointPolicy": "v2"}})
	}
	w.create("beside", twophase.ModeOpen)
	for _, name := range []string{"idle", "busy", "lost", "unmarked"} {
		w.commit("1 "+name, change(name, blindRead, add("1"), add("2")))
	}
	// Three are written while nobody looks, and their logs cleaned.
	gate.refuse()
	w.catalog.CommitOnce(shortly(t), once("pending", change("busy", readAt(1), remove("2"), add("3")), change("lost", readAt(1), remove("2"), add("3")), blind("beside", "3"))) //nolint:errcheck // its caller gives up
	w.eventually("it is decided", func() bool { return w.info("busy").Pending == 1 })
	for _, name := range []string{"idle", "busy", "lost", "unmarked"} {
		w.foreign(name, 2, remove("1"), add("4"))
		w.foreign(name, 3, add("5"))
	}
	w.checkpointed("idle", 3, 1, "2", "4", "5")
	w.checkpointed("busy", 3, 1, "2", "4", "5")
	w.checkpointed("lost", 3, 1, "4", "5") // somebody removed file 2
	w.checkpointed("unmarked", 3, 0, "2", "4", "5")
	clock.advance(time.Minute)
	gate.release()

	o := w.commit("idle", change("idle", readAt(1), add("6")))
	if deliveries(o)["idle"] != 4 {
		t.Errorf("after a range: %+v", o.Committed)
	}
	_, err := w.try("reads", change("idle", readWhole(1), add("7")))
	wantReason(t, "a reader at a version below the range", err, coordinator.ReadPointTooOld)
	w.commit("reads the end", change("idle", readWhole(4), add("7")))

	w.eventually("the pending change diverges", func() bool { f := w.info("lost").Frozen; return f != nil && f.Cause == twophase.CauseDiverged })
	w.eventually("it is put on the table where it is possible", func() bool { return strings.Contains(w.read("busy", 4), `"3"`) })
	if _, err := w.catalog.Thaw(w.ctx(), "lost", false, ""); err != nil {
		t.Fatal(err)
	}
	w.eventually("the round closes", func() bool {
		o, _, err := w.catalog.Outcome(w.ctx(), coordinator.OutcomeRequest{OutcomeRef: coordinator.OutcomeRef{Key: "pending"}})
		return err == nil && o.Committed != nil && o.Committed.Snapshot != 0
	})
	wantReason(t, "a checkpoint without our marker", second(w.try("unmarked", blind("unmarked", "9"))), coordinator.TableFrozen)
	for name, n := range map[string]int{"lost": 4, "unmarked": 4} {
		if w.read(name, n) != "" {
			t.Errorf("%s was written", name)
		}
	}
}

// Another catalog owns the table; a table that is there twice; names and places.
func TestRegistration(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	other := &world{dir: w.dir}
	plain := func(name string) {
		w.foreign(name, 0, []byte(`{"protocol":{"minReaderVersion":1,"minWriterVersion":2}}`+"\n"), metaData("44444444-4444-4444-8444-444444444444", schema))
		w.foreign(name, 1, add("1"))
	}
	plain("old")
	info, _, err := w.catalog.Register(w.ctx(), coordinator.RegisterRequest{Name: "old", URI: w.uri("old/")})
	if err != nil || info.Version != 1 || info.Mode != twophase.ModeOpen || info.URI != w.uri("old") {
		t.Fatalf("%+v, %v", info, err)
	}
	again, _, err := w.catalog.Register(w.ctx(), coordinator.RegisterRequest{Name: "old", URI: "file:" + w.dir + "//old"})
	if err != nil || again.ID != info.ID {
		t.Errorf("again: %+v, %v", again, err)
	}
	plain("copy")
	_, warnings, err := w.catalog.Register(w.ctx(), coordinator.RegisterRequest{Name: "copy", URI: w.uri("copy")})
	if err != nil || len(warnings) == 0 || !strings.Contains(strings.Join(warnings, " "), "same metaData.id") {
		t.Errorf("a copy: %q, %v", warnings, err)
	}
	plain("gap")
	w.foreign("gap", 3, add("3"))
	w.rawCommit("torn", 0, `{"protocol":{"minReader`)
	plain("retention")
	w.rawCommit("retention", 2, strings.Replace(string(metaData("44444444-4444-4444-8444-444444444444", schema)), `"configuration":{}`, `"configuration":{"delta.logRetentionDuration":"interval 1 hours"}`, 1))
	_ = other
	for name, c := range map[string]struct {
		r      coordinator.RegisterRequest
		reason coordinator.Reason
	}{
		"no table":          {coordinator.RegisterRequest{Name: "x", URI: w.uri("nothing")}, coordinator.NotATable},
		"a gap":             {coordinator.RegisterRequest{Name: "x", URI: w.uri("gap")}, coordinator.LogContradiction},
		"a torn commit":     {coordinator.RegisterRequest{Name: "x", URI: w.uri("torn")}, coordinator.LogContradiction},
		"short retention":   {coordinator.RegisterRequest{Name: "x", URI: w.uri("retention")}, coordinator.TableProperty},
		"outside the roots": {coordinator.RegisterRequest{Name: "x", URI: "file:///elsewhere/t"}, coordinator.InvalidRequest},
		"name is taken":     {coordinator.RegisterRequest{Name: "old", URI: w.uri("gap")}, coordinator.TableExists},
		"place is taken":    {coordinator.RegisterRequest{Name: "x", URI: w.uri("old")}, coordinator.TableExists},
		"no name":           {coordinator.RegisterRequest{URI: w.uri("gap")}, coordinator.InvalidRequest},
		"a URI for a name":  {coordinator.RegisterRequest{Name: "file:///x", URI: w.uri("gap")}, coordinator.InvalidRequest},
		"an id for a name":  {coordinator.RegisterRequest{Name: "t-0123456789abcdef", URI: w.uri("gap")}, coordinator.InvalidRequest},
		"an unknown mode":   {coordinator.RegisterRequest{Name: "x", URI: w.uri("gap"), Mode: 9}, coordinator.InvalidRequest},
	} {
		w.unchanged(name, func() {
			_, _, err := w.catalog.Register(w.ctx(), c.r)
			wantReason(t, name, err, c.reason)
		})
	}
}

func TestOwnership(t *testing.T) {
	t.Parallel()
	objects := sharedObjects(t)
	one, two := &world{objects: objects}, &world{objects: objects}
	one.cfg.Name, two.cfg.Name = "one", "two"
	one.open(t)
	two.open(t)
	one.create("t", twophase.ModeOpen)
	one.commit("1", blind("t", "1"))
	one.settle()
	req := coordinator.RegisterRequest{Name: "mine", URI: one.uri("t")}
	_, _, err := two.catalog.Register(two.ctx(), req)
	own := wantReason(t, "a table of another catalog", err, coordinator.TableOwned)
	if own.Owner == nil || own.Owner.Catalog != one.status().CatalogID {
		t.Errorf("%+v", own.Owner)
	}
	if err := one.catalog.Release(one.ctx(), "t"); err != nil {
		t.Fatal(err)
	}
	if err := one.catalog.Release(one.ctx(), "t"); err == nil {
		t.Error("released twice")
	}
	if _, ok := one.snapshot(0)["t"]; ok {
		t.Error("a released table is in the snapshot")
	}
	// What was committed stays an answer.
	if o := one.commit("1", blind("t", "1")); o.Committed.Snapshot == 0 {
		t.Errorf("%+v", o.Committed)
	}
	if _, _, err = two.catalog.Register(two.ctx(), req); err != nil {
		t.Fatalf("after the release: %v", err)
	}
	two.commit("2", blind("mine", "2"))
	// Back again: change numbers go on above the marker (A20).
	if err := two.catalog.Release(two.ctx(), "mine"); err != nil {
		t.Fatal(err)
	}
	info, _, err := one.catalog.Register(one.ctx(), coordinator.RegisterRequest{Name: "t", URI: one.uri("t")})
	if err != nil || info.Marker != 1 || info.Version != 2 {
		t.Fatalf("registered again: %+v, %v", info, err)
	}
	one.commit("3", blind("t", "3"))
	if log := one.read("t", 3); !strings.Contains(log, `"version":2`) {
		t.Errorf("version 3 has no marker 2: %s", log)
	}
	// The other catalog is gone: take it over.
	_, _, err = two.catalog.Register(two.ctx(), req)
	wantReason(t, "without --take-over", err, coordinator.TableOwned)
	req.TakeOver = true
	if _, _, err := two.catalog.Register(two.ctx(), req); err != nil {
		t.Error(err)
	}
}

func TestReleaseWaitsForWhatIsPending(t *testing.T) {
	t.Parallel()
	gate := newGate()
	w := &world{wrapObjects: gate.over}
	w.open(t)
	w.create("t", twophase.ModeExclusive)
	gate.hold(commitKey("t", 1))
	pending := w.background("k", blind("t", "1"))
	w.eventually("it is decided", func() bool { return w.info("t").Pending == 1 })
	wantReason(t, "release", w.catalog.Release(w.ctx(), "t"), coordinator.ChangesPending)
	gate.release()
	if err := <-pending; err != nil {
		t.Error(err)
	}
	if err := w.catalog.Release(w.ctx(), "t"); err != nil {
		t.Error(err)
	}
}

func sharedObjects(t *testing.T) objstore.Store {
	w := (&world{}).open(t)
	return w.objects
}
