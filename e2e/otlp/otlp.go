// Package otlp is a collector of OpenTelemetry for tests.
package otlp

import (
	"context"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"

	metrics "go.opentelemetry.io/proto/otlp/collector/metrics/v1"
	traces "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/grpc"
)

// Collector runs in the process of its test, and keeps what it is sent.
type Collector struct {
	// Endpoint is its URL.
	Endpoint string

	mu              sync.Mutex
	spans           []*tracepb.Span
	traces, metrics strings.Builder
}

// Start starts one on a loopback port of its own; it ends with the test.
func Start(t testing.TB) *Collector {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c, s := &Collector{Endpoint: "http://" + l.Addr().String()}, grpc.NewServer()
	traces.RegisterTraceServiceServer(s, takesTraces{c: c})
	metrics.RegisterMetricsServiceServer(s, takesMetrics{c: c})
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(l) }()
	t.Cleanup(func() {
		s.Stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return c
}

// Spans are all that were sent so far, as they came.
func (c *Collector) Spans() []*tracepb.Span {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.spans)
}

// Named are the spans of a name.
func (c *Collector) Named(name string) []*tracepb.Span {
	return slices.DeleteFunc(c.Spans(), func(s *tracepb.Span) bool { return s.GetName() != name })
}

// Traces is all that was sent of traces, as text.
func (c *Collector) Traces() string { return c.text(&c.traces) }

// Metrics is all that was sent of metrics, as text.
func (c *Collector) Metrics() string { return c.text(&c.metrics) }

func (c *Collector) text(b *strings.Builder) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return b.String()
}

type takesTraces struct {
	traces.UnimplementedTraceServiceServer
	c *Collector
}

// Export implements the service's one method.
func (s takesTraces) Export(_ context.Context, q *traces.ExportTraceServiceRequest) (*traces.ExportTraceServiceResponse, error) {
	s.c.mu.Lock()
	defer s.c.mu.Unlock()
	s.c.traces.WriteString(q.String())
	for _, rs := range q.GetResourceSpans() {
		for _, ss := range rs.GetScopeSpans() {
			s.c.spans = append(s.c.spans, ss.GetSpans()...)
		}
	}
	return &traces.ExportTraceServiceResponse{}, nil
}

type takesMetrics struct {
	metrics.UnimplementedMetricsServiceServer
	c *Collector
}

// Export implements the service's one method.
func (s takesMetrics) Export(_ context.Context, q *metrics.ExportMetricsServiceRequest) (*metrics.ExportMetricsServiceResponse, error) {
	s.c.mu.Lock()
	defer s.c.mu.Unlock()
	s.c.metrics.WriteString(q.String())
	return &metrics.ExportMetricsServiceResponse{}, nil
}
