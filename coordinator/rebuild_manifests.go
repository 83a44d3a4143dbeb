package coordinator

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/txcoord/txcoord/lock"
	"github.com/txcoord/txcoord/tables/objstore"
	"github.com/txcoord/txcoord/twophase"
)

// lastManifests are what the newest manifests say.
type lastManifests struct {
	newest twophase.SnapshotVersion
	time   twophase.Time
	// catalog and incarnation of the newest; empty if there is none.
	catalog, incarnation string
	tables               map[twophase.TableID]manifestTable
	// seen are all that were read of, also those that had left by then.
	seen map[twophase.TableID]manifestTable
	// shows has the snapshots that first show transactions, as far as they were read.
	shows map[twophase.TxnID]twophase.SnapshotVersion
}

// readManifests goes from the newest full map to the newest manifest.
func (r *rebuilding) readManifests(ctx context.Context) (*lastManifests, error) {
	out := &lastManifests{tables: map[twophase.TableID]manifestTable{}, seen: map[twophase.TableID]manifestTable{}, shows: map[twophase.TxnID]twophase.SnapshotVersion{}}
	s := &scannedManifests{maps: map[twophase.SnapshotVersion]bool{}}
	prefix := r.own.key("manifests/")
	for e, err := range r.own.store.List(ctx, objstore.ListOptions{Prefix: prefix}) {
		if err != nil {
			return nil, fmt.Errorf("list manifests: %w", err)
		}
		s.note(strings.TrimPrefix(e.Key, prefix))
	}
	if len(s.deltas) == 0 {
		return out, nil
	}
	slices.Sort(s.deltas)
	out.newest = s.deltas[len(s.deltas)-1]
	m := &manifests{c: r.c}
	next, err := r.base(ctx, m, s, out)
	if err != nil {
		return nil, err
	}
	for ; next <= out.newest; next++ {
		if err := r.take(ctx, m, next, out); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// base begins with the newest full map that can be read, and says which manifest follows.
func (r *rebuilding) base(ctx context.Context, m *manifests, s *scannedManifests, out *lastManifests) (twophase.SnapshotVersion, error) {
	for _, k := range slices.Backward(s.deltas) {
		if !s.maps[k] {
			continue
		}
		full, err := m.read(ctx, mapName(k))
		if err != nil && ctx.Err() != nil {
			return 0, err
		}
		if err != nil {
			r.broken("full map %d: %v", k, err)
			continue
		}
		out.apply(full)
		return k + 1, nil
	}
	if s.deltas[0] != 1 {
		r.broken("there is no full map, and the oldest manifest is %d", s.deltas[0])
	}
	return s.deltas[0], nil
}

// take goes on by one manifest. The newest must be readable: it says whose all this is.
func (r *rebuilding) take(ctx context.Context, m *manifests, k twophase.SnapshotVersion, out *lastManifests) error {
	mf, err := m.read(ctx, manifestName(k))
	switch {
	case err != nil && (ctx.Err() != nil || k == out.newest):
		return fmt.Errorf("the newest manifest says whose the warehouse is; take the file away if it cannot be put back: %w", err)
	case err != nil:
		r.broken("manifest %d: %v", k, err)
		return nil
	case out.catalog != "" && mf.Catalog != out.catalog:
		return lock.Mark(lock.ErrUnfit, fmt.Errorf("manifest %d is of catalog %s, and one before of %s: this folder is of two catalogs", k, mf.Catalog, out.catalog))
	}
	out.apply(mf)
	return nil
}

func (r *rebuilding) broken(what string, args ...any) {
	r.found(RebuildFinding{Code: RebuildManifests, What: fmt.Sprintf(what, args...)})
}

func (l *lastManifests) apply(mf *manifest) {
	l.catalog, l.incarnation, l.time = mf.Catalog, mf.Incarnation, max(l.time, mf.Timestamp)
	for _, t := range mf.Tables {
		l.tables[t.ID], l.seen[t.ID] = t, t
	}
	for _, id := range mf.Removed {
		delete(l.tables, twophase.TableID(id))
	}
	for _, text := range mf.Transactions {
		if id, err := twophase.ParseTxnID(text); err == nil {
			l.shows[id] = mf.Snapshot
		}
	}
}
