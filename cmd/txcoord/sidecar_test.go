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
	for remedy, listen := range map[string]string{"txcoord serve is for others": "0.0.0.0:1", "is not a socket": "unix:" + ready} {
		args := []string{"sidecar", "--warehouse", warehouse, "--listen", listen}
		o := txcoord(t, nil, "", args...)
		if o.code == 0 || !strings.Contains(o.stderr, remedy) {
			t.Errorf("%q ends with %d: %s", args, o.code, o.stderr)
		}
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
