package coordinator_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"math"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/txcoord/txcoord/coordinator"
	"github.com/txcoord/txcoord/twophase"
)

const timestamps = "delta.enableInCommitTimestamps"

// timeOf is a version's in-commit timestamp, 0 if it has none; it has to be first.
func (w *world) timeOf(table string, v int) int64 {
	w.t.Helper()
	first, _, _ := bytes.Cut([]byte(w.read(table, v)), []byte("\n"))
	var line struct {
		CommitInfo *struct{ InCommitTimestamp int64 }
	}
	if err := json.Unmarshal(first, &line); err != nil || line.CommitInfo == nil {
		w.t.Fatalf("%s@%d: the first line is %s", table, v, first)
	}
	return line.CommitInfo.InCommitTimestamp
}

func (w *world) featured(name string, properties ...string) coordinator.TableInfo {
	w.t.Helper()
	r := coordinator.CreateRequest{Name: name, Schema: schema, Mode: twophase.ModeOpen, Properties: map[string]string{}}
	for _, p := range properties {
		r.Properties[p] = "true"
	}
	return w.createWith(r)
}

// The versions that one transaction makes have one time, on all tables that have the
// feature.
func TestInCommitTimestampsLineUp(t *testing.T) {
	said := &logged{}
	w := &world{files: true}
	w.cfg.Log = said.logger()
	w.open(t)
	w.featured("a", timestamps)
	w.featured("b", timestamps)
	w.featured("c")
	for v := 1; v <= 3; v++ {
		o := w.commit(fmt.Sprint("both ", v), blind("a", fmt.Sprint("f", v)), blind("b", fmt.Sprint("f", v)), blind("c", fmt.Sprint("f", v)))
		if got := w.timeOf("a", v); got == 0 || got != w.timeOf("b", v) || got <= w.timeOf("a", v-1) {
			t.Errorf("version %d: times %d and %d after %d", v, got, w.timeOf("b", v), w.timeOf("a", v-1))
		}
		if w.timeOf("c", v) != 0 || o.Committed == nil {
			t.Errorf("a table without the feature has time %d", w.timeOf("c", v))
		}
		if v == 2 {
			w.restart() // the next version is rendered on a table that was read again
		}
	}
	if said.has("in-commit timestamp") {
		t.Error("the log says that tables are not aligned, and they are")
	}
	// A foreign writer's clock is an hour ahead.
	ahead := time.Now().Add(time.Hour).UnixMilli()
	w.rawCommit("b", 4, fmt.Sprintf(`{"commitInfo":{"inCommitTimestamp":%d}}`+"\n%s", ahead, add("foreign")))
	w.commit("after", blind("a", "g"), blind("b", "g"))
	if a, b := w.timeOf("a", 4), w.timeOf("b", 5); a >= ahead || b != ahead+1 {
		t.Errorf("times %d and %d, want a's own and %d", a, b, ahead+1)
	}
	if !said.has("in-commit timestamp is not its round's") || !said.has("/b") {
		t.Error("the log does not say that b is not aligned")
	}
}

// A foreign writer's in-commit timestamp may be any: the line that says so can be written as JSON.
func TestFarTimestampsInTheLog(t *testing.T) {
	for at, want := range map[int64]string{
		253_402_300_800_000: "10000-01-01T00:00:00.001Z",
		math.MaxInt64:       "292278994-08-17T07:12:55.807Z",
	} {
		said := &logged{}
		w := &world{files: true}
		w.cfg.Log = slog.New(slog.NewJSONHandler(said, nil))
		w.open(t)
		w.featured("b", timestamps)
		w.rawCommit("b", 1, fmt.Sprintf(`{"commitInfo":{"inCommitTimestamp":%d}}`+"\n%s", at, add("foreign")))
		w.commit("after", blind("b", "g"))
		if !said.has("in-commit timestamp is not its round's", `"in_commit_timestamp":"`+want+`"`) || said.has("!ERROR") {
			t.Errorf("%d: %v", at, said.lines)
		}
	}
}

// The versions of a round come one millisecond after the other, the last at its time.
func TestInCommitTimestampsOfOneRound(t *testing.T) {
	w := newWorld(t)
	w.createWith(coordinator.CreateRequest{
		Name: "a", Schema: schema, Mode: twophase.ModeOpen, OneTxnPerVersion: true,
		Properties: map[string]string{timestamps: "true"},
	})
	w.featured("b", timestamps)
	var all sync.WaitGroup
	for i := range 12 {
		all.Go(func() { w.commit(fmt.Sprint(i), blind("a", fmt.Sprint("f", i)), blind("b", fmt.Sprint("f", i))) })
	}
	all.Wait()
	rounds := map[string]int64{}
	for v := 1; v < w.versions("b"); v++ {
		rounds[w.round("b", v)] = max(rounds[w.round("b", v)], w.timeOf("b", v))
	}
	last, before, n := int64(0), w.timeOf("a", 0), int64(0) // before: where the round below ended
	for v := 1; v < w.versions("a"); v++ {
		now, round := w.timeOf("a", v), w.round("a", v)
		if n++; now <= last {
			t.Errorf("version %d: time %d after %d", v, now, last)
		}
		if last = now; v+1 < w.versions("a") && w.round("a", v+1) == round {
			continue
		}
		// Rounds that follow each other within fewer milliseconds than they have versions
		// have no room to end alike.
		if want := max(rounds[round], before+n); now != want {
			t.Errorf("round %s of %d versions ends at %d on a, want %d (b ends at %d, the round below at %d)", round, n, now, want, rounds[round], before)
		}
		before, n = now, 0
	}
	t.Logf("%d versions in %d rounds", w.versions("a")-1, len(rounds))
}

