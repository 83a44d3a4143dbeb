package servers

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

// OTLP is a collector of OpenTelemetry, in this process, that keeps what it is sent.
type OTLP struct {
	// Endpoint is its URL.
	Endpoint string

	mu              sync.Mutex
	spans           []*tracepb.Span
	traces, metrics strings.Builder
}

// StartOTLP starts one on a loopback port of its own, which ends with the test.
func StartOTLP(t testing.TB) *OTLP {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	o, s := &OTLP{Endpoint: "http://" + l.Addr().String()}, grpc.NewServer()
	traces.RegisterTraceServiceServer(s, takesTraces{o: o})
	metrics.RegisterMetricsServiceServer(s, takesMetrics{o: o})
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(l) }()
	t.Cleanup(func() {
		s.Stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return o
}

// Spans are all that were sent so far, as they came.
func (o *OTLP) Spans() []*tracepb.Span {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Clone(o.spans)
}

// Named are the spans of a name.
func (o *OTLP) Named(name string) []*tracepb.Span {
	return slices.DeleteFunc(o.Spans(), func(s *tracepb.Span) bool { return s.GetName() != name })
}

// Traces is all that was sent of traces, as text.
func (o *OTLP) Traces() string { return o.text(&o.traces) }

// Metrics is all that was sent of metrics, as text.
func (o *OTLP) Metrics() string { return o.text(&o.metrics) }

func (o *OTLP) text(b *strings.Builder) string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return b.String()
}

type takesTraces struct {
	traces.UnimplementedTraceServiceServer
	o *OTLP
}

// Export implements the service's one method.
func (s takesTraces) Export(_ context.Context, q *traces.ExportTraceServiceRequest) (*traces.ExportTraceServiceResponse, error) {
	s.o.mu.Lock()
	defer s.o.mu.Unlock()
	s.o.traces.WriteString(q.String())
	for _, rs := range q.GetResourceSpans() {
		for _, ss := range rs.GetScopeSpans() {
			s.o.spans = append(s.o.spans, ss.GetSpans()...)
		}
	}
	return &traces.ExportTraceServiceResponse{}, nil
}

type takesMetrics struct {
	metrics.UnimplementedMetricsServiceServer
	o *OTLP
}

// Export implements the service's one method.
func (s takesMetrics) Export(_ context.Context, q *metrics.ExportMetricsServiceRequest) (*metrics.ExportMetricsServiceResponse, error) {
	s.o.mu.Lock()
	defer s.o.mu.Unlock()
	s.o.metrics.WriteString(q.String())
	return &metrics.ExportMetricsServiceResponse{}, nil
}
