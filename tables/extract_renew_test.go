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
	"github.com/txcoord/txcoord/tables/objstore"
	"github.com/txcoord/txcoord/twophase"
)

// recordedAll has the identity of each commit as it is now.
func (k *kept) recordedAll() func(twophase.Version) (twophase.Hash, bool) {
	k.t.Helper()
	all := map[twophase.Version]twophase.Hash{}
	for v, raw := range k.commits(k.next - 1) {
		all[twophase.Version(v)] = twophase.HashOf(raw)
	}
	return func(v twophase.Version) (twophase.Hash, bool) { h, ok := all[v]; return h, ok }
}

// renew makes the extract of a version.
func (k *kept) renew(at twophase.Version, o tables.Renewal) tables.Renewed {
	k.t.Helper()
	if o.MaxBytes == 0 {
		o.MaxBytes = 1 << 20
	}
	out, err := k.log.RenewExtract(k.t.Context(), at, o)
	if err != nil {
		k.t.Fatal(err)
	}
	return out
}

// TestRenewedExtract: what a renewal has read is not read by a load: neither the checkpoint nor
// the commits up to the extract's version, nor by the next renewal.
func TestRenewedExtract(t *testing.T) {
	for kind, newTable := range map[string]func(*testing.T) *kept{
		"classic": plainKept,
		"v2":      func(t *testing.T) *kept { return v2Table(t, "") },
	} {
		for _, begin := range []string{"no checkpoint", "ours", "another's"} {
			t.Run(kind+", "+begin, func(t *testing.T) {
				k := newTable(t)
				s := k.shelf()
				k.commit(addLine("a"), addLine("b"), addLine("c"), txnLine("app", 3))
				switch begin {
				case "ours":
					k.checkpoint()
				case "another's":
					k.foreignCheckpoint(s)
				}
				k.commit(removedAt("b", time.Hour), addLine("d", vector("v1")), txnLine("other", -4))
				k.commit(removedAt("d", time.Hour, vector("v1")), addLine("d"))
				want := tables.Renewed{Version: 3, Files: 3, Written: true}
				if got := k.renew(tables.Latest, tables.Renewal{Recorded: k.recordedAll()}); got != want {
					t.Fatalf("%+v, want %+v", got, want)
				}
				k.loadsAlike(tables.Latest)
				k.commit(removedAt("a", time.Hour), addLine("e"))
				loaded := []string{name(4, "json"), "_last_checkpoint"}
				if diff := cmp.Diff(loaded, k.reads(k.loadOf)); diff != "" {
					t.Errorf("a load (-want +read):\n%s", diff)
				}
				renewed := func(l *tables.Log) error {
					_, err := l.RenewExtract(t.Context(), tables.Latest, tables.Renewal{AtLeast: 1, MaxBytes: 1 << 20})
					return err
				}
				if diff := cmp.Diff(loaded, k.reads(renewed)); diff != "" {
					t.Errorf("the next renewal (-want +read):\n%s", diff)
				}
				for at := twophase.Version(0); at <= 4; at++ {
					k.loadsAlike(at)
				}
				if diff := cmp.Diff([]string{"_last_checkpoint"}, k.reads(k.loadOf)); diff != "" {
					t.Errorf("a load after it (-want +read):\n%s", diff)
				}
				before := s.puts
				if got := k.renew(tables.Latest, tables.Renewal{AtLeast: 1}); got.Written || got.Version != 4 || s.puts != before {
					t.Errorf("not far enough behind: %+v", got)
				}
			})
		}
	}
}

// TestRenewalBehindAnothersCheckpoint: a checkpoint that somebody else has put since says what
// the extract says, which goes on being believed, and being continued.
func TestRenewalBehindAnothersCheckpoint(t *testing.T) {
	k := plainKept(t)
	s := k.shelf()
	k.commit(addLine("a"))
	k.commit(addLine("b"))
	k.foreignCheckpoint(s)
	k.commit(addLine("c"))
	k.renew(3, tables.Renewal{})
	foreign := k.foreignCheckpoint(s)
	if names := k.reads(k.loadOf); slices.Contains(names, foreign.Name) || foreign.Version != 3 {
		t.Errorf("%s is of the extract's version: %q was read", foreign.Name, names)
	}
	k.loadsAlike(tables.Latest)
	k.commit(removedAt("a", time.Hour))
	foreign = k.foreignCheckpoint(s)
	if names := k.reads(k.loadOf); !slices.Contains(names, foreign.Name) {
		t.Errorf("%s is newer: %q was read", foreign.Name, names)
	}
	k.commit(addLine("d"))
	names := k.reads(func(l *tables.Log) error {
		_, err := l.RenewExtract(t.Context(), tables.Latest, tables.Renewal{MaxBytes: 1 << 20})
		return err
	})
	if diff := cmp.Diff([]string{name(4, "json"), name(5, "json"), "_last_checkpoint"}, names); diff != "" {
		t.Errorf("a renewal (-want +read):\n%s", diff)
	}
	k.loadsAlike(tables.Latest)
	if names := k.reads(k.loadOf); len(names) != 1 {
		t.Errorf("%q was read", names)
	}
}

