package export

import (
	"context"
	"encoding/binary"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"

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
	"google.golang.org/grpc/stats"
	"google.golang.org/grpc/status"
)

// serverCalls notes the calls of a gRPC server: how long each takes, and the span of those
// that are sampled. OpenTelemetry's handler makes a span, attributes and a set of labels for
// every call, which is most of what telemetry costs where one call in a hundred is kept; so
// it gets those that are kept.
//
// The metric has the name, labels and buckets that the other handler gives it. There are no
// more series than methods and codes: gRPC tells of no end of a call whose method the server
// does not have.
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

// call is one that is under way.
type call struct {
	method  string
	sampled bool
}

type callKey struct{}

// TagConn implements stats.Handler.
func (h *serverCalls) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }

// HandleConn implements stats.Handler.
func (h *serverCalls) HandleConn(context.Context, stats.ConnStats) {}

// TagRPC takes over the client's trace (W3C traceparent), and decides whether the call is
// sampled. Health checks are left out.
func (h *serverCalls) TagRPC(ctx context.Context, info *stats.RPCTagInfo) context.Context {
	if strings.HasPrefix(info.FullMethodName, "/grpc.health.v1.Health/") {
		return ctx
	}
	c := &call{method: strings.TrimPrefix(info.FullMethodName, "/")}
	ctx = propagation.TraceContext{}.Extract(ctx, headers{ctx})
	if h.sampler != nil {
		ctx, c.sampled = h.decide(ctx, c.method)
	}
	if c.sampled {
		ctx = h.spans.TagRPC(context.WithValue(ctx, sampledKey{}, true), info)
	}
	return context.WithValue(ctx, callKey{}, c)
}

// decide asks the sampler as the SDK would. What it leaves out has a context that says so,
// so that nothing within the call is asked about again.
func (h *serverCalls) decide(ctx context.Context, name string) (context.Context, bool) {
	parent := trace.SpanContextFromContext(ctx)
	id := parent.TraceID()
	if !parent.IsValid() {
		id = newTraceID()
	}
	d := h.sampler.ShouldSample(sdktrace.SamplingParameters{ParentContext: ctx, TraceID: id, Name: name, Kind: trace.SpanKindServer})
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

// HandleRPC implements stats.Handler.
func (h *serverCalls) HandleRPC(ctx context.Context, s stats.RPCStats) {
	c, ok := ctx.Value(callKey{}).(*call)
	if !ok {
		return
	}
	if c.sampled {
		h.spans.HandleRPC(ctx, s)
	}
	if end, ok := s.(*stats.End); ok {
		h.duration.Record(ctx, end.EndTime.Sub(end.BeginTime).Seconds(), h.options(series{c.method, status.Code(end.Error)})...)
	}
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
