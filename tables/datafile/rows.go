package datafile

import (
	"context"
	"fmt"
	"io"

	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/file"
)

// Select says which columns Rows renders, and how. The zero Select renders all.
type Select struct {
	// Keep is asked for every column by its dotted path, a group before its
	// fields; what it turns down is not read. nil keeps everything.
	Keep func(path string) bool
	// Text maps the path of a column to a sibling's name: the column is rendered
	// as JSON inside a string, under that name, in the rows whose sibling of that
	// name is null or missing.
	Text map[string]string
	// BinaryAsText renders byte arrays that nothing marks as text as strings
	// (old writers left the mark out); otherwise they are rendered in base64.
	BinaryAsText bool
}

// batchRows is how many entries of one column are decoded at a time. With the
// page that they come from it bounds the memory that a column takes.
const batchRows = 1024

// readAhead is how much of a column is read at once, so that a source that pays
// for each read, as object stores do, is asked seldom.
const readAhead = 256 << 10

// Rows renders the rows of a Parquet file, in order, as one JSON object each:
// nulls are left out of objects (not of arrays and maps), integers and decimals
// keep all digits, dates and timestamps are ISO strings, NaN and infinities are
// strings. The slice is reused after yield returns. An error of yield ends the
// reading and is returned as it is.
//
// Memory is bounded by a page and a batch per column, whatever the file's size, and
// by 16 MiB and 1,024 times the file's size, whatever the file says; a page has at
// most 256 MiB.
// Reads go forward per column, 256 KiB at a time.
func Rows(ctx context.Context, r io.ReaderAt, size int64, sel Select, yield func(row []byte) error) (err error) {
	defer recovered(&err)
	f, err := open(r, size)
	if err != nil {
		return err
	}
	root, err := buildTree(f.MetaData().Schema, sel)
	if err != nil {
		return err
	}
	for i := range f.NumRowGroups() {
		if err := rowsOfGroup(ctx, f.group(i), root, yield); err != nil {
			return err
		}
	}
	return nil
}

func rowsOfGroup(ctx context.Context, g rowGroup, root *column, yield func([]byte) error) error {
	leaves := root.leaves(nil)
	for _, l := range leaves {
		if err := l.open(g); err != nil {
			return err
		}
		defer l.close()
	}
	p := &renderer{}
	for _, c := range root.children {
		c.absent = 0
	}
	for n := range g.NumRows() {
		if n%batchRows == 0 && ctx.Err() != nil {
			return context.Cause(ctx)
		}
		p.buf = p.buf[:0]
		p.row(root, g.NumRows()-n)
		if err := firstError(leaves); err != nil {
			return err
		}
		if p.err != nil {
			return p.err
		}
		if err := yield(p.buf); err != nil {
			return err
		}
	}
	return allRead(leaves)
}

func firstError(leaves []*leaf) error {
	for _, l := range leaves {
		if l.err != nil {
			return fmt.Errorf("column %s: %w", l.path, l.err)
		}
	}
	return nil
}

// allRead catches columns of unequal length: every entry has its row.
func allRead(leaves []*leaf) error {
	for _, l := range leaves {
		if l.more() {
			return fmt.Errorf("column %s: has more entries than the row group has rows", l.path)
		}
	}
	return firstError(leaves)
}

// open reads the footer. Column chunks are streamed, and pages are allocated from a
// budget, so that nothing that a damaged file states is allocated up front.
func open(r io.ReaderAt, size int64) (*source, error) {
	end, err := readTail(r, size)
	if err != nil {
		return nil, fmt.Errorf("read parquet footer: %w", err)
	}
	pages := newBudget(size)
	props := parquet.NewReaderProperties(pages)
	props.BufferedStreamEnabled = true
	props.BufferSize = readAhead
	props.MaxCompressedPageSize = max(size, 1)
	props.MaxUncompressedPageSize = maxPage
	f, err := file.NewParquetReader(io.NewSectionReader(end, 0, size), file.WithReadProps(props))
	if err != nil {
		return nil, fmt.Errorf("read parquet footer: %w", err)
	}
	return &source{f, pages, size}, nil
}

// recovered turns a panic into an error: the Parquet library panics on some
// damaged files, and a file is foreign input.
func recovered(err *error) {
	if p := recover(); p != nil {
		*err = fmt.Errorf("damaged parquet file: %v", p)
	}
}
