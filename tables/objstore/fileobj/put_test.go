package fileobj_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/txcoord/txcoord/tables/objstore"
	"github.com/txcoord/txcoord/tables/objstore/fileobj"
)

// steps records what a store asks of the kernel.
func steps(s handle) *[]string {
	var got []string
	fileobj.OnStep(s.Store, func(step string) (error, bool) {
		got = append(got, step)
		return nil, false
	})
	return &got
}

func TestPutSyncsBeforeAndAfterTheName(t *testing.T) {
	s := open(t, t.TempDir(), fileobj.Config{})
	got := steps(s)
	for _, c := range []struct {
		what string
		run  func() error
		want []string
	}{
		{
			"first put into a new folder", func() error { return s.PutIfAbsent(t.Context(), "a/b/1", []byte("x")) },
			[]string{"sync folder", "sync folder", "draft", "sync file", "link", "sync folder"},
		},
		{
			"next put", func() error { return s.PutIfAbsent(t.Context(), "a/b/2", []byte("x")) },
			[]string{"draft", "sync file", "link", "sync folder"},
		},
		{
			"overwrite", func() error { return s.Put(t.Context(), "a/b/2", []byte("y")) },
			[]string{"sync file", "rename", "sync folder"},
		},
		{"own object", func() error { return s.PutIfAbsent(t.Context(), "a/b/2", []byte("z")) }, nil},
		{"delete", func() error { return s.Delete(t.Context(), "a/b/1") }, []string{"sync folder"}},
	} {
		*got = nil
		if err := c.run(); err != nil && !errors.Is(err, objstore.ErrExists) {
			t.Fatalf("%s: %v", c.what, err)
		}
		if diff := cmp.Diff(c.want, *got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.what, diff)
		}
	}
}

// A failed step is answered by what it leaves behind.
func TestFailedSteps(t *testing.T) {
	for _, c := range []struct {
		step    string
		late    bool
		err     error
		unknown bool
		there   bool
	}{
		{step: "draft", err: syscall.ENOSPC},
		{step: "sync file", err: syscall.EIO},
		{step: "link", err: syscall.ENOSPC},
		{step: "link", err: syscall.EIO, unknown: true},
		{step: "link", late: true, err: syscall.EIO, unknown: true, there: true},
		{step: "sync folder", err: syscall.EIO, unknown: true, there: true},
		{step: "rename", err: syscall.EIO, unknown: true},
		{step: "rename", late: true, err: syscall.EIO, unknown: true, there: true},
	} {
		s := open(t, t.TempDir(), fileobj.Config{})
		fileobj.OnStep(s.Store, func(step string) (error, bool) {
			if step == c.step {
				return c.err, c.late
			}
			return nil, false
		})
		put := s.PutIfAbsent
		if c.step == "rename" {
			put = s.Put
		}
		err := put(t.Context(), "k", []byte("x"))
		if !errors.Is(err, c.err) || errors.Is(err, objstore.ErrUnknown) != c.unknown {
			t.Errorf("%s: got %v", c.step, err)
		}
		if _, err := os.Stat(filepath.Join(s.dir, "k")); (err == nil) != c.there {
			t.Errorf("%s, late %v: stat says %v", c.step, c.late, err)
		}
		if drafts := files(t, s.dir, ".tmp"); len(drafts) > 0 {
			t.Errorf("%s: %q stay behind", c.step, drafts)
		}
	}
}

