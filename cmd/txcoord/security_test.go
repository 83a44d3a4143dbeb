package main

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/txcoord/txcoord/coordinator/access"
)

// A server that is locked down, and what clients with all kinds of proof may do.
func TestLockedDown(t *testing.T) {
	dir := t.TempDir()
	file := func(name string) string { return filepath.Join(dir, name) }
	certificates(t, dir)
	reader, known := access.NewToken("reader", nil)
	put(t, file("access.yaml"), `
tokens: [{principal: reader, sha256: `+known.SHA256+`}]
roles:
  reader: [{catalogs: ["*"], tables: [orders], actions: [read]}]
  all: [{catalogs: ["*"], tables: ["*"], actions: [read, write, ddl, fence, admin]}]
bindings: [{role: reader, principals: ["token:reader"]}, {role: all, principals: ["cert:boss"]}]
`)
	s := startServer(t,
		"--tls-cert", file("server.pem"), "--tls-key", file("server.key"), "--tls-client-ca", file("ca.pem"), "--access", file("access.yaml"), "--audit-log", file("audit"))
	address := s.env["TXCOORD_SERVER"]
	s.env = map[string]string{
		"TXCOORD_SERVER": address, "TXCOORD_TLS_CA": file("ca.pem"), "TXCOORD_CLIENT_CERT": file("boss.pem"), "TXCOORD_CLIENT_KEY": file("boss.key"),
	}
	for _, name := range []string{"orders", "secrets"} {
		s.ok("tables", "create", name, filepath.Join(s.warehouse, name), "--schema", schema)
	}
	s.ok("tables", "freeze", "orders", "--reason", "audit")
	s.ok("tables", "unfreeze", "orders", "--reason", "done")
	token := line(s.ok("tx", "begin", "--key", "job", "-o", "id"))
	var begun struct {
		Outcome struct{ TransactionID string }
	}
	if err := json.Unmarshal([]byte(s.ok("tx", "show", "--token", token, "-o", "json")), &begun); err != nil {
		t.Fatal(err)
	}
	s.ok("tx", "force-abort", begun.Outcome.TransactionID, "--reason", "in the way")
	s.ok("gc", "--dry-run")
	s.ok("gc", "--yes")
	s.env = map[string]string{"TXCOORD_SERVER": address, "TXCOORD_TLS_CA": file("ca.pem"), "TXCOORD_TOKEN": reader}
	if out := s.ok("tables", "list"); !strings.Contains(out, "orders") || strings.Contains(out, "secrets") {
		t.Errorf("a reader of orders is shown %s", out)
	}
	s.fails(11, []string{"tables", "describe", "secrets"}, "PERMISSION_DENIED", "token:reader may not read")
	s.fails(11, []string{"tables", "release", "orders"}, "PERMISSION_DENIED", "ddl")
	s.fails(11, []string{"tables", "freeze", "orders", "--reason", "x"}, "PERMISSION_DENIED", "admin")
	s.fails(11, []string{"tx", "force-abort", begun.Outcome.TransactionID, "--reason", "x"}, "PERMISSION_DENIED", "admin")
	s.fails(11, []string{"gc", "--dry-run"}, "PERMISSION_DENIED", "admin", "all tables")
	s.fails(11, []string{"tx", "abort", "--token", token}, "PERMISSION_DENIED", "write")
	put(t, file("token"), reader+"\n")
	s.env = map[string]string{"TXCOORD_SERVER": address, "TXCOORD_TLS_CA": file("ca.pem"), "TXCOORD_TOKEN_FILE": file("token")}
	s.ok("tables", "describe", "orders")
	put(t, file("token"), "txcoord_wrong")
	s.fails(11, []string{"tables", "describe", "orders"}, "UNAUTHENTICATED: not authenticated: the token is not known\n  The token is the one in "+file("token"))
	delete(s.env, "TXCOORD_TOKEN_FILE")
	s.fails(11, []string{"tables", "describe", "orders"}, `PERMISSION_DENIED: anonymous, who showed no token and no certificate, may do nothing in catalog "default"; a role has to be bound to it`+
		"\n  To show who you are: --token-file FILE (or TXCOORD_TOKEN_FILE), or the token itself in TXCOORD_TOKEN; or --client-cert")
	// Who shows a certificate of an authority that the server does not name is nobody, and not anonymous.
	other := &x509.Certificate{SerialNumber: big.NewInt(8), Subject: pkix.Name{CommonName: "other"}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	certificate(t, dir, "stranger", &x509.Certificate{
		SerialNumber: big.NewInt(9), Subject: pkix.Name{CommonName: "boss"}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}, other, certificate(t, dir, "other", other, other, nil))
	s.env["TXCOORD_CLIENT_CERT"], s.env["TXCOORD_CLIENT_KEY"] = file("stranger.pem"), file("stranger.key")
	s.fails(11, []string{"tables", "describe", "orders"}, "certificate", "--tls-client-ca")
	raw, err := os.ReadFile(file("audit"))
	if err != nil {
		t.Fatal(err)
	}
	if n := bytes.Count(raw, []byte(`"detail":`)); n != 1 || !bytes.Contains(raw, []byte("the token is not known")) {
		t.Errorf("%d lines say what was wrong with a proof:\n%s", n, raw)
	}
	if bytes.Contains(raw, []byte(reader)) || bytes.Contains(raw, []byte("txcoord_wrong")) {
		t.Error("a token stands in the audit log")
	}
	if n := bytes.Count(raw, []byte(`"txn":"`+begun.Outcome.TransactionID+`"`)); n != 4 { // begun, and aborted by one of three
		t.Errorf("%d lines name the transaction:\n%s", n, raw)
	}
	wantAudit(t, raw, [][]string{
		{"cert:boss", "CreateTable", "ddl:orders", "OK", "mode open"},
		{"cert:boss", "CreateTable", "ddl:secrets", "OK", "mode open"},
		{"cert:boss", "FreezeTable", "admin:orders", "OK", "audit"},
		{"cert:boss", "UnfreezeTable", "admin:orders", "OK", "done"},
		{"cert:boss", "Begin", "write:", "OK"},
		{"cert:boss", "Abort", "write: admin:*", "OK", "transaction " + begun.Outcome.TransactionID + ": in the way"},
		{"cert:boss", "CollectGarbage", "admin:*", "OK", "looked only"},
		{"cert:boss", "CollectGarbage", "admin:*", "OK", "removed 0 things"},
		{"token:reader", "DescribeTable", "read:secrets", "PermissionDenied"},
		{"token:reader", "ReleaseTable", "ddl:orders", "PermissionDenied"},
		{"token:reader", "FreezeTable", "admin:orders", "PermissionDenied", "x"},
		{"token:reader", "Abort", "write: admin:*", "PermissionDenied", "transaction " + begun.Outcome.TransactionID + ": x"},
		{"token:reader", "CollectGarbage", "admin:*", "PermissionDenied"},
		{"token:reader", "Abort", "write:", "PermissionDenied"},
		{"unauthenticated", "DescribeTable", "", "Unauthenticated"},
		{"anonymous", "DescribeTable", "", "PermissionDenied"},
	})
}

func wantAudit(t *testing.T, raw []byte, want [][]string) {
	t.Helper()
	lines := strings.Split(strings.TrimSpace(string(raw)), "\n")
	if len(lines) != len(want) {
		t.Fatalf("%d lines in the audit log, want %d:\n%s", len(lines), len(want), raw)
	}
	for i, l := range lines {
		var got struct {
			Principal, Method, Code, About string
			Asked                          []string
		}
		if err := json.Unmarshal([]byte(l), &got); err != nil {
			t.Fatal(err)
		}
		asked := strings.Join(got.Asked, " ")
		if w := want[i]; got.Principal != w[0] || !strings.HasSuffix(got.Method, "/"+w[1]) || asked != w[2] || got.Code != w[3] {
			t.Errorf("line %d is %s, want %v", i, l, w)
		}
		about := ""
		if len(want[i]) > 4 {
			about = want[i][4]
		}
		if got.About != about {
			t.Errorf("line %d is about %q, want %q", i, got.About, about)
		}
	}
}

func TestAddressesThatOthersReach(t *testing.T) {
	dir := t.TempDir()
	certificates(t, dir)
	cert := []string{"--tls-cert", filepath.Join(dir, "server.pem"), "--tls-key", filepath.Join(dir, "server.key")}
	put(t, filepath.Join(dir, "wrong"), "roles: 5")
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"--listen", "0.0.0.0:0"}, "--tls-cert"},
		{append([]string{"--listen", "0.0.0.0:0"}, cert...), "--access"},
		{cert[:2], "--tls-key"},
		{cert[2:], "--tls-cert"},
		{[]string{"--tls-client-ca", "x"}, "--tls-cert"},
		{[]string{"--listen", "127.0.0.1:0", "--access", filepath.Join(dir, "none")}, "no such file"},
		{[]string{"--listen", "127.0.0.1:0", "--access", filepath.Join(dir, "wrong")}, "line 1"},
		{[]string{"--listen", "127.0.0.1:0", "--tls-cert", filepath.Join(dir, "none"), "--tls-key", filepath.Join(dir, "none")}, "no such file"},
	} {
		args := append([]string{"serve", "--warehouse", filepath.Join(dir, "w")}, c.args...)
		wantCode(t, args, txcoord(t, nil, "", args...), 2, c.want)
	}
	wantCode(t, nil, txcoord(t, map[string]string{"TXCOORD_TOKEN": "txcoord_x"}, "", "status", "--server", "192.0.2.1:7401"), 2, "plain text")
}

