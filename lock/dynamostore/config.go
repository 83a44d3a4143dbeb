package dynamostore

import (
	"fmt"
	"log/slog"
	"time"
	"unicode/utf8"

	"github.com/txcoord/txcoord/internal/dynamoapi"
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
	// ReadOnly writes nothing into the table, not even to see whether it can be written.
	ReadOnly bool
	// Log; discards if nil.
	Log *slog.Logger
}

// maxPrefix keeps partition keys well within their 2,048 bytes.
const maxPrefix = 255

func (c Config) withDefaults() Config {
	if c.RequestTimeout == 0 {
		c.RequestTimeout = dynamoapi.DefaultTimeout
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
	if len(c.Prefix) > maxPrefix || !utf8.ValidString(c.Prefix) {
		return fmt.Errorf("prefix of %d bytes; at most %d, in UTF-8", len(c.Prefix), maxPrefix)
	}
	if c.MaxValue < 0 || c.MaxValue > MaxValue {
		return fmt.Errorf("values of %d bytes; at most %d fit an item", c.MaxValue, MaxValue)
	}
	return nil
}

// table is the way to the table.
func (c Config) table() dynamoapi.Config {
	return dynamoapi.Config{
		Name: c.Table, Region: c.Region, Endpoint: c.Endpoint, Profile: c.Profile,
		AccessKey: c.AccessKey, SecretKey: c.SecretKey, SessionToken: c.SessionToken, RequestTimeout: c.RequestTimeout, Log: c.Log,
	}
}
