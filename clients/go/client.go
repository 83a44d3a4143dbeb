package client

import (
	"fmt"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/resolver"

	txcoordv1 "github.com/txcoord/txcoord/proto/txcoord/v1"
)

// Options say how to talk to a server. The zero value is usable.
type Options struct {
	// Catalog goes out with every request that names none; empty is `default`.
	Catalog string
	// RetryFor bounds how long one call is repeated while its outcome is unknown or
	// the server cannot be reached; 0 is two minutes, negative means no repeating.
	// The context's deadline bounds it too.
	RetryFor time.Duration
	// TryFor bounds one try of a call, after which it is repeated, with twice the time:
	// a replica that is paused neither answers nor goes away. 0 is 5 s where Dial is
	// given several addresses, and no bound elsewhere.
	TryFor time.Duration
	// FailFast gives a call up at once when no server can be reached, as long as none has
	// been reached by this client. Without it the call is repeated for RetryFor.
	FailFast bool
	// Credentials secure the connection that Dial makes. nil: plain text, for
	// loopback and for networks that are secured otherwise.
	Credentials credentials.TransportCredentials
	// Token is asked for the token to show, for every call; nil shows none, and an empty
	// one is refused. It goes out over TLS, or to this machine: else Dial returns ErrPlainToken.
	Token func() (string, error)
	// DialOptions go to grpc.NewClient.
	DialOptions []grpc.DialOption
}

// Client is safe for concurrent use. Its fields are the generated stubs; every
// call through them is repeated and translated as the package says.
type Client struct {
	Transactions txcoordv1.TransactionServiceClient
	Tables       txcoordv1.TableServiceClient
	Snapshots    txcoordv1.SnapshotServiceClient
	Status       txcoordv1.StatusServiceClient
	Operations   txcoordv1.OperationServiceClient

	conn  *conn
	owned *grpc.ClientConn
}

// maxAnswer is what an answer may have: a snapshot of thousands of tables is past
// gRPC's 4 MiB.
const maxAnswer = 64 << 20

// Dial makes a client for a target in gRPC's syntax ("host:port",
// "dns:///txcoord:7070", "unix:path"), or for several replicas as a list of addresses
// ("a:7401,b:7401"). Calls go to the replicas in turn; one whose answer is lost, or
// does not come, is repeated at the next. Dial does not connect: the first call does.
// Close it.
func Dial(target string, o Options) (*Client, error) {
	creds := o.Credentials
	if creds == nil {
		creds = insecure.NewCredentials()
	}
	opts := []grpc.DialOption{
		grpc.WithTransportCredentials(creds),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxAnswer)),
		grpc.WithDefaultServiceConfig(`{"loadBalancingConfig":[{"round_robin":{}}]}`),
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: 50 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: 3 * time.Second},
			MinConnectTimeout: 5 * time.Second,
		}),
		// A server that hangs is found out in half a minute, not when the call ends.
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: 20 * time.Second, Timeout: 10 * time.Second}),
		grpc.WithDisableRetry(), // conn knows better what may be repeated
	}
	if o.Token != nil {
		if o.Credentials == nil && !local(target) {
			return nil, fmt.Errorf("connect to %s: %w", target, ErrPlainToken)
		}
		opts = append(opts, grpc.WithPerRPCCredentials(bearer{o.Token}))
	}
	all, names := addresses(target), resolver.Get("dns")
	if several := replicas(target); several != nil {
		target, names = several.Scheme()+":///", several
		if o.TryFor == 0 {
			o.TryFor = tryFor
		}
	}
	found := new(atomic.Int32)
	opts = append(append(opts, o.DialOptions...), grpc.WithResolvers(counted{names, found})) // the caller's own come first
	cc, err := grpc.NewClient(target, opts...)
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", target, err)
	}
	c := New(cc, o)
	c.conn.servers = found
	c.owned, c.conn.addresses, c.conn.creds, c.conn.tokenless = cc, all, o.Credentials, o.Token == nil
	return c, nil
}

// New makes a client on a connection of the caller's, which stays the caller's to
// close.
func New(cc grpc.ClientConnInterface, o Options) *Client {
	if o.RetryFor == 0 {
		o.RetryFor = 2 * time.Minute
	}
	c := &conn{under: cc, catalog: o.Catalog, retryFor: o.RetryFor, tryFor: o.TryFor, seen: new(atomic.Uint64), failFast: o.FailFast, reached: new(atomic.Bool), servers: new(atomic.Int32)}
	return &Client{
		Transactions: txcoordv1.NewTransactionServiceClient(c),
		Tables:       txcoordv1.NewTableServiceClient(c),
		Snapshots:    txcoordv1.NewSnapshotServiceClient(c),
		Status:       txcoordv1.NewStatusServiceClient(c),
		Operations:   txcoordv1.NewOperationServiceClient(c),
		conn:         c,
	}
}

// Close ends the connection that Dial made.
func (c *Client) Close() error {
	if c.owned == nil {
		return nil
	}
	return c.owned.Close()
}

// LatestSnapshot is the highest snapshot version that any answer has named, 0 if
// none has. Hand it to another process, and its reads contain what this one wrote.
func (c *Client) LatestSnapshot() uint64 { return c.conn.seen.Load() }

// Observe makes every later call answer from a state that contains the snapshot:
// the other half of LatestSnapshot.
func (c *Client) Observe(snapshot uint64) { c.conn.observe(snapshot) }
