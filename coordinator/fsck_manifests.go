package coordinator

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"

	"github.com/txcoord/txcoord/coordinator/manifest"
	"github.com/txcoord/txcoord/internal/ahead"
	"github.com/txcoord/txcoord/internal/number"
	"github.com/txcoord/txcoord/tables/objstore"
	"github.com/txcoord/txcoord/twophase"
)

// scannedManifests are those that there are.
type scannedManifests struct {
	// deltas are the files' numbers and ascend; maps are the snapshots with a full map.
	deltas []twophase.SnapshotVersion
	maps   map[twophase.SnapshotVersion]bool
	// shown is what the fold said before they were listed.
	shown twophase.SnapshotVersion
}

// listManifests lists a folder.
func listManifests(ctx context.Context, files manifest.Files) (*scannedManifests, error) {
	out := &scannedManifests{maps: map[twophase.SnapshotVersion]bool{}}
	for n, err := range files.List(ctx, 0) {
		switch {
		case err != nil:
			return nil, err
		case n.Full:
			out.maps[n.Snapshot] = true
		default:
			out.deltas = append(out.deltas, n.Snapshot)
		}
	}
	return out, nil
}

// scanManifests lists the manifests.
func (f *fsck) scanManifests(ctx context.Context) (*scannedManifests, error) {
	shown := f.state.Shown()
	out, err := listManifests(ctx, newManifests(f.c).files)
	if err != nil {
		return nil, err
	}
	out.shown = shown
	return out, nil
}

// readManifest reads a file. What was taken away since it was listed is nil.
func (f *fsck) readManifest(ctx context.Context, name manifest.Name) ([]byte, error) {
	files := newManifests(f.c).files
	raw, _, err := files.Store.Get(ctx, files.Key(name), objstore.Range{})
	if errors.Is(err, objstore.ErrNotFound) {
		return nil, nil
	}
	return raw, err
}

// manifestChain goes through manifests in order. set is what they make, and whole says
// that none of it is missing.
type manifestChain struct {
	*fsck
	maps     map[twophase.SnapshotVersion]bool
	expected map[twophase.SnapshotVersion][]byte
	set      *tableSet
	whole    bool
	// last is the newest snapshot of them; 0 if that is not known.
	last twophase.SnapshotVersion
}

// judgeManifests compares each manifest with what its records make where the fold still
// holds them, and all of them with those below; nil if they are not looked at.
func (f *fsck) judgeManifests(ctx context.Context, s *scannedManifests) error {
	if s == nil {
		return nil
	}
	f.report.Manifests = len(s.deltas)
	c := &manifestChain{fsck: f, maps: s.maps, expected: f.expected(), set: &tableSet{tables: map[twophase.TableID]twophase.Version{}}}
	c.whole = len(s.deltas) > 0 && s.deltas[0] == 1
	var names []manifest.Name
	for _, k := range s.deltas {
		names = append(names, manifest.Name{Snapshot: k})
	}
	reading := ahead.Reader[manifest.Name, []byte]{AtOnce: f.c.cfg.Limits.readAhead(f.c.cfg.Warehouse), Get: f.readManifest}
	err := reading.Each(ctx, names, func(n manifest.Name, raw []byte) error {
		if err := c.between(ctx, n.Snapshot); err != nil {
			return err
		}
		return c.take(ctx, n, raw)
	})
	if err != nil {
		return err
	}
	newest := c.last
	if n := len(s.deltas); n > 0 {
		newest = max(newest, s.deltas[n-1])
	}
	f.tail(s, newest)
	return nil
}

// between reads the manifests that the listing did not show in front of another: they may
// have been written while it was under way. What is not there now is missing.
func (c *manifestChain) between(ctx context.Context, k twophase.SnapshotVersion) error {
	for c.last > 0 && c.last+1 < k {
		n := manifest.Name{Snapshot: c.last + 1}
		raw, err := c.readManifest(ctx, n)
		if err != nil {
			return err
		}
		if raw == nil {
			c.gap(c.last+1, k-1)
			c.whole, c.last = false, 0
			return nil
		}
		if err := c.take(ctx, n, raw); err != nil {
			return err
		}
	}
	return nil
}

// take takes the next manifest, and the full maps of its snapshots.
func (c *manifestChain) take(ctx context.Context, n manifest.Name, raw []byte) error {
	file := c.manifest(n, raw)
	if file == nil {
		c.whole, c.last = false, 0
		return nil
	}
	if n.Snapshot <= c.last {
		c.foundIn(FsckManifestAltered, n.Snapshot, "%s holds snapshots that one before holds, which ends with %d", n, c.last)
	}
	for i := range file.Deltas {
		d := &file.Deltas[i]
		if d.Snapshot <= c.last {
			continue
		}
		c.forward(d)
		if err := c.fullMap(ctx, d.Snapshot, d.Snapshot == file.Last()); err != nil {
			return err
		}
	}
	c.last = max(c.last, file.Last())
	return nil
}

