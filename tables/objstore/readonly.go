package objstore

import (
	"context"
	"errors"
	"fmt"
	"iter"
)

// ErrReadOnly: the store is there to be read.
var ErrReadOnly = errors.New("opened to be read only")

// ReadOnly lets nothing be written: puts and deletes fail before they reach the store.
func ReadOnly(s Store) Conditional { return readOnly{s} }

type readOnly struct{ s Store }

func (r readOnly) Get(ctx context.Context, key string, at Range) ([]byte, Info, error) {
	return r.s.Get(ctx, key, at)
}

func (r readOnly) Stat(ctx context.Context, key string) (Info, error) { return r.s.Stat(ctx, key) }

func (readOnly) PutIfAbsent(_ context.Context, key string, _ []byte) error {
	return fmt.Errorf("put %s: %w", key, ErrReadOnly)
}

func (readOnly) Put(_ context.Context, key string, _ []byte) error {
	return fmt.Errorf("put %s: %w", key, ErrReadOnly)
}

func (readOnly) PutIf(_ context.Context, key string, _ []byte, _ Condition) (string, error) {
	return "", fmt.Errorf("put %s: %w", key, ErrReadOnly)
}

func (r readOnly) List(ctx context.Context, o ListOptions) iter.Seq2[Entry, error] {
	return r.s.List(ctx, o)
}

func (readOnly) Delete(_ context.Context, key string) error {
	return fmt.Errorf("delete %s: %w", key, ErrReadOnly)
}
