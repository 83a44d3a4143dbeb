package main

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/keepalive"

	client "github.com/txcoord/txcoord/clients/go"
	"github.com/txcoord/txcoord/coordinator/access"
	txcoordv1 "github.com/txcoord/txcoord/proto/txcoord/v1"
)

// rotations is how often everything is replaced.
const rotations = 3

// Authorities, certificates, keys and tokens are replaced under a server that commits all
// the while: no call fails for it, on connections that stand nor on new ones; what was
// replaced is not taken any more; and every commit that was answered is in the log.
func TestRotationUnderLoad(t *testing.T) {
	r := newRotation(t)
	address, stop := servingUntil(t, "--warehouse", r.dir, "--tls-cert", r.file("server.pem"), "--tls-key", r.file("server.key"),
		"--tls-client-ca", r.file("trusted.pem"), "--access", r.file("access.yaml"))
	r.address = address
	boss, err := r.dial(r.proof().tls, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer boss.Close()
	if _, err := boss.Tables.CreateTable(t.Context(), &txcoordv1.CreateTableRequest{
		Name: "orders", Uri: filepath.Join(r.dir, "orders"), SchemaJson: schema, Mode: txcoordv1.TableMode_TABLE_MODE_EXCLUSIVE,
	}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var all sync.WaitGroup
	for _, kind := range []string{"standing connection, certificate", "standing connection, token", "new connections, certificate", "new connections, token"} {
		l := &loader{r: r, kind: kind}
		r.loaders = append(r.loaders, l)
		all.Go(func() { l.run(ctx) })
	}
	for i := range rotations {
		r.replace(int64(i) + 1)
	}
	r.settled()
	cancel()
	all.Wait()
	if code, stderr := stop(); code != 0 {
		t.Errorf("serve ends with %d\n%s", code, stderr)
	}
	var commits int64
	for _, l := range r.loaders {
		commits += l.done.Load()
	}
	if adds := r.adds(); adds != commits || commits == 0 {
		t.Errorf("%d commits were answered, %d files are in the log", commits, adds)
	}
}

// proof is what new clients trust and show. It is replaced as a whole.
type proof struct {
	tls   *tls.Config
	token string
}

type rotation struct {
	t            *testing.T
	dir, address string
	loaders      []*loader
	now          atomic.Pointer[proof]

	generation int64
	authority  *x509.Certificate
	signer     *ecdsa.PrivateKey
	entry      string // of the newest token in the access file
}

func newRotation(t *testing.T) *rotation {
	r := &rotation{t: t, dir: t.TempDir()}
	r.newAuthority()
	r.trust(0)
	r.newServer()
	token := r.newToken()
	r.now.Store(&proof{r.config(0), token})
	return r
}

func (r *rotation) file(name string) string { return filepath.Join(r.dir, name) }

func (r *rotation) proof() proof { return *r.now.Load() }

// replace rotates in the order of docs/security.md: trust the new one, show the new one,
// trust the old one no more.
func (r *rotation) replace(generation int64) {
	r.t.Helper()
	former, formerEntry := r.proof(), r.entry
	r.generation = generation
	r.newAuthority()
	r.trust(generation-1, generation)
	r.now.Store(&proof{r.config(generation - 1), former.token})
	r.settled() // now every client trusts both

	r.newServer()
	token := r.newToken(formerEntry)
	r.eventually("new connections see the new certificate", func() bool { return r.serial() == generation })
	r.eventually("the new client certificate is taken", func() bool { return r.takes(r.config(generation), nil) })
	bare := withoutCertificate(r.config(generation))
	r.eventually("the new token is taken", func() bool { return r.takes(bare, func() string { return token }) })
	r.now.Store(&proof{r.config(generation), token})
	r.settled() // nobody shows the old ones any more

	r.trust(generation)
	r.writeAccess(r.entry)
	r.now.Store(&proof{r.config(generation), token})
	r.eventually("the old client certificate is refused", func() bool { return !r.takes(r.config(generation-1), nil) })
	r.eventually("the old token is refused", func() bool { return !r.takes(bare, func() string { return former.token }) })
	r.settled()
}

// settled waits until every loader has begun and ended two commits: what it shows from
// then on is what is to be shown now.
func (r *rotation) settled() {
	r.t.Helper()
	for _, l := range r.loaders {
		before := l.done.Load()
		r.eventually(l.kind+" goes on", func() bool { return l.done.Load() >= before+2 })
	}
}

func (r *rotation) eventually(what string, is func() bool) {
	r.t.Helper()
	for end := time.Now().Add(5 * time.Minute); !is(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			r.t.Fatalf("not seen: %s", what)
		}
	}
}

func (r *rotation) newAuthority() {
	r.authority = &x509.Certificate{
		SerialNumber: big.NewInt(1000 + r.generation), Subject: pkix.Name{CommonName: fmt.Sprintf("authority %d", r.generation)},
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	r.signer = certificate(r.t, r.dir, fmt.Sprintf("ca%d", r.generation), r.authority, r.authority, nil)
	certificate(r.t, r.dir, fmt.Sprintf("boss%d", r.generation), &x509.Certificate{
		SerialNumber: big.NewInt(2000 + r.generation), Subject: pkix.Name{CommonName: "boss"}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}, r.authority, r.signer)
}

// trust writes the bundle of authorities that both sides use.
func (r *rotation) trust(generations ...int64) {
	r.t.Helper()
	var bundle []byte
	for _, g := range generations {
		b, err := os.ReadFile(r.file(fmt.Sprintf("ca%d.pem", g)))
		if err != nil {
			r.t.Fatal(err)
		}
		bundle = append(bundle, b...)
	}
	put(r.t, r.file("trusted.pem"), string(bundle))
}

// newServer replaces certificate and key one after the other, as an operator would.
func (r *rotation) newServer() {
	c := &x509.Certificate{SerialNumber: big.NewInt(r.generation), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}
	certificate(r.t, r.dir, "server", c, r.authority, r.signer)
}

// newToken puts a token into the access file, beside the entries of others.
func (r *rotation) newToken(others ...string) string {
	token, known := access.NewToken("etl", nil)
	r.entry = "{principal: etl, sha256: " + known.SHA256 + "}"
	r.writeAccess(append(others, r.entry)...)
	return token
}

func (r *rotation) writeAccess(entries ...string) {
	put(r.t, r.file("access.yaml"), `
tokens: [`+strings.Join(entries, ", ")+`]
roles: {all: [{catalogs: ["*"], tables: ["*"], actions: [read, write, ddl]}]}
bindings: [{role: all, principals: ["token:etl", "cert:boss"]}]
`)
}

// config is what a client with the certificate of a generation needs. It is shown also to
// a server that does not name its authority; else the caller would be nobody.
func (r *rotation) config(generation int64) *tls.Config {
	r.t.Helper()
	name := r.file(fmt.Sprintf("boss%d", generation))
	c, err := access.ClientTLS(r.file("trusted.pem"), name+".pem", name+".key")
	if err != nil {
		r.t.Fatal(err)
	}
	mine := c.Certificates[0]
	c.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &mine, nil }
	return c
}

func withoutCertificate(c *tls.Config) *tls.Config {
	c = c.Clone()
	c.Certificates, c.GetClientCertificate = nil, nil
	return c
}

// serial is that of the certificate that a new connection sees.
func (r *rotation) serial() int64 {
	c, err := tls.Dial("tcp", r.address, &tls.Config{RootCAs: r.proof().tls.RootCAs, NextProtos: []string{"h2"}, MinVersion: tls.VersionTLS12})
	if err != nil {
		r.t.Errorf("a new connection: %v", err)
		return -1
	}
	defer c.Close()
	return c.ConnectionState().PeerCertificates[0].SerialNumber.Int64()
}

// takes reports whether a call on a new connection is answered. It may be refused for
// what it shows, and for nothing else.
func (r *rotation) takes(c *tls.Config, token func() string) bool {
	r.t.Helper()
	conn, err := r.dial(c, token)
	if err != nil {
		r.t.Fatal(err)
	}
	defer conn.Close()
	_, err = conn.Tables.DescribeTable(r.t.Context(), &txcoordv1.DescribeTableRequest{Table: "orders"})
	if err != nil && !errors.Is(err, client.ErrUnauthenticated) {
		r.t.Fatal(err)
	}
	return err == nil
}

// dial makes a client that repeats nothing: an error that it would mend is one that a
// rotation must not cause. Nor does it give up a connection that is slow to answer.
func (r *rotation) dial(c *tls.Config, token func() string) (*client.Client, error) {
	o := client.Options{
		Credentials: credentials.NewTLS(c), RetryFor: -1,
		DialOptions: []grpc.DialOption{grpc.WithKeepaliveParams(keepalive.ClientParameters{})},
	}
	if token != nil {
		o.Token = func() (string, error) { return token(), nil }
	}
	return client.Dial(r.address, o)
}

// adds counts the files in the table's log.
func (r *rotation) adds() (n int64) {
	names, err := filepath.Glob(filepath.Join(r.dir, "orders", "_delta_log", "*.json"))
	if err != nil {
		r.t.Fatal(err)
	}
	for _, name := range names {
		b, err := os.ReadFile(name)
		if err != nil {
			r.t.Fatal(err)
		}
		n += int64(bytes.Count(b, []byte(`{"add":`)))
	}
	return n
}

// loader commits one file after the other.
type loader struct {
	r    *rotation
	kind string
	done atomic.Int64
}

func (l *loader) run(ctx context.Context) {
	var c *client.Client
	for n := 0; ctx.Err() == nil; n++ {
		if c == nil {
			var err error
			if c, err = l.dial(); err != nil {
				l.r.t.Errorf("%s: %v", l.kind, err)
				return
			}
			defer c.Close()
		}
		if err := l.commit(c, n); err != nil {
			l.r.t.Errorf("%s: commit %d: %v", l.kind, n, err)
			return
		}
		l.done.Add(1)
		if !strings.HasPrefix(l.kind, "standing") {
			c.Close()
			c = nil
		}
		time.Sleep(5 * time.Millisecond) // leaves the machine to others
	}
}

// dial connects with a certificate, or with whatever token is to be shown at each call.
func (l *loader) dial() (*client.Client, error) {
	if strings.HasSuffix(l.kind, "token") {
		return l.r.dial(withoutCertificate(l.r.proof().tls), func() string { return l.r.proof().token })
	}
	return l.r.dial(l.r.proof().tls, nil)
}

// commit is not broken off when the load ends: its answer counts.
func (l *loader) commit(c *client.Client, n int) error {
	path := fmt.Sprintf("%s-%d.parquet", strings.NewReplacer(" ", "-", ",", "").Replace(l.kind), n)
	_, err := c.Transactions.CommitOnce(context.WithoutCancel(l.r.t.Context()), &txcoordv1.CommitOnceRequest{
		Key: path,
		Tables: []*txcoordv1.OnceTable{{
			Table: "orders", Read: &txcoordv1.ReadDeclaration{Point: &txcoordv1.ReadDeclaration_Blind{Blind: true}},
			Actions: fmt.Appendf(nil, `{"add":{"path":%q,"partitionValues":{},"size":1,"modificationTime":1,"dataChange":true}}`, path),
		}},
	})
	return err
}
