package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/txcoord/txcoord/tables"
	"github.com/txcoord/txcoord/tables/objstore"
	"github.com/txcoord/txcoord/tables/objstore/fileobj"
)

// objects finds object stores for the coordinator: local files and buckets, under the
// roots that the operator allowed.
type objects struct {
	files   *fileobj.Store
	buckets map[string]bucket // by the location of the bucket itself
	allowed []string          // canonical, links resolved
	// unprobed are the allowed folders that were not there yet; nil if none is probed.
	mu       sync.Mutex
	unprobed map[string]bool
}

// newObjects takes locations as users write them. A folder need not exist; a bucket
// has to, and is tried. With probe each has to prove that it honours conditions and
// shows what was written; a folder that is not there yet, before its first table.
func newObjects(ctx context.Context, allowed []string, buckets BucketFlags, probe bool, log *slog.Logger) (*objects, error) {
	files, err := fileobj.New("/", fileobj.Config{Prune: ownFolder, NoLinks: []string{"_delta_log"}})
	if err != nil {
		return nil, fmt.Errorf("open the file system: %w", err)
	}
	o := &objects{files: files, buckets: map[string]bucket{}}
	if probe {
		o.unprobed = map[string]bool{}
	}
	for _, a := range allowed {
		if err := o.allow(ctx, a, buckets, log); err != nil {
			return nil, errors.Join(err, o.Close())
		}
	}
	return o, nil
}

func (o *objects) allow(ctx context.Context, location string, buckets BucketFlags, log *slog.Logger) error {
	p, err := parsePlace(location)
	if err != nil {
		return err
	}
	o.allowed = append(o.allowed, p.String())
	if p.local() {
		return o.probeFolder(ctx, p)
	}
	b, ok := o.buckets[p.root]
	if !ok {
		if b, err = buckets.open(ctx, p, log); err != nil {
			return err
		}
		o.buckets[p.root] = b
	}
	if o.unprobed == nil {
		return nil
	}
	return b.Check(ctx, p.key)
}

// probeFolder probes a local folder, or notes that it is not there yet.
func (o *objects) probeFolder(ctx context.Context, p placed) error {
	if o.unprobed == nil {
		return nil
	}
	switch info, err := os.Stat(p.String()); {
	case errors.Is(err, fs.ErrNotExist):
		o.mu.Lock()
		defer o.mu.Unlock()
		o.unprobed[p.String()] = true
		return nil
	case err == nil && !info.IsDir():
		return fmt.Errorf("%s is not a folder", p)
	}
	if err := objstore.Probe(ctx, o.files, p.key); err != nil {
		return fmt.Errorf("%s cannot hold tables: %w (put it on a file system with hard links that the server may write; --no-probe skips this test)", p, err)
	}
	return nil
}

// Probe implements coordinator.Prober: the folder of a table's root that was not there
// when the server was started is probed before its first table is taken.
func (o *objects) Probe(ctx context.Context, uri string) error {
	place, err := parsePlace(uri)
	if err != nil || o.unprobed == nil || !place.local() {
		return err
	}
	for _, root := range o.allowed {
		if place.String() != root && !strings.HasPrefix(place.String(), root+"/") {
			continue
		}
		o.mu.Lock()
		due := o.unprobed[root]
		o.mu.Unlock()
		if !due {
			return nil
		}
		p, err := parsePlace(root)
		if err != nil {
			return err
		}
		if err := o.probeFolder(ctx, p); err != nil {
			return err
		}
		if _, err := os.Stat(root); err == nil {
			o.mu.Lock()
			delete(o.unprobed, root)
			o.mu.Unlock()
		}
		return nil
	}
	return nil
}

// Close lets go of the buckets.
func (o *objects) Close() error {
	var errs []error
	for _, b := range o.buckets {
		errs = append(errs, b.Close())
	}
	return errors.Join(errs...)
}

// ownFolder: folders of ours go with their last object. An empty one beside a
// table's log would look as if the table had an owner (R9).
func ownFolder(folder string) bool { return strings.Contains(folder, "/_txcoord/") }

// Open refuses what does not lie below an allowed root, also where a link leads
// out of one.
func (o *objects) Open(uri string) (objstore.Store, string, error) {
	p, err := parsePlace(uri)
	if err != nil {
		return nil, "", err
	}
	for _, root := range o.allowed {
		if place := p.String(); place != root && !strings.HasPrefix(place, root+"/") {
			continue
		}
		if p.local() {
			return o.files, p.key, nil
		}
		return o.buckets[p.root], p.key, nil
	}
	return nil, "", fmt.Errorf("%s is not below %s; txcoord serve --allow PREFIX allows more", p, strings.Join(o.allowed, " or "))
}

// placed is a location: a bucket, or the file system, and a key in it.
type placed struct {
	scheme string
	// root is the bucket's own location, such as s3://orders; empty for files.
	root string
	key  string
}

func (p placed) local() bool { return p.scheme == "file" }

// String is how people write it. Nothing in it is escaped.
func (p placed) String() string {
	return strings.TrimSuffix(p.root+"/"+p.key, "/")
}

// parsePlace takes a location apart: with links resolved as far as they exist, if it
// is on this machine.
func parsePlace(location string) (placed, error) {
	uri, err := tables.CanonicalURI(location)
	if err != nil {
		return placed{}, err
	}
	scheme, rest, _ := strings.Cut(uri, "://")
	path, err := url.PathUnescape(rest)
	if err != nil {
		return placed{}, fmt.Errorf("%s: %w", uri, err)
	}
	if scheme == "file" {
		return placed{scheme: scheme, key: strings.TrimPrefix(resolved(path), "/")}, nil
	}
	if _, err := kindOf(scheme); err != nil {
		return placed{}, fmt.Errorf("%s: %w", uri, err)
	}
	name, key, _ := strings.Cut(path, "/")
	return placed{scheme: scheme, root: scheme + "://" + name, key: key}, nil
}

// localPath is the path of a location on this machine.
func localPath(location string) (string, error) {
	p, err := parsePlace(location)
	if err != nil {
		return "", err
	}
	if !p.local() {
		return "", fmt.Errorf("%s is not on this machine", p)
	}
	return "/" + p.key, nil
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
