package dynamostore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/txcoord/txcoord/internal/dynamoapi"
	"github.com/txcoord/txcoord/lock"
)

// creationLimit is how long a new table may take until it can be used.
const creationLimit = 3 * time.Minute

// Init makes the table if it is not there: on demand, and protected against
// deletion. It returns once the table can be used, and reports whether it was made.
// A table that is there is checked, and otherwise left as it is.
func Init(ctx context.Context, cfg Config) (made bool, err error) {
	s, err := connect(ctx, cfg)
	if err != nil {
		return false, fmt.Errorf("init DynamoDB store: %w", err)
	}
	made, err = s.create(ctx)
	if err == nil {
		err = s.awaitTable(ctx)
	}
	if err == nil {
		err = s.checkLayout(ctx)
	}
	if err == nil {
		err = s.probe(ctx)
	}
	if err != nil {
		return made, errors.Join(fmt.Errorf("init DynamoDB store: %w", s.explain(err)), s.Close())
	}
	return made, s.Close()
}

func (s *Store) create(ctx context.Context) (made bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, 10*s.cfg.RequestTimeout)
	defer cancel()
	_, err = s.table.Client.CreateTable(ctx, &dynamodb.CreateTableInput{
		TableName:   &s.cfg.Table,
		BillingMode: types.BillingModePayPerRequest,
		AttributeDefinitions: []types.AttributeDefinition{
			{AttributeName: aws.String(partitionKey), AttributeType: types.ScalarAttributeTypeS},
			{AttributeName: aws.String(sortKey), AttributeType: types.ScalarAttributeTypeS},
		},
		KeySchema: []types.KeySchemaElement{
			{AttributeName: aws.String(partitionKey), KeyType: types.KeyTypeHash},
			{AttributeName: aws.String(sortKey), KeyType: types.KeyTypeRange},
		},
		DeletionProtectionEnabled: aws.Bool(true),
	})
	var there *types.ResourceInUseException
	if errors.As(err, &there) {
		return false, nil
	}
	return err == nil, err
}

// errNotActive: the table is being made or changed.
var errNotActive = errors.New("the table is not active")

func (s *Store) awaitTable(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, creationLimit)
	defer cancel()
	for {
		err := s.checkTable(ctx)
		var missing *types.ResourceNotFoundException // It is not known everywhere at once.
		if !errors.Is(err, errNotActive) && !errors.As(err, &missing) {
			return err
		}
		select {
		case <-time.After(500 * time.Millisecond):
		case <-ctx.Done():
			return err
		}
	}
}

// checkTable sees that the table is one that a journal can stand in. Without the
// permission to look, it is left to the first request.
func (s *Store) checkTable(ctx context.Context) error {
	d, err := s.table.Describe(ctx)
	if dynamoapi.KindOf(err) == dynamoapi.Forbidden {
		s.cfg.Log.Warn("the table was not checked: no permission dynamodb:DescribeTable", "table", s.cfg.Table)
		return nil
	}
	if err != nil {
		return err
	}
	return s.checkDescription(d)
}

func (s *Store) checkDescription(d *types.TableDescription) error {
	if !dynamoapi.HasKeys(d, partitionKey, sortKey) {
		return because(lock.ErrUnfit, "its keys are not %s and %s, both text; name another table, or make one with txcoord store init", partitionKey, sortKey)
	}
	if len(d.Replicas) > 0 {
		return because(lock.ErrUnfit, "it is a global table, whose regions do not see each other's conditions; give txcoord a table in one region")
	}
	switch d.TableStatus {
	case types.TableStatusActive, types.TableStatusUpdating:
		return nil
	default:
		return fmt.Errorf("%w: %s", errNotActive, d.TableStatus)
	}
}

// layoutKey holds the format of the layout. Written by whoever comes first. It lies
// in a partition of its own, where no scan looks.
const (
	layoutKey    = "layout"
	layoutFormat = "1"
)

func (s *Store) checkLayout(ctx context.Context) error {
	place := map[string]types.AttributeValue{partitionKey: text(s.cfg.Prefix + layoutKey), sortKey: text(layoutKey)}
	for {
		var out *dynamodb.GetItemOutput
		err := s.table.Read(ctx, func(ctx context.Context) (err error) {
			out, err = s.table.Client.GetItem(ctx, &dynamodb.GetItemInput{TableName: &s.cfg.Table, Key: place, ConsistentRead: aws.Bool(true)})
			return err
		})
		if err != nil {
			return err
		}
		if format, ok := out.Item[valueAttr].(*types.AttributeValueMemberS); ok {
			if format.Value == layoutFormat {
				return nil
			}
			return because(lock.ErrUnfit, "its layout is of format %q, and this build knows %s; use the build that made it, or a newer one", format.Value, layoutFormat)
		}
		if s.cfg.ReadOnly {
			return because(lock.ErrUnfit, "it holds no journal at prefix %s; name the one that the catalog is in", s.cfg.Prefix)
		}
		if err := s.putLayout(ctx, place); err != nil && !errors.Is(err, lock.ErrConflict) && !errors.Is(err, lock.ErrUnknown) {
			return err
		}
		if err := ctx.Err(); err != nil {
			return err
		}
	}
}

func (s *Store) putLayout(ctx context.Context, place map[string]types.AttributeValue) error {
	item := map[string]types.AttributeValue{valueAttr: text(layoutFormat)}
	for name, value := range place {
		item[name] = value
	}
	in := &dynamodb.PutItemInput{TableName: &s.cfg.Table, Item: item}
	conditional(in, lock.IfAbsent())
	return s.write(ctx, func(ctx context.Context) error {
		_, err := s.table.Client.PutItem(ctx, in)
		return err
	})
}
