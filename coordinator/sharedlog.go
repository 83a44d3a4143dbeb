package coordinator

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/txcoord/txcoord/lock"
	"github.com/txcoord/txcoord/tables/logstore"
	"github.com/txcoord/txcoord/tables/objstore"
	"github.com/txcoord/txcoord/twophase"
)

// LogStore gives tables of mode delta-storage the store through which their logs are
// read and written: logstore.LogStore.
type LogStore interface {
	Table(store objstore.Store, key, uri string) (objstore.Store, error)
	// Identity is the same for all log stores that see each other's entries.
	Identity() string
	// Check looks for what would keep other writers of a table and us apart.
	Check(ctx context.Context, uri string) error
	// Newest is the highest version that has an entry; false if none has.
	Newest(ctx context.Context, uri string) (int64, bool, error)
	// Vacant sees that there are no entries at a place where there is no table.
	Vacant(ctx context.Context, uri string) error
}

// modal is a table's object store as the table's mode wants it at each request. The
// mode is that of the fold, so a replica whose fold lags goes on in the old way for
// as long as it may put at all (R10).
type modal struct {
	objstore.Store
	shared objstore.Store
	// missing says why there is no shared store.
	missing error
	mode    func() twophase.Mode
}

// modalStore is the store for a table's log.
func (c *Catalog) modalStore(store objstore.Store, key, uri string, mode func() twophase.Mode) objstore.Store {
	m := &modal{Store: store, mode: mode}
	if c.cfg.LogStore == nil {
		m.missing = &Error{
			Reason: WrongMode, Message: fmt.Sprintf("table %s is of mode delta-storage, and this server has no log store; start it with --log-store", uri),
			Table: &TableDetail{URI: uri, Version: twophase.NoVersion},
		}
		return m
	}
	if m.shared, m.missing = c.cfg.LogStore.Table(store, key, uri); m.missing != nil {
		m.missing = logStoreError(uri, m.missing)
	}
	return m
}

func (m *modal) now() (objstore.Store, error) {
	if m.mode() != twophase.ModeDeltaStorage {
		return m.Store, nil
	}
	return m.shared, m.missing
}

// Get implements objstore.Store.
func (m *modal) Get(ctx context.Context, key string, r objstore.Range) ([]byte, objstore.Info, error) {
	s, err := m.now()
	if err != nil {
		return nil, objstore.Info{}, err
	}
	return s.Get(ctx, key, r)
}

// Stat implements objstore.Store.
func (m *modal) Stat(ctx context.Context, key string) (objstore.Info, error) {
	s, err := m.now()
	if err != nil {
		return objstore.Info{}, err
	}
	return s.Stat(ctx, key)
}

// PutIfAbsent implements objstore.Store.
func (m *modal) PutIfAbsent(ctx context.Context, key string, data []byte) error {
	s, err := m.now()
	if err != nil {
		return err
	}
	return s.PutIfAbsent(ctx, key, data)
}

// PutBeside implements objstore.Guarded, as far as the store below does.
func (m *modal) PutBeside(ctx context.Context, key string, data []byte, n objstore.Neighbour) error {
	s, err := m.now()
	if err != nil {
		return err
	}
	return objstore.PutBeside(ctx, s, key, data, n)
}

// Put implements objstore.Store.
func (m *modal) Put(ctx context.Context, key string, data []byte) error {
	s, err := m.now()
	if err != nil {
		return err
	}
	return s.Put(ctx, key, data)
}

// Delete implements objstore.Store.
func (m *modal) Delete(ctx context.Context, key string) error {
	s, err := m.now()
	if err != nil {
		return err
	}
	return s.Delete(ctx, key)
}

// List implements objstore.Store.
func (m *modal) List(ctx context.Context, o objstore.ListOptions) iter.Seq2[objstore.Entry, error] {
	s, err := m.now()
	if err != nil {
		return func(yield func(objstore.Entry, error) bool) { yield(objstore.Entry{}, err) }
	}
	return s.List(ctx, o)
}

// modeOf is a table's mode by the fold.
func (c *Catalog) modeOf(id twophase.TableID) (m twophase.Mode) {
	c.ledger.read(func(s *twophase.State) {
		if t, ok := s.Table(id); ok {
			m = t.Mode
		}
	})
	return m
}

