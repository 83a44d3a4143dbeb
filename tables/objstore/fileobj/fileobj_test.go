package fileobj_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/txcoord/txcoord/tables/objstore"
	"github.com/txcoord/txcoord/tables/objstore/fileobj"
	"github.com/txcoord/txcoord/tables/objstore/objtest"
)

// handle is a store that knows its folder, so that it can be opened again.
type handle struct {
	*fileobj.Store
	dir string
}

func open(t objtest.T, dir string, cfg fileobj.Config) handle {
	s, err := fileobj.New(dir, cfg)
	if err != nil {
		t.Fatalf("%v", err)
	}
	return handle{s, dir}
}

func suite(open func(t objtest.T, dir string) handle) objtest.Config {
	return objtest.Config{
		New:    func(t objtest.T) objstore.Store { return open(t, t.TempDir()) },
		Reopen: func(t objtest.T, s objstore.Store) objstore.Store { return open(t, s.(handle).dir) },
		Without: map[objtest.Capability]string{
			objtest.Nesting:   "a name is a file or a folder",
			objtest.Replacing: "a file system can link a name that is free, and exchange none on a condition",
		},
	}
}

func TestConformance(t *testing.T) {
	objtest.Run(t, suite(func(t objtest.T, dir string) handle { return open(t, dir, fileobj.Config{}) }))
}

// Folders vanish under the feet of puts.
func TestConformanceWithPruning(t *testing.T) {
	cfg := fileobj.Config{Prune: func(string) bool { return true }}
	objtest.Run(t, suite(func(t objtest.T, dir string) handle { return open(t, dir, cfg) }))
}

// Some file systems have no files without names.
func TestConformanceWithNamedDrafts(t *testing.T) {
	objtest.Run(t, suite(func(t objtest.T, dir string) handle {
		s := open(t, dir, fileobj.Config{})
		fileobj.WithoutUnnamedDrafts(s.Store)
		return s
	}))
}

// Absolute paths are the keys of a store that is rooted at "/".
func TestRootOfTheFileSystem(t *testing.T) {
	s := open(t, "/", fileobj.Config{})
	dir := t.TempDir()
	key := filepath.Join(dir, "a/b")[1:]
	if err := s.PutIfAbsent(t.Context(), key, []byte("x")); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(filepath.Join(dir, "a/b")); err != nil || string(got) != "x" {
		t.Fatalf("got %q, %v", got, err)
	}
	for e, err := range s.List(t.Context(), objstore.ListOptions{Prefix: dir[1:] + "/"}) {
		if err != nil || e.Key != key {
			t.Errorf("list yields %q, %v", e.Key, err)
		}
	}
}

// What lies below a folder that may be no link is not reached through one, by any call.
func TestLinkedFolderIsNotFollowed(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, fileobj.Config{NoLinks: []string{"_delta_log"}})
	ctx, key := t.Context(), "t/_delta_log/0.json"
	if err := s.PutIfAbsent(ctx, key, []byte("here")); err != nil {
		t.Fatal(err)
	}
	away := filepath.Join(dir, "elsewhere")
	if err := os.Rename(filepath.Join(dir, "t/_delta_log"), away); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(away, filepath.Join(dir, "t/_delta_log")); err != nil {
		t.Fatal(err)
	}
	list := func() (err error) {
		for _, e := range s.List(ctx, objstore.ListOptions{Prefix: "t/_delta_log/", Delimiter: true}) {
			err = e
		}
		return err
	}
	_, _, get := s.Get(ctx, key, objstore.Range{})
	_, stat := s.Stat(ctx, key)
	for what, err := range map[string]error{
		"get": get, "stat": stat, "list": list(), "put": s.PutIfAbsent(ctx, "t/_delta_log/1.json", nil),
		"replace": s.Put(ctx, key, nil), "delete": s.Delete(ctx, key),
	} {
		if !errors.Is(err, objstore.ErrLinked) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if _, err := os.Stat(filepath.Join(away, "1.json")); !os.IsNotExist(err) {
		t.Errorf("the link was followed: %v", err)
	}
	if _, _, err := s.Get(ctx, "elsewhere/0.json", objstore.Range{}); err != nil {
		t.Errorf("other links are: %v", err)
	}
}
