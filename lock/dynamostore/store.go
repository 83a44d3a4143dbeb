package dynamostore

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"
	"unicode/utf8"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/smithy-go/logging"

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
	client *dynamodb.Client
	http   aws.HTTPClient
	clock  clock
	region string
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
	if err == nil && cfg.Endpoint != "" {
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
	sdk, err := config.LoadDefaultConfig(ctx, cfg.options()...)
	if err != nil {
		return nil, lock.Mark(lock.ErrMisconfigured, fmt.Errorf("read AWS configuration: %w", err))
	}
	if sdk.Region == "" {
		return nil, lock.Mark(lock.ErrMisconfigured, fmt.Errorf("no region for table %s; name it, or set AWS_REGION", cfg.Table))
	}
	s := &Store{cfg: cfg, region: sdk.Region, http: sdk.HTTPClient}
	if b, ok := sdk.HTTPClient.(*awshttp.BuildableClient); ok {
		s.http = b.Freeze()
	}
	s.client = dynamodb.NewFromConfig(sdk, func(o *dynamodb.Options) {
		o.HTTPClient = dated{s.http, &s.clock}
		o.Retryer = aws.NopRetryer{}
		o.Logger = s
		if cfg.Endpoint != "" {
			o.BaseEndpoint = &cfg.Endpoint
			// The SDK takes an answer without a checksum for one whose checksum is 0.
			o.DisableValidateResponseChecksum = true
		}
	})
	return s, nil
}

func (c Config) options() []func(*config.LoadOptions) error {
	// As many connections are kept as there may be writers at once.
	pooled := awshttp.NewBuildableClient().WithTransportOptions(func(t *http.Transport) {
		t.MaxIdleConns, t.MaxIdleConnsPerHost = 1024, 512
	})
	options := []func(*config.LoadOptions) error{config.WithHTTPClient(pooled)}
	if c.Region != "" {
		options = append(options, config.WithRegion(c.Region))
	}
	if c.Profile != "" {
		options = append(options, config.WithSharedConfigProfile(c.Profile))
	}
	if c.AccessKey != "" {
		static := credentials.NewStaticCredentialsProvider(c.AccessKey, c.SecretKey, c.SessionToken)
		options = append(options, config.WithCredentialsProvider(static))
	}
	return options
}

// Logf implements smithy's logging.Logger: what the SDK has to say is for developers.
func (s *Store) Logf(class logging.Classification, format string, args ...any) {
	s.cfg.Log.Debug("AWS SDK: "+fmt.Sprintf(format, args...), "class", class)
}

// Close lets go of the connections. Later operations answer ErrClosed.
func (s *Store) Close() error {
	s.closed.Store(true)
	if c, ok := s.http.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
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
