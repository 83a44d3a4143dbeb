package gcsobj

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	"cloud.google.com/go/storage"
	"google.golang.org/api/option"
	htransport "google.golang.org/api/transport/http"

	"github.com/txcoord/txcoord/tables/objstore"
	"github.com/txcoord/txcoord/tables/objstore/remote"
)

// Store is a bucket.
type Store struct {
	*remote.Store
	clock  remote.Clock
	driver driver
	cfg    Config
	client *storage.Client
	base   *http.Transport
}

var (
	_ objstore.Conditional = (*Store)(nil)
	_ objstore.Clock       = (*Store)(nil)
)

// New prepares the use of a bucket. It talks to nobody but those who know
// credentials; Check says whether the bucket can be used.
func New(ctx context.Context, cfg Config) (*Store, error) {
	if err := cfg.validate(); err != nil {
		return nil, objstore.Mark(objstore.ErrMisconfigured, fmt.Errorf("GCS bucket: %w", err))
	}
	s := &Store{cfg: cfg}
	options := []option.ClientOption{option.WithScopes(storage.ScopeReadWrite)}
	switch {
	case cfg.Anonymous:
		options = append(options, option.WithoutAuthentication())
	case cfg.CredentialsFile != "":
		options = append(options, option.WithAuthCredentialsFile(option.ServiceAccount, cfg.CredentialsFile))
	}
	limits := cfg.remote()
	s.base = http.DefaultTransport.(*http.Transport).Clone()
	s.base.DisableCompression = true // bytes are bytes
	s.base.MaxIdleConns, s.base.MaxIdleConnsPerHost = limits.MaxRequests, limits.MaxRequests
	authorized, err := htransport.NewTransport(ctx, s.clock.Transport(s.base), options...)
	if err != nil {
		return nil, objstore.Mark(objstore.ErrDenied, fmt.Errorf("GCS bucket %s: %s: %w", cfg.Bucket, remedy, err))
	}
	// The transport has what credentials there are. Without being told so the client
	// would look for those of the application, the user and the machine once more, and
	// ask a metadata service for them, whatever the configuration says.
	options = []option.ClientOption{
		option.WithHTTPClient(&http.Client{Transport: authorized}), option.WithoutAuthentication(), storage.WithJSONReads(),
	}
	if cfg.Endpoint != "" {
		options = append(options, option.WithEndpoint(strings.TrimSuffix(cfg.Endpoint, "/")+"/"))
	}
	if s.client, err = storage.NewClient(ctx, options...); err != nil {
		return nil, objstore.Mark(objstore.ErrMisconfigured, fmt.Errorf("GCS bucket %s: %w", cfg.Bucket, err))
	}
	s.client.SetRetry(storage.WithPolicy(storage.RetryNever))
	s.driver = driver{cfg.Bucket, s.client.Bucket(cfg.Bucket)}
	s.Store = remote.New(s.driver, limits)
	return s, nil
}

// remedy for credentials that are missing or wrong.
const remedy = "set GOOGLE_APPLICATION_CREDENTIALS to a key's file, name one with credentials, or give the machine a service account"

// Close lets go of the connections.
func (s *Store) Close() error {
	err := s.client.Close()
	s.base.CloseIdleConnections()
	return err
}

// Ahead implements objstore.Clock by the Date header of answers.
func (s *Store) Ahead() (time.Duration, bool) { return s.clock.Ahead() }
