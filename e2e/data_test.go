package e2e_test

import (
	"bytes"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/uuid"

	"github.com/txcoord/txcoord/tables/datafile"
)

// Every table of these tests has the same columns. Amounts are what transactions
// move between tables, so that their sum over all tables never changes.
var columns = []datafile.Column{
	{Name: "id", Type: "long", Nullable: true},
	{Name: "amount", Type: "long", Nullable: true},
	{Name: "note", Type: "string", Nullable: true},
}

var schema = datafile.SchemaString(columns)

// dataFile is a Parquet file in a table's folder.
type dataFile struct {
	path         string
	rows, amount int64
	size         int64
	// add is its action line.
	add []byte
}

// write puts a Parquet file of so many rows, which add up to amount, into a
// table's folder. As with any Delta writer it is there before the transaction.
func write(t testing.TB, folder string, rows, amount int64) dataFile {
	t.Helper()
	f := dataFile{path: uuid.NewString() + ".parquet", rows: rows, amount: amount}
	var b bytes.Buffer
	footer, err := datafile.Write(&b, columns, datafile.WriteOptions{}, spread(rows, amount))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(folder, f.path), b.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
	fits, err := datafile.NewTable(schema, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	line, err := fits.Add(footer, f.path, nil)
	if err != nil {
		t.Fatal(err)
	}
	f.size, f.add = footer.Size, append(line, '\n')
	return f
}

// spread yields rows whose amounts add up.
func spread(rows, amount int64) iter.Seq[[]any] {
	return func(yield func([]any) bool) {
		for i := range rows {
			part := amount / rows
			if i == 0 {
				part += amount % rows
			}
			if !yield([]any{i, part, fmt.Sprintf("row %d", i)}) {
				return
			}
		}
	}
}

// remove is the action line that takes the file away.
func (f dataFile) remove() []byte {
	return fmt.Appendf(nil, `{"remove":{"path":%q,"deletionTimestamp":1700000000000,"dataChange":true,`+
		`"extendedFileMetadata":true,"partitionValues":{},"size":%d}}`+"\n", f.path, f.size)
}

// lines are the action lines of a change.
func (c change) lines() []byte {
	var b []byte
	for _, f := range c.removes {
		b = append(b, f.remove()...)
	}
	for _, f := range c.adds {
		b = append(b, f.add...)
	}
	return b
}
