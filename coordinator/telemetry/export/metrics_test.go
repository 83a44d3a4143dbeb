package export_test

import (
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"github.com/txcoord/txcoord/coordinator/telemetry/export"
	"github.com/txcoord/txcoord/e2e/otlp"
)

// What is scraped and what is pushed is the same, each once, also where one of them is not
// asked for, or the receiver wants what has come since it was told last.
func TestScrapedAndPushed(t *testing.T) {
	for name, c := range map[string]struct {
		scraped bool
		wants   string
	}{
		"pushed":                              {},
		"both":                                {scraped: true},
		"both, and the receiver wants deltas": {scraped: true, wants: "delta"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE", c.wants)
			to, none := otlp.Start(t), 0.0
			x, err := export.Start(t.Context(), export.Config{Prometheus: c.scraped, Endpoint: to.Endpoint, Sample: &none, Catalog: "sales"})
			if err != nil {
				t.Fatal(err)
			}
			for range 3 {
				_, end := x.Calls()(t.Context(), "/t.S/OK")
				end(nil)
			}
			if c.scraped {
				answer := httptest.NewRecorder()
				x.Metrics().ServeHTTP(answer, httptest.NewRequest("GET", "/", nil))
				if want := `rpc_server_call_duration_seconds_count{rpc_method="t.S/OK",rpc_response_status_code="OK",rpc_system_name="grpc"} 3`; !strings.Contains(answer.Body.String(), want) {
					t.Errorf("no %s in\n%s", want, answer.Body)
				}
			}
			if err := x.Shutdown(t.Context()); err != nil {
				t.Fatal(err)
			}
			sent := to.Metrics()
			if n := strings.Count(sent, `"rpc.server.call.duration"`); n != 1 {
				t.Errorf("sent %d times:\n%s", n, sent)
			}
			kind := "AGGREGATION_TEMPORALITY_CUMULATIVE"
			if c.wants == "delta" {
				kind = "AGGREGATION_TEMPORALITY_DELTA"
			}
			for _, want := range []string{`"service.name"`, `count:\s*3\b`, kind} {
				if !regexp.MustCompile(want).MatchString(sent) {
					t.Errorf("no %s in\n%s", want, sent)
				}
			}
		})
	}
}
