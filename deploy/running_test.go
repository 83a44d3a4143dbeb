package deploy_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/txcoord/txcoord/e2e/servers"
)

// mounted lays a pod's volumes out below a folder: its maps, and for its Secrets files
// as README.md describes them. It returns what turns a path in the pod into one there,
// and the token of the scraper.
func (c cluster) mounted(t *testing.T) (here func(string) string, token string) {
	t.Helper()
	root, err := os.MkdirTemp("", "dp") // short: a socket's path has a limit
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(root) })
	p := c.template(t).Spec
	cert, key := certificate(t, "txcoord.txcoord.svc", "*.txcoord-replicas.txcoord.svc")
	issued := decode[struct{ Token, SHA256 string }](t, json.RawMessage(ran(t, nil, program(t), "access", "token", "metrics", "-o", "json")))
	access := strings.ReplaceAll(read(t, "kubernetes/access.example.yaml"), strings.Repeat("0", 64), issued.SHA256)
	secrets := map[string]map[string]string{
		"txcoord-tls":    {"tls.crt": cert, "tls.key": key, "ca.crt": cert},
		"txcoord-access": {"access.yaml": access},
		"txcoord-etcd":   {"tls.crt": cert, "tls.key": key, "ca.crt": cert},
		"txcoord-s3":     {"credentials": "[default]\naws_access_key_id = a\naws_secret_access_key = b\n"},
	}
	var places []string
	for _, m := range p.server(t).VolumeMounts {
		places = append(places, m.MountPath+"/", root+m.MountPath+"/")
	}
	here = strings.NewReplacer(places...).Replace // in one pass, so that none is replaced twice
	for _, m := range p.server(t).VolumeMounts {
		v := p.Volumes[slices.IndexFunc(p.Volumes, func(v volume) bool { return v.Name == m.Name })]
		files := map[string]string{}
		switch {
		case v.ConfigMap != nil:
			files = c.find(t, "ConfigMap", v.ConfigMap.Name).Data
		case v.Secret != nil:
			files = secrets[v.Secret.SecretName]
		}
		for name, text := range files {
			put(t, filepath.Join(root, m.MountPath, name), here(text))
		}
		if err := os.MkdirAll(root+m.MountPath, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	return here, issued.Token
}

// The very file, arguments and variables of each build are taken by txcoord: the file by
// `config check`, and each variable is one that it knows.
func TestConfigurationsAreInOrder(t *testing.T) {
	for _, folder := range builds[:2] {
		c := build(t, folder)
		here, _ := c.mounted(t)
		env := c.environment(t)
		for name, value := range env {
			env[name] = here(value)
		}
		flag := slices.IndexFunc(c.template(t).Spec.server(t).Args, func(a string) bool { return strings.HasPrefix(a, "--config=") })
		file := strings.TrimPrefix(here(c.template(t).Spec.server(t).Args[flag]), "--config=")
		ran(t, variables(env), program(t), "config", "check", file)
		print := ran(t, variables(env), program(t), "config", "print", file)
		for name := range env {
			if strings.HasPrefix(name, "TXCOORD_") && !strings.Contains(print, "# $"+name+"\n") {
				t.Errorf("%s: nothing comes from %s:\n%s", folder, name, print)
			}
		}
	}
}

// Servers run with the arguments, variables and files of the pod, but for the places that
// do not exist here: journal, warehouse and ports. Probes, and the monitor, find what they
// ask for.
func TestProbesAreAnswered(t *testing.T) {
	for _, folder := range builds[:2] {
		c := build(t, folder)
		here, token := c.mounted(t)
		one, env := c.template(t).Spec.server(t), c.environment(t)
		for name, value := range env {
			env[name] = here(value)
			if strings.HasPrefix(name, "TXCOORD_ETCD_") {
				delete(env, name) // of the store that is not used here
			}
		}
		env["TXCOORD_STORE"], env["TXCOORD_WAREHOUSE"] = "mem", t.TempDir()
		env["TXCOORD_LISTEN"], env["TXCOORD_ADMIN_LISTEN"] = "127.0.0.1:0", "127.0.0.1:0"
		var args []string
		for _, a := range one.Args {
			args = append(args, here(a))
		}
		s := serving(t, variables(env), args...)
		authority := read(t, here("/etc/txcoord/tls/ca.crt"))
		base, _ := strings.CutPrefix(s.admin, "https://")
		for _, p := range []*probe{one.LivenessProbe, one.ReadinessProbe} {
			await(t, client(t, authority, "127.0.0.1"), strings.ToLower(p.HTTPGet.Scheme)+"://"+base+p.HTTPGet.Path, "", http.StatusOK)
		}
		m := decode[struct {
			Endpoints []struct {
				Port, Path, Scheme string
				TLSConfig          struct{ ServerName string }
			}
		}](t, c.find(t, "ServiceMonitor", "").Spec).Endpoints[0]
		if m.Port != one.LivenessProbe.HTTPGet.Port {
			t.Errorf("the monitor scrapes port %s", m.Port)
		}
		scraper := client(t, authority, m.TLSConfig.ServerName)
		await(t, scraper, m.Scheme+"://"+base+m.Path, token, http.StatusOK)
		await(t, scraper, m.Scheme+"://"+base+m.Path, "", http.StatusForbidden)
		s.stop()
	}
}

func client(t *testing.T, authority, name string) *http.Client {
	t.Helper()
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM([]byte(authority))
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool, ServerName: name}}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport, Timeout: limit}
}

