package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"

	"github.com/txcoord/txcoord/coordinator/access"
	"github.com/txcoord/txcoord/coordinator/rpc"
	"github.com/txcoord/txcoord/coordinator/telemetry"
	"github.com/txcoord/txcoord/e2e/otlp"
	txcoordv1 "github.com/txcoord/txcoord/proto/txcoord/v1"
)

// get asks the admin address; a token or none.
func get(t *testing.T, c *http.Client, url, token string) (code int, body string) {
	t.Helper()
	q, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	if token != "" {
		q.Header.Set("Authorization", "Bearer "+token)
	}
	q.Close = true
	a, err := c.Do(q)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Body.Close()
	b, err := io.ReadAll(a.Body)
	if err != nil {
		t.Fatal(err)
	}
	return a.StatusCode, string(b)
}

// openMetrics scrapes with exemplars.
func openMetrics(t *testing.T, url string) string {
	t.Helper()
	q, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	q.Header.Set("Accept", "application/openmetrics-text; version=1.0.0")
	q.Close = true
	a, err := http.DefaultClient.Do(q)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Body.Close()
	b, err := io.ReadAll(a.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// awaitReady waits until /readyz says so.
func awaitReady(t *testing.T, c *http.Client, base string) {
	t.Helper()
	for end := time.Now().Add(5 * time.Minute); ; time.Sleep(5 * time.Millisecond) {
		code, body := get(t, c, base+"/readyz", "")
		if code == http.StatusOK {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("not ready: %d %s", code, body)
		}
	}
}

// One client's transaction over three tables, in a real server that sends its traces:
// the trace reaches from the client's span to the manifest.
func TestTraceLeavesTheServer(t *testing.T) {
	r := otlp.Start(t)
	warehouse, admin := t.TempDir(), freeAddress(t)
	address, stop := servingUntil(t, "--warehouse", warehouse, "--otlp-endpoint", r.Endpoint, "--trace-sample", "0", "--admin-listen", admin)
	s := &server{t: t, warehouse: warehouse, env: map[string]string{"TXCOORD_SERVER": address}}
	q := &txcoordv1.CommitOnceRequest{Key: "planted-secret-key"}
	for _, name := range []string{"a", "b", "c"} {
		s.ok("tables", "create", name, filepath.Join(warehouse, name), "--schema", schema, "--mode", "exclusive")
		q.Tables = append(q.Tables, &txcoordv1.OnceTable{
			Table: name, Read: &txcoordv1.ReadDeclaration{Point: &txcoordv1.ReadDeclaration_Blind{Blind: true}},
			Actions: []byte(`{"add":{"path":"planted-secret-path","partitionValues":{},"size":1,"modificationTime":1,"dataChange":true}}`),
		})
	}
	cc, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer cc.Close()
	ctx := metadata.AppendToOutgoingContext(t.Context(), "traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
	if _, err := txcoordv1.NewTransactionServiceClient(cc).CommitOnce(ctx, q); err != nil {
		t.Fatal(err)
	}
	if text := openMetrics(t, "http://"+admin+"/metrics"); !strings.Contains(text, `trace_id="0af7651916cd43dd8448eb211c80319c"`) || strings.Contains(text, "planted-secret") {
		t.Errorf("the trace is no exemplar, or what a client sent stands among metrics:\n%s", text)
	}
	if code, stderr := stop(); code != 0 { // it sends the rest at its end
		t.Fatalf("serve ends with %d\n%s", code, stderr)
	}
	call := "txcoord.v1.TransactionService/CommitOnce"
	for name, n := range map[string]int{
		call: 1, telemetry.CommitSpan: 1, telemetry.StageSpan: 3, telemetry.QueueSpan: 1, telemetry.AppendSpan: 1, telemetry.PutSpan: 3,
		telemetry.PublishSpan: 1, telemetry.ManifestSpan: 1, telemetry.GroupSpan: 1,
	} {
		spans := r.Named(name)
		if len(spans) != n {
			t.Fatalf("%d spans %s, want %d", len(spans), name, n)
		}
		for _, s := range spans {
			if ours := string(s.GetTraceId()) == "\x0a\xf7\x65\x19\x16\xcd\x43\xdd\x84\x48\xeb\x21\x1c\x80\x31\x9c"; ours == (name == telemetry.GroupSpan) {
				t.Errorf("%s in trace %x", name, s.GetTraceId())
			}
		}
	}
	rpcSpan, commit := r.Named(call)[0], r.Named(telemetry.CommitSpan)[0]
	if string(rpcSpan.GetParentSpanId()) != "\xb7\xad\x6b\x71\x69\x20\x33\x31" || !bytes.Equal(commit.GetParentSpanId(), rpcSpan.GetSpanId()) {
		t.Errorf("the call is under %x, the commit under %x", rpcSpan.GetParentSpanId(), commit.GetParentSpanId())
	}
	if n := len(r.Named("txcoord.v1.TableService/CreateTable")); n != 0 {
		t.Errorf("%d calls are traced that nobody sampled", n)
	}
	if strings.Contains(r.Traces(), "planted-secret") {
		t.Error("what a client sent stands in its trace")
	}
}

// What /metrics answers is what Prometheus reads, its linter likes, and the list says.
func TestMetricsEndpoint(t *testing.T) {
	admin := freeAddress(t)
	s := startServer(t, "--admin-listen", admin)
	base := "http://" + admin
	awaitReady(t, http.DefaultClient, base)
	s.ok("tables", "create", "orders", filepath.Join(s.warehouse, "orders"), "--schema", schema)
	code, body := get(t, http.DefaultClient, base+"/metrics", "")
	if code != http.StatusOK {
		t.Fatalf("%d %s", code, body)
	}
	parser := expfmt.NewTextParser(model.LegacyValidation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	problems, err := promlint.New(strings.NewReader(body)).Lint()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		if strings.HasPrefix(p.Metric, "txcoord_") {
			t.Errorf("%s: %s", p.Metric, p.Text)
		}
	}
	known := map[string]bool{}
	for _, m := range telemetry.Metrics() {
		known[m.Prometheus()] = true
		if f := families[m.Prometheus()]; m.Kind == telemetry.Gauge && f == nil {
			t.Errorf("%s is not there", m.Prometheus())
		}
	}
	for name := range families {
		if strings.HasPrefix(name, "txcoord_") && !known[name] {
			t.Errorf("%s is not in the list", name)
		}
	}
	if f := families["txcoord_tables"]; len(f.GetMetric()) == 0 || len(f.GetMetric()[0].GetLabel()) != 2 {
		t.Errorf("txcoord_tables is %v", f)
	}
	if code, body := get(t, http.DefaultClient, base+"/debug/pprof/goroutine?debug=1", ""); code != http.StatusOK || !strings.Contains(body, "goroutine") {
		t.Errorf("a profile, from this machine: %d %s", code, body)
	}
	if code, _ := get(t, http.DefaultClient, base+"/debug/pprof/cmdline", ""); code != http.StatusNotFound {
		t.Errorf("the command line: %d", code)
	}
	q, err := http.NewRequestWithContext(t.Context(), http.MethodGet, base+"/metrics", nil)
	if err != nil {
		t.Fatal(err)
	}
	q.Host, q.Close = "evil.example", true // as from a page that had its name point here
	a, err := http.DefaultClient.Do(q)
	if err != nil {
		t.Fatal(err)
	}
	a.Body.Close()
	if a.StatusCode != http.StatusForbidden {
		t.Errorf("another site's page: %d", a.StatusCode)
	}
}

// Who may look, where who may do what is said.
func TestAdminAddressIsGuarded(t *testing.T) {
	dir := t.TempDir()
	file := func(name string) string { return filepath.Join(dir, name) }
	certificates(t, dir)
	reader, known := access.NewToken("reader", nil)
	nobody, nobodyKnown := access.NewToken("nobody", nil)
	boss, bossKnown := access.NewToken("boss", nil)
	put(t, file("access.yaml"), `
tokens: [{principal: reader, sha256: `+known.SHA256+`}, {principal: nobody, sha256: `+nobodyKnown.SHA256+`}, {principal: boss, sha256: `+bossKnown.SHA256+`}]
roles:
  reader: [{catalogs: ["*"], tables: [orders], actions: [read]}]
  boss: [{catalogs: ["*"], tables: ["*"], actions: [read, admin]}]
bindings: [{role: reader, principals: ["token:reader"]}, {role: boss, principals: ["token:boss"]}]
`)
	admin := freeAddress(t)
	startServer(t, "--admin-listen", admin, "--tls-cert", file("server.pem"), "--tls-key", file("server.key"), "--tls-client-ca", file("ca.pem"), "--access", file("access.yaml"),
		"--audit-log", file("audit"))
	c := trusting(t, file("ca.pem"))
	base := "https://" + admin
	awaitReady(t, c, base)
	for _, w := range []struct {
		path, token string
		code        int
	}{
		{"/healthz", "", 200},
		{"/metrics", "", 403},
		{"/metrics", nobody, 403},
		{"/metrics", "txcoord_wrong", 401},
		{"/metrics", reader, 200},
		{"/metrics", boss, 200},
		{"/debug/pprof/heap", "", 403},
		{"/debug/pprof/heap", reader, 403},
		{"/debug/pprof/heap", boss, 200},
		{"/debug/pprof/", reader, 403},
		{"/", boss, 404},
	} {
		code, body := get(t, c, base+w.path, w.token)
		if code != w.code {
			t.Errorf("%s with %.12q: %d, want %d", w.path, w.token, code, w.code)
		}
		if w.token != "" && strings.Contains(body, w.token) {
			t.Errorf("%s repeats the token", w.path)
		}
	}
	raw, err := os.ReadFile(file("audit"))
	if err != nil {
		t.Fatal(err)
	}
	wantAdminAudit(t, raw, []adminAudit{
		{Principal: "anonymous", Method: "GET /metrics", Asked: "read:", Code: "PermissionDenied", Reason: "PERMISSION_DENIED"},
		{Principal: "token:nobody", Method: "GET /metrics", Asked: "read:", Code: "PermissionDenied", Reason: "PERMISSION_DENIED"},
		{Principal: "unauthenticated", Method: "GET /metrics", Code: "Unauthenticated", Reason: "UNAUTHENTICATED", Detail: "not authenticated: the token is not known"},
		{Principal: "anonymous", Method: "GET /debug/pprof/heap", Asked: "admin:*", Code: "PermissionDenied", Reason: "PERMISSION_DENIED"},
		{Principal: "token:reader", Method: "GET /debug/pprof/heap", Asked: "admin:*", Code: "PermissionDenied", Reason: "PERMISSION_DENIED"},
		{Principal: "token:boss", Method: "GET /debug/pprof/heap", Asked: "admin:*", Code: "OK"},
		{Principal: "token:reader", Method: "GET /debug/pprof/", Asked: "admin:*", Code: "PermissionDenied", Reason: "PERMISSION_DENIED"},
	})
	if bytes.Contains(raw, []byte("txcoord_")) {
		t.Errorf("a token stands in the audit log:\n%s", raw)
	}
}

type adminAudit struct{ Principal, Method, Asked, Code, Reason, Detail string }

// wantAdminAudit looks at the lines of requests by HTTP; each is from this machine.
func wantAdminAudit(t *testing.T, raw []byte, want []adminAudit) {
	t.Helper()
	var got []adminAudit
	for line := range bytes.Lines(raw) {
		var l struct {
			Principal, Client, Catalog, Method, Code, Reason, Detail string
			Asked                                                    []string
		}
		if err := json.Unmarshal(line, &l); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		if l.Catalog != "default" || !strings.HasPrefix(l.Client, "127.0.0.1:") || l.Asked == nil {
			t.Errorf("line %s", line)
		}
		got = append(got, adminAudit{l.Principal, l.Method, strings.Join(l.Asked, " "), l.Code, l.Reason, l.Detail})
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the audit log (-want +got):\n%s", diff)
	}
}

// trusting is a client of HTTP that trusts an authority.
func trusting(t *testing.T, ca string) *http.Client {
	t.Helper()
	pool := x509.NewCertPool()
	pem, err := os.ReadFile(ca)
	if err != nil || !pool.AppendCertsFromPEM(pem) {
		t.Fatal("no authority", err)
	}
	return &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}, DisableKeepAlives: true}}
}

