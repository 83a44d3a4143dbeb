package coordinator

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sort"
	"sync"
	"time"

	"github.com/txcoord/txcoord/tables/objstore"
	"github.com/txcoord/txcoord/twophase"
)

// manifestFormat is the version of the manifest files; docs/manifest.md describes it.
const manifestFormat = 1

// manifest is one manifest object (R18): a pure function of the record that made
// its snapshot, so that every replica writes the same bytes.
type manifest struct {
	Format       int                      `json:"format"`
	Catalog      string                   `json:"catalog"`
	Incarnation  string                   `json:"incarnation"`
	Snapshot     twophase.SnapshotVersion `json:"snapshot"`
	Timestamp    twophase.Time            `json:"timestamp"`
	Kind         string                   `json:"kind"`
	Transactions []string                 `json:"transactions"`
	Tables       []manifestTable          `json:"tables"`
	Removed      []string                 `json:"removed,omitempty"`
	Full         bool                     `json:"full,omitempty"`
}

type manifestTable struct {
	ID      twophase.TableID `json:"id"`
	Name    string           `json:"name"`
	URI     string           `json:"uri"`
	Version twophase.Version `json:"version"`
}

func manifestName(v twophase.SnapshotVersion) string { return fmt.Sprintf("manifests/%020d.json", v) }

func mapName(v twophase.SnapshotVersion) string {
	return fmt.Sprintf("manifests/%020d.checkpoint.json", v)
}

// manifests writes manifest k before k+1, and reads those that the fold no longer holds.
type manifests struct {
	c     *Catalog
	ready chan struct{}

	mu   sync.Mutex
	done twophase.SnapshotVersion
	kept []*tableSet // full sets to look old snapshots up from, by version

	// set is that of done; only the writing goroutine uses it.
	set *tableSet
}

// setsKept bounds the full sets in memory.
const setsKept = 32

func newManifests(c *Catalog) *manifests {
	return &manifests{c: c, ready: make(chan struct{}, 1), set: &tableSet{tables: map[twophase.TableID]twophase.Version{}}}
}

func (m *manifests) look() {
	select {
	case m.ready <- struct{}{}:
	default:
	}
}

// written is the newest snapshot whose manifest is durable.
func (m *manifests) written() twophase.SnapshotVersion {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.done
}

// start finds the newest manifest. One that is newer than the fold, or another
// catalog's, means that the journal went back or is not the one that belongs here:
// the catalog must not be written (R7).
func (m *manifests) start(ctx context.Context) error {
	for {
		shown := m.c.Shown()
		newer, err := m.there(ctx, shown+1)
		if err != nil {
			return err
		}
		if !newer {
			return m.begin(ctx, shown)
		}
		// Another replica may have made it since the head was read. Its record is in the
		// journal before, so a head that is read now shows it.
		if err := m.c.catchUp(ctx); err != nil {
			return err
		}
		lost := false
		m.c.ledger.read(func(s *twophase.State) { lost = s.HistoryLost(shown + 1) })
		if lost {
			return contradicts(fmt.Sprintf("manifest %d exists and the journal knows %d snapshots only", shown+1, shown))
		}
	}
}

// begin goes on after the newest manifest up to a snapshot.
func (m *manifests) begin(ctx context.Context, shown twophase.SnapshotVersion) error {
	v, err := m.newest(ctx, shown)
	if err != nil || v == 0 {
		return err
	}
	last, err := m.read(ctx, manifestName(v))
	if err != nil {
		return err
	}
	if meta := m.c.journal.Meta(); last.Catalog != meta.Catalog {
		return contradicts(fmt.Sprintf("manifest %d is of catalog %s, the journal is of %s", v, last.Catalog, meta.Catalog))
	}
	m.mu.Lock()
	m.done = v
	m.mu.Unlock()
	set, err := m.c.at(ctx, v)
	if err != nil {
		return err
	}
	m.set = set.forward(nil, v)
	m.kept = append(m.kept, set)
	return nil
}

func contradicts(what string) *Error {
	return &Error{
		Reason:  JournalContradiction,
		Message: what + ": the journal is lost, was restored from an older copy, or is another catalog's; give the right store. If it is gone: txcoord rebuild; see docs/operations.md, When the journal is lost",
	}
}

