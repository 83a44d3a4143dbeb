package checker

import (
	"crypto/sha256"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"
)

// History remembers the versions and manifests that were seen during a run. Call
// Sample now and then, from one goroutine or several.
type History struct {
	tables    []Table
	manifests string

	mu       sync.Mutex
	versions map[string]map[int64]*version
	hashes   map[string][sha256.Size]byte
	stats    map[string]fileStat
	changed  map[string]bool
}

// fileStat is what tells without reading that a file is another one.
type fileStat struct {
	size     int64
	modified time.Time
}

// NewHistory remembers nothing yet.
func NewHistory(warehouse, catalog string, tables []Table) *History {
	return &History{
		tables:    slices.Clone(tables),
		manifests: manifestDir(warehouse, catalog),
		versions:  map[string]map[int64]*version{},
		hashes:    map[string][sha256.Size]byte{},
		stats:     map[string]fileStat{},
		changed:   map[string]bool{},
	}
}

// Clone is what was remembered until now. The original may see more while the clone
// is held against what there is.
func (h *History) Clone() *History {
	h.mu.Lock()
	defer h.mu.Unlock()
	c := &History{
		tables: h.tables, manifests: h.manifests, versions: map[string]map[int64]*version{},
		hashes: maps.Clone(h.hashes), stats: maps.Clone(h.stats), changed: maps.Clone(h.changed),
	}
	for table, versions := range h.versions {
		c.versions[table] = maps.Clone(versions)
	}
	return c
}

// Sample looks at every log and manifest. New files are read and remembered; a
// known one is read again only if its size or time changed.
func (h *History) Sample() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, t := range h.tables {
		if err := h.sampleDir(logDir(t.Path), func(name string) error { return h.sampleVersion(t, name) }); err != nil {
			return err
		}
	}
	return h.sampleDir(h.manifests, h.sampleManifest)
}

// sampleDir calls see for each file that is new or looks changed. Files that go
// away meanwhile are passed over: Check says what that means.
func (h *History) sampleDir(dir string, see func(name string) error) error {
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for _, e := range entries {
		name := filepath.Join(dir, e.Name())
		info, err := e.Info()
		if err == nil && h.looksNew(name, info) {
			err = see(name)
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

func (h *History) looksNew(name string, info fs.FileInfo) bool {
	now := fileStat{size: info.Size(), modified: info.ModTime()}
	old, known := h.stats[name]
	h.stats[name] = now
	return info.Mode().IsRegular() && (!known || old.size != now.size || !old.modified.Equal(now.modified))
}

func (h *History) sampleVersion(t Table, name string) error {
	n, ok := numberOf(commitName, filepath.Base(name))
	if !ok {
		return nil
	}
	v, err := readVersionFile(name)
	if err != nil {
		return err
	}
	if h.versions[t.Path] == nil {
		h.versions[t.Path] = map[int64]*version{}
	}
	if h.versions[t.Path][n] == nil {
		h.versions[t.Path][n] = v
	}
	h.remember(name, v.hash)
	return nil
}

func (h *History) sampleManifest(name string) error {
	if !manifestName.MatchString(filepath.Base(name)) {
		return nil
	}
	b, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	h.remember(name, sha256.Sum256(b))
	return nil
}

// remember keeps the first hash, and that there was another one later.
func (h *History) remember(name string, hash [sha256.Size]byte) {
	if old, known := h.hashes[name]; !known {
		h.hashes[name] = hash
	} else if old != hash {
		h.changed[name] = true
	}
}

// compareHistory looks for versions that were rewritten or that vanished, and
// adds those that others cleaned to the log from memory.
func (c *check) compareHistory(t Table, l *tableLog) {
	h := c.run.History
	if h == nil {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, n := range slices.Sorted(maps.Keys(h.versions[t.Path])) {
		old, now := h.versions[t.Path][n], l.versions[n]
		at := Violation{Table: t.Name, Version: n}
		switch {
		case now == nil && n <= l.checkpoint:
			l.versions[n], l.cleaned[n] = old, true
		case now == nil:
			c.fail(VersionVanished, at, "was there during the run")
		case now.hash != old.hash:
			c.fail(VersionRewritten, at, "%d bytes %x, during the run %d bytes %x", now.size, now.hash[:6], old.size, old.hash[:6])
		case h.changed[filepath.Join(logDir(t.Path), fileName(n))]:
			c.fail(VersionRewritten, at, "held other bytes for a while")
		}
	}
}

// compareManifestHistory does the same for manifests, of which none may ever go.
func (c *check) compareManifestHistory(now map[string][sha256.Size]byte) {
	h := c.run.History
	if h == nil {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(h.hashes)) {
		n, ok := numberOf(manifestName, filepath.Base(name))
		if !ok || filepath.Dir(name) != c.manifestDir() {
			continue
		}
		hash, there := now[name]
		at := Violation{Snapshot: uint64(n)}
		switch {
		case !there:
			c.fail(ManifestRewritten, at, "%s was there during the run", filepath.Base(name))
		case hash != h.hashes[name] || h.changed[name]:
			c.fail(ManifestRewritten, at, "%s held other bytes during the run", filepath.Base(name))
		}
	}
}
