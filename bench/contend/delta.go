package contend

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"path/filepath"

	"golang.org/x/sync/errgroup"

	"github.com/txcoord/txcoord/e2e/checker"
	"github.com/txcoord/txcoord/tables/objstore"
)

// catalogID stands in the tags of the baselines' commits.
const catalogID = "baseline"

// created is version 0 of a benchmark's table.
const created = `{"commitInfo":{"timestamp":1700000000000,"operation":"CREATE TABLE","operationParameters":{},"engineInfo":"bench"}}
{"protocol":{"minReaderVersion":1,"minWriterVersion":2}}
{"metaData":{"id":"%s","format":{"provider":"parquet","options":{}},"schemaString":"{\"type\":\"struct\",\"fields\":[{\"name\":\"id\",\"type\":\"long\",\"nullable\":true,\"metadata\":{}},{\"name\":\"amount\",\"type\":\"double\",\"nullable\":true,\"metadata\":{}},{\"name\":\"note\",\"type\":\"string\",\"nullable\":true,\"metadata\":{}}]}","partitionColumns":[],"configuration":{},"createdTime":1700000000000}}
`

// TableName is the name and the folder of a session's table.
func TableName(i int) string { return fmt.Sprintf("t%03d", i) }

// tableID is a table's metaData.id, in the form of a UUID.
func tableID(i int) string { return fmt.Sprintf("00000000-0000-4000-8000-%012d", i) }

func commitKey(table int, version int64) string {
	return fmt.Sprintf("%s/_delta_log/%020d.json", TableName(table), version)
}

// createTables writes version 0 of each table.
func createTables(ctx context.Context, s objstore.Store, n int) error {
	return parallel(ctx, n, func(ctx context.Context, i int) error {
		if err := s.PutIfAbsent(ctx, commitKey(i, 0), fmt.Appendf(nil, created, tableID(i))); err != nil {
			return fmt.Errorf("create table %s: %w", TableName(i), err)
		}
		return nil
	})
}

// atOnce is how much of what comes before the measurements is done at once.
const atOnce = 64

// parallel calls something for 0 to n-1, and returns an error if one of them does.
func parallel(ctx context.Context, n int, each func(ctx context.Context, i int) error) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(atOnce)
	for i := range n {
		g.Go(func() error {
			if err := ctx.Err(); err != nil {
				return err
			}
			return each(ctx, i)
		})
	}
	return g.Wait()
}

func checkerTables(dir string, n int) []checker.Table {
	ts := make([]checker.Table, n)
	for i := range ts {
		ts[i] = checker.Table{Name: TableName(i), Path: filepath.Join(dir, TableName(i))}
	}
	return ts
}

// ID is the transaction's id.
func (w Work) ID() string { return shortID("txn", w.Writer, w.Number) }

func shortID(kind string, writer, number int) string {
	h := sha256.Sum256(fmt.Appendf(nil, "%s %d %d", kind, writer, number))
	return hex.EncodeToString(h[:16])
}

// Path is the data file that the transaction adds to each of its tables. No such
// file exists: what is measured is commits.
func (w Work) Path() string {
	return fmt.Sprintf("part-%05d-%s-c000.snappy.parquet", w.Writer, shortID("file", w.Writer, w.Number))
}

// AddLine is the add action, some 460 bytes as an engine would write it.
func (w Work) AddLine() []byte {
	n := w.Writer*1_000_000 + w.Number
	return fmt.Appendf(nil, `{"add":{"path":"%s","partitionValues":{},"size":%d,"modificationTime":1700000000000,"dataChange":true,`+
		`"stats":"{\"numRecords\":1000,\"minValues\":{\"id\":%d,\"amount\":0.01,\"note\":\"a first note of the batch\"},`+
		`\"maxValues\":{\"id\":%d,\"amount\":9999.99,\"note\":\"the last note of the batch\"},\"nullCount\":{\"id\":0,\"amount\":0,\"note\":0}}"}}`+"\n",
		w.Path(), 40_000+n%1000, n*1000, n*1000+999)
}

// lines are the transaction's actions on each of its tables.
func (w Work) lines() []byte {
	if w.Replaces == "" {
		return w.AddLine()
	}
	return append(w.removal(), w.AddLine()...)
}

// removal is the line that removes what the transaction replaces.
func (w Work) removal() []byte {
	return fmt.Appendf(nil, `{"remove":{"path":"%s","deletionTimestamp":1700000000000,"dataChange":true}}`+"\n", w.Replaces)
}

// digest stands for the digest of the baselines' parts.
func (w Work) digest() string {
	h := sha256.Sum256(w.lines())
	return hex.EncodeToString(h[:])
}

// commitFile is a commit with one transaction in it, in the form of a version of
// ours. Each version holds one transaction, so the marker is the version.
func (w Work) commitFile(version int64) []byte {
	id := w.ID()
	b := fmt.Appendf(nil, `{"commitInfo":{"timestamp":1700000000000,"operation":"WRITE","operationParameters":{},"engineInfo":"txcoord/bench",`+
		`"isBlindAppend":true,"txnId":"%s","tags":{"txcoord.catalog":"%s","txcoord.incarnation":"1","txcoord.round":"0.0",`+
		`"txcoord.transactions":"[[\"%s\",\"%s\"]]","delta.multiTableTransaction.transactionId":"%s"}}}`+"\n"+
		`{"txn":{"appId":"txcoord/%s","version":%d}}`+"\n",
		id, catalogID, id, w.digest(), id, catalogID, version)
	return append(b, w.lines()...)
}
