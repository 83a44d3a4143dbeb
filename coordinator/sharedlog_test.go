package coordinator_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/txcoord/txcoord/coordinator"
	"github.com/txcoord/txcoord/tables/logstore"
	"github.com/txcoord/txcoord/twophase"
)

// A table of this mode is written as Spark would write it, from version 0 on.
func TestDeltaStorage(t *testing.T) {
	t.Parallel()
	l := newLogEntries()
	w := logStoreWorld(t, l).open(t)
	if info := w.create("t", twophase.ModeDeltaStorage); info.Mode != twophase.ModeDeltaStorage {
		t.Errorf("%+v", info)
	}
	w.commit("one", blind("t", "a"))
	s := w.spark(l, "t", w.objects)
	if v := w.sparkCommits(s, "b"); v != 2 {
		t.Errorf("Spark writes version %d", v)
	}
	w.commit("two", blind("t", "c"))
	if got := w.versions("t"); got != 4 {
		t.Errorf("%d versions", got)
	}
	for v := range int64(4) {
		e, err := l.Get(w.ctx(), "file:/w/t", fmt.Sprintf("%020d.json", v))
		if err != nil || !e.Complete || e.Expires < time.Now().Add(23*time.Hour).Unix() {
			t.Errorf("entry of version %d: %+v, %v", v, e, err)
		}
		if got := w.object("t/_delta_log/" + e.TempPath); got != w.read("t", int(v)) {
			t.Errorf("version %d and its temporary file differ", v)
		}
	}
	// What Spark claims and does not put is seen before the next decision.
	left := logstore.Entry{TablePath: "file:/w/t", FileName: fmt.Sprintf("%020d.json", 4), TempPath: ".tmp/left"}
	if err := w.objects.Put(w.ctx(), "t/_delta_log/.tmp/left", lines(sparkCommit("d"), remove("a"))); err != nil {
		t.Fatal(err)
	}
	l.put(left)
	_, err := w.try("removes it too", change("t", readAt(3), remove("a")))
	if c := wantReason(t, "a removal of what is gone", err, coordinator.Conflicted).Conflict; c.Version != 4 {
		t.Errorf("%+v", c)
	}
	if e, _ := l.Newest(w.ctx(), "file:/w/t"); !e.Complete || w.versions("t") != 5 {
		t.Errorf("%+v, %d versions", e, w.versions("t"))
	}
	w.check(closedRun{})
}

// The mode is refused where it would protect nobody, with the remedy.
func TestDeltaStorageIsRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	_, _, err := w.catalog.Create(w.ctx(), coordinator.CreateRequest{Name: "t", URI: w.uri("t"), Schema: schema, Mode: twophase.ModeDeltaStorage})
	if f := wantReason(t, "no log store", err, coordinator.InvalidRequest).Field; f.Field != "mode" || !strings.Contains(f.Remedy, "--log-store") {
		t.Errorf("%+v", f)
	}
	l := newLogEntries()
	s := logStoreWorld(t, l).open(t)
	_, _, err = s.catalog.Create(s.ctx(), coordinator.CreateRequest{Name: "t", URI: s.uri("a b"), Schema: schema, Mode: twophase.ModeDeltaStorage})
	if f := wantReason(t, "a space", err, coordinator.InvalidRequest).Field; f.Field != "uri" {
		t.Errorf("%+v", f)
	}
	s.create("t", twophase.ModeOpen)
	alias := logstore.Entry{TablePath: "file:/w/t/", FileName: fmt.Sprintf("%020d.json", 0), Complete: true}
	l.put(alias)
	_, err = s.catalog.SetMode(s.ctx(), "t", twophase.ModeDeltaStorage)
	if f := wantReason(t, "entries under another key", err, coordinator.InvalidRequest).Field; f.Field != "uri" || !strings.Contains(f.Remedy, "one scheme") {
		t.Errorf("%+v", f)
	}
	l.mu.Lock()
	clear(l.all)
	l.mu.Unlock()
	if info, err := s.catalog.SetMode(s.ctx(), "t", twophase.ModeDeltaStorage); err != nil || info.Mode != twophase.ModeDeltaStorage {
		t.Fatalf("%+v, %v", info, err)
	}
	s.commit("k", blind("t", "a"))
	if e, err := l.Newest(s.ctx(), "file:/w/t"); err != nil || !e.Complete {
		t.Errorf("%+v, %v", e, err)
	}
	// A server without the log store does not start on such a catalog.
	s.stop()
	s.cfg.LogStore = nil
	wantReason(t, "started without the log store", s.tryStart(), coordinator.WrongMode)
}

