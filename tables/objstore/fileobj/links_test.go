package fileobj_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/txcoord/txcoord/tables/objstore"
	"github.com/txcoord/txcoord/tables/objstore/fileobj"
)

// swap puts a symbolic link in the place of a folder, and says where the folder is now.
func swap(t *testing.T, folder, target string) (kept string) {
	t.Helper()
	kept = folder + ".kept"
	if err := errors.Join(os.Rename(folder, kept), os.Symlink(target, folder)); err != nil {
		t.Fatal(err)
	}
	return kept
}

func write(t *testing.T, path string) {
	t.Helper()
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o777), os.WriteFile(path, []byte("theirs"), 0o666)); err != nil {
		t.Fatal(err)
	}
}

// everything is what lies below a folder: names, and the content of files.
func everything(t *testing.T, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		out[strings.TrimPrefix(path, dir)] = string(b)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// A folder on the way to a log that became a link, whether it leads out of the root or
// stays inside, absolute or relative, is followed by no call, and what lies behind it
// is left alone.
func TestSwappedFolderIsNotFollowed(t *testing.T) {
	for _, folder := range []string{"wh", "wh/t", "wh/t/_delta_log", "wh/t/_delta_log/_sidecars"} {
		for _, where := range []string{"out", "absolute", "relative"} {
			dir := t.TempDir()
			s := open(t, filepath.Join(dir), fileobj.Config{NoLinks: []string{"_delta_log"}})
			key := "wh/t/_delta_log/_sidecars/k"
			if err := s.Put(t.Context(), key, []byte("ours")); err != nil {
				t.Fatal(err)
			}
			rest := strings.TrimPrefix(key, folder+"/")
			other := filepath.Join(dir, "other")
			target := other
			switch where {
			case "out":
				other = t.TempDir()
				target = other
			case "relative":
				target = strings.Repeat("../", strings.Count(folder, "/")) + "other"
			}
			write(t, filepath.Join(other, rest))
			write(t, filepath.Join(other, filepath.Dir(rest), ".txcoord-old.tmp"))
			old := time.Now().Add(-time.Hour)
			if err := os.Chtimes(filepath.Join(other, filepath.Dir(rest), ".txcoord-old.tmp"), old, old); err != nil {
				t.Fatal(err)
			}
			before := everything(t, other)
			swap(t, filepath.Join(dir, folder), target)
			_, _, get := s.Get(t.Context(), key, objstore.Range{})
			_, stat := s.Stat(t.Context(), key)
			_, sweep := s.Sweep(t.Context(), filepath.Dir(key), time.Minute)
			var list error
			for _, err := range s.List(t.Context(), objstore.ListOptions{Prefix: "wh/t/_delta_log/_sidecars/"}) {
				list = err
			}
			for what, err := range map[string]error{
				"get": get, "stat": stat, "list": list, "sweep": sweep,
				"delete": s.Delete(t.Context(), key), "put": s.Put(t.Context(), key, nil),
				"put a new one": s.PutIfAbsent(t.Context(), key+"2", nil),
			} {
				if !errors.Is(err, objstore.ErrLinked) {
					t.Errorf("%s became a link %s: %s: %v", folder, where, what, err)
				}
			}
			if diff := cmp.Diff(before, everything(t, other)); diff != "" {
				t.Errorf("%s became a link %s: behind it (-before +after):\n%s", folder, where, diff)
			}
		}
	}
}

// Where links are allowed they are read through as long as they stay inside, and never
// written through.
func TestLinksElsewhere(t *testing.T) {
	dir, out := t.TempDir(), t.TempDir()
	s := open(t, dir, fileobj.Config{NoLinks: []string{"_delta_log"}})
	write(t, filepath.Join(dir, "real/f"))
	write(t, filepath.Join(out, "f"))
	for name, target := range map[string]string{"in": "real", "away": out, "real/file": "f", "real/leaves": filepath.Join(out, "f")} {
		if err := os.Symlink(target, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	for key, want := range map[string]error{"in/f": nil, "real/file": nil, "away/f": objstore.ErrLinked, "real/leaves": objstore.ErrLinked} {
		if _, _, err := s.Get(t.Context(), key, objstore.Range{}); !errors.Is(err, want) {
			t.Errorf("get %s: %v, want %v", key, err, want)
		}
	}
	for _, folder := range []string{"in", "away"} {
		for what, err := range map[string]error{"put": s.Put(t.Context(), folder+"/new", nil), "delete": s.Delete(t.Context(), folder+"/f")} {
			if !errors.Is(err, objstore.ErrLinked) {
				t.Errorf("%s through %s: %v", what, folder, err)
			}
		}
	}
	// Of an object that is a link the link is what is removed.
	if err := s.Delete(t.Context(), "real/leaves"); err != nil {
		t.Error(err)
	}
	if diff := cmp.Diff(map[string]string{"/f": "theirs"}, everything(t, out)); diff != "" {
		t.Errorf("outside (-want +got):\n%s", diff)
	}
}

// logsOnly makes the folder of a log for its first version and nothing else.
func logsOnly(folder, key string) bool {
	return strings.HasSuffix(key, "/0") || strings.Contains(folder, "/log/")
}

func TestMissingFoldersAreMadeForFewKeys(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "root")
	s := open(t, dir, fileobj.Config{Later: true, Makes: logsOnly})
	refused := func(what string, err error) {
		t.Helper()
		if !errors.Is(err, objstore.ErrNoFolder) || errors.Is(err, objstore.ErrUnknown) {
			t.Errorf("%s: %v", what, err)
		}
	}
	refused("a root that was never there", s.PutIfAbsent(t.Context(), "t/log/1", nil))
	if err := s.PutIfAbsent(t.Context(), "t/log/0", nil); err != nil {
		t.Fatal(err)
	}
	if err := s.Put(t.Context(), "t/log/sub/k", nil); err != nil {
		t.Errorf("below a log that is there: %v", err)
	}
	if err := os.RemoveAll(filepath.Join(dir, "t")); err != nil {
		t.Fatal(err)
	}
	refused("put", s.PutIfAbsent(t.Context(), "t/log/1", nil))
	refused("replace", s.Put(t.Context(), "t/log/1", nil))
	refused("below the log", s.Put(t.Context(), "t/log/sub/k", nil))
	if got := everything(t, dir); len(got) > 0 {
		t.Errorf("made: %v", got)
	}
	if _, err := os.Stat(filepath.Join(dir, "t")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the folder: %v", err)
	}
}

// A root that was there and is gone is no empty store: nothing is answered from it, and
// nothing made; when it is back all goes on.
func TestRootThatIsAway(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "root")
	write(t, filepath.Join(dir, "a/k"))
	s := open(t, dir, fileobj.Config{Later: true})
	told := open(t, filepath.Join(filepath.Dir(dir), "never"), fileobj.Config{Later: true})
	told.Expect()
	if err := os.Rename(dir, dir+".moved"); err != nil {
		t.Fatal(err)
	}
	for name, s := range map[string]handle{"seen": s, "told": told} {
		_, _, get := s.Get(t.Context(), "a/k", objstore.Range{})
		var list error
		for _, err := range s.List(t.Context(), objstore.ListOptions{Prefix: "a/"}) {
			list = err
		}
		for what, err := range map[string]error{
			"get": get, "list": list, "put": s.Put(t.Context(), "a/l", nil), "put a new one": s.PutIfAbsent(t.Context(), "b/l", nil), "delete": s.Delete(t.Context(), "a/k"),
		} {
			if !errors.Is(err, objstore.ErrAway) {
				t.Errorf("%s: %s: %v", name, what, err)
			}
		}
	}
	if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the root: %v", err)
	}
	if err := os.Rename(dir+".moved", dir); err != nil {
		t.Fatal(err)
	}
	if err := s.Put(t.Context(), "a/l", nil); err != nil {
		t.Error(err)
	}
	fresh := open(t, filepath.Join(filepath.Dir(dir), "fresh"), fileobj.Config{Later: true})
	if _, _, err := fresh.Get(t.Context(), "k", objstore.Range{}); !errors.Is(err, objstore.ErrNotFound) {
		t.Errorf("a root that nobody has seen: %v", err)
	}
}

