package logstore

import (
	"context"
	"errors"
	"fmt"

	"github.com/txcoord/txcoord/tables/objstore"
)

// settle looks, where an object was not found, whether it is a commit that is claimed,
// and brings it there. again: it may be there by now.
func (t *table) settle(ctx context.Context, key string, found error) (again bool, err error) {
	v, ok := t.versionOf(key)
	if !ok || !errors.Is(found, objstore.ErrNotFound) || t.l.weak.has(weakReadsUnsettled) {
		return false, nil
	}
	e, err := t.entry(ctx, v)
	if err != nil || e == nil {
		return false, err
	}
	if e.Complete { // since the look, or its log was cleaned
		return true, nil
	}
	return true, t.repair(ctx, v, *e)
}

// entry of a version; nil if there is none.
func (t *table) entry(ctx context.Context, v int64) (*Entry, error) {
	e, err := t.l.cfg.Entries.Get(ctx, t.path, fileName(v))
	if errors.Is(err, ErrNoEntry) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the entry of %s: %w", t.commitKey(v), err)
	}
	return &e, nil
}

func (t *table) repairNewest(ctx context.Context) error {
	e, err := t.l.cfg.Entries.Newest(ctx, t.path)
	if errors.Is(err, ErrNoEntry) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read the newest entry of %s: %w", t.path, err)
	}
	if e.Complete {
		return nil
	}
	v, ok := parseName(e.FileName)
	if !ok {
		return t.wrong(e.FileName, "its name is not that of a commit", "remove the entry, after a look at what wrote it")
	}
	return t.repair(ctx, v, e)
}

func (t *table) wrong(name, reason, remedy string) error {
	return &EntryError{TablePath: t.path, FileName: name, Reason: reason, Remedy: remedy}
}

const dropped = "the table was dropped, or its log was damaged: if it was dropped, and no writer of it is left, remove the entries of this table path"

// repair finishes a commit that somebody claimed: the copy first, then the mark, so
// that a complete entry's commit is always there. Any number of processes may do it
// at once. Incomplete entries below are finished first: readers look at the newest
// only.
func (t *table) repair(ctx context.Context, v int64, e Entry) error {
	if v > 0 {
		below, err := t.entry(ctx, v-1)
		if err != nil {
			return err
		}
		if below != nil && !below.Complete {
			if err := t.repair(ctx, v-1, *below); err != nil {
				return err
			}
		}
	}
	if err := t.copyTemp(ctx, v, e); err != nil {
		return err
	}
	return t.complete(ctx, e)
}

func (t *table) copyTemp(ctx context.Context, v int64, e Entry) error {
	there, err := t.has(ctx, v)
	if err != nil || there {
		return err
	}
	temp, err := t.tempKey(e)
	if err != nil {
		return err
	}
	data, _, err := t.Store.Get(ctx, temp, objstore.Range{})
	if errors.Is(err, objstore.ErrNotFound) {
		// Some writers move the file, so the commit may have come from where it went.
		if there, err = t.has(ctx, v); err != nil || there {
			return err
		}
		return t.wrong(e.FileName, "it is incomplete, and neither the commit nor "+temp+" exists",
			"the commit is lost; remove the entry if its writer was never told that it had succeeded, restore the file otherwise")
	}
	if err != nil {
		return fmt.Errorf("read %s: %w", temp, err)
	}
	if err := t.hasBelow(ctx, v, e.FileName); err != nil {
		return err
	}
	if t.l.weak.has(weakOverwrites) {
		return t.Store.Put(ctx, t.commitKey(v), data)
	}
	err = t.Store.PutIfAbsent(ctx, t.commitKey(v), data)
	if err != nil && !errors.Is(err, objstore.ErrExists) {
		return fmt.Errorf("copy %s: %w", temp, err)
	}
	return nil
}

// has looks at the store itself.
func (t *table) has(ctx context.Context, v int64) (bool, error) {
	_, err := t.Store.Stat(ctx, t.commitKey(v))
	if errors.Is(err, objstore.ErrNotFound) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("look at %s: %w", t.commitKey(v), err)
	}
	return true, nil
}

// hasBelow: there is a commit below a version, or a checkpoint that stands for it.
func (t *table) hasBelow(ctx context.Context, v int64, name string) error {
	if v == 0 {
		return nil
	}
	there, err := t.has(ctx, v-1)
	if err != nil || there {
		return err
	}
	prefix := fmt.Sprintf("%s%0*d.checkpoint", t.prefix, digits, v-1)
	for _, err := range t.Store.List(ctx, objstore.ListOptions{Prefix: prefix}) {
		if err != nil {
			return fmt.Errorf("look for %s: %w", prefix, err)
		}
		return nil
	}
	return t.wrong(name, "there is neither a commit nor a checkpoint of the version below it", dropped)
}

func (t *table) complete(ctx context.Context, e Entry) error {
	expires := t.l.cfg.Now().Add(t.l.cfg.TTL).Unix()
	if err := t.l.cfg.Entries.Complete(ctx, e, expires); err != nil {
		return fmt.Errorf("complete the entry of %s%s: %w", t.prefix, e.FileName, err)
	}
	return nil
}