// What cannot work is refused before anything is opened.
func TestObserveFlags(t *testing.T) {
	for _, c := range []struct {
		args []string
		env  map[string]string
		want string
	}{
		{[]string{"--admin-listen", "0.0.0.0:0"}, nil, "--tls-cert"},
		{[]string{"--admin-listen", "7402"}, nil, "host:port"},
		{[]string{"--otlp-endpoint", "collector:4317"}, nil, "http://HOST:PORT"},
		{[]string{"--otlp-endpoint", "http://me:secret@collector:4317"}, nil, "OTEL_EXPORTER_OTLP_HEADERS"},
		{[]string{"--trace-sample", "1.5"}, nil, "from 0 to 1"},
		{[]string{"--metrics-tables=-1"}, nil, "from 0 to 10000"},
		{nil, map[string]string{"OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf"}, "only grpc"},
		{nil, map[string]string{"OTEL_TRACES_SAMPLER": "jaeger_remote"}, "traceidratio"},
		{nil, map[string]string{"OTEL_TRACES_SAMPLER": "traceidratio", "OTEL_TRACES_SAMPLER_ARG": "half"}, "from 0 to 1"},
	} {
		args := append([]string{"serve", "--listen", "127.0.0.1:0", "--warehouse", filepath.Join(t.TempDir(), "w")}, c.args...)
		o := txcoord(t, c.env, "", args...)
		wantCode(t, args, o, 2, c.want)
		if strings.Contains(o.stderr, "me:secret") {
			t.Errorf("the message repeats credentials: %s", o.stderr)
		}
	}
}