func TestPutBeside(t *testing.T) {
	content := []byte("0")
	beside := func(content []byte) objstore.Neighbour {
		return objstore.Neighbour{Name: "0", SHA256: sha256.Sum256(content)}
	}
	for name, c := range map[string]struct {
		meanwhile func(dir string) error // after the draft was written
		n         objstore.Neighbour
		want      error
	}{
		"it is there":           {nil, beside(content), nil},
		"any content":           {nil, objstore.Neighbour{Name: "0"}, nil},
		"another content":       {nil, beside([]byte("other")), objstore.ErrMoved},
		"not there":             {nil, objstore.Neighbour{Name: "sub/owner"}, objstore.ErrMoved},
		"removed":               {func(d string) error { return os.Remove(filepath.Join(d, "log/0")) }, beside(content), objstore.ErrMoved},
		"the folder is removed": {func(d string) error { return os.RemoveAll(filepath.Join(d, "log")) }, beside(content), objstore.ErrMoved},
		"written over":          {func(d string) error { return os.WriteFile(filepath.Join(d, "log/0"), []byte("x"), 0o666) }, beside(content), objstore.ErrMoved},
		"another takes its name": {func(d string) error {
			return errors.Join(os.Rename(filepath.Join(d, "log"), filepath.Join(d, "moved")), os.Mkdir(filepath.Join(d, "log"), 0o777),
				os.WriteFile(filepath.Join(d, "log/0"), []byte("x"), 0o666))
		}, beside(content), nil},
	} {
		for _, warm := range []bool{false, true} {
			s := open(t, t.TempDir(), fileobj.Config{Makes: logsOnly})
			put := s.PutIfAbsent
			if warm { // it knows the content
				put = func(ctx context.Context, key string, data []byte) error {
					return s.Store.PutBeside(ctx, key, data, objstore.Neighbour{Name: "."})
				}
			}
			if err := put(t.Context(), "log/0", content); err != nil {
				t.Fatal(err)
			}
			if c.meanwhile != nil {
				done := false
				fileobj.OnStep(s.Store, func(step string) (error, bool) {
					if step == "sync file" && !done {
						done = true
						return c.meanwhile(s.dir), false
					}
					return nil, false
				})
			}
			err := s.PutBeside(t.Context(), "log/1", []byte("1"), c.n)
			if !errors.Is(err, c.want) || errors.Is(err, objstore.ErrUnknown) {
				t.Errorf("%s, warm %t: %v, want %v", name, warm, err, c.want)
			}
			if _, err := os.Stat(filepath.Join(s.dir, "log/1")); (err == nil) != (c.want == nil && c.meanwhile == nil) {
				t.Errorf("%s, warm %t: in the folder: %v", name, warm, err)
			}
			if drafts := files(t, s.dir, ".tmp"); len(drafts) > 0 {
				t.Errorf("%s: %q stay behind", name, drafts)
			}
		}
	}
}

// A folder that is removed in the last moment, after the look at what lies in it, gets
// nothing, and neither does the one that was made in its place.
func TestPutBesideIntoAFolderThatIsReplaced(t *testing.T) {
	s := open(t, t.TempDir(), fileobj.Config{Makes: logsOnly})
	if err := s.PutIfAbsent(t.Context(), "log/0", []byte("0")); err != nil {
		t.Fatal(err)
	}
	fileobj.OnStep(s.Store, func(step string) (error, bool) {
		if step != "link" {
			return nil, false
		}
		return errors.Join(os.RemoveAll(filepath.Join(s.dir, "log")), os.Mkdir(filepath.Join(s.dir, "log"), 0o777),
			os.WriteFile(filepath.Join(s.dir, "log/0"), []byte("x"), 0o666)), false
	})
	err := s.PutBeside(t.Context(), "log/1", []byte("1"), objstore.Neighbour{Name: "0", SHA256: sha256.Sum256([]byte("0"))})
	if !errors.Is(err, objstore.ErrMoved) || errors.Is(err, objstore.ErrUnknown) {
		t.Errorf("%v", err)
	}
	if diff := cmp.Diff(map[string]string{"/log/0": "x"}, everything(t, s.dir)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
