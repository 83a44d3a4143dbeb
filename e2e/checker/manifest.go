package checker

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
)

// manifestFile is one file, as docs/manifest.md has it. Fields that it does not know
// are left alone: readers of format 2 ignore them.
type manifestFile struct {
	Format      *int        `json:"format"`
	Catalog     string      `json:"catalog"`
	Incarnation string      `json:"incarnation"`
	Full        bool        `json:"full"`
	Snapshots   []*manifest `json:"snapshots"`

	number uint64
	name   string
}

// manifest is what one snapshot changed; in a full manifest, all tables.
type manifest struct {
	Snapshot     *uint64         `json:"snapshot"`
	Timestamp    *int64          `json:"timestamp"`
	Kind         string          `json:"kind"`
	Transactions *[]string       `json:"transactions"`
	Tables       []manifestTable `json:"tables"`
	Removed      []string        `json:"removed"`

	number uint64
	file   *manifestFile
}

type manifestTable struct {
	ID      string `json:"id"`
	Name    string `json:"name"`
	URI     string `json:"uri"`
	Version *int64 `json:"version"`
}

var (
	manifestName = regexp.MustCompile(`^(\d{20})(?:\.checkpoint)?\.json$`)
	deltaName    = regexp.MustCompile(`^(\d{20})\.json$`)
	kinds        = []string{"publication", "foreign", "register", "create", "release", "range", "barrier", "rebuild"}
)

func fileName(n int64) string { return fmt.Sprintf("%020d.json", n) }

// readManifests reads the folder, in order of number. Malformed files are
// reported and left out.
func (c *check) readManifests() error {
	c.fulls = map[uint64]*manifest{}
	entries, err := os.ReadDir(c.manifestDir())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("list manifests: %w", err)
	}
	hashes := map[string][sha256.Size]byte{}
	for _, e := range entries {
		n, ok := numberOf(manifestName, e.Name())
		if !ok {
			continue
		}
		name := filepath.Join(c.manifestDir(), e.Name())
		b, err := os.ReadFile(name)
		if err != nil {
			return fmt.Errorf("read manifest: %w", err)
		}
		hashes[name] = sha256.Sum256(b)
		c.readManifest(uint64(n), e.Name(), b)
	}
	c.report.Manifests = len(c.manifests)
	c.compareManifestHistory(hashes)
	return nil
}

func (c *check) readManifest(n uint64, name string, b []byte) {
	f := &manifestFile{number: n, name: name}
	if err := f.read(b, c.run.Schema); err != nil {
		c.fail(ManifestMalformed, Violation{Snapshot: n}, "%s: %v", name, err)
		return
	}
	if f.Full {
		c.fulls[n] = f.Snapshots[0]
		return
	}
	c.manifests = append(c.manifests, f.Snapshots...)
}

func (f *manifestFile) read(b []byte, schema *Schema) error {
	if err := json.Unmarshal(b, f); err != nil {
		return err
	}
	if schema != nil {
		if err := schema.Validate(b); err != nil {
			return fmt.Errorf("not as the schema has it: %w", err)
		}
	}
	return f.valid()
}

func (f *manifestFile) valid() error {
	switch {
	case f.Format == nil || *f.Format != 2:
		return errors.New("format is not 2")
	case f.Catalog == "" || f.Incarnation == "":
		return errors.New("no catalog or incarnation")
	case len(f.Snapshots) == 0:
		return errors.New("no snapshots")
	case f.Full == deltaName.MatchString(f.name):
		return errors.New("full is set and the name is not that of a checkpoint, or the reverse")
	case f.Full && len(f.Snapshots) > 1:
		return fmt.Errorf("a full manifest of %d snapshots", len(f.Snapshots))
	}
	for i, m := range f.Snapshots {
		if m == nil {
			return errors.New("a snapshot is null")
		}
		m.number, m.file = f.number+uint64(i), f
		if err := m.valid(); err != nil {
			return err
		}
	}
	return nil
}

func (m *manifest) valid() error {
	switch {
	case m.Snapshot == nil || *m.Snapshot != m.number:
		return fmt.Errorf("the snapshot is not %d, which comes next after the file's name and what stands before", m.number)
	case m.Timestamp == nil || *m.Timestamp <= 0:
		return errors.New("no timestamp")
	case !slices.Contains(kinds, m.Kind):
		return fmt.Errorf("kind is %q", m.Kind)
	case m.Transactions == nil:
		return errors.New("no transactions")
	case m.Tables == nil:
		return errors.New("no tables")
	}
	return m.validLists()
}

// ends reports whether a snapshot is the last of its file.
func (m *manifest) ends() bool { return m == m.file.Snapshots[len(m.file.Snapshots)-1] }

func (m *manifest) validLists() error {
	for _, id := range *m.Transactions {
		if !hexID.MatchString(id) {
			return fmt.Errorf("transaction %q is not 32 hex digits", id)
		}
	}
	seen := map[string]bool{}
	for _, t := range m.Tables {
		u, err := url.Parse(t.URI)
		switch {
		case t.ID == "" || t.Name == "" || t.Version == nil || *t.Version < 0:
			return fmt.Errorf("table %q without id, name or version", t.Name)
		case err != nil || u.Scheme == "":
			return fmt.Errorf("table %q: uri %q", t.Name, t.URI)
		case seen[t.ID]:
			return fmt.Errorf("table %q listed twice", t.Name)
		}
		seen[t.ID] = true
	}
	return nil
}

