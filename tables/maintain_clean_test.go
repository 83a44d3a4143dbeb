package tables_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/txcoord/txcoord/tables"
	"github.com/txcoord/txcoord/tables/objstore/objtest"
	"github.com/txcoord/txcoord/twophase"
)

func name(v int, rest string) string { return fmt.Sprintf("%020d.%s", v, rest) }

// grown has versions 0 to 9, each a day younger than the one before, the oldest ten
// days old, checkpoints at 3, 6 and 8, and files that go with versions.
func grown(t testing.TB, config string) *kept {
	t.Helper()
	k := newKept(t)
	if config == "" {
		config = `"delta.logRetentionDuration":"interval 3 days"`
	}
	k.commit(plainProtocol, metaOf(schemaJSON, nil, config), addLine("f0"), txnLine("txcoord/c", 5))
	for v := 1; v < 10; v++ {
		k.commit(addLine(fmt.Sprint("f", v)), removedAt(fmt.Sprint("f", v-2), time.Hour))
		if v == 3 || v == 6 || v == 8 {
			k.checkpoint()
		}
	}
	for v := range 10 {
		k.ages[fmt.Sprintf("%020d", v)] = time.Duration(10-v) * day
		k.put(name(v, "crc"), []byte("{}"))
	}
	k.put(fmt.Sprintf("%020d.%020d.compacted.json", 2, 5), []byte("{}")).put(fmt.Sprintf("%020d.%020d.compacted.json", 6, 9), []byte("{}"))
	k.put("unknown", []byte("x")).put(name(1, "novel"), []byte("x")).put("_txcoord/owner.json", []byte("{}"))
	return k
}

func (k *kept) plan(rules tables.CleanUpRules) (*tables.Keeper, *tables.CleanUp) {
	k.t.Helper()
	keeper, s := k.survey(tables.Latest)
	p, err := keeper.PlanCleanUp(k.t.Context(), s, rules)
	if err != nil {
		k.t.Fatal(err)
	}
	return keeper, p
}

func doomed(p *tables.CleanUp) (out []string) {
	for _, o := range p.Delete {
		out = append(out, strings.TrimPrefix(o.Key, tableKey+"/_delta_log/"))
	}
	return out
}

const newest = twophase.Version(1 << 40)

func TestCleanUpPlan(t *testing.T) {
	below := func(cut int) (out []string) {
		for v := range cut {
			if v == 2 {
				out = append(out, fmt.Sprintf("%020d.%020d.compacted.json", 2, 5))
			}
			if v == 3 || v == 6 {
				out = append(out, name(v, "checkpoint.parquet"))
			}
			out = append(out, name(v, "crc"), name(v, "json"))
		}
		if cut == 6 {
			out = append(out, fmt.Sprintf("%020d.%020d.compacted.json", 6, 9))
		}
		return out
	}
	tests := []struct {
		name   string
		config string
		rules  tables.CleanUpRules
		cut    twophase.Version
		delete []string
		reason string
	}{
		{"by the table's retention", "", tables.CleanUpRules{UpTo: newest}, 6, below(6), ""},
		{"no further than it may", "", tables.CleanUpRules{UpTo: 5}, 3, below(3), ""},
		{"nothing may go", "", tables.CleanUpRules{UpTo: 2}, -1, nil, "no checkpoint up to version 2"},
		{"no version at all", "", tables.CleanUpRules{UpTo: twophase.NoVersion}, -1, nil, "no checkpoint"},
		{"a longer retention of ours", "", tables.CleanUpRules{UpTo: newest, Retention: 6 * day}, 3, below(3), ""},
		{"never below a day", `"delta.logRetentionDuration":"interval 1 hours"`, tables.CleanUpRules{UpTo: newest}, 8, nil, ""},
		{"Delta's default", `"a":"b"`, tables.CleanUpRules{UpTo: newest}, -1, nil, "no commit is older"},
		{"the table wants none", `"delta.enableExpiredLogCleanup":"false","delta.logRetentionDuration":"interval 3 days"`, tables.CleanUpRules{UpTo: newest}, -1, nil, "is false"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			k := grown(t, tt.config)
			_, p := k.plan(tt.rules)
			if p.Cut != tt.cut || !strings.Contains(p.Reason, tt.reason) || (p.Reason == "") != (tt.reason == "") {
				t.Errorf("cut %d because %q; want %d, %q", p.Cut, p.Reason, tt.cut, tt.reason)
			}
			if tt.delete != nil {
				got, want := doomed(p), slices.Sorted(slices.Values(tt.delete))
				if diff := cmp.Diff(want, got); diff != "" {
					t.Error(diff)
				}
			}
			if p.Commits+p.Checkpoints+p.Sidecars+p.Others != len(p.Delete) {
				t.Errorf("counts: %+v", p)
			}
		})
	}
}

