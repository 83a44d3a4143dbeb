package export_test

import (
	"context"
	"testing"

	"github.com/txcoord/txcoord/coordinator/telemetry/export"
)

// Nothing is set up that nobody asked for, or that a variable turns off.
func TestStartOnlyWhatIsAskedFor(t *testing.T) {
	const endpoint = "OTEL_EXPORTER_OTLP_ENDPOINT"
	for name, c := range map[string]struct {
		config      export.Config
		env         map[string]string
		on, scrapes bool
	}{
		"nothing":          {},
		"scrapes":          {config: export.Config{Prometheus: true}, on: true, scrapes: true},
		"by the variable":  {env: map[string]string{endpoint: "http://127.0.0.1:1"}, on: true},
		"by one signal's":  {env: map[string]string{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://127.0.0.1:1"}, on: true},
		"disabled":         {config: export.Config{Endpoint: "http://127.0.0.1:1"}, env: map[string]string{"OTEL_SDK_DISABLED": "true"}},
		"none of both":     {config: export.Config{Endpoint: "http://127.0.0.1:1"}, env: map[string]string{"OTEL_TRACES_EXPORTER": "none", "OTEL_METRICS_EXPORTER": "none"}},
		"disabled, scrape": {config: export.Config{Prometheus: true}, env: map[string]string{endpoint: "http://127.0.0.1:1", "OTEL_SDK_DISABLED": "true"}, on: true, scrapes: true},
	} {
		t.Run(name, func(t *testing.T) {
			c.config.Env = func(name string) (string, bool) {
				v, ok := c.env[name]
				return v, ok
			}
			x, err := export.Start(t.Context(), c.config)
			if err != nil {
				t.Fatal(err)
			}
			if on := x.Recorder() != nil; on != c.on || (x.Calls() != nil) != c.on || (x.Client() != nil) != c.on {
				t.Errorf("on: %v, want %v", on, c.on)
			}
			if scrapes := x.Metrics() != nil; scrapes != c.scrapes {
				t.Errorf("answers scrapes: %v, want %v", scrapes, c.scrapes)
			}
			// Nobody receives at that address: what is left is dropped, at once.
			ended, cancel := context.WithCancel(t.Context())
			cancel()
			_ = x.Shutdown(ended)
		})
	}
}