// An object that was not put by this store is made durable before it is reported:
// many writers never sync, and one that did may have died before the folder was.
func TestYoungObjectsOfOthersAreSettled(t *testing.T) {
	s := open(t, t.TempDir(), fileobj.Config{})
	write := func(name string) {
		if err := os.WriteFile(filepath.Join(s.dir, name), []byte("x"), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	write("get")
	write("stat")
	write("put")
	want := []string{"sync file", "sync folder"}
	got := steps(s)
	check := func(what string, want []string) {
		t.Helper()
		if diff := cmp.Diff(want, *got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", what, diff)
		}
		*got = nil
	}
	_, _, err := s.Get(t.Context(), "get", objstore.Range{})
	check("get", want)
	_, statErr := s.Stat(t.Context(), "stat")
	check("stat", want)
	if err := errors.Join(err, statErr); err != nil {
		t.Fatal(err)
	}
	if err := s.PutIfAbsent(t.Context(), "put", nil); !errors.Is(err, objstore.ErrExists) {
		t.Fatal(err)
	}
	check("refused put", want)
	_, _ = s.Stat(t.Context(), "get")
	check("second look", nil)

	off := open(t, s.dir, fileobj.Config{SettleWithin: -1})
	got = steps(off)
	_, _ = off.Stat(t.Context(), "get")
	check("turned off", nil)
}

// What is known to be durable is not made so once more by a read, and is by a put that it
// refuses.
func TestDurableObjectsAreNotSettled(t *testing.T) {
	s := open(t, t.TempDir(), fileobj.Config{})
	if err := os.WriteFile(filepath.Join(s.dir, "k"), []byte("x"), 0o666); err != nil {
		t.Fatal(err)
	}
	got := steps(s)
	ctx := objstore.Durable(t.Context())
	_, _, err := s.Get(ctx, "k", objstore.Range{})
	_, statErr := s.Stat(ctx, "k")
	if err := errors.Join(err, statErr); err != nil || len(*got) > 0 {
		t.Errorf("%v, %q", err, *got)
	}
	if err := s.PutIfAbsent(ctx, "k", nil); !errors.Is(err, objstore.ErrExists) {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"sync file", "sync folder"}, *got); diff != "" {
		t.Errorf("a refused put (-want +got):\n%s", diff)
	}
}

// A lost race against a writer that died before its folder was durable.
func TestRefusalByLinkIsSettledToo(t *testing.T) {
	s := open(t, t.TempDir(), fileobj.Config{})
	var got []string
	fileobj.OnStep(s.Store, func(step string) (error, bool) {
		got = append(got, step)
		if step == "link" {
			if err := os.WriteFile(filepath.Join(s.dir, "k"), []byte("rival"), 0o666); err != nil {
				t.Error(err)
			}
		}
		return nil, false
	})
	if err := s.PutIfAbsent(t.Context(), "k", []byte("x")); !errors.Is(err, objstore.ErrExists) {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"draft", "sync file", "link", "sync file", "sync folder"}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// files are the names in a folder and below it that end so.
func files(t *testing.T, dir, suffix string) []string {
	t.Helper()
	var found []string
	err := filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		if strings.HasSuffix(path, suffix) {
			found = append(found, filepath.Base(path))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func TestSweep(t *testing.T) {
	s := open(t, t.TempDir(), fileobj.Config{})
	if err := s.Put(t.Context(), "t/log/k", []byte("x")); err != nil {
		t.Fatal(err)
	}
	hour := time.Now().Add(-time.Hour)
	for name, at := range map[string]time.Time{
		".txcoord-old.tmp": hour, ".txcoord-young.tmp": time.Now(), ".of-others.tmp": hour, "txcoord-visible.tmp": hour,
	} {
		path := filepath.Join(s.dir, "t/log", name)
		if err := errors.Join(os.WriteFile(path, nil, 0o666), os.Chtimes(path, at, at)); err != nil {
			t.Fatal(err)
		}
	}
	for e, err := range s.List(t.Context(), objstore.ListOptions{}) {
		if err != nil || strings.HasPrefix(filepath.Base(e.Key), ".txcoord") {
			t.Errorf("list yields %q, %v", e.Key, err)
		}
	}
	for _, c := range []struct {
		folder string
		want   int
	}{{"elsewhere", 0}, {"t", 1}, {"t/", 0}, {"", 0}} {
		n, err := s.Sweep(t.Context(), c.folder, time.Minute)
		if err != nil || n != c.want {
			t.Errorf("sweep %q removes %d, %v, want %d", c.folder, n, err, c.want)
		}
	}
	want := []string{".of-others.tmp", ".txcoord-young.tmp", "txcoord-visible.tmp"}
	if diff := cmp.Diff(want, files(t, s.dir, ".tmp")); diff != "" {
		t.Errorf("left (-want +got):\n%s", diff)
	}
	if _, err := s.Sweep(t.Context(), "../", 0); err == nil {
		t.Error("a sweep leads out of the root")
	}
}

func TestPruneRemovesEmptyFolders(t *testing.T) {
	s := open(t, t.TempDir(), fileobj.Config{Prune: func(folder string) bool { return strings.Contains(folder, "/ours/") }})
	for _, key := range []string{"theirs/a/k", "ours/a/b/k", "ours/a/l"} {
		if err := s.Put(t.Context(), key, nil); err != nil {
			t.Fatal(err)
		}
	}
	for _, key := range []string{"theirs/a/k", "ours/a/b/k", "ours/a/missing"} {
		if err := s.Delete(t.Context(), key); err != nil {
			t.Fatal(err)
		}
	}
	for folder, want := range map[string]bool{"theirs/a": true, "ours/a/b": false, "ours/a": true} {
		if _, err := os.Stat(filepath.Join(s.dir, folder)); (err == nil) != want {
			t.Errorf("%s: %v", folder, err)
		}
	}
	if err := s.PutIfAbsent(t.Context(), "ours/a/b/k", nil); err != nil {
		t.Errorf("put into a folder that was removed: %v", err)
	}
}

func TestNewNamesTheFolder(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o666); err != nil {
		t.Fatal(err)
	}
	for _, root := range []string{file, file + "-missing"} {
		if _, err := fileobj.New(root, fileobj.Config{}); err == nil || !strings.Contains(err.Error(), root) {
			t.Errorf("New(%s): %v", root, err)
		}
	}
}

// Names that are taken by something else than an object.
func TestNamesThatAreNotObjects(t *testing.T) {
	s := open(t, t.TempDir(), fileobj.Config{})
	if err := errors.Join(
		s.Put(t.Context(), "file", nil), os.Mkdir(filepath.Join(s.dir, "folder"), 0o777),
		os.Symlink("nowhere", filepath.Join(s.dir, "dangling")), syscall.Mkfifo(filepath.Join(s.dir, "pipe"), 0o666),
	); err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"folder", "dangling", "pipe", "file/below", ".txcoord-x.tmp"} {
		err := s.PutIfAbsent(t.Context(), key, []byte("x"))
		if err == nil || errors.Is(err, objstore.ErrExists) || errors.Is(err, objstore.ErrUnknown) {
			t.Errorf("put %s: %v", key, err)
		}
	}
	if _, err := s.Stat(t.Context(), "pipe"); !errors.Is(err, objstore.ErrNotFound) {
		t.Errorf("stat pipe: %v", err)
	}
	for e, err := range s.List(t.Context(), objstore.ListOptions{}) {
		if err != nil || e.Key != "file" {
			t.Errorf("list yields %q, %v", e.Key, err)
		}
	}
}
