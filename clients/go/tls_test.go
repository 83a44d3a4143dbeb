package client_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	client "github.com/txcoord/txcoord/clients/go"
	txcoordv1 "github.com/txcoord/txcoord/proto/txcoord/v1"
)

// A server that does not take the client's certificate, or TLS, may be gone before the
// client has written its first bytes, on every connection: all that gRPC has seen then
// is a broken pipe. The call ends with what the server said all the same.
func TestDisagreementOnBrokenConnections(t *testing.T) {
	server, config := strict(t)
	for written := range int64(2) {
		t.Run(fmt.Sprintf("certificate, %d writes", written), func(t *testing.T) {
			ends(t, server, client.ErrCertificate, client.Options{
				Credentials: brokenTLS{credentials.NewTLS(config), written},
			})
		})
		t.Run(fmt.Sprintf("plain, %d writes", written), func(t *testing.T) {
			ends(t, server, client.ErrServerTLS, client.Options{
				DialOptions: []grpc.DialOption{grpc.WithContextDialer(func(ctx context.Context, address string) (net.Conn, error) {
					c, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
					return breaking(c, written), err
				})},
			})
		})
	}
}

// strict is a server that wants a certificate of its clients, and what they need to
// trust it; they have none.
func strict(t *testing.T) (address string, config *tls.Config) {
	t.Helper()
	s := httptest.NewUnstartedServer(http.NotFoundHandler())
	s.EnableHTTP2 = true
	s.TLS = &tls.Config{ClientAuth: tls.RequireAnyClientCert, MinVersion: tls.VersionTLS13}
	s.Config.ErrorLog = log.New(t.Output(), "", 0)
	s.StartTLS()
	t.Cleanup(s.Close)
	trusted := x509.NewCertPool()
	trusted.AddCert(s.Certificate())
	return s.Listener.Addr().String(), &tls.Config{RootCAs: trusted, MinVersion: tls.VersionTLS13}
}

// ends has a call and a watch end, long before they would be given up.
func ends(t *testing.T, address string, want error, o client.Options) {
	t.Helper()
	o.RetryFor = time.Hour
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for what, do := range map[string]func(c *client.Client) error{
		"a call": func(c *client.Client) error {
			_, err := c.Status.GetStatus(ctx, &txcoordv1.GetStatusRequest{})
			return err
		},
		"a watch": func(c *client.Client) (last error) {
			for _, err := range c.Watch(ctx, 0) {
				last = err
			}
			return last
		},
	} {
		c, err := client.Dial(address, o)
		if err != nil {
			t.Fatal(err)
		}
		if err := do(c); !errors.Is(err, want) || !errors.Is(err, client.ErrUnauthenticated) {
			t.Errorf("%s: %v, want %v", what, err, want)
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}
}

// brokenTLS is TLS whose connections break at a write after the handshake.
type brokenTLS struct {
	credentials.TransportCredentials
	written int64
}

func (b brokenTLS) ClientHandshake(ctx context.Context, authority string, raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	c, info, err := b.TransportCredentials.ClientHandshake(ctx, authority, raw)
	return breaking(c, b.written), info, err
}

func (b brokenTLS) Clone() credentials.TransportCredentials {
	return brokenTLS{b.TransportCredentials.Clone(), b.written}
}

// broken is a connection on which so many writes more succeed.
type broken struct {
	net.Conn
	left atomic.Int64
}

func breaking(c net.Conn, writes int64) net.Conn {
	if c == nil {
		return nil
	}
	b := &broken{Conn: c}
	b.left.Store(writes)
	return b
}

func (b *broken) Write(p []byte) (int, error) {
	if b.left.Add(-1) < 0 {
		return 0, &net.OpError{Op: "write", Net: "tcp", Err: syscall.EPIPE}
	}
	return b.Conn.Write(p)
}