func (m *manifests) there(ctx context.Context, v twophase.SnapshotVersion) (bool, error) {
	_, err := m.c.own.store.Stat(ctx, m.c.own.key(manifestName(v)))
	if err != nil && !errors.Is(err, objstore.ErrNotFound) {
		return false, fmt.Errorf("look for the newest manifest: %w", err)
	}
	return err == nil, nil
}

// newest is the newest manifest up to a snapshot that has none above it. What is
// missing is a tail, since k is written before k+1: it is looked for from its end,
// in growing steps. Old manifests may have been taken away.
func (m *manifests) newest(ctx context.Context, shown twophase.SnapshotVersion) (twophase.SnapshotVersion, error) {
	there, missing := shown, shown+1
	for step := twophase.SnapshotVersion(1); there > 0; step *= 2 {
		ok, err := m.there(ctx, there)
		if err != nil {
			return 0, err
		}
		if ok {
			break
		}
		missing = there
		there -= min(step, there)
	}
	for there+1 < missing {
		mid := there + (missing-there)/2
		ok, err := m.there(ctx, mid)
		if err != nil {
			return 0, err
		}
		if ok {
			there = mid
		} else {
			missing = mid
		}
	}
	return there, nil
}

// run writes manifests as snapshots are made.
func (m *manifests) run(ctx context.Context) {
	wait := 50 * time.Millisecond
	m.look()
	for {
		select {
		case <-m.ready:
		case <-ctx.Done():
			return
		}
		for m.written() < m.c.Shown() && ctx.Err() == nil {
			err := m.forward(ctx)
			if ctx.Err() == nil {
				m.c.troubles.note(m.c.cfg.Warehouse, written, err, m.c.cfg.Now())
			}
			if err != nil && ctx.Err() == nil {
				m.c.log.Warn("write a manifest", "snapshot", m.written()+1, "error", err)
				pause(ctx, wait)
				wait = min(2*wait, 5*time.Second)
				continue
			}
			wait = 50 * time.Millisecond
		}
	}
}

// next writes the manifest after the newest one. A crash before it leaves a tail to
// be written by the next process; the full map is an aid and comes after.
func (m *manifests) next(ctx context.Context) error {
	var row *twophase.Snapshot
	ok := false
	m.c.ledger.read(func(s *twophase.State) { row, ok = s.NextManifest(m.written()) })
	if !ok {
		return fmt.Errorf("the fold does not hold snapshot %d any more", m.written()+1)
	}
	k := row.Version
	delta := m.delta(row)
	if err := m.put(ctx, manifestName(k), delta); err != nil {
		return err
	}
	m.set.apply(row)
	var full *tableSet
	if uint64(k)%uint64(m.c.cfg.Limits.MapEvery) == 0 {
		full = m.set.forward(nil, k)
		if err := m.put(ctx, mapName(k), m.full(delta, full)); err != nil {
			return err
		}
	}
	m.wrote(k, full)
	m.c.cfg.Telemetry.Manifested(k, row.Txns)
	return nil
}

// wrote notes that the manifest of a snapshot is durable, and keeps a full set.
func (m *manifests) wrote(k twophase.SnapshotVersion, full *tableSet) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.done = k
	if full != nil {
		m.kept = append(m.kept, full)
		m.kept = m.kept[max(0, len(m.kept)-setsKept):]
	}
}

func (m *manifests) put(ctx context.Context, name string, what manifest) error {
	b, err := json.Marshal(what)
	if err != nil {
		return err
	}
	err = m.c.own.store.PutIfAbsent(ctx, m.c.own.key(name), append(b, '\n'))
	if !errors.Is(err, objstore.ErrExists) {
		return err
	}
	have, err := m.read(ctx, name)
	if err != nil {
		return err
	}
	return m.isOurs(have)
}

func (m *manifests) delta(s *twophase.Snapshot) manifest {
	meta := m.c.journal.Meta()
	out := manifest{
		Format: manifestFormat, Catalog: meta.Catalog, Incarnation: meta.Incarnation, Snapshot: s.Version,
		Timestamp: s.Time, Kind: s.Kind, Transactions: make([]string, 0, len(s.Txns)), Tables: []manifestTable{},
	}
	for _, id := range s.Txns {
		out.Transactions = append(out.Transactions, id.String())
	}
	for _, id := range s.Removed {
		out.Removed = append(out.Removed, string(id))
	}
	for _, t := range s.Tables {
		out.Tables = append(out.Tables, m.row(t.Table, t.Version))
	}
	return out
}

