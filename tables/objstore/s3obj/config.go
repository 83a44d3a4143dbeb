package s3obj

import (
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"regexp"
	"strings"
	"time"

	"github.com/txcoord/txcoord/tables/objstore/remote"
)

// Config says which bucket to use. Bucket is required; the zero value of the rest
// is usable.
type Config struct {
	// Bucket is the bucket's name.
	Bucket string
	// Region of the bucket; that of the environment or the shared configuration if empty.
	Region string
	// Endpoint is the URL of another server of the S3 API; AWS's if empty.
	Endpoint string
	// Addressing is where requests name the bucket. Default: in the path where an
	// endpoint is set, else in the host.
	Addressing Addressing
	// Profile of the shared configuration; the default chain of credentials if empty.
	Profile string
	// AccessKey, SecretKey and SessionToken are credentials in place of the chain's,
	// for servers that are not AWS.
	AccessKey, SecretKey, SessionToken string
	// RequestTimeout is how long a request may go on without a byte moving; default
	// 10 s. A put that stalls longer is unknown, and settled by reading.
	RequestTimeout time.Duration
	// MaxRequests bounds the requests in flight; more wait. Default 128.
	MaxRequests int
	// HedgeAfter sends a put a second time if it is not answered by then, which cuts
	// the slowest answers and costs a request for each. The late one of the two may
	// land long after, if the object was deleted in between. 0 never does.
	HedgeAfter time.Duration
	// Log; discards if nil.
	Log *slog.Logger
}

// Addressing is where a request names the bucket.
type Addressing string

// The ways of addressing.
const (
	DefaultAddressing Addressing = ""
	PathStyle         Addressing = "path"
	VirtualHost       Addressing = "virtual"
)

// bucketName is what S3 takes for one, and older buckets and other servers have.
var bucketName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{1,253}[A-Za-z0-9]$`)

// defaultRegion is what most servers that are not AWS call theirs.
const defaultRegion = "us-east-1"

func (c Config) remote() remote.Config {
	return remote.Config{RequestTimeout: c.RequestTimeout, MaxRequests: c.MaxRequests, HedgeAfter: c.HedgeAfter}
}

func (c Config) withDefaults() Config {
	r := c.remote().WithDefaults()
	c.RequestTimeout, c.MaxRequests = r.RequestTimeout, r.MaxRequests
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.Addressing == DefaultAddressing && c.Endpoint != "" {
		c.Addressing = PathStyle
	}
	return c
}

func (c Config) validate() error {
	switch {
	case !bucketName.MatchString(c.Bucket):
		return fmt.Errorf("%q is not the name of a bucket: 3 letters or more, digits, and . - _", c.Bucket)
	case strings.HasSuffix(c.Bucket, "--x-s3"):
		return fmt.Errorf("%s is a directory bucket, which lists its objects in no order; use a general purpose bucket", c.Bucket)
	case c.RequestTimeout < 0, c.MaxRequests < 0, c.HedgeAfter < 0:
		return errors.New("a time, or a number of requests, is below 0")
	case (c.AccessKey == "") != (c.SecretKey == ""):
		return errors.New("an access key goes with a secret key")
	}
	switch c.Addressing {
	case DefaultAddressing, PathStyle, VirtualHost:
	default:
		return fmt.Errorf("addressing %q is neither path nor virtual", c.Addressing)
	}
	if u, err := url.Parse(c.Endpoint); c.Endpoint != "" && (err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https") {
		return fmt.Errorf("endpoint %q is not a URL such as https://objects.example.com:9000", c.Endpoint)
	}
	return nil
}
