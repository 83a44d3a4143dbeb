package tables

import (
	"context"
	"fmt"
	"slices"

	"github.com/txcoord/txcoord/tables/objstore"
	"github.com/txcoord/txcoord/twophase"
)

// maxDefinitions bounds those that an extract holds: each may be a schema of any size.
const maxDefinitions = 64

// extractor gathers the live files while they are gone through, and makes an extract of them
// where a checkpoint is written: eight bytes each, sixteen where there is a deletion vector.
type extractor struct{ extract }

func (x *extractor) add(a *fileAction) {
	if dv := hashDV(a.line.dv); dv != 0 {
		x.vectors = append(x.vectors, pair{HashPath(a.path), dv})
		return
	}
	if n := len(x.plain); n == cap(x.plain) { // append would leave five times as much behind
		x.plain = slices.Grow(x.plain, max(n, 1024))
	}
	x.plain = append(x.plain, HashPath(a.path))
}

// once puts the files in order. *LogError if one is there twice: the checkpoint that they
// were read from has it twice, since what commits name counts once.
func (x *extractor) once(l *Log, src *source) error {
	slices.Sort(x.plain)
	slices.SortFunc(x.vectors, comparePairs)
	n := repeated(x.plain) + repeated(x.vectors)
	if n == 0 || src.checkpoint == nil {
		return nil
	}
	return l.badCheckpoint(src.checkpoint.Version, src.checkpoint.Files[0].Key, fmt.Errorf("live files are in it twice (%d)", n))
}

// repeated counts the elements that are like the one before.
func repeated[T comparable](sorted []T) (n int) {
	for i := 1; i < len(sorted); i++ {
		if sorted[i] == sorted[i-1] {
			n++
		}
	}
	return n
}

// finish makes the extract of the checkpoint's object. nil if there is none to be made:
// where the store has no ETags, where the ids of rows count, and for a table in which a
// path is live under several vectors.
func (x *extractor) finish(l *Log, s *Survey, file objstore.Info) []byte {
	if file.ETag == "" || s.Profile.inForce.has("rowTracking") {
		return nil
	}
	for i, p := range x.vectors {
		_, both := slices.BinarySearch(x.plain, p.path)
		if both || i > 0 && x.vectors[i-1].path == p.path {
			return nil
		}
	}
	r := newReplay(l.URI)
	for _, line := range s.head.headLines() {
		if r.apply(line) != nil {
			return nil
		}
	}
	r.settle(s.At)
	x.base = l.baseOf(&ListedCheckpoint{Version: s.At, Files: []objstore.Info{file}})
	x.from = s.At + 1
	return x.of(l, r)
}

// of puts what a replay says beside the files in, and writes it.
func (x *extract) of(l *Log, r *replay) []byte {
	x.table, x.version, x.definitions, x.txns, x.domains = l.URI, r.state.version, r.definitions, r.state.txns, r.state.domains
	return x.encode()
}

func comparePairs(a, b pair) int {
	switch {
	case a.path < b.path:
		return -1
	case a.path > b.path:
		return 1
	}
	return 0
}

// sorted are the files as an extract has them; false if a path is live under several vectors.
func (s *viewFiles) sorted() (plain []PathHash, vectors []pair, ok bool) {
	s.plain.merge()
	plain = s.plain.sorted
	var more []PathHash
	for p, f := range s.rest.one {
		switch {
		case s.plain.has(p):
			return nil, nil, false
		case f.dv == 0:
			more = append(more, p)
		default:
			vectors = append(vectors, pair{p, f.dv})
		}
	}
	if len(more) > 0 {
		plain = slices.Sorted(slices.Values(append(more, plain...)))
	}
	slices.SortFunc(vectors, comparePairs)
	return plain, vectors, len(s.rest.more) == 0
}

// Renewal says how an extract is made anew.
type Renewal struct {
	// AtLeast is how many versions it has to be behind.
	AtLeast twophase.Version
	// MaxBytes bounds the extract, and the checkpoint that is read where there is none.
	MaxBytes int64
	// Recorded, if set, is the identity that was recorded of a version, as far as it is known.
	Recorded func(twophase.Version) (twophase.Hash, bool)
}

// Renewed is what there is after it.
type Renewed struct {
	// Version is that of the extract; NoVersion if there is none.
	Version twophase.Version
	// Files are its live files.
	Files int
	// Written: it was made now.
	Written bool
}

// maxRenewed is how many commits are read for one renewal. Where more are behind, the extract
// is of a version on the way.
const maxRenewed = 1024

// RenewExtract makes the extract of a recorded version from the one before, and the commits
// behind that; without one from a checkpoint that is not large, or from the first commit. It
// is what Load does, and what it read Load need not read: each commit is compared with what
// was recorded of it, as far as that is known, and stands for its object from then on.
//
// None is made where Extracts says too little (see extractor.finish), and where it would be
// too large. *LogError as Load's, and Altered; in all of these cases what was there stays.
func (l *Log) RenewExtract(ctx context.Context, at twophase.Version, o Renewal) (Renewed, error) {
	none := Renewed{Version: twophase.NoVersion}
	w := &renewal{l: l, o: o, at: at, sums: map[twophase.Version]objectSum{}}
	if fresh, err := w.begin(ctx); err != nil || w.r == nil {
		return fresh, err
	}
	w.r.recorded, w.r.read = true, w.saw
	w.at = min(w.at, w.next+maxRenewed-1)
	commits, err := l.span(w.listing, w.next, w.at)
	if err != nil {
		return none, err
	}
	if err := l.readCommits(objstore.Durable(ctx), w.r, commits); err != nil {
		return none, err
	}
	if err := l.sound(w.r); err != nil {
		return none, err
	}
	b := w.finish()
	if b == nil {
		return none, nil
	}
	l.Extracts.Keep(ctx, b)
	return Renewed{Version: w.at, Files: w.r.live.len(), Written: true}, nil
}

