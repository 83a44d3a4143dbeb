package coordinator_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/txcoord/txcoord/coordinator"
	"github.com/txcoord/txcoord/twophase"
)

const (
	wholeTorn = `{"commitInfo":{"timestamp":1,"operation":"WRITE"}}` + "\n"
	tornFile  = "_delta_log/00000000000000000001.json"
)

// tornCommits are what a writer may leave where the next version belongs, and what is said
// of it.
var tornCommits = map[string]struct{ content, ailment, remedy string }{
	"cut":   {wholeTorn + `{"add":{"path":"y`, "is cut off at byte 68, in line 2", "no engine reads past it"},
	"empty": {"", "is empty", "Spark takes an empty file for a commit"},
	"nils":  {strings.Repeat("\x00", 7), "is cut off at byte 7, in line 1", "no engine reads past it"},
	"text":  {"hello\nthere\n", "is not JSON in line 1", "no engine reads past it"},
	"other": {wholeTorn + "{\"add\":{\"size\":1}}\n", "holds no Delta action in line 2 (add.path", "and no engine has read that version"},
}

// saysTorn reports what a text lacks of what one who is to mend the file has to know.
func saysTorn(text, table string, parts ...string) (lacks []string) {
	for _, want := range append(parts, "version 1 of table "+table+" is no whole commit", tornFile) {
		if !strings.Contains(text, want) {
			lacks = append(lacks, want)
		}
	}
	return lacks
}

const mendsTorn = "once it is whole, the table goes on by itself; if its writer is gone for good, "

// A torn commit on an open table stops it: answers, status, list and explanation name the
// version, the file, what is wrong with it, and who mends that. It goes on when the file is
// whole, or gone, and nothing tells of it any more.
func TestATornCommitStopsAnOpenTable(t *testing.T) {
	t.Parallel()
	w := (&world{}).open(t)
	for name, c := range tornCommits {
		t.Run(name, func(t *testing.T) {
			w.create(name, twophase.ModeOpen)
			w.settle()
			w.rawCommit(name, 1, c.content)
			own := wantReason(t, "a commit", second(w.try(name, blind(name, "1"))), coordinator.LogContradiction)
			if lacks := saysTorn(own.Message, name, c.ailment, mendsTorn, c.remedy); lacks != nil || own.Table == nil || own.Table.Version != 1 || own.Table.File != tornFile {
				t.Errorf("%s (%+v) lacks %q", own.Message, own.Table, lacks)
			}
			st := w.status()
			if len(st.Troubles) != 1 || st.Troubles[0].Place != w.uri(name) || st.Troubles[0].Since.IsZero() ||
				saysTorn(st.Troubles[0].Text, name, c.ailment) != nil || !strings.Contains(st.Troubles[0].Remedy, c.remedy) {
				t.Errorf("the status has %+v", st.Troubles)
			}
			if info := w.info(name); !info.Torn || saysTorn(info.Stopped, name, c.ailment, c.remedy) != nil {
				t.Errorf("listed as %+v", info)
			}
			f := found(t, w.explain(name), coordinator.FoundStopped)
			if f.Text != st.Troubles[0].Text || f.Remedy != st.Troubles[0].Remedy || f.Version != 1 || f.File != tornFile || !f.Blocks || f.Since.IsZero() {
				t.Errorf("explained by %+v", f)
			}
			if name == "cut" { // its writer comes back
				w.put(commitKey(name, 1), wholeTorn)
			} else {
				w.drop(commitKey(name, 1))
			}
			if st := w.status(); len(st.Troubles) != 0 || w.info(name).Stopped != "" {
				t.Errorf("mended, and there are %+v", st.Troubles)
			}
			w.commit(name, blind(name, "1"))
		})
	}
}

// A caller who does not wait until the table is frozen is told what it waits for.
func TestATornCommitIsWhatIsWaitedFor(t *testing.T) {
	t.Parallel()
	w := &world{}
	w.cfg.Limits.FreezeAfter = time.Hour
	w.open(t)
	w.create("t", twophase.ModeExclusive)
	w.settle()
	w.rawCommit("t", 1, "")
	r := once("k", blind("t", "1"))
	r.WaitLimit = time.Millisecond
	w.eventually("it is told", func() bool {
		o, _, err := w.catalog.CommitOnce(w.ctx(), r)
		if errors.Is(err, &coordinator.Error{Reason: coordinator.OutcomeUnknown}) {
			return false // not even decided in that time
		}
		if err != nil || o.Committed == nil || o.Committed.Snapshot != 0 {
			t.Fatalf("%+v, %v", o.Committed, err)
		}
		return saysTorn(o.Committed.PendingReason, "t", "publication goes on", "is empty", mendsTorn) == nil
	})
	w.drop(commitKey("t", 1))
	r.WaitLimit = 0
	if o, _, err := w.catalog.CommitOnce(w.ctx(), r); err != nil || o.Committed.Snapshot == 0 {
		t.Errorf("%+v, %v", o.Committed, err)
	}
}

// On a table whose log is not looked at before a decision it freezes what was decided, as
// stalled: that says the same, and thaws by itself.
func TestATornCommitStallsAnExclusiveTable(t *testing.T) {
	t.Parallel()
	w := &world{}
	w.cfg.Limits.FreezeAfter = time.Millisecond
	w.open(t)
	for name, c := range tornCommits {
		t.Run(name, func(t *testing.T) {
			w.create(name, twophase.ModeExclusive)
			w.settle()
			w.rawCommit(name, 1, c.content)
			o := w.commit(name, blind(name, "1"))
			if lacks := saysTorn(o.Committed.PendingReason, name, "is frozen: stalled", c.ailment, mendsTorn, c.remedy); o.Committed.Snapshot != 0 || lacks != nil || strings.Count(o.Committed.PendingReason, tornFile) != 1 {
				t.Errorf("answered with %q, which lacks %q", o.Committed.PendingReason, lacks)
			}
			own := wantReason(t, "a commit", second(w.try(name+" 2", blind(name, "2"))), coordinator.TableFrozen)
			if lacks := saysTorn(own.Message, name, c.ailment, mendsTorn, c.remedy); lacks != nil {
				t.Errorf("%s lacks %q", own.Message, lacks)
			}
			st := w.status()
			if len(st.Troubles) != 0 || len(st.Frozen) != 1 || saysTorn(st.Frozen[0].Detail, name, c.ailment, c.remedy) != nil {
				t.Errorf("the status has %+v, %+v", st.Troubles, st.Frozen)
			}
			e := w.explain(name)
			f := found(t, e, coordinator.FoundFrozen)
			if saysTorn(f.Text, name, "its log cannot be gone on with", c.ailment) != nil || strings.Contains(f.Text, mendsTorn) ||
				!strings.HasPrefix(f.Remedy, mendsTorn) || !strings.Contains(f.Remedy, c.remedy) || f.Version != 1 || f.File != tornFile {
				t.Errorf("explained by %+v", f)
			}
			for _, code := range codes(e) {
				if code == coordinator.FoundStopped {
					t.Errorf("said twice: %+v", e.Findings)
				}
			}
			w.drop(commitKey(name, 1))
			w.eventually("it thaws", func() bool { return len(w.status().Frozen) == 0 })
			w.commit(name+" 3", blind(name, "3"))
		})
	}
}