// Health by catalog: serving while the catalog is, and not when the server ends; so is
// /readyz, while calls in flight are still answered.
func TestHealthOfACatalog(t *testing.T) {
	admin := freeAddress(t)
	warehouse := t.TempDir()
	address, stop := servingUntil(t, "--warehouse", warehouse, "--admin-listen", admin)
	cc, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer cc.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	watch, err := healthpb.NewHealthClient(cc).Watch(ctx, &healthpb.HealthCheckRequest{Service: rpc.HealthOf("default")})
	if err != nil {
		t.Fatal(err)
	}
	next := func() healthpb.HealthCheckResponse_ServingStatus {
		a, err := watch.Recv()
		if err != nil {
			t.Fatal(err)
		}
		return a.GetStatus()
	}
	status := next()
	for status == healthpb.HealthCheckResponse_SERVICE_UNKNOWN { // not looked at yet
		status = next()
	}
	if status != healthpb.HealthCheckResponse_SERVING {
		t.Fatalf("the catalog is %s", status)
	}
	awaitReady(t, http.DefaultClient, "http://"+admin)
	// The watch is a call in flight, which keeps the server from ending.
	ended := make(chan int, 1)
	go func() {
		code, _ := stop()
		ended <- code
	}()
	if status := next(); status != healthpb.HealthCheckResponse_NOT_SERVING {
		t.Errorf("at the end the catalog is %s", status)
	}
	if code, body := get(t, http.DefaultClient, "http://"+admin+"/readyz", ""); code != http.StatusServiceUnavailable || body != stateStopping+"\n" {
		t.Errorf("at the end /readyz says %d %s", code, body)
	}
	if code, _ := get(t, http.DefaultClient, "http://"+admin+"/healthz", ""); code != http.StatusOK {
		t.Errorf("at the end /healthz says %d", code)
	}
	cancel()
	if code := <-ended; code != 0 {
		t.Errorf("serve ends with %d", code)
	}
}

// TestObservabilityPageWorks runs docs/observability.md.
func TestObservabilityPageWorks(t *testing.T) {
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("skipped: the page is a script for bash, which is not here")
	}
	if _, err := exec.LookPath("curl"); err != nil {
		t.Skip("skipped: the page asks with curl, which is not here; TestMetricsEndpoint asks the same")
	}
	text, err := os.ReadFile("../../docs/observability.md")
	if err != nil {
		t.Fatal(err)
	}
	runScripts(t, bash, strings.ReplaceAll(string(text), "127.0.0.1:7402", freeAddress(t)))
}
