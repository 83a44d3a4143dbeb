package tables

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/txcoord/txcoord/internal/ahead"
	"github.com/txcoord/txcoord/tables/objstore"
	"github.com/txcoord/txcoord/twophase"
)

// Latest asks State for the newest version.
const Latest twophase.Version = -2

// State replays the table up to a version: from the newest complete checkpoint
// that is not above it, then commit by commit. `_last_checkpoint` is a hint that
// saves listing, and is believed in nothing else. *LogError if the log has a gap,
// a damaged file, no protocol or metaData, or a protocol that we do not know: there
// is no partial state. Everything else is an error of the store.
func (l *Log) State(ctx context.Context, at twophase.Version) (*State, error) {
	return l.state(ctx, at, AllActions)
}

// LiveState is State from no more of the checkpoint than a State keeps: a fraction of the
// time. Damage in the rest of it is not seen.
func (l *Log) LiveState(ctx context.Context, at twophase.Version) (*State, error) {
	return l.state(ctx, at, LiveActions)
}

func (l *Log) state(ctx context.Context, at twophase.Version, what Portion) (*State, error) {
	r := newReplay(l.URI)
	r.what = what
	if err := l.replay(ctx, r, at); err != nil {
		return nil, err
	}
	return r.state, nil
}

// LiveFile is a live file with its path.
type LiveFile struct {
	// Path is canonical.
	Path string
	// DV is the deletion vector's unique id; empty if there is none.
	DV   string
	Size int64
	// Raw is the add action's object.
	Raw []byte
}

// Skipped is what is wrong with a checkpoint that the replay passed over, because
// older files tell the same; nil if there was none. An operator should know: once log
// clean-up has removed those, the table cannot be read.
func (s *State) Skipped() error {
	if s.skipped == nil {
		return nil
	}
	return s.skipped
}

// LiveFiles is the whole live set at a version, by path. Memory grows with the table.
func (l *Log) LiveFiles(ctx context.Context, at twophase.Version) ([]LiveFile, error) {
	type name struct{ path, dv string }
	found := map[name]LiveFile{}
	r := newReplay(l.URI)
	r.restarted = func() { clear(found) }
	r.seen = func(line *line, path string) {
		k := name{path, line.dv}
		if line.kind == kindRemove {
			delete(found, k)
			return
		}
		found[k] = LiveFile{path, line.dv, line.size, slices.Clone(line.body)}
	}
	if err := l.replay(ctx, r, at); err != nil {
		return nil, err
	}
	return slices.SortedFunc(maps.Values(found), func(a, b LiveFile) int {
		return strings.Compare(a.Path+"\x00"+a.DV, b.Path+"\x00"+b.DV)
	}), nil
}

// replay reads the newest checkpoint that is whole, and the commits after it. One
// that is damaged is passed over if older files tell the same.
func (l *Log) replay(ctx context.Context, r *replay, at twophase.Version) error {
	if l.in != nil && at >= 0 && l.in.Reads(at) {
		if l.replayBy(ctx, r, l.in, at) == nil {
			return nil
		}
		r.restart()
	}
	listing, err := l.ListFor(ctx, at)
	if err != nil {
		return err
	}
	return l.replayBy(ctx, r, listing, at)
}

func (l *Log) replayBy(ctx context.Context, r *replay, listing *Listing, at twophase.Version) error {
	target, err := l.target(listing, at)
	if err != nil {
		return err
	}
	c, ok := listing.NewestCheckpoint(target)
	if !ok {
		return l.replayFrom(ctx, r, listing, nil, target)
	}
	err = l.replayFrom(ctx, r, listing, &c, target)
	if bad, ok := errors.AsType[*LogError](err); ok && bad.Fault == BadCheckpoint {
		return l.replayWithout(ctx, r, bad, c, target)
	}
	return err
}

// replayWithout replays from older checkpoints, or from the first commit. If that is
// not possible, the checkpoint's damage is what is wrong with the log.
func (l *Log) replayWithout(ctx context.Context, r *replay, damage *LogError, failed ListedCheckpoint, target twophase.Version) error {
	listing, err := l.List(ctx, 0)
	if err != nil {
		return err
	}
	tries := []*ListedCheckpoint{}
	for _, c := range slices.Backward(listing.Checkpoints) {
		if c.Complete && c.Version <= target && c.Files[0].Key != failed.Files[0].Key {
			tries = append(tries, &c)
		}
	}
	for _, c := range append(tries, nil) {
		r.restart()
		err = l.replayFrom(ctx, r, listing, c, target)
		fault, ok := errors.AsType[*LogError](err)
		switch {
		case err == nil:
			r.state.skipped = damage
			return nil
		case !ok:
			return err
		case fault.Fault != BadCheckpoint && fault.Fault != Gap:
			return err
		}
	}
	return damage
}

// replayFrom reads a checkpoint, if there is one, or an extract instead, and the commits after
// that.
func (l *Log) replayFrom(ctx context.Context, r *replay, listing *Listing, c *ListedCheckpoint, target twophase.Version) error {
	below, err := l.fromExtract(ctx, r, listing, c, target)
	if err == nil && below == twophase.NoVersion && c != nil {
		below, err = c.Version, l.readCheckpoint(ctx, r, *c)
	}
	if err != nil {
		return err
	}
	commits, err := l.span(listing, below+1, target)
	if err != nil {
		return err
	}
	if r.recorded {
		ctx = objstore.Durable(ctx)
	}
	if err := l.readCommits(ctx, r, commits); err != nil {
		return err
	}
	return l.sound(r)
}