// TestCleanUpStopsAnywhere: at each delete the log that is left is contiguous and
// reads the same, and the next try finishes.
func TestCleanUpStopsAnywhere(t *testing.T) {
	table := grown(t, "")
	want := table.seen()
	for stop := 1; ; stop++ {
		k := table.clone()
		sound := k.cfg
		deletes := 0
		k.cfg.Log.Store = objtest.Faulty{Store: k.cfg.Log.Store, Hook: func(_ context.Context, op objtest.Op) objtest.Fate {
			if op.Kind == objtest.Delete {
				if deletes++; deletes == stop {
					return objtest.Refused()
				}
			}
			return objtest.Done()
		}}
		keeper, p := k.plan(tables.CleanUpRules{UpTo: newest})
		n, bytes, err := keeper.CleanUp(t.Context(), p, nil)
		if deletes < stop {
			if err != nil || n != len(p.Delete) || bytes != p.Bytes {
				t.Fatalf("no fault: %d objects, %d bytes, %v; want %d, %d", n, bytes, err, len(p.Delete), p.Bytes)
			}
			return
		}
		if n != stop-1 || !errors.Is(err, objtest.ErrInjected) {
			t.Errorf("stopped at %d: %d went, %v", stop, n, err)
		}
		k.wants(want)
		contiguous(t, k)
		k.cfg = sound
		keeper, p = k.plan(tables.CleanUpRules{UpTo: newest})
		if _, _, err := keeper.CleanUp(t.Context(), p, nil); err != nil {
			t.Fatal(err)
		}
		k.wants(want)
		if got := k.names(); got[0] != name(1, "novel") || got[1] != name(6, "checkpoint.parquet") {
			t.Errorf("stopped at %d: left are %v", stop, got)
		}
	}
}

func contiguous(t *testing.T, k *kept) {
	t.Helper()
	last := -1
	for _, n := range k.names() {
		var v int
		if !isCommit(n) {
			continue
		}
		if _, err := fmt.Sscanf(n, "%d.json", &v); err != nil {
			t.Fatal(err)
		}
		if last >= 0 && v != last+1 {
			t.Errorf("versions %d and %d, nothing between", last, v)
		}
		last = v
	}
}

// TestCleanUpKeepsVersions: each version from the cut on can be read.
func TestCleanUpKeepsVersions(t *testing.T) {
	k := grown(t, "")
	keeper, p := k.plan(tables.CleanUpRules{UpTo: newest})
	if _, _, err := keeper.CleanUp(t.Context(), p, nil); err != nil {
		t.Fatal(err)
	}
	for v := twophase.Version(6); v < 10; v++ {
		if s, err := k.log.State(t.Context(), v); err != nil || s.Marker("c") != 5 {
			t.Errorf("version %d: %v", v, err)
		}
	}
}

