package tables

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"

	"github.com/txcoord/txcoord/tables/objstore"
)

// object reads an object at offsets. Small ones are fetched whole at the first
// read: a Parquet reader asks for footer and columns in many small reads.
type object struct {
	ctx    context.Context
	store  objstore.Store
	key    string
	mu     sync.Mutex // readers of Parquet ask from several goroutines
	whole  []byte
	large  bool
	failed error    // what the store answered
	etags  []string // of what was read, each once
}

// wholeObject is the size up to which an object is fetched at once.
const wholeObject = 64 << 20

// ReadAt implements io.ReaderAt.
func (o *object) ReadAt(p []byte, at int64) (int, error) {
	got, err := o.content()
	if err != nil {
		return 0, err
	}
	if got == nil {
		if got, err = o.piece(at, len(p)); err != nil {
			return 0, err
		}
		at = 0
	}
	if at >= int64(len(got)) {
		return 0, io.EOF
	}
	n := copy(p, got[at:])
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

// piece is a part of a large object.
func (o *object) piece(at int64, length int) ([]byte, error) {
	got, info, err := o.store.Get(o.ctx, o.key, objstore.Range{Offset: at, Length: int64(length)})
	o.mu.Lock()
	defer o.mu.Unlock()
	if err != nil {
		o.failed = err
		return nil, err
	}
	o.note(info)
	return got, nil
}

func (o *object) note(info objstore.Info) {
	if !slices.Contains(o.etags, info.ETag) {
		o.etags = append(o.etags, info.ETag)
	}
}

// only reports whether nothing but an object with this ETag was read.
func (o *object) only(etag string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.etags) == 1 && o.etags[0] == etag
}

// content is the whole object, or nil if it is too large for that.
func (o *object) content() ([]byte, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.whole != nil || o.large {
		return o.whole, nil
	}
	info, err := o.store.Stat(o.ctx, o.key)
	if err == nil && info.Size > wholeObject {
		o.large = true
		return nil, nil
	}
	if err == nil {
		o.whole, info, err = o.store.Get(o.ctx, o.key, objstore.Range{})
	}
	if err != nil {
		o.failed = err
		return nil, err
	}
	o.note(info)
	if o.whole == nil {
		o.whole = []byte{}
	}
	return o.whole, nil
}

// jsonLines reads a V2 checkpoint in JSON.
func jsonLines(source io.ReaderAt, size int64, yield func([]byte) error) error {
	text := make([]byte, size)
	if _, err := source.ReadAt(text, 0); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	for number := 1; len(text) > 0; number++ {
		var line []byte
		line, text = cutLine(text)
		if blank(line) {
			continue
		}
		if err := yield(line); err != nil {
			return fmt.Errorf("line %d: %w", number, err)
		}
	}
	return nil
}
