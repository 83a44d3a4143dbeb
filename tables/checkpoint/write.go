package checkpoint

import (
	"errors"
	"fmt"
	"io"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/compress"
	"github.com/apache/arrow-go/v18/parquet/pqarrow"

	"github.com/txcoord/txcoord/tables"
)

// Format is what package tables needs to keep checkpoints in Parquet.
func Format() tables.CheckpointFormat {
	return tables.CheckpointFormat{
		Read: Read,
		Create: func(w io.Writer, c tables.CheckpointColumns) (tables.CheckpointFile, error) {
			return NewWriter(w, c)
		},
	}
}

// A row group is written when it has this many rows, or lines of this many bytes.
// With the pages that come of it, that is what a writer holds in memory.
const (
	groupRows  = 16 << 10
	groupBytes = 8 << 20
)

// Writer writes a checkpoint, or a sidecar of one, as Parquet. Each row is an
// action. Fields that a checkpoint has no column for are left out: stats and tags of
// a remove (the protocol says so), and what the protocol does not know. dataChange
// is always written as false, as a checkpoint adds and removes nothing.
//
// Statistics are kept as JSON, as typed columns (stats_parsed and
// partitionValues_parsed), or both, as the table's properties ask. Typed are the
// columns that Spark types: numbers, decimals, strings, dates and timestamps have
// bounds, every column has a null count; the first 32 leaf columns, or what
// delta.dataSkippingNumIndexedCols or delta.dataSkippingStatsColumns say. A bound
// that cannot be read as its column's type is left out, which costs a reader some
// skipping and nothing else. partitionValues_parsed is left out altogether where a
// partition column is a timestamp (its values may be in the writer's own zone) or
// of a type that has no plain text form; readers then take partitionValues.
type Writer struct {
	fw      *pqarrow.FileWriter
	schema  *arrow.Schema
	build   *array.RecordBuilder
	columns []*node
	index   map[string]int
	rows    int
	bytes   int
}

// NewWriter starts a file. It does not close w.
func NewWriter(w io.Writer, c tables.CheckpointColumns) (*Writer, error) {
	columns, err := columnsOf(c)
	if err != nil {
		return nil, err
	}
	out := &Writer{columns: columns, index: map[string]int{}}
	var fields []arrow.Field
	for i, n := range columns {
		fields = append(fields, n.field())
		out.index[n.name] = i
	}
	out.schema = arrow.NewSchema(fields, nil)
	if out.fw, err = pqarrow.NewFileWriter(out.schema, w, properties(), pqarrow.NewArrowWriterProperties()); err != nil {
		return nil, fmt.Errorf("start checkpoint file: %w", err)
	}
	out.build = array.NewRecordBuilder(memory.NewGoAllocator(), out.schema)
	return out, nil
}

// properties: texts that are different in every row, or used for nothing but to be
// carried, have neither dictionary nor bounds.
func properties() *parquet.WriterProperties {
	o := []parquet.WriterProperty{
		// The fastest level takes a third of the default's memory, and what it makes
		// of paths and statistics is no larger.
		parquet.WithCompression(compress.Codecs.Zstd), parquet.WithCompressionLevel(1),
		parquet.WithMaxRowGroupLength(groupRows),
		parquet.WithStoreDecimalAsInteger(true),
		parquet.WithRootName("spark_schema"),
	}
	for _, path := range []string{"add.path", "add.stats", "remove.path", "metaData.schemaString", "domainMetadata.configuration"} {
		o = append(o, parquet.WithDictionaryFor(path, false), parquet.WithStatsFor(path, false))
	}
	return parquet.NewWriterProperties(o...)
}

// Write adds an action, given as its JSON line. The line is not kept. After an
// error what was written is no checkpoint.
func (w *Writer) Write(line []byte) error {
	found := -1
	err := members(line, func(name, value []byte) error {
		if value == nil {
			return nil
		}
		i, ok := w.index[string(name)]
		if !ok || found >= 0 {
			return fmt.Errorf("action %q has no place in this file", name)
		}
		found = i
		return w.append(i, value)
	})
	if err == nil && found < 0 {
		err = errors.New("the line holds no action")
	}
	if err != nil {
		return fmt.Errorf("write checkpoint: %w", err)
	}
	w.rows++
	w.bytes += len(line)
	if w.rows >= groupRows || w.bytes >= groupBytes {
		return w.flush()
	}
	return nil
}

func (w *Writer) append(column int, value []byte) error {
	for i := range w.columns {
		if i != column {
			w.build.Field(i).AppendNull()
		}
	}
	if err := w.columns[column].put(w.build.Field(column), value); err != nil {
		return fmt.Errorf("%s: %w", w.columns[column].name, err)
	}
	return nil
}

func (w *Writer) flush() error {
	if w.rows == 0 {
		return nil
	}
	w.rows, w.bytes = 0, 0
	rec := w.build.NewRecordBatch()
	defer rec.Release()
	if err := w.fw.Write(rec); err != nil {
		return fmt.Errorf("write checkpoint: %w", err)
	}
	return nil
}

// Close writes what is left, and the footer.
func (w *Writer) Close() error {
	defer w.build.Release()
	if err := errors.Join(w.flush(), w.fw.Close()); err != nil {
		return fmt.Errorf("finish checkpoint file: %w", err)
	}
	return nil
}
