//go:build unix

package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"

	client "github.com/txcoord/txcoord/clients/go"
)

// TestSidecar: a server on a socket, which is its owner's alone; a second one is
// refused there, and what a dead one has left behind is not in the way.
func TestSidecar(t *testing.T) {
	folder := shortDir(t)
	socket := "unix:" + filepath.Join(folder, "s")
	warehouse, ready := t.TempDir(), filepath.Join(folder, "ready")
	var out, stderr bytes.Buffer
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan int, 1)
	began := time.Now()
	go func() {
		args := []string{"sidecar", "--listen", socket, "--warehouse", warehouse, "--ready-file", ready, "--hand-over", "1s"}
		ended <- run(ctx, args, strings.NewReader(""), &out, &stderr, nothing)
	}()
	env := map[string]string{"TXCOORD_SERVER": socket}
	wantCode(t, nil, txcoord(t, env, "", "tables", "create", "orders", filepath.Join(warehouse, "orders"), "--schema", schema, "--await-server"), 0)
	t.Logf("from nothing to a table in %s", time.Since(began))
	if b, err := os.ReadFile(ready); err != nil || strings.TrimSpace(string(b)) != socket {
		t.Errorf("the ready file says %q, %v", b, err)
	}
	if info, err := os.Stat(filepath.Join(folder, "s")); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the socket: %v, %v", info, err)
	}
	again := []string{"sidecar", "--listen", socket, "--warehouse", t.TempDir()}
	wantCode(t, again, txcoord(t, nil, "", again...), 6, "somebody serves there", "stop it, or give another address")
	cancel()
	if code := <-ended; code != 0 {
		t.Errorf("ends with %d: %s", code, &stderr)
	}
	for remedy, listen := range map[string]string{
		"txcoord serve is for others":             "0.0.0.0:1",
		"is not a socket":                         "unix:" + ready,
		"make the folder " + folder + "/no first": "unix:" + folder + "/no/s",
		"and it has 200: give a shorter one":      "unix:/" + strings.Repeat("s", 199),
	} {
		args := []string{"sidecar", "--warehouse", warehouse, "--listen", listen}
		o := txcoord(t, nil, "", args...)
		if o.code == 0 || !strings.Contains(o.stderr, remedy) {
			t.Errorf("%q ends with %d: %s", args, o.code, o.stderr)
		}
	}
}

// A server runs there: to start another one, which is advised where none does, mends nothing.
func TestSocketOfAnotherUser(t *testing.T) {
	s := &session{env: nothing}
	s.Server = "unix:/run/txcoord/s"
	err := s.explain(&client.Error{
		Code: codes.Unavailable, Message: `connection error: desc = "transport: Error while dialing: dial unix /run/txcoord/s: connect: permission denied"`,
	})
	if !strings.Contains(err.Error(), "unix:/run/txcoord/s is not this user's") || !strings.Contains(hintOf(err), "as that user") {
		t.Errorf("%v; %s", err, hintOf(err))
	}
}

// shortDir is a folder whose name leaves room for that of a socket.
func shortDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "txc")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}
