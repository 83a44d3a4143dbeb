package etcdstore

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/txcoord/txcoord/lock"
)

// ErrClosed: the store was closed. Nothing was carried out.
var ErrClosed = errors.New("store is closed")

// maxKey is the length of the longest key, with the prefix. etcd has no limit; this
// one keeps requests within what they may have beside values.
const maxKey = 4 << 10

// Store is a connection to a cluster.
type Store struct {
	cfg    Config
	client *clientv3.Client
	// maxValue follows from the size of requests.
	maxValue int
	mark     watermark
	closed   atomic.Bool

	// written counts bytes since the last look; wake has the upkeep look now.
	written atomic.Int64
	wake    chan struct{}
	usage   usages
	stop    context.CancelFunc
	stopped sync.WaitGroup
}

var (
	_ lock.Store   = (*Store)(nil)
	_ lock.Batcher = (*Store)(nil)
)

// Open connects to a cluster. It returns once the cluster has answered, and says
// what to do if it does not, or is one that loses data.
func Open(ctx context.Context, cfg Config) (*Store, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, lock.Mark(lock.ErrMisconfigured, fmt.Errorf("open etcd store: %w", err))
	}
	client, err := connect(cfg)
	if err != nil {
		return nil, fmt.Errorf("open etcd store: %w", explain(ctx, cfg, err))
	}
	s := &Store{
		cfg: cfg, client: client, maxValue: cfg.MaxRequest - overhead,
		wake: make(chan struct{}, 1),
	}
	if err := s.check(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("open etcd store: %w", err), client.Close())
	}
	background, stop := context.WithCancel(context.Background())
	s.stop = stop
	s.stopped.Go(func() { s.upkeep(background) })
	return s, nil
}

// connect makes a client that tries everything once: what may be repeated is
// repeated here, where it is known to be safe.
func connect(cfg Config) (*clientv3.Client, error) {
	c := clientv3.Config{
		Endpoints:          cfg.Endpoints,
		TLS:                cfg.TLS,
		Username:           cfg.Username,
		Password:           cfg.Password,
		MaxUnaryRetries:    1,
		MaxCallSendMsgSize: cfg.MaxRequest + 512<<10,
		// etcd closes connections that ping more often than every 5 s.
		DialKeepAliveTime:    6 * time.Second,
		DialKeepAliveTimeout: 3 * time.Second,
		DialTimeout:          cfg.RequestTimeout,
		Logger:               zap.NewNop(),
	}
	return clientv3.New(c)
}

// check sees that the cluster answers, that the user may read, and that its version
// is one that keeps what it acknowledges.
func (s *Store) check(ctx context.Context) error {
	if _, err := s.Get(ctx, lock.MetaKey); err != nil && !errors.Is(err, lock.ErrNotFound) {
		return explain(ctx, s.cfg, err)
	}
	for _, endpoint := range s.cfg.Endpoints {
		status, err := s.status(ctx, endpoint)
		if err != nil {
			continue // Not all members have to be there.
		}
		if err := checkVersion(endpoint, status.Version); err != nil {
			return lock.Mark(lock.ErrUnfit, err)
		}
	}
	return nil
}

// checkVersion refuses what is known to lose acknowledged writes (etcd issues 13766,
// 14370, 14685).
func checkVersion(endpoint, version string) error {
	var major, minor, patch int
	if _, err := fmt.Sscanf(version, "%d.%d.%d", &major, &minor, &patch); err != nil {
		return nil // A build with a name of its own; whoever made it knows.
	}
	if major < 3 || major == 3 && (minor < 5 || minor == 5 && patch < 6) {
		return fmt.Errorf("%s runs etcd %s, which can lose acknowledged writes; upgrade to 3.5.6 or newer", endpoint, version)
	}
	return nil
}

// Close ends the connection. Later operations answer ErrClosed.
func (s *Store) Close() error {
	if s.closed.Swap(true) {
		return nil
	}
	s.stop()
	s.stopped.Wait()
	if err := s.client.Close(); err != nil && !errors.Is(err, context.Canceled) {
		return fmt.Errorf("close etcd store: %w", err)
	}
	return nil
}

// MaxValue is the size of the largest value.
func (s *Store) MaxValue() int { return s.maxValue }

// ready says why an operation cannot be carried out at all.
func (s *Store) ready(ctx context.Context, keys ...string) error {
	for _, key := range keys {
		if key == "" {
			return errors.New("empty key")
		}
		if n := len(s.cfg.Prefix) + len(key); n > maxKey {
			return fmt.Errorf("key of %d bytes, limit %d", n, maxKey)
		}
	}
	if s.closed.Load() {
		return ErrClosed
	}
	if err := s.mark.err(); err != nil {
		return err
	}
	return ctx.Err()
}

func (s *Store) key(key string) string { return s.cfg.Prefix + key }
