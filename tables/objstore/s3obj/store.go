package s3obj

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/smithy-go/logging"

	"github.com/txcoord/txcoord/internal/awsprofile"
	"github.com/txcoord/txcoord/tables/objstore"
	"github.com/txcoord/txcoord/tables/objstore/remote"
)

// Store is a bucket.
type Store struct {
	*remote.Store
	driver driver
	cfg    Config
	region string
	http   *client
}

var (
	_ objstore.Conditional = (*Store)(nil)
	_ objstore.Clock       = (*Store)(nil)
)

// New prepares the use of a bucket. It talks to nobody but those who know
// credentials; Check says whether the bucket can be used.
func New(ctx context.Context, cfg Config) (*Store, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, objstore.Mark(objstore.ErrMisconfigured, fmt.Errorf("S3 bucket: %w", err))
	}
	sdk, err := config.LoadDefaultConfig(ctx, cfg.options()...)
	if err != nil {
		return nil, objstore.Mark(objstore.ErrMisconfigured, fmt.Errorf("S3 bucket %s: %w", cfg.Bucket, awsprofile.Explain(err)))
	}
	if sdk.Region == "" && cfg.Endpoint == "" {
		return nil, objstore.Mark(objstore.ErrMisconfigured, fmt.Errorf("no region for bucket %s; name it, or set AWS_REGION", cfg.Bucket))
	}
	if sdk.Region == "" {
		sdk.Region = defaultRegion
	}
	s := &Store{cfg: cfg, region: sdk.Region, http: &client{next: sdk.HTTPClient}}
	if b, ok := sdk.HTTPClient.(*awshttp.BuildableClient); ok {
		s.http.next = b.Freeze()
	}
	s.driver = driver{bucket: cfg.Bucket, client: s3.NewFromConfig(sdk, s.configure)}
	s.Store = remote.New(s.driver, cfg.remote())
	return s, nil
}

func (s *Store) configure(o *s3.Options) {
	o.HTTPClient = s.http
	o.Retryer = aws.NopRetryer{}
	o.Logger = s
	o.UsePathStyle = s.cfg.Addressing == PathStyle
	if s.cfg.Endpoint != "" {
		o.BaseEndpoint = &s.cfg.Endpoint
		// Servers that are not AWS trip over checksums in trailers. The signature
		// covers the content.
		o.RequestChecksumCalculation = aws.RequestChecksumCalculationWhenRequired
		o.ResponseChecksumValidation = aws.ResponseChecksumValidationWhenRequired
	}
}

func (c Config) options() []func(*config.LoadOptions) error {
	pooled := awshttp.NewBuildableClient().WithTransportOptions(func(t *http.Transport) {
		t.MaxIdleConns, t.MaxIdleConnsPerHost = c.MaxRequests, c.MaxRequests
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

// client is an HTTP client whose answers the clock looks at.
type client struct {
	remote.Clock
	next aws.HTTPClient
}

// Do implements aws.HTTPClient.
func (c *client) Do(r *http.Request) (*http.Response, error) { return c.See(r, c.next.Do) }

// Logf implements smithy's logging.Logger: what the SDK has to say is for developers.
func (s *Store) Logf(class logging.Classification, format string, args ...any) {
	s.cfg.Log.Debug("AWS SDK: "+fmt.Sprintf(format, args...), "class", class)
}

// Close lets go of the connections.
func (s *Store) Close() error {
	if c, ok := s.http.next.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
	return nil
}

// Ahead implements objstore.Clock by the Date header of answers.
func (s *Store) Ahead() (time.Duration, bool) { return s.http.Ahead() }
