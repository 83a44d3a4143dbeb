//go:build unix

package main

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/txcoord/txcoord/coordinator/access"
	"github.com/txcoord/txcoord/e2e/otlp"
	"github.com/txcoord/txcoord/e2e/servers"
)

// Secrets are planted wherever one can be, in servers that say everything (log level
// debug, all traces) and in commands that go well and that fail. None of what comes out
// may hold one: logs, errors, answers, audit log, traces, metrics, profiles, the dump of a
// crash, what lies on disk, in the journal.

// planted are secrets by what they are. They are long enough to be found nowhere by chance.
type planted map[string]string

func (p planted) secret(name string) string {
	if p[name] == "" {
		p[name] = "planted" + strings.ReplaceAll(name, " ", "") + fmt.Sprintf("%x", time.Now().UnixNano())
	}
	return p[name]
}

// search looks for each secret as it is and as it goes over wires, in any case.
func (p planted) search(t *testing.T, where, text string) {
	t.Helper()
	text = strings.ToLower(text)
	for name, secret := range p {
		for _, form := range []string{secret, url.QueryEscape(secret), base64.StdEncoding.EncodeToString([]byte(secret))} {
			form = strings.ToLower(form)
			if i := strings.Index(text, form); i >= 0 {
				t.Errorf("%s holds the %s: …%s…", where, name, text[max(0, i-200):min(len(text), i+len(form)+20)])
				break
			}
		}
	}
}

