package dynamostore

import (
	"context"
	"errors"
	"fmt"

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
	err := s.table.Read(ctx, func(ctx context.Context) (err error) {
		out, err = s.table.Client.GetItem(ctx, &dynamodb.GetItemInput{
			TableName: &s.cfg.Table, Key: s.place(key), ConsistentRead: aws.Bool(true),
		})
		return err
	})
	if err != nil {
		return lock.Item{}, s.refused(err)
	}
	if len(out.Item) == 0 {
		return lock.Item{}, lock.ErrNotFound
	}
	return decode(out.Item)
}
