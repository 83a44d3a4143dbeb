package logstore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/txcoord/txcoord/tables/objstore"
	"github.com/txcoord/txcoord/tables/objstore/memobj"
)

// plain are entries in a map, for tests without races.
type plain map[string]Entry

func (p plain) Get(_ context.Context, path, name string) (Entry, error) {
	if e, ok := p[path+" "+name]; ok {
		return e, nil
	}
	return Entry{}, ErrNoEntry
}

func (p plain) Newest(_ context.Context, path string) (newest Entry, err error) {
	err = ErrNoEntry
	for _, e := range p {
		if e.TablePath == path && e.FileName >= newest.FileName {
			newest, err = e, nil
		}
	}
	return newest, err
}

func (p plain) Claim(_ context.Context, e Entry) (Entry, error) {
	if held, ok := p[e.TablePath+" "+e.FileName]; ok {
		return held, ErrClaimed
	}
	p[e.TablePath+" "+e.FileName] = e
	return Entry{}, nil
}

func (p plain) Complete(_ context.Context, e Entry, expires int64) error {
	if held, ok := p[e.TablePath+" "+e.FileName]; ok && !held.Complete && held.TempPath == e.TempPath {
		e.Complete, e.Expires = true, expires
		p[e.TablePath+" "+e.FileName] = e
	}
	return nil
}

type bench struct {
	t       *testing.T
	entries plain
	objects objstore.Store
	table   objstore.Store
}

func newBench(t *testing.T, versions int) *bench {
	t.Helper()
	b := &bench{t: t, entries: plain{}, objects: memobj.New()}
	l, err := New(Config{Entries: b.entries})
	if err != nil {
		t.Fatal(err)
	}
	if b.table, err = l.Table(b.objects, strings.TrimSuffix(root, "/"), "s3://b/db/t"); err != nil {
		t.Fatal(err)
	}
	for v := range versions {
		b.put(root+logFolder+fileName(int64(v)), fmt.Sprint("commit ", v))
	}
	return b
}

func (b *bench) put(key, content string) {
	b.t.Helper()
	if err := b.objects.Put(b.t.Context(), key, []byte(content)); err != nil {
		b.t.Fatal(err)
	}
}

func (b *bench) claim(v int64, temp string, complete bool) {
	e := Entry{TablePath: "s3a://b/db/t", FileName: fileName(v), TempPath: temp, Complete: complete}
	b.entries[e.TablePath+" "+e.FileName] = e
}

func (b *bench) read(v int64) (string, error) {
	data, _, err := b.table.Get(b.t.Context(), root+logFolder+fileName(v), objstore.Range{})
	return string(data), err
}

func (b *bench) list() (names []string, err error) {
	for e, err := range b.table.List(b.t.Context(), objstore.ListOptions{Prefix: root + logFolder, Delimiter: true}) {
		if err != nil {
			return nil, err
		}
		names = append(names, strings.TrimPrefix(e.Key+e.Prefix, root+logFolder))
	}
	return names, nil
}

// An entry in every state, with and without its file and its commit: what a reader of
// the version gets, and what a listing leaves behind.
func TestRepairs(t *testing.T) {
	const temp = ".tmp/x"
	for _, c := range []struct {
		temp, commit, complete bool
		reads                  string // "-": there is no such version, "!": an operator is needed
		completed              bool
	}{
		{temp: true, reads: "staged", completed: true},
		{temp: true, commit: true, reads: "commit 2", completed: true},
		{commit: true, reads: "commit 2", completed: true},
		{reads: "!"},
		{temp: true, complete: true, reads: "-", completed: true},
		{temp: true, commit: true, complete: true, reads: "commit 2", completed: true},
		{commit: true, complete: true, reads: "commit 2", completed: true},
		{complete: true, reads: "-", completed: true},
	} {
		t.Run(fmt.Sprintf("%+v", c), func(t *testing.T) {
			versions := 2
			if c.commit {
				versions = 3
			}
			b := newBench(t, versions)
			if c.temp {
				b.put(root+logFolder+temp, "staged")
			}
			b.claim(2, temp, c.complete)
			got, err := b.read(2)
			var bad *EntryError
			switch {
			case errors.As(err, &bad):
				got = "!"
			case errors.Is(err, objstore.ErrNotFound):
				got = "-"
			case err != nil:
				t.Fatal(err)
			}
			if got != c.reads {
				t.Errorf("read %q, %v, want %q", got, err, c.reads)
			}
			if _, err := b.list(); (err != nil) != (c.reads == "!") {
				t.Errorf("list: %v", err)
			}
			if e, _ := b.entries.Newest(t.Context(), "s3a://b/db/t"); e.Complete != c.completed || e.TempPath != temp {
				t.Errorf("left %+v", e)
			}
			// A version whose entry is complete is never put again.
			err = b.table.PutIfAbsent(t.Context(), root+logFolder+fileName(2), []byte("ours"))
			if missing := c.reads == "-"; errors.As(err, &bad) != missing || errors.Is(err, objstore.ErrExists) == missing {
				t.Errorf("a put of the version gets %v", err)
			}
		})
	}
}

