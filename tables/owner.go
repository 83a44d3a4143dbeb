package tables

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/txcoord/txcoord/tables/objstore"
	"github.com/txcoord/txcoord/twophase"
)

// Owner says which catalog a table belongs to (R21). It is the only object of ours
// below a table's log besides versions, and its folder in a listing tells a log
// that was dropped and made again from the one that we know (R9).
type Owner struct {
	Format      int              `json:"format"`
	Catalog     string           `json:"catalog"`
	Incarnation string           `json:"incarnation"`
	Table       twophase.TableID `json:"table"`
	// What the catalog calls the table and how it writes it, so that a rebuild finds it
	// (R7). Empty in objects of builds before; the catalog brings them up to date.
	Name string `json:"name,omitempty"`
	// Mode is open, exclusive or delta-storage. A fence shows in the table's protocol.
	Mode             string `json:"mode,omitempty"`
	OneTxnPerVersion bool   `json:"oneTxnPerVersion,omitempty"`
	// Since is when the object was written, as the store says; not part of it.
	Since time.Time `json:"-"`
}

const (
	ownerName   = ownerFolder + "owner.json"
	ownerFormat = 1
)

// OwnedError says that a table belongs to another catalog, or is another table of
// the same one.
type OwnedError struct {
	URI   string
	Owner Owner
}

func (e *OwnedError) Error() string {
	return fmt.Sprintf("table %s belongs to catalog %s as table %s; release it there, or take it over if that catalog is gone",
		e.URI, e.Owner.Catalog, e.Owner.Table)
}

// Owner reads the owner object. objstore.ErrNotFound if there is none; *LogError
// BadTags if it makes no sense.
func (l *Log) Owner(ctx context.Context) (*Owner, error) {
	o, _, err := l.owner(ctx)
	return o, err
}

func (l *Log) owner(ctx context.Context) (o *Owner, etag string, err error) {
	raw, info, err := l.Store.Get(ctx, l.prefix+ownerName, objstore.Range{})
	if err != nil {
		return nil, "", fmt.Errorf("read the owner of table %s: %w", l.URI, err)
	}
	o = &Owner{}
	if err := json.Unmarshal(raw, o); err != nil {
		return nil, "", l.fault(BadTags, ownerName, err)
	}
	if o.Format != ownerFormat || o.Catalog == "" {
		return nil, "", l.fault(BadTags, ownerName, fmt.Errorf("format %d of catalog %q, this build knows format %d", o.Format, o.Catalog, ownerFormat))
	}
	o.Since = info.Modified
	return o, info.ETag, nil
}

// Claim makes a catalog the owner: the object is put if absent. Nil as well if it
// names this catalog and table already, in an older incarnation too (rebuild makes
// a new one): then it is brought up to date. *OwnedError if it names anybody else,
// and *LogError if it makes no sense, unless takeOver is set. objstore.ErrUnknown: ask
// again.
func (l *Log) Claim(ctx context.Context, o Owner, takeOver bool) error {
	o.Format, o.Since = ownerFormat, time.Time{}
	data, err := json.Marshal(o)
	if err != nil {
		return fmt.Errorf("claim table %s: %w", l.URI, err)
	}
	data = append(data, '\n')
	err = l.Store.PutIfAbsent(ctx, l.prefix+ownerName, data)
	if !errors.Is(err, objstore.ErrExists) {
		if err != nil {
			return fmt.Errorf("claim table %s: %w", l.URI, err)
		}
		return nil
	}
	for {
		present, etag, err := l.owner(ctx)
		if _, garbage := errors.AsType[*LogError](err); err != nil && !(garbage && takeOver) {
			return err
		}
		if err == nil {
			o.Since = present.Since
			ours := present.Catalog == o.Catalog && present.Table == o.Table
			switch {
			case *present == o:
				return nil
			case !ours && !takeOver:
				return &OwnedError{URI: l.URI, Owner: *present}
			}
		}
		err = l.replaceOwner(ctx, data, etag)
		if !errors.Is(err, objstore.ErrChanged) { // else somebody else claims it just now
			return err
		}
	}
}

// replaceOwner overwrites the owner object that was read, where the store can tell.
func (l *Log) replaceOwner(ctx context.Context, data []byte, etag string) (err error) {
	if store, ok := l.Store.(objstore.Conditional); ok && etag != "" {
		_, err = store.PutIf(ctx, l.prefix+ownerName, data, objstore.IfETag(etag))
	} else {
		err = l.Store.Put(ctx, l.prefix+ownerName, data)
	}
	if err != nil {
		return fmt.Errorf("claim table %s: %w", l.URI, err)
	}
	return nil
}

// Disclaim removes the owner object if it names this catalog and table: release.
func (l *Log) Disclaim(ctx context.Context, o Owner) error {
	present, err := l.Owner(ctx)
	if errors.Is(err, objstore.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	if present.Catalog != o.Catalog || present.Table != o.Table {
		return &OwnedError{URI: l.URI, Owner: *present}
	}
	if err := l.Store.Delete(ctx, l.prefix+ownerName); err != nil {
		return fmt.Errorf("disclaim table %s: %w", l.URI, err)
	}
	return nil
}
