package tables_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/txcoord/txcoord/tables"
	"github.com/txcoord/txcoord/tables/objstore/memobj"
	"github.com/txcoord/txcoord/twophase"
)

const (
	tableURI = "s3://lake/orders"
	tableKey = "orders"
	tableID  = "0b6d6c3e-3c3c-4b26-9f4e-0f8f3a3a1c11"
)

const schemaJSON = `{"type":"struct","fields":[` +
	`{"name":"id","type":"long","nullable":true,"metadata":{}},` +
	`{"name":"day","type":"date","nullable":true,"metadata":{}},` +
	`{"name":"region","type":"string","nullable":true,"metadata":{}}]}`

// Lines of actions.

func addLine(path string, more ...string) string {
	return fmt.Sprintf(`{"add":{"path":%q,"partitionValues":{},"size":100,"modificationTime":1700000000000,"dataChange":true%s}}`, path, tail(more))
}

func addIn(path, day, region string) string {
	return fmt.Sprintf(`{"add":{"path":%q,"partitionValues":{"day":%q,"region":%q},"size":100,"modificationTime":1,"dataChange":true}}`, path, day, region)
}

func addDV(path, dv string) string {
	return addLine(path, `"stats":"{\"numRecords\":10}"`, vector(dv))
}

func removeLine(path string, more ...string) string {
	return fmt.Sprintf(`{"remove":{"path":%q,"deletionTimestamp":1,"dataChange":true%s}}`, path, tail(more))
}

func removeIn(path, day, region string) string {
	return fmt.Sprintf(`{"remove":{"path":%q,"dataChange":true,"extendedFileMetadata":true,"size":100,"partitionValues":{"day":%q,"region":%q}}}`, path, day, region)
}

func removeDV(path, dv string) string { return removeLine(path, vector(dv)) }

// vector is one in a file, by a short name.
func vector(dv string) string { return vectorOver(dv, 1) }

// vectorOver is one that takes so many rows away.
func vectorOver(dv string, rows int64) string {
	return fmt.Sprintf(`"deletionVector":{"storageType":"u","pathOrInlineDv":%q,"offset":1,"sizeInBytes":34,"cardinality":%d}`, vectorName(dv), rows)
}

// vectorName is a name that readers can decode.
func vectorName(dv string) string { return strings.Repeat("0", max(20-len(dv), 0)) + dv }

func txnLine(app string, version int64) string {
	return fmt.Sprintf(`{"txn":{"appId":%q,"version":%d}}`, app, version)
}

func domainLine(name string) string {
	return fmt.Sprintf(`{"domainMetadata":{"domain":%q,"configuration":"{}","removed":false}}`, name)
}

func tail(more []string) string {
	if len(more) == 0 {
		return ""
	}
	return "," + strings.Join(more, ",")
}

const plainProtocol = `{"protocol":{"minReaderVersion":1,"minWriterVersion":2}}`

func featureProtocol(reader, writer []string) string {
	quote := func(list []string) string {
		for i := range list {
			list[i] = fmt.Sprintf("%q", list[i])
		}
		return strings.Join(list, ",")
	}
	if reader == nil {
		return fmt.Sprintf(`{"protocol":{"minReaderVersion":1,"minWriterVersion":7,"writerFeatures":[%s]}}`, quote(writer))
	}
	return fmt.Sprintf(`{"protocol":{"minReaderVersion":3,"minWriterVersion":7,"readerFeatures":[%s],"writerFeatures":[%s]}}`, quote(reader), quote(writer))
}

// metaOf makes a metaData line. config is the inside of the configuration object.
func metaOf(schema string, partitions []string, config string) string {
	return metaWithID(tableID, schema, partitions, config)
}

func metaWithID(id, schema string, partitions []string, config string) string {
	var quoted []string
	for _, p := range partitions {
		quoted = append(quoted, fmt.Sprintf("%q", p))
	}
	return fmt.Sprintf(`{"metaData":{"id":%q,"format":{"provider":"parquet","options":{}},"schemaString":%q,"partitionColumns":[%s],"configuration":{%s},"createdTime":1}}`,
		id, schema, strings.Join(quoted, ","), config)
}

func text(lines ...string) []byte {
	return []byte(strings.Join(lines, "\n") + "\n")
}

// fixture is a table in memory.
type fixture struct {
	t     testing.TB
	store *memobj.Store
	log   *tables.Log
	next  twophase.Version
}

