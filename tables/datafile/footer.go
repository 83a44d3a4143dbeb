package datafile

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/apache/arrow-go/v18/parquet/metadata"
)

// File is what a data file's footer says, and what an add action needs of it.
type File struct {
	// Size is the file's length in bytes.
	Size int64
	// NumRecords is the number of rows.
	NumRecords int64
	// Modified goes into the add action. A footer does not tell it: the caller sets
	// it, from the store's listing; Write sets the time of writing.
	Modified time.Time

	fields []field
	stats  map[*leaf]leafStats
}

// Describe reads a Parquet file's footer, and nothing else of the file.
//
// Bounds are taken over only where they hold for every reader: not for 96-bit
// timestamps, not where the writer's release is known to have computed them
// wrongly, and no upper bound of floating-point columns unless the writer drops
// bounds when it meets a NaN (engines order NaN above all numbers, footers leave
// it out).
func Describe(ctx context.Context, r io.ReaderAt, size int64) (f File, err error) {
	defer recovered(&err)
	if err := ctx.Err(); err != nil {
		return File{}, err
	}
	p, err := open(r, size)
	if err != nil {
		return File{}, err
	}
	return describe(p.MetaData(), size)
}

func describe(m *metadata.FileMetaData, size int64) (File, error) {
	root, err := buildTree(m.Schema, Select{})
	if errors.Is(err, ErrNoColumns) {
		root, err = &column{kind: kindGroup}, nil
	}
	if err != nil {
		return File{}, err
	}
	f := File{Size: size, NumRecords: m.GetNumRows(), stats: map[*leaf]leafStats{}}
	for _, l := range root.leaves(nil) {
		s, err := statsOf(m, l)
		if err != nil {
			return File{}, fmt.Errorf("statistics of column %s: %w", l.path, err)
		}
		f.stats[l] = s
	}
	f.fields = fileFields(root)
	return f, nil
}

// noNulls says whether the footer rules nulls out for a field below parents that
// are there: a leaf without any null entry has no null above it either.
func (f File) noNulls(fl field) bool {
	if !fl.nullable {
		return true
	}
	if fl.leaf != nil {
		s := f.stats[fl.leaf]
		return s.nullsKnown && s.nulls == 0
	}
	for _, sub := range slices.Concat(fl.typ.fields, fl.typ.parts) {
		// A required part says nothing of the field itself, its leaf may.
		sub.nullable = true
		if f.noNulls(sub) {
			return true
		}
	}
	return false
}

// dropsNaN: writers that leave bounds out when a column holds a NaN.
func dropsNaN(createdBy string) bool {
	return strings.HasPrefix(createdBy, "parquet-mr") || strings.HasPrefix(createdBy, "DuckDB")
}
