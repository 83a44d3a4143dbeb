package coordinator

import (
	"context"
	"fmt"
	"slices"

	"github.com/txcoord/txcoord/coordinator/manifest"
	"github.com/txcoord/txcoord/twophase"
)

// put writes what comes after the newest manifest, or takes what another replica has
// written there. A crash before it leaves a tail to be written by the next process.
func (m *manifests) put(ctx context.Context) error {
	file, err := m.pack()
	if err != nil {
		return err
	}
	if file, err = m.files.Append(ctx, file); err != nil {
		return err
	}
	return m.take(ctx, file, true)
}

// pack makes the manifest that comes after the newest.
func (m *manifests) pack() (*manifest.File, error) {
	rows := m.next(m.c.cfg.Limits.ManifestSnapshots)
	if len(rows) == 0 {
		return nil, fmt.Errorf("the fold does not hold snapshot %d any more", m.written()+1)
	}
	return manifest.Pack(m.head(), func(yield func(manifest.Delta) bool) {
		for _, row := range rows {
			if !yield(m.delta(row)) {
				return
			}
		}
	}, m.c.cfg.Limits.ManifestBytes)
}

// next are the snapshots that come after the newest manifest, so many at most. They end
// where a full map is due: its number is the last of a file, and a reader who begins with
// it finds the file that follows by its name.
func (m *manifests) next(most int) (rows []*twophase.Snapshot) {
	written := m.written()
	every := twophase.SnapshotVersion(m.c.cfg.Limits.MapEvery)
	most = min(most, int(every-written%every))
	m.c.ledger.read(func(s *twophase.State) { rows = slices.Clone(s.NextManifests(written, most)) })
	return rows
}

// take goes on to the end of a manifest that stands behind the newest. It may be another
// replica's: then it has to be what the journal says. full puts the map that is due
// behind it, an aid without which all is whole.
func (m *manifests) take(ctx context.Context, file *manifest.File, full bool) error {
	if err := m.isOurs(file); err != nil {
		return err
	}
	if err := m.knows(ctx, file.Last()); err != nil {
		return err
	}
	var rows []*twophase.Snapshot
	written := m.written()
	m.c.ledger.read(func(s *twophase.State) { rows = slices.Clone(s.NextManifests(written, len(file.Deltas))) })
	if len(rows) < len(file.Deltas) {
		return m.start(ctx) // the floor has passed them
	}
	for i, row := range rows {
		if err := agrees(row, &file.Deltas[i]); err != nil {
			return m.c.ledger.fail(err)
		}
	}
	if full && m.mapped(file.Last()) {
		end := m.set.forward(rows, file.Last())
		if err := m.files.PutFull(ctx, m.full(&file.Deltas[len(rows)-1], end)); err != nil {
			return err
		}
	}
	m.wrote(rows)
	return nil
}

// mapped reports whether a full map is due at a snapshot.
func (m *manifests) mapped(v twophase.SnapshotVersion) bool {
	return uint64(v)%uint64(m.c.cfg.Limits.MapEvery) == 0
}

// wrote notes that the manifests of snapshots are durable, and keeps full sets.
func (m *manifests) wrote(rows []*twophase.Snapshot) {
	var sets []*tableSet
	for _, row := range rows {
		m.set.apply(row)
		if m.mapped(row.Version) {
			sets = append(sets, m.set.forward(nil, row.Version))
		}
	}
	m.mu.Lock()
	m.done = rows[len(rows)-1].Version
	m.kept = append(m.kept, sets...)
	m.kept = m.kept[max(0, len(m.kept)-setsKept):]
	m.mu.Unlock()
	for _, row := range rows {
		m.c.cfg.Telemetry.Manifested(row.Version, row.Txns)
	}
}

// agrees errs if what stands in a manifest is not of the record that made the snapshot:
// another journal of the same catalog, such as a copy that went on by itself, wrote it.
func agrees(row *twophase.Snapshot, d *manifest.Delta) error {
	same := row.Version == d.Snapshot && row.Time == d.Timestamp && row.Kind == d.Kind &&
		slices.EqualFunc(row.Txns, d.Transactions, func(id twophase.TxnID, text string) bool { return id.String() == text }) &&
		slices.EqualFunc(row.Tables, d.Tables, func(t twophase.SnapshotTable, have manifest.Table) bool {
			return t.Table == have.ID && t.Version == have.Version
		}) &&
		slices.EqualFunc(row.Removed, d.Removed, func(id twophase.TableID, text string) bool { return string(id) == text })
	if same {
		return nil
	}
	return contradicts(fmt.Sprintf("what the manifests say of snapshot %d is not what the journal says", row.Version))
}

func (m *manifests) head() manifest.Head {
	meta := m.c.journal.Meta()
	return manifest.HeadOf(meta.Catalog, meta.Incarnation)
}

// delta is a pure function of the record that made the snapshot.
func (m *manifests) delta(s *twophase.Snapshot) manifest.Delta {
	out := manifest.Delta{
		Snapshot: s.Version, Timestamp: s.Time, Kind: s.Kind,
		Transactions: make([]string, 0, len(s.Txns)), Tables: make([]manifest.Table, 0, len(s.Tables)),
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

func (m *manifests) row(id twophase.TableID, v twophase.Version) manifest.Table {
	row := m.c.row(id)
	return manifest.Table{ID: id, Name: row.Name, URI: row.URI, Version: v}
}

// full lists all tables as of a snapshot.
func (m *manifests) full(d *manifest.Delta, set *tableSet) *manifest.File {
	all := manifest.Delta{Snapshot: d.Snapshot, Timestamp: d.Timestamp, Kind: d.Kind, Transactions: d.Transactions, Tables: []manifest.Table{}}
	for id, v := range set.tables {
		all.Tables = append(all.Tables, m.row(id, v))
	}
	slices.SortFunc(all.Tables, func(a, b manifest.Table) int { return compare(a.ID, b.ID) })
	head := m.head()
	head.Full = true
	return &manifest.File{Head: head, Deltas: []manifest.Delta{all}}
}
