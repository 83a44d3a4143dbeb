package coordinator

import (
	"context"
	"errors"
	"fmt"

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
		return m.passed(ctx)
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

// passed: the fold does not hold the next snapshot any more, so its manifest was durable
// when the floor passed it (MayForget). Somebody may have removed it since.
func (m *manifests) passed(ctx context.Context) error {
	was := m.written()
	if err := m.start(ctx); err != nil || m.written() > was {
		return err
	}
	return fmt.Errorf("%w: there is no manifest %d, and the journal does not hold its snapshots any more; put it and those behind it back from a copy or a former version of the bucket", errManifestsGone, was+1)
}

// errManifestsGone is no trouble of the store: that can be written.
var errManifestsGone = errors.New("manifests were removed")

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