// await asks until the answer has the code.
func await(t *testing.T, c *http.Client, url, token string, code int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	for {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			t.Fatal(err)
		}
		if token != "" {
			r.Header.Set("Authorization", "Bearer "+token)
		}
		answer, err := c.Do(r)
		if err != nil {
			t.Fatalf("GET %s: %v", url, err)
		}
		text, _ := io.ReadAll(answer.Body)
		_ = answer.Body.Close()
		if answer.StatusCode == code {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatalf("GET %s: %s: %s", url, answer.Status, text)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// The sidecar runs with its own arguments; its probe, and the job beside it, reach it.
func TestSidecarIsReached(t *testing.T) {
	c := build(t, "kubernetes/sidecar")
	here, _ := c.mounted(t)
	p := c.template(t).Spec
	one, env := p.server(t), c.environment(t)
	if one.RestartPolicy != "Always" || len(p.InitContainers) != 1 {
		t.Error("it is no native sidecar: an init container that is always restarted")
	}
	for name, value := range env {
		env[name] = here(value)
	}
	env["TXCOORD_STORE"], env["TXCOORD_WAREHOUSE"] = "mem", t.TempDir()
	var args []string
	for _, a := range one.Args {
		args = append(args, here(a))
	}
	serving(t, variables(env), args...)
	ask := one.StartupProbe.Exec.Command
	if ask[0] != "/usr/bin/txcoord" {
		t.Errorf("the probe runs %s", ask[0])
	}
	ran(t, variables(env), program(t), ask[1:]...)
	job := p.Containers[0]
	for _, v := range job.Env {
		ran(t, []string{v.Name + "=" + here(v.Value)}, program(t), job.Args...)
	}
}

type composition struct {
	Services map[string]struct {
		Image, User string
		Command     []string
		Environment map[string]string
		Ports       []struct {
			HostIP string `json:"host_ip"`
			Target int
		}
		Healthcheck struct{ Test []string }
		ReadOnly    bool     `json:"read_only"`
		CapDrop     []string `json:"cap_drop"`
		Build       struct{ Context, Dockerfile string }
	}
}

// What Compose would start, started here: etcd and an S3 server of the same versions, and
// both servers of txcoord with their arguments and variables, but for the addresses.
func TestCompositionWorks(t *testing.T) {
	c := checked[composition](t, "compose", "compose/compose.yaml")
	for image, module := range map[string]string{
		c.Services["etcd"].Image: "tools/etcd/go.mod go.etcd.io/etcd/server/v3", c.Services["s3"].Image: "tools/versitygw/go.mod github.com/versity/versitygw",
	} {
		file, name, _ := strings.Cut(module, " ")
		_, version, _ := strings.Cut(image, ":")
		if !strings.Contains(read(t, "../"+file), name+" "+version+" ") {
			t.Errorf("%s is not the version that the tests run on", image)
		}
	}
	etcd, s3 := servers.StartEtcd(t, servers.EtcdConfig{}), servers.StartVersity(t)
	if err := os.Mkdir(s3.Folder("lake"), 0o755); err != nil {
		t.Fatal(err)
	}
	change := strings.NewReplacer(
		"etcd:2379", strings.TrimPrefix(etcd.Endpoints()[0], "http://"), "http://s3:7070", s3.Endpoint, "region=us-east-1", "region="+s3.Region,
		"0.0.0.0:7401", "127.0.0.1:0", "0.0.0.0:7402", "127.0.0.1:0")
	var all []string
	for _, name := range []string{"txcoord-a", "txcoord-b"} {
		one := c.Services[name]
		env := map[string]string{}
		for k, v := range one.Environment {
			env[k] = change.Replace(v)
		}
		env["AWS_ACCESS_KEY_ID"], env["AWS_SECRET_ACCESS_KEY"] = s3.AccessKey, s3.SecretKey
		var args []string
		for _, a := range one.Command {
			args = append(args, change.Replace(a))
		}
		s := serving(t, variables(env), args...)
		all = append(all, s.grpc)
		if one.Healthcheck.Test[1] != "/usr/bin/txcoord" {
			t.Errorf("%s: its health is asked for with %s", name, one.Healthcheck.Test[1])
		}
		ran(t, []string{"TXCOORD_SERVER=" + s.grpc}, program(t), one.Healthcheck.Test[2:]...)
		if !one.ReadOnly || !slices.Equal(one.CapDrop, []string{"ALL"}) {
			t.Errorf("%s may do too much", name)
		}
	}
	for name, one := range c.Services {
		for _, p := range one.Ports {
			if ip := net.ParseIP(p.HostIP); ip == nil || !ip.IsLoopback() {
				t.Errorf("%s: port %d is there for others", name, p.Target)
			}
		}
	}
	env := []string{"TXCOORD_SERVER=" + strings.Join(all, ",")}
	ran(t, env, program(t), "tables", "create", "orders", "s3://lake/warehouse/orders", "--column", "id BIGINT")
	if got := ran(t, env, program(t), "tables", "list", "-o", "id"); !strings.Contains(got, "orders") {
		t.Errorf("tables: %s", got)
	}
}
