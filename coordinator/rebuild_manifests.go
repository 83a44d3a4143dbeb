package coordinator

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/txcoord/txcoord/coordinator/manifest"
	"github.com/txcoord/txcoord/internal/ahead"
	"github.com/txcoord/txcoord/lock"
	"github.com/txcoord/txcoord/twophase"
)

// lastManifests are what the newest manifests say.
type lastManifests struct {
	newest twophase.SnapshotVersion
	time   twophase.Time
	// catalog and incarnation of the newest; empty if there is none.
	catalog, incarnation string
	tables               map[twophase.TableID]manifest.Table
	// seen are all that were read of, also those that had left by then.
	seen map[twophase.TableID]manifest.Table
	// shows has the snapshots that first show transactions, as far as they were read.
	shows map[twophase.TxnID]twophase.SnapshotVersion
	// brought are the versions of each table that publications brought, likewise.
	brought map[twophase.TableID][]broughtVersion
}

// broughtVersion is a version that a snapshot brings, and what it shows with that.
type broughtVersion struct {
	version  twophase.Version
	snapshot twophase.SnapshotVersion
	time     twophase.Time
	txns     []string
}

// readManifests goes from the newest full map to the newest manifest.
func (r *rebuilding) readManifests(ctx context.Context) (*lastManifests, error) {
	out := &lastManifests{tables: map[twophase.TableID]manifest.Table{}, seen: map[twophase.TableID]manifest.Table{}, shows: map[twophase.TxnID]twophase.SnapshotVersion{}, brought: map[twophase.TableID][]broughtVersion{}}
	files := newManifests(r.c).files
	s, err := listManifests(ctx, files)
	if err != nil || len(s.deltas) == 0 {
		return out, err
	}
	if err := r.base(ctx, files, s, out); err != nil {
		return nil, err
	}
	newest := s.deltas[len(s.deltas)-1]
	// Many may be there since the full map. One that cannot be read is told of in its place.
	reading := ahead.Reader[twophase.SnapshotVersion, gotManifest]{AtOnce: r.cfg.Limits.readAhead(r.cfg.Warehouse), Get: func(ctx context.Context, k twophase.SnapshotVersion) (gotManifest, error) {
		return getManifest(ctx, files, k), nil
	}}
	return out, reading.Each(ctx, s.after(out.newest), func(k twophase.SnapshotVersion, got gotManifest) error {
		if k <= out.newest {
			return nil // one before it has it
		}
		if err := r.between(ctx, files, s, k, out); err != nil {
			return err
		}
		return r.take(ctx, k, got, k == newest, out)
	})
}

// after are the numbers of those above a snapshot.
func (s *scannedManifests) after(k twophase.SnapshotVersion) []twophase.SnapshotVersion {
	i, _ := slices.BinarySearch(s.deltas, k+1)
	return s.deltas[i:]
}

// gotManifest is one, or why it could not be read.
type gotManifest struct {
	file *manifest.File
	err  error
}

func getManifest(ctx context.Context, files manifest.Files, k twophase.SnapshotVersion) gotManifest {
	file, err := files.Read(ctx, manifest.Name{Snapshot: k})
	return gotManifest{file, err}
}

// base begins with the newest full map that can be read.
func (r *rebuilding) base(ctx context.Context, files manifest.Files, s *scannedManifests, out *lastManifests) error {
	for _, k := range slices.Backward(slices.Sorted(maps.Keys(s.maps))) {
		full, err := files.Read(ctx, manifest.Name{Snapshot: k, Full: true})
		if err != nil && ctx.Err() != nil {
			return err
		}
		if err != nil {
			r.broken("full map %d: %v", k, err)
			continue
		}
		out.apply(full)
		return nil
	}
	if s.deltas[0] != 1 {
		r.broken("there is no full map, and the oldest manifest is %d", s.deltas[0])
		out.newest = s.deltas[0] - 1
	}
	return nil
}

// between reads the manifests in front of one that the listing did not show. What is not
// there is missing.
func (r *rebuilding) between(ctx context.Context, files manifest.Files, s *scannedManifests, k twophase.SnapshotVersion, out *lastManifests) error {
	for out.newest > 0 && out.newest+1 < k && !slices.Contains(s.deltas, out.newest+1) {
		was := out.newest
		if err := r.take(ctx, was+1, getManifest(ctx, files, was+1), false, out); err != nil || out.newest == was {
			return err
		}
	}
	return nil
}

// take goes on by one manifest. The newest must be readable: it says whose all this is,
// and how far it goes.
func (r *rebuilding) take(ctx context.Context, k twophase.SnapshotVersion, got gotManifest, newest bool, out *lastManifests) error {
	file, err := got.file, got.err
	switch {
	case err != nil && (ctx.Err() != nil || newest):
		return fmt.Errorf("the newest manifest says whose the warehouse is; take the file away if it cannot be put back: %w", err)
	case err != nil:
		r.broken("manifest %d: %v", k, err)
		return nil
	case out.catalog != "" && file.Catalog != out.catalog:
		return lock.Mark(lock.ErrUnfit, fmt.Errorf("manifest %d is of catalog %s, and one before of %s: this folder is of two catalogs", k, file.Catalog, out.catalog))
	}
	out.apply(file)
	return nil
}

func (r *rebuilding) broken(what string, args ...any) {
	r.found(RebuildFinding{Code: RebuildManifests, What: fmt.Sprintf(what, args...)})
}

func (l *lastManifests) apply(file *manifest.File) {
	l.catalog, l.incarnation = file.Catalog, file.Incarnation
	for i := range file.Deltas {
		l.delta(&file.Deltas[i])
	}
}

func (l *lastManifests) delta(d *manifest.Delta) {
	l.newest, l.time = max(l.newest, d.Snapshot), max(l.time, d.Timestamp)
	for _, t := range d.Tables {
		l.tables[t.ID], l.seen[t.ID] = t, t
		if len(d.Transactions) > 0 {
			l.brought[t.ID] = append(l.brought[t.ID], broughtVersion{t.Version, d.Snapshot, d.Timestamp, d.Transactions})
		}
	}
	for _, id := range d.Removed {
		delete(l.tables, twophase.TableID(id))
	}
	for _, text := range d.Transactions {
		if id, err := twophase.ParseTxnID(text); err == nil {
			l.shows[id] = d.Snapshot
		}
	}
}
