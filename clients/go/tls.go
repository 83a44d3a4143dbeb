package client

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
)

// What errors.Is finds where client and server do not agree on TLS, as long as no
// server has answered this client. Such a call is given up at once, whatever
// Options.RetryFor: it cannot come to an end that differs. All are ErrUnauthenticated.
var (
	// ErrServerTLS: the server speaks TLS, and this client does not.
	ErrServerTLS = errors.New("txcoord: the server speaks TLS")
	// ErrServerPlain: the client speaks TLS, and the server does not.
	ErrServerPlain = errors.New("txcoord: the server does not speak TLS")
	// ErrCertificate: one side does not take the other's certificate.
	ErrCertificate = errors.New("txcoord: a certificate is not taken")
)

// diagnose makes an error that no repeating mends one of those, and notes of a refusal that
// no token was shown.
func (c *conn) diagnose(ctx context.Context, err error) error {
	var e *Error
	if errors.As(err, &e) && (e.Code == codes.Unauthenticated || e.Code == codes.PermissionDenied) {
		e.tokenless = c.tokenless
		return err
	}
	if !errors.As(err, &e) || e.Code != codes.Unavailable || e.Reason != "" || c.reached.Load() {
		return err
	}
	message := e.Message
	kind := disagreement(message)
	switch {
	case kind != nil, isUnreached(e):
	case c.creds != nil:
		if refused := refusal(ctx, c.addresses, c.creds); refused != nil {
			kind, message = disagreement(refused.Error()), refused.Error()
		}
	case speaksTLS(ctx, c.addresses):
		kind = ErrServerTLS
	}
	if kind == nil {
		return err
	}
	return &Error{Code: codes.Unauthenticated, Message: strings.TrimPrefix(kind.Error(), "txcoord: ") + ": " + message, unmet: kind, status: e.status}
}

// disagreement is what an error of a connection says of TLS; nil if nothing.
func disagreement(message string) error {
	switch {
	case strings.Contains(message, "first record does not look like a TLS handshake"):
		return ErrServerPlain
	case strings.Contains(message, "x509: "), strings.Contains(message, "remote error: tls: "):
		return ErrCertificate
	}
	return nil
}

// refusal asks servers what they have against this client, and returns the first
// answer. In TLS 1.3 a server says that it does not take a certificate when the
// client's handshake is over and its first bytes are on their way. A connection that is
// written to breaks then, now and then before the server's word was read; this one
// only listens.
func refusal(ctx context.Context, addresses []string, creds credentials.TransportCredentials) error {
	ctx, cancel := context.WithTimeout(ctx, probeFor)
	defer cancel()
	for _, address := range addresses {
		if err := listenTo(ctx, address, creds); err != nil && disagreement(err.Error()) != nil {
			return err
		}
	}
	return nil
}

// listenTo returns what keeps a server from the first byte of its greeting.
func listenTo(ctx context.Context, address string, creds credentials.TransportCredentials) error {
	raw, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
	if err != nil {
		return err
	}
	defer raw.Close()
	if end, ok := ctx.Deadline(); ok {
		if err := raw.SetDeadline(end); err != nil {
			return err
		}
	}
	secured, _, err := creds.Clone().ClientHandshake(ctx, address, raw)
	if err != nil {
		return err
	}
	_, err = secured.Read(make([]byte, 1))
	return err
}

// probeFor is how long it may take to see what a server says of TLS.
const probeFor = 2 * time.Second

// speaksTLS reports whether one of the addresses does, for certain: it shakes hands,
// with whatever certificate, or refuses to in a record of TLS.
func speaksTLS(ctx context.Context, addresses []string) bool {
	ctx, cancel := context.WithTimeout(ctx, probeFor)
	defer cancel()
	for _, address := range addresses {
		probe := tls.Dialer{Config: &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}}} //nolint:gosec // nothing is sent or believed
		switch conn, err := probe.DialContext(ctx, "tcp", address); {
		case err == nil:
			_ = conn.Close()
			return true
		case strings.Contains(err.Error(), "remote error: tls: "):
			return true
		}
	}
	return false
}

// addresses are those of a target, as far as it names them itself.
func addresses(target string) []string {
	var out []string
	for address := range strings.SplitSeq(strings.TrimPrefix(target, "dns:///"), ",") {
		if _, _, err := net.SplitHostPort(address); err == nil && !strings.HasPrefix(address, "unix:") {
			out = append(out, address)
		}
	}
	return out
}
