package lock

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
)

// copyKey marks a store into which a journal is being copied: whose, so that the copy
// can be taken up again after it broke off, and by nobody else.
const copyKey = "copying"

// Copied says what Copy has done.
type Copied struct {
	Keys  int
	Bytes int64
	// Already: the whole journal was there.
	Already bool
}

// Copy copies everything but what leave names, and what probes left, from one store to another that is empty,
// or into which an earlier Copy of the same journal was begun. The journal's meta
// comes last, so that nobody can open what is not whole. Nothing may be appended to
// the journal meanwhile; other keys that come are copied, too, as long as some do.
func Copy(ctx context.Context, from, to Store, leave func(key string) bool) (Copied, error) {
	meta, already, err := PrepareCopy(ctx, from, to)
	if err != nil || already {
		return Copied{Already: already}, err
	}
	skip := func(key string) bool { return key == MetaKey || strings.HasPrefix(key, probeKeys) || leave(key) }
	var all Copied
	for {
		pass, err := copyOnce(ctx, from, to, skip)
		all.Keys, all.Bytes = all.Keys+pass.Keys, all.Bytes+pass.Bytes
		if err != nil {
			return all, err
		}
		if pass.Keys == 0 {
			break
		}
	}
	if err := putSurely(ctx, to, MetaKey, meta); err != nil {
		return all, err
	}
	return all, to.Delete(ctx, copyKey)
}

// PrepareCopy makes sure that a store may be copied to, and is this journal's from here
// on. already: the whole journal is there.
func PrepareCopy(ctx context.Context, from, to Store) (meta []byte, already bool, err error) {
	item, err := from.Get(ctx, MetaKey)
	if err != nil {
		return nil, false, fmt.Errorf("read the journal to copy: %w", err)
	}
	there, err := to.Get(ctx, MetaKey)
	switch {
	case err == nil && bytes.Equal(there.Value, item.Value):
		return item.Value, true, nil
	case err == nil:
		return nil, false, Mark(ErrUnfit, errors.New("the store to copy to holds another journal: give an empty store or another prefix"))
	case !errors.Is(err, ErrNotFound):
		return nil, false, fmt.Errorf("read the store to copy to: %w", err)
	}
	return item.Value, false, claimCopy(ctx, to, item.Value)
}

// claimCopy makes sure that the store is empty, or holds a copy of this journal that
// broke off.
func claimCopy(ctx context.Context, to Store, meta []byte) error {
	var m Meta
	if err := json.Unmarshal(meta, &m); err != nil {
		return fmt.Errorf("the journal's meta: %w", err)
	}
	claim := []byte(m.Catalog + " " + m.Incarnation)
	item, err := to.Get(ctx, copyKey)
	if err == nil {
		if !bytes.Equal(item.Value, claim) {
			return Mark(ErrUnfit, errors.New("another journal is being copied to the store"))
		}
		return nil
	}
	if !errors.Is(err, ErrNotFound) {
		return fmt.Errorf("read the store to copy to: %w", err)
	}
	key, used, err := holds(ctx, to)
	if err != nil {
		return fmt.Errorf("read the store to copy to: %w", err)
	}
	if used {
		return Mark(ErrUnfit, fmt.Errorf("the store to copy to is not empty, it has a key %q: give an empty store or another prefix", key))
	}
	return putSurely(ctx, to, copyKey, claim)
}

// Unfinished is ErrUnfit for a store into which a journal is being copied, as long as it
// is not whole there: it is not lost, and another one must not be begun in its place.
func Unfinished(ctx context.Context, s Store) error {
	_, err := s.Get(ctx, copyKey)
	switch {
	case errors.Is(err, ErrNotFound):
		return nil
	case err != nil:
		return fmt.Errorf("read whether a journal is being moved to the store: %w", err)
	}
	return Mark(ErrUnfit, errors.New("a journal is being moved to this store, and is not whole here yet: the same txcoord store move again goes on where it broke off; "+
		"if the store that it comes from is lost, give an empty store or another prefix"))
}

// holds is a key in a store that a probe has not left there.
func holds(ctx context.Context, s Store) (key string, used bool, err error) {
	for {
		items, err := s.Scan(ctx, "", key, 0)
		if err != nil || len(items) == 0 {
			return "", false, err
		}
		for _, item := range items {
			if key = item.Key; !strings.HasPrefix(key, probeKeys) {
				return key, true, nil
			}
		}
	}
}

// copyOnce copies what is not there yet, or otherwise.
func copyOnce(ctx context.Context, from, to Store, skip func(string) bool) (done Copied, err error) {
	for after := ""; ; {
		items, err := from.Scan(ctx, "", after, 0)
		if err != nil {
			return done, fmt.Errorf("read the journal to copy: %w", err)
		}
		if len(items) == 0 {
			return done, nil
		}
		for _, item := range items {
			after = item.Key
			if skip(item.Key) {
				continue
			}
			have, err := to.Get(ctx, item.Key)
			if err == nil && bytes.Equal(have.Value, item.Value) {
				continue
			}
			if err != nil && !errors.Is(err, ErrNotFound) {
				return done, fmt.Errorf("read the store to copy to: %w", err)
			}
			if err := putSurely(ctx, to, item.Key, item.Value); err != nil {
				return done, err
			}
			done.Keys, done.Bytes = done.Keys+1, done.Bytes+int64(len(item.Value))
		}
	}
}

// putSurely repeats a put whose outcome is unknown.
func putSurely(ctx context.Context, to Store, key string, value []byte) error {
	for wait := minRetry; ; wait = min(2*wait, maxRetry) {
		_, err := to.Put(ctx, key, value, Always())
		if !errors.Is(err, ErrUnknown) || ctx.Err() != nil {
			if err != nil {
				return fmt.Errorf("write key %q: %w", key, err)
			}
			return nil
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
		}
	}
}

// CheckSizes makes sure, before a journal is moved, that every value fits the store
// that it goes to.
func CheckSizes(ctx context.Context, from, to Store) error {
	sized, ok := to.(Sized)
	if !ok {
		return nil
	}
	for after := ""; ; {
		items, err := from.Scan(ctx, "", after, 0)
		if err != nil {
			return fmt.Errorf("read the journal to move: %w", err)
		}
		if len(items) == 0 {
			return nil
		}
		for _, item := range items {
			if after = item.Key; len(item.Value) > sized.MaxValue() {
				return Mark(ErrUnfit, fmt.Errorf("the value of key %q has %d bytes, and the store to move to takes %d", item.Key, len(item.Value), sized.MaxValue()))
			}
		}
	}
}