// TestCleanUpDoesNotTrustACheckpoint: what goes was the only other copy.
func TestCleanUpDoesNotTrustACheckpoint(t *testing.T) {
	tests := []struct {
		name  string
		spoil func(k *kept)
		says  string
	}{
		{"of another version", func(k *kept) { k.put(name(6, "checkpoint.parquet"), k.get(name(3, "checkpoint.parquet"))) }, "or they differ in a file"},
		{"a file missing", func(k *kept) { k.swap("f6") }, "it has 1 live files, the log below it 2"},
		{"the marker missing", func(k *kept) { k.swap("txcoord/c") }, "or they differ"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			k := grown(t, "")
			tt.spoil(k)
			before := k.names()
			keeper, s := k.survey(tables.Latest)
			_, err := keeper.PlanCleanUp(t.Context(), s, tables.CleanUpRules{UpTo: newest})
			var bad *tables.LogError
			if !errors.As(err, &bad) || bad.Fault != tables.BadCheckpoint || !strings.Contains(err.Error(), tt.says) {
				t.Errorf("got %v, want …%s…", err, tt.says)
			}
			if diff := cmp.Diff(before, k.names()); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// halve damages a checkpoint.
func (k *kept) halve(name string) {
	k.t.Helper()
	b := k.get(name)
	k.put(name, b[:len(b)/2])
}

// TestCleanUpPassesOverABadCheckpoint: one that cannot be read is no cut. What lies below an
// older one goes, and all versions from that on can still be read.
func TestCleanUpPassesOverABadCheckpoint(t *testing.T) {
	k := grown(t, "")
	k.halve(name(6, "checkpoint.parquet"))
	keeper, p := k.plan(tables.CleanUpRules{UpTo: newest})
	if bad := keeper.PassedOver(); p.Cut != 3 || len(bad) != 1 || bad[0].Version != 6 {
		t.Fatalf("cut %d, passed over %v", p.Cut, bad)
	}
	if _, _, err := keeper.CleanUp(t.Context(), p, nil); err != nil {
		t.Fatal(err)
	}
	k.get(name(6, "checkpoint.parquet"))
	for v := twophase.Version(3); v < 10; v++ {
		if _, err := k.log.State(t.Context(), v); err != nil {
			t.Errorf("version %d: %v", v, err)
		}
	}
}

// TestCleanUpAboveABadCheckpoint: where an older checkpoint and the commits since tell what the
// cut holds, the bad one between goes with what has expired. Where it alone could tell, nothing
// goes.
func TestCleanUpAboveABadCheckpoint(t *testing.T) {
	for _, older := range []bool{true, false} {
		k := grown(t, "")
		if older {
			keeper, s := k.survey(1)
			if _, err := keeper.Checkpoint(t.Context(), s, nil); err != nil {
				t.Fatal(err)
			}
		}
		k.drop(name(0, "json"))
		k.halve(name(3, "checkpoint.parquet"))
		_, p := k.plan(tables.CleanUpRules{UpTo: newest})
		switch {
		case older && (p.Cut != 6 || p.Checkpoints != 2):
			t.Errorf("beside an older one: cut %d, %d checkpoints: %s", p.Cut, p.Checkpoints, p.Reason)
		case !older && (len(p.Delete) > 0 || !strings.Contains(p.Reason, "with a bad checkpoint alone")):
			t.Errorf("alone: %v go: %s", doomed(p), p.Reason)
		}
	}
}

// swap writes the checkpoint at 6 without the row that holds a text.
func (k *kept) swap(without string) {
	k.t.Helper()
	lines := slices.DeleteFunc(k.rows(name(6, "checkpoint.parquet")), func(line string) bool {
		return strings.HasPrefix(line, `{"add"`) && strings.Contains(line, `"`+without+`"`) || strings.HasPrefix(line, `{"txn"`) && strings.Contains(line, without)
	})
	k.drop(name(6, "checkpoint.parquet"))
	k.put(name(6, "checkpoint.d0d40f5f-8f0d-4a3f-9a13-3d6b2a2b3d6e.json"), text(append(lines, `{"checkpointMetadata":{"version":6}}`)...))
}

// TestCleanUpWithoutTheBeginning: where the oldest versions are gone nothing tells
// whether a checkpoint is right, and it is only read.
func TestCleanUpWithoutTheBeginning(t *testing.T) {
	k := grown(t, "")
	for v := range 4 {
		k.drop(name(v, "json"))
	}
	k.drop(name(3, "checkpoint.parquet"))
	want := k.seen()
	keeper, p := k.plan(tables.CleanUpRules{UpTo: newest})
	if _, _, err := keeper.CleanUp(t.Context(), p, nil); err != nil || p.Cut != 6 {
		t.Errorf("cut %d, %v", p.Cut, err)
	}
	k.wants(want)
}

// TestCleanUpLooksAgain: the checkpoint that was to stay has gone meanwhile.
func TestCleanUpLooksAgain(t *testing.T) {
	for _, file := range []string{name(6, "json"), name(6, "checkpoint.parquet")} {
		k := grown(t, "")
		keeper, p := k.plan(tables.CleanUpRules{UpTo: newest})
		k.drop(file)
		before := k.names()
		if n, _, err := keeper.CleanUp(t.Context(), p, nil); err == nil || n != 0 {
			t.Errorf("%s: %d objects went, %v", file, n, err)
		}
		if diff := cmp.Diff(before, k.names()); diff != "" {
			t.Error(diff)
		}
	}
}

// TestCleanUpNeedsTheCommit: a checkpoint whose commit is gone is not kept as the oldest.
func TestCleanUpNeedsTheCommit(t *testing.T) {
	k := grown(t, "")
	k.drop(name(8, "checkpoint.parquet")).put(name(6, "checkpoint.parquet"), k.get(name(6, "checkpoint.parquet")))
	for v := range 7 {
		k.drop(name(v, "json"))
	}
	_, p := k.plan(tables.CleanUpRules{UpTo: newest})
	if p.Cut != twophase.NoVersion || p.Commits != 0 {
		t.Errorf("cut %d, %d commits", p.Cut, p.Commits)
	}
}

// TestSidecarsAreRemoved once no checkpoint that stays names them, and not before a
// day has passed.
func TestSidecarsAreRemoved(t *testing.T) {
	k := v2Table(t, `"delta.logRetentionDuration":"interval 3 days"`)
	for v := 1; v < 6; v++ {
		k.commit(addLine(fmt.Sprint("f", v)), removedAt(fmt.Sprint("f", v-1), time.Hour))
		k.checkpoint()
	}
	for v := range 6 {
		k.ages[fmt.Sprintf("%020d", v)] = time.Duration(10-v) * day
	}
	want := k.seen()
	count := func() (n int) {
		for _, name := range k.names() {
			if strings.HasPrefix(name, "_sidecars/") {
				n++
			}
		}
		return n
	}
	if all := count(); all != 10 {
		t.Fatalf("%d sidecars before", all)
	}
	clean := func() *tables.CleanUp {
		keeper, p := k.plan(tables.CleanUpRules{UpTo: newest})
		if _, _, err := keeper.CleanUp(t.Context(), p, nil); err != nil {
			t.Fatal(err)
		}
		return p
	}
	if p := clean(); p.Sidecars != 0 || count() != 10 || p.Cut != 5 {
		t.Errorf("young ones: %d went, cut %d", p.Sidecars, p.Cut)
	}
	k.ages["_sidecars/"] = 25 * time.Hour
	if p := clean(); p.Sidecars != 8 || count() != 2 {
		t.Errorf("old ones: %d went, %d are left", p.Sidecars, count())
	}
	k.without(func(n string) bool { return isCommit(n) && n < name(5, "") }).wants(want)
}

// TestSidecarsStay where a checkpoint cannot be read: it may name any of them.
func TestSidecarsStay(t *testing.T) {
	k := v2Table(t, "")
	k.commit(addLine("a"))
	k.checkpoint()
	k.commit(addLine("b"))
	k.checkpoint()
	k.put(name(0, "checkpoint.22222222-2222-2222-2222-222222222222.parquet"), []byte("x"))
	k.put("_sidecars/11111111-1111-1111-1111-111111111111.parquet", []byte("x"))
	k.ages["_sidecars/"] = 25 * time.Hour
	if _, p := k.plan(tables.CleanUpRules{UpTo: newest}); p.Sidecars != 0 || !strings.Contains(p.SidecarsKept, "bad checkpoint") {
		t.Errorf("%d go, kept because %q", p.Sidecars, p.SidecarsKept)
	}
	k.drop(name(0, "checkpoint.22222222-2222-2222-2222-222222222222.parquet"))
	if _, p := k.plan(tables.CleanUpRules{UpTo: newest}); p.Sidecars != 1 {
		t.Errorf("%d go, want the one that nothing names", p.Sidecars)
	}
}
