package checkpoint_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/compress"

	"github.com/txcoord/txcoord/internal/allocs"
	"github.com/txcoord/txcoord/tables"
	"github.com/txcoord/txcoord/tables/checkpoint"
)

// The most that reading a small Parquet file may allocate in all, freed or not: pages
// within package datafile's budget, a batch and a read-ahead for each column chunk.
const (
	allocConstant = 32 << 20
	allocPerByte  = 16 << 10
)

// bounded reads a file, and returns what it took if that is too much.
func bounded(t *testing.T, data []byte) int {
	return allocs.Over(allocConstant+allocPerByte*len(data), func() {
		rows := 0
		_ = checkpoint.Read(context.Background(), bytes.NewReader(data), int64(len(data)), tables.AllActions, func(line []byte) error {
			if rows++; rows > 10_000 {
				return context.Canceled // run lengths make many rows of few bytes: that takes time, and not memory
			}
			if !json.Valid(line) {
				t.Errorf("yields %q", line)
			}
			return nil
		})
	})
}

// packed is a small file, by the codec of its pages.
func packed(t testing.TB) map[string][]byte {
	t.Helper()
	row, column := `{"txn":{"appId":"`+strings.Repeat("a", 100)+`"}}`, []arrow.Field{group("txn", text("appId"))}
	out := map[string][]byte{}
	for _, c := range []compress.Compression{compress.Codecs.Uncompressed, compress.Codecs.Snappy, compress.Codecs.Gzip, compress.Codecs.Brotli, compress.Codecs.Zstd, compress.Codecs.Lz4Raw} {
		for _, dictionary := range []bool{false, true} {
			if dictionary && c > compress.Codecs.Snappy {
				continue // the page reader unpacks both with the same code
			}
			data := fileWith(t, []parquet.WriterProperty{parquet.WithCompression(c), parquet.WithDictionaryDefault(dictionary)}, column, row)
			out[fmt.Sprint(c, dictionary)] = data
		}
	}
	return out
}

// TestForgedSizes breaks every byte of small files in the ways that make a size huge:
// no file makes the reader ask for memory that its size does not warrant.
func TestForgedSizes(t *testing.T) {
	for name, data := range packed(t) {
		for i := range data {
			over := slices.Clone(data)
			copy(over[i:], []byte{0xfe, 0xff, 0xff, 0xff, 0x0f})
			instead := slices.Replace(slices.Clone(data), i, min(i+2, len(data)), 0xfe, 0xff, 0xff, 0xff, 0x01)
			list := slices.Clone(data) // of 100 million structures, in the footer
			copy(list[i:], []byte{0xfc, 0xff, 0xff, 0xff, 0x2f})
			for _, bad := range [][]byte{over, instead, list} {
				if got := bounded(t, bad); got != 0 {
					t.Errorf("%s: %d bytes, changed at %d, took %d bytes of memory", name, len(bad), i, got)
				}
			}
		}
	}
}

// FuzzRead: any bytes under a checkpoint's name are read or refused, within a bound
// of memory, and what is yielded is JSON.
func FuzzRead(f *testing.F) {
	for _, lines := range [][]string{
		{`{"protocol":{"minReaderVersion":1,"minWriterVersion":2}}`, `{"txn":{"appId":"a","version":1}}`},
		{`{"add":{"path":"a","partitionValues":{"p":null,"day":"2024-01-02"},"size":1,"modificationTime":1,"dataChange":false,"stats":"{\"numRecords\":1}","deletionVector":{"storageType":"u","pathOrInlineDv":"x","offset":1,"sizeInBytes":1,"cardinality":1}}}`},
		{`{"metaData":{"id":"i","format":{"provider":"parquet","options":{}},"schemaString":"{}","partitionColumns":["p"],"configuration":{"a":"b"}}}`, `{"remove":{"path":"b","dataChange":true}}`},
	} {
		f.Add(written(f, columnsWith(tables.MainFile, typedSchema, []string{"p", "day"}, nil), lines...))
	}
	f.Add(file(f, []arrow.Field{txn}, `{"txn":{"appId":"a","version":1}}`))
	f.Add([]byte("PAR1\x00\x00\x00\x00PAR1"))
	for _, data := range packed(f) {
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if got := bounded(t, data); got != 0 {
			t.Errorf("%d bytes took %d bytes of memory", len(data), got)
		}
	})
}
