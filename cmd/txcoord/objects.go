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

	"github.com/txcoord/txcoord/coordinator/telemetry"
	"github.com/txcoord/txcoord/tables"
	"github.com/txcoord/txcoord/tables/objstore"
	"github.com/txcoord/txcoord/tables/objstore/fileobj"
)

// objects finds object stores for the coordinator: local files and buckets, under the
// roots that the operator allowed.
type objects struct {
	buckets map[string]bucket // by the location of the bucket itself
	roots   []*root
	// probe: the folders that were not there yet have to prove themselves.
	probe bool
}

// root is a place below which tables may lie. A local one is a store of its own, so that
// no symbolic link leads out of it.
type root struct {
	placed
	// as is how the operator wrote it, where a link leads from there.
	as    string
	files *fileobj.Store
	mu    sync.Mutex
	due   bool // to be probed
	// seen is the root's store as the catalog sees it.
	seen objstore.Store
}

// newObjects takes locations as users write them. A folder need not exist; a bucket
// has to, and is tried. With probe each has to prove that it honours conditions and
// shows what was written; a folder that is not there yet, before its first table.
func newObjects(ctx context.Context, allowed []string, buckets BucketFlags, probe bool, log *slog.Logger) (*objects, error) {
	o := &objects{buckets: map[string]bucket{}, probe: probe}
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
	if p.local() {
		return o.allowFolder(ctx, location, p)
	}
	o.roots = append(o.roots, &root{placed: p})
	b, ok := o.buckets[p.root]
	if !ok {
		if b, err = buckets.open(ctx, p, log); err != nil {
			return err
		}
		o.buckets[p.root] = b
	}
	if !o.probe {
		return nil
	}
	return b.Check(ctx, p.key)
}

func (o *objects) allowFolder(ctx context.Context, location string, p placed) error {
	literal, err := literalPlace(location)
	if err != nil {
		return err
	}
	files, err := fileobj.New(p.String(), fileobj.Config{
		Prune: ownFolder, NoLinks: []string{"_delta_log", "_txcoord"}, Makes: tables.MakesFolder, Later: true,
	})
	if err != nil {
		return fmt.Errorf("open %s: %w", p, err)
	}
	r := &root{placed: p, as: literal.String(), files: files, due: o.probe}
	o.roots = append(o.roots, r)
	return r.tryFolder(ctx)
}

// tryFolder probes a local folder, once it is there.
func (r *root) tryFolder(ctx context.Context) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.due {
		return nil
	}
	if _, err := os.Stat(r.String()); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err := objstore.Probe(ctx, r.files, ""); err != nil {
		return fmt.Errorf("%s cannot hold tables: %w (put it on a file system with hard links that the server may write; --no-probe skips this test)", r, err)
	}
	r.due = false
	return nil
}

// Probe implements coordinator.Prober: the folder of a table's root that was not there
// when the server was started is probed before its first table is taken.
func (o *objects) Probe(ctx context.Context, uri string) error {
	r, _, err := o.find(uri)
	if err != nil || r == nil || r.files == nil {
		return err
	}
	return r.tryFolder(ctx)
}

// Expect implements coordinator.Expecter.
func (o *objects) Expect(uri string) {
	if r, _, err := o.find(uri); err == nil && r != nil && r.files != nil {
		r.files.Expect()
	}
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

// Open refuses what does not lie below an allowed root. Links below one are the store's
// matter: a table whose folder has become one is not looked for behind it.
func (o *objects) Open(uri string) (objstore.Store, string, error) {
	r, key, err := o.find(uri)
	switch {
	case err != nil:
		return nil, "", err
	case r == nil:
		var names []string
		for _, r := range o.roots {
			names = append(names, r.String())
		}
		return nil, "", &notAllowedError{uri, names}
	}
	if r.seen == nil {
		return o.store(r), key, nil
	}
	return r.seen, key, nil
}

// notAllowedError is about a place that lies below none of those that were given.
type notAllowedError struct {
	uri   string
	roots []string
}

func (e *notAllowedError) Error() string {
	return fmt.Sprintf("%s is not below %s; txcoord serve --allow PREFIX allows more", e.uri, strings.Join(e.roots, " or "))
}

// sameAllow makes one that a command meets which works without a server a mistake of its
// command line.
func sameAllow(err error) error {
	var refused *notAllowedError
	if errors.As(err, &refused) {
		return &codedError{fmt.Errorf("%w; give this command the --allow that the servers of the catalog have", err), exitUsage}
	}
	return err
}

func (o *objects) store(r *root) objstore.Store {
	if r.files != nil {
		return r.files
	}
	return o.buckets[r.root]
}

// observe has requests noted from here on.
func (o *objects) observe(r *telemetry.Recorder) {
	for _, root := range o.roots {
		root.seen = r.Objects(o.store(root))
	}
}

// find is the root of a location, and the key there; nil if it lies below none. A path
// that no root knows as it is written may lead into one.
func (o *objects) find(uri string) (*root, string, error) {
	literal, err := literalPlace(uri)
	if err != nil {
		return nil, "", err
	}
	if r, key := o.holding(literal); r != nil || !literal.local() {
		return r, key, nil
	}
	p, err := parsePlace(uri)
	if err != nil {
		return nil, "", err
	}
	r, key := o.holding(p)
	return r, key, nil
}

func (o *objects) holding(p placed) (*root, string) {
	for _, r := range o.roots {
		for _, name := range []string{r.String(), r.as} {
			below, ok := strings.CutPrefix(p.String()+"/", name+"/")
			switch {
			case name == "" || !ok:
			case r.files == nil:
				return r, p.key
			default:
				return r, strings.TrimSuffix(below, "/")
			}
		}
	}
	return nil, ""
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
	p, err := literalPlace(location)
	if err == nil && p.local() {
		p.key = strings.TrimPrefix(resolved("/"+p.key), "/")
	}
	return p, err
}

// literalPlace is parsePlace without a look at links.
func literalPlace(location string) (placed, error) {
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
		return placed{scheme: scheme, key: strings.TrimPrefix(path, "/")}, nil
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

// noFiles refuses local places at which a file stands, or above which one does: a folder is made
// where nothing is.
func (c *Config) noFiles() error {
	all := []error{noFile("--warehouse", c.Warehouse)}
	for _, location := range c.Allow {
		all = append(all, noFile("--allow", location))
	}
	return allOf(all...)
}

func noFile(flag, location string) error {
	p, err := parsePlace(location)
	if err != nil || !p.local() {
		return err
	}
	for path := p.String(); ; path = filepath.Dir(path) {
		info, err := os.Stat(path)
		switch {
		case err == nil && !info.IsDir():
			return usage(flag, p.String(), path+" is a file; name a folder, which need not be there yet")
		case err == nil, path == filepath.Dir(path):
			return nil
		}
	}
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
