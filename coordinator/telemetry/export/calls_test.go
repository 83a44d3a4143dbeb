package export_test

import (
	"context"
	"net"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.opentelemetry.io/contrib/instrumentation/google.golang.org/grpc/otelgrpc"
	otelprom "go.opentelemetry.io/otel/exporters/prometheus"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/stats"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/txcoord/txcoord/coordinator/telemetry/export"
)

// served is a server whose method N answers with the code of that number, and what its
// last call looked like from within.
type served struct {
	*grpc.ClientConn
	within chan within
}

type within struct {
	at        trace.SpanContext
	recording bool
}

// calls are what a server tells of those to it.
type calls = func(ctx context.Context, method string) (context.Context, func(error))

// serve starts one whose calls are told of; nil: to nobody.
func serve(t testing.TB, told calls, options ...grpc.ServerOption) *served {
	t.Helper()
	out := &served{within: make(chan within, 1)}
	desc := &grpc.ServiceDesc{ServiceName: "t.S", HandlerType: (*any)(nil)}
	for c := codes.OK; c <= codes.Unauthenticated; c++ {
		desc.Methods = append(desc.Methods, grpc.MethodDesc{
			MethodName: c.String(),
			Handler: func(_ any, ctx context.Context, _ func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
				err := status.Error(c, "as asked")
				if told != nil {
					within, end := told(ctx, "/t.S/"+c.String())
					defer end(err)
					ctx = within
				}
				span := trace.SpanFromContext(ctx)
				out.within <- within{span.SpanContext(), span.IsRecording()}
				return &emptypb.Empty{}, err
			},
		})
	}
	s, l := grpc.NewServer(options...), bufconn.Listen(1<<16)
	s.RegisterService(desc, nil)
	healthpb.RegisterHealthServer(s, health.NewServer())
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(l) }()
	var err error
	out.ClientConn, err = grpc.NewClient("passthrough:///", grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithDisableRetry(),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return l.DialContext(ctx) }))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = out.Close()
		s.GracefulStop() // calls have ended, also for those who note them
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return out
}

// all calls each method, one that there is not, and health, with the headers of a context.
func (s *served) all(t testing.TB, ctx context.Context) {
	t.Helper()
	for c := codes.OK; c <= codes.Unauthenticated; c++ {
		if err := s.Invoke(ctx, "/t.S/"+c.String(), &emptypb.Empty{}, &emptypb.Empty{}); status.Code(err) != c {
			t.Fatalf("%s: %v", c, err)
		}
		<-s.within
	}
	if err := s.Invoke(ctx, "/t.S/none", &emptypb.Empty{}, &emptypb.Empty{}); status.Code(err) != codes.Unimplemented {
		t.Fatal(err)
	}
	if _, err := healthpb.NewHealthClient(s).Check(ctx, &healthpb.HealthCheckRequest{}); err != nil {
		t.Fatal(err)
	}
}

func start(t testing.TB, c export.Config) *export.Telemetry {
	t.Helper()
	x, err := export.Start(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { // nobody receives: what is left is dropped, at once
		ended, cancel := context.WithCancel(context.Background())
		cancel()
		_ = x.Shutdown(ended)
	})
	return x
}

// rpcLines are the lines of gRPC's metrics, without what depends on time.
func rpcLines(text string) (out []string) {
	timed := regexp.MustCompile(`(_bucket\{.*\}|_sum\{.*\}) .*`)
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); strings.Contains(line, "rpc_server_call") {
			out = append(out, timed.ReplaceAllString(line, "$1"))
		}
	}
	slices.Sort(out)
	return out
}

// What is shown of calls is what OpenTelemetry's own instrumentation of gRPC shows, to the
// label and bucket, whether they are sampled or not, and nothing of methods that there are
// not, whose names come from whoever calls.
func TestCallsAreShownAsOpenTelemetryDoes(t *testing.T) {
	registry := prometheus.NewRegistry()
	reader, err := otelprom.New(otelprom.WithRegisterer(registry), otelprom.WithoutScopeInfo())
	if err != nil {
		t.Fatal(err)
	}
	t.Run("theirs", func(t *testing.T) {
		s := serve(t, nil, grpc.StatsHandler(otelgrpc.NewServerHandler(otelgrpc.WithMeterProvider(metric.NewMeterProvider(metric.WithReader(reader))),
			otelgrpc.WithFilter(func(i *stats.RPCTagInfo) bool { return !strings.HasPrefix(i.FullMethodName, "/grpc.health") }))))
		s.all(t, t.Context())
		s.all(t, t.Context())
	})
	answer := httptest.NewRecorder()
	promhttp.HandlerFor(registry, promhttp.HandlerOpts{}).ServeHTTP(answer, httptest.NewRequest("GET", "/", nil))
	theirs := answer.Body.String()
	want := rpcLines(theirs)
	if len(want) < 17*17 {
		t.Fatalf("OpenTelemetry shows %d lines:\n%s", len(want), theirs)
	}
	x := start(t, export.Config{Prometheus: true, Endpoint: "http://127.0.0.1:1", Sample: new(float64)})
	t.Run("ours", func(t *testing.T) {
		s := serve(t, x.Calls())
		s.all(t, t.Context())
		s.all(t, metadata.AppendToOutgoingContext(t.Context(), "traceparent", parent+"01"))
	})
	answer = httptest.NewRecorder()
	x.Metrics().ServeHTTP(answer, httptest.NewRequest("GET", "/", nil))
	if strings.Contains(answer.Body.String(), "t.S/none") {
		t.Error("a method is shown that there is not")
	}
	if diff := cmp.Diff(want, rpcLines(answer.Body.String())); diff != "" {
		t.Errorf("-theirs +ours\n%s", diff)
	}
}

const parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-"

// A call is sampled as its client says, or else as many as are to be; and what happens
// within one that is not sees a trace that is not, and so does not begin one.
func TestWhichCallsAreSampled(t *testing.T) {
	env := func(name string) func(string) (string, bool) {
		return func(v string) (string, bool) { return name, name != "" && v == "OTEL_TRACES_SAMPLER" }
	}
	none, every := 0.0, 1.0
	for name, c := range map[string]struct {
		config  export.Config
		flags   string // of the client's trace; none without
		sampled bool
	}{
		"none":                           {config: export.Config{Sample: &none}},
		"every":                          {config: export.Config{Sample: &every}, sampled: true},
		"none, but the client's":         {config: export.Config{Sample: &none}, flags: "01", sampled: true},
		"every, but not the client's":    {config: export.Config{Sample: &every}, flags: "00"},
		"always, whatever a client says": {config: export.Config{Env: env("always_on")}, flags: "00", sampled: true},
		"never, whatever a client says":  {config: export.Config{Env: env("always_off")}, flags: "01"},
	} {
		t.Run(name, func(t *testing.T) {
			c.config.Endpoint = "http://127.0.0.1:1"
			s := serve(t, start(t, c.config).Calls())
			ctx := t.Context()
			if c.flags != "" {
				ctx = metadata.AppendToOutgoingContext(ctx, "traceparent", parent+c.flags)
			}
			if err := s.Invoke(ctx, "/t.S/OK", &emptypb.Empty{}, &emptypb.Empty{}); err != nil {
				t.Fatal(err)
			}
			call := <-s.within
			at := call.at
			if !at.IsValid() || at.IsSampled() != c.sampled || call.recording != c.sampled || c.flags != "" && at.TraceID().String() != parent[3:35] {
				t.Errorf("sampled %v, recording %v, want %v: %+v", at.IsSampled(), call.recording, c.sampled, at)
			}
		})
	}
}
