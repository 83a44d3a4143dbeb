package coordinator_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/txcoord/txcoord/coordinator"
	"github.com/txcoord/txcoord/tables/objstore"
	"github.com/txcoord/txcoord/twophase"
)

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
	plain("hidden")
	_, warnings, err = w.catalog.Register(w.ctx(), coordinator.RegisterRequest{Name: "hidden", URI: w.uri("hidden"), Shows: func(name string) bool { return name == "copy" }})
	if text := strings.Join(warnings, " "); err != nil || !strings.Contains(text, "table copy") || !strings.Contains(text, "another table") || strings.Contains(text, "table old") {
		t.Errorf("a copy of what is not shown: %q, %v", warnings, err)
	}
	var taken *coordinator.Error
	if _, _, err := w.catalog.Register(w.ctx(), coordinator.RegisterRequest{Name: "within", URI: w.uri("old/within")}); !errors.As(err, &taken) || taken.Table == nil || taken.Table.Table != "old" {
		t.Errorf("a place within a table: %v, about %+v", err, taken)
	}
	plain("gap")
	w.foreign("gap", 3, add("3"))
	w.rawCommit("torn", 0, `{"protocol":{"minReader`)
	plain("retention")
	w.rawCommit("retention", 2, strings.Replace(string(metaData("44444444-4444-4444-8444-444444444444", schema)), `"configuration":{}`, `"configuration":{"delta.logRetentionDuration":"interval 1 hours"}`, 1))
	_ = other
	link(t, filepath.Join(w.dir, "gap", "_delta_log"), filepath.Join(w.dir, "linked", "_delta_log"))
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
		"inside a table":    {coordinator.RegisterRequest{Name: "x", URI: w.uri("old/inner")}, coordinator.InvalidRequest},
		"around a table":    {coordinator.RegisterRequest{Name: "x", URI: "file://" + w.dir}, coordinator.InvalidRequest},
		"in a log":          {coordinator.RegisterRequest{Name: "x", URI: w.uri("gap/_delta_log/t")}, coordinator.InvalidRequest},
		"in our own folder": {coordinator.RegisterRequest{Name: "x", URI: w.uri("_txcoord/default/t")}, coordinator.InvalidRequest},
		"a log elsewhere":   {coordinator.RegisterRequest{Name: "x", URI: w.uri("linked")}, coordinator.InvalidRequest},
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
	if err := one.catalog.Release(one.ctx(), "t", false); err != nil {
		t.Fatal(err)
	}
	if err := one.catalog.Release(one.ctx(), "t", false); err != nil {
		t.Errorf("the same release again: %v", err)
	}
	wantReason(t, "a release of what was never there", one.catalog.Release(one.ctx(), "never", false), coordinator.TableNotFound)
	wantReason(t, "a look at a released table", second(one.catalog.Table(one.ctx(), "t")), coordinator.TableNotFound)
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
	if err := two.catalog.Release(two.ctx(), "mine", false); err != nil {
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
	if e := wantReason(t, "without --take-over", err, coordinator.TableOwned); !strings.Contains(e.Message, "also where it is not listed any more") {
		t.Errorf("a release that broke off is not thought of: %s", e.Message)
	}
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
	wantReason(t, "release", w.catalog.Release(w.ctx(), "t", false), coordinator.ChangesPending)
	gate.release()
	if err := <-pending; err != nil {
		t.Error(err)
	}
	if err := w.catalog.Release(w.ctx(), "t", false); err != nil {
		t.Error(err)
	}
}

func sharedObjects(t *testing.T) objstore.Store {
	w := (&world{}).open(t)
	return w.objects
}

// link makes a symbolic link, and the folder that it lies in.
func link(t *testing.T, to, from string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(from), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(to, from); err != nil {
		t.Fatal(err)
	}
}

// A busy table that was dropped, and another one put in its place, is noticed by the
// look at its owner: sights of our own puts alone would go on for ever.
func TestBusyTableThatWasDropped(t *testing.T) {
	t.Parallel()
	w := &world{}
	w.cfg.Limits.OwnerInterval = 5 * time.Millisecond
	w.open(t)
	w.create("t", twophase.ModeOpen)
	w.commit("1", blind("t", "1"))
	w.dropAndCreate("t")
	w.eventually("it is frozen", func() bool {
		_, _ = w.try(fmt.Sprint("next ", time.Now().UnixNano()), blind("t", fmt.Sprint(time.Now().UnixNano())))
		f := w.info("t").Frozen
		return f != nil && f.Cause == twophase.CauseReplaced
	})
}

// A table that another catalog took over is not shown as one that is in order, and is once
// more when the owner is back.
func TestTakenOverIsShown(t *testing.T) {
	t.Parallel()
	w := &world{}
	w.cfg.Limits.OwnerInterval = 5 * time.Millisecond
	w.open(t)
	w.create("t", twophase.ModeOpen)
	const owner = "t/_delta_log/_txcoord/owner.json"
	mine, _, err := w.objects.Get(w.ctx(), owner, objstore.Range{})
	if err != nil {
		t.Fatal(err)
	}
	put := func(content []byte) {
		t.Helper()
		if err := w.objects.Put(w.ctx(), owner, content); err != nil {
			t.Fatal(err)
		}
	}
	stopped := func() string {
		all, err := w.catalog.Tables(w.ctx())
		if err != nil || len(all) != 1 {
			t.Fatalf("%+v, %v", all, err)
		}
		return all[0].Stopped
	}
	put([]byte(`{"format":1,"catalog":"x","incarnation":"y","table":"t-0000000000000000"}`))
	w.eventually("the list says so", func() bool { return strings.Contains(stopped(), "belongs to catalog x") })
	if got := codes(w.explain("t")); !slices.Equal(got, []coordinator.FindingCode{coordinator.FoundOwnedElsewhere}) {
		t.Errorf("%v", got)
	}
	wantReason(t, "a commit", second(w.try("1", blind("t", "1"))), coordinator.TableOwned)
	put(mine)
	w.eventually("it is in order", func() bool { return stopped() == "" })
	w.commit("2", blind("t", "2"))
}