// checkManifests checks the chain: numbers, times, tables, and that full
// manifests are the fold of the deltas.
func (c *check) checkManifests() {
	fold := map[string]manifestTable{}
	var last *manifest
	for _, m := range c.manifests {
		c.checkNext(last, m)
		c.foldManifest(fold, m)
		c.checkFull(fold, m)
		last = m
	}
	for _, n := range slices.Sorted(maps.Keys(c.fulls)) {
		if !slices.ContainsFunc(c.manifests, func(m *manifest) bool { return m.number == n && m.ends() }) {
			c.fail(ManifestGap, Violation{Snapshot: n}, "a full manifest, and no manifest that ends with its snapshot")
		}
	}
}

func (c *check) checkNext(last, m *manifest) {
	at := Violation{Snapshot: m.number}
	want := uint64(1)
	if last != nil {
		want = last.number + 1
	}
	if m.number != want {
		c.fail(ManifestGap, at, "want number %d here", want)
	}
	if m.file.Catalog != c.catalogID {
		c.fail(ManifestMalformed, at, "catalog %q, others say %q", m.file.Catalog, c.catalogID)
	}
	if last != nil && *m.Timestamp < *last.Timestamp {
		c.fail(ManifestTime, at, "timestamp %d, the one before has %d", *m.Timestamp, *last.Timestamp)
	}
}

func (c *check) foldManifest(fold map[string]manifestTable, m *manifest) {
	for _, t := range m.Tables {
		at := Violation{Table: t.Name, Version: *t.Version, Snapshot: m.number}
		if old, known := fold[t.ID]; known {
			if *t.Version < *old.Version {
				c.fail(ManifestBack, at, "was at version %d before", *old.Version)
			}
			if t.URI != old.URI || t.Name != old.Name {
				c.fail(ManifestTable, at, "table %s was %s at %s", t.ID, old.Name, old.URI)
			}
		}
		if c.tableAt(t) == nil {
			c.fail(ManifestTable, at, "no table of the run lies at %s", t.URI)
		}
		fold[t.ID] = t
	}
	for _, id := range m.Removed {
		if _, known := fold[id]; !known {
			c.fail(ManifestTable, Violation{Snapshot: m.number}, "removes table %s, which is not there", id)
		}
		delete(fold, id)
	}
}

// tableAt finds the table of the run at a manifest's URI.
func (c *check) tableAt(t manifestTable) *Table {
	u, err := url.Parse(t.URI)
	if err != nil || u.Scheme != "file" {
		return nil
	}
	for i, own := range c.run.Tables {
		if own.Name == t.Name && samePath(own.Path, u.Path) {
			return &c.run.Tables[i]
		}
	}
	return nil
}

func samePath(a, b string) bool {
	if ra, err := filepath.EvalSymlinks(a); err == nil {
		a = ra
	}
	if rb, err := filepath.EvalSymlinks(b); err == nil {
		b = rb
	}
	aa, errA := filepath.Abs(a)
	return errA == nil && aa == filepath.Clean(b)
}

// checkFull compares the full manifest of a number, if there is one, with the fold.
func (c *check) checkFull(fold map[string]manifestTable, m *manifest) {
	full := c.fulls[m.number]
	if full == nil {
		return
	}
	at := Violation{Snapshot: m.number}
	if *full.Timestamp != *m.Timestamp || full.Kind != m.Kind || full.file.Incarnation != m.file.Incarnation ||
		full.file.Catalog != m.file.Catalog || !slices.Equal(*full.Transactions, *m.Transactions) {
		c.fail(ManifestFold, at, "the full manifest's own fields are not those of the delta")
	}
	if len(full.Tables) != len(fold) {
		c.fail(ManifestFold, at, "%d tables, the deltas give %d", len(full.Tables), len(fold))
	}
	for _, t := range full.Tables {
		w, known := fold[t.ID]
		if !known || w.Name != t.Name || w.URI != t.URI || *w.Version != *t.Version {
			c.fail(ManifestFold, at, "table %s (%s) is at version %d; the deltas say otherwise", t.ID, t.Name, *t.Version)
		}
	}
}

// TablesOf lists the tables that a catalog's manifests have ever named, by name,
// for callers that do not know them otherwise. Only tables on this machine's file
// system can be checked; another is an error.
func TablesOf(warehouse, catalog string) ([]Table, error) {
	c := &check{run: Run{Warehouse: warehouse, Catalog: catalog}, report: &Report{}}
	if err := c.readManifests(); err != nil {
		return nil, err
	}
	if err := c.report.Err(); err != nil {
		return nil, err
	}
	paths := map[string]string{}
	for _, m := range c.manifests {
		for _, t := range m.Tables {
			u, err := url.Parse(t.URI)
			if err != nil || u.Scheme != "file" {
				return nil, fmt.Errorf("table %s at %s is not a folder of this machine", t.Name, t.URI)
			}
			paths[t.Name] = filepath.Clean(u.Path)
		}
	}
	var tables []Table
	for _, name := range slices.Sorted(maps.Keys(paths)) {
		tables = append(tables, Table{Name: name, Path: paths[name]})
	}
	return tables, nil
}
