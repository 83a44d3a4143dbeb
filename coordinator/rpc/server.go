package rpc

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/reflection"

	"github.com/txcoord/txcoord/coordinator"
	"github.com/txcoord/txcoord/coordinator/access"
	"github.com/txcoord/txcoord/coordinator/quota"
	pb "github.com/txcoord/txcoord/proto/txcoord/v1"
)

// Config is what a server is made of.
type Config struct {
	// Catalogs by name; at least one, unless there is Find.
	Catalogs map[string]Catalog
	// Find finds a catalog in place of Catalogs, call by call: one that fell behind is
	// opened anew while the server runs. NoCatalog, or why it does not answer now.
	Find func(name string) (Catalog, error)
	// Dial connects to another replica, so that commits can be sent on to it (R15).
	// Nil: they are not.
	Dial func(address string) (*grpc.ClientConn, error)
	// Version is what GetStatus answers.
	Version string
	Limits  Limits
	// Quota bounds each principal in each catalog, where Access says nothing else; zero
	// fields bound nothing.
	Quota quota.Limits
	// Access says who may call, and what he may do then. Nil: everybody, everything.
	Access *access.Access
	// TLS encrypts what is not a Unix socket. Nil: nothing does.
	TLS *tls.Config
	// Audit gets a line for every call that asks for more than reading, for every one that
	// is refused for who makes it, and for every one whose request is not read. Nil: no lines.
	Audit *slog.Logger
	// Refused is told of the limit of each refusal for a quota; nil for nobody.
	Refused func(limit string)
	// Calls is told of every call but health checks; nil for nobody.
	Calls Calls
	// Log takes what clients may not see. Nil discards it.
	Log *slog.Logger
}

// Server serves catalogs on any number of listeners. It does not own the
// catalogs: close them after Stop.
type Server struct {
	grpc   *grpc.Server
	health *health.Server

	peers    *peers
	book     *quota.Book
	stop     sync.Once
	stopping chan struct{}
}

// pingTimeout is how long a connection has to answer a ping.
const pingTimeout = 10 * time.Second

// NewServer builds a server with health and reflection.
func NewServer(c Config) (*Server, error) {
	if err := c.complete(); err != nil {
		return nil, err
	}
	s := &Server{health: health.NewServer(), stopping: make(chan struct{})}
	if c.Dial != nil {
		s.peers = &peers{dial: c.Dial, conns: map[string]*grpc.ClientConn{}}
	}
	i := newInterceptors(c, s.stopping)
	s.grpc = grpc.NewServer(options(c, i)...)
	own := newService(c, s.peers, s.stopping)
	s.book = own.book
	register(c.registrar(s.grpc, i), own)
	healthpb.RegisterHealthServer(s.grpc, s.health)
	reflection.Register(s.grpc)
	for name := range s.grpc.GetServiceInfo() {
		s.health.SetServingStatus(name, healthpb.HealthCheckResponse_SERVING)
	}
	for name := range c.Catalogs {
		s.SetServing(name, true)
	}
	return s, nil
}

