package main

import (
	"path/filepath"
	"testing"
)

// health needs no token, and says by its exit code what there is.
func TestHealth(t *testing.T) {
	dir := t.TempDir()
	certificates(t, dir)
	put(t, filepath.Join(dir, "access.yaml"), "roles: {}\n")
	address := serving(t, "--warehouse", filepath.Join(dir, "w"), "--access", filepath.Join(dir, "access.yaml"),
		"--tls-cert", filepath.Join(dir, "server.pem"), "--tls-key", filepath.Join(dir, "server.key"))
	env := map[string]string{"TXCOORD_SERVER": address, "TXCOORD_TLS_CA": filepath.Join(dir, "ca.pem")}
	wantCode(t, nil, txcoord(t, env, "", "status"), 11)
	wantCode(t, nil, txcoord(t, env, "", "health", "--await-server"), 0)
	wantCode(t, nil, txcoord(t, env, "", "health", "--catalog", "other"), 7, "other")
	delete(env, "TXCOORD_TLS_CA")
	wantCode(t, nil, txcoord(t, env, "", "health", "--timeout", "10s"), 7, address)
	wantCode(t, nil, txcoord(t, map[string]string{"TXCOORD_SERVER": freeAddress(t)}, "", "health"), 7)
	wantCode(t, nil, txcoord(t, map[string]string{"TXCOORD_SERVER": "a:1,b:1"}, "", "health"), 2, "one server at a time")
}
