package dynamoapi

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"regexp"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go/logging"

	"github.com/txcoord/txcoord/internal/awsprofile"
)

// Config says which table. Name is required; the zero value of the rest is usable.
type Config struct {
	Name string
	// Region of the table; that of the environment or the shared configuration if empty.
	Region string
	// Endpoint is the URL of another server of the DynamoDB API; AWS's if empty.
	Endpoint string
	// Profile of the shared configuration; the default chain of credentials if empty.
	Profile string
	// AccessKey, SecretKey and SessionToken are credentials in place of the chain's.
	AccessKey, SecretKey, SessionToken string
	// RequestTimeout bounds each request; default 3 s.
	RequestTimeout time.Duration
	// Log; discards if nil.
	Log *slog.Logger
	// Wrap is put around what sends the requests; may be nil.
	Wrap func(aws.HTTPClient) aws.HTTPClient
}

// DefaultTimeout of a request.
const DefaultTimeout = 3 * time.Second

// tableName is what DynamoDB takes for one.
var tableName = regexp.MustCompile(`^[A-Za-z0-9_.-]{3,255}$`)

// Validate refuses what cannot be a table's place.
func (c Config) Validate() error {
	if !tableName.MatchString(c.Name) {
		return fmt.Errorf("%q is not the name of a table: 3 to 255 letters, digits, and _ . -", c.Name)
	}
	if u, err := url.Parse(c.Endpoint); c.Endpoint != "" && (err != nil || u.Host == "") {
		return fmt.Errorf("endpoint %q is not a URL such as http://127.0.0.1:8000", c.Endpoint)
	}
	if (c.AccessKey == "") != (c.SecretKey == "") {
		return errors.New("an access key goes with a secret key")
	}
	return nil
}

// Table is a table and the way to it.
type Table struct {
	Client *dynamodb.Client
	Name   string
	// Where names the table for people.
	Where   string
	region  string
	timeout time.Duration
	log     *slog.Logger
	http    aws.HTTPClient
}

// Connect makes a client; it talks to nobody but those who know credentials. An error
// is one of the configuration.
func Connect(ctx context.Context, c Config) (*Table, error) {
	if c.RequestTimeout == 0 {
		c.RequestTimeout = DefaultTimeout
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if err := c.Validate(); err != nil {
		return nil, err
	}
	sdk, err := config.LoadDefaultConfig(ctx, c.options()...)
	if err != nil {
		return nil, awsprofile.Explain(err)
	}
	if sdk.Region == "" {
		return nil, fmt.Errorf("no region for table %s; name it, or set AWS_REGION", c.Name)
	}
	t := &Table{Name: c.Name, Where: c.where(sdk.Region), region: sdk.Region, timeout: c.RequestTimeout, log: c.Log, http: sdk.HTTPClient}
	if b, ok := sdk.HTTPClient.(*awshttp.BuildableClient); ok {
		t.http = b.Freeze()
	}
	t.Client = dynamodb.NewFromConfig(sdk, func(o *dynamodb.Options) {
		if o.HTTPClient = t.http; c.Wrap != nil {
			o.HTTPClient = c.Wrap(t.http)
		}
		o.Retryer = aws.NopRetryer{}
		o.Logger = t
		if c.Endpoint != "" {
			o.BaseEndpoint = &c.Endpoint
			// The SDK takes an answer without a checksum for one whose checksum is 0.
			o.DisableValidateResponseChecksum = true
		}
	})
	return t, nil
}

func (c Config) where(region string) string {
	if c.Endpoint != "" {
		return fmt.Sprintf("table %s at %s", c.Name, c.Endpoint)
	}
	return fmt.Sprintf("table %s in %s", c.Name, region)
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

// ID names the table, whatever the way to it.
func (t *Table) ID() string { return fmt.Sprintf("DynamoDB table %s in %s", t.Name, t.region) }

// Logf implements smithy's logging.Logger: what the SDK has to say is for developers.
func (t *Table) Logf(class logging.Classification, format string, args ...any) {
	t.log.Debug("AWS SDK: "+fmt.Sprintf(format, args...), "class", class)
}

// Close lets go of the connections.
func (t *Table) Close() {
	if c, ok := t.http.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}

// Describe reads the table's description.
func (t *Table) Describe(ctx context.Context) (*types.TableDescription, error) {
	var out *dynamodb.DescribeTableOutput
	err := t.Read(ctx, func(ctx context.Context) (err error) {
		out, err = t.Client.DescribeTable(ctx, &dynamodb.DescribeTableInput{TableName: &t.Name})
		return err
	})
	if err != nil {
		return nil, err
	}
	return out.Table, nil
}

// HasKeys reports whether the table's keys are these two, and both text.
func HasKeys(d *types.TableDescription, hash, sort string) bool {
	kinds := map[string]types.ScalarAttributeType{}
	for _, a := range d.AttributeDefinitions {
		kinds[aws.ToString(a.AttributeName)] = a.AttributeType
	}
	roles := map[string]types.KeyType{}
	for _, k := range d.KeySchema {
		roles[aws.ToString(k.AttributeName)] = k.KeyType
	}
	return len(roles) == 2 && roles[hash] == types.KeyTypeHash && roles[sort] == types.KeyTypeRange &&
		kinds[hash] == types.ScalarAttributeTypeS && kinds[sort] == types.ScalarAttributeTypeS
}
