package tables

import (
	"context"
	"io"
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
	failed error // what the store answered
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
		if got, _, err = o.store.Get(o.ctx, o.key, objstore.Range{Offset: at, Length: int64(len(p))}); err != nil {
			o.mu.Lock()
			defer o.mu.Unlock()
			o.failed = err
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
		o.whole, _, err = o.store.Get(o.ctx, o.key, objstore.Range{})
	}
	if err != nil {
		o.failed = err
		return nil, err
	}
	if o.whole == nil {
		o.whole = []byte{}
	}
	return o.whole, nil
}
