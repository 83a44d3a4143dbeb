package telemetry_test

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/txcoord/txcoord/coordinator/telemetry"
)

var rewrite = flag.Bool("rewrite", false, "write the generated pages instead of comparing them")

// same compares a generated file with what it should be, or writes it.
func same(t *testing.T, file, want string) {
	t.Helper()
	file = "../../" + file
	if *rewrite {
		if err := os.WriteFile(file, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	have, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(have), want); diff != "" {
		t.Errorf("%s is old; go test ./coordinator/telemetry -rewrite\n%s", file, diff)
	}
}

// docs/metrics.md is the list in words.
func TestMetricsPage(t *testing.T) {
	var b strings.Builder
	b.WriteString(pageHead)
	for _, m := range telemetry.Metrics() {
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s |\n", m.Prometheus(), m.Kind, unit(m), labelText(m), m.About)
	}
	b.WriteString("\n## Buckets\n\n| metric | upper bounds |\n|---|---|\n")
	for _, m := range telemetry.Metrics() {
		if m.Kind == telemetry.Histogram {
			fmt.Fprintf(&b, "| `%s` | %s |\n", m.Prometheus(), strings.Trim(strings.ReplaceAll(fmt.Sprint(m.Buckets), " ", ", "), "[]"))
		}
	}
	b.WriteString("\n## Labels\n\n")
	seen := map[string]bool{}
	for _, m := range telemetry.Metrics() {
		for _, l := range m.Labels {
			if text := fmt.Sprintf("- `%s`: %s\n", l.Name, values(l)); !seen[text] {
				seen[text] = true
				b.WriteString(text)
			}
		}
	}
	same(t, "docs/metrics.md", b.String())
}

func unit(m *telemetry.Metric) string {
	switch m.Unit {
	case "s":
		return "seconds"
	case "By":
		return "bytes"
	}
	return strings.Trim(m.Unit, "{}")
}

func labelText(m *telemetry.Metric) string {
	var out []string
	for _, l := range m.Labels {
		out = append(out, "`"+l.Name+"`")
	}
	return strings.Join(out, ", ")
}

func values(l telemetry.Label) string {
	if len(l.Values) == 0 {
		return "names of tables, and other"
	}
	return strings.Join(l.Values, ", ")
}

const pageHead = `# Metrics

Generated from the list in ` + "`coordinator/telemetry/metrics.go`" + `, as are the dashboard (` + "`deploy/grafana/dashboard.json`" + `) and the alerts
(` + "`deploy/prometheus/alerts.yaml`" + `); [observability.md](observability.md) says how to get at them. The names are those of the Prometheus endpoint. By OTLP a name has
dots in place of its underscores, and neither unit nor ` + "`_total`" + ` at its end. Every metric has the label ` + "`catalog`" + ` besides its own. No label has a value that is
not below, so that the number of series is known beforehand. Counters and histograms begin at 0 with each process, and count what this replica did.
A counter or histogram has no series before the first event that it counts, and one for a label's value before the first of that value: what is not there is 0
(in PromQL ` + "`sum(rate(…)) or vector(0)`" + `). Gauges are there from the start.

gRPC's own metrics (` + "`rpc_server_*`" + `, ` + "`rpc_client_*`" + `) come from OpenTelemetry's instrumentation of it, with its names.

| metric | kind | unit | labels | meaning |
|---|---|---|---|---|
`

func TestEveryMetricIsDescribed(t *testing.T) {
	seen := map[string]bool{}
	for _, m := range telemetry.Metrics() {
		switch {
		case !strings.HasPrefix(m.Name, "txcoord.") || seen[m.Prometheus()]:
			t.Errorf("%s: the name is taken, or not ours", m.Name)
		case !strings.HasSuffix(m.About, "."):
			t.Errorf("%s: is not described", m.Name)
		case (m.Kind == telemetry.Histogram) != (len(m.Buckets) > 0):
			t.Errorf("%s: a %s with buckets %v", m.Name, m.Kind, m.Buckets)
		case len(m.Labels) > 2:
			t.Errorf("%s: has %d labels, there is room for two", m.Name, len(m.Labels))
		}
		seen[m.Prometheus()] = true
	}
}