// Client and server that do not agree on TLS find out at once, whatever the timeout.
func TestTLSOnOneSide(t *testing.T) {
	dir, other := t.TempDir(), t.TempDir()
	certificates(t, dir)
	certificates(t, other)
	ca := func(dir string) string { return filepath.Join(dir, "ca.pem") }
	plain := serving(t, "--warehouse", filepath.Join(dir, "plain"))
	secure := serving(t, "--warehouse", filepath.Join(dir, "secure"), "--tls-cert", filepath.Join(dir, "server.pem"), "--tls-key", filepath.Join(dir, "server.key"))
	strict := serving(t, "--warehouse", filepath.Join(dir, "strict"), "--tls-cert", filepath.Join(dir, "server.pem"), "--tls-key", filepath.Join(dir, "server.key"),
		"--tls-client-ca", ca(dir))
	for _, c := range []struct {
		name string
		args []string
		want []string
	}{
		{"plain to TLS", []string{"--server", secure}, []string{"speaks TLS", "--tls-ca"}},
		{"plain to TLS, waiting", []string{"--server", secure, "--await-server"}, []string{"speaks TLS", "--tls-ca"}},
		{"TLS to plain", []string{"--server", plain, "--tls-ca", ca(dir)}, []string{"does not speak TLS", "--tls-cert"}},
		{"another authority", []string{"--server", secure, "--tls-ca", ca(other)}, []string{"unknown authority", "--tls-ca"}},
		{"the system's authorities", []string{"--server", secure, "--tls"}, []string{"unknown authority", "--tls-ca"}},
		{"a certificate of another authority", []string{
			"--server", strict, "--tls-ca", ca(dir), "--client-cert", filepath.Join(other, "boss.pem"), "--client-key", filepath.Join(other, "boss.key"),
		}, []string{"certificate", "--tls-client-ca"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, command := range [][]string{{"status"}, {"snapshot", "watch", "--after", "0"}} {
				args := append(append(command, "--timeout", "10h"), c.args...)
				o := txcoord(t, nil, "", args...)
				wantCode(t, args, o, 11, c.want...)
				if strings.Contains(o.stderr, "may be repeated") {
					t.Error(o.stderr)
				}
			}
		})
	}
	wantCode(t, nil, txcoord(t, nil, "", "status", "--server", secure, "--tls-ca", ca(dir)), 0)
}

