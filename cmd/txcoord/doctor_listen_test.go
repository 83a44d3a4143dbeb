package main

import (
	"crypto/x509"
	"fmt"
	"math/big"
	"path/filepath"
	"strings"
	"testing"
)

// TestDoctorAsksTheListenOfTheFile: the server that the file is of, with its TLS and its
// catalog, where nothing names another; and it says whom it asks, and why.
func TestDoctorAsksTheListenOfTheFile(t *testing.T) {
	dir := t.TempDir()
	config := filepath.Join(dir, "txcoord.yaml")
	address := freeAddress(t)
	certificates(t, dir)
	other := &x509.Certificate{SerialNumber: big.NewInt(9), DNSNames: []string{"lake.example.com"}}
	certificate(t, dir, "named", other, other, nil)
	for name, c := range map[string]struct{ listen, more string }{
		"plain":           {address, ""},
		"a catalog":       {address, "catalog: lake\n"},
		"a socket":        {"unix:sock", ""},
		"TLS":             {address, "tls-cert: server.pem\ntls-key: server.key\n"},
		"TLS, of another": {address, "tls-cert: named.pem\ntls-key: named.key\n"},
	} {
		t.Run(name, func(t *testing.T) {
			put(t, config, fmt.Sprintf("warehouse: %s\nlisten: %s\n%s", filepath.Join(t.TempDir(), "w"), c.listen, c.more))
			want := address
			if c.listen == "unix:sock" {
				want = "unix:" + filepath.Join(dir, "sock")
			}
			_, stop := servingUntil(t, "--config", config, "--listen", want)
			x := doctor(t, nil, 0, []string{config})
			if x.Asked.Address != want || !strings.HasPrefix(x.Asked.From, "listen of "+config) || strings.Contains(x.Asked.From, "tls-cert") != strings.Contains(c.more, "tls-cert") {
				t.Errorf("asked %+v", x.Asked)
			}
			if out := txcoord(t, nil, "", "doctor", config).out; !strings.Contains(out, "asked      "+want+" (listen of "+config) {
				t.Errorf("%s", out)
			}
			if code, stderr := stop(); code != 0 {
				t.Errorf("serve ends with %d\n%s", code, stderr)
			}
		})
	}
}

// TestDoctorAsksWhatIsNamed: --server and its variable count before the file; and a port
// that the system chooses is known to nobody.
func TestDoctorAsksWhatIsNamed(t *testing.T) {
	s := startServer(t)
	address := s.env["TXCOORD_SERVER"]
	config := filepath.Join(t.TempDir(), "txcoord.yaml")
	put(t, config, "warehouse: "+s.warehouse+"\nlisten: 127.0.0.1:0\n")
	if x := doctor(t, s.env, 0, []string{config}); x.Asked.Address != address || x.Asked.From != "$TXCOORD_SERVER" {
		t.Errorf("asked %+v", x.Asked)
	}
	if x := doctor(t, nil, 0, []string{config, "--server", address}); x.Asked.Address != address || x.Asked.From != "--server" {
		t.Errorf("asked %+v", x.Asked)
	}
	x := doctor(t, nil, 0, []string{config}, [3]string{"note", "server", "it takes any free port (listen of " + config + ")"})
	if x.Asked.Address != "" {
		t.Errorf("asked %+v", x.Asked)
	}
	put(t, config, "warehouse: "+s.warehouse+"\n")
	x = doctor(t, map[string]string{"TXCOORD_LISTEN": address}, 0, []string{config})
	if x.Asked.Address != address || x.Asked.From != "listen, $TXCOORD_LISTEN" {
		t.Errorf("asked %+v", x.Asked)
	}
}

// TestDialable: where a server is reached that listens on all addresses.
func TestDialable(t *testing.T) {
	for listen, want := range map[string]string{
		"127.0.0.1:7": "127.0.0.1:7", "0.0.0.0:7": "127.0.0.1:7", ":7": "127.0.0.1:7", "[::]:7": "[::1]:7", "lake:7": "lake:7", "[fe80::1]:7": "[fe80::1]:7",
		"unix:/s": "unix:/s", "127.0.0.1:0": "", "nonsense": "",
	} {
		if got, ok := dialable(listen); got != want || ok != (want != "") {
			t.Errorf("%s: %q, %t", listen, got, ok)
		}
	}
}
