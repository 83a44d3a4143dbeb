package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/txcoord/txcoord/lock"
	"github.com/txcoord/txcoord/lock/objectstore"
	"github.com/txcoord/txcoord/tables/objstore"
)

// bucketJournal: s3://bucket/prefix, and the like. How the bucket is reached says
// --bucket.
func bucketJournal(s storeSpec) (*journalStore, error) {
	p, err := parsePlace(s.Store)
	if err != nil {
		return nil, s.bad(err.Error())
	}
	if strings.Contains(s.Store, "?") {
		return nil, s.bad("leave the options out, and say --bucket " + p.root + "?name=value&name=value")
	}
	if _, err := s.parse(); err != nil {
		return nil, err
	}
	prefix := strings.TrimSuffix(s.prefix(p.key), "/")
	open := func(ctx context.Context) (lock.Store, error) {
		b, err := s.BucketFlags.open(ctx, p, s.log)
		if err != nil {
			return nil, err
		}
		items := objstore.Conditional(b)
		if s.readOnly {
			items = objstore.ReadOnly(b)
		} else if err := b.Check(ctx, prefix); err != nil {
			return nil, errors.Join(err, b.Close())
		}
		store, err := objectstore.Open(ctx, objectstore.Config{Objects: items, Prefix: prefix})
		if errors.Is(err, objstore.ErrReadOnly) {
			err = lock.Mark(lock.ErrUnfit, fmt.Errorf("there is no journal below %s/%s: %w", p.root, prefix, errUnmade))
		}
		if err != nil {
			return nil, errors.Join(err, b.Close())
		}
		return bucketStore{store, b}, nil
	}
	at := s.Store
	if p.key == "" {
		at = p.root + "/" + prefix
	}
	return &journalStore{name: "objects below " + p.root + "/" + prefix, place: at, shared: true, open: open}, nil
}

// bucketStore closes the bucket with the journal.
type bucketStore struct {
	*objectstore.Store
	bucket bucket
}

func (b bucketStore) Close() error { return errors.Join(b.Store.Close(), b.bucket.Close()) }
