package lock

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/txcoord/txcoord/twophase"
)

// Present is the journal in a store, as it was read; nil if there is none. Begin
// replaces that one and no other. ErrUnfit while one is being copied there.
func Present(ctx context.Context, store Store) (*Meta, Revision, error) {
	m, rev, err := presentMeta(ctx, store)
	if errors.Is(err, ErrNotFound) {
		return nil, "", Unfinished(ctx, store)
	}
	if err != nil {
		return nil, "", err
	}
	return &m, rev, nil
}

// NewLife is a journal that is in no store yet.
func NewLife(store Store, meta Meta) *Journal {
	return &Journal{store: store, meta: meta, revisions: map[twophase.Position]Revision{}}
}

// Begin puts a NewLife that begins with entries into its store, in the place of the
// journal that was read there at a revision, or of none with an empty one.
//
// The ring comes first, under an incarnation that nobody else has, and the meta key
// last: until then there is no such journal, and whatever was written is found by
// nobody. So it may break off anywhere, and of any number of processes that do it one
// wins; the others get ErrUnfit. Nothing is deleted: the ring of the life before stays,
// since a replica of it that sleeps must not find its slots empty (R1).
func (j *Journal) Begin(ctx context.Context, entries [][]byte, replaces Revision) error {
	store, meta := j.store, j.meta
	if twophase.Position(len(entries)) >= j.Slots()/2 {
		return Mark(ErrUnfit, fmt.Errorf("a ring of %d slots is too small to begin with %d entries; say how many slots it shall have", meta.Slots, len(entries)))
	}
	for i, entry := range entries {
		if err := putSurely(ctx, store, j.key(twophase.Position(i)), pack(entry)); err != nil {
			return err
		}
	}
	value, err := json.Marshal(meta)
	if err != nil {
		return err
	}
	condition := IfAbsent()
	if replaces != "" {
		condition = IfRevision(replaces)
	}
	_, err = store.Put(ctx, MetaKey, value, condition)
	if err != nil && !errors.Is(err, ErrUnknown) && !errors.Is(err, ErrConflict) {
		return fmt.Errorf("write key %q: %w", MetaKey, err)
	}
	have, _, readErr := presentMeta(ctx, store)
	switch {
	case readErr == nil && have == meta:
		return nil
	case errors.Is(err, ErrConflict):
		return Mark(ErrUnfit, errors.New("another process has begun a journal in the store meanwhile: look at it before you try again"))
	}
	return fmt.Errorf("write key %q: %w", MetaKey, errors.Join(err, readErr, ErrUnknown))
}

func presentMeta(ctx context.Context, store Store) (Meta, Revision, error) {
	item, err := store.Get(ctx, MetaKey)
	if err != nil {
		return Meta{}, "", err
	}
	m, err := parseMeta(item.Value)
	return m, item.Revision, err
}
