package rpc

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"time"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/peer"

	"github.com/txcoord/txcoord/coordinator/access"
)

// transport speaks TLS where it has a configuration, and on Unix sockets learns from
// the kernel who is at the other end. One server listens on both.
type transport struct {
	credentials.TransportCredentials
}

// newTransport is without encryption if c is nil.
func newTransport(c *tls.Config) credentials.TransportCredentials {
	if c == nil {
		return transport{insecure.NewCredentials()}
	}
	return transport{credentials.NewTLS(c)}
}

// link is a connection, and what is known of its other end: worked out once, and not with
// each call.
type link struct {
	credentials.AuthInfo
	proof access.Proof
	// address is where it comes from, machine the same without the port.
	address, machine string
	// stranger is what calls count for that do not say who makes them.
	stranger string
}

func newLink(info credentials.AuthInfo, from net.Addr, p access.Proof) *link {
	l := &link{AuthInfo: info, proof: p.OfConnection()}
	if from != nil {
		l.address = from.String()
		l.machine = from.Network() // a socket of this machine
		if host, _, err := net.SplitHostPort(l.address); err == nil {
			l.machine = host
		}
	}
	l.stranger = access.Anonymous + " at " + l.machine
	return l
}

// linkOf is the connection of a call.
func linkOf(ctx context.Context) *link {
	if p, ok := peer.FromContext(ctx); ok {
		if l, ok := p.AuthInfo.(*link); ok {
			return l
		}
	}
	return &link{}
}

// socketInfo is what gRPC knows of a Unix socket.
type socketInfo struct{ credentials.CommonAuthInfo }

// AuthType implements credentials.AuthInfo.
func (socketInfo) AuthType() string { return "unix" }

// ServerHandshake implements credentials.TransportCredentials.
func (t transport) ServerHandshake(conn net.Conn) (net.Conn, credentials.AuthInfo, error) {
	if socket, ok := conn.(*net.UnixConn); ok {
		uid, err := peerUID(socket)
		if err != nil {
			return nil, nil, fmt.Errorf("who is at the other end of the socket: %w", err)
		}
		// Nothing leaves the machine.
		info := socketInfo{credentials.CommonAuthInfo{SecurityLevel: credentials.PrivacyAndIntegrity}}
		return conn, newLink(info, conn.RemoteAddr(), access.Proof{UID: &uid}), nil
	}
	out, info, err := t.TransportCredentials.ServerHandshake(conn)
	if err != nil {
		return nil, nil, err
	}
	var p access.Proof
	if encrypted, ok := info.(credentials.TLSInfo); ok && len(encrypted.State.VerifiedChains) > 0 {
		p.Certificate = encrypted.State.VerifiedChains[0][0]
		out = endWith(out, p.Certificate)
	}
	return out, newLink(info, conn.RemoteAddr(), p), nil
}

// passing is a connection that ends with the certificate that it was made with, so that its
// client makes another, with a newer one, if it has that.
type passing struct {
	net.Conn
	end *time.Timer
}

func endWith(conn net.Conn, c *x509.Certificate) net.Conn {
	return passing{conn, time.AfterFunc(time.Until(c.NotAfter), func() { _ = conn.Close() })} // who reads or writes is told
}

// Close implements net.Conn.
func (p passing) Close() error {
	p.end.Stop()
	return p.Conn.Close()
}

// ClientHandshake implements credentials.TransportCredentials.
func (t transport) ClientHandshake(ctx context.Context, authority string, conn net.Conn) (net.Conn, credentials.AuthInfo, error) {
	return t.TransportCredentials.ClientHandshake(ctx, authority, conn)
}

// Clone implements credentials.TransportCredentials.
func (t transport) Clone() credentials.TransportCredentials {
	return transport{t.TransportCredentials.Clone()}
}
