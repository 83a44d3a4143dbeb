package contend

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/txcoord/txcoord/lock"
	"github.com/txcoord/txcoord/tables/logstore/sparktest"
)

// Dynamo is Seq by the protocol of Spark's S3DynamoDBLogStore: per table a temporary
// file, a claim in a table of entries, the copy, and the completion, in turn. The
// entries are in the same kind of store that txcoord has its journal in, so that the
// sequences are compared and not the services. It lists nothing, as its writer knows
// the newest version.
type Dynamo struct {
	Objects OpenObjects
	Keys    OpenKeys
}

// Name is "dstor".
func (Dynamo) Name() string { return "dstor" }

// Open makes fresh tables and a fresh table of entries.
func (c Dynamo) Open(ctx context.Context, dir string, tables int) (Session, error) {
	b, err := openBaseline(ctx, c.Objects, dir, tables)
	if err != nil {
		return nil, err
	}
	keys, err := c.Keys(dir)
	if err != nil {
		return nil, fmt.Errorf("open store: %w", err)
	}
	s := &dynamoSession{seqSession: newSeqSession(b), keys: keys}
	entries := keyedEntries{CountKeys(keys, b.counter)}
	for i := range tables {
		s.drivers = append(s.drivers, &sparktest.Driver{
			Objects: b.objects, Entries: entries, Root: TableName(i), TablePath: "s3a://bench/" + TableName(i), Conditional: true,
		})
	}
	return s, nil
}

type dynamoSession struct {
	*seqSession
	keys    lock.Store
	drivers []*sparktest.Driver
}

func (s *dynamoSession) Close() error { return errors.Join(s.keys.Close(), s.seqSession.Close()) }

func (s *dynamoSession) Commit(ctx context.Context, w Work) error {
	defer s.lock(w.Tables)()
	var versions []int64
	for _, t := range w.Tables {
		version := s.latest[t] + 1
		if err := s.drivers[t].Write(ctx, version, w.ID(), w.commitFile(version)); err != nil {
			return fmt.Errorf("commit %s version %d: %w", TableName(t), version, err)
		}
		s.latest[t] = version
		versions = append(versions, version)
	}
	s.note(&s.committed, w.transaction(versions))
	return nil
}

// keyedEntries are the entries in a key-value store.
type keyedEntries struct{ keys lock.Store }

func entryKey(tablePath, fileName string) string { return "entry/" + tablePath + "/" + fileName }

func (k keyedEntries) Get(ctx context.Context, tablePath, fileName string) (e sparktest.Entry, err error) {
	item, err := k.keys.Get(ctx, entryKey(tablePath, fileName))
	if errors.Is(err, lock.ErrNotFound) {
		return e, sparktest.ErrNoEntry
	}
	if err != nil {
		return e, err
	}
	return e, json.Unmarshal(item.Value, &e)
}

func (k keyedEntries) Newest(ctx context.Context, tablePath string) (e sparktest.Entry, err error) {
	items, err := k.keys.Scan(ctx, entryKey(tablePath, ""), "", 0)
	if err != nil {
		return e, err
	}
	if len(items) == 0 {
		return e, sparktest.ErrNoEntry
	}
	return e, json.Unmarshal(items[len(items)-1].Value, &e)
}

func (k keyedEntries) put(ctx context.Context, e sparktest.Entry, c lock.Condition) error {
	b, err := json.Marshal(e)
	if err != nil {
		return err
	}
	_, err = k.keys.Put(ctx, entryKey(e.TablePath, e.FileName), b, c)
	return err
}

func (k keyedEntries) PutNew(ctx context.Context, e sparktest.Entry) error {
	err := k.put(ctx, e, lock.IfAbsent())
	if errors.Is(err, lock.ErrConflict) {
		return sparktest.ErrFailed
	}
	return err
}

func (k keyedEntries) Put(ctx context.Context, e sparktest.Entry) error {
	return k.put(ctx, e, lock.Always())
}
