//go:build unix

package etcdstore_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/txcoord/txcoord/e2e/servers"
	"github.com/txcoord/txcoord/lock"
	"github.com/txcoord/txcoord/lock/etcdstore"
)

func wantOpenError(t *testing.T, cfg etcdstore.Config, parts ...string) {
	t.Helper()
	if cfg.RequestTimeout == 0 {
		cfg.RequestTimeout = 2 * time.Second
	}
	s, err := etcdstore.Open(t.Context(), cfg)
	if err == nil {
		_ = s.Close()
		t.Errorf("%+v opens", cfg.Endpoints)
		return
	}
	for _, part := range parts {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%q does not mention %q", err, part)
		}
	}
}

func TestBadConfiguration(t *testing.T) {
	t.Parallel()
	wantOpenError(t, etcdstore.Config{}, "no endpoints")
	wantOpenError(t, etcdstore.Config{Endpoints: []string{"localhost:2379"}}, "http://host:port")
	wantOpenError(t, etcdstore.Config{Endpoints: []string{"http://a:1", "https://b:1"}}, "differ")
	wantOpenError(t, etcdstore.Config{Endpoints: []string{"http://a:1"}, Username: "u"}, "password")
	wantOpenError(t, etcdstore.Config{Endpoints: []string{"http://127.0.0.1:1"}}, "127.0.0.1:1", "refused", "is etcd running there")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := etcdstore.Open(ctx, etcdstore.Config{Endpoints: []string{"http://127.0.0.1:1"}}); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

func TestServersThatLoseWritesAreRefused(t *testing.T) {
	t.Parallel()
	for version, ok := range map[string]bool{
		"3.4.30": false, "3.5.0": false, "3.5.5": false, "3.5.6": true, "3.6.1": true, "3.7.3": true, "4.0.0": true, "main": true,
	} {
		a := &answering{version: version}
		cfg := a.serve(t)
		if ok {
			open(t, cfg)
		} else {
			wantOpenError(t, cfg, version, "upgrade to 3.5.6")
		}
	}
}

func TestTLS(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t)
	cert, key := ca.issue(t, "server")
	e := servers.StartEtcd(t, servers.EtcdConfig{Scheme: "https", Args: []string{
		"--cert-file", cert, "--key-file", key, "--trusted-ca-file", ca.file, "--client-cert-auth",
	}})
	clientCert, clientKey := ca.issue(t, "client")
	cfg := fresh(e.Endpoints()...)
	var err error
	if cfg.TLS, err = etcdstore.LoadTLS(ca.file, clientCert, clientKey); err != nil {
		t.Fatal(err)
	}
	s := open(t, cfg)
	if _, err := s.Put(t.Context(), "k", nil, lock.IfAbsent()); err != nil {
		t.Error(err)
	}
	wantOpenError(t, fresh(e.Endpoints()...), "certificate")
	wantOpenError(t, fresh(strings.Replace(e.Endpoints()[0], "https", "http", 1)), "https://")
	cfg.Endpoints = []string{"http://127.0.0.1:1"}
	wantOpenError(t, cfg, "say https://")
}

func TestTLSFiles(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t)
	cert, key := ca.issue(t, "client")
	for _, files := range [][3]string{{"missing", "", ""}, {key, "", ""}, {"", cert, ""}, {"", cert, "missing"}} {
		if _, err := etcdstore.LoadTLS(files[0], files[1], files[2]); err == nil {
			t.Errorf("%q load", files)
		}
	}
}