// round is the one that a version of ours belongs to.
func (w *world) round(table string, v int) string {
	w.t.Helper()
	var line struct {
		CommitInfo struct{ Tags map[string]string }
	}
	first, _, _ := bytes.Cut([]byte(w.read(table, v)), []byte("\n"))
	if err := json.Unmarshal(first, &line); err != nil {
		w.t.Fatal(err)
	}
	return line.CommitInfo.Tags["txcoord.round"]
}

// rows are the files of a version with their row ids, and the mark if it is there.
func (w *world) rows(table string, v int) (out []string) {
	w.t.Helper()
	for line := range bytes.Lines([]byte(w.read(table, v))) {
		var l map[string]struct {
			Path           string
			BaseRowID      *int64 `json:"baseRowId"`
			Version        *int64 `json:"defaultRowCommitVersion"`
			Domain, Config string
			Configuration  json.RawMessage
		}
		if err := json.Unmarshal(line, &l); err != nil {
			w.t.Fatal(err)
		}
		for kind, a := range l {
			switch {
			case a.BaseRowID != nil:
				out = append(out, fmt.Sprintf("%s %s %d@%d", kind, a.Path, *a.BaseRowID, *a.Version))
			case a.Path != "":
				out = append(out, kind+" "+a.Path)
			case a.Domain == "delta.rowTracking":
				out = append(out, string(a.Configuration))
			}
		}
	}
	return out
}

// Row ids are given out where a transaction is published, beside foreign writers and
// across a restart.
func TestRowIDsAreGivenOut(t *testing.T) {
	w := newWorld(t)
	w.featured("a", "delta.enableRowTracking")
	check := func(v int, want ...string) {
		t.Helper()
		if diff := cmp.Diff(want, w.rows("a", v)); diff != "" {
			t.Errorf("version %d (-want +got):\n%s", v, diff)
		}
	}
	w.commit("1", blind("a", "f1"))
	check(1, "add f1 0@1", `"{\"rowIdHighWaterMark\":0}"`)
	w.foreign("a", 2, []byte(`{"add":{"path":"other","partitionValues":{},"size":1,"modificationTime":1,"dataChange":true,"stats":"{\"numRecords\":10}","baseRowId":1,"defaultRowCommitVersion":2}}`+"\n"),
		[]byte(`{"domainMetadata":{"domain":"delta.rowTracking","configuration":"{\"rowIdHighWaterMark\":10}","removed":false}}`+"\n"))
	w.commit("2", blind("a", "f2"))
	check(3, "add f2 11@3", `"{\"rowIdHighWaterMark\":11}"`)
	w.restart()
	w.commit("3", change("a", readAt(3), remove("other"), add("f3")))
	check(4, "remove other 1@2", "add f3 12@4", `"{\"rowIdHighWaterMark\":12}"`)
	_, err := w.try("4", change("a", readAt(4), []byte(`{"add":{"path":"x","partitionValues":{},"size":1,"modificationTime":1,"dataChange":true}}`+"\n")))
	wantReason(t, "an add without numRecords", err, coordinator.InvalidAction)
}

// A transaction switches in-commit timestamps on: its version says so.
func TestInCommitTimestampsBegin(t *testing.T) {
	w := newWorld(t)
	info := w.featured("a")
	w.commit("1", blind("a", "f1"))
	meta := fmt.Sprintf(`{"metaData":{"id":%q,"format":{"provider":"parquet","options":{}},"schemaString":%q,"partitionColumns":[],"configuration":{%q:"true"}}}`+"\n", info.MetaDataID, schema, timestamps)
	w.commit("2", change("a", readAt(1), []byte(`{"protocol":{"minReaderVersion":1,"minWriterVersion":7,"writerFeatures":["appendOnly","invariants","inCommitTimestamp"]}}`+"\n"), []byte(meta)))
	w.commit("3", blind("a", "f3"))
	begun := w.timeOf("a", 2)
	for _, part := range []string{`"delta.inCommitTimestampEnablementVersion":"2"`, fmt.Sprintf(`"delta.inCommitTimestampEnablementTimestamp":"%d"`, begun)} {
		if !bytes.Contains([]byte(w.read("a", 2)), []byte(part)) {
			t.Errorf("%s is not in\n%s", part, w.read("a", 2))
		}
	}
	if begun == 0 || w.timeOf("a", 3) <= begun {
		t.Errorf("times %d, %d", begun, w.timeOf("a", 3))
	}
}
