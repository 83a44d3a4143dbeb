package sparktest

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// Dynamo are Entries in a table of DynamoDB, with the requests that Spark sends.
type Dynamo struct {
	Client *dynamodb.Client
	Table  string
}

// Connect makes a client for a server that is not AWS's. As in Spark's SDK, requests
// are repeated where nothing was heard, unless they have a condition.
func Connect(endpoint, region, accessKey, secretKey, table string) *Dynamo {
	return &Dynamo{dynamodb.New(dynamodb.Options{
		BaseEndpoint: &endpoint, Region: region, Credentials: credentials.NewStaticCredentialsProvider(accessKey, secretKey, ""),
		DisableValidateResponseChecksum: true,
	}), table}
}

// Create makes the table, as the log store does if it is not there.
func (d *Dynamo) Create(ctx context.Context) error {
	_, err := d.Client.CreateTable(ctx, &dynamodb.CreateTableInput{
		TableName: &d.Table,
		AttributeDefinitions: []types.AttributeDefinition{
			{AttributeName: aws.String("tablePath"), AttributeType: types.ScalarAttributeTypeS},
			{AttributeName: aws.String("fileName"), AttributeType: types.ScalarAttributeTypeS},
		},
		KeySchema: []types.KeySchemaElement{
			{AttributeName: aws.String("tablePath"), KeyType: types.KeyTypeHash},
			{AttributeName: aws.String("fileName"), KeyType: types.KeyTypeRange},
		},
		ProvisionedThroughput: &types.ProvisionedThroughput{ReadCapacityUnits: aws.Int64(5), WriteCapacityUnits: aws.Int64(5)},
	})
	var there *types.ResourceInUseException
	if errors.As(err, &there) {
		return nil
	}
	return err
}

func text(s string) types.AttributeValue { return &types.AttributeValueMemberS{Value: s} }

func entryOf(item map[string]types.AttributeValue) (e Entry, err error) {
	var complete string
	for name, to := range map[string]*string{"tablePath": &e.TablePath, "fileName": &e.FileName, "tempPath": &e.TempPath, "complete": &complete} {
		s, ok := item[name].(*types.AttributeValueMemberS)
		if !ok {
			return e, fmt.Errorf("NullPointerException: %s is %T", name, item[name])
		}
		*to = s.Value
	}
	e.Complete = complete == "true"
	if n, ok := item["expireTime"].(*types.AttributeValueMemberN); ok {
		e.ExpireTime, err = strconv.ParseInt(n.Value, 10, 64)
	}
	return e, err
}

func itemOf(e Entry) map[string]types.AttributeValue {
	item := map[string]types.AttributeValue{
		"tablePath": text(e.TablePath), "fileName": text(e.FileName), "tempPath": text(e.TempPath), "complete": text(strconv.FormatBool(e.Complete)),
	}
	if e.ExpireTime > 0 {
		item["expireTime"] = &types.AttributeValueMemberN{Value: strconv.FormatInt(e.ExpireTime, 10)}
	}
	return item
}

// Get implements Entries.
func (d *Dynamo) Get(ctx context.Context, tablePath, fileName string) (Entry, error) {
	out, err := d.Client.GetItem(ctx, &dynamodb.GetItemInput{
		TableName: &d.Table, ConsistentRead: aws.Bool(true),
		Key: map[string]types.AttributeValue{"tablePath": text(tablePath), "fileName": text(fileName)},
	})
	if err != nil {
		return Entry{}, err
	}
	if len(out.Item) == 0 {
		return Entry{}, ErrNoEntry
	}
	return entryOf(out.Item)
}

// Newest implements Entries.
func (d *Dynamo) Newest(ctx context.Context, tablePath string) (Entry, error) {
	out, err := d.Client.Query(ctx, &dynamodb.QueryInput{
		TableName: &d.Table, ConsistentRead: aws.Bool(true), ScanIndexForward: aws.Bool(false), Limit: aws.Int32(1),
		KeyConditionExpression:    aws.String("tablePath = :p"),
		ExpressionAttributeValues: map[string]types.AttributeValue{":p": text(tablePath)},
	})
	if err != nil {
		return Entry{}, err
	}
	if len(out.Items) == 0 {
		return Entry{}, ErrNoEntry
	}
	return entryOf(out.Items[0])
}

// PutNew implements Entries.
func (d *Dynamo) PutNew(ctx context.Context, e Entry) error {
	_, err := d.Client.PutItem(ctx, &dynamodb.PutItemInput{
		TableName: &d.Table, Item: itemOf(e), ConditionExpression: aws.String("attribute_not_exists(fileName)"),
	}, func(o *dynamodb.Options) { o.Retryer = aws.NopRetryer{} })
	var failed *types.ConditionalCheckFailedException
	if errors.As(err, &failed) {
		return ErrFailed
	}
	return err
}

// Put implements Entries.
func (d *Dynamo) Put(ctx context.Context, e Entry) error {
	_, err := d.Client.PutItem(ctx, &dynamodb.PutItemInput{TableName: &d.Table, Item: itemOf(e)})
	return err
}

// All reads every entry of a table.
func (d *Dynamo) All(ctx context.Context, tablePath string) ([]Entry, error) {
	var all []Entry
	pages := dynamodb.NewQueryPaginator(d.Client, &dynamodb.QueryInput{
		TableName: &d.Table, ConsistentRead: aws.Bool(true), KeyConditionExpression: aws.String("tablePath = :p"),
		ExpressionAttributeValues: map[string]types.AttributeValue{":p": text(tablePath)},
	})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, err
		}
		for _, item := range page.Items {
			e, err := entryOf(item)
			if err != nil {
				return nil, err
			}
			all = append(all, e)
		}
	}
	return all, nil
}
