package client

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
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

// diagnose makes an error that no repeating mends one of those.
func (c *conn) diagnose(ctx context.Context, err error) error {
	var e *Error
	if !errors.As(err, &e) || e.Code != codes.Unavailable || e.Reason != "" || c.reached.Load() {
		return err
	}
	kind := c.disagreement(ctx, e.Message)
	if kind == nil {
		return err
	}
	return &Error{Code: codes.Unauthenticated, Message: strings.TrimPrefix(kind.Error(), "txcoord: ") + ": " + e.Message, tls: kind, status: e.status}
}

func (c *conn) disagreement(ctx context.Context, message string) error {
	switch {
	case strings.Contains(message, "first record does not look like a TLS handshake"):
		return ErrServerPlain
	case strings.Contains(message, "x509: "), strings.Contains(message, "remote error: tls: "):
		return ErrCertificate
	case strings.Contains(message, "error reading server preface") && speaksTLS(ctx, c.addresses):
		return ErrServerTLS
	}
	return nil
}

// probeFor is how long it may take to see whether a server speaks TLS.
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

// plainAddresses are those of a target that is reached without TLS, as far as it
// names them itself.
func plainAddresses(target string, o Options) []string {
	if o.Credentials != nil {
		return nil
	}
	var out []string
	for address := range strings.SplitSeq(strings.TrimPrefix(target, "dns:///"), ",") {
		if _, _, err := net.SplitHostPort(address); err == nil && !strings.HasPrefix(address, "unix:") {
			out = append(out, address)
		}
	}
	return out
}
