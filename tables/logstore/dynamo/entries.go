package dynamo

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/txcoord/txcoord/internal/dynamoapi"
	"github.com/txcoord/txcoord/tables/logstore"
)

// The attributes of an entry.
const (
	tablePathAttr = "tablePath"
	fileNameAttr  = "fileName"
	tempPathAttr  = "tempPath"
	completeAttr  = "complete"
	expiresAttr   = "expireTime"
)

type item = map[string]types.AttributeValue

func text(s string) types.AttributeValue { return &types.AttributeValueMemberS{Value: s} }

func keyOf(tablePath, fileName string) item {
	return item{tablePathAttr: text(tablePath), fileNameAttr: text(fileName)}
}

// decode reads an item. What Spark would not understand is an error.
func decode(it item) (logstore.Entry, error) {
	var e logstore.Entry
	read := func(name string, to *string) error {
		switch v := it[name].(type) {
		case *types.AttributeValueMemberS:
			*to = v.Value
		case nil:
		default:
			return &logstore.EntryError{
				TablePath: e.TablePath, FileName: e.FileName, Reason: fmt.Sprintf("its %s is not text", name),
				Remedy: "Spark cannot read it either; correct it, after a look at what wrote it",
			}
		}
		return nil
	}
	var complete string
	err := errors.Join(read(tablePathAttr, &e.TablePath), read(fileNameAttr, &e.FileName), read(tempPathAttr, &e.TempPath), read(completeAttr, &complete))
	if err != nil {
		return e, err
	}
	e.Complete = complete == "true"
	if n, ok := it[expiresAttr].(*types.AttributeValueMemberN); ok {
		e.Expires, _ = strconv.ParseInt(n.Value, 10, 64)
	}
	return e, nil
}

// Get reads an entry.
func (s *Entries) Get(ctx context.Context, tablePath, fileName string) (logstore.Entry, error) {
	var out *dynamodb.GetItemOutput
	err := s.table.Read(ctx, func(ctx context.Context) (err error) {
		out, err = s.table.Client.GetItem(ctx, &dynamodb.GetItemInput{
			TableName: &s.table.Name, Key: keyOf(tablePath, fileName), ConsistentRead: aws.Bool(true),
		})
		return err
	})
	if err != nil {
		return logstore.Entry{}, s.explain(err)
	}
	if len(out.Item) == 0 {
		return logstore.Entry{}, logstore.ErrNoEntry
	}
	return decode(out.Item)
}

// Newest reads the entry of a table's highest version. Items that are not named like
// a version are passed over.
func (s *Entries) Newest(ctx context.Context, tablePath string) (logstore.Entry, error) {
	var out *dynamodb.QueryOutput
	err := s.table.Read(ctx, func(ctx context.Context) (err error) {
		out, err = s.table.Client.Query(ctx, &dynamodb.QueryInput{
			TableName: &s.table.Name, ConsistentRead: aws.Bool(true), ScanIndexForward: aws.Bool(false), Limit: aws.Int32(1),
			KeyConditionExpression: aws.String(tablePathAttr + " = :p AND " + fileNameAttr + " BETWEEN :a AND :z"),
			ExpressionAttributeValues: item{
				":p": text(tablePath), ":a": text("00000000000000000000.json"), ":z": text("99999999999999999999.json"),
			},
		})
		return err
	})
	switch {
	case err != nil:
		return logstore.Entry{}, s.explain(err)
	case len(out.Items) == 0:
		return logstore.Entry{}, logstore.ErrNoEntry
	}
	return decode(out.Items[0])
}

// Claim writes an incomplete entry if there is none of its key.
func (s *Entries) Claim(ctx context.Context, e logstore.Entry) (logstore.Entry, error) {
	it := keyOf(e.TablePath, e.FileName)
	it[tempPathAttr], it[completeAttr] = text(e.TempPath), text("false")
	err := s.table.Write(ctx, func(ctx context.Context) error {
		_, err := s.table.Client.PutItem(ctx, &dynamodb.PutItemInput{
			TableName: &s.table.Name, Item: it, ConditionExpression: aws.String("attribute_not_exists(" + fileNameAttr + ")"),
			ReturnValuesOnConditionCheckFailure: types.ReturnValuesOnConditionCheckFailureAllOld,
		})
		return err
	})
	var failed *types.ConditionalCheckFailedException
	switch {
	case err == nil:
		return logstore.Entry{}, nil
	case errors.As(err, &failed) && len(failed.Item) > 0:
		held, bad := decode(failed.Item)
		if bad != nil {
			return held, bad // the claim was refused, by something that is no entry
		}
		return held, fmt.Errorf("%w: %w", logstore.ErrClaimed, err)
	case errors.Is(err, dynamoapi.ErrCondition):
		return logstore.Entry{}, fmt.Errorf("%w: %w", logstore.ErrClaimed, err)
	case errors.Is(err, dynamoapi.ErrUnknown):
		return logstore.Entry{}, fmt.Errorf("%w: %w", logstore.ErrUnknown, err)
	}
	return logstore.Entry{}, s.explain(err)
}

// Complete marks the entry if it is the same incomplete one.
func (s *Entries) Complete(ctx context.Context, e logstore.Entry, expires int64) error {
	err := s.table.Write(ctx, func(ctx context.Context) error {
		_, err := s.table.Client.UpdateItem(ctx, &dynamodb.UpdateItemInput{
			TableName: &s.table.Name, Key: keyOf(e.TablePath, e.FileName),
			UpdateExpression:    aws.String("SET " + completeAttr + " = :true, " + expiresAttr + " = :expires"),
			ConditionExpression: aws.String(tempPathAttr + " = :temp AND " + completeAttr + " = :false"),
			ExpressionAttributeValues: item{
				":true": text("true"), ":false": text("false"), ":temp": text(e.TempPath),
				":expires": &types.AttributeValueMemberN{Value: strconv.FormatInt(expires, 10)},
			},
		})
		return err
	})
	switch {
	case err == nil, errors.Is(err, dynamoapi.ErrCondition):
		return nil
	case errors.Is(err, dynamoapi.ErrUnknown):
		return fmt.Errorf("%w: %w", logstore.ErrUnknown, err)
	}
	return s.explain(err)
}