// checkMode refuses a mode that is not known, or cannot be a table's.
func (c *Catalog) checkMode(ctx context.Context, uri string, m twophase.Mode) error {
	switch m {
	case twophase.ModeOpen, twophase.ModeExclusive, twophase.ModeFenced:
		return nil
	case twophase.ModeDeltaStorage:
	default:
		return fieldError("mode", m.String(), "is not known", "use open, exclusive, fenced or delta-storage")
	}
	if c.cfg.LogStore == nil {
		return fieldError("mode", m.String(), "needs a log store, and this server has none", "start the server with --log-store dynamodb://TABLE, the table that Spark's S3DynamoDBLogStore uses")
	}
	if err := c.noteLogStore(ctx, false); err != nil {
		return err
	}
	return logStoreError(uri, c.cfg.LogStore.Check(ctx, uri))
}

// noOldEntries refuses to create a table where entries of a dropped one are left: its
// first versions would be taken already.
func (c *Catalog) noOldEntries(ctx context.Context, p placed) error {
	if p.mode != twophase.ModeDeltaStorage {
		return nil
	}
	return logStoreError(p.uri, c.cfg.LogStore.Vacant(ctx, p.uri))
}

// logStoreKey of the catalog's store says which log store its servers use. Two that
// use different ones would not see each other's claims.
const logStoreKey = "log-store"

// noteLogStore writes the key, and refuses another log store than is noted. replace:
// no table depends on it yet.
func (c *Catalog) noteLogStore(ctx context.Context, replace bool) error {
	mine, condition := c.cfg.LogStore.Identity(), lock.IfAbsent()
	if replace {
		condition = lock.Always()
	}
	_, err := c.cfg.Store.Put(ctx, logStoreKey, []byte(mine), condition)
	if err != nil && !errors.Is(err, lock.ErrConflict) && !errors.Is(err, lock.ErrUnknown) {
		return c.storeError(err)
	}
	item, err := c.cfg.Store.Get(ctx, logStoreKey)
	if err != nil {
		return c.storeError(err)
	}
	if noted := string(item.Value); noted != mine {
		return &Error{
			Reason: WrongMode, Table: &TableDetail{Version: twophase.NoVersion},
			Message: fmt.Sprintf("the catalog's tables are shared by way of log store %q, and this server has %q; give all its servers the same --log-store", noted, mine),
		}
	}
	return nil
}

// logStoreError is an error of the log store's, or nil; other errors pass.
func logStoreError(uri string, err error) error {
	var path *logstore.PathError
	var entry *logstore.EntryError
	switch {
	case errors.As(err, &path):
		return fieldError("uri", uri, path.Reason, path.Remedy)
	case errors.As(err, &entry):
		return &Error{
			Reason: LogContradiction, Message: entry.Error(),
			Table: &TableDetail{URI: uri, Version: twophase.NoVersion, File: entry.FileName, Detail: entry.Reason},
		}
	}
	return err
}

// checkLogStore refuses to start a replica that could not write the catalog's tables,
// or would write them past its other replicas.
func (c *Catalog) checkLogStore(ctx context.Context) error {
	var name string
	c.ledger.read(func(s *twophase.State) {
		for _, t := range s.Tables() {
			if t.Mode == twophase.ModeDeltaStorage {
				name = t.Name
			}
		}
	})
	if c.cfg.LogStore != nil {
		err := c.noteLogStore(ctx, name == "")
		if errors.Is(err, &Error{Reason: WrongMode}) {
			return lock.Mark(lock.ErrUnfit, err)
		}
		return err
	}
	if name == "" {
		return nil
	}
	return lock.Mark(lock.ErrUnfit, &Error{
		Reason: WrongMode, Table: &TableDetail{Table: name, Version: twophase.NoVersion},
		Message: fmt.Sprintf("table %s is of mode delta-storage, and this server has no log store; start it with --log-store, the same as the catalog's other servers", name),
	})
}

// logStoreWarning says that somebody wrote a table past the log store: the log's newest
// version has no entry, and the one below it does. Entries that have expired say nothing.
func (c *Catalog) logStoreWarning(ctx context.Context, row TableInfo) []string {
	if row.Mode != twophase.ModeDeltaStorage || c.cfg.LogStore == nil {
		return nil
	}
	newest, ok, err := c.cfg.LogStore.Newest(ctx, row.URI)
	if err != nil || !ok || twophase.Version(newest) >= row.Version {
		return nil
	}
	return []string{fmt.Sprintf("version %d was written without the log store, whose newest entry is of version %d: a writer that does not use it can make Spark lose commits; see docs/delta-storage.md", row.Version, newest)}
}
