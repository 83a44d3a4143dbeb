package datafile

import (
	encoding "encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/arrow-go/v18/parquet/compress"
	"github.com/apache/arrow-go/v18/parquet/file"
	"github.com/klauspost/compress/snappy"
	"github.com/klauspost/compress/zstd"
)

// A Parquet file states the sizes of what it holds before it holds it, and the
// library allocates by them: one wrong byte in a file of some hundred asks for
// gigabytes. Everything that is allocated by such a number is bounded here: pages and
// dictionaries by a budget, what codecs unpack by the page that it is for, and the
// footer's lists by the footer.

// What the pages that are held at one time may take: a constant, and so much for each
// byte of the file. No codec that is in use packs tighter, over a whole file.
const (
	pagesConstant = 16 << 20
	pagesPerByte  = 1 << 10
	maxPage       = 256 << 20
)

// budget allocates for pages until it is used up, and then panics, which is the only
// way for an allocator to say no. One per file; not safe for concurrent use.
type budget struct {
	memory.GoAllocator
	left, all int64
}

func newBudget(fileSize int64) *budget {
	all := pagesConstant + pagesPerByte*min(fileSize, 1<<40)
	return &budget{left: all, all: all}
}

func (b *budget) Allocate(size int) []byte {
	b.take(int64(size))
	return b.GoAllocator.Allocate(size)
}

func (b *budget) Reallocate(size int, old []byte) []byte {
	if cap(old) >= size {
		return old[:size]
	}
	b.take(int64(size - cap(old)))
	return b.GoAllocator.Reallocate(size, old)
}

func (b *budget) Free(old []byte) { b.left += int64(cap(old)) }

func (b *budget) take(n int64) {
	if n < 0 || n > b.left {
		panic(fmt.Errorf("its pages ask for more than %d bytes of memory, which is what a file of its size may", b.all))
	}
	b.left -= n
}

// source is an open file.
type source struct {
	*file.Reader
	pages *budget
	size  int64
}

type rowGroup struct {
	*file.RowGroupReader
	of *source
}

func (s *source) group(i int) rowGroup { return rowGroup{s.RowGroup(i), s} }

// maxHeader is what a page's header may take. The library looks for a header's end in
// ever larger pieces, and allocates each whether the file goes on or not.
const maxHeader = 16 << 20

// column is RowGroupReader.Column with page headers that are bounded by the file, too.
func (g rowGroup) column(i int) (file.ColumnChunkReader, error) {
	pages, err := g.GetColumnPageReader(i)
	if err != nil {
		return nil, err
	}
	pages.SetMaxPageHeaderSize(int(max(64<<10, min(g.of.size, maxHeader))))
	//nolint:staticcheck // what Column calls, too: no other way leads to the page reader's bound
	return file.NewColumnReader(g.of.MetaData().Schema.Column(i), pages, g.of.pages, g.of.BufferPool()), nil
}

var errUnpacked = errors.New("a page unpacks to more than its header says")

// boundedSnappy does not believe the size that a block states.
type boundedSnappy struct{ compress.Codec }

func (boundedSnappy) DecodeWithError(dst, src []byte) ([]byte, error) {
	if n, err := snappy.DecodedLen(src); err != nil || n > cap(dst) {
		return nil, errors.Join(errUnpacked, err)
	}
	return snappy.Decode(dst, src)
}

// boundedZstd neither believes a frame's size nor unpacks past the page.
type boundedZstd struct {
	compress.Codec
	decoder *zstd.Decoder
}

func (c boundedZstd) DecodeWithError(dst, src []byte) ([]byte, error) {
	out, err := c.decoder.DecodeAll(src, dst[:0:cap(dst)])
	if errors.Is(err, zstd.ErrDecoderSizeExceeded) {
		err = errUnpacked
	}
	return out, err
}

// The library's own codecs are replaced for the whole process. Their other methods
// stay; gzip, brotli and LZ4 already stop at the page's end.
func init() {
	decoder, err := zstd.NewReader(nil, zstd.WithDecodeAllCapLimit(true), zstd.WithDecoderConcurrency(0))
	if err != nil {
		panic(err) // options that do not fit together
	}
	for c, bounded := range map[compress.Compression]func(compress.Codec) compress.Codec{
		compress.Codecs.Snappy: func(c compress.Codec) compress.Codec { return boundedSnappy{c} },
		compress.Codecs.Zstd:   func(c compress.Codec) compress.Codec { return boundedZstd{c, decoder} },
	} {
		codec, err := compress.GetCodec(c)
		if err != nil {
			panic(err) // both are built in
		}
		compress.RegisterCodec(c, bounded(codec))
	}
}

// tail is a file whose end is in memory.
type tail struct {
	io.ReaderAt
	end  []byte
	from int64
}

func (t tail) ReadAt(p []byte, off int64) (int, error) {
	if off < t.from {
		return t.ReaderAt.ReadAt(p, off)
	}
	if off > t.from+int64(len(t.end)) {
		return 0, io.EOF
	}
	n := copy(p, t.end[off-t.from:])
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

const footerLen = 8 // its length and "PAR1"

// readTail reads the footer and checks that its lists are not longer than it is.
// What is wrong otherwise, the library says.
func readTail(r io.ReaderAt, size int64) (tail, error) {
	end := make([]byte, min(size, readAhead/4))
	if _, err := r.ReadAt(end, size-int64(len(end))); err != nil && !errors.Is(err, io.EOF) {
		return tail{}, err
	}
	t := tail{r, end, size - int64(len(end))}
	if len(end) < footerLen || string(end[len(end)-4:]) != "PAR1" {
		return t, nil
	}
	n := int64(encoding.LittleEndian.Uint32(end[len(end)-footerLen:])) + footerLen
	if n > size {
		return t, nil
	}
	if n > int64(len(end)) {
		end = make([]byte, n)
		if _, err := r.ReadAt(end, size-n); err != nil && !errors.Is(err, io.EOF) {
			return tail{}, err
		}
		t = tail{r, end, size - n}
	}
	w := thriftWalk{b: end[int64(len(end))-n : len(end)-footerLen]}
	return t, w.structure(0)
}
