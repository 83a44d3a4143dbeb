//go:build unix

package servers

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
)

// EtcdConfig says what cluster to start; its zero value is one member.
type EtcdConfig struct {
	// Members of the cluster; default 1.
	Members int
	// Args are further arguments for each member.
	Args []string
	// Scheme of the addresses for clients; default http.
	Scheme string
}

// Etcd is a cluster of real etcd processes.
type Etcd struct {
	Members []*Member
}

// Member is one process of a cluster.
type Member struct {
	*Process
	// Endpoint is its URL for clients.
	Endpoint string
	// Dir holds its data.
	Dir string
}

// StartEtcd starts a cluster for a test, or skips the test and says why there is
// none. With RequireVariable set to 1 it fails instead.
func StartEtcd(t testing.TB, cfg EtcdConfig) *Etcd {
	t.Helper()
	if cfg.Members == 0 {
		cfg.Members = 1
	}
	if cfg.Scheme == "" {
		cfg.Scheme = "http"
	}
	dir := t.TempDir()
	return require(t, func(ctx context.Context) (*Etcd, error) {
		binary, err := tool(ctx, "etcd", "go.etcd.io/etcd/server/v3")
		if err != nil {
			return nil, err
		}
		for range 5 {
			var e *Etcd
			e, err = newEtcd(binary, filepath.Join(dir, randomName()), cfg)
			if err != nil {
				return nil, err
			}
			t.Cleanup(e.kill)
			if err = e.start(ctx); err == nil || !strings.Contains(err.Error(), "address already in use") {
				return e, err
			}
			e.kill()
		}
		return nil, err
	})
}

// EtcdPrograms is a folder with etcd, etcdctl and etcdutl, or skips the test and says why
// there is none.
func EtcdPrograms(t testing.TB) string {
	t.Helper()
	return require(t, func(ctx context.Context) (string, error) {
		etcd, err := tool(ctx, "etcd", "go.etcd.io/etcd/server/v3")
		if err != nil {
			return "", err
		}
		for _, name := range []string{"etcdctl", "etcdutl"} {
			if _, err := program(ctx, "etcd", name, "go.etcd.io/etcd/"+name+"/v3"); err != nil {
				return "", err
			}
		}
		return filepath.Dir(etcd), nil
	})
}

func newEtcd(binary, dir string, cfg EtcdConfig) (*Etcd, error) {
	ports, err := freePorts(3 * cfg.Members)
	if err != nil {
		return nil, err
	}
	url := func(scheme string, n int) string { return fmt.Sprintf("%s://127.0.0.1:%d", scheme, ports[n]) }
	var cluster []string
	for i := range cfg.Members {
		cluster = append(cluster, fmt.Sprintf("m%d=%s", i, url("http", 3*i+1)))
	}
	e := &Etcd{}
	for i := range cfg.Members {
		m := &Member{Endpoint: url(cfg.Scheme, 3*i), Dir: filepath.Join(dir, fmt.Sprintf("m%d", i))}
		peer, metrics := url("http", 3*i+1), url("http", 3*i+2)
		m.Process = &Process{
			name: binary,
			args: append([]string{
				"--name", fmt.Sprintf("m%d", i), "--data-dir", m.Dir, "--log-level", "error",
				"--listen-client-urls", m.Endpoint, "--advertise-client-urls", m.Endpoint,
				"--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer,
				"--listen-metrics-urls", metrics,
				"--initial-cluster", strings.Join(cluster, ","), "--initial-cluster-token", filepath.Base(dir),
			}, cfg.Args...),
			ready: func(ctx context.Context) error { return answersOK(ctx, metrics+"/readyz") },
		}
		e.Members = append(e.Members, m)
	}
	return e, nil
}

// start starts all members before it waits for any: none answers without the others.
func (e *Etcd) start(ctx context.Context) error {
	for _, m := range e.Members {
		if err := m.launch(); err != nil {
			return err
		}
	}
	for _, m := range e.Members {
		if err := m.Ready(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (e *Etcd) kill() {
	for _, m := range e.Members {
		m.Kill()
	}
}

// Endpoints are the URLs for clients.
func (e *Etcd) Endpoints() []string {
	var urls []string
	for _, m := range e.Members {
		urls = append(urls, m.Endpoint)
	}
	return urls
}

// Leader is the member that leads, by its own word. It asks over plain HTTP.
func (e *Etcd) Leader(ctx context.Context) (*Member, error) {
	var all error
	for _, m := range e.Members {
		leads, err := m.leads(ctx)
		if err == nil && leads {
			return m, nil
		}
		all = errors.Join(all, err)
	}
	return nil, fmt.Errorf("no member leads: %w", all)
}

func (m *Member) leads(ctx context.Context) (bool, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, m.Endpoint+"/v3/maintenance/status", bytes.NewReader([]byte("{}")))
	if err != nil {
		return false, err
	}
	resp, err := oneShot.Do(req)
	if err != nil {
		return false, err
	}
	defer resp.Body.Close()
	var status struct {
		Header struct {
			MemberID string `json:"member_id"`
		}
		Leader string
	}
	if err := json.NewDecoder(resp.Body).Decode(&status); err != nil {
		return false, fmt.Errorf("read status of %s: %w", m.Endpoint, err)
	}
	return status.Leader != "" && status.Leader == status.Header.MemberID, nil
}

// oneShot keeps no connections: a server that is killed and comes back is another one.
var oneShot = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}

func answersOK(ctx context.Context, url string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	resp, err := oneShot.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answers %s", url, resp.Status)
	}
	return nil
}
