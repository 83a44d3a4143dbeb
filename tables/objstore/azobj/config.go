package azobj

import (
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"time"

	"github.com/txcoord/txcoord/tables/objstore/remote"
)

// Config says which container to use. Account and Container are required; the zero
// value of the rest is usable.
type Config struct {
	// Account is the storage account's name.
	Account string
	// Container is the container's name.
	Container string
	// Endpoint is the URL of the account's blobs; default
	// https://ACCOUNT.blob.core.windows.net. Servers that are not Azure have the
	// account in the path.
	Endpoint string
	// Key is the account's key, SAS a token for it. With neither, the default
	// credentials: the environment's, a workload's, the machine's, the command line's.
	Key, SAS string
	// RequestTimeout, MaxRequests and HedgeAfter are those of remote.Config.
	RequestTimeout time.Duration
	MaxRequests    int
	HedgeAfter     time.Duration
}

// What Azure takes for names.
var (
	accountName   = regexp.MustCompile(`^[a-z0-9]{3,24}$`)
	containerName = regexp.MustCompile(`^[a-z0-9$][a-z0-9-]{2,62}$`)
)

func (c Config) remote() remote.Config {
	return remote.Config{RequestTimeout: c.RequestTimeout, MaxRequests: c.MaxRequests, HedgeAfter: c.HedgeAfter}.WithDefaults()
}

func (c Config) validate() error {
	switch {
	case !accountName.MatchString(c.Account):
		return fmt.Errorf("%q is not the name of a storage account: 3 to 24 small letters and digits", c.Account)
	case !containerName.MatchString(c.Container):
		return fmt.Errorf("%q is not the name of a container: 3 to 63 small letters, digits, and -", c.Container)
	case c.RequestTimeout < 0, c.MaxRequests < 0, c.HedgeAfter < 0:
		return errors.New("a time, or a number of requests, is below 0")
	case c.Key != "" && c.SAS != "":
		return errors.New("a key and a SAS token; give one of them")
	}
	if u, err := url.Parse(c.Endpoint); c.Endpoint != "" && (err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https") {
		return fmt.Errorf("endpoint %q is not a URL such as http://127.0.0.1:10000/%s", c.Endpoint, c.Account)
	}
	return nil
}
