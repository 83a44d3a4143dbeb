package tables

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"

	"github.com/txcoord/txcoord/internal/ahead"
	"github.com/txcoord/txcoord/tables/objstore"
	"github.com/txcoord/txcoord/twophase"
)

// source is what a state is replayed from: a checkpoint, or nothing, and all commits
// after it.
type source struct {
	at         twophase.Version
	checkpoint *ListedCheckpoint
	commits    []ListedCommit // newest first
	// kept are the contents of small commits, since they are read twice.
	kept map[twophase.Version][]byte
	room int64
}

// keptBytes bounds source.kept.
const keptBytes = 8 << 20

// sourceOf chooses the newest complete checkpoint at or below a version.
func (k *Keeper) sourceOf(listing *Listing, at twophase.Version) (source, error) {
	src := source{at: at, kept: map[twophase.Version][]byte{}, room: keptBytes}
	next := twophase.Version(0)
	if c, ok := listing.NewestCheckpoint(at); ok {
		src.checkpoint, next = &c, c.Version+1
	}
	commits, err := k.log.span(listing, next, at)
	for i := len(commits) - 1; i >= 0; i-- {
		src.commits = append(src.commits, commits[i])
	}
	return src, err
}

// bytes is how much there is to read.
func (s *source) bytes(h *head) int64 {
	var n int64
	for _, c := range s.commits {
		n += c.Size
	}
	if s.checkpoint != nil {
		for _, f := range s.checkpoint.Files {
			n += f.Size
		}
	}
	for _, c := range h.sidecars {
		n += c.Size
	}
	return n
}

// eachLine yields all lines of the commits, the newest first.
func (k *Keeper) eachLine(ctx context.Context, src *source, yield func(text []byte) error) error {
	return k.each(ctx, src, src.commits, func(c ListedCommit, raw []byte) error { return k.commitLines(ctx, c, raw, yield) })
}

// each reads commits ahead, compares them with what was recorded of them, keeps them as long
// as there is room, and hands them to use. raw is nil of a large one.
func (k *Keeper) each(ctx context.Context, src *source, commits []ListedCommit, use func(c ListedCommit, raw []byte) error) error {
	kept := maps.Clone(src.kept)
	small := func(c ListedCommit) bool { return kept[c.Version] == nil && c.Size <= pieceBytes }
	reading := ahead.Reader[ListedCommit, []byte]{
		AtOnce: k.log.ReadAhead, Bytes: commitBytesAhead,
		Size: func(c ListedCommit) int64 {
			if small(c) {
				return c.Size
			}
			return 0
		},
		Get: func(ctx context.Context, c ListedCommit) ([]byte, error) {
			if !small(c) {
				return kept[c.Version], nil
			}
			raw, err := getPiece(ctx, k.log.Store, c.Info, 0, c.Size)
			if err != nil {
				err = fmt.Errorf("read commit %d of table %s: %w", c.Version, k.log.URI, err)
			}
			return raw, err
		},
	}
	return reading.Each(ctx, commits, func(c ListedCommit, raw []byte) error {
		if err := k.asRecorded(ctx, c, raw); err != nil {
			return err
		}
		if src.kept[c.Version] == nil && raw != nil && c.Size <= src.room {
			src.kept[c.Version] = raw
			src.room -= c.Size
		}
		return use(c, raw)
	})
}

// AsRecorded compares the commits that a survey went by with what was recorded of them, as
// Checkpoint does. *LogError Altered.
func (k *Keeper) AsRecorded(ctx context.Context, s *Survey) error {
	return k.each(ctx, &s.source, s.source.commits, noUse)
}

func noUse(ListedCommit, []byte) error { return nil }

// asRecorded compares a commit with what was recorded of its version. raw is nil for a
// large one, which is read piece by piece for it.
func (k *Keeper) asRecorded(ctx context.Context, c ListedCommit, raw []byte) error {
	if k.cfg.Recorded == nil {
		return nil
	}
	want, known := k.cfg.Recorded(c.Version)
	if !known || want.IsZero() {
		return nil
	}
	got := twophase.HashOf(raw)
	if raw == nil {
		var err error
		if got, err = hashObject(ctx, k.log.Store, c.Info); err != nil {
			return fmt.Errorf("read %s of table %s: %w", commitName(c.Version), k.log.URI, err)
		}
	}
	if got == want {
		return nil
	}
	e := k.log.fault(Altered, commitName(c.Version), nil)
	e.Version, e.Reason = c.Version, fmt.Sprintf("its content is %.8s, recorded was %.8s", got, want)
	return e
}

