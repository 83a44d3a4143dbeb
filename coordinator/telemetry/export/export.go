package export

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.opentelemetry.io/contrib/instrumentation/google.golang.org/grpc/otelgrpc"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"
	"google.golang.org/grpc/stats"

	"github.com/txcoord/txcoord/coordinator/telemetry"
)

// Telemetry is what is set up. The nil one, of a Config that goes nowhere, notes nothing.
type Telemetry struct {
	recorder *telemetry.Recorder
	registry *prometheus.Registry
	metrics  *metric.MeterProvider
	traces   trace.TracerProvider
	sampler  sdktrace.Sampler // nil: no traces are sent
	calls    *serverCalls
	shutdown []func(context.Context) error
}

// unsent tells what cannot be sent, now and then.
type unsent struct {
	log  *slog.Logger
	told atomic.Int64 // unix seconds
}

// Handle implements otel.ErrorHandler.
func (u *unsent) Handle(err error) {
	now, before := time.Now().Unix(), u.told.Load()
	if now-before >= 60 && u.told.CompareAndSwap(before, now) {
		u.log.Warn("send traces and metrics", "error", err)
	}
}

// linksMost is how many transactions of one append are linked with its span.
const linksMost = 1024

// Start sets up what a Config says. Exporters connect when they have something to send,
// and what cannot be sent is dropped: nothing waits for them.
func Start(ctx context.Context, c Config) (*Telemetry, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	if !c.Prometheus && !c.sends("TRACES") && !c.sends("METRICS") {
		return nil, nil
	}
	if c.Log != nil {
		otel.SetErrorHandler(&unsent{log: c.Log})
	}
	t := &Telemetry{traces: noop.NewTracerProvider()}
	if err := t.start(ctx, c); err != nil {
		return nil, errors.Join(fmt.Errorf("set telemetry up: %w", err), t.Shutdown(ctx))
	}
	return t, nil
}

func (t *Telemetry) start(ctx context.Context, c Config) error {
	about, err := c.resource()
	if err != nil {
		return err
	}
	if err := t.startMetrics(ctx, c, about); err != nil {
		return err
	}
	if c.sends("TRACES") {
		if err := t.startTraces(ctx, c, about); err != nil {
			return err
		}
	}
	if t.calls, err = newServerCalls(t.metrics, t.traces, t.sampler); err != nil {
		return err
	}
	t.recorder, err = telemetry.New(telemetry.Config{Metrics: t.metrics, Traces: t.traces, Catalog: c.Catalog, Tables: c.Tables})
	return err
}

// resource says who sends; OTEL_RESOURCE_ATTRIBUTES and OTEL_SERVICE_NAME count first.
func (c *Config) resource() (*resource.Resource, error) {
	about := []attribute.KeyValue{
		attribute.String("service.name", "txcoord"), attribute.String("service.version", c.Version), attribute.String("txcoord.catalog", c.Catalog),
	}
	if c.Instance != "" {
		about = append(about, attribute.String("service.instance.id", c.Instance))
	}
	return resource.Merge(resource.NewSchemaless(about...), resource.Environment())
}

func (t *Telemetry) startTraces(ctx context.Context, c Config, about *resource.Resource) error {
	var to []otlptracegrpc.Option
	if c.Endpoint != "" {
		to = append(to, otlptracegrpc.WithEndpointURL(c.Endpoint))
	}
	exporter, err := otlptracegrpc.New(ctx, to...)
	if err != nil {
		return err
	}
	provider, err := newTraces(c, about, sdktrace.WithBatcher(exporter))
	if err != nil {
		return err
	}
	t.traces = provider
	if t.sampler, err = c.sampler(); err != nil {
		return err
	}
	t.shutdown = append(t.shutdown, provider.Shutdown)
	return nil
}

// newTraces samples as a Config says.
func newTraces(c Config, about *resource.Resource, to ...sdktrace.TracerProviderOption) (*sdktrace.TracerProvider, error) {
	sampler, err := c.sampler()
	if err != nil {
		return nil, err
	}
	limits := sdktrace.NewSpanLimits()
	limits.LinkCountLimit = linksMost
	return sdktrace.NewTracerProvider(append(to, sdktrace.WithResource(about), sdktrace.WithSampler(decided{sampler}), sdktrace.WithRawSpanLimits(limits))...), nil
}

// Recorder is the catalog's; nil if nobody looks.
func (t *Telemetry) Recorder() *telemetry.Recorder {
	if t == nil {
		return nil
	}
	return t.recorder
}

// Metrics answers a scrape, in OpenMetrics with exemplars where that is asked for; nil
// unless Config.Prometheus.
func (t *Telemetry) Metrics() http.Handler {
	if t == nil || t.registry == nil {
		return nil
	}
	return promhttp.HandlerFor(t.registry, promhttp.HandlerOpts{EnableOpenMetrics: true, MaxRequestsInFlight: 4})
}

// Calls notes the calls of a gRPC server, and takes over the traces of its clients (W3C
// traceparent): it is called with the context and the method (/SERVICE/METHOD) of a call that
// begins, and answers the context of all within, and what is to be told how it ended. Nil:
// nobody looks.
func (t *Telemetry) Calls() func(ctx context.Context, method string) (within context.Context, end func(error)) {
	if t == nil {
		return nil
	}
	return t.calls.begin
}

// Client hands traces on to other replicas.
func (t *Telemetry) Client() stats.Handler {
	if t == nil {
		return nil
	}
	return otelgrpc.NewClientHandler(otelgrpc.WithTracerProvider(t.traces), otelgrpc.WithMeterProvider(t.metrics), otelgrpc.WithPropagators(propagation.TraceContext{}))
}

// Shutdown sends what is left, as long as ctx lasts.
func (t *Telemetry) Shutdown(ctx context.Context) error {
	if t == nil {
		return nil
	}
	var errs []error
	if t.recorder != nil {
		errs = append(errs, t.recorder.Close())
	}
	for _, f := range t.shutdown {
		errs = append(errs, f(ctx))
	}
	return errors.Join(errs...)
}
