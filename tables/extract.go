package tables

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/txcoord/txcoord/tables/objstore"
	"github.com/txcoord/txcoord/twophase"
)

// An extract is what a view keeps of a checkpoint, and nothing else: eight bytes for each
// live file instead of a row of Parquet. It is derived and never needed. It is believed
// only of the very object that it was made of, and whoever has none, or another one, reads
// the checkpoint.
//
// Its form is extractMagic, then the fields of extract in their order, strings and lists
// behind their length as a varint, hashes in eight bytes each, and at the end the SHA-256
// of all that.
type extract struct {
	table string
	// file is the checkpoint: its name in the log's folder, its size, and its ETag.
	file    string
	size    uint64
	etag    string
	version uint64
	// head are the lines of the actions that are no file actions.
	head [][]byte
	// plain are the live files without a deletion vector, vectors the others. Both ascend,
	// and no path is there twice.
	plain   []PathHash
	vectors []pair
}

const extractMagic = "txcoord extract 1\n"

// Extracts keeps the extract of a table's newest checkpoint.
type Extracts interface {
	// Get is what was kept last, of so many bytes at most. Any error means that there is none.
	Get(ctx context.Context, atMost int64) ([]byte, error)
	// Keep takes the place of what is there. It is called once a checkpoint is there. What
	// it fails to keep costs the next Load a read of the checkpoint.
	Keep(context.Context, []byte)
}

// extracts reports whether a checkpoint of so many bytes has an extract.
func (l *Log) extracts(bytes int64) bool {
	from := l.ExtractFrom
	if from == 0 {
		from = 32 << 10
	}
	return l.Extracts != nil && bytes >= from
}

// encode writes the form.
func (x *extract) encode() []byte {
	b := make([]byte, 0, 8*len(x.plain)+16*len(x.vectors)+4096)
	b = append(b, extractMagic...)
	text := func(s string) { b = append(binary.AppendUvarint(b, uint64(len(s))), s...) }
	text(x.table)
	text(x.file)
	b = binary.AppendUvarint(b, x.size)
	text(x.etag)
	b = binary.AppendUvarint(b, x.version)
	b = binary.AppendUvarint(b, uint64(len(x.head)))
	for _, line := range x.head {
		text(string(line))
	}
	b = binary.AppendUvarint(b, uint64(len(x.plain)))
	for _, p := range x.plain {
		b = binary.LittleEndian.AppendUint64(b, uint64(p))
	}
	b = binary.AppendUvarint(b, uint64(len(x.vectors)))
	for _, p := range x.vectors {
		b = binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(b, uint64(p.path)), uint64(p.dv))
	}
	sum := sha256.Sum256(b)
	return append(b, sum[:]...)
}

// errExtract: bytes are not an extract of this build's form.
var errExtract = errors.New("is no extract of a checkpoint")

// decodeExtract reads the form. Bytes that were changed anywhere are none. What the digest
// covers was written by an extractor, so nothing but the form is looked at.
func decodeExtract(b []byte) (*extract, error) {
	n := len(b) - sha256.Size
	if n < len(extractMagic) || string(b[:len(extractMagic)]) != extractMagic {
		return nil, errExtract
	}
	if sum := sha256.Sum256(b[:n]); !bytes.Equal(sum[:], b[n:]) {
		return nil, errExtract
	}
	r := extractReader{b: b[len(extractMagic):n]}
	x := &extract{table: r.text(), file: r.text(), size: r.uint(), etag: r.text(), version: r.uint()}
	for range r.count(1) {
		x.head = append(x.head, r.raw(r.count(1)))
	}
	x.plain = make([]PathHash, r.count(8))
	for i := range x.plain {
		x.plain[i] = PathHash(r.hash())
	}
	x.vectors = make([]pair, r.count(16))
	for i := range x.vectors {
		x.vectors[i] = pair{PathHash(r.hash()), DVHash(r.hash())}
	}
	if r.bad || len(r.b) > 0 {
		return nil, errExtract
	}
	return x, nil
}

// extractReader reads fields. Behind bytes that do not fit it gives zero values.
type extractReader struct {
	b   []byte
	bad bool
}

func (r *extractReader) uint() uint64 {
	v, n := binary.Uvarint(r.b)
	if n <= 0 {
		r.b, r.bad = nil, true
		return 0
	}
	r.b = r.b[n:]
	return v
}