// commitLines yields a commit's lines, the last one first, as the last one counts
// where a commit says two things of one file.
func (k *Keeper) commitLines(ctx context.Context, c ListedCommit, raw []byte, yield func([]byte) error) error {
	lines := 0
	var wrong error
	count := func(text []byte) error {
		lines++
		wrong = yield(text)
		return wrong
	}
	var err error
	if raw != nil {
		_, err = splitBackward(raw, true, count)
	} else {
		err = linesBackward(ctx, k.log.Store, c.Info, count)
	}
	switch {
	case wrong != nil:
		return k.malformed(c.Version, wrong)
	case err != nil:
		return fmt.Errorf("read %s of table %s: %w", commitName(c.Version), k.log.URI, err)
	case lines == 0:
		return &LogError{Fault: Empty, Table: k.log.URI, File: logFolder + commitName(c.Version), Version: c.Version}
	}
	return nil
}

// malformed is a line that makes no sense; what else went wrong stays as it is.
func (k *Keeper) malformed(v twophase.Version, err error) error {
	var field *fieldError
	var syntax *syntaxError
	if !errors.As(err, &field) && !errors.As(err, &syntax) {
		return err
	}
	e := k.log.fault(Malformed, commitName(v), err)
	e.Version = v
	return e
}

// fileKey names a file: a hash of its canonical path and its deletion vector. It is
// twice as wide as a PathHash, because two files that are taken for one would lose
// one of them.
type fileKey [16]byte

func keyOf(path, dv string) (k fileKey) {
	var buf [320]byte
	sum := sha256.Sum256(append(append(append(buf[:0], path...), 0), dv...))
	copy(k[:], sum[:])
	return k
}

// files goes through the file actions of a state without holding them: newest
// first, a file counts where it is met first. What is kept is the keys of the files
// that commits after the checkpoint name.
type files struct {
	k     *Keeper
	src   *source
	place place
	seen  map[fileKey]struct{}
	line  line
	found fileAction
}

func (k *Keeper) filesOf(src *source) *files {
	return &files{k: k, src: src, place: placeOf(k.log.URI), seen: map[fileKey]struct{}{}}
}

// fileAction is an add or a remove that is in force. It is reused for the next one.
type fileAction struct {
	text []byte
	line *line
	path string // canonical
	key  fileKey
}

// parse reads a line; nil if it is no file action.
func (f *files) parse(text []byte) (*fileAction, error) {
	l := &f.line
	if err := l.parse(text, false); err != nil {
		return nil, err
	}
	if err := l.complete(false); err != nil {
		return nil, err
	}
	if l.kind != kindAdd && l.kind != kindRemove {
		return nil, nil
	}
	path, err := f.place.canonical(string(l.path))
	if err != nil {
		return nil, l.wrong("path", l.path, err.Error())
	}
	f.found = fileAction{text: text, line: l, path: path, key: keyOf(path, l.dv)}
	return &f.found, nil
}

// tail yields the file actions of the commits. It comes first: the checkpoint's
// are judged by what was seen here.
func (f *files) tail(ctx context.Context, yield func(*fileAction) error) error {
	return f.k.eachLine(ctx, f.src, func(text []byte) error {
		a, err := f.parse(text)
		if err != nil || a == nil {
			return err
		}
		if _, newer := f.seen[a.key]; newer {
			return nil
		}
		f.seen[a.key] = struct{}{}
		return yield(a)
	})
}

// main yields those in the checkpoint's own files that no commit overrides.
func (f *files) main(ctx context.Context, yield func(*fileAction) error) error {
	if f.src.checkpoint == nil {
		return nil
	}
	for _, info := range f.src.checkpoint.Files {
		if err := f.in(ctx, info, &contents{}, yield); err != nil {
			return err
		}
	}
	return nil
}

// in yields those in one file of the checkpoint, in which nothing may stand that may not.
func (f *files) in(ctx context.Context, info objstore.Info, what *contents, yield func(*fileAction) error) error {
	var wrong error
	err := f.k.readCheckpointFile(ctx, f.src.checkpoint.Version, info, AllActions, func(text []byte) error {
		a, err := f.parse(text)
		if err == nil {
			err = what.note(&f.line)
		}
		if err != nil || a == nil {
			return err
		}
		if _, newer := f.seen[a.key]; newer {
			return nil
		}
		wrong = yield(a)
		return wrong
	})
	if wrong != nil {
		return wrong
	}
	return err
}

// sidecar yields those of a sidecar that no commit overrides.
func (f *files) sidecar(ctx context.Context, s sidecarRef, yield func(*fileAction) error) error {
	info, err := f.k.log.statSidecar(ctx, *f.src.checkpoint, s)
	if err != nil {
		return err
	}
	return f.in(ctx, info, &contents{inSidecar: true}, yield)
}

// all yields everything.
func (f *files) all(ctx context.Context, h *head, yield func(*fileAction) error) error {
	if err := f.tail(ctx, yield); err != nil {
		return err
	}
	if err := f.main(ctx, yield); err != nil {
		return err
	}
	for _, s := range h.sidecars {
		if err := f.sidecar(ctx, s, yield); err != nil {
			return err
		}
	}
	return nil
}
