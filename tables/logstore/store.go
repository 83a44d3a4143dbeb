package logstore

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"strings"
	"time"

	"github.com/txcoord/txcoord/tables/objstore"
)

// Config of a log store.
type Config struct {
	Entries Entries
	// Name of the table of entries, the same for all who use it.
	Name string
	// Scheme of S3 tables' paths in the entries' keys: what Spark's users write in
	// front of them; s3a if empty.
	Scheme string
	// TTL is how long a completed entry stays at least; a day if 0. It has to be longer
	// than any writer sleeps between its look at the log and its claim.
	TTL time.Duration
	// Now is the wall clock, for expiry; time.Now if nil.
	Now func() time.Time
	// Log; discards if nil.
	Log *slog.Logger
}

// MinTTL is the shortest time that completed entries may stay.
const MinTTL = time.Hour

// LogStore gives tables logs that are shared by way of entries.
type LogStore struct {
	cfg Config
	// weak leaves parts of the protocol out, in tests.
	weak weakness
}

// New checks the configuration.
func New(c Config) (*LogStore, error) {
	if c.Entries == nil {
		return nil, errors.New("logstore: Entries is required")
	}
	if c.Scheme == "" {
		c.Scheme = Schemes[0]
	}
	if c.TTL == 0 {
		c.TTL = 24 * time.Hour
	}
	if c.TTL < MinTTL {
		return nil, fmt.Errorf("entries that stay for %s: a writer that sleeps longer could claim a version again; at least %s", c.TTL, MinTTL)
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	return &LogStore{cfg: c}, nil
}

// Identity is the same for all log stores that see each other's entries.
func (l *LogStore) Identity() string { return l.cfg.Name + ", scheme " + l.cfg.Scheme }

// Table is the store through which a table's log is to be read and written. key is
// the table's root in the store it lies in, uri its canonical URI. *PathError if
// Spark and we would not find each other's entries.
func (l *LogStore) Table(store objstore.Store, key, uri string) (objstore.Store, error) {
	path, err := TablePath(uri, l.cfg.Scheme)
	if err != nil {
		return nil, err
	}
	t := &table{Store: store, l: l, path: path, prefix: logFolder}
	if key != "" {
		t.prefix = key + "/" + logFolder
	}
	return t, nil
}

// Check looks for what would keep writers of the table apart: entries of it under
// another key. *PathError if there are.
func (l *LogStore) Check(ctx context.Context, uri string) error {
	path, err := TablePath(uri, l.cfg.Scheme)
	if err != nil {
		return err
	}
	for _, alias := range aliases(uri, path) {
		e, err := l.cfg.Entries.Newest(ctx, alias)
		if err == nil {
			return &PathError{
				uri, fmt.Sprintf("has entries under %s (newest %s), where txcoord uses %s", alias, e.FileName, path),
				"let all writers use one scheme and spelling, and give txcoord the same scheme; entries of former writers may be removed once all of those have stopped",
			}
		}
		if !errors.Is(err, ErrNoEntry) {
			return fmt.Errorf("look for entries of %s: %w", alias, err)
		}
	}
	return nil
}

// Newest is the highest version that has an entry; false if none has.
func (l *LogStore) Newest(ctx context.Context, uri string) (int64, bool, error) {
	path, err := TablePath(uri, l.cfg.Scheme)
	if err != nil {
		return 0, false, err
	}
	e, err := l.cfg.Entries.Newest(ctx, path)
	if errors.Is(err, ErrNoEntry) {
		return 0, false, nil
	}
	v, ok := parseName(e.FileName)
	return v, ok, err
}

// Vacant sees that there are no entries at a place where a table is to be created, and
// no log is. *PathError if there are.
func (l *LogStore) Vacant(ctx context.Context, uri string) error {
	path, err := TablePath(uri, l.cfg.Scheme)
	if err != nil {
		return err
	}
	e, err := l.cfg.Entries.Newest(ctx, path)
	switch {
	case errors.Is(err, ErrNoEntry):
		return nil
	case err != nil:
		return fmt.Errorf("look for entries of %s: %w", path, err)
	}
	return &PathError{
		uri, fmt.Sprintf("has entries of a table that was dropped (newest %s)", e.FileName),
		"choose another place, or remove the entries of " + path + " once no writer of the old table is left; completed ones expire by themselves",
	}
}

const (
	logFolder  = "_delta_log/"
	tempFolder = ".tmp/"
	digits     = 20
)

// table is one table's store: what is not a commit passes through. It keeps nothing
// between calls.
type table struct {
	objstore.Store
	l      *LogStore
	path   string // key of its entries
	prefix string // key of its log's folder, with the slash
}

// versionOf is the version whose commit an object is.
func (t *table) versionOf(key string) (int64, bool) {
	name, ok := strings.CutPrefix(key, t.prefix)
	if !ok {
		return 0, false
	}
	return parseName(name)
}

func fileName(v int64) string { return fmt.Sprintf("%0*d.json", digits, v) }

func parseName(name string) (int64, bool) {
	number, ok := strings.CutSuffix(name, ".json")
	if !ok || len(number) != digits {
		return 0, false
	}
	var v int64
	for _, c := range []byte(number) {
		if c < '0' || c > '9' || v > (1<<62)/10 {
			return 0, false
		}
		v = 10*v + int64(c-'0')
	}
	return v, true
}

func (t *table) commitKey(v int64) string { return t.prefix + fileName(v) }

// Get reads an object. A commit that is claimed and not there yet is brought there.
func (t *table) Get(ctx context.Context, key string, r objstore.Range) ([]byte, objstore.Info, error) {
	data, info, err := t.Store.Get(ctx, key, r)
	if again, failed := t.settle(ctx, key, err); failed != nil || !again {
		return data, info, errors.Join(failed, err)
	}
	return t.Store.Get(ctx, key, r)
}

// Stat is Get without the bytes.
func (t *table) Stat(ctx context.Context, key string) (objstore.Info, error) {
	info, err := t.Store.Stat(ctx, key)
	if again, failed := t.settle(ctx, key, err); failed != nil || !again {
		return info, errors.Join(failed, err)
	}
	return t.Store.Stat(ctx, key)
}

// PutIfAbsent puts a commit by the protocol; the answers are those of the interface.
func (t *table) PutIfAbsent(ctx context.Context, key string, data []byte) error {
	if v, ok := t.versionOf(key); ok {
		return t.commit(ctx, v, data)
	}
	return t.Store.PutIfAbsent(ctx, key, data)
}

// Put refuses commits: they are never overwritten.
func (t *table) Put(ctx context.Context, key string, data []byte) error {
	if _, ok := t.versionOf(key); ok {
		return fmt.Errorf("put %s: a commit is put only if it is absent", key)
	}
	return t.Store.Put(ctx, key, data)
}

// List lists. In front of a listing of the log, the newest entry is repaired, as
// Spark does, so that no claimed version is missing from it.
func (t *table) List(ctx context.Context, o objstore.ListOptions) iter.Seq2[objstore.Entry, error] {
	return func(yield func(objstore.Entry, error) bool) {
		if o.Prefix == t.prefix && !t.l.weak.has(weakReadsUnsettled) {
			if err := t.repairNewest(ctx); err != nil {
				yield(objstore.Entry{}, err)
				return
			}
		}
		for e, err := range t.Store.List(ctx, o) {
			if !yield(e, err) {
				return
			}
		}
	}
}
