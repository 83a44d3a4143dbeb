package coordinator

import (
	"context"
	"errors"

	"github.com/txcoord/txcoord/coordinator/manifest"
	"github.com/txcoord/txcoord/tables/objstore"
	"github.com/txcoord/txcoord/twophase"
)

// forward writes the next manifest, or takes note of those that other replicas have
// written. Who made a snapshot writes its manifest; the others look for it after a
// while, and write it then.
func (m *manifests) forward(ctx context.Context) error {
	next, ours := m.pending()
	switch {
	case next == nil:
		// The floor has passed it, so its manifest is durable (MayForget).
		return m.start(ctx)
	case m.c.wrote.has(next.Position):
		return m.put(ctx)
	case !ours:
		pause(ctx, m.c.cfg.Limits.TakeOverAfter)
	}
	if some, err := m.follow(ctx); err != nil || some {
		return err
	}
	return m.put(ctx)
}

// follow takes note of the manifests that stand behind the newest one, and reports whether
// there are any.
func (m *manifests) follow(ctx context.Context) (some bool, err error) {
	for {
		file, err := m.files.Read(ctx, manifest.Name{Snapshot: m.written() + 1})
		if errors.Is(err, objstore.ErrNotFound) {
			return some, nil
		}
		if err != nil {
			return some, err
		}
		if err := m.take(ctx, file, false); err != nil {
			return some, err
		}
		some = true
	}
}

// pending is the snapshot whose manifest comes next, nil if the fold does not hold it
// any more; and whether this replica made one of those without a manifest.
func (m *manifests) pending() (next *twophase.Snapshot, ours bool) {
	written := m.written()
	m.c.ledger.read(func(s *twophase.State) {
		if some := s.NextManifests(written, 1); len(some) > 0 {
			next = some[0]
		}
		all := s.Snapshots()
		for i := len(all) - 1; i >= 0 && all[i].Version > written && !ours; i-- {
			ours = m.c.wrote.has(all[i].Position)
		}
	})
	return next, ours
}