func newFixture(t testing.TB) *fixture {
	store := memobj.New()
	return &fixture{t: t, store: store, log: tables.NewLog(tables.LogConfig{
		Store: store, Key: tableKey, URI: tableURI, ReadCheckpoint: readLines,
	})}
}

// readLines stands in for the Parquet reader: its checkpoints hold JSON lines.
func readLines(_ context.Context, r io.ReaderAt, size int64, _ tables.Portion, yield func([]byte) error) error {
	raw := make([]byte, size)
	if _, err := r.ReadAt(raw, 0); err != nil && err != io.EOF {
		return err
	}
	for i, line := range bytes.Split(bytes.TrimSpace(raw), []byte("\n")) {
		if err := yield(line); err != nil {
			return fmt.Errorf("row %d: %w", i, err)
		}
	}
	return nil
}

// commit puts the next version.
func (f *fixture) commit(lines ...string) *fixture {
	f.t.Helper()
	if err := f.log.PutCommit(f.t.Context(), f.next, text(lines...)); err != nil {
		f.t.Fatal(err)
	}
	f.next++
	return f
}

// put writes a file below the log.
func (f *fixture) put(name string, content []byte) *fixture {
	f.t.Helper()
	if err := f.store.Put(f.t.Context(), tableKey+"/_delta_log/"+name, content); err != nil {
		f.t.Fatal(err)
	}
	return f
}

func (f *fixture) drop(name string) *fixture {
	f.t.Helper()
	if err := f.store.Delete(f.t.Context(), tableKey+"/_delta_log/"+name); err != nil {
		f.t.Fatal(err)
	}
	return f
}

// plain is an unpartitioned table with a file.
func plain(t testing.TB) *fixture {
	return newFixture(t).commit(plainProtocol, metaOf(schemaJSON, nil, ""), addLine("a.parquet"))
}

// partitioned is a table by day and region.
func partitioned(t testing.TB) *fixture {
	return newFixture(t).commit(plainProtocol, metaOf(schemaJSON, []string{"day", "region"}, ""))
}

// vectored is a table with deletion vectors.
func vectored(t testing.TB, more ...string) *fixture {
	writer := append([]string{"deletionVectors", "domainMetadata", "appendOnly", "changeDataFeed"}, more...)
	return newFixture(t).commit(featureProtocol([]string{"deletionVectors"}, writer),
		metaOf(schemaJSON, nil, `"delta.enableDeletionVectors":"true"`), addLine("a.parquet"), addLine("b.parquet"))
}

func (f *fixture) state() *tables.State {
	f.t.Helper()
	s, err := f.log.State(f.t.Context(), tables.Latest)
	if err != nil {
		f.t.Fatal(err)
	}
	return s
}

func (f *fixture) tail() *tables.Tail {
	f.t.Helper()
	t, err := f.log.Tail(f.t.Context(), tables.Latest)
	if err != nil {
		f.t.Fatal(err)
	}
	return t
}

func (f *fixture) profile() *tables.Profile { return f.state().Profile() }

// parse parses and validates lines against the table.
func (f *fixture) parse(lines ...string) *tables.Actions {
	f.t.Helper()
	a, err := tables.ParseActions(tableURI, tables.Limits{}, text(lines...))
	if err != nil {
		f.t.Fatal(err)
	}
	if err := tables.Validate(a, f.profile()); err != nil {
		f.t.Fatal(err)
	}
	return a
}

// part makes a part's facts.
func (f *fixture) part(r tables.ReadDeclaration, lines ...string) twophase.Facts {
	f.t.Helper()
	facts, err := tables.PartFacts(f.parse(lines...), f.profile(), r)
	if err != nil {
		f.t.Fatal(err)
	}
	return facts
}

// foreign makes the facts of the next version as if somebody had put it.
func (f *fixture) foreign(lines ...string) twophase.Facts {
	f.t.Helper()
	c, err := tables.ParseCommit(tableURI, f.next, text(lines...))
	if err != nil {
		f.t.Fatal(err)
	}
	return tables.CommitFacts(c, f.profile())
}

var blind = tables.ReadDeclaration{Blind: true}

// at declares a read point and a kind of reading.
func at(v twophase.Version, kind tables.ReadKind) tables.ReadDeclaration {
	return tables.ReadDeclaration{Version: &v, Kind: kind}
}
