package access

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"time"
)

// TLSFiles are where a server's keys lie. They may be replaced while it runs: a
// handshake looks whether they have changed, at most once a second.
type TLSFiles struct {
	Cert, Key string
	// ClientCA, if set, holds the authorities whose client certificates are taken.
	// A client may still come without one; what it may do then is the policy's affair.
	ClientCA string
	// Protocol that is spoken over it, as in ALPN; "h2" if empty.
	Protocol string
	// Taken, if set, is told the server's certificate when files come in force in place of
	// others, once each time. It must not shake hands.
	Taken func(*x509.Certificate)
}

// ServerTLS is a configuration that follows its files. A set of files that does not
// fit together, as in the middle of a replacement, is reported to failed and the one
// before stays in force.
func ServerTLS(f TLSFiles, failed func(error)) (*tls.Config, error) {
	if f.Protocol == "" {
		f.Protocol = "h2"
	}
	l := &tlsLoader{files: f, failed: failed}
	if err := l.load(); err != nil {
		return nil, err
	}
	return &tls.Config{
		MinVersion: tls.VersionTLS12, NextProtos: []string{f.Protocol},
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) { return l.current(), nil },
	}, nil
}

type tlsLoader struct {
	files  TLSFiles
	failed func(error)

	mu      sync.Mutex
	config  *tls.Config
	stamps  [3]stamp
	looked  time.Time
	problem string
}

func (l *tlsLoader) current() *tls.Config {
	l.mu.Lock()
	defer l.mu.Unlock()
	if time.Since(l.looked) < time.Second {
		return l.config
	}
	err := l.loadLocked()
	switch {
	case err == nil:
		l.problem = ""
	case err.Error() != l.problem:
		l.problem = err.Error()
		l.failed(err)
	}
	return l.config
}

func (l *tlsLoader) load() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.loadLocked()
}

func (l *tlsLoader) loadLocked() error {
	l.looked = time.Now()
	stamps, err := l.look()
	if err != nil || l.config != nil && slices.EqualFunc(stamps[:], l.stamps[:], stamp.is) {
		return err
	}
	pair, err := tls.LoadX509KeyPair(l.files.Cert, l.files.Key)
	if err != nil {
		return fmt.Errorf("TLS certificate %s with key %s: %w", l.files.Cert, l.files.Key, err)
	}
	c := &tls.Config{MinVersion: tls.VersionTLS12, NextProtos: []string{l.files.Protocol}, Certificates: []tls.Certificate{pair}}
	if l.files.ClientCA != "" {
		if c.ClientCAs, err = certPool(l.files.ClientCA); err != nil {
			return err
		}
		c.ClientAuth = tls.VerifyClientCertIfGiven
	}
	if l.config != nil && l.files.Taken != nil {
		l.files.Taken(pair.Leaf)
	}
	l.config, l.stamps = c, stamps
	return nil
}

func (l *tlsLoader) look() (out [3]stamp, err error) {
	for i, path := range []string{l.files.Cert, l.files.Key, l.files.ClientCA} {
		if path == "" {
			continue
		}
		info, err := os.Stat(path)
		if err != nil {
			return out, fmt.Errorf("TLS file: %w", err)
		}
		out[i] = stamp{info}
	}
	return out, nil
}

func certPool(path string) (*x509.CertPool, error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("certificate authorities: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(raw) {
		return nil, fmt.Errorf("certificate authorities: %w", errors.New(path+" holds no PEM certificate"))
	}
	return pool, nil
}

// ClientTLS is what a client needs: the authorities to trust (the system's if ca is
// empty), and its own certificate, if it has one. That is shown also where the server names
// other authorities than the one that has signed it: left out, as crypto/tls does, it would
// make the caller anonymous, and not refused.
func ClientTLS(ca, cert, key string) (*tls.Config, error) {
	c := &tls.Config{MinVersion: tls.VersionTLS12}
	var err error
	if ca != "" {
		if c.RootCAs, err = certPool(ca); err != nil {
			return nil, err
		}
	}
	if cert != "" || key != "" {
		pair, err := tls.LoadX509KeyPair(cert, key)
		if err != nil {
			return nil, fmt.Errorf("client certificate %s with key %s: %w", cert, key, err)
		}
		c.Certificates = []tls.Certificate{pair}
		c.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &pair, nil }
	}
	return c, nil
}
