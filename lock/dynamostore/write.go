package dynamostore

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/txcoord/txcoord/lock"
)

// Put writes a key under a condition and returns its new revision.
func (s *Store) Put(ctx context.Context, key string, value []byte, c lock.Condition) (lock.Revision, error) {
	rev, err := s.put(ctx, key, value, c)
	if err != nil {
		return "", fmt.Errorf("put %s: %w", key, err)
	}
	return rev, nil
}

func (s *Store) put(ctx context.Context, key string, value []byte, c lock.Condition) (lock.Revision, error) {
	if err := errors.Join(checkKey(key), s.ready(ctx)); err != nil {
		return "", err
	}
	if len(value) > s.cfg.MaxValue {
		return "", fmt.Errorf("%d bytes, limit %d: %w", len(value), s.cfg.MaxValue, lock.ErrTooLarge)
	}
	// Never given out before, not even by another client.
	version := rand.Text()
	item := s.place(key)
	item[valueAttr] = &types.AttributeValueMemberB{Value: append([]byte{}, value...)}
	item[versionAttr] = text(version)
	in := &dynamodb.PutItemInput{TableName: &s.cfg.Table, Item: item}
	conditional(in, c)
	err := s.write(ctx, func(ctx context.Context) error {
		_, err := s.table.Client.PutItem(ctx, in)
		return err
	})
	if err != nil && !isOurs(err, version) {
		return "", err
	}
	return lock.Revision(version), nil
}

// conditional adds the condition, and has the item that does not meet it returned.
func conditional(in *dynamodb.PutItemInput, c lock.Condition) {
	rev, ok := c.Revision()
	switch {
	case c.Absent():
		in.ConditionExpression = aws.String("attribute_not_exists(" + sortKey + ")")
	case ok:
		in.ConditionExpression = aws.String(versionAttr + " = :r")
		in.ExpressionAttributeValues = map[string]types.AttributeValue{":r": text(string(rev))}
	default:
		return
	}
	in.ReturnValuesOnConditionCheckFailure = types.ReturnValuesOnConditionCheckFailureAllOld
}

// isOurs reports whether a condition failed on the very item that this put has
// written: somebody on the way sent it twice.
func isOurs(err error, version string) bool {
	var failed *types.ConditionalCheckFailedException
	if !errors.As(err, &failed) {
		return false
	}
	held, ok := failed.Item[versionAttr].(*types.AttributeValueMemberS)
	return ok && held.Value == version
}

// Delete removes a key; a missing one is no error.
func (s *Store) Delete(ctx context.Context, key string) error {
	err := errors.Join(checkKey(key), s.ready(ctx))
	if err == nil {
		err = s.write(ctx, func(ctx context.Context) error {
			_, err := s.table.Client.DeleteItem(ctx, &dynamodb.DeleteItemInput{TableName: &s.cfg.Table, Key: s.place(key)})
			return err
		})
	}
	if err != nil {
		return fmt.Errorf("delete %s: %w", key, err)
	}
	return nil
}

// write sends a write once. It says what an error means.
func (s *Store) write(ctx context.Context, send func(ctx context.Context) error) error {
	return s.meaning(s.table.Write(ctx, send))
}