// TestRenewedExtractOfAnother: a commit, or the checkpoint, that is another object now, or is
// gone, is found by one listing: the log is read as ever, and is as damaged as it is.
func TestRenewedExtractOfAnother(t *testing.T) {
	made := func(t *testing.T) *kept {
		k := plainKept(t)
		k.shelf()
		k.commit(addLine("a"))
		k.checkpoint()
		for _, f := range []string{"b", "c", "d"} {
			k.commit(addLine(f))
		}
		k.renew(tables.Latest, tables.Renewal{Recorded: k.recordedAll()})
		k.commit(addLine("e"))
		return k
	}
	for what, c := range map[string]struct {
		do   func(k *kept)
		read []string
		bad  tables.Fault
	}{
		"the same again":     {do: func(k *kept) { k.put(name(3, "json"), k.get(name(3, "json"))) }},
		"altered":            {do: func(k *kept) { k.put(name(2, "json"), []byte(addLine("x")+"\n")) }},
		"the last altered":   {do: func(k *kept) { k.put(name(4, "json"), []byte(addLine("x")+"\n")) }},
		"cut":                {do: func(k *kept) { k.put(name(3, "json"), k.get(name(3, "json"))[:20]) }, bad: tables.Torn},
		"empty":              {do: func(k *kept) { k.put(name(3, "json"), nil) }, bad: tables.Empty},
		"gone":               {do: func(k *kept) { k.drop(name(3, "json")) }, bad: tables.Gap},
		"another checkpoint": {do: func(k *kept) { n := name(1, "checkpoint.parquet"); k.put(n, k.get(n)) }},
		"no checkpoint":      {do: func(k *kept) { k.drop(name(1, "checkpoint.parquet")) }},
	} {
		t.Run(what, func(t *testing.T) {
			k := made(t)
			c.do(k)
			k.loadsAlike(tables.Latest)
			_, _, err := k.log.Load(t.Context(), tables.Latest)
			fault, _ := errors.AsType[*tables.LogError](err)
			switch {
			case c.bad == 0 && err != nil, c.bad != 0 && (fault == nil || fault.Fault != c.bad):
				t.Fatalf("load: %v", err)
			case c.bad != 0:
				return
			}
			if names := k.reads(k.loadOf); !slices.Contains(names, name(2, "json")) || !slices.Contains(names, name(4, "json")) {
				t.Errorf("%q was read", names)
			}
		})
	}
}

// TestRenewalComparesCommits: nothing stands for a commit that is not as it was recorded, or is
// none: the extract from before stays.
func TestRenewalComparesCommits(t *testing.T) {
	k := plainKept(t)
	s := k.shelf()
	k.commit(addLine("a"))
	recorded := k.recordedAll()
	k.renew(tables.Latest, tables.Renewal{Recorded: recorded})
	before := s.b
	k.commit(addLine("b"))
	recorded = k.recordedAll()
	for what, c := range map[string]struct {
		content string
		want    tables.Fault
	}{"altered": {addLine("x") + "\n", tables.Altered}, "cut": {addLine("b")[:20], tables.Torn}, "empty": {"", tables.Empty}} {
		k.put(name(2, "json"), []byte(c.content))
		_, err := k.log.RenewExtract(t.Context(), tables.Latest, tables.Renewal{MaxBytes: 1 << 20, Recorded: recorded})
		fault, ok := errors.AsType[*tables.LogError](err)
		if !ok || fault.Fault != c.want || fault.Version != 2 || !strings.Contains(fault.File, name(2, "json")) || string(s.b) != string(before) {
			t.Errorf("%s: %v", what, err)
		}
	}
	k.put(name(2, "json"), nil)
	_, err := k.log.RenewExtract(t.Context(), tables.Latest, tables.Renewal{MaxBytes: 1 << 20})
	if fault, ok := errors.AsType[*tables.LogError](err); !ok || fault.Fault != tables.Empty || string(s.b) != string(before) {
		t.Errorf("nothing is known, and it is empty: %v", err)
	}
}

