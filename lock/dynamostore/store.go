package dynamostore

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"unicode/utf8"

	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/txcoord/txcoord/internal/dynamoapi"
	"github.com/txcoord/txcoord/lock"
)

// ErrClosed: the store was closed. Nothing was carried out.
var ErrClosed = errors.New("store is closed")

// MaxValue is the size of the largest value: DynamoDB's limit on an item, 400 KB, less
// its names and the longest keys.
const MaxValue = 400<<10 - 4<<10

// maxKey is DynamoDB's limit on a sort key.
const maxKey = 1024

// Store is a table.
type Store struct {
	cfg    Config
	table  *dynamoapi.Table
	clock  clock
	closed atomic.Bool
}

var _ lock.Store = (*Store)(nil)

// Open connects to a table that Init has made. It says what to do if there is none,
// if it may not be used, or if its server does not honour conditions.
func Open(ctx context.Context, cfg Config) (*Store, error) {
	s, err := connect(ctx, cfg)
	if err != nil {
		return nil, fmt.Errorf("open DynamoDB store: %w", err)
	}
	err = s.checkTable(ctx)
	if err == nil {
		err = s.checkLayout(ctx)
	}
	if err == nil && cfg.Endpoint != "" && !cfg.ReadOnly {
		err = s.probe(ctx)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open DynamoDB store: %w", s.explain(err)), s.Close())
	}
	return s, nil
}

// connect makes a client; it talks to nobody but those who know credentials.
func connect(ctx context.Context, cfg Config) (*Store, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, lock.Mark(lock.ErrMisconfigured, err)
	}
	s := &Store{cfg: cfg}
	way := cfg.table()
	way.Wrap = func(c aws.HTTPClient) aws.HTTPClient { return dated{c, &s.clock} }
	var err error
	if s.table, err = dynamoapi.Connect(ctx, way); err != nil {
		return nil, lock.Mark(lock.ErrMisconfigured, err)
	}
	return s, nil
}

// Close lets go of the connections. Later operations answer ErrClosed.
func (s *Store) Close() error {
	s.closed.Store(true)
	s.table.Close()
	return nil
}

// MaxValue is the size of the largest value.
func (s *Store) MaxValue() int { return s.cfg.MaxValue }

// ready says why an operation cannot be carried out at all.
func (s *Store) ready(ctx context.Context) error {
	if s.closed.Load() {
		return ErrClosed
	}
	return ctx.Err()
}

func checkKey(key string) error {
	switch {
	case key == "":
		return errors.New("empty key")
	case len(key) > maxKey:
		return fmt.Errorf("key of %d bytes, limit %d", len(key), maxKey)
	case !utf8.ValidString(key):
		return fmt.Errorf("key %q is not UTF-8", key)
	default:
		return nil
	}
}
