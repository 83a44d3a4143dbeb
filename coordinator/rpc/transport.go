package rpc

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
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

// socketPeer is the user at the other end of a Unix socket.
type socketPeer struct {
	credentials.CommonAuthInfo
	uid uint32
}

// AuthType implements credentials.AuthInfo.
func (socketPeer) AuthType() string { return "unix" }

// ServerHandshake implements credentials.TransportCredentials.
func (t transport) ServerHandshake(conn net.Conn) (net.Conn, credentials.AuthInfo, error) {
	socket, ok := conn.(*net.UnixConn)
	if !ok {
		return t.TransportCredentials.ServerHandshake(conn)
	}
	uid, err := peerUID(socket)
	if err != nil {
		return nil, nil, fmt.Errorf("who is at the other end of the socket: %w", err)
	}
	// Nothing leaves the machine.
	return conn, socketPeer{credentials.CommonAuthInfo{SecurityLevel: credentials.PrivacyAndIntegrity}, uid}, nil
}

// ClientHandshake implements credentials.TransportCredentials.
func (t transport) ClientHandshake(ctx context.Context, authority string, conn net.Conn) (net.Conn, credentials.AuthInfo, error) {
	return t.TransportCredentials.ClientHandshake(ctx, authority, conn)
}

// Clone implements credentials.TransportCredentials.
func (t transport) Clone() credentials.TransportCredentials {
	return transport{t.TransportCredentials.Clone()}
}
