package telemetry_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/txcoord/txcoord/coordinator/telemetry"
)

// The parts of a Grafana dashboard that are used.
type (
	dashboard struct {
		Title         string     `json:"title"`
		UID           string     `json:"uid"`
		Description   string     `json:"description"`
		SchemaVersion int        `json:"schemaVersion"`
		Refresh       string     `json:"refresh"`
		Tags          []string   `json:"tags"`
		Time          timeRange  `json:"time"`
		Templating    templating `json:"templating"`
		Panels        []panel    `json:"panels"`
	}
	timeRange struct {
		From string `json:"from"`
		To   string `json:"to"`
	}
	templating struct {
		List []variable `json:"list"`
	}
	variable struct {
		Name       string     `json:"name"`
		Label      string     `json:"label"`
		Type       string     `json:"type"`
		Query      string     `json:"query"`
		Datasource *reference `json:"datasource,omitempty"`
		Refresh    int        `json:"refresh,omitempty"`
		IncludeAll bool       `json:"includeAll"`
		Multi      bool       `json:"multi"`
	}
	reference struct {
		Type string `json:"type"`
		UID  string `json:"uid"`
	}
	panel struct {
		ID          int         `json:"id"`
		Type        string      `json:"type"`
		Title       string      `json:"title"`
		Description string      `json:"description"`
		Datasource  reference   `json:"datasource"`
		GridPos     gridPos     `json:"gridPos"`
		FieldConfig fieldConfig `json:"fieldConfig"`
		Targets     []target    `json:"targets"`
	}
	gridPos struct {
		H int `json:"h"`
		W int `json:"w"`
		X int `json:"x"`
		Y int `json:"y"`
	}
	fieldConfig struct {
		Defaults  fieldDefaults `json:"defaults"`
		Overrides []any         `json:"overrides"`
	}
	fieldDefaults struct {
		Unit string `json:"unit"`
		Min  int    `json:"min"`
	}
	target struct {
		RefID        string `json:"refId"`
		Expr         string `json:"expr"`
		LegendFormat string `json:"legendFormat"`
		Exemplar     bool   `json:"exemplar"`
	}
)

var source = reference{Type: "prometheus", UID: "${source}"}

// deploy/grafana/dashboard.json has a panel for each metric, in the order of the list.
func TestDashboard(t *testing.T) {
	d := dashboard{
		Title: "txcoord", UID: "txcoord", Description: "Generated from coordinator/telemetry; docs/metrics.md describes the metrics.",
		SchemaVersion: 39, Refresh: "30s", Tags: []string{"txcoord"}, Time: timeRange{"now-1h", "now"},
		Templating: templating{[]variable{
			{Name: "source", Label: "Prometheus", Type: "datasource", Query: "prometheus"},
			{Name: "catalog", Label: "Catalog", Type: "query", Query: "label_values(txcoord_journal_position, catalog)", Datasource: &source, Refresh: 2, IncludeAll: true, Multi: true},
		}},
	}
	for i, m := range telemetry.Metrics() {
		d.Panels = append(d.Panels, panel{
			ID: i + 1, Type: "timeseries", Title: m.Name, Description: m.About, Datasource: source, GridPos: gridPos{H: 8, W: 12, X: i % 2 * 12, Y: i / 2 * 8},
			FieldConfig: fieldConfig{fieldDefaults{Unit: grafanaUnit(m)}, []any{}}, Targets: targets(m),
		})
	}
	b, err := json.MarshalIndent(d, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	same(t, "deploy/grafana/dashboard.json", string(b)+"\n")
}

func grafanaUnit(m *telemetry.Metric) string {
	switch {
	case m.Unit == "s":
		return "s"
	case m.Unit == "By":
		return "bytes"
	case m.Unit == "%":
		return "percent"
	case m.Kind == telemetry.Counter:
		return "cps"
	}
	return "short"
}

// targets are the curves of a metric's panel: rates of a counter, median and 99th
// percentile of a histogram.
func targets(m *telemetry.Metric) []target {
	by, legend := []string{"catalog"}, "{{catalog}}"
	for _, l := range m.Labels {
		by, legend = append(by, l.Name), legend+" {{"+l.Name+"}}"
	}
	group, series := strings.Join(by, ", "), m.Prometheus()+`%s{catalog=~"$catalog"}`
	switch m.Kind {
	case telemetry.Counter:
		return []target{{"A", fmt.Sprintf("sum by (%s) (rate("+series+"[$__rate_interval]))", group, ""), legend, false}}
	case telemetry.Gauge:
		return []target{{"A", fmt.Sprintf("max by (instance, %s) ("+series+")", group, ""), "{{instance}} " + legend, false}}
	case telemetry.Histogram:
	}
	quantile := func(id string, q float64) target {
		expr := fmt.Sprintf("histogram_quantile(%v, sum by (le, %s) (rate("+series+"[$__rate_interval])))", q, group, "_bucket")
		return target{id, expr, legend + fmt.Sprintf(" p%.0f", q*100), true}
	}
	return []target{quantile("A", 0.5), quantile("B", 0.99)}
}
