package coordinator_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/txcoord/txcoord/coordinator"
	"github.com/txcoord/txcoord/twophase"
)

// TestALossToAnotherEngineNamesIt: the answer to a commit that lost to a foreign one says who
// wrote that version, doing what, and when, as its commitInfo says it; what is missing there
// is left out. tx why says the same, also when the version was read by another process.
func TestALossToAnotherEngineNamesIt(t *testing.T) {
	t.Parallel()
	w := (&world{}).open(t)
	at := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	for name, c := range map[string]struct{ info, says, later, why string }{
		"all":       {`"engineInfo":"delta-rs:1.6.6","operation":"DELETE","timestamp":%d`, "a commit of delta-rs:1.6.6 (DELETE), at 2026-11-30T12:00:00Z", "a commit of delta-rs:1.6.6", "delta-rs:1.6.6 (DELETE), version 2 of the table, at 2026-11-30T12:00:00Z"},
		"engine":    {`"engineInfo":"spark"`, "a commit of spark", "a commit of spark", "spark, version 2 of the table"},
		"no engine": {`"operation":"WRITE","timestamp":%d`, "a commit of an engine that does not name itself (WRITE), at 2026-11-30T12:00:00Z", "a commit of an engine that does not name itself", "an engine that does not name itself (WRITE), version 2 of the table, at 2026-11-30T12:00:00Z"},
		"nonsense":  {`"operation":7,"timestamp":99999999999999999,"engineInfo":"x\ny"`, "a commit of x\ny", "a commit of x\ny", "x\ny, version 2 of the table"},
		"nothing":   {``, "a commit of an engine that does not name itself", "a commit of an engine that does not name itself", "an engine that does not name itself, version 2 of the table"},
	} {
		t.Run(name, func(t *testing.T) {
			w.create(name, twophase.ModeOpen)
			w.commit("seed "+name, blind(name, "1"))
			info := strings.ReplaceAll(c.info, "%d", fmt.Sprint(at.UnixMilli()))
			w.rawCommit(name, 2, `{"commitInfo":{`+info+"}}\n"+string(remove("1")))
			lose := func() error { return second(w.try("lost "+name, change(name, readAt(1), remove("1")))) }
			own := wantReason(t, name, lose(), coordinator.Conflicted)
			if want := "; it lost to version 2, which is " + c.says; !strings.HasSuffix(own.Message, want) || !own.Conflict.Winner.IsZero() {
				t.Errorf("%q, want %q at its end", own.Message, want)
			}
			w.restart() // which has not read that version
			if own := wantReason(t, name, lose(), coordinator.Conflicted); !strings.HasSuffix(own.Message, "which is "+c.later) {
				t.Errorf("%q after a restart, want %q at its end", own.Message, c.later)
			}
			x := w.explainTxn(coordinator.OutcomeRef{Key: "lost " + name}, nil)
			if x.Winner == nil || x.Winner.String() != c.why || x.Winner.At.IsZero() == strings.Contains(c.says, ", at ") {
				t.Errorf("tx why names %+v, want %q", x.Winner, c.why)
			}
		})
	}
}

// TestALossToATransactionNamesNoEngine: the winner is named already.
func TestALossToATransactionNamesNoEngine(t *testing.T) {
	t.Parallel()
	w := (&world{}).open(t)
	w.create("t", twophase.ModeOpen)
	w.commit("seed", blind("t", "1"))
	w.commit("winner", change("t", readAt(1), remove("1")))
	own := wantReason(t, "the second", second(w.try("k", change("t", readAt(1), remove("1")))), coordinator.Conflicted)
	if own.Conflict.Winner.IsZero() || strings.Contains(own.Message, "a commit of") {
		t.Errorf("%s", own.Message)
	}
}

// TestOfManyForeignVersionsTheNewestAreKnown: what a table keeps of authors is bounded.
func TestOfManyForeignVersionsTheNewestAreKnown(t *testing.T) {
	t.Parallel()
	w := (&world{}).open(t)
	w.create("t", twophase.ModeOpen)
	w.commit("seed", change("t", blindRead, add("1"), add("2")))
	const more = 40
	for v := 2; v < more; v++ {
		actions := string(add(fmt.Sprint("f", v)))
		if v == 2 {
			actions = string(remove("1"))
		}
		if v == more-1 {
			actions = string(remove("2"))
		}
		w.rawCommit("t", v, `{"commitInfo":{"engineInfo":"other","operation":"OP"}}`+"\n"+actions)
	}
	for path, operation := range map[string]bool{"1": false, "2": true} {
		own := wantReason(t, path, second(w.try(path, change("t", readAt(1), remove(path)))), coordinator.Conflicted)
		if strings.Contains(own.Message, "(OP)") != operation {
			t.Errorf("%s: %s", path, own.Message)
		}
	}
}