// In every format the token comes with its entry for the access file.
func TestTokenFormats(t *testing.T) {
	o := txcoord(t, nil, "", "access", "token", "etl", "--for", "1h", "-o", "json")
	wantCode(t, nil, o, 0)
	var got struct {
		Token, Principal, SHA256 string
		NotAfter                 time.Time
	}
	if err := json.Unmarshal([]byte(o.out), &got); err != nil || got.Principal != "etl" || got.Token == "" || len(got.SHA256) != 64 || got.NotAfter.IsZero() {
		t.Errorf("%v: %s", err, o.out)
	}
	o = txcoord(t, nil, "", "access", "token", "etl", "-o", "id")
	wantCode(t, nil, o, 0, "sha256: ")
	if len(strings.Fields(o.out)) != 1 {
		t.Errorf("prints %q", o.out)
	}
	file := filepath.Join(t.TempDir(), "access.yaml") // which the entry can be appended to as it is
	if err := os.WriteFile(file, []byte("roles: {}\ntokens:\n"+o.stderr), 0o600); err != nil {
		t.Fatal(err)
	}
	a, err := access.Load(file)
	if err != nil {
		t.Fatalf("%v, in\n%s", err, o.stderr)
	}
	who, err := a.Authenticate(t.Context(), access.Proof{Authorization: "Bearer " + strings.TrimSpace(o.out)})
	if err != nil || who.Name() != "token:etl" {
		t.Errorf("%v, %v", who, err)
	}
}

// certificates makes an authority, a server's and a client's certificate in a folder.
func certificates(t *testing.T, dir string) {
	t.Helper()
	ca := &x509.Certificate{SerialNumber: big.NewInt(1), IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	caKey := certificate(t, dir, "ca", ca, ca, nil)
	certificate(t, dir, "server", &x509.Certificate{SerialNumber: big.NewInt(2), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}, ca, caKey)
	certificate(t, dir, "boss", &x509.Certificate{
		SerialNumber: big.NewInt(3), Subject: pkix.Name{CommonName: "boss"}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}, ca, caKey)
}

func certificate(t *testing.T, dir, name string, c, parent *x509.Certificate, signer *ecdsa.PrivateKey) *ecdsa.PrivateKey {
	t.Helper()
	c.NotBefore, c.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	if signer == nil {
		signer = key
	}
	cert, err := x509.CreateCertificate(rand.Reader, c, parent, key.Public(), signer)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	put(t, filepath.Join(dir, name+".pem"), string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert})))
	put(t, filepath.Join(dir, name+".key"), string(pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der})))
	return key
}

func put(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
