package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/txcoord/txcoord/coordinator"
	"github.com/txcoord/txcoord/tables/logstore"
	"github.com/txcoord/txcoord/tables/logstore/dynamo"
)

// logStoreForm is how --log-store is written.
const logStoreForm = "dynamodb://TABLE?region=REGION&scheme=s3a"

// sharedLog is what --log-store says.
type sharedLog struct {
	entries dynamo.Config
	scheme  string
	ttl     time.Duration
}

// parseLogStore reads dynamodb://table?region=…&endpoint=…&profile=…&scheme=s3a&ttl=24h&timeout=3s.
func parseLogStore(s string) (*sharedLog, error) {
	bad := func(remedy string) (*sharedLog, error) { return nil, usage("--log-store", shown(s), remedy) }
	rest, ok := strings.CutPrefix(s, "dynamodb://")
	table, query, _ := strings.Cut(rest, "?")
	if !ok || table == "" || strings.ContainsAny(table, "/@") {
		return bad("write " + logStoreForm)
	}
	options, err := url.ParseQuery(query)
	if err != nil {
		return bad("write the options behind ? as name=value&name=value")
	}
	out := &sharedLog{
		entries: dynamo.Config{Table: table, Region: options.Get("region"), Endpoint: options.Get("endpoint"), Profile: options.Get("profile")},
		scheme:  options.Get("scheme"),
	}
	if wrong := wrongOption(options, []string{"region", "endpoint", "profile", "scheme", "ttl", "timeout"}); wrong != "" {
		return bad(wrong)
	}
	if withoutPassword(out.entries.Endpoint) != out.entries.Endpoint {
		return bad("leave user and password out of the endpoint: credentials are read from files and variables")
	}
	if out.scheme != "" && !slices.Contains(logstore.Schemes, out.scheme) {
		return bad("the scheme is how Spark's users write tables on S3: " + strings.Join(logstore.Schemes, ", "))
	}
	for name, to := range map[string]*time.Duration{"ttl": &out.ttl, "timeout": &out.entries.RequestTimeout} {
		if !options.Has(name) {
			continue
		}
		if *to, err = time.ParseDuration(options.Get(name)); err != nil || *to <= 0 {
			return bad(name + " is a duration, such as 24h or 3s")
		}
	}
	if out.ttl != 0 && out.ttl < logstore.MinTTL {
		return bad(fmt.Sprintf("entries have to stay for at least %s, or a writer that slept could take a version again", logstore.MinTTL))
	}
	return out, nil
}

// openLogStore opens what --log-store names; nil without one. The second result lets
// go of it.
func (c *Config) openLogStore(ctx context.Context, log *slog.Logger) (coordinator.LogStore, func() error, error) {
	nothing := func() error { return nil }
	if c.LogStore == "" {
		return nil, nothing, nil
	}
	shared, err := parseLogStore(c.LogStore)
	if err != nil {
		return nil, nothing, err
	}
	shared.entries.Log = log
	entries, err := dynamo.Open(ctx, shared.entries)
	if err != nil {
		return nil, nothing, logStoreCoded(err)
	}
	store, err := logstore.New(logstore.Config{Entries: entries, Name: entries.Name(), Scheme: shared.scheme, TTL: shared.ttl, Log: log})
	if err != nil {
		return nil, nothing, errors.Join(err, entries.Close())
	}
	return store, entries.Close, nil
}

// logStoreCoded gives the reasons their exit codes.
func logStoreCoded(err error) error {
	for reason, code := range map[error]int{
		dynamo.ErrMisconfigured: exitUsage, dynamo.ErrUnfit: exitPrecondition, dynamo.ErrMissing: exitNotFound,
		dynamo.ErrDenied: exitDenied, dynamo.ErrUnreachable: exitUnavailable,
	} {
		if errors.Is(err, reason) {
			return &codedError{err, code}
		}
	}
	return err
}