// TestRenewalBehindACleanedLog: where somebody else has written a checkpoint since, and removed
// commits below it, an extract is made of that checkpoint.
func TestRenewalBehindACleanedLog(t *testing.T) {
	k := plainKept(t)
	s := k.shelf()
	k.commit(addLine("a"))
	k.renew(1, tables.Renewal{})
	for _, f := range []string{"b", "c", "d"} {
		k.commit(addLine(f))
	}
	k.foreignCheckpoint(s)
	k.commit(addLine("e"))
	k.drop(name(3, "json"))
	want := tables.Renewed{Version: 5, Files: 5, Written: true}
	if got := k.renew(tables.Latest, tables.Renewal{}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	k.loadsAlike(tables.Latest)
}

// swapped has another object at a key, as whoever reads it sees, but not in listings.
type swapped struct {
	objstore.Store
	key, by string
}

func (s swapped) Get(ctx context.Context, key string, of objstore.Range) ([]byte, objstore.Info, error) {
	if key == s.key {
		key = s.by
	}
	return s.Store.Get(ctx, key, of)
}

// TestRenewalOfASwappedCheckpoint: no extract is made of a checkpoint that was another object
// when it was read than when it was listed: that one may be put back.
func TestRenewalOfASwappedCheckpoint(t *testing.T) {
	k := plainKept(t)
	s := k.shelf()
	k.commit(addLine("a"))
	foreign := k.foreignCheckpoint(s)
	k.commit(addLine("b"))
	folder := tableKey + "/_delta_log/"
	k.put("other", k.get(foreign.Name))
	cfg := k.log.LogConfig
	cfg.Store = swapped{cfg.Store, folder + foreign.Name, folder + "other"}
	got, err := tables.NewLog(cfg).RenewExtract(t.Context(), tables.Latest, tables.Renewal{MaxBytes: 1 << 20})
	if err != nil || got.Version != twophase.NoVersion || s.puts != 0 {
		t.Errorf("%+v, %v", got, err)
	}
	if got := k.renew(tables.Latest, tables.Renewal{}); !got.Written || s.puts != 1 {
		t.Errorf("once it is the listed one: %+v", got)
	}
	k.loadsAlike(tables.Latest)
}

// TestNoRenewal: where an extract would say too little, or take too much.
func TestNoRenewal(t *testing.T) {
	none := tables.Renewed{Version: twophase.NoVersion}
	k := plainKept(t)
	s := k.shelf()
	k.commit(addLine("a"), addLine("a", vector("v")))
	if got := k.renew(tables.Latest, tables.Renewal{}); got != none || s.puts != 0 {
		t.Errorf("a path is live under two vectors: %+v", got)
	}
	k.commit(removedAt("a", time.Hour))
	k.commit(removedAt("a", time.Hour, vector("v")), addLine("a"))
	if got := k.renew(tables.Latest, tables.Renewal{MaxBytes: 100}); got != none || s.puts != 0 {
		t.Errorf("too large: %+v", got)
	}
	if got := k.renew(tables.Latest, tables.Renewal{}); !got.Written || got.Files != 1 {
		t.Errorf("%+v", got)
	}
	k.loadsAlike(tables.Latest)

	k = plainKept(t)
	s = k.shelf()
	k.commit(addLine("a"))
	k.foreignCheckpoint(s)
	k.commit(addLine("b"))
	if got := k.renew(tables.Latest, tables.Renewal{MaxBytes: 500}); got != none || s.puts != 0 {
		t.Errorf("a checkpoint of somebody else's that is too large: %+v", got)
	}

	k = newKept(t)
	s = k.shelf()
	k.commit(featureProtocol(nil, []string{"rowTracking", "domainMetadata"}), metaOf(schemaJSON, nil, `"delta.enableRowTracking":"true"`))
	if got := k.renew(tables.Latest, tables.Renewal{}); got != none || s.puts != 0 {
		t.Errorf("rows have ids: %+v", got)
	}

	k = plainKept(t)
	s = k.shelf()
	for i := range 64 {
		k.commit(metaOf(schemaJSON, nil, fmt.Sprintf(`"n":"%d"`, i)))
	}
	if got := k.renew(63, tables.Renewal{}); !got.Written {
		t.Errorf("64 definitions: %+v", got)
	}
	if got := k.renew(64, tables.Renewal{}); got != none || s.puts != 1 {
		t.Errorf("65 definitions: %+v", got)
	}
	k.loadsAlike(63)
	k.loadsAlike(tables.Latest)
}

// TestRenewalInSteps: what is far behind is read in pieces, and each is one step further.
func TestRenewalInSteps(t *testing.T) {
	k := plainKept(t)
	k.shelf()
	for i := range 2100 {
		k.commit(addLine(fmt.Sprint(i % 50)))
	}
	var versions []twophase.Version
	for len(versions) < 10 {
		got := k.renew(tables.Latest, tables.Renewal{AtLeast: 1})
		if !got.Written {
			break
		}
		versions = append(versions, got.Version)
	}
	if diff := cmp.Diff([]twophase.Version{1023, 2047, 2100}, versions); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	k.loadsAlike(tables.Latest)
}

// TestRandomRenewals: whatever became of the log since, what is loaded with the extract that
// there is says what a State says.
func TestRandomRenewals(t *testing.T) {
	seed := *maintainSeed
	if seed == 0 {
		seed = uint64(time.Now().UnixNano())
	}
	for i := range (*maintainRuns + 1) / 2 {
		s := seed + uint64(i)
		t.Run(fmt.Sprint(s), func(t *testing.T) {
			t.Parallel()
			if used := runRenewals(t, s); used == 0 && !t.Failed() {
				t.Error("no extract spared a commit: the test has lost its subject")
			}
			if t.Failed() {
				t.Logf("again with -maintain.seed=%d -maintain.runs=1", s)
			}
		})
	}
}

func runRenewals(t *testing.T, seed uint64) (used int) {
	x := newRandomTable(t, seed)
	s := x.shelf()
	var before map[string][]byte
	renew := func() {
		x.step()
		// Somebody else may be at work as well, on what it saw of the log before.
		at := x.newest() - twophase.Version(x.r.IntN(3))
		if _, err := x.log.RenewExtract(t.Context(), max(at, 0), tables.Renewal{AtLeast: 1, MaxBytes: 1 << 20}); err != nil {
			t.Fatalf("renewal at %d: %v", at, err)
		}
		used += x.spared()
	}
	renew()
	for range 25 {
		x.step()
		switch n := x.r.IntN(12); {
		case n < 5:
			renew()
		case n < 6:
			x.checkpoint()
		case n < 8:
			x.foreignCheckpoint(s)
		case n < 9:
			if c := x.foreignCheckpoint(s); !c.Existed {
				x.loseSome(c)
			}
		case n < 10: // a copy of a file is put back
			names := x.names()
			n := names[x.r.IntN(len(names))]
			x.put(n, x.get(n))
		case n < 11:
			before = x.kept.all()
		case before != nil: // the whole log is as it was before, and goes on from there
			x.restored(before)
		}
		x.loadsAlike(x.newest())
		if x.r.IntN(3) == 0 {
			x.loadsAlike(max(x.newest()-twophase.Version(1+x.r.IntN(8)), 0))
		}
	}
	return used
}

// newest is the newest version.
func (x *randomTable) newest() twophase.Version { return x.kept.next - 1 }

// restored puts a log in the place of the one that is there.
func (x *randomTable) restored(before map[string][]byte) {
	x.t.Helper()
	for _, n := range x.names() {
		x.drop(n)
	}
	x.kept.next = 0
	for n, b := range before {
		x.put(n, b)
		if isCommit(n) {
			var v twophase.Version
			if _, err := fmt.Sscanf(n, "%d", &v); err != nil {
				x.t.Fatal(err)
			}
			x.kept.next = max(x.kept.next, v+1)
		}
	}
	clear(x.live)
	files, err := x.log.LiveFiles(x.t.Context(), tables.Latest)
	if err != nil {
		x.t.Fatal(err)
	}
	for _, f := range files {
		if f.DV == "" {
			x.live[strings.ReplaceAll(f.Path, " ", "%20")] = ""
		}
	}
}

// spared is how many commits behind the newest checkpoint a load need not read.
func (x *randomTable) spared() int {
	x.t.Helper()
	listing, err := x.log.List(x.t.Context(), 0)
	if err != nil {
		x.t.Fatal(err)
	}
	behind := x.newest() + 1
	if c, ok := listing.NewestCheckpoint(tables.Latest); ok {
		behind = x.newest() - c.Version
	}
	return int(behind) - len(slices.DeleteFunc(x.reads(x.loadOf), func(n string) bool { return !isCommit(n) }))
}
