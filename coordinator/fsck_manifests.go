package coordinator

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/txcoord/txcoord/tables/objstore"
	"github.com/txcoord/txcoord/twophase"
)

// scannedManifests are those that there are.
type scannedManifests struct {
	// deltas ascend; maps are the snapshots that have a full map.
	deltas []twophase.SnapshotVersion
	maps   map[twophase.SnapshotVersion]bool
	// shown is what the fold said before they were listed.
	shown twophase.SnapshotVersion
}

// scanManifests lists the manifests.
func (f *fsck) scanManifests(ctx context.Context) (*scannedManifests, error) {
	out := &scannedManifests{maps: map[twophase.SnapshotVersion]bool{}, shown: f.state.Shown()}
	prefix := f.c.own.key("manifests/")
	for e, err := range f.c.own.store.List(ctx, objstore.ListOptions{Prefix: prefix}) {
		if err != nil {
			return nil, fmt.Errorf("list manifests: %w", err)
		}
		out.note(strings.TrimPrefix(e.Key, prefix))
	}
	return out, f.readGaps(ctx, out)
}

func (s *scannedManifests) note(name string) {
	digits, rest, _ := strings.Cut(name, ".")
	k, err := strconv.ParseUint(digits, 10, 64)
	switch {
	case err != nil || len(digits) != 20:
	case rest == "json":
		s.deltas = append(s.deltas, twophase.SnapshotVersion(k))
	case rest == "checkpoint.json":
		s.maps[twophase.SnapshotVersion(k)] = true
	}
}

// readGaps asks once more for manifests that the listing did not show between others:
// they may have been written while it was under way.
func (f *fsck) readGaps(ctx context.Context, s *scannedManifests) error {
	var late []twophase.SnapshotVersion
	for i := 1; i < len(s.deltas); i++ {
		for k := s.deltas[i-1] + 1; k < s.deltas[i]; k++ {
			_, err := f.c.own.store.Stat(ctx, f.c.own.key(manifestName(k)))
			if err == nil {
				late = append(late, k)
			} else if !errors.Is(err, objstore.ErrNotFound) {
				return fmt.Errorf("look for manifest %d: %w", k, err)
			}
		}
	}
	s.deltas = append(s.deltas, late...)
	slices.Sort(s.deltas)
	return nil
}

// readManifests reads the manifests of some snapshots, and their full maps, by name. What
// was taken away since it was listed is left out.
func (f *fsck) readManifests(ctx context.Context, s *scannedManifests, some []twophase.SnapshotVersion) (map[string][]byte, error) {
	var names []string
	for _, k := range some {
		names = append(names, manifestName(k))
		if s.maps[k] {
			names = append(names, mapName(k))
		}
	}
	got := make([][]byte, len(names))
	err := parallelIndex(len(names), fsckReads, func(i int) (err error) {
		got[i], err = f.c.own.get(ctx, names[i])
		if errors.Is(err, objstore.ErrNotFound) {
			return nil
		}
		return err
	})
	out := map[string][]byte{}
	for i, name := range names {
		if got[i] != nil {
			out[name] = got[i]
		}
	}
	return out, err
}

// manifestChain goes through manifests in order. set is what they make, and whole says
// that none of it is missing.
type manifestChain struct {
	*fsck
	expected map[twophase.SnapshotVersion][]byte
	set      *tableSet
	whole    bool
	last     twophase.SnapshotVersion
}

// judgeManifests compares each manifest with what its record makes where the fold still
// holds that, and all of them with those below; nil if they are not looked at.
func (f *fsck) judgeManifests(ctx context.Context, s *scannedManifests) error {
	if s == nil {
		return nil
	}
	f.report.Manifests = len(s.deltas)
	c := &manifestChain{fsck: f, expected: f.expected(), set: &tableSet{tables: map[twophase.TableID]twophase.Version{}}}
	for some := range slices.Chunk(s.deltas, fsckWindow) {
		raw, err := f.readManifests(ctx, s, some)
		if err != nil {
			return err
		}
		for _, k := range some {
			c.take(k, raw)
		}
	}
	f.tail(s)
	return nil
}

// take takes the next manifest, and its full map if there is one.
func (c *manifestChain) take(k twophase.SnapshotVersion, raw map[string][]byte) {
	switch {
	case c.last == 0:
		c.whole = k == 1
	case c.last+1 != k:
		c.gap(c.last+1, k-1)
		c.whole = false
	}
	c.last = k
	mf := c.manifest(k, manifestName(k), raw[manifestName(k)], c.expected[k])
	switch {
	case mf == nil:
		c.whole = false
	case k == c.state.Rebuilt()+1 && k > 1:
		c.forward(mf)
		c.set.tables, c.whole = map[twophase.TableID]twophase.Version{}, true // it names all tables
		mf.applyTo(c.set)
	default:
		c.forward(mf)
	}
	if full := raw[mapName(k)]; full != nil {
		c.fullMap(k, full)
	}
}

