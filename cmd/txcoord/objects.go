package main

import (
	"fmt"
	"net/url"
	"path/filepath"
	"strings"

	"github.com/txcoord/txcoord/tables"
	"github.com/txcoord/txcoord/tables/objstore"
	"github.com/txcoord/txcoord/tables/objstore/fileobj"
)

// objects finds object stores for the coordinator: local files, under the roots
// that the operator allowed.
type objects struct {
	files   *fileobj.Store
	allowed []string // canonical, links resolved
}

// newObjects takes locations as users write them. A folder need not exist.
func newObjects(allowed []string) (*objects, error) {
	files, err := fileobj.New("/", fileobj.Config{Prune: ownFolder})
	if err != nil {
		return nil, fmt.Errorf("open the file system: %w", err)
	}
	o := &objects{files: files}
	for _, a := range allowed {
		path, err := localPath(a)
		if err != nil {
			return nil, err
		}
		o.allowed = append(o.allowed, path)
	}
	return o, nil
}

// ownFolder: folders of ours go with their last object. An empty one beside a
// table's log would look as if the table had an owner (R9).
func ownFolder(folder string) bool { return strings.Contains(folder, "/_txcoord/") }

// Open refuses what does not lie below an allowed root, also where a link leads
// out of one.
func (o *objects) Open(uri string) (objstore.Store, string, error) {
	path, err := localPath(uri)
	if err != nil {
		return nil, "", err
	}
	for _, root := range o.allowed {
		if path == root || strings.HasPrefix(path, root+"/") {
			return o.files, strings.TrimPrefix(path, "/"), nil
		}
	}
	return nil, "", fmt.Errorf("%s is not below %s; txcoord serve --allow PREFIX allows more", path, strings.Join(o.allowed, " or "))
}

// localPath is the path of a location on this machine, with links resolved as far
// as it exists.
func localPath(location string) (string, error) {
	uri, err := tables.CanonicalURI(location)
	if err != nil {
		return "", err
	}
	scheme, rest, _ := strings.Cut(uri, "://")
	if scheme != "file" {
		return "", fmt.Errorf("%s: this build has no object store for %s://, only local files", uri, scheme)
	}
	path, err := url.PathUnescape(rest)
	if err != nil {
		return "", fmt.Errorf("%s: %w", uri, err)
	}
	return resolved(path), nil
}

func resolved(path string) string {
	for parent, rest := path, ""; ; parent, rest = filepath.Dir(parent), filepath.Join(filepath.Base(parent), rest) {
		if real, err := filepath.EvalSymlinks(parent); err == nil {
			return filepath.Join(real, rest)
		}
		if parent == filepath.Dir(parent) {
			return path
		}
	}
}