// complete refuses what makes no sense, and fills in defaults.
func (c *Config) complete() error {
	if len(c.Catalogs) == 0 && c.Find == nil {
		return errors.New("no catalog to serve")
	}
	if c.Find == nil {
		c.Find = inMap(c.Catalogs)
	}
	if err := c.Limits.Validate(); err != nil {
		return err
	}
	if err := c.Quota.Validate(); err != nil {
		return err
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	c.Limits = c.Limits.withDefaults()
	return nil
}

func newService(c Config, p *peers, stopping <-chan struct{}) *service {
	return &service{
		find: c.Find, peers: p, access: c.Access, guarded: c.Access != nil || c.Audit != nil, faults: faults{log: c.Log}, version: c.Version, limits: c.Limits,
		quota: c.Quota, book: &quota.Book{Refused: c.Refused},
		memory: &quota.Budget{Name: quota.NameStreamBytes, Limit: int64(c.Limits.StreamBytes), Refused: c.Refused}, stopping: stopping,
	}
}

// Quotas say how full the limits of principals on calls and streams are, in per cent, by the
// limit's name, for whom each is fullest.
func (s *Server) Quotas() map[string]int64 { return s.book.Fullest() }

// HealthOf is what the health service calls a catalog.
func HealthOf(catalog string) string { return "txcoord.v1.Catalog/" + catalog }

// SetServing says whether a catalog is served here, to those who check its health. Those
// of Config.Catalogs are from the start.
func (s *Server) SetServing(catalog string, serving bool) {
	status := healthpb.HealthCheckResponse_NOT_SERVING
	if serving {
		status = healthpb.HealthCheckResponse_SERVING
	}
	s.health.SetServingStatus(HealthOf(catalog), status)
}

func inMap(catalogs map[string]Catalog) func(string) (Catalog, error) {
	return func(name string) (Catalog, error) {
		if c, ok := catalogs[name]; ok {
			return c, nil
		}
		return nil, NoCatalog(name)
	}
}

// registrar takes the services whose calls are told of, and written down.
func (c *Config) registrar(g grpc.ServiceRegistrar, i interceptors) grpc.ServiceRegistrar {
	if c.Audit != nil {
		g = unreadable{g, i}
	}
	if c.Calls != nil {
		g = observed{ServiceRegistrar: g, calls: c.Calls}
	}
	return g
}

func register(g grpc.ServiceRegistrar, s *service) {
	pb.RegisterTransactionServiceServer(g, transactions{service: s})
	pb.RegisterTableServiceServer(g, tableService{service: s})
	pb.RegisterSnapshotServiceServer(g, snapshotService{service: s})
	pb.RegisterStatusServiceServer(g, statusService{service: s})
	pb.RegisterOperationServiceServer(g, operationService{service: s})
}

func options(c Config, i interceptors) []grpc.ServerOption {
	all := []grpc.ServerOption{
		grpc.Creds(newTransport(c.TLS)),
		grpc.ForceServerCodecV2(newCodec()),
		grpc.MaxRecvMsgSize(hardFactor * c.Limits.MessageBytes),
		grpc.MaxConcurrentStreams(c.Limits.Calls),
		// Stop returns after the last call, so that a catalog is never closed under one.
		grpc.WaitForHandlers(true),
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: c.Limits.IdlePing, Timeout: pingTimeout}),
		// A client that waits for PUBLISHED or watches may ping while nothing flows.
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: pingTimeout, PermitWithoutStream: true}),
		grpc.ChainUnaryInterceptor(i.unary()...),
	}
	if c.Calls != nil {
		all = append(all, grpc.ChainStreamInterceptor(c.Calls.stream))
	}
	return append(all, grpc.ChainStreamInterceptor(i.identifyStream, i.logStream, i.recoverStream, i.limitStream))
}

// Serve takes connections until Stop, after which it returns nil.
func (s *Server) Serve(l net.Listener) error {
	if err := s.grpc.Serve(l); err != nil && !errors.Is(err, grpc.ErrServerStopped) {
		return fmt.Errorf("serve %s: %w", l.Addr(), err)
	}
	return nil
}

// Stop says NOT_SERVING, ends watches, refuses new calls with SHUTTING_DOWN and
// waits for those in flight. When the context ends first they are cut off; a
// client repeats them elsewhere, since every call may be repeated.
func (s *Server) Stop(ctx context.Context) {
	s.stop.Do(func() {
		s.health.Shutdown()
		close(s.stopping)
	})
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.grpc.GracefulStop()
	}()
	select {
	case <-done:
	case <-ctx.Done():
		s.grpc.Stop()
		<-done
	}
	s.peers.close()
}

func (s *service) isStopping() bool { return closed(s.stopping) }

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

func shuttingDown() error {
	return &coordinator.Error{
		Reason:  coordinator.ShuttingDown,
		Message: "the server is stopping; repeat the same call, at any replica",
	}
}