func (m *manifests) row(id twophase.TableID, v twophase.Version) manifestTable {
	row := m.c.row(id)
	return manifestTable{ID: id, Name: row.Name, URI: row.URI, Version: v}
}

func (m *manifests) full(delta manifest, set *tableSet) manifest {
	delta.Full, delta.Removed, delta.Tables = true, nil, []manifestTable{}
	for id, v := range set.tables {
		delta.Tables = append(delta.Tables, m.row(id, v))
	}
	slices.SortFunc(delta.Tables, func(a, b manifestTable) int { return compare(a.ID, b.ID) })
	return delta
}

// nearest is the newest full set in memory at or below a snapshot; the empty one
// before the first if there is none.
func (m *manifests) nearest(v twophase.SnapshotVersion) *tableSet {
	m.mu.Lock()
	defer m.mu.Unlock()
	i := sort.Search(len(m.kept), func(i int) bool { return m.kept[i].version > v })
	if i > 0 {
		return m.kept[i-1]
	}
	return &tableSet{}
}

// read reads one manifest.
func (m *manifests) read(ctx context.Context, name string) (*manifest, error) {
	b, err := m.c.own.get(ctx, name)
	if err != nil {
		return nil, err
	}
	var out manifest
	if err := json.Unmarshal(b, &out); err != nil {
		return nil, fmt.Errorf("manifest %s cannot be read (remove the file: it is written again as long as the journal holds its snapshot): %w", name, err)
	}
	if out.Format != manifestFormat {
		return nil, fmt.Errorf("manifest %s has format %d, this build knows %d", name, out.Format, manifestFormat)
	}
	return &out, nil
}

// at reads a snapshot that the fold no longer holds: the full map below it, and the
// deltas from there.
func (m *manifests) at(ctx context.Context, v twophase.SnapshotVersion) (*tableSet, error) {
	set := &tableSet{tables: map[twophase.TableID]twophase.Version{}}
	every := twophase.SnapshotVersion(m.c.cfg.Limits.MapEvery)
	var rebuilt twophase.SnapshotVersion
	m.c.ledger.read(func(s *twophase.State) { rebuilt = s.Rebuilt() })
	if v > rebuilt {
		set.version = rebuilt // the first manifest above it names all tables
	}
	for base := v / every * every; base > set.version; base -= every {
		full, err := m.read(ctx, mapName(base))
		if errors.Is(err, objstore.ErrNotFound) {
			continue
		}
		if err != nil {
			return nil, m.c.objectsError("", err)
		}
		full.applyTo(set)
		break
	}
	for k := set.version + 1; k <= v; k++ {
		delta, err := m.read(ctx, manifestName(k))
		if errors.Is(err, objstore.ErrNotFound) {
			return nil, &Error{Reason: SnapshotOutOfRange, Message: fmt.Sprintf("snapshot %d is older than what is kept: manifest %d is gone", v, k)}
		}
		if err != nil {
			return nil, m.c.objectsError("", err)
		}
		delta.applyTo(set)
	}
	return set, nil
}

func (mf *manifest) applyTo(set *tableSet) {
	for _, t := range mf.Tables {
		set.tables[t.ID] = t.Version
	}
	for _, id := range mf.Removed {
		delete(set.tables, twophase.TableID(id))
	}
	set.version, set.time = mf.Snapshot, mf.Timestamp
}

// atTime finds the newest snapshot up to a version that is not younger than a time,
// by binary search over the manifests. Old ones may have been taken away.
func (m *manifests) atTime(ctx context.Context, at time.Time, upTo twophase.SnapshotVersion) (twophase.SnapshotVersion, error) {
	var failed error
	gone := 0
	n := sort.Search(int(upTo), func(i int) bool {
		mf, err := m.read(ctx, manifestName(twophase.SnapshotVersion(i+1)))
		switch {
		case errors.Is(err, objstore.ErrNotFound):
			gone = max(gone, i+1)
			return false
		case err != nil:
			failed = err
			return true
		}
		return mf.Timestamp.Std().After(at)
	})
	switch {
	case failed != nil:
		return 0, m.c.objectsError("", failed)
	case n > gone:
		return twophase.SnapshotVersion(n), nil
	}
	return 0, &Error{Reason: SnapshotOutOfRange, Message: fmt.Sprintf("snapshots as old as %s are not kept", at.UTC().Format(time.RFC3339Nano))}
}
