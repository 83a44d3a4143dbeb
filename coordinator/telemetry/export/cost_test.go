//go:build unix

package export_test

import (
	"context"
	"syscall"
	"testing"
	"time"

	"go.opentelemetry.io/contrib/instrumentation/google.golang.org/grpc/otelgrpc"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/metric"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"google.golang.org/grpc"
	"google.golang.org/grpc/stats"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/txcoord/txcoord/coordinator/telemetry/export"
)

// idle is a handler that does nothing: what gRPC spends on having one.
type idle struct{}

func (idle) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }
func (idle) HandleConn(context.Context, stats.ConnStats)                       {}
func (idle) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context   { return ctx }
func (idle) HandleRPC(context.Context, stats.RPCStats)                         {}

// BenchmarkCall is what a call costs that is not sampled, both ends of it, where nobody
// looks, and by who looks. cpu-ns/op is the processor's time, which other programs of the
// machine change less than ns/op.
func BenchmarkCall(b *testing.B) {
	none := 0.0
	meters := metric.NewMeterProvider(metric.WithReader(metric.NewManualReader()))
	for _, by := range []struct {
		name string
		told calls
		h    stats.Handler
	}{
		{"nobody", nil, nil},
		{"ours", start(b, export.Config{Prometheus: true, Endpoint: "http://127.0.0.1:1", Sample: &none}).Calls(), nil},
		{"idle", nil, idle{}},
		{"OpenTelemetry's", nil, otelgrpc.NewServerHandler(otelgrpc.WithMeterProvider(meters), otelgrpc.WithPropagators(propagation.TraceContext{}),
			otelgrpc.WithTracerProvider(sdktrace.NewTracerProvider(sdktrace.WithSampler(sdktrace.NeverSample()))))},
	} {
		b.Run(by.name, func(b *testing.B) {
			var options []grpc.ServerOption
			if by.h != nil {
				options = append(options, grpc.StatsHandler(by.h))
			}
			s := serve(b, by.told, options...)
			b.ReportAllocs()
			before := processor(b)
			for b.Loop() {
				if err := s.Invoke(b.Context(), "/t.S/OK", &emptypb.Empty{}, &emptypb.Empty{}); err != nil {
					b.Fatal(err)
				}
				<-s.within
			}
			b.ReportMetric(float64(processor(b)-before)/float64(b.N), "cpu-ns/op")
		})
	}
}

// processor is the process's time of the processor.
func processor(b *testing.B) time.Duration {
	b.Helper()
	var r syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &r); err != nil {
		b.Fatal(err)
	}
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}