// ListFor lists what State, Load and Tail read a version by: from the newest checkpoint that
// the hint knows, if that is not above it, or else everything.
func (l *Log) ListFor(ctx context.Context, at twophase.Version) (*Listing, error) {
	hint, err := l.hint(ctx)
	if err != nil {
		return nil, err
	}
	if v := hint.version; v > 0 && (at == Latest || v <= at) {
		listing, err := l.List(ctx, v)
		if err != nil {
			return nil, err
		}
		listing.hint = hint
		if _, ok := listing.NewestCheckpoint(at); ok {
			return listing, nil
		}
	}
	return l.List(ctx, 0)
}

// hint is what _last_checkpoint says: a version, and the bytes of all files of its
// checkpoint, 0 if it does not say.
type hint struct {
	version twophase.Version
	bytes   int64
}

// hint reads _last_checkpoint; the version is -1 if the file is missing or makes no
// sense. Writers put the version first, so that a torn file still gives it.
func (l *Log) hint(ctx context.Context) (hint, error) {
	h := hint{version: -1}
	raw, _, err := l.Store.Get(ctx, l.prefix+pointerName, objstore.Range{})
	if errors.Is(err, objstore.ErrNotFound) {
		return h, nil
	}
	if err != nil {
		return h, fmt.Errorf("read %s of table %s: %w", pointerName, l.URI, err)
	}
	_ = members(raw, func(name, value []byte) bool {
		n, ok := intOf(value)
		switch {
		case ok && string(name) == "version":
			h.version = twophase.Version(n)
		case ok && string(name) == "sizeInBytes":
			h.bytes = n
		}
		return true
	})
	return h, nil
}

// bytesOf is the size of a checkpoint, as far as the listing tells: sidecars are not in it.
func (l *Listing) bytesOf(c *ListedCheckpoint) (n int64) {
	if c == nil {
		return 0
	}
	for _, f := range c.Files {
		n += f.Size
	}
	if c.Version == l.hint.version {
		n = max(n, l.hint.bytes)
	}
	return n
}

// target is the version that is asked for, if the log can have it.
func (l *Log) target(listing *Listing, at twophase.Version) (twophase.Version, error) {
	last := listing.Last()
	switch {
	case last == twophase.NoVersion:
		e := l.fault(NotATable, "", nil)
		e.File, e.Reason = strings.TrimSuffix(logFolder, "/"), "there is no commit and no complete checkpoint in the folder"
		return 0, e
	case at == Latest:
		return last, nil
	case at > last || at < 0:
		e := l.fault(NoVersion, "", nil)
		e.Version, e.Reason = at, fmt.Sprintf("asked for version %d, the newest is %d", at, last)
		return 0, e
	}
	return at, nil
}

// span returns the commits from one version to another, all of them.
func (l *Log) span(listing *Listing, from, to twophase.Version) ([]ListedCommit, error) {
	var out []ListedCommit
	for v := from; v <= to; v++ {
		c, ok := listing.Commit(v)
		if !ok {
			e := l.fault(Gap, commitName(v), nil)
			e.Version, e.Reason = v, fmt.Sprintf("version %d is missing, version %d is there", v, listing.Last())
			if from == 0 && len(out) == 0 {
				e.Reason += ", and no complete checkpoint covers it"
			}
			return nil, e
		}
		out = append(out, c)
	}
	return out, nil
}

// commitBytesAhead bounds the commits that are fetched before they count, besides
// LogConfig.ReadAhead.
const commitBytesAhead = 16 << 20

func (l *Log) readCommits(ctx context.Context, r *replay, commits []ListedCommit) error {
	type fetched struct {
		raw    []byte
		object objstore.Info
	}
	reading := ahead.Reader[ListedCommit, fetched]{
		AtOnce: l.ReadAhead, Bytes: commitBytesAhead, Size: func(c ListedCommit) int64 { return c.Size },
		Get: func(ctx context.Context, c ListedCommit) (f fetched, err error) {
			if f.raw, f.object, err = l.Store.Get(ctx, c.Key, objstore.Range{}); err != nil {
				err = fmt.Errorf("read commit %d of table %s: %w", c.Version, l.URI, err)
			}
			return f, err
		},
	}
	return reading.Each(ctx, commits, func(c ListedCommit, f fetched) error {
		if r.read != nil {
			if err := r.read(c.Version, f.raw, f.object); err != nil {
				return err
			}
		}
		return r.commit(c.Version, f.raw)
	})
}

// sound checks that the replay holds what every version of a table has. The file
// that is named is the one in which it should have been.
func (l *Log) sound(r *replay) error {
	fault := func(f Fault, file string, err error) error {
		e := l.fault(f, "", err)
		e.File, e.Version = file, r.state.version
		return e
	}
	switch {
	case r.protocol == nil:
		return fault(NoProtocol, r.first, nil)
	case r.meta == nil:
		return fault(NoMetaData, r.first, nil)
	}
	if err := r.protocol.checkReadable(l.URI); err != nil {
		return fault(Unsupported, r.protocolFile, err)
	}
	return nil
}
