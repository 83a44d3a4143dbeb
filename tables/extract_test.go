package tables_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/txcoord/txcoord/tables"
	"github.com/txcoord/txcoord/tables/checkpoint"
	"github.com/txcoord/txcoord/tables/objstore"
	"github.com/txcoord/txcoord/twophase"
)

// shelf keeps an extract in memory.
type shelf struct {
	b    []byte
	puts int
	gets int
}

func (s *shelf) Get(_ context.Context, atMost int64) ([]byte, error) {
	s.gets++
	if s.b == nil || int64(len(s.b)) > atMost {
		return nil, objstore.ErrNotFound
	}
	return s.b, nil
}

func (s *shelf) Keep(_ context.Context, b []byte) { s.b, s.puts = slices.Clone(b), s.puts+1 }

// shelved gives a table's keeper and its log a place for extracts of any size.
func (k *kept) shelved(s tables.Extracts) {
	k.cfg.Log.Extracts, k.cfg.Log.ExtractFrom, k.cfg.Log.ExtractCommits = s, 1, 1
	cfg := k.cfg.Log
	cfg.ReadCheckpoint = checkpoint.Read
	k.log = tables.NewLog(cfg)
}

// loadsAlike holds what is loaded, with the extract where there is one, against what a
// State says.
func loadsAlike(ctx context.Context, log *tables.Log, at twophase.Version) error {
	all, wrong := log.State(ctx, at)
	view, state, err := log.Load(ctx, at)
	tail, failed := log.Tail(ctx, at)
	if wrong != nil || err != nil || failed != nil {
		if (wrong == nil) != (err == nil) || (wrong == nil) != (failed == nil) {
			return fmt.Errorf("State, Load and Tail do not agree: %w", errors.Join(wrong, err, failed))
		}
		return nil
	}
	if state.Version() != all.Version() || !reflect.DeepEqual(state.Profile().Told(), all.Profile().Told()) {
		return fmt.Errorf("the profile of version %d is %+v, and that of %d in State %+v", state.Version(), state.Profile(), all.Version(), all.Profile())
	}
	loaded, err := log.TailOf(ctx, state)
	if err != nil {
		return err
	}
	want, err := log.TailOf(ctx, all)
	if err != nil {
		return err
	}
	if !reflect.DeepEqual(tail.Told(), want.Told()) || !reflect.DeepEqual(loaded.Told(), want.Told()) {
		return fmt.Errorf("the tails are %+v, beside the view %+v, of a State %+v", tail, loaded, want)
	}
	_, beside, err := log.TailAndView(ctx, at)
	if err != nil {
		return err
	}
	for what, v := range map[string]*tables.View{"Load": view, "TailAndView": beside} {
		if v == nil {
			continue // TailAndView has none without an extract
		}
		if diff := tables.ViewDiff(tables.NewView(all), v); diff != "" {
			return fmt.Errorf("view (-State +%s):\n%s", what, diff)
		}
		if all, err = log.State(ctx, at); err != nil { // the view has taken it over
			return err
		}
	}
	return nil
}

func (k *kept) loadsAlike(at twophase.Version) {
	k.t.Helper()
	if err := loadsAlike(k.t.Context(), k.log, at); err != nil {
		k.t.Errorf("version %d: %v", at, err)
	}
}

