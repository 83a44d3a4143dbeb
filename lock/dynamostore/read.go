package dynamostore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/txcoord/txcoord/lock"
)

// Get reads a key.
func (s *Store) Get(ctx context.Context, key string) (lock.Item, error) {
	item, err := s.get(ctx, key)
	if err != nil {
		return lock.Item{}, fmt.Errorf("get %s: %w", key, err)
	}
	return item, nil
}

func (s *Store) get(ctx context.Context, key string) (lock.Item, error) {
	if err := errors.Join(checkKey(key), s.ready(ctx)); err != nil {
		return lock.Item{}, err
	}
	var out *dynamodb.GetItemOutput
	err := s.read(ctx, func(ctx context.Context) (err error) {
		out, err = s.client.GetItem(ctx, &dynamodb.GetItemInput{
			TableName: &s.cfg.Table, Key: s.place(key), ConsistentRead: aws.Bool(true),
		})
		return err
	})
	if err != nil {
		return lock.Item{}, err
	}
	if len(out.Item) == 0 {
		return lock.Item{}, lock.ErrNotFound
	}
	return decode(out.Item)
}

// read asks until it is answered, or the time of a request is over: reading again
// does no harm. Each try has a part of the time only, so that one connection that
// hangs does not use it up.
func (s *Store) read(ctx context.Context, send func(ctx context.Context) error) error {
	bounded, cancel := context.WithTimeout(ctx, s.cfg.RequestTimeout)
	defer cancel()
	for wait := 20 * time.Millisecond; ; wait = min(2*wait, 500*time.Millisecond) {
		err := once(bounded, s.cfg.RequestTimeout/3, send)
		if err == nil || !passing(err) || !sleep(bounded, jitter(wait)) {
			return s.ownTimeout(ctx, bounded, err)
		}
	}
}

func once(ctx context.Context, limit time.Duration, send func(ctx context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	return send(ctx)
}
