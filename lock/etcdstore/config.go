package etcdstore

import (
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"strings"
	"time"
)

// Config says where the cluster is and how to treat it. Endpoints are required; the
// zero value of the rest is usable.
type Config struct {
	// Endpoints of the members, as URLs: http://host:2379, https://host:2379.
	Endpoints []string
	// TLS for https endpoints; the system's certificates if nil. See LoadTLS.
	TLS *tls.Config
	// Username and Password, where the cluster asks for them. The user needs read and
	// write permission on Prefix.
	Username, Password string
	// Prefix stands in front of every key, so that catalogs and other users can share
	// a cluster: "txcoord/sales/".
	Prefix string
	// MaxRequest is the size of the largest request that the cluster takes: its
	// --max-request-bytes; default 1.5 MiB, which is etcd's own.
	MaxRequest int
	// MaxOps is the number of operations that the cluster takes in one transaction:
	// its --max-txn-ops; default 128, which is etcd's own.
	MaxOps int
	// RequestTimeout bounds each request; default 3 s. A put that takes longer is
	// lock.ErrUnknown.
	RequestTimeout time.Duration
	// NoCompaction leaves compaction to others: to etcd's --auto-compaction-retention,
	// or to those who share the cluster and read old revisions.
	NoCompaction bool
	// UpkeepEvery is the time between looks at the cluster: compaction and quota;
	// default 30 s. What is older than two of them is compacted.
	UpkeepEvery time.Duration
	// UpkeepBytes has the store look sooner when it has written so much; default 64 MiB.
	UpkeepBytes int64
	// Quota of a member in bytes, for clusters older than 3.6, which do not tell;
	// default 2 GiB, which is etcd's own.
	Quota int64
	// OnUsage, if set, gets the use of each member at each look, for metrics.
	OnUsage func(Usage)
	// Log; discards if nil.
	Log *slog.Logger
}

// overhead is what a request has beside keys and values, with room to spare.
const overhead = 16 << 10

func (c Config) withDefaults() Config {
	setDefault(&c.MaxRequest, 3<<19)
	setDefault(&c.MaxOps, 128)
	setDefault(&c.RequestTimeout, 3*time.Second)
	setDefault(&c.UpkeepEvery, 30*time.Second)
	setDefault(&c.UpkeepBytes, 64<<20)
	setDefault(&c.Quota, 2<<30)
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	return c
}

func setDefault[N int | int64 | time.Duration](field *N, value N) {
	if *field == 0 {
		*field = value
	}
}

func (c Config) validate() error {
	if len(c.Endpoints) == 0 {
		return errors.New("no endpoints; name at least one, as in http://127.0.0.1:2379")
	}
	for _, e := range c.Endpoints {
		u, err := url.Parse(e)
		if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
			return fmt.Errorf("endpoint %q is not http://host:port or https://host:port", e)
		}
		if u.Scheme != strings.SplitN(c.Endpoints[0], ":", 2)[0] {
			return fmt.Errorf("endpoints %s and %s differ in http and https", c.Endpoints[0], e)
		}
	}
	if c.TLS != nil && !c.secure() {
		return errors.New("TLS is configured and the endpoints are http://; say https://")
	}
	if (c.Username == "") != (c.Password == "") {
		return errors.New("a user name goes with a password")
	}
	if c.MaxRequest < 4*overhead || c.MaxOps < 4 {
		return fmt.Errorf("limits of %d bytes and %d operations are too small", c.MaxRequest, c.MaxOps)
	}
	return nil
}

func (c Config) secure() bool { return strings.HasPrefix(c.Endpoints[0], "https:") }