// A user sees its own prefix, and needs more than that only to compact; whoever gives no
// password, or a wrong one, is told so.
func TestUsers(t *testing.T) {
	t.Parallel()
	e := servers.StartEtcd(t, servers.EtcdConfig{Args: []string{"--auth-token-ttl", "1"}})
	cfg := fresh(e.Endpoints()...)
	admin := etcdClient(t, e)
	ctx := t.Context()
	_, err1 := admin.UserAdd(ctx, "root", "secret")
	_, err2 := admin.UserGrantRole(ctx, "root", "root")
	_, err3 := admin.RoleAdd(ctx, "txcoord")
	_, err4 := admin.RoleGrantPermission(ctx, "txcoord", cfg.Prefix, clientv3.GetPrefixRangeEnd(cfg.Prefix), clientv3.PermissionType(clientv3.PermReadWrite))
	_, err5 := admin.UserAdd(ctx, "txcoord", "word")
	_, err6 := admin.UserGrantRole(ctx, "txcoord", "txcoord")
	_, err7 := admin.AuthEnable(ctx)
	if err := errors.Join(err1, err2, err3, err4, err5, err6, err7); err != nil {
		t.Fatal(err)
	}
	wantOpenError(t, cfg, "authentication enabled")
	cfg.Username, cfg.Password = "txcoord", "wrong"
	wantOpenError(t, cfg, "correct the user name or the password")
	cfg.Password = "word"
	cfg.UpkeepEvery = 20 * time.Millisecond
	var log written
	cfg.Log = slog.New(slog.NewTextHandler(&log, nil))
	s := open(t, cfg)
	err := lock.Probe(ctx, s)
	if refusal, ok := errors.AsType[*lock.Refusal](err); !ok || !errors.Is(err, lock.ErrDenied) || !strings.Contains(refusal.Text, `user "txcoord" may not compact`) || !strings.Contains(refusal.Remedy, "compact=false") {
		t.Errorf("of a user that may not compact the probe says %v", err)
	}
	left := cfg
	left.NoCompaction = true
	if err := lock.Probe(ctx, open(t, left)); err != nil {
		t.Errorf("where compaction is left to others: %v", err)
	}
	rev, err := s.Put(ctx, "k", []byte("v"), lock.IfAbsent())
	if err != nil {
		t.Fatal(err)
	}
	time.Sleep(2500 * time.Millisecond) // The token expires.
	if rev, err = s.Put(ctx, "k", []byte("v"), lock.IfRevision(rev)); err != nil {
		t.Errorf("after the token has expired: %v", err)
	}
	time.Sleep(2500 * time.Millisecond)
	if _, err := s.Scan(ctx, "", "", 0); err != nil {
		t.Errorf("after the token has expired: %v", err)
	}
	if said := strings.Count(log.String(), "may not compact"); said != 1 {
		t.Errorf("that the user may not compact is told %d times:\n%s", said, log.String())
	}
	if _, err = s.PutBatch(ctx, "k", []byte("v"), lock.IfRevision(rev), []lock.Write{{Key: "w"}}); err != nil {
		t.Error(err)
	}
	others := cfg
	others.Prefix = "of others/"
	wantOpenError(t, others, "permission", `"of others/"`)
	root, err := clientv3.New(clientv3.Config{Endpoints: e.Endpoints(), Username: "root", Password: "secret"})
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	if _, err := root.RoleRevokePermission(ctx, "txcoord", cfg.Prefix, clientv3.GetPrefixRangeEnd(cfg.Prefix)); err != nil {
		t.Fatal(err)
	}
	_, getErr := s.Get(ctx, "k")
	_, putErr := s.Put(ctx, "k", []byte("v"), lock.IfRevision(rev))
	_, scanErr := s.Scan(ctx, "", "", 0)
	for what, err := range map[string]error{"get": getErr, "put": putErr, "scan": scanErr, "delete": s.Delete(ctx, "w")} {
		refusal, ok := errors.AsType[*lock.Refusal](err)
		if !ok || !errors.Is(err, lock.ErrDenied) || !strings.Contains(refusal.Text, `user "txcoord" lacks a permission`) || !strings.Contains(refusal.Remedy, cfg.Prefix) {
			t.Errorf("%s, after the permission was revoked: %v", what, err)
		}
	}
}
