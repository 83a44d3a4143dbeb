package coordinator

import (
	"context"
	"errors"
	"fmt"

	"github.com/txcoord/txcoord/tables/objstore"
	"github.com/txcoord/txcoord/twophase"
)

// forward writes the next manifest, or takes note of those that other replicas have
// written. Who made a snapshot writes its manifest; the others look for it after a
// while, and write it then.
func (m *manifests) forward(ctx context.Context) error {
	next, newest, ours := m.pending()
	if next == nil {
		// The floor has passed it, so its manifest is durable (MayForget).
		return m.begin(ctx, m.c.Shown())
	}
	if m.c.wrote.has(next.Position) {
		err := m.next(ctx)
		if err == nil {
			return nil
		}
		if there, failed := m.standing(ctx, next.Version); failed == nil && there {
			m.adopt(next.Version) // another replica could
			return nil
		}
		return err
	}
	if !ours {
		pause(ctx, m.c.cfg.Limits.TakeOverAfter)
		if there, err := m.standing(ctx, newest); err != nil || there {
			if err == nil {
				m.adopt(newest)
			}
			return err
		}
	}
	there, err := m.standing(ctx, next.Version)
	if err != nil {
		return err
	}
	if there {
		m.adopt(next.Version)
		return nil
	}
	return m.next(ctx)
}

// standing reports whether the manifest of a snapshot is there. One of another catalog
// stops this one (R7).
func (m *manifests) standing(ctx context.Context, v twophase.SnapshotVersion) (bool, error) {
	have, err := m.read(ctx, manifestName(v))
	if errors.Is(err, objstore.ErrNotFound) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return true, m.isOurs(have)
}

func (m *manifests) isOurs(have *manifest) error {
	var rebuilt twophase.SnapshotVersion
	m.c.ledger.read(func(s *twophase.State) { rebuilt = s.Rebuilt() })
	meta := m.c.journal.Meta()
	switch {
	case have.Catalog != meta.Catalog:
		// Two catalogs of one name share the warehouse (R7, R18).
		return m.c.ledger.fail(contradicts(fmt.Sprintf("manifest %d is of catalog %s", have.Snapshot, have.Catalog)))
	case have.Incarnation != meta.Incarnation && have.Snapshot > rebuilt:
		return m.c.ledger.fail(contradicts(fmt.Sprintf("manifest %d is of incarnation %s of the catalog, and the journal is of %s", have.Snapshot, have.Incarnation, meta.Incarnation)))
	}
	return nil
}

// pending is the snapshot whose manifest comes next, nil if the fold does not hold it
// any more; the newest of all; and whether this replica made one of them.
func (m *manifests) pending() (next *twophase.Snapshot, newest twophase.SnapshotVersion, ours bool) {
	written := m.written()
	m.c.ledger.read(func(s *twophase.State) {
		next, _ = s.NextManifest(written)
		newest = s.Shown()
		all := s.Snapshots()
		for i := len(all) - 1; i >= 0 && all[i].Version > written && !ours; i-- {
			ours = m.c.wrote.has(all[i].Position)
		}
	})
	return next, newest, ours
}

// adopt takes note of manifests up to one that is there: k is written before k+1, so
// that those below it are, too.
func (m *manifests) adopt(upTo twophase.SnapshotVersion) {
	for m.written() < upTo {
		var row *twophase.Snapshot
		m.c.ledger.read(func(s *twophase.State) { row, _ = s.NextManifest(m.written()) })
		if row == nil {
			return
		}
		m.set.apply(row)
		var full *tableSet
		if uint64(row.Version)%uint64(m.c.cfg.Limits.MapEvery) == 0 {
			full = m.set.forward(nil, row.Version)
		}
		m.wrote(row.Version, full)
		m.c.cfg.Telemetry.Manifested(row.Version, row.Txns)
	}
}
