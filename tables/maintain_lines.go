package tables

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"sync"

	"github.com/txcoord/txcoord/tables/objstore"
	"github.com/txcoord/txcoord/twophase"
)

// pieceBytes is how much of an object is fetched at a time.
const pieceBytes = 512 << 10

// linesBackward yields the lines of a text object from the last to the first,
// without their ends. It fetches the object from its end, piece by piece, so a
// commit of any size takes no more memory than its longest line and a piece. The
// line is reused after yield returns.
func linesBackward(ctx context.Context, s objstore.Store, info objstore.Info, yield func(line []byte) error) error {
	var rest []byte // the beginning of what was fetched: a line whose own beginning is not here yet
	for end := info.Size; end > 0; {
		from := max(0, end-pieceBytes)
		piece, err := getPiece(ctx, s, info, from, end-from)
		if err != nil {
			return err
		}
		end = from
		rest, err = splitBackward(append(piece, rest...), end == 0, yield)
		if err != nil {
			return err
		}
	}
	return nil
}

// splitBackward yields the whole lines of a text, last first, and returns its first
// line, unless that is whole too.
func splitBackward(text []byte, whole bool, yield func([]byte) error) ([]byte, error) {
	for {
		i := bytes.LastIndexByte(text, '\n')
		if i < 0 && !whole {
			return text, nil
		}
		if line := text[i+1:]; !blank(line) {
			if err := yield(line); err != nil {
				return nil, err
			}
		}
		if i < 0 {
			return nil, nil
		}
		text = text[:i]
	}
}

// getPiece fetches a piece of an object that must still be the one that was listed.
func getPiece(ctx context.Context, s objstore.Store, info objstore.Info, from, length int64) ([]byte, error) {
	piece, now, err := s.Get(ctx, info.Key, objstore.Range{Offset: from, Length: length})
	switch {
	case err != nil:
		return nil, err
	case int64(len(piece)) != length || now.Size != info.Size || !sameETag(now, info):
		return nil, fmt.Errorf("%s changed while it was read", info.Key)
	}
	return piece, nil
}

func sameETag(a, b objstore.Info) bool { return a.ETag == "" || b.ETag == "" || a.ETag == b.ETag }

func hashObject(ctx context.Context, s objstore.Store, info objstore.Info) (twophase.Hash, error) {
	h := sha256.New()
	for from := int64(0); from < info.Size; from += pieceBytes {
		piece, err := getPiece(ctx, s, info, from, min(pieceBytes, info.Size-from))
		if err != nil {
			return twophase.Hash{}, err
		}
		h.Write(piece)
	}
	var out twophase.Hash
	h.Sum(out[:0])
	return out, nil
}

// piecesKept bounds the pieces that a pieceReader holds. A reader of Parquet goes
// through its columns side by side, so there is one piece for each that is large.
const piecesKept = 32

// pieceReader reads an object at offsets, piece by piece, and keeps the pieces that
// were used last. Safe for concurrent use.
type pieceReader struct {
	ctx   context.Context
	store objstore.Store
	info  objstore.Info

	mu     sync.Mutex
	pieces map[int64][]byte
	order  []int64 // least recently used first
	failed error   // what the store answered
}

func newPieceReader(ctx context.Context, s objstore.Store, info objstore.Info) *pieceReader {
	return &pieceReader{ctx: ctx, store: s, info: info, pieces: map[int64][]byte{}}
}

// ReadAt implements io.ReaderAt.
func (r *pieceReader) ReadAt(p []byte, at int64) (int, error) {
	n := 0
	for n < len(p) && at < r.info.Size {
		piece, err := r.piece(at / pieceBytes)
		if err != nil {
			return n, err
		}
		m := copy(p[n:], piece[at%pieceBytes:])
		n, at = n+m, at+int64(m)
	}
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

func (r *pieceReader) piece(i int64) ([]byte, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.touch(i)
	if p, ok := r.pieces[i]; ok {
		return p, nil
	}
	from := i * pieceBytes
	p, err := getPiece(r.ctx, r.store, r.info, from, min(pieceBytes, r.info.Size-from))
	if err != nil {
		r.failed = err
		return nil, err
	}
	r.pieces[i] = p
	return p, nil
}

// touch makes a piece the one that was used last, and drops the others' oldest.
func (r *pieceReader) touch(i int64) {
	for j, other := range r.order {
		if other == i {
			r.order = append(append(r.order[:j:j], r.order[j+1:]...), i)
			return
		}
	}
	r.order = append(r.order, i)
	if len(r.order) > piecesKept {
		delete(r.pieces, r.order[0])
		r.order = r.order[1:]
	}
}