// renewal is one under way.
type renewal struct {
	l  *Log
	o  Renewal
	at twophase.Version
	// listing is what is listed from the replay's beginning on, newest its newest checkpoint.
	listing *Listing
	newest  extractBase
	base    extractBase
	// r is the replay, next the first commit that it has to read, sums those that are below.
	r    *replay
	next twophase.Version
	sums map[twophase.Version]objectSum
}

// begin says what the replay begins with. Without one there is nothing to be done, and what
// there is already is the answer.
func (w *renewal) begin(ctx context.Context) (Renewed, error) {
	none := Renewed{Version: twophase.NoVersion}
	l := w.l
	x, err := l.keptExtract(ctx, w.o.MaxBytes)
	if err != nil {
		return none, err
	}
	if w.listing, err = l.ListFor(ctx, w.at); err != nil {
		return none, err
	}
	if w.at, err = l.target(w.listing, w.at); err != nil {
		return none, err
	}
	var c *ListedCheckpoint
	if newest, ok := w.listing.NewestCheckpoint(w.at); ok {
		c = &newest
	}
	w.newest = l.baseOf(c)
	switch below := w.newest.version; {
	case x != nil && x.fits(l, w.listing, c, w.at):
		if w.at-x.version < w.o.AtLeast {
			return Renewed{Version: x.version, Files: len(x.plain) + len(x.vectors)}, nil
		}
		if w.goOn(x, below) == nil {
			return none, nil
		}
	case x != nil && x.table == l.URI && x.version < below && below-x.version < maxRenewed:
		longer, err := l.List(ctx, x.version)
		if err != nil {
			return none, err
		}
		if x.stands(longer, x.version) && longer.holds(x.version+1, below) { // others have written a checkpoint since
			if w.goOn(x, x.version) == nil {
				w.listing = longer
				return none, nil
			}
		}
	}
	return none, w.beginAt(ctx, c)
}

// goOn begins with an extract. An error: its definitions mean nothing to this build, and it is
// made anew.
func (w *renewal) goOn(x *extract, checkpoint twophase.Version) error {
	r := newReplay(w.l.URI)
	if err := r.takeExtract(w.l, x, checkpoint); err != nil {
		return err
	}
	w.r, w.next, w.base = r, x.version+1, x.base
	for i, sum := range x.commits {
		w.sums[x.from+twophase.Version(i)] = sum
	}
	return nil
}

// beginAt begins with a checkpoint that is not large, or with the first commit.
func (w *renewal) beginAt(ctx context.Context, c *ListedCheckpoint) error {
	if c != nil && (w.newest.etag == "" || w.listing.bytesOf(c) > w.o.MaxBytes || c.Version == w.at) {
		return nil
	}
	r := newReplay(w.l.URI)
	r.what, r.live = LiveActions, &viewFiles{rest: newLiveSet()}
	if c != nil {
		if err := w.l.readCheckpoint(ctx, r, *c); err != nil || r.others {
			return err // of another object than the listed one nothing is made
		}
	}
	w.r, w.next, w.base = r, w.newest.version+1, w.newest
	return nil
}

// saw compares a commit with what was recorded of it, and keeps what stands for it.
func (w *renewal) saw(v twophase.Version, raw []byte, object objstore.Info) error {
	w.sums[v] = sumOf(object)
	if w.o.Recorded == nil {
		return nil
	}
	want, known := w.o.Recorded(v)
	if !known || want.IsZero() || twophase.HashOf(raw) == want {
		return nil
	}
	if _, err := ParseCommit(w.l.URI, v, raw); err != nil {
		return err // it is no commit any more, which is worse
	}
	e := w.l.fault(Altered, commitName(v), nil)
	e.Version, e.Reason = v, fmt.Sprintf("its content is %.8s, recorded was %.8s", twophase.HashOf(raw), want)
	return e
}

// finish is the extract; nil if there is none to be made.
func (w *renewal) finish() []byte {
	if w.r.state.profile.inForce.has("rowTracking") || len(w.r.definitions) > maxDefinitions {
		return nil
	}
	x := &extract{base: w.base, from: min(w.newest.version+1, w.at)}
	var ok bool
	if x.plain, x.vectors, ok = w.r.live.sorted(); !ok {
		return nil
	}
	for v := x.from; v <= w.at; v++ {
		if w.sums[v] == 0 {
			return nil
		}
		x.commits = append(x.commits, w.sums[v])
	}
	b := x.of(w.l, w.r)
	if int64(len(b)) > w.o.MaxBytes {
		return nil
	}
	return b
}
