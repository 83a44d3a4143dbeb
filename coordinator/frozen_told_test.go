package coordinator_test

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/txcoord/txcoord/coordinator"
	"github.com/txcoord/txcoord/twophase"
)

// What freezes tables, and an operator's word on them, is in the log of the server that
// wrote it down: once, and not again after a start that reads the same journal.
func TestFreezesAreLogged(t *testing.T) {
	t.Parallel()
	gate := newGate()
	var log, others bytes.Buffer
	w := &world{wrapObjects: gate.over}
	w.cfg.SharedStore, w.cfg.Address = true, "127.0.0.1:1" // which the server has after a restart, too
	w.cfg.Log = slog.New(slog.NewJSONHandler(&log, nil))
	w.open(t)
	w.create("t", twophase.ModeOpen)
	w.create("beside", twophase.ModeOpen)
	w.commit("seed", change("t", blindRead, add("1"), add("2")), blind("beside", "1"))
	w.settle()
	gate.hold(commitKey("t", 2))
	w.abandoned("t", once("k", change("t", readAt(1), remove("1"), add("3")), blind("beside", "2")))
	w.foreign("t", 2, remove("1"), add("4"))
	gate.release()
	w.eventually("both are frozen", func() bool { return w.info("t").Frozen != nil && w.info("beside").Frozen != nil })
	other := w.replica(t, func(r *world) {
		r.cfg.Address, r.cfg.Log = "127.0.0.1:2", slog.New(slog.NewJSONHandler(&others, nil))
	})
	for range 2 { // which changes nothing the second time
		if _, err := w.catalog.FreezeTable(w.ctx(), "beside", "audit"); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := w.catalog.UnfreezeTable(w.ctx(), "beside", "audit done"); err != nil {
		t.Fatal(err)
	}
	if _, err := w.catalog.Resolve(w.ctx(), coordinator.ResolveRequest{Table: "t", Reason: "only looks", Preview: true}); err != nil {
		t.Fatal(err)
	}
	if _, err := w.catalog.Resolve(w.ctx(), coordinator.ResolveRequest{Table: "t", Reason: "looked at it"}); err != nil {
		t.Fatal(err)
	}
	if _, err := other.catalog.UnfreezeTable(w.ctx(), "beside", "which folds all that"); err != nil {
		t.Fatal(err)
	}
	other.stop()
	w.stop()
	w.start()
	w.stop()
	want := []freezeLine{
		{Level: "WARN", Msg: "a decided change became impossible; its tables are frozen", Table: w.uri("t"), Version: 2, Cause: "diverged", Tables: 2, Detail: "path missing 1"},
		{Level: "WARN", Msg: "an operator froze the table", Table: w.uri("beside"), Version: 1, Cause: "operator", Reason: "audit"},
		{Level: "INFO", Msg: "an operator unfroze the table", Table: w.uri("beside"), Version: 1, Reason: "audit done"},
		{Level: "INFO", Msg: "an operator resolved the table", Table: w.uri("t"), Version: 2, Reason: "looked at it"},
	}
	if diff := cmp.Diff(want, freezeLines(t, &log)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got := freezeLines(t, &others); len(got) > 0 {
		t.Errorf("the other server says it, too: %+v", got)
	}
}

type freezeLine struct {
	Level, Msg, Table, Cause, Detail, Reason string
	Version, Tables                          int64
}

func freezeLines(t *testing.T, log *bytes.Buffer) (out []freezeLine) {
	t.Helper()
	for line := range bytes.Lines(log.Bytes()) {
		var l freezeLine
		if err := json.Unmarshal(line, &l); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		if strings.HasPrefix(l.Msg, "an operator ") || strings.HasPrefix(l.Msg, "a decided change ") {
			out = append(out, l)
		}
	}
	return out
}
