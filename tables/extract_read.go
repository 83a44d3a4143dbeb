package tables

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/txcoord/txcoord/twophase"
)

// extracts reports whether an extract is worth its request, instead of a checkpoint of so
// many bytes and so many commits behind it.
func (l *Log) extracts(bytes int64, commits int) bool {
	return l.Extracts != nil && (bytes >= cmp.Or(l.ExtractFrom, 32<<10) || commits >= cmp.Or(l.ExtractCommits, 32))
}

// baseOf is a checkpoint that was listed, with all its files in the log's folder. The ETags
// change with the objects, also where others put one of the same version there; empty where
// the store has none.
func (l *Log) baseOf(c *ListedCheckpoint) extractBase {
	if c == nil {
		return extractBase{version: twophase.NoVersion}
	}
	b := extractBase{version: c.Version, file: l.nameOf(c.Files[0].Key)}
	var etags []string
	for _, f := range c.Files {
		if f.ETag == "" {
			return b
		}
		b.size, etags = b.size+uint64(f.Size), append(etags, f.ETag)
	}
	b.etag = strings.Join(etags, ",")
	return b
}

// stands reports whether a version's commit is listed as the object that is below the extract.
func (x *extract) stands(listing *Listing, v twophase.Version) bool {
	i := v - x.from
	commit, ok := listing.Commit(v)
	return ok && i >= 0 && i < twophase.Version(len(x.commits)) && x.commits[i] != 0 && x.commits[i] == sumOf(commit.Info)
}

// fits reports whether the extract says what the listed objects do: the newest checkpoint c
// at or below the target, which is nil if there is none, and the commits after it, as far as
// the extract goes. Each of those has to be the very object that was read. Of a checkpoint
// that was written since, the extract says the same without having seen it, if the commit
// that it ends with is still there: that is what makes it this log's.
func (x *extract) fits(l *Log, listing *Listing, c *ListedCheckpoint, target twophase.Version) bool {
	below := l.baseOf(c)
	switch {
	case x.table != l.URI, x.version < below.version, x.version > target, x.base.version > below.version:
		return false
	case x.base.version < below.version:
		if !x.stands(listing, x.version) {
			return false
		}
	case x.base != below, c != nil && below.etag == "":
		return false
	}
	for v := below.version + 1; v <= x.version; v++ {
		if !x.stands(listing, v) {
			return false
		}
	}
	return true
}

// keptExtract is what is kept, of so many bytes at most; nil if there is none, for whatever
// reason: then what it would be of is read.
func (l *Log) keptExtract(ctx context.Context, atMost int64) (*extract, error) {
	raw, err := l.Extracts.Get(ctx, atMost)
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if err != nil {
		return nil, nil
	}
	x, err := decodeExtract(raw)
	if err != nil {
		return nil, nil
	}
	return x, nil
}

// fromExtract replays the log up to a version from the extract that fits what is listed.
// NoVersion, and nothing was replayed, if there is none.
func (l *Log) fromExtract(ctx context.Context, r *replay, listing *Listing, c *ListedCheckpoint, target twophase.Version) (twophase.Version, error) {
	below := l.baseOf(c).version
	bytes := listing.bytesOf(c)
	if !r.brief || !l.extracts(bytes, int(target-below)) {
		return twophase.NoVersion, nil
	}
	// A row of a live file takes more than an eighth of what is kept of it; the rest may be
	// much shorter in a checkpoint.
	for v := below + 1; v <= target; v++ {
		if commit, ok := listing.Commit(v); ok {
			bytes += commit.Size
		}
	}
	x, err := l.keptExtract(ctx, 8*bytes+16<<20)
	if x == nil || !x.fits(l, listing, c, target) {
		return twophase.NoVersion, err
	}
	if err := r.takeExtract(l, x, below); err != nil {
		r.restart()
		return twophase.NoVersion, nil
	}
	return x.version, nil
}

// takeExtract replays an extract. Of definitions only those after a checkpoint's version are
// known one by one, as to whoever reads that checkpoint.
func (r *replay) takeExtract(l *Log, x *extract, checkpoint twophase.Version) error {
	for i, d := range x.definitions {
		if i+1 < len(x.definitions) && x.definitions[i+1].version <= checkpoint {
			continue
		}
		r.begin(logFolder + x.fileOf(d.version))
		if err := r.define(d); err != nil {
			return fmt.Errorf("extract of version %d of table %s: %w", x.version, l.URI, err)
		}
		r.settle(max(d.version, checkpoint))
	}
	if err := l.sound(r); err != nil {
		return err
	}
	r.state.txns, r.state.domains = x.txns, x.domains
	r.live = &viewFiles{plain: pathSet{sorted: x.plain}, rest: newLiveSet()}
	for _, p := range x.vectors {
		r.live.rest.add(p.path, live{dv: p.dv})
	}
	r.settle(x.version)
	return nil
}

// fileOf is the file that defined a version.
func (x *extract) fileOf(v twophase.Version) string {
	if v == x.base.version {
		return x.base.file
	}
	return commitName(v)
}

// define takes a protocol and a metadata.
func (r *replay) define(d definedAt) (err error) {
	before := r.protocol
	if r.protocol, err = parseProtocol(d.protocol); err != nil {
		return err
	}
	if before == nil || string(before.Raw) != string(d.protocol) {
		r.protocolFile = r.reading
	}
	r.meta, err = parseMetaData(d.meta)
	r.defined = true
	return err
}

// Load is LiveState and NewView in one, from the extract where there is one
// (LogConfig.Extracts): a fraction of the time. The state's files are the view's, and it
// is good for its profile, TailOf and Skipped. Errors are those of LiveState.
//
// The version is one that a journal recorded, or that the caller read from the log or put
// there, and so are those below it: whoever did that made them durable before, and commits
// are not made so once more (objstore.Durable). After a crash there may be thousands of
// young ones, of which each would be synced.
func (l *Log) Load(ctx context.Context, at twophase.Version) (*View, *State, error) {
	r, err := l.brief(ctx, at, LiveActions)
	if err != nil {
		return nil, nil, err
	}
	return r.view(), r.state, nil
}

// view is that of what was replayed. The replay is over.
func (r *replay) view() *View {
	v := NewView(r.state)
	if r.live != nil {
		v.files = *r.live
	}
	return v
}

// brief replays the log, from an extract where that will do: it says nothing of the ids of
// rows.
func (l *Log) brief(ctx context.Context, at twophase.Version, what Portion) (*replay, error) {
	r := newReplay(l.URI)
	r.what, r.brief, r.recorded = what, true, true
	err := l.replay(ctx, r, at)
	if err == nil && r.live != nil && what == LiveActions && r.state.profile.inForce.has("rowTracking") {
		return l.whole(ctx, at)
	}
	return r, err
}

// whole replays the log without an extract.
func (l *Log) whole(ctx context.Context, at twophase.Version) (*replay, error) {
	r := newReplay(l.URI)
	r.what, r.recorded = LiveActions, true
	return r, l.replay(ctx, r, at)
}