// Entries of a table that was dropped stop the new one, and say so.
func TestDeltaStorageOldEntries(t *testing.T) {
	t.Parallel()
	l := newLogEntries()
	w := logStoreWorld(t, l).open(t)
	old := logstore.Entry{TablePath: "file:/w/t", FileName: fmt.Sprintf("%020d.json", 0), TempPath: ".tmp/x", Complete: true}
	l.put(old)
	_, _, err := w.catalog.Create(w.ctx(), coordinator.CreateRequest{Name: "t", URI: w.uri("t"), Schema: schema, Mode: twophase.ModeDeltaStorage})
	if f := wantReason(t, "old entries", err, coordinator.InvalidRequest).Field; f.Field != "uri" || !strings.Contains(f.Remedy, "remove the entries of file:/w/t") {
		t.Errorf("%+v", f)
	}
}

// A writer that goes straight to the object store takes a version that we have claimed:
// our claim is void, its commit stays, ours comes above it. That nothing is lost is only
// true of the two of us, so a description warns.
func TestDeltaStorageBesideOthers(t *testing.T) {
	t.Parallel()
	l := newLogEntries()
	w := logStoreWorld(t, l).open(t)
	w.create("t", twophase.ModeDeltaStorage)
	var once sync.Once
	l.hook = func(_ context.Context, op string, after bool) error {
		if op == "claim" && after {
			once.Do(func() { w.foreign("t", 1, add("theirs")) })
		}
		return nil
	}
	if o := w.commit("k", blind("t", "ours")); deliveries(o)["t"] != 2 {
		t.Errorf("%+v", o.Committed)
	}
	if got := w.read("t", 1); !strings.Contains(got, "theirs") {
		t.Errorf("version 1 is %s", got)
	}
	w.isWholeToSparkBut(l, 1)
	w.foreign("t", 3, add("straight"))
	w.commit("absorbs it", blind("t", "more"))
	w.foreign("t", 5, add("straight again"))
	if _, err := w.try("sees it", change("t", readAt(4), remove("ours"))); err != nil {
		t.Error(err)
	}
	w.foreign("t", 7, add("the last"))
	w.eventually("the last one is recorded", func() bool {
		_, err := w.try("loses", change("t", readAt(0), txnAction("a", 1), remove("ours")))
		return err != nil && w.info("t").Version == 7
	})
	d, err := w.catalog.Describe(w.ctx(), "t")
	if err != nil || !slices.ContainsFunc(d.Warnings, func(s string) bool { return strings.Contains(s, "without the log store") }) {
		t.Errorf("%v, %v", d.Warnings, err)
	}
	w.check(closedRun{})
}

// isWholeToSparkBut wants all entries to be complete, and all but one to be of their commits.
func (w *world) isWholeToSparkBut(l *logEntries, void int64) {
	w.t.Helper()
	for key, e := range l.copy() {
		name := strings.TrimPrefix(key, e.TablePath+" ")
		same := w.object("t/_delta_log/"+e.TempPath) == w.object("t/_delta_log/"+name)
		if !e.Complete || same == (name == fmt.Sprintf("%020d.json", void)) {
			w.t.Errorf("%+v, the same: %v", e, same)
		}
	}
}

// A table that a transaction creates is shared from its first version on, and one at a
// place with old entries is refused before the decision.
func TestDeltaStorageMadeInATransaction(t *testing.T) {
	t.Parallel()
	l := newLogEntries()
	w := logStoreWorld(t, l).open(t)
	w.create("other", twophase.ModeDeltaStorage)
	made := func(name string) coordinator.OnceTable {
		return coordinator.OnceTable{Table: name, Actions: add("first"), Create: &coordinator.NewTable{URI: w.uri(name), Schema: schema, Mode: twophase.ModeDeltaStorage}}
	}
	w.commit("k", made("t"), blind("other", "a"))
	if e, err := l.Newest(w.ctx(), "file:/w/t"); err != nil || !e.Complete || e.FileName != fmt.Sprintf("%020d.json", 0) {
		t.Errorf("%+v, %v", e, err)
	}
	s := w.spark(l, "t", w.objects)
	w.sparkCommits(s, "b")
	w.commit("more", blind("t", "c"))
	w.isWholeToSpark(l, s, map[string]int{"first": 1, "b": 1, "c": 1})
	old := logstore.Entry{TablePath: "file:/w/again", FileName: fmt.Sprintf("%020d.json", 3), TempPath: ".tmp/x", Complete: true}
	l.put(old)
	_, err := w.try("old entries", made("again"), blind("other", "b"))
	if f := wantReason(t, "old entries", err, coordinator.InvalidRequest).Field; f.Field != "uri" || !strings.Contains(f.Remedy, "remove the entries") {
		t.Errorf("%+v", f)
	}
}
