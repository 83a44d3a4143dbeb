package s3obj

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/smithy-go/logging"

	"github.com/txcoord/txcoord/tables/objstore"
)

// Store is a bucket.
type Store struct {
	cfg    Config
	client *s3.Client
	clock  *clock
	region string
	slots  chan struct{} // one for each request in flight
}

var (
	_ objstore.Store       = (*Store)(nil)
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
		return nil, objstore.Mark(objstore.ErrMisconfigured, fmt.Errorf("S3 bucket %s: read AWS configuration: %w", cfg.Bucket, err))
	}
	if sdk.Region == "" && cfg.Endpoint == "" {
		return nil, objstore.Mark(objstore.ErrMisconfigured, fmt.Errorf("no region for bucket %s; name it, or set AWS_REGION", cfg.Bucket))
	}
	if sdk.Region == "" {
		sdk.Region = defaultRegion
	}
	s := &Store{cfg: cfg, region: sdk.Region, slots: make(chan struct{}, cfg.MaxRequests)}
	s.clock = &clock{client: sdk.HTTPClient}
	if b, ok := sdk.HTTPClient.(*awshttp.BuildableClient); ok {
		s.clock.client = b.Freeze()
	}
	s.client = s3.NewFromConfig(sdk, func(o *s3.Options) {
		o.HTTPClient = s.clock
		o.Retryer = aws.NopRetryer{}
		o.Logger = s
		o.UsePathStyle = cfg.Addressing == PathStyle
		if cfg.Endpoint != "" {
			o.BaseEndpoint = &cfg.Endpoint
			// Servers that are not AWS trip over checksums in trailers. The signature
			// covers the content.
			o.RequestChecksumCalculation = aws.RequestChecksumCalculationWhenRequired
			o.ResponseChecksumValidation = aws.ResponseChecksumValidationWhenRequired
		}
	})
	return s, nil
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

// Logf implements smithy's logging.Logger: what the SDK has to say is for developers.
func (s *Store) Logf(class logging.Classification, format string, args ...any) {
	s.cfg.Log.Debug("AWS SDK: "+fmt.Sprintf(format, args...), "class", class)
}

// Close lets go of the connections.
func (s *Store) Close() error {
	if c, ok := s.clock.client.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
	return nil
}

// Ahead implements objstore.Clock by the Date header of answers.
func (s *Store) Ahead() (time.Duration, bool) { return s.clock.ahead() }

// Get reads an object, or a range of it.
func (s *Store) Get(ctx context.Context, key string, r objstore.Range) ([]byte, objstore.Info, error) {
	data, info, err := s.get(ctx, key, r)
	if err != nil {
		return nil, objstore.Info{}, fmt.Errorf("get %s: %w", s.name(key), err)
	}
	return data, info, nil
}

func (s *Store) get(ctx context.Context, key string, r objstore.Range) (data []byte, info objstore.Info, err error) {
	if err := objstore.CheckKey(key); err != nil {
		return nil, info, err
	}
	if _, _, err := r.Clip(0); err != nil {
		return nil, info, err
	}
	err = s.read(ctx, func(ctx context.Context, moved func()) (err error) {
		data, info, err = s.getOnce(ctx, key, r, moved)
		return err
	})
	if isStatus(err, http.StatusRequestedRangeNotSatisfiable) {
		// The range begins at the end, or the object is empty.
		info, err = s.stat(ctx, key)
		return []byte{}, info, err
	}
	return data, info, err
}

