package coordinator

import (
	"context"
	"errors"
	"fmt"
	"sort"
	"time"

	"github.com/txcoord/txcoord/coordinator/manifest"
	"github.com/txcoord/txcoord/tables/objstore"
	"github.com/txcoord/txcoord/twophase"
)

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

// at reads a snapshot that the fold no longer holds: the full map below it, and the
// deltas from there.
func (m *manifests) at(ctx context.Context, v twophase.SnapshotVersion) (*tableSet, error) {
	set, err := m.base(ctx, v)
	if err != nil {
		return nil, err
	}
	for file, err := range m.files.Follow(ctx, set.version+1, v) {
		if errors.Is(err, objstore.ErrNotFound) {
			return nil, &Error{Reason: SnapshotOutOfRange, Message: fmt.Sprintf("snapshot %d is older than what is kept: manifest %d is gone", v, set.version+1)}
		}
		if err != nil {
			return nil, m.c.objectsError("", err)
		}
		for i := range file.Deltas {
			if d := &file.Deltas[i]; d.Snapshot <= v {
				set.with(d)
			}
		}
	}
	return set, nil
}

// base is the newest full map at or below a snapshot, or what is before the first. Maps
// are found by their names: how far apart they are may have been another number when they
// were written, and is any with several replicas.
func (m *manifests) base(ctx context.Context, v twophase.SnapshotVersion) (*tableSet, error) {
	set := &tableSet{tables: map[twophase.TableID]twophase.Version{}}
	var rebuilt twophase.SnapshotVersion
	m.c.ledger.read(func(s *twophase.State) { rebuilt = s.Rebuilt() })
	if v > rebuilt {
		set.version = rebuilt // the first manifest above it names all tables
	}
	for at := v; at > set.version; {
		found, err := m.files.NewestMap(ctx, set.version, at)
		if err != nil {
			return nil, m.c.objectsError("", err)
		}
		if found == 0 {
			break
		}
		full, err := m.files.Read(ctx, manifest.Name{Snapshot: found, Full: true})
		if errors.Is(err, objstore.ErrNotFound) {
			at = found - 1 // it went since it was listed
			continue
		}
		if err != nil {
			return nil, m.c.objectsError("", err)
		}
		set.with(&full.Deltas[0])
		break
	}
	return set, nil
}

// with changes the set itself by what a manifest says.
func (t *tableSet) with(d *manifest.Delta) {
	for _, row := range d.Tables {
		t.tables[row.ID] = row.Version
	}
	for _, id := range d.Removed {
		delete(t.tables, twophase.TableID(id))
	}
	t.version, t.time = d.Snapshot, d.Timestamp
}

// atTime finds the newest snapshot up to a version that is not younger than a time.
func (m *manifests) atTime(ctx context.Context, at time.Time, upTo twophase.SnapshotVersion) (twophase.SnapshotVersion, error) {
	v, err := m.files.AsOf(ctx, twophase.TimeOf(at), upTo)
	switch {
	case err != nil:
		return 0, m.c.objectsError("", err)
	case v == 0:
		return 0, &Error{Reason: SnapshotOutOfRange, Message: fmt.Sprintf("snapshots as old as %s are not kept", at.UTC().Format(time.RFC3339Nano))}
	}
	return v, nil
}
