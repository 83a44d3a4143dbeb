package datafile

import (
	"errors"
	"fmt"

	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/file"
	"github.com/apache/arrow-go/v18/parquet/schema"
)

// leaf walks the entries of one column chunk: levels always, a value where the
// definition level says so. Its error is sticky; after one it acts as if all
// further entries were null, and whoever drives it asks for err once per row.
type leaf struct {
	path           string
	index          int
	maxDef, maxRep int16
	physical       parquet.Type
	form           form
	err            error

	rd         file.ColumnChunkReader
	fill       func() (int64, error)
	render     func(dst []byte, v int) ([]byte, error)
	defs, reps []int16
	n, i, v    int
	end        bool
}

func newLeaf(s *schema.Schema, n schema.Node, path string, binaryAsText bool) (*leaf, error) {
	i := s.ColumnIndexByNode(n)
	if i < 0 {
		return nil, fmt.Errorf("column %s: not in the file's schema", path)
	}
	c := s.Column(i)
	return &leaf{
		path: path, index: i, physical: c.PhysicalType(), form: formOf(c, binaryAsText),
		maxDef: c.MaxDefinitionLevel(), maxRep: c.MaxRepetitionLevel(),
	}, nil
}

func (l *leaf) open(g rowGroup) error {
	rd, err := g.column(l.index)
	if err != nil {
		return fmt.Errorf("column %s: %w", l.path, err)
	}
	l.rd, l.err, l.n, l.i, l.v, l.end = rd, nil, 0, 0, 0, false
	if l.defs == nil {
		l.defs, l.reps = make([]int16, batchRows), make([]int16, batchRows)
	}
	switch rd := rd.(type) {
	case *file.BooleanColumnChunkReader:
		bind(l, rd, l.form.bool)
	case *file.Int32ColumnChunkReader:
		bind(l, rd, func(dst []byte, v int32) ([]byte, error) { return l.form.int(dst, int64(v)) })
	case *file.Int64ColumnChunkReader:
		bind(l, rd, l.form.int)
	case *file.Int96ColumnChunkReader:
		bind(l, rd, l.form.int96)
	case *file.Float32ColumnChunkReader:
		bind(l, rd, func(dst []byte, v float32) ([]byte, error) { return appendFloat(dst, float64(v), 32), nil })
	case *file.Float64ColumnChunkReader:
		bind(l, rd, func(dst []byte, v float64) ([]byte, error) { return appendFloat(dst, v, 64), nil })
	case *file.ByteArrayColumnChunkReader:
		bind(l, rd, func(dst []byte, v parquet.ByteArray) ([]byte, error) { return l.form.bytes(dst, v) })
	case *file.FixedLenByteArrayColumnChunkReader:
		bind(l, rd, func(dst []byte, v parquet.FixedLenByteArray) ([]byte, error) { return l.form.bytes(dst, v) })
	default:
		return fmt.Errorf("column %s: physical type %s is not supported", l.path, rd.Type())
	}
	return nil
}

func (l *leaf) close() {
	if l.rd != nil {
		_ = l.rd.Close() // reading is over: nothing that was read can be wrong for it
		l.rd = nil
	}
}

// batches reads within a page only, so that byte slices stay valid until the next call.
type batches[T any] interface {
	ReadBatchInPage(n int64, values []T, defs, reps []int16) (int64, int, error)
}

func bind[T any](l *leaf, rd batches[T], render func([]byte, T) ([]byte, error)) {
	values := make([]T, batchRows)
	l.fill = func() (int64, error) {
		n, _, err := rd.ReadBatchInPage(batchRows, values, l.defs, l.reps)
		return n, err
	}
	l.render = func(dst []byte, v int) ([]byte, error) { return render(dst, values[v]) }
}

// more says whether there is a current entry, decoding the next batch if need be.
func (l *leaf) more() bool {
	if l.i < l.n {
		return true
	}
	if l.end || l.err != nil {
		return false
	}
	n, err := l.fill()
	if err == nil {
		err = l.rd.Err()
	}
	l.n, l.i, l.v, l.err, l.end = int(n), 0, 0, err, n == 0
	return l.i < l.n && err == nil
}

var errShort = errors.New("ends before its row group")

// level is the definition level of the current entry; -1 past the end, with err set.
func (l *leaf) level() int16 {
	if !l.more() {
		if l.err == nil {
			l.err = errShort
		}
		return -1
	}
	if l.maxDef == 0 {
		return 0
	}
	return l.defs[l.i]
}

// absent counts the entries of level 0 from the current one on, at most so many, and as
// far as they are decoded.
func (l *leaf) absent(limit int64) (n int64) {
	if l.maxDef == 0 || !l.more() {
		return 0
	}
	for _, d := range l.defs[l.i:][:min(int64(l.n-l.i), limit)] {
		if d != 0 {
			break
		}
		n++
	}
	return n
}

// repeats says whether the current entry continues a list of that repetition level.
func (l *leaf) repeats(rep int16) bool {
	return l.maxRep > 0 && l.more() && l.reps[l.i] == rep
}

func (l *leaf) next() {
	if !l.more() {
		return
	}
	if l.maxDef == 0 || l.defs[l.i] == l.maxDef {
		l.v++
	}
	l.i++
}
