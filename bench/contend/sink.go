package contend

import (
	"context"
	"net"

	metrics "go.opentelemetry.io/proto/otlp/collector/metrics/v1"
	traces "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/grpc"
)

// NewSink is a receiver of OTLP that takes everything and keeps nothing, until ctx
// ends. It returns its URL.
func NewSink(ctx context.Context) (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	s := grpc.NewServer()
	traces.RegisterTraceServiceServer(s, traceSink{})
	metrics.RegisterMetricsServiceServer(s, metricSink{})
	go func() { _ = s.Serve(l) }() // until Stop
	context.AfterFunc(ctx, s.Stop)
	return "http://" + l.Addr().String(), nil
}

type traceSink struct {
	traces.UnimplementedTraceServiceServer
}

func (traceSink) Export(context.Context, *traces.ExportTraceServiceRequest) (*traces.ExportTraceServiceResponse, error) {
	return &traces.ExportTraceServiceResponse{}, nil
}

type metricSink struct {
	metrics.UnimplementedMetricsServiceServer
}

func (metricSink) Export(context.Context, *metrics.ExportMetricsServiceRequest) (*metrics.ExportMetricsServiceResponse, error) {
	return &metrics.ExportMetricsServiceResponse{}, nil
}
