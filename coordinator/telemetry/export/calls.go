package export

import (
	"context"
	"encoding/binary"
	"math/rand/v2"
	"strconv"
	"sync"
	"time"

	"go.opentelemetry.io/contrib/instrumentation/google.golang.org/grpc/otelgrpc"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	metricnoop "go.opentelemetry.io/otel/metric/noop"
	"go.opentelemetry.io/otel/propagation"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/semconv/v1.43.0/rpcconv"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/genproto/googleapis/rpc/code"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/stats"
	"google.golang.org/grpc/status"
)

// serverCalls notes the calls of a gRPC server: how long each takes, and the span of those that
// are sampled. OpenTelemetry's handler makes a span, attributes and a set of labels for
// every call, and gRPC itself seven messages for it, and a copy of the headers; that was most
// of what telemetry cost where one call in a hundred is kept. So the server tells when a call begins and ends, and the other handler gets those
// that are kept.
//
// The metric has the name, labels and buckets that the other handler gives it. There are no
// more series than methods and codes: a call of a method that the server does not have is
// not told of.
type serverCalls struct {
	// spans notes the span of a sampled call, and no metric.
	spans stats.Handler
	// sampler decides which calls are; nil if no traces are sent.
	sampler  sdktrace.Sampler
	duration metric.Float64Histogram

	mu     sync.RWMutex
	series map[series][]metric.RecordOption
}

// series is what calls have in common in the metric.
type series struct {
	method string
	code   codes.Code
}

func newServerCalls(meter metric.MeterProvider, tracer trace.TracerProvider, sampler sdktrace.Sampler) (*serverCalls, error) {
	d, err := rpcconv.NewServerCallDuration(meter.Meter(otelgrpc.ScopeName, metric.WithInstrumentationVersion(otelgrpc.Version)))
	if err != nil {
		return nil, err
	}
	return &serverCalls{
		spans: otelgrpc.NewServerHandler(otelgrpc.WithTracerProvider(tracer), otelgrpc.WithMeterProvider(metricnoop.NewMeterProvider()),
			otelgrpc.WithPropagators(propagation.TraceContext{})),
		sampler: sampler, duration: d.Inst(), series: map[series][]metric.RecordOption{},
	}, nil
}

// begin takes over the client's trace (W3C traceparent), decides whether the call of a
// method (/SERVICE/METHOD) is sampled, and answers the context of all within it. end has to
// be called once, with the status that the call ends with.
func (h *serverCalls) begin(ctx context.Context, method string) (context.Context, func(error)) {
	began := time.Now()
	within, sampled := h.enter(ctx, method)
	return within, func(err error) {
		span := context.Background() // that the figure is an example of
		if sampled {
			span = within
			h.spans.HandleRPC(within, &stats.End{Error: err})
		}
		h.duration.Record(span, time.Since(began).Seconds(), h.options(series{method[1:], status.Code(err)})...)
	}
}

func (h *serverCalls) enter(ctx context.Context, method string) (_ context.Context, sampled bool) {
	above := context.Background() // most calls belong to no trace: the sampler has nothing to look through
	if (headers{ctx}).Get("traceparent") != "" {
		ctx = propagation.TraceContext{}.Extract(ctx, headers{ctx})
		above = ctx
	}
	if h.sampler != nil {
		ctx, sampled = h.decide(ctx, above, method[1:])
	}
	if sampled {
		ctx = h.span(ctx, method)
	}
	return ctx, sampled
}

// span begins that of a sampled call, as gRPC would have it.
func (h *serverCalls) span(ctx context.Context, method string) context.Context {
	ctx = h.spans.TagRPC(context.WithValue(ctx, sampledKey{}, true), &stats.RPCTagInfo{FullMethodName: method})
	if p, ok := peer.FromContext(ctx); ok {
		h.spans.HandleRPC(ctx, &stats.InHeader{FullMethod: method, RemoteAddr: p.Addr, LocalAddr: p.LocalAddr})
	}
	return ctx
}

// decide asks the sampler as the SDK would; above is a context with the caller's span. What
// it leaves out has a context that says so, so that nothing within the call is asked about
// again.
func (h *serverCalls) decide(ctx, above context.Context, name string) (context.Context, bool) {
	parent := trace.SpanContextFromContext(above)
	id := parent.TraceID()
	if !parent.IsValid() {
		id = newTraceID()
	}
	d := h.sampler.ShouldSample(sdktrace.SamplingParameters{ParentContext: above, TraceID: id, Name: name, Kind: trace.SpanKindServer})
	if d.Decision == sdktrace.RecordAndSample {
		return ctx, true
	}
	var span trace.SpanID
	binary.LittleEndian.PutUint64(span[:], rand.Uint64()|1)
	return trace.ContextWithSpanContext(ctx, trace.NewSpanContext(trace.SpanContextConfig{TraceID: id, SpanID: span, TraceState: d.Tracestate})), false
}

func newTraceID() (id trace.TraceID) {
	binary.LittleEndian.PutUint64(id[:8], rand.Uint64()|1) // zero is no id
	binary.LittleEndian.PutUint64(id[8:], rand.Uint64())
	return id
}

// options are those of a series, made once.
func (h *serverCalls) options(s series) []metric.RecordOption {
	h.mu.RLock()
	o, ok := h.series[s]
	h.mu.RUnlock()
	if ok {
		return o
	}
	name, known := code.Code_name[int32(s.code)]
	if !known {
		name = "CODE(" + strconv.Itoa(int(s.code)) + ")"
	}
	labels := []attribute.KeyValue{
		attribute.String("rpc.method", s.method), attribute.String("rpc.system.name", "grpc"), attribute.String("rpc.response.status_code", name),
	}
	if ofServer(s.code) {
		labels = append(labels, attribute.String("error.type", name))
	}
	o = []metric.RecordOption{metric.WithAttributeSet(attribute.NewSet(labels...))}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.series[s] = o
	return o
}

// ofServer tells errors of the server from those of its callers, as OpenTelemetry does.
func ofServer(c codes.Code) bool {
	switch c {
	case codes.Unknown, codes.DeadlineExceeded, codes.Unimplemented, codes.Internal, codes.Unavailable, codes.DataLoss:
		return true
	default:
		return false
	}
}

// headers are those of the call of a context.
type headers struct{ ctx context.Context }

// Get implements propagation.TextMapCarrier. Nothing is copied but what is asked for.
func (h headers) Get(key string) string {
	if all := metadata.ValueFromIncomingContext(h.ctx, key); len(all) > 0 {
		return all[0]
	}
	return ""
}

// Set implements propagation.TextMapCarrier: nothing is handed on by it.
func (h headers) Set(string, string) {}

// Keys implements propagation.TextMapCarrier: nobody asks for them here.
func (h headers) Keys() []string { return nil }

type sampledKey struct{}

// decided samples a call's span where serverCalls has decided so, and asks nobody twice.
type decided struct{ sdktrace.Sampler }

// ShouldSample implements trace.Sampler.
func (d decided) ShouldSample(p sdktrace.SamplingParameters) sdktrace.SamplingResult {
	if p.Kind == trace.SpanKindServer && p.ParentContext.Value(sampledKey{}) != nil {
		return sdktrace.AlwaysSample().ShouldSample(p)
	}
	return d.Sampler.ShouldSample(p)
}
