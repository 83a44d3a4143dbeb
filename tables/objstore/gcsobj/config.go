package gcsobj

import (
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"time"

	"github.com/txcoord/txcoord/tables/objstore/remote"
)

// Config says which bucket to use. Bucket is required; the zero value of the rest is
// usable.
type Config struct {
	// Bucket is the bucket's name.
	Bucket string
	// Endpoint is the URL of another server of the API, such as
	// http://127.0.0.1:4443/storage/v1/; Google's if empty.
	Endpoint string
	// CredentialsFile is the file of a service account's key; the default credentials
	// of the application, the user or the machine if empty.
	CredentialsFile string
	// Anonymous asks without credentials.
	Anonymous bool
	// RequestTimeout, MaxRequests and HedgeAfter are those of remote.Config.
	RequestTimeout time.Duration
	MaxRequests    int
	HedgeAfter     time.Duration
}

// bucketName is what Google takes for one.
var bucketName = regexp.MustCompile(`^[a-z0-9][a-z0-9._-]{1,220}[a-z0-9]$`)

func (c Config) remote() remote.Config {
	return remote.Config{RequestTimeout: c.RequestTimeout, MaxRequests: c.MaxRequests, HedgeAfter: c.HedgeAfter}.WithDefaults()
}

func (c Config) validate() error {
	switch {
	case !bucketName.MatchString(c.Bucket):
		return fmt.Errorf("%q is not the name of a bucket: 3 small letters or more, digits, and . - _", c.Bucket)
	case c.RequestTimeout < 0, c.MaxRequests < 0, c.HedgeAfter < 0:
		return errors.New("a time, or a number of requests, is below 0")
	case c.Anonymous && c.CredentialsFile != "":
		return errors.New("anonymous, and a file of credentials; name one of them")
	}
	if u, err := url.Parse(c.Endpoint); c.Endpoint != "" && (err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https") {
		return fmt.Errorf("endpoint %q is not a URL such as http://127.0.0.1:4443/storage/v1/", c.Endpoint)
	}
	return nil
}
