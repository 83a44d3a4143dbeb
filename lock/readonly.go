package lock

import (
	"context"
	"errors"
	"fmt"
)

// ErrReadOnly: the store was opened to be read.
var ErrReadOnly = errors.New("opened to be read only")

// ReadOnly lets nothing be written: puts and deletes fail before they reach the store.
func ReadOnly(s Store) Store { return readOnly{s} }

type readOnly struct{ s Store }

func (readOnly) Put(_ context.Context, key string, _ []byte, _ Condition) (Revision, error) {
	return "", fmt.Errorf("put %s: %w", key, ErrReadOnly)
}

func (r readOnly) Get(ctx context.Context, key string) (Item, error) { return r.s.Get(ctx, key) }

func (r readOnly) Scan(ctx context.Context, prefix, after string, limit int) ([]Item, error) {
	return r.s.Scan(ctx, prefix, after, limit)
}

func (readOnly) Delete(_ context.Context, key string) error {
	return fmt.Errorf("delete %s: %w", key, ErrReadOnly)
}

func (r readOnly) Close() error { return r.s.Close() }
