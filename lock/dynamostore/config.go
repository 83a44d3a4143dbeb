package dynamostore

import (
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"regexp"
	"time"
	"unicode/utf8"
)

// Config says which table to use. Table is required; the zero value of the rest is
// usable.
type Config struct {
	// Table is the table's name.
	Table string
	// Region of the table; that of the environment or the shared configuration if empty.
	Region string
	// Endpoint is the URL of another server of the DynamoDB API; AWS's if empty.
	Endpoint string
	// Prefix stands in front of every partition key, so that catalogs can share a
	// table: "sales/".
	Prefix string
	// Profile of the shared configuration; the default chain of credentials if empty.
	Profile string
	// AccessKey, SecretKey and SessionToken are credentials in place of the chain's,
	// for servers that are not AWS.
	AccessKey, SecretKey, SessionToken string
	// RequestTimeout bounds each request; default 3 s. A put that takes longer is
	// lock.ErrUnknown.
	RequestTimeout time.Duration
	// MaxValue is the size of the largest value, where a server takes less than AWS.
	MaxValue int
	// Log; discards if nil.
	Log *slog.Logger
}

// tableName is what DynamoDB takes for one.
var tableName = regexp.MustCompile(`^[A-Za-z0-9_.-]{3,255}$`)

// maxPrefix keeps partition keys well within their 2,048 bytes.
const maxPrefix = 255

func (c Config) withDefaults() Config {
	if c.RequestTimeout == 0 {
		c.RequestTimeout = 3 * time.Second
	}
	if c.MaxValue == 0 {
		c.MaxValue = MaxValue
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	return c
}

func (c Config) validate() error {
	if !tableName.MatchString(c.Table) {
		return fmt.Errorf("%q is not the name of a table: 3 to 255 letters, digits, and _ . -", c.Table)
	}
	if u, err := url.Parse(c.Endpoint); c.Endpoint != "" && (err != nil || u.Host == "") {
		return fmt.Errorf("endpoint %q is not a URL such as http://127.0.0.1:8000", c.Endpoint)
	}
	if len(c.Prefix) > maxPrefix || !utf8.ValidString(c.Prefix) {
		return fmt.Errorf("prefix of %d bytes; at most %d, in UTF-8", len(c.Prefix), maxPrefix)
	}
	if c.MaxValue < 0 || c.MaxValue > MaxValue {
		return fmt.Errorf("values of %d bytes; at most %d fit an item", c.MaxValue, MaxValue)
	}
	if (c.AccessKey == "") != (c.SecretKey == "") {
		return errors.New("an access key goes with a secret key")
	}
	return nil
}

// where names the table in errors.
func (c Config) where(region string) string {
	if c.Endpoint != "" {
		return fmt.Sprintf("table %s at %s", c.Table, c.Endpoint)
	}
	return fmt.Sprintf("table %s in %s", c.Table, region)
}
