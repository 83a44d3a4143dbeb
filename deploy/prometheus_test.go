package deploy_test

import (
	"bytes"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/txcoord/txcoord/e2e/otlp"
	"github.com/txcoord/txcoord/e2e/servers"
)

// promtool is Prometheus' own checker, but for what finds targets in clouds, which is most
// of it.
func promtool(t *testing.T) string {
	t.Helper()
	return servers.Tool(t, "promtool", "github.com/prometheus/prometheus/cmd/promtool", "-tags=remove_all_sd")
}

// alerts.yaml is what Prometheus takes, and each alert fires on what it is about, with the
// words that a person reads, and is quiet where all is well: prometheus/alerts.test.yaml
// says when.
func TestAlertsFire(t *testing.T) {
	p := promtool(t)
	ran(t, nil, p, "check", "rules", "--lint=all", "--lint-fatal", "prometheus/alerts.yaml")
	ran(t, nil, p, "test", "rules", "prometheus/alerts.test.yaml")
	var rules struct {
		Groups []struct{ Rules []struct{ Alert string } }
	}
	var tests struct {
		Tests []struct {
			Cases []struct {
				Alert string `yaml:"alertname"`
				Fires []any  `yaml:"exp_alerts"`
			} `yaml:"alert_rule_test"`
		}
	}
	for name, to := range map[string]any{"alerts.yaml": &rules, "alerts.test.yaml": &tests} {
		if err := yaml.Unmarshal([]byte(read(t, filepath.Join("prometheus", name))), to); err != nil {
			t.Fatal(err)
		}
	}
	fires, quiet := map[string]bool{}, map[string]bool{}
	for _, group := range tests.Tests {
		for _, c := range group.Cases {
			fires[c.Alert] = fires[c.Alert] || len(c.Fires) > 0
			quiet[c.Alert] = quiet[c.Alert] || len(c.Fires) == 0
		}
	}
	for _, group := range rules.Groups {
		for _, r := range group.Rules {
			if !fires[r.Alert] || !quiet[r.Alert] {
				t.Errorf("alerts.test.yaml does not say when %s fires, or when it is quiet", r.Alert)
			}
		}
	}
}

// scraped is what a server shows that has committed one transaction over three tables,
// traced: as the text format, and as OpenMetrics.
func scraped(t *testing.T) (text, open string) {
	t.Helper()
	dir := t.TempDir()
	s := serving(t, nil, "serve", "--warehouse", dir, "--listen=127.0.0.1:0", "--admin-listen=127.0.0.1:0", "--metrics-tables=2",
		"--otlp-endpoint="+otlp.Start(t).Endpoint, "--trace-sample=1")
	env := []string{"TXCOORD_SERVER=" + s.grpc}
	change := filepath.Join(dir, "change.json")
	var tables []string
	for _, name := range []string{"a", "b", "c"} {
		ran(t, env, program(t), "tables", "create", name, filepath.Join(dir, name), "--column", "id BIGINT")
		tables = append(tables, `{"table":"`+name+`","blind":true,"actions":[{"add":{"path":"x","partitionValues":{},"size":1,"modificationTime":1,"dataChange":true}}]}`)
	}
	put(t, change, `{"key":"one","tables":[`+strings.Join(tables, ",")+`]}`)
	ran(t, env, program(t), "commit", change)
	return scrape(t, s.admin, ""), scrape(t, s.admin, "application/openmetrics-text; version=1.0.0")
}

func scrape(t *testing.T, base, accept string) string {
	t.Helper()
	q, err := http.NewRequestWithContext(t.Context(), http.MethodGet, base+"/metrics", nil)
	if err != nil {
		t.Fatal(err)
	}
	q.Header.Set("Accept", accept)
	q.Close = true
	a, err := http.DefaultClient.Do(q)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Body.Close()
	var b bytes.Buffer
	if _, err := b.ReadFrom(a.Body); err != nil || a.StatusCode != http.StatusOK {
		t.Fatalf("%s %v: %s", a.Status, err, b.String())
	}
	return b.String()
}

// What a server shows that did work, Prometheus' own checker takes, and finds nothing to
// say about; and each series of it, as OpenMetrics with exemplars, gets into Prometheus'
// own database.
func TestPrometheusReadsTheEndpoint(t *testing.T) {
	p := promtool(t)
	text, open := scraped(t)
	const committed = `txcoord_transactions_committed_total{catalog="default"} 1`
	if !strings.Contains(text, "\n"+committed+"\n") || !regexp.MustCompile(`(?m) # \{.*trace_id="`).MatchString(open) {
		t.Fatalf("no transaction, or no exemplar:\n%s\n%s", text, open)
	}
	if out, err := checkMetrics(p, text); err != nil || out != "" {
		t.Errorf("promtool check metrics: %v\n%s", err, out)
	}
	for what, damaged := range map[string]string{
		"without its help": strings.Replace(text, "# HELP txcoord_tables ", "# about txcoord_tables ", 1),
		"cut":              strings.Replace(text, committed, `txcoord_transactions_committed_total{catalog="def`, 1),
	} {
		if out, err := checkMetrics(p, damaged); err == nil {
			t.Errorf("%s, promtool takes it: %s", what, out)
		}
	}
	stamped, series := at(open, "1800000000")
	dir := t.TempDir()
	put(t, filepath.Join(dir, "metrics"), stamped)
	db := filepath.Join(dir, "db")
	ran(t, nil, p, "tsdb", "create-blocks-from", "openmetrics", filepath.Join(dir, "metrics"), db)
	if err := os.Mkdir(filepath.Join(db, "wal"), 0o755); err != nil { // which reading wants, and what is made from a file has not
		t.Fatal(err)
	}
	dump := strings.Split(strings.TrimSpace(ran(t, nil, p, "tsdb", "dump", db)), "\n")
	if len(dump) != series {
		t.Errorf("Prometheus has %d of %d series:\n%s", len(dump), series, strings.Join(dump, "\n"))
	}
	if want := `{__name__="txcoord_transactions_committed_total", catalog="default"} 1 1800000000000`; !slices.Contains(dump, want) {
		t.Errorf("no %s among\n%s", want, strings.Join(dump, "\n"))
	}
}

func checkMetrics(promtool, text string) (string, error) {
	cmd := exec.Command(promtool, "check", "metrics")
	cmd.Stdin = strings.NewReader(text)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// at puts a time behind each sample of OpenMetrics, in front of its exemplar: a scrape is
// of the moment, and a file has to say.
func at(open, seconds string) (stamped string, samples int) {
	var b strings.Builder
	for line := range strings.Lines(open) {
		line = strings.TrimSuffix(line, "\n")
		if !strings.HasPrefix(line, "#") {
			sample, exemplar, some := strings.Cut(line, " # ")
			samples++
			if line = sample + " " + seconds; some {
				line += " # " + exemplar
			}
		}
		b.WriteString(line + "\n")
	}
	return b.String(), samples
}
