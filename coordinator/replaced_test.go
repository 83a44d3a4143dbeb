package coordinator_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/txcoord/txcoord/coordinator"
	"github.com/txcoord/txcoord/twophase"
)

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
			w.abandoned("t", once("k", blind("t", "2"), blind("beside", "2")))
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
		own := wantReason(t, name+": too early", w.resolve("t"), coordinator.TooEarly)
		if own.RetryAfter < 10*time.Minute {
			t.Errorf("%s: wait %s", name, own.RetryAfter)
		}
		clock.advance(11 * time.Minute)
		th, err := w.catalog.Resolve(w.ctx(), coordinator.ResolveRequest{Table: "t", Reason: "it is gone"})
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
	w.abandoned("busy", once("pending", change("busy", readAt(1), remove("2"), add("3")), change("lost", readAt(1), remove("2"), add("3")), blind("beside", "3")))
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
	if err := w.resolve("lost"); err != nil {
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