func (s *Store) getOnce(ctx context.Context, key string, r objstore.Range, moved func()) ([]byte, objstore.Info, error) {
	out, err := s.client.GetObject(ctx, &s3.GetObjectInput{Bucket: &s.cfg.Bucket, Key: &key, Range: rangeHeader(r)})
	if err != nil {
		return nil, objstore.Info{}, err
	}
	defer out.Body.Close()
	info := objstore.Info{Key: key, Size: aws.ToInt64(out.ContentLength), ETag: unquote(out.ETag), Modified: aws.ToTime(out.LastModified)}
	if out.ContentRange == nil {
		// The whole object was asked for, or it is empty, or the server knows no ranges.
		data, err := readBody(out.Body, info.Size, moved)
		if err != nil {
			return nil, objstore.Info{}, err
		}
		from, length, err := r.Clip(info.Size)
		return data[from : from+length], info, err
	}
	length := info.Size
	if r.Length > 0 {
		length = min(length, r.Length) // a range from the end cannot say so
	}
	_, total, _ := strings.Cut(*out.ContentRange, "/")
	if info.Size, err = strconv.ParseInt(total, 10, 64); err != nil {
		return nil, objstore.Info{}, fmt.Errorf("content range %q of the server: %w", *out.ContentRange, err)
	}
	data, err := readBody(out.Body, length, moved)
	return data, info, err
}

func readBody(r io.Reader, length int64, moved func()) ([]byte, error) {
	data := make([]byte, length)
	for n := 0; n < len(data); {
		m, err := io.ReadFull(r, data[n:min(n+chunk, len(data))])
		if err != nil {
			return nil, fmt.Errorf("%w: %w", errCutOff, err)
		}
		n += m
		moved()
	}
	return data, nil
}

// chunk is how much of a body is read between two looks at the clock.
const chunk = 256 << 10

func rangeHeader(r objstore.Range) *string {
	switch {
	case r == (objstore.Range{}):
		return nil
	case r.Offset < 0:
		return aws.String(fmt.Sprintf("bytes=%d", r.Offset))
	case r.Length == 0:
		return aws.String(fmt.Sprintf("bytes=%d-", r.Offset))
	default:
		return aws.String(fmt.Sprintf("bytes=%d-%d", r.Offset, r.Offset+r.Length-1))
	}
}

// Stat is Get without the bytes.
func (s *Store) Stat(ctx context.Context, key string) (objstore.Info, error) {
	err := objstore.CheckKey(key)
	var info objstore.Info
	if err == nil {
		info, err = s.stat(ctx, key)
	}
	if err != nil {
		return objstore.Info{}, fmt.Errorf("stat %s: %w", s.name(key), err)
	}
	return info, nil
}

func (s *Store) stat(ctx context.Context, key string) (objstore.Info, error) {
	out, err := s.head(ctx, key)
	if err != nil {
		return objstore.Info{}, err
	}
	return objstore.Info{Key: key, Size: aws.ToInt64(out.ContentLength), ETag: unquote(out.ETag), Modified: aws.ToTime(out.LastModified)}, nil
}

func (s *Store) head(ctx context.Context, key string) (out *s3.HeadObjectOutput, err error) {
	err = s.read(ctx, func(ctx context.Context, _ func()) (err error) {
		out, err = s.client.HeadObject(ctx, &s3.HeadObjectInput{Bucket: &s.cfg.Bucket, Key: &key})
		return err
	})
	return out, err
}

// Delete removes the object; a missing one is no error. It is sent once: repeated, it
// might meet an object that was put in between.
func (s *Store) Delete(ctx context.Context, key string) error {
	err := errors.Join(objstore.CheckKey(key), ctx.Err())
	if err == nil {
		var sent bool
		sent, err = s.once(ctx, func(ctx context.Context, _ func()) error {
			_, err := s.client.DeleteObject(ctx, &s3.DeleteObjectInput{Bucket: &s.cfg.Bucket, Key: &key})
			return err
		})
		if answerOf(err, sent, objstore.Always()) == open {
			err = fmt.Errorf("%w: %w", objstore.ErrUnknown, err)
		}
	}
	if err != nil && !errors.Is(err, objstore.ErrNotFound) {
		return fmt.Errorf("delete %s: %w", s.name(key), err)
	}
	return nil
}

// name is a key as errors say it.
func (s *Store) name(key string) string { return "s3://" + s.cfg.Bucket + "/" + key }

func unquote(etag *string) string { return strings.Trim(aws.ToString(etag), `"`) }