// expected are the deltas that the records make which the fold holds.
func (f *fsck) expected() map[twophase.SnapshotVersion][]byte {
	f.c.ledger = newLedger(f.state, nil)
	m := newManifests(f.c)
	out := map[twophase.SnapshotVersion][]byte{}
	for _, row := range f.state.Snapshots() {
		d := m.delta(row)
		if b, err := d.Encode(); err == nil {
			out[row.Version] = b
		}
	}
	return out
}

func (f *fsck) foundIn(code FsckCode, k twophase.SnapshotVersion, what string, args ...any) {
	f.found(FsckFinding{Code: code, Version: twophase.NoVersion, Snapshot: k, What: fmt.Sprintf(what, args...)})
}

// gap names what is missing: the file that begins where the one before ends, and the
// snapshots that it, and perhaps others behind it, held.
func (f *fsck) gap(from, to twophase.SnapshotVersion) {
	what := "there is no manifest %d, and there is a newer one"
	if from < to {
		what = "there is no manifest %d, and none that holds the snapshots behind it up to " + fmt.Sprint(to)
	}
	f.foundIn(FsckManifestMissing, from, what, from)
}

// manifest reads one and compares it with what the records make. Nil if it says nothing
// that can be used.
func (c *manifestChain) manifest(n manifest.Name, raw []byte) *manifest.File {
	if raw == nil {
		return nil
	}
	file, err := manifest.Decode(n, raw)
	if err != nil {
		c.foundIn(FsckManifestAltered, n.Snapshot, "%v", err)
		return nil
	}
	meta := c.c.journal.Meta()
	switch shown := c.state.Shown(); {
	case file.Last() > shown:
		c.foundIn(FsckManifestAhead, max(n.Snapshot, shown+1), "the journal knows %s only", number.Of(shown, "snapshot"))
	case file.Catalog != meta.Catalog || file.Incarnation != meta.Incarnation && file.Last() > c.state.Rebuilt():
		c.foundIn(FsckManifestAltered, n.Snapshot, "%s is of catalog %s, incarnation %s", n, file.Catalog, file.Incarnation)
	case !n.Full:
		c.compare(n, file)
	}
	return file
}

// compare names each snapshot of which a manifest does not say what its record makes.
func (c *manifestChain) compare(n manifest.Name, file *manifest.File) {
	for i := range file.Deltas {
		d := &file.Deltas[i]
		if want := c.expected[d.Snapshot]; want != nil && !bytes.Equal(d.Raw(), want) {
			c.foundIn(FsckManifestAltered, d.Snapshot, "what %s says of it is not what the journal's record makes", n)
		}
	}
}

// forward applies a delta. A table never goes back.
func (c *manifestChain) forward(d *manifest.Delta) {
	for _, t := range d.Tables {
		if was, ok := c.set.tables[t.ID]; ok && t.Version < was {
			c.foundIn(FsckManifestAltered, d.Snapshot, "it has table %s at version %d, and one before has version %d", t.Name, t.Version, was)
		}
	}
	if d.Snapshot == c.state.Rebuilt()+1 && d.Snapshot > 1 {
		c.set.tables, c.whole = map[twophase.TableID]twophase.Version{}, true // it names all tables
	}
	c.set.with(d)
}

// fullMap compares the full map of a snapshot, if there is one, with what the manifests up
// to it make, if all of them are there; else it starts from the map.
func (c *manifestChain) fullMap(ctx context.Context, k twophase.SnapshotVersion, ends bool) error {
	if !c.maps[k] {
		return nil
	}
	n := manifest.Name{Snapshot: k, Full: true}
	raw, err := c.readManifest(ctx, n)
	if err != nil {
		return err
	}
	file := c.manifest(n, raw)
	if file == nil {
		return nil
	}
	all := &tableSet{tables: map[twophase.TableID]twophase.Version{}}
	all.with(&file.Deltas[0])
	switch {
	case c.whole && !maps.Equal(all.tables, c.set.tables):
		c.foundIn(FsckManifestAltered, k, "%s is not what the manifests up to it make", n)
		return nil
	case !ends:
		c.foundIn(FsckManifestAltered, k, "%s lies within a manifest: readers that begin with it look for manifest %d", n, k+1)
	}
	c.set.tables, c.whole = all.tables, true
	return nil
}

// tail: the newest manifests may be missing, if there is somebody to write them.
func (f *fsck) tail(s *scannedManifests, newest twophase.SnapshotVersion) {
	if newest >= s.shown {
		return
	}
	if oldest := f.state.Snapshots(); len(oldest) > 0 && oldest[0].Version > newest+1 {
		f.gap(newest+1, oldest[0].Version-1)
	}
	f.foundIn(FsckManifestPending, newest+1, "manifests from %d to %d are not written yet", newest+1, s.shown)
}
