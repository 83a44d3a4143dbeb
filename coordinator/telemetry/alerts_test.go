package telemetry_test

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/txcoord/txcoord/coordinator/telemetry"
)

// alert is one of deploy/prometheus/alerts.yaml.
type alert struct {
	name, severity, lasts string
	// expr names metrics in braces, by their names in the list.
	expr string
	says string
}

var alerts = []alert{
	{
		"TxcoordAbsent", "critical", "5m", `absent({txcoord.journal.position})`,
		"No replica is scraped: nothing is known of the catalog.",
	},
	{
		"TxcoordBroken", "critical", "1m", `max by (catalog) ({txcoord.broken}) > 0`,
		"A replica of catalog {{ $labels.catalog }} takes no writes: its journal does not fit what was folded or published.",
	},
	{
		"TxcoordTableFrozen", "critical", "1m", `max by (catalog, cause) ({txcoord.tables.frozen}{cause!="stalled"}) > 0`,
		"{{ $value }} tables of catalog {{ $labels.catalog }} take no commits until an operator resolves them ({{ $labels.cause }}).",
	},
	{
		"TxcoordTableStalled", "warning", "5m", `max by (catalog) ({txcoord.tables.frozen}{cause="stalled"}) > 0`,
		"{{ $value }} tables of catalog {{ $labels.catalog }} are frozen because their own log cannot be written, while others can.",
	},
	{
		"TxcoordPublicationLate", "warning", "2m", `max by (catalog) ({txcoord.publish.lag}) > 60`,
		`What catalog {{ $labels.catalog }} has decided is not in its tables since {{ $value | printf "%.0f" }} s.`,
	},
	{
		"TxcoordManifestLate", "warning", "2m", `min by (catalog) ({txcoord.manifest.age}) > 60`,
		`A snapshot of catalog {{ $labels.catalog }} has no manifest since {{ $value | printf "%.0f" }} s: readers of the warehouse alone see an old state.`,
	},
	{
		"TxcoordRingFills", "critical", "5m", `max by (catalog) ({txcoord.ring.free} / {txcoord.ring.slots}) < 0.5`,
		"Catalog {{ $labels.catalog }} writes no checkpoints; commits slow down, and stop when the ring is full.",
	},
	{
		"TxcoordBacklogFull", "warning", "5m", `max by (catalog) ({txcoord.backlog} / {txcoord.backlog.limit}) > 0.8`,
		"Catalog {{ $labels.catalog }} refuses new transactions soon, for what waits to be published.",
	},
	{
		"TxcoordStoreFails", "critical", "5m", `sum by (catalog) (rate({txcoord.store.request.duration}_count{outcome=~"failed|unknown"}[5m])) > 0.1`,
		"Requests of catalog {{ $labels.catalog }} to its store fail.",
	},
	{
		"TxcoordObjectsFail", "warning", "5m", `sum by (catalog) (rate({txcoord.objects.request.duration}_count{outcome=~"failed|unknown"}[5m])) > 0.1`,
		"Requests of catalog {{ $labels.catalog }} to object stores fail.",
	},
	{
		"TxcoordTrouble", "warning", "10m", `max by (catalog, use) ({txcoord.troubles}) > 0`,
		"{{ $value }} places of catalog {{ $labels.catalog }} cannot be {{ $labels.use }}.",
	},
	{
		"TxcoordManyAborted", "warning", "15m", `sum by (catalog) (rate({txcoord.transactions.aborted}[15m])) > 0.5 * (sum by (catalog) (rate({txcoord.transactions.aborted}[15m])) + sum by (catalog) (rate({txcoord.transactions.committed}[15m])))`,
		"More than half of the transactions of catalog {{ $labels.catalog }} are aborted.",
	},
	{
		"TxcoordAppendsSlow", "warning", "10m", `histogram_quantile(0.99, sum by (catalog, le) (rate({txcoord.commit.phase.duration}_bucket{phase="append"}[5m]))) > 1`,
		`One in a hundred decisions of catalog {{ $labels.catalog }} takes more than {{ $value | printf "%.1f" }} s.`,
	},
	{
		"TxcoordForeignCommits", "info", "15m", `sum by (catalog, engine) (increase({txcoord.foreign.commits}[15m])) > 100`,
		"{{ $labels.engine }} makes many commits to tables of catalog {{ $labels.catalog }} past it.",
	},
}