// expected are the manifests that the records make which the fold holds.
func (f *fsck) expected() map[twophase.SnapshotVersion][]byte {
	f.c.ledger = newLedger(f.state, nil)
	m := newManifests(f.c)
	out := map[twophase.SnapshotVersion][]byte{}
	for _, row := range f.state.Snapshots() {
		if b, err := json.Marshal(m.delta(row)); err == nil {
			out[row.Version] = append(b, '\n')
		}
	}
	return out
}

func (f *fsck) foundIn(code FsckCode, k twophase.SnapshotVersion, what string, args ...any) {
	f.found(FsckFinding{Code: code, Version: twophase.NoVersion, Snapshot: k, What: fmt.Sprintf(what, args...)})
}

func (f *fsck) gap(from, to twophase.SnapshotVersion) {
	for k := from; k <= to && k < from+fsckGap; k++ {
		f.foundIn(FsckManifestMissing, k, "there is no manifest %d, and there is a newer one", k)
	}
	if to >= from+fsckGap {
		f.foundIn(FsckManifestMissing, from+fsckGap, "and none up to %d", to)
	}
}

// fsckGap is how many manifests that are missing in a row are named one by one.
const fsckGap = 100

// manifest reads one and compares it with the record's, nil if that is forgotten. Nil if it
// says nothing that can be used.
func (f *fsck) manifest(k twophase.SnapshotVersion, name string, raw, want []byte) *manifest {
	if raw == nil {
		return nil
	}
	var mf manifest
	if err := json.Unmarshal(raw, &mf); err != nil {
		f.foundIn(FsckManifestAltered, k, "%s cannot be read: %v", name, err)
		return nil
	}
	meta := f.c.journal.Meta()
	switch {
	case k > f.state.Shown():
		f.foundIn(FsckManifestAhead, k, "the journal knows %d snapshots only", f.state.Shown())
	case mf.Format != manifestFormat || mf.Snapshot != k:
		f.foundIn(FsckManifestAltered, k, "%s has format %d and is of snapshot %d", name, mf.Format, mf.Snapshot)
		return nil
	case mf.Catalog != meta.Catalog || mf.Incarnation != meta.Incarnation && k > f.state.Rebuilt():
		f.foundIn(FsckManifestAltered, k, "%s is of catalog %s, incarnation %s", name, mf.Catalog, mf.Incarnation)
	case want != nil && !bytes.Equal(raw, want):
		f.foundIn(FsckManifestAltered, k, "%s is not what the journal's record makes", name)
	}
	return &mf
}

// forward applies a manifest. A table never goes back.
func (c *manifestChain) forward(mf *manifest) {
	for _, t := range mf.Tables {
		if was, ok := c.set.tables[t.ID]; ok && t.Version < was {
			c.foundIn(FsckManifestAltered, mf.Snapshot, "it has table %s at version %d, and one before has version %d", t.Name, t.Version, was)
		}
	}
	mf.applyTo(c.set)
}

// fullMap compares a full map with what the manifests up to it make, if all of them are
// there; else it starts from the map.
func (c *manifestChain) fullMap(k twophase.SnapshotVersion, raw []byte) {
	mf := c.manifest(k, mapName(k), raw, nil)
	if mf == nil {
		return
	}
	full := &tableSet{tables: map[twophase.TableID]twophase.Version{}}
	mf.applyTo(full)
	if !mf.Full || c.whole && !maps.Equal(full.tables, c.set.tables) {
		c.foundIn(FsckManifestAltered, k, "%s is not what the manifests up to it make", mapName(k))
		return
	}
	c.set.tables, c.whole = full.tables, true
}

// tail: the newest manifests may be missing, if there is somebody to write them.
func (f *fsck) tail(s *scannedManifests) {
	newest := twophase.SnapshotVersion(0)
	if n := len(s.deltas); n > 0 {
		newest = s.deltas[n-1]
	}
	if newest >= s.shown {
		return
	}
	if oldest := f.state.Snapshots(); len(oldest) > 0 && oldest[0].Version > newest+1 {
		f.gap(newest+1, oldest[0].Version-1)
	}
	f.foundIn(FsckManifestPending, newest+1, "manifests from %d to %d are not written yet", newest+1, s.shown)
}
