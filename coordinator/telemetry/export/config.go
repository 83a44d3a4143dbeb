package export

import (
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"strconv"
	"strings"
)

// DefaultSample is the share of transactions that are traced unless it is said.
const DefaultSample = 0.01

// Config says where to. The zero value goes nowhere.
type Config struct {
	Catalog string
	Version string
	// Instance tells replicas apart; the SDK's own if empty.
	Instance string
	// Prometheus: Telemetry.Metrics answers.
	Prometheus bool
	// Endpoint of an OTLP receiver, http:// or https://; without it OTEL_EXPORTER_OTLP_*
	// say, and without those nothing is sent.
	Endpoint string
	// Sample is the share of traces that begin here; nil leaves it to OTEL_TRACES_SAMPLER,
	// else DefaultSample. A trace that a client began follows the client.
	Sample *float64
	// Tables is how many tables metrics may name.
	Tables int
	// Env are the OTEL_* variables. The exporters read the process's own for what is
	// theirs: headers, certificates, timeouts.
	Env func(string) (string, bool)
	// Log gets what cannot be sent, once a minute. OpenTelemetry has one place for that in
	// a process: the last Start counts. Nil leaves it alone.
	Log *slog.Logger
}

// Validate refuses what cannot work, and names the variable or field.
func (c *Config) Validate() error {
	var all []error
	if c.Endpoint != "" {
		u, err := url.Parse(c.Endpoint)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil {
			all = append(all, errors.New("OTLP endpoint: write it as http://HOST:PORT or https://HOST:PORT; credentials go into OTEL_EXPORTER_OTLP_HEADERS"))
		}
	}
	if s := c.Sample; s != nil && !(*s >= 0 && *s <= 1) {
		all = append(all, fmt.Errorf("share of traces %v: give a number from 0 to 1", *s))
	}
	for _, name := range []string{"OTEL_EXPORTER_OTLP_PROTOCOL", "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_METRICS_PROTOCOL"} {
		if v := c.env(name); v != "" && v != "grpc" {
			all = append(all, fmt.Errorf("%s is %q: only grpc is spoken; leave it out, and give the receiver's gRPC port", name, v))
		}
	}
	for _, name := range []string{"OTEL_TRACES_EXPORTER", "OTEL_METRICS_EXPORTER"} {
		if v := c.env(name); v != "" && v != "otlp" && v != "none" {
			all = append(all, fmt.Errorf("%s is %q: there are otlp and none", name, v))
		}
	}
	_, err := c.sampler()
	return errors.Join(append(all, err)...)
}

func (c *Config) env(name string) string {
	if c.Env == nil {
		return ""
	}
	if v, ok := c.Env(name); ok {
		return strings.TrimSpace(v)
	}
	return ""
}

// sends reports whether a signal, TRACES or METRICS, goes to an OTLP receiver.
func (c *Config) sends(signal string) bool {
	if disabled, _ := strconv.ParseBool(c.env("OTEL_SDK_DISABLED")); disabled || c.env("OTEL_"+signal+"_EXPORTER") == "none" {
		return false
	}
	return c.Endpoint != "" || c.env("OTEL_EXPORTER_OTLP_ENDPOINT") != "" || c.env("OTEL_EXPORTER_OTLP_"+signal+"_ENDPOINT") != ""
}