// reads is what a call gets from the store, by the objects' names.
func (k *kept) reads(call func(*tables.Log) error) (names []string) {
	k.t.Helper()
	cfg := k.cfg.Log
	var mu sync.Mutex // commits are read several at once
	cfg.Store = reading{cfg.Store, func(key string) {
		mu.Lock()
		defer mu.Unlock()
		names = append(names, strings.TrimPrefix(key, tableKey+"/_delta_log/"))
	}}
	cfg.ReadCheckpoint = checkpoint.Read
	if err := call(tables.NewLog(cfg)); err != nil {
		k.t.Fatal(err)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

type reading struct {
	objstore.Store
	seen func(key string)
}

func (r reading) Get(ctx context.Context, key string, of objstore.Range) ([]byte, objstore.Info, error) {
	r.seen(key)
	return r.Store.Get(ctx, key, of)
}

func (k *kept) loadOf(log *tables.Log) error {
	_, _, err := log.Load(k.t.Context(), tables.Latest)
	return err
}

func (k *kept) tailOf(log *tables.Log) error {
	_, err := log.Tail(k.t.Context(), tables.Latest)
	return err
}

// plainKept is a table with classic checkpoints and the features that actions ask for.
func plainKept(t *testing.T) *kept {
	k := newKept(t)
	k.commit(featureProtocol([]string{"deletionVectors"}, []string{"deletionVectors", "domainMetadata"}), metaOf(schemaJSON, nil, `"delta.enableDeletionVectors":"true"`))
	return k
}

// shelf is a new place for the table's extracts.
func (k *kept) shelf() *shelf {
	s := &shelf{}
	k.shelved(s)
	return s
}

// TestExtract: what is loaded from the extract of the newest checkpoint and the commits
// behind it is what a State says, and the checkpoint is not read for it; nor is a commit
// below it.
func TestExtract(t *testing.T) {
	for kind, newTable := range map[string]func(*testing.T) *kept{
		"classic": plainKept,
		"v2":      func(t *testing.T) *kept { return v2Table(t, "") },
	} {
		t.Run(kind, func(t *testing.T) {
			k := newTable(t)
			s := k.shelf()
			k.commit(addLine("a"), addLine("b"), addLine("c"), txnLine("app", 3))
			k.commit(removedAt("b", time.Hour), addLine("d", vector("v1")))
			k.checkpoint()
			if s.puts != 1 {
				t.Fatalf("%d extracts were kept, want 1", s.puts)
			}
			k.commit(removedAt("a", time.Hour), addLine("b"), addLine("e"))
			k.commit(removedAt("d", time.Hour, vector("v1")), addLine("d", vector("v2")), txnLine("app", 4))
			k.loadsAlike(tables.Latest)
			want := []string{name(3, "json"), name(4, "json"), "_last_checkpoint"}
			for what, call := range map[string]func(*tables.Log) error{"Load": k.loadOf, "Tail": k.tailOf} {
				s.gets = 0
				if diff := cmp.Diff(want, k.reads(call)); diff != "" || s.gets != 1 {
					t.Errorf("%s asked %d times for the extract, and read (-want +got):\n%s", what, s.gets, diff)
				}
			}
			if _, beside, err := k.log.TailAndView(t.Context(), tables.Latest); err != nil || beside == nil {
				t.Errorf("beside the tail: %v, %v", beside, err)
			}
			for at := twophase.Version(0); at <= 4; at++ {
				k.loadsAlike(at) // also below the checkpoint that the extract is of
			}
			if c := k.checkpoint(); s.puts != 2 || c.Version != 4 {
				t.Fatalf("%d extracts were kept, the last of version %d", s.puts, c.Version)
			}
			k.loadsAlike(tables.Latest)
		})
	}
}

// TestDamagedExtract: no change of an extract's bytes is taken for one; what is loaded
// stays the same.
func TestDamagedExtract(t *testing.T) {
	k := plainKept(t)
	s := k.shelf()
	k.commit(addLine("a"), addLine("b", vector("v")), txnLine("app", 3))
	c := k.checkpoint()
	whole := s.b
	checkpointIsRead := func(what string) {
		t.Helper()
		if names := k.reads(k.loadOf); !slices.Contains(names, c.Name) {
			t.Errorf("%s: taken for an extract: %q was read", what, names)
		}
		k.loadsAlike(tables.Latest)
	}
	for i := range whole {
		changed := slices.Clone(whole)
		changed[i] ^= 1 << (i % 8)
		if tables.IsExtract(changed) || tables.IsExtract(whole[:i]) {
			t.Errorf("changed at byte %d, or cut off there: taken for an extract", i)
		}
		if i%64 == 0 {
			s.b = changed
			checkpointIsRead(fmt.Sprint("byte ", i))
			s.b = whole[:i]
			checkpointIsRead(fmt.Sprint("cut at ", i))
		}
	}
	s.b = append(slices.Clone(whole), 0)
	checkpointIsRead("a byte more")
	s.b = nil
	checkpointIsRead("none")
	s.b = whole
	if names := k.reads(k.loadOf); slices.Contains(names, c.Name) {
		t.Errorf("whole: %q was read", names)
	}
}

// TestExtractOfAnother: an extract says nothing of another checkpoint, of the same version
// and the same name neither, nor of another table.
func TestExtractOfAnother(t *testing.T) {
	k := plainKept(t)
	s := k.shelf()
	k.commit(addLine("a"), addLine("b"))
	c := k.checkpoint()

	// Another table is made where this one was dropped.
	before := k.all()
	for _, n := range k.names() {
		k.drop(n)
	}
	k.next = 0
	k.commit(featureProtocol([]string{"deletionVectors"}, []string{"deletionVectors", "domainMetadata"}), metaOf(schemaJSON, nil, `"delta.enableDeletionVectors":"true"`))
	k.commit(addLine("a"), addLine("x"))
	k.loadsAlike(tables.Latest)
	k.foreignCheckpoint(s)
	if names := k.reads(k.loadOf); !slices.Contains(names, c.Name) {
		t.Errorf("another table: %q was read", names)
	}
	k.loadsAlike(tables.Latest)
	for n, b := range before {
		k.put(n, b) // and the first one is put back: as other objects
	}
	k.loadsAlike(tables.Latest)
	if c = k.foreignCheckpoint(s); !c.Existed {
		t.Fatal("the checkpoint is not back")
	}
	if names := k.reads(k.loadOf); !slices.Contains(names, name(1, "checkpoint.parquet")) {
		t.Errorf("a copy: %q was read", names)
	}

	// Another engine's checkpoint is newer, or takes the place of ours.
	k.drop(name(1, "checkpoint.parquet"))
	if c = k.checkpoint(); s.puts != 2 {
		t.Fatalf("%d extracts were kept, want 2", s.puts)
	}
	k.commit(removedAt("a", time.Hour), addLine("c"))
	newer := k.foreignCheckpoint(s)
	k.loadsAlike(tables.Latest)
	if names := k.reads(k.loadOf); !slices.Contains(names, newer.Name) {
		t.Errorf("a newer checkpoint: %q was read", names)
	}
	k.put(c.Name, k.get(c.Name))
	k.drop(newer.Name)
	if names := k.reads(k.loadOf); !slices.Contains(names, c.Name) {
		t.Errorf("another object of its name: %q was read", names)
	}
	k.loadsAlike(tables.Latest)
}

// foreignCheckpoint is one of somebody who keeps no extracts.
func (k *kept) foreignCheckpoint(s *shelf) *tables.Checkpoint {
	k.t.Helper()
	k.cfg.Log.Extracts = nil
	defer func() { k.cfg.Log.Extracts = s }()
	return k.checkpoint()
}

// all are the files of the log.
func (k *kept) all() map[string][]byte {
	k.t.Helper()
	out := map[string][]byte{}
	for _, n := range k.names() {
		out[n] = k.get(n)
	}
	return out
}

// TestNoExtract: small checkpoints have none, and nobody asks for theirs; nor have tables
// for which it would say too little.
func TestNoExtract(t *testing.T) {
	k := plainKept(t)
	s := k.shelf()
	k.cfg.Log.ExtractFrom = 0
	k.commit(addLine("a"))
	k.checkpoint()
	if names := k.reads(k.loadOf); s.puts != 0 || s.gets != 0 || len(names) == 0 {
		t.Errorf("a small checkpoint: %d extracts, and they were asked for %d times", s.puts, s.gets)
	}

	k = plainKept(t)
	s = k.shelf()
	k.commit(addLine("a"), addLine("a", vector("v")))
	k.checkpoint()
	if s.puts != 0 {
		t.Error("a path is live under two vectors")
	}
	k.loadsAlike(tables.Latest)

	k = newKept(t)
	s = k.shelf()
	k.commit(featureProtocol(nil, []string{"rowTracking", "domainMetadata"}), metaOf(schemaJSON, nil, `"delta.enableRowTracking":"true"`))
	k.commit(`{"add":{"path":"a","partitionValues":{},"size":1,"modificationTime":5,"dataChange":true,"baseRowId":0,"defaultRowCommitVersion":1}}`)
	k.checkpoint()
	if s.puts != 0 {
		t.Error("rows have ids")
	}
	k.loadsAlike(tables.Latest)
}

// TestExtractBeforeRowTracking: a commit behind the checkpoint switches row tracking on.
// From there on the ids of all files count, and the checkpoint is read.
func TestExtractBeforeRowTracking(t *testing.T) {
	k := plainKept(t)
	s := k.shelf()
	k.commit(addLine("a"), addLine("b"))
	k.checkpoint()
	k.commit(featureProtocol(nil, []string{"rowTracking", "domainMetadata"}), metaOf(schemaJSON, nil, `"delta.enableRowTracking":"true"`))
	if s.puts != 1 {
		t.Fatalf("%d extracts were kept, want 1", s.puts)
	}
	k.loadsAlike(tables.Latest)
}

// TestExtractWithheld: a call that is over is no reason to go on without the extract.
func TestExtractWithheld(t *testing.T) {
	k := plainKept(t)
	k.shelf()
	k.commit(addLine("a"))
	k.checkpoint()
	ctx, cancel := context.WithCancel(t.Context())
	cfg := k.cfg.Log
	cfg.Extracts, cfg.ReadCheckpoint = ending(cancel), checkpoint.Read
	if _, _, err := tables.NewLog(cfg).Load(ctx, tables.Latest); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want %v", err, context.Canceled)
	}
}

type ending func()

func (e ending) Get(ctx context.Context, _ int64) ([]byte, error) { e(); return nil, ctx.Err() }
func (e ending) Keep(context.Context, []byte)                     {}
