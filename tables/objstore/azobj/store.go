package azobj

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azidentity"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"

	"github.com/txcoord/txcoord/tables/objstore"
	"github.com/txcoord/txcoord/tables/objstore/remote"
)

// Store is a container.
type Store struct {
	*remote.Store
	clock  remote.Clock
	driver driver
	cfg    Config
	base   *http.Transport
}

var (
	_ objstore.Conditional = (*Store)(nil)
	_ objstore.Clock       = (*Store)(nil)
)

// New prepares the use of a container. It talks to nobody; Check says whether the
// container can be used.
func New(_ context.Context, cfg Config) (*Store, error) {
	if err := cfg.validate(); err != nil {
		return nil, objstore.Mark(objstore.ErrMisconfigured, fmt.Errorf("container on Azure: %w", err))
	}
	if cfg.Endpoint == "" {
		cfg.Endpoint = "https://" + cfg.Account + ".blob.core.windows.net"
	}
	s := &Store{cfg: cfg}
	limits := cfg.remote()
	s.base = http.DefaultTransport.(*http.Transport).Clone()
	s.base.DisableCompression = true // bytes are bytes
	s.base.MaxIdleConns, s.base.MaxIdleConnsPerHost = limits.MaxRequests, limits.MaxRequests
	client, err := cfg.connect(&container.ClientOptions{ClientOptions: azcore.ClientOptions{
		Retry: policy.RetryOptions{MaxRetries: -1}, Transport: &http.Client{Transport: s.clock.Transport(s.base)},
	}})
	if err != nil {
		return nil, objstore.Mark(objstore.ErrMisconfigured, fmt.Errorf("container %s on Azure: %w", cfg.Container, err))
	}
	s.driver = driver{cfg, client}
	s.Store = remote.New(s.driver, limits)
	return s, nil
}

func (c Config) connect(o *container.ClientOptions) (*container.Client, error) {
	url := strings.TrimSuffix(c.Endpoint, "/") + "/" + c.Container
	switch {
	case c.Key != "":
		key, err := container.NewSharedKeyCredential(c.Account, c.Key)
		if err != nil {
			return nil, fmt.Errorf("the account's key: %w", err)
		}
		return container.NewClientWithSharedKeyCredential(url, key, o)
	case c.SAS != "":
		return container.NewClientWithNoCredential(url+"?"+strings.TrimPrefix(c.SAS, "?"), o)
	}
	chain, err := azidentity.NewDefaultAzureCredential(nil)
	if err != nil {
		return nil, err
	}
	return container.NewClient(url, chain, o)
}

// Close lets go of the connections.
func (s *Store) Close() error {
	s.base.CloseIdleConnections()
	return nil
}

// Ahead implements objstore.Clock by the Date header of answers.
func (s *Store) Ahead() (time.Duration, bool) { return s.clock.Ahead() }
