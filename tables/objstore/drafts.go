package objstore

import (
	"context"
	"time"
)

// Drafter is a Store whose puts may leave something behind when their process dies: a
// file under a name that no listing shows.
type Drafter interface {
	// Drafts are those below a folder, "" for all, that are older than an age, by key.
	Drafts(ctx context.Context, folder string, age time.Duration) ([]Info, error)
	// RemoveDraft removes one that is still older than an age. One that is being written
	// all the same loses at most its put, which then says that nothing was written.
	RemoveDraft(ctx context.Context, key string, age time.Duration) (removed bool, err error)
}

// Drafts asks a store for its drafts; one that has no such thing has none.
func Drafts(ctx context.Context, s Store, folder string, age time.Duration) ([]Info, error) {
	if d, ok := s.(Drafter); ok {
		return d.Drafts(ctx, folder, age)
	}
	return nil, nil
}

// RemoveDraft removes a draft of a store that has such things.
func RemoveDraft(ctx context.Context, s Store, key string, age time.Duration) (removed bool, err error) {
	if d, ok := s.(Drafter); ok {
		return d.RemoveDraft(ctx, key, age)
	}
	return false, nil
}
