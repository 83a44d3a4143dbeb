package export

import (
	"context"
	"reflect"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetricgrpc"
	otelprom "go.opentelemetry.io/otel/exporters/prometheus"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/resource"
)

// startMetrics sets up one set of sums and buckets, from which scrapes are answered and
// what is pushed is read, as far as the receiver takes it like that.
func (t *Telemetry) startMetrics(ctx context.Context, c Config, about *resource.Resource) error {
	options := []metric.Option{metric.WithResource(about)}
	var scraped metric.Reader
	if c.Prometheus {
		t.registry = prometheus.NewRegistry()
		reader, err := otelprom.New(otelprom.WithRegisterer(t.registry), otelprom.WithoutScopeInfo())
		if err != nil {
			return err
		}
		scraped = reader
		options = append(options, metric.WithReader(reader))
	}
	if c.sends("METRICS") {
		exporter, err := c.pushed(ctx)
		switch {
		case err != nil:
			return err
		case scraped != nil && likeScrapes(exporter):
			p := metric.NewMeterProvider(metric.WithResource(about), metric.WithReader(metric.NewPeriodicReader(exporter, metric.WithProducer(again{scraped}))))
			t.shutdown = append(t.shutdown, p.Shutdown) // before what it reads from
		default:
			options = append(options, metric.WithReader(metric.NewPeriodicReader(exporter)))
		}
	}
	t.metrics = metric.NewMeterProvider(options...)
	t.shutdown = append(t.shutdown, t.metrics.Shutdown)
	return nil
}

func (c *Config) pushed(ctx context.Context) (metric.Exporter, error) {
	var to []otlpmetricgrpc.Option
	if c.Endpoint != "" {
		to = append(to, otlpmetricgrpc.WithEndpointURL(c.Endpoint))
	}
	return otlpmetricgrpc.New(ctx, to...)
}

// again is what another reader has collected, so that a measurement is added up once.
type again struct{ from metric.Reader }

// Produce implements metric.Producer.
func (a again) Produce(ctx context.Context) ([]metricdata.ScopeMetrics, error) {
	var all metricdata.ResourceMetrics
	err := a.from.Collect(ctx, &all)
	return all.ScopeMetrics, err
}

// likeScrapes reports whether a receiver takes metrics as scrapes are answered: sums since
// the start, and the buckets of the instruments. OTEL_EXPORTER_OTLP_METRICS_* may say else.
func likeScrapes(e metric.Exporter) bool {
	for kind := metric.InstrumentKindCounter; kind <= metric.InstrumentKindGauge; kind++ {
		if e.Temporality(kind) != metricdata.CumulativeTemporality ||
			!reflect.DeepEqual(e.Aggregation(kind), metric.DefaultAggregationSelector(kind)) {
			return false
		}
	}
	return true
}
