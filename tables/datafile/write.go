package datafile

import (
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/compress"
	"github.com/apache/arrow-go/v18/parquet/pqarrow"
)

// Column is a column of a file that Write makes. Type is one of Delta's
// primitives: boolean, byte, short, integer, long, float, double, string, binary,
// date, timestamp, timestamp_ntz, decimal(p,s).
type Column struct {
	Name     string
	Type     string
	Nullable bool
}

// SchemaString is the schemaString of a table that has these columns.
func SchemaString(columns []Column) string {
	type fieldOut struct {
		Name     string         `json:"name"`
		Type     string         `json:"type"`
		Nullable bool           `json:"nullable"`
		Metadata map[string]any `json:"metadata"`
	}
	out := struct {
		Type   string     `json:"type"`
		Fields []fieldOut `json:"fields"`
	}{"struct", []fieldOut{}}
	for _, c := range columns {
		out.Fields = append(out.Fields, fieldOut{c.Name, c.Type, c.Nullable, map[string]any{}})
	}
	b, _ := json.Marshal(out) // strings and booleans only: cannot err
	return string(b)
}

// Codec compresses the pages of a file.
type Codec uint8

// The codecs that Write knows.
const (
	Snappy Codec = iota
	Zstd
	Uncompressed
)

// WriteOptions has a usable zero value.
type WriteOptions struct {
	Codec Codec
	// GroupRows is the number of rows in a row group; 0 means 131,072.
	GroupRows int
	// Modified is what File.Modified is set to; zero means now.
	Modified time.Time
}

const defaultGroupRows = 128 << 10

// Write writes rows as a Parquet file that Spark, delta-rs and DuckDB read, and
// returns what Describe would say of it. It keeps one row group in memory. It
// does not close w; after an error what w holds is no file.
//
// A row has one value per column, nil for null: a bool; any signed integer, for
// the integer types; a float64 or float32; a string or []byte; a time.Time for
// date and the timestamps; a decimal as a string such as "12.50".
func Write(w io.Writer, columns []Column, o WriteOptions, rows iter.Seq[[]any]) (File, error) {
	schema, err := arrowSchema(columns)
	if err != nil {
		return File{}, err
	}
	counted := &counter{w: w}
	fw, err := pqarrow.NewFileWriter(schema, counted, o.properties(), pqarrow.NewArrowWriterProperties())
	if err != nil {
		return File{}, fmt.Errorf("start parquet file: %w", err)
	}
	if err := writeRows(fw, schema, columns, o.groupRows(), rows); err != nil {
		return File{}, err
	}
	if err := fw.Close(); err != nil {
		return File{}, fmt.Errorf("finish parquet file: %w", err)
	}
	m, err := fw.FileMetadata()
	if err != nil {
		return File{}, fmt.Errorf("finish parquet file: %w", err)
	}
	f, err := describe(m, counted.n)
	f.Modified = o.Modified
	if f.Modified.IsZero() {
		f.Modified = time.Now()
	}
	return f, err
}

func (o WriteOptions) groupRows() int {
	if o.GroupRows > 0 {
		return o.GroupRows
	}
	return defaultGroupRows
}

func (o WriteOptions) properties() *parquet.WriterProperties {
	codec := map[Codec]compress.Compression{
		Snappy: compress.Codecs.Snappy, Zstd: compress.Codecs.Zstd, Uncompressed: compress.Codecs.Uncompressed,
	}[o.Codec]
	return parquet.NewWriterProperties(
		parquet.WithCompression(codec),
		parquet.WithMaxRowGroupLength(int64(o.groupRows())),
		parquet.WithStoreDecimalAsInteger(true),
		parquet.WithRootName("spark_schema"),
	)
}

func writeRows(fw *pqarrow.FileWriter, schema *arrow.Schema, columns []Column, groupRows int, rows iter.Seq[[]any]) error {
	b := array.NewRecordBuilder(memory.NewGoAllocator(), schema)
	defer b.Release()
	n, pending := 0, 0
	for row := range rows {
		if len(row) != len(columns) {
			return fmt.Errorf("row %d: has %d values for %d columns", n, len(row), len(columns))
		}
		for i, v := range row {
			if err := appendValue(b.Field(i), columns[i], v); err != nil {
				return fmt.Errorf("row %d: column %s: %w", n, columns[i].Name, err)
			}
		}
		n++
		if pending++; pending == groupRows {
			if err := flush(fw, b); err != nil {
				return err
			}
			pending = 0
		}
	}
	if pending == 0 && n > 0 {
		return nil
	}
	return flush(fw, b)
}

func flush(fw *pqarrow.FileWriter, b *array.RecordBuilder) error {
	rec := b.NewRecordBatch()
	defer rec.Release()
	if err := fw.Write(rec); err != nil {
		return fmt.Errorf("write row group: %w", err)
	}
	return nil
}

// counter knows the file's size when all is written.
type counter struct {
	w io.Writer
	n int64
}

func (c *counter) Write(p []byte) (int, error) {
	n, err := c.w.Write(p)
	c.n += int64(n)
	return n, err
}