// searchFiles looks into all files of a folder, except those in which secrets are kept.
func (p planted) searchFiles(t *testing.T, dir string, kept ...string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		for _, k := range kept {
			if path == filepath.Join(dir, k) {
				return nil
			}
		}
		b, err := os.ReadFile(path)
		p.search(t, path, string(b))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// A journal in etcd, by user and password, and everybody known by token; JSON logs.
func TestSecretsStayInsideWithEtcd(t *testing.T) {
	t.Parallel()
	p, dir := planted{}, t.TempDir()
	e := servers.StartEtcd(t, servers.EtcdConfig{})
	admin := withUsers(t, e, p.secret("etcd password"))
	put(t, filepath.Join(dir, "etcd.password"), p.secret("etcd password"))
	store := "etcd://" + strings.TrimPrefix(e.Endpoints()[0], "http://") + "/shop"
	w := startSecretive(t, p, dir, map[string]string{}, "--log-format", "json", "--store", store, "--etcd-user", "txcoord",
		"--etcd-password-file", filepath.Join(dir, "etcd.password"))
	w.use()
	w.crash()
	journal, err := admin.Get(t.Context(), "shop/", clientv3.WithPrefix())
	if err != nil || len(journal.Kvs) == 0 {
		t.Fatal("no journal", err)
	}
	for _, kv := range journal.Kvs {
		p.search(t, "the journal", string(kv.Key)+string(kv.Value))
	}
	p.searchFiles(t, dir, "server.key", "boss.key", "ca.key", "token", "etcd.password")
	wrong := map[string]string{"TXCOORD_ETCD_PASSWORD": p.secret("wrong etcd password")}
	o := txcoord(t, wrong, "", "store", "check", "--store", store, "--etcd-user", "txcoord")
	wantCode(t, nil, o, 11)
	p.search(t, "store check", o.out+o.stderr)
}

// withUsers turns authentication on, and returns a client of the root user.
func withUsers(t *testing.T, e *servers.Etcd, password string) *clientv3.Client {
	t.Helper()
	open := func(user string) *clientv3.Client {
		c, err := clientv3.New(clientv3.Config{Endpoints: e.Endpoints(), Username: user, Password: user, DialTimeout: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		return c
	}
	c, ctx := open(""), t.Context()
	for _, step := range []func() error{
		func() error { _, err := c.UserAdd(ctx, "root", "root"); return err },
		func() error { _, err := c.UserGrantRole(ctx, "root", "root"); return err },
		func() error { _, err := c.RoleAdd(ctx, "txcoord"); return err },
		func() error {
			_, err := c.RoleGrantPermission(ctx, "txcoord", "shop/", clientv3.GetPrefixRangeEnd("shop/"), clientv3.PermissionType(clientv3.PermReadWrite))
			return err
		},
		func() error { _, err := c.UserAdd(ctx, "txcoord", password); return err },
		func() error { _, err := c.UserGrantRole(ctx, "txcoord", "txcoord"); return err },
		func() error { _, err := c.AuthEnable(ctx); return err },
	} {
		if err := step(); err != nil {
			t.Fatal(err)
		}
	}
	return open("root")
}

// A journal in DynamoDB, by AWS's keys; logs as text.
func TestSecretsStayInsideWithDynamoDB(t *testing.T) {
	p, dir := planted{}, t.TempDir()
	d := servers.StartKumo(t)
	aws := map[string]string{
		"AWS_ACCESS_KEY_ID": "AKIAPLANTED", "AWS_SECRET_ACCESS_KEY": p.secret("AWS secret key"), "AWS_SESSION_TOKEN": p.secret("AWS session token"),
		"AWS_REGION": d.Region, "AWS_CONFIG_FILE": filepath.Join(dir, "none"), "AWS_SHARED_CREDENTIALS_FILE": filepath.Join(dir, "none"),
	}
	for name, value := range aws {
		t.Setenv(name, value)
	}
	store := "dynamodb://journal?endpoint=" + d.Endpoint
	o := txcoord(t, nil, "", "store", "init", "--store", store)
	wantCode(t, nil, o, 0)
	p.search(t, "store init", o.out+o.stderr)
	w := startSecretive(t, p, dir, aws, "--store", store)
	w.use()
	d.Kill() // what is said about a store that is away
	o = w.cli("", "tables", "create", "late", filepath.Join(w.warehouse, "late"), "--schema", schema, "--timeout", "3s")
	if o.code == 0 {
		t.Error("a table is made without a journal")
	}
	w.crash()
	p.searchFiles(t, dir, "server.key", "boss.key", "ca.key", "token")
}

// secretive is a server, in a process of its own, that was told secrets.
type secretive struct {
	t              *testing.T
	planted        planted
	dir, warehouse string
	address, admin string
	token          string
	sent           *otlp.Collector
	process        *exec.Cmd
	output         *lockedBuffer
	store          []string
	env            map[string]string
	ended          chan struct{}
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

func startSecretive(t *testing.T, p planted, dir string, env map[string]string, store ...string) *secretive {
	t.Helper()
	certificates(t, dir)
	for _, name := range []string{"server", "boss", "ca"} {
		key, err := os.ReadFile(filepath.Join(dir, name+".key"))
		if err != nil {
			t.Fatal(err)
		}
		p["key of "+name] = strings.Split(string(key), "\n")[1] // a line of what is inside
	}
	var nobody access.Token
	token, known := access.NewToken("etl", nil)
	p["token"] = token
	p["token of nobody"], nobody = access.NewToken("nobody", nil)
	put(t, filepath.Join(dir, "token"), token)
	put(t, filepath.Join(dir, "access.yaml"), `
tokens: [{principal: etl, sha256: `+known.SHA256+`}, {principal: nobody, sha256: `+nobody.SHA256+`}]
issuers: [{name: corp, issuer: "http://127.0.0.1:1", audience: txcoord}]
roles: {all: [{catalogs: ["*"], tables: ["*"], actions: [read, write, ddl, fence, admin]}]}
bindings: [{role: all, principals: ["token:etl"]}]
`)
	w := &secretive{
		t: t, planted: p, dir: dir, warehouse: filepath.Join(dir, "lake"), admin: freeAddress(t), token: token,
		output: &lockedBuffer{}, store: store, env: env, ended: make(chan struct{}),
	}
	w.sent = otlp.Start(t)
	w.start()
	return w
}

func (w *secretive) start() {
	w.t.Helper()
	ready := filepath.Join(w.dir, "ready")
	w.process = exec.Command(os.Args[0], append([]string{
		"serve", "--listen", "127.0.0.1:0", "--ready-file", ready, "--log-level", "debug", "--warehouse", w.warehouse, "--admin-listen", w.admin,
		"--tls-cert", filepath.Join(w.dir, "server.pem"), "--tls-key", filepath.Join(w.dir, "server.key"), "--tls-client-ca", filepath.Join(w.dir, "ca.pem"),
		"--access", filepath.Join(w.dir, "access.yaml"), "--audit-log", filepath.Join(w.dir, "audit"), "--otlp-endpoint", w.sent.Endpoint, "--trace-sample", "1",
	}, w.store...)...)
	w.process.Env = append(os.Environ(), selfVariable+"=1", "GOTRACEBACK=all",
		"OTEL_EXPORTER_OTLP_HEADERS=api-key="+w.planted.secret("OTLP header"), "OTEL_METRIC_EXPORT_INTERVAL=100", "OTEL_BSP_SCHEDULE_DELAY=100")
	for name, value := range w.env {
		w.process.Env = append(w.process.Env, name+"="+value)
	}
	w.process.Stdout, w.process.Stderr = w.output, w.output
	if err := w.process.Start(); err != nil {
		w.t.Fatal(err)
	}
	go func() {
		_ = w.process.Wait()
		close(w.ended)
	}()
	w.t.Cleanup(func() {
		_ = w.process.Process.Kill()
		<-w.ended
	})
	w.until("the server listens", func() bool {
		b, err := os.ReadFile(ready)
		w.address = strings.TrimSpace(string(b))
		return err == nil && w.address != ""
	})
}

func (w *secretive) until(what string, is func() bool) {
	w.t.Helper()
	for end := time.Now().Add(5 * time.Minute); !is(); time.Sleep(10 * time.Millisecond) {
		select {
		case <-w.ended:
			w.t.Fatalf("the server has ended, and not seen: %s\n%s", what, w.output)
		default:
		}
		if time.Now().After(end) {
			w.t.Fatalf("not seen: %s\n%s", what, w.output)
		}
	}
}

// cli runs a command as a client with a token, and searches what it says.
func (w *secretive) cli(stdin string, args ...string) outputs {
	w.t.Helper()
	return w.as(w.token, stdin, args...)
}

func (w *secretive) as(token, stdin string, args ...string) outputs {
	w.t.Helper()
	o := txcoord(w.t, map[string]string{"TXCOORD_SERVER": w.address, "TXCOORD_TLS_CA": filepath.Join(w.dir, "ca.pem"), "TXCOORD_TOKEN": token}, stdin, args...)
	w.planted.search(w.t, "txcoord "+args[0]+" "+args[min(1, len(args)-1)], o.out+o.stderr)
	return o
}

// use does what goes well, and all that can go wrong with a secret in it.
func (w *secretive) use() {
	w.t.Helper()
	well := func(stdin string, args ...string) {
		w.t.Helper()
		wantCode(w.t, args, w.cli(stdin, args...), 0)
	}
	for _, name := range []string{"orders", "stock"} {
		well("", "tables", "create", name, filepath.Join(w.warehouse, name), "--schema", schema)
	}
	well(twoAppends("one"), "commit", "-")
	config := filepath.Join(w.dir, "txcoord.yaml")
	put(w.t, config, w.config())
	for _, args := range [][]string{
		{"status"},
		{"tables", "describe", "orders"},
		{"tables", "why", "orders"},
		{"tx", "why", "one"},
		{"snapshot", "get"},
		{"config", "print", config},
		{"config", "check", config},
		{"access", "check", filepath.Join(w.dir, "access.yaml"), "--principal", "token:etl"},
	} {
		well("", args...)
		well("", append(args, "-o", "json")...)
	}
	w.cli("", "doctor", config)
	w.cli("", "doctor", config, "-o", "json")
	p := w.planted
	for _, wrong := range []string{"txcoord_" + p.secret("wrong token"), "eyJhbGciOiJFUzI1NiJ9.eyJpc3MiOiJodHRwOi8vMTI3LjAuMC4xOjEifQ." + p.secret("JWT")} {
		if o := w.as(wrong, "", "tables", "list", "--timeout", "1s"); o.code == 0 {
			w.t.Error("a wrong token is taken")
		}
	}
	in, lake := "user:"+p.secret("password in a URL")+"@", filepath.Join(w.t.TempDir(), "lake")
	for _, store := range []string{
		"etcd://" + in + "127.0.0.1:1/x", "dynamodb://" + in + "t?region=r", "s3://" + in + "bucket/x", "gs://" + in + "bucket/x", "redis://" + in + "h",
		"dynamodb://table?region=r&endpoint=http://" + in + "127.0.0.1:1",
	} {
		for _, args := range [][]string{{"serve", "--warehouse", lake, "--listen", "127.0.0.1:0"}, {"store", "check"}} {
			args = append(args, "--store", store)
			if o := w.cli("", args...); o.code == 0 {
				w.t.Errorf("%q is taken", args)
			}
		}
	}
	for _, args := range [][]string{
		{"tables", "create", "x", "s3://" + in + "bucket/x", "--schema", schema},
		{"tables", "register", "x", "s3://" + in + "bucket/x"},
		{"tables", "describe", "s3://" + in + "bucket/x"},
		{"snapshot", "get", "s3://" + in + "bucket/x"},
		{"status", "--server", "http://" + in + "127.0.0.1:1", "--timeout", "1s"},
		{"health", "--server", "http://" + in + "127.0.0.1:1", "--timeout", "1s"},
		{"serve", "--warehouse", "s3://" + in + "bucket/x", "--store", "mem"},
		{"serve", "--warehouse", lake, "--store", "mem", "--allow", "s3://" + in + "bucket/x"},
		{"serve", "--warehouse", lake, "--store", "mem", "--bucket", "s3://b?region=r&endpoint=http://" + in + "127.0.0.1:1"},
		{"serve", "--warehouse", "s3://bucket/x", "--store", "mem", "--bucket", "s3://*?region=r&endpoint=http://" + in + "127.0.0.1:1"},
		{"serve", "--warehouse", lake, "--otlp-endpoint", "http://" + in + "127.0.0.1:1"},
		{"serve", "--warehouse", lake, "--log-store", "dynamodb://" + in + "t?region=r"},
		{"serve", "--warehouse", lake, "--log-store", "dynamodb://t?region=r&endpoint=http://" + in + "127.0.0.1:1"},
		{"store", "move", "--warehouse", lake, "--store", "mem", "--to", "etcd://" + in + "127.0.0.1:1/x"},
		{"fsck", "--warehouse", "s3://" + in + "bucket/x", "--store", "mem"},
		{"doctor", "--server", "http://" + in + "127.0.0.1:1"},
	} {
		if o := w.cli("", args...); o.code == 0 {
			w.t.Errorf("%q is taken", args)
		}
		if o := w.as(p["token of nobody"], "", args...); o.code == 0 {
			w.t.Errorf("%q is allowed to everybody", args)
		}
	}
	w.misplaced()
	w.look()
}

// config is the server's own, as a file, which has no place for secrets.
func (w *secretive) config() string {
	text := "warehouse: " + w.warehouse + "\naccess: " + filepath.Join(w.dir, "access.yaml") + "\ntls-cert: " + filepath.Join(w.dir, "server.pem") +
		"\ntls-key: " + filepath.Join(w.dir, "server.key") + "\n"
	for i := 0; i < len(w.store); i += 2 {
		text += strings.TrimPrefix(w.store[i], "--") + ": " + w.store[i+1] + "\n"
	}
	return text
}

// misplaced puts secrets where none belongs: the message must not repeat them.
func (w *secretive) misplaced() {
	w.t.Helper()
	secret := w.planted.secret("secret in a file")
	for i, text := range []string{
		"warehouse: /x\netcd-password: " + secret, "warehouse: /x\ntoken: " + secret, "warehouse: /x\netcd-password: [" + secret + "]",
		"warehouse: /x\nstore: etcd://me:" + secret + "@h:1/x",
	} {
		file := filepath.Join(w.t.TempDir(), "c.yaml")
		put(w.t, file, text)
		for _, command := range []string{"check", "print"} {
			if o := w.cli("", "config", command, file); o.code == 0 && command == "check" {
				w.t.Errorf("file %d is taken", i)
			}
		}
	}
	file := filepath.Join(w.t.TempDir(), "access.yaml")
	put(w.t, file, "tokens: [{principal: x, sha256: "+secret+"}]")
	if o := w.cli("", "access", "check", file, "--principal", "token:x"); o.code == 0 {
		w.t.Error("a token in place of its hash is taken")
	}
}

// look searches what the server offers to those who watch it.
func (w *secretive) look() {
	w.t.Helper()
	c := trusting(w.t, filepath.Join(w.dir, "ca.pem"))
	for _, path := range []string{"/metrics", "/readyz", "/healthz", "/debug/pprof/goroutine?debug=2", "/debug/pprof/heap?debug=1"} {
		code, body := get(w.t, c, "https://"+w.admin+path, w.token)
		if code != http.StatusOK {
			w.t.Errorf("%s: %d", path, code)
		}
		w.planted.search(w.t, path, body)
	}
	w.until("traces and metrics arrive", func() bool {
		return len(w.sent.Named("txcoord.v1.TransactionService/CommitOnce")) > 0 && strings.Contains(w.sent.Metrics(), "txcoord")
	})
}

// crash has the server dump all its goroutines, and searches all that it ever said.
func (w *secretive) crash() {
	w.t.Helper()
	if err := w.process.Process.Signal(syscall.SIGQUIT); err != nil {
		w.t.Fatal(err)
	}
	select {
	case <-w.ended:
	case <-time.After(5 * time.Minute):
		w.t.Fatal("does not end")
	}
	said := w.output.String()
	if !strings.Contains(said, "SIGQUIT: quit") || !strings.Contains(said, "goroutine 1 ") {
		w.t.Errorf("no dump: %s", said)
	}
	w.planted.search(w.t, "the server's output", said)
	w.planted.search(w.t, "the traces", w.sent.Traces())
	w.planted.search(w.t, "the metrics that were sent", w.sent.Metrics())
	audit, err := os.ReadFile(filepath.Join(w.dir, "audit"))
	if err != nil || !bytes.Contains(audit, []byte("Unauthenticated")) {
		w.t.Errorf("the audit log has no refusal: %v %s", err, audit)
	}
}

// What is planted is found, in each form.
func TestPlantedSecretsAreFound(t *testing.T) {
	p := planted{"a": "Se/cret+"}
	for _, text := range []string{"xse/cret+x", "Se/cret+", "=se%2Fcret%2B&", "Basic U2UvY3JldCs="} {
		probe := &testing.T{}
		p.search(probe, "here", text)
		if !probe.Failed() {
			t.Errorf("not found in %s", text)
		}
	}
}
