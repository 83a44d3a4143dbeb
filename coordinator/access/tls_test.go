package access_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"net/url"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/txcoord/txcoord/coordinator/access"
)

// authority signs certificates.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pem  string
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "authority"}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	cert, key := sign(t, template, a)
	a.pem = cert
	_ = key
	return a
}

// sign makes a certificate and its key, both PEM. An authority without a key signs itself.
func sign(t *testing.T, c *x509.Certificate, by *authority) (cert, key string) {
	t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c.NotBefore, c.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	parent, signer := by.cert, by.key
	if signer == nil {
		parent, signer = c, k
	}
	raw, err := x509.CreateCertificate(rand.Reader, c, parent, k.Public(), signer)
	if err != nil {
		t.Fatal(err)
	}
	if by.key == nil {
		if by.cert, err = x509.ParseCertificate(raw); err != nil {
			t.Fatal(err)
		}
		by.key = k
	}
	der, err := x509.MarshalECPrivateKey(k)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: raw})), string(pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der}))
}

// serverFiles writes a certificate for the loopback address with a serial.
func serverFiles(t *testing.T, a *authority, f access.TLSFiles, serial int64) {
	t.Helper()
	cert, key := sign(t, &x509.Certificate{SerialNumber: big.NewInt(serial), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}, a)
	write(t, f.Cert, cert)
	write(t, f.Key, key)
}

// A certificate that is replaced serves new connections, without a restart; files
// that do not fit together change nothing, and are told once.
func TestCertificatesRotate(t *testing.T) {
	dir := t.TempDir()
	f := access.TLSFiles{Cert: filepath.Join(dir, "cert"), Key: filepath.Join(dir, "key")}
	a := newAuthority(t)
	serverFiles(t, a, f, 10)
	told, taken := make(chan error, 100), make(chan int64, 100)
	f.Taken = func(c *x509.Certificate) { taken <- c.SerialNumber.Int64() }
	config, err := access.ServerTLS(f, func(err error) { told <- err })
	if err != nil {
		t.Fatal(err)
	}
	serial := func() int64 {
		c := handshake(t, config, a, nil)
		return c.PeerCertificates[0].SerialNumber.Int64()
	}
	if got := serial(); got != 10 {
		t.Fatalf("serial %d", got)
	}
	serverFiles(t, a, f, 11)
	eventually(t, "the new certificate is served", func() bool { return serial() == 11 })
	other, _ := sign(t, &x509.Certificate{SerialNumber: big.NewInt(12)}, a)
	write(t, f.Cert, other) // not the key's
	eventually(t, "the misfit is told", func() bool { serial(); return len(told) > 0 })
	if got := serial(); got != 11 || len(told) != 1 {
		t.Errorf("serial %d, told %d times", got, len(told))
	}
	serverFiles(t, a, f, 13)
	eventually(t, "what fits again is served", func() bool { return serial() == 13 })
	for _, want := range []int64{11, 13} {
		if got := <-taken; got != want {
			t.Errorf("told that %d is in force, want %d", got, want)
		}
	}
	if len(taken) > 0 {
		t.Errorf("told again: %d", <-taken)
	}
}

func TestClientCertificates(t *testing.T) {
	dir := t.TempDir()
	f := access.TLSFiles{Cert: filepath.Join(dir, "cert"), Key: filepath.Join(dir, "key"), ClientCA: filepath.Join(dir, "ca")}
	ours, theirs := newAuthority(t), newAuthority(t)
	serverFiles(t, ours, f, 1)
	write(t, f.ClientCA, ours.pem)
	config, err := access.ServerTLS(f, func(err error) { t.Error(err) })
	if err != nil {
		t.Fatal(err)
	}
	spiffe := &url.URL{Scheme: "spiffe", Host: "corp", Path: "/etl"}
	template := func() *x509.Certificate {
		return &x509.Certificate{
			SerialNumber: big.NewInt(7), Subject: pkix.Name{CommonName: "etl"}, URIs: []*url.URL{spiffe}, DNSNames: []string{"etl.corp"},
			ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
		}
	}
	mine, key := sign(t, template(), ours)
	write(t, filepath.Join(dir, "mine"), mine)
	write(t, filepath.Join(dir, "mine.key"), key)
	client, err := access.ClientTLS(f.ClientCA, filepath.Join(dir, "mine"), filepath.Join(dir, "mine.key"))
	if err != nil {
		t.Fatal(err)
	}
	seen := serverSide(t, config, ours, client.Certificates)
	who, err := (*access.Access)(nil).Authenticate(t.Context(), access.Proof{Certificate: seen.VerifiedChains[0][0]})
	if diff := cmp.Diff([]string{"cert:spiffe://corp/etl", "cert:etl.corp", "cert:etl"}, who.Names); err != nil || diff != "" {
		t.Errorf("%v %s", err, diff)
	}
	if seen := serverSide(t, config, ours, nil); len(seen.VerifiedChains) != 0 {
		t.Error("a client without a certificate has a chain")
	}
	cert, key := sign(t, template(), theirs)
	pair, err := tls.X509KeyPair([]byte(cert), []byte(key))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := connect(t, config, ours, []tls.Certificate{pair}); err == nil {
		t.Error("a certificate of another authority is taken")
	}
}

func TestTLSFilesThatAreWrong(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "empty"), "")
	for _, f := range []access.TLSFiles{{Cert: dir + "/none", Key: dir + "/none"}, {Cert: dir + "/empty", Key: dir + "/empty"}} {
		if _, err := access.ServerTLS(f, nil); err == nil {
			t.Errorf("%v is taken", f)
		}
	}
	if _, err := access.ClientTLS(dir+"/empty", "", ""); err == nil {
		t.Error("no authority is taken for one")
	}
	if _, err := access.ClientTLS("", dir+"/empty", ""); err == nil {
		t.Error("half a client certificate is taken")
	}
}

// handshake is what the client sees of a connection to a server of the configuration.
func handshake(t *testing.T, server *tls.Config, a *authority, mine []tls.Certificate) tls.ConnectionState {
	t.Helper()
	both, err := connect(t, server, a, mine)
	if err != nil {
		t.Fatal(err)
	}
	return both[0]
}

func serverSide(t *testing.T, server *tls.Config, a *authority, mine []tls.Certificate) tls.ConnectionState {
	t.Helper()
	both, err := connect(t, server, a, mine)
	if err != nil {
		t.Fatal(err)
	}
	return both[1]
}

func connect(t *testing.T, server *tls.Config, a *authority, mine []tls.Certificate) (states [2]tls.ConnectionState, err error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	pool := x509.NewCertPool()
	pool.AddCert(a.cert)
	left, right := net.Pipe()
	defer left.Close()
	defer right.Close()
	c := tls.Client(left, &tls.Config{RootCAs: pool, ServerName: "127.0.0.1", Certificates: mine, NextProtos: []string{"h2"}, MinVersion: tls.VersionTLS12, MaxVersion: tls.VersionTLS12})
	s := tls.Server(right, server)
	failed := make(chan error, 1)
	go func() { failed <- s.HandshakeContext(ctx) }()
	err = errors.Join(c.HandshakeContext(ctx), <-failed)
	return [2]tls.ConnectionState{c.ConnectionState(), s.ConnectionState()}, err
}

func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !is(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not in time: %s", what)
		}
	}
}