// count is of things that take at least so many bytes each.
func (r *extractReader) count(each int) int {
	n := r.uint()
	if n > uint64(len(r.b)/each) {
		r.b, r.bad = nil, true
		return 0
	}
	return int(n)
}

func (r *extractReader) raw(n int) []byte {
	if n > len(r.b) {
		r.b, r.bad = nil, true
		return nil
	}
	out := r.b[:n:n]
	r.b = r.b[n:]
	return out
}

func (r *extractReader) text() string { return string(r.raw(r.count(1))) }

func (r *extractReader) hash() uint64 {
	if b := r.raw(8); b != nil {
		return binary.LittleEndian.Uint64(b)
	}
	return 0
}

// of reports whether the extract is of a checkpoint that was listed. The ETag changes with
// the object, also where others put one of the same version there.
func (x *extract) of(l *Log, c *ListedCheckpoint) bool {
	if len(c.Files) != 1 || c.Files[0].ETag == "" || x.table != l.URI || x.version != uint64(c.Version) {
		return false
	}
	f := &c.Files[0]
	return x.file == l.nameOf(f.Key) && x.size == uint64(f.Size) && x.etag == f.ETag
}

// extractor gathers an extract while a checkpoint is written.
type extractor struct{ extract }

func (x *extractor) add(a *fileAction) {
	if dv := hashDV(a.line.dv); dv != 0 {
		x.vectors = append(x.vectors, pair{HashPath(a.path), dv})
		return
	}
	x.plain = append(x.plain, HashPath(a.path))
}

// finish makes the extract of the checkpoint's object. nil if there is none to be made:
// where the store has no ETags, where the ids of rows count, and for a table in which a
// path is live under several vectors.
func (x *extractor) finish(l *Log, s *Survey, file objstore.Info) []byte {
	if file.ETag == "" || s.Profile.inForce.has("rowTracking") {
		return nil
	}
	slices.Sort(x.plain)
	x.plain = slices.Compact(x.plain)
	slices.SortFunc(x.vectors, func(a, b pair) int { return compareHashes(a.path, b.path) })
	for i, p := range x.vectors {
		_, both := slices.BinarySearch(x.plain, p.path)
		if both || i > 0 && x.vectors[i-1].path == p.path {
			return nil
		}
	}
	x.table, x.file, x.size, x.etag, x.version = l.URI, l.nameOf(file.Key), uint64(file.Size), file.ETag, uint64(s.At)
	x.head = s.head.headLines()
	return x.encode()
}

func compareHashes(a, b PathHash) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

// fromExtract replays a checkpoint from its extract. False, and nothing was replayed, if
// there is none of this very object.
func (l *Log) fromExtract(ctx context.Context, r *replay, listing *Listing, c *ListedCheckpoint) (bool, error) {
	if !r.brief || !l.extracts(listing.bytesOf(c)) {
		return false, nil
	}
	// A row of a live file takes more than an eighth of what is kept of it; lines of the
	// head may be much shorter there.
	raw, err := l.Extracts.Get(ctx, 8*listing.bytesOf(c)+16<<20)
	if ctx.Err() != nil {
		return false, ctx.Err()
	}
	var x *extract
	if err == nil {
		x, err = decodeExtract(raw)
	}
	if err != nil || !x.of(l, c) {
		return false, nil // whatever is wrong with it: the checkpoint itself is read
	}
	if err := r.takeExtract(l, x, c); err != nil {
		r.restart()
		return false, nil
	}
	return true, nil
}

func (r *replay) takeExtract(l *Log, x *extract, c *ListedCheckpoint) error {
	r.begin(logFolder + x.file)
	for _, line := range x.head {
		if err := r.apply(line); err != nil {
			return fmt.Errorf("extract of %s: %w", x.file, err)
		}
	}
	if err := l.sound(r); err != nil {
		return err
	}
	r.live = &viewFiles{plain: pathSet{sorted: x.plain}, rest: newLiveSet()}
	for _, p := range x.vectors {
		r.live.rest.add(p.path, live{dv: p.dv})
	}
	r.settle(c.Version)
	return nil
}

// Load is LiveState and NewView in one, from the extract of the checkpoint where there is
// one (LogConfig.Extracts): a fraction of the time. The state's files are the view's, and it
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