// A put leaves what Spark leaves, and an entry that stood in the way is repaired first.
func TestPut(t *testing.T) {
	b := newBench(t, 2)
	b.put(root+logFolder+".tmp/left", "left")
	b.claim(2, ".tmp/left", false)
	key := root + logFolder + fileName(3)
	if err := b.table.PutIfAbsent(t.Context(), key, []byte("ours")); err != nil {
		t.Fatal(err)
	}
	for v, want := range map[int64]string{2: "left", 3: "ours"} {
		e, err := b.entries.Get(t.Context(), "s3a://b/db/t", fileName(v))
		if err != nil || !e.Complete || e.Expires == 0 {
			t.Errorf("%+v, %v", e, err)
		}
		staged, _, err := b.objects.Get(t.Context(), root+logFolder+e.TempPath, objstore.Range{})
		got, reading := b.read(v)
		if err != nil || reading != nil || got != want || !bytes.Equal(staged, []byte(want)) {
			t.Errorf("version %d: %q, %v, staged %q, %v", v, got, reading, staged, err)
		}
	}
	if err := b.table.PutIfAbsent(t.Context(), key, []byte("ours")); !errors.Is(err, objstore.ErrExists) {
		t.Errorf("the same again: %v", err)
	}
	var bad *EntryError
	if err := b.table.PutIfAbsent(t.Context(), root+logFolder+fileName(9), []byte("far")); !errors.As(err, &bad) {
		t.Errorf("over a hole: %v", err)
	}
	if err := b.table.Put(t.Context(), key, []byte("other")); err == nil {
		t.Error("a commit is overwritten")
	}
	if err := b.table.Put(t.Context(), root+logFolder+"_last_checkpoint", []byte("{}")); err != nil || len(b.entries) != 2 {
		t.Errorf("what is no commit: %v, %v", err, b.entries)
	}
}

// Below a checkpoint the commits may be cleaned away.
func TestPutOnACheckpoint(t *testing.T) {
	b := newBench(t, 0)
	b.put(root+logFolder+fmt.Sprintf("%020d.checkpoint.parquet", 4), "checkpoint")
	if err := b.table.PutIfAbsent(t.Context(), root+logFolder+fileName(5), []byte("ours")); err != nil {
		t.Error(err)
	}
}

// The claim of a version whose entry has expired is void, and does no harm.
func TestVoidClaim(t *testing.T) {
	b := newBench(t, 2)
	l, err := New(Config{Entries: b.entries})
	if err != nil {
		t.Fatal(err)
	}
	// Between look and claim another writer takes the version, and its entry expires.
	late := &lateObjects{Store: b.objects, until: func() { b.put(root+logFolder+fileName(2), "theirs") }}
	table, err := l.Table(late, strings.TrimSuffix(root, "/"), "s3://b/db/t")
	if err != nil {
		t.Fatal(err)
	}
	if err := table.PutIfAbsent(t.Context(), root+logFolder+fileName(2), []byte("ours")); !errors.Is(err, objstore.ErrExists) {
		t.Errorf("%v", err)
	}
	e, err := b.entries.Newest(t.Context(), "s3a://b/db/t")
	if got, _ := b.read(2); got != "theirs" || err != nil || !e.Complete {
		t.Errorf("%q, %+v, %v", got, e, err)
	}
}

// lateObjects does something when the first commit is put.
type lateObjects struct {
	objstore.Store
	until func()
}

func (l *lateObjects) PutIfAbsent(ctx context.Context, key string, data []byte) error {
	l.until()
	return l.Store.PutIfAbsent(ctx, key, data)
}

// An entry of a table that was dropped does not make a version without predecessors in
// the next table at its place.
func TestEntryOfADroppedTable(t *testing.T) {
	b := newBench(t, 1)
	b.put(root+logFolder+".tmp/old", "old")
	b.claim(7, ".tmp/old", false)
	var bad *EntryError
	if _, err := b.list(); !errors.As(err, &bad) || !strings.Contains(bad.Remedy, "remove the entries") {
		t.Errorf("%v", err)
	}
	if _, err := b.objects.Stat(t.Context(), root+logFolder+fileName(7)); !errors.Is(err, objstore.ErrNotFound) {
		t.Errorf("%v", err)
	}
}

// Temporary files outside the log are nobody's business.
func TestTempPaths(t *testing.T) {
	for _, temp := range []string{"", "/x", "../../x", "s3a://b/x", ".tmp/../../../x"} {
		b := newBench(t, 2)
		b.claim(2, temp, false)
		var bad *EntryError
		if _, err := b.read(2); !errors.As(err, &bad) {
			t.Errorf("%q: %v", temp, err)
		}
	}
}