var inBraces = regexp.MustCompile(`\{(txcoord[a-z.]*)\}`)

// promql puts the metrics' names at the endpoint into an expression.
func promql(t *testing.T, expr string) string {
	t.Helper()
	known := map[string]string{}
	for _, m := range telemetry.Metrics() {
		known[m.Name] = m.Prometheus()
	}
	return inBraces.ReplaceAllStringFunc(expr, func(s string) string {
		name := known[strings.Trim(s, "{}")]
		if name == "" {
			t.Errorf("%s names no metric of the list: %s", expr, s)
		}
		return name
	})
}

// deploy/prometheus/alerts.yaml, and a runbook for each of them.
func TestAlerts(t *testing.T) {
	var b strings.Builder
	b.WriteString("# Generated from coordinator/telemetry; docs/runbooks.md says what to do.\ngroups:\n  - name: txcoord\n    rules:\n")
	runbooks, err := os.ReadFile("../../docs/runbooks.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range alerts {
		fmt.Fprintf(&b, "      - alert: %s\n        expr: %q\n        for: %s\n        labels:\n          severity: %s\n        annotations:\n", a.name, promql(t, a.expr), a.lasts, a.severity)
		fmt.Fprintf(&b, "          summary: %q\n          runbook: docs/runbooks.md#%s\n", a.says, strings.ToLower(a.name))
		if !strings.Contains(string(runbooks), "\n## "+a.name+"\n") {
			t.Errorf("docs/runbooks.md has no section %s", a.name)
		}
	}
	for _, section := range regexp.MustCompile(`(?m)^## (\w+)$`).FindAllStringSubmatch(string(runbooks), -1) {
		if !strings.Contains(b.String(), "alert: "+section[1]+"\n") {
			t.Errorf("docs/runbooks.md has a section %s, which is no alert", section[1])
		}
	}
	same(t, "deploy/prometheus/alerts.yaml", b.String())
}

var seriesLine = regexp.MustCompile(`\{series: '(\w+)\{(.*)\}', values: `)

// deploy/prometheus/alerts.test.yaml feeds Prometheus with series that replicas show, so
// that no alert is tried on what there never is.
func TestAlertsAreTriedOnSeriesOfTheList(t *testing.T) {
	text, err := os.ReadFile("../../deploy/prometheus/alerts.test.yaml")
	if err != nil {
		t.Fatal(err)
	}
	all := seriesLine.FindAllStringSubmatch(string(text), -1)
	if lines := strings.Count(string(text), "series:"); lines-strings.Count(string(text), "input_series:") != len(all) {
		t.Errorf("%d lines with a series, of which %d are understood", lines, len(all))
	}
	for _, s := range all {
		m, bounded := metricOf(s[1])
		if m == nil {
			t.Errorf("%s is no series of the list", s[1])
			continue
		}
		possible := map[string][]string{"catalog": nil, "instance": nil}
		for _, l := range m.Labels {
			possible[l.Name] = l.Values
		}
		if bounded {
			possible["le"] = []string{"+Inf"}
			for _, b := range m.Buckets {
				possible["le"] = append(possible["le"], fmt.Sprint(b))
			}
		}
		for pair := range strings.SplitSeq(s[2], ",") {
			name, value, _ := strings.Cut(pair, "=")
			if values, ok := possible[name]; !ok || values != nil && !slices.Contains(values, strings.Trim(value, `"`)) {
				t.Errorf("%s never has %s", s[1], pair)
			}
		}
	}
}

// metricOf is the metric of a series, and whether the series is one of a histogram's
// buckets; nil if there is none.
func metricOf(series string) (m *telemetry.Metric, bounded bool) {
	for _, m := range telemetry.Metrics() {
		name, rest := m.Prometheus(), strings.TrimPrefix(series, m.Prometheus())
		if strings.HasPrefix(series, name) && (rest == "" && m.Kind != telemetry.Histogram || m.Kind == telemetry.Histogram && (rest == "_bucket" || rest == "_count" || rest == "_sum")) {
			return m, rest == "_bucket"
		}
	}
	return nil, false
}
