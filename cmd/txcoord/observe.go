package main

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"

	"github.com/txcoord/txcoord/coordinator/rpc"
	"github.com/txcoord/txcoord/coordinator/telemetry/export"
)

// Observe says where a server can be looked at, and where it sends what it notes.
type Observe struct {
	AdminListen   string   `help:"Answer /healthz, /readyz, /metrics and, to admins, /debug/pprof by HTTP on this address; without it nowhere. What holds for --listen holds for it ($$TXCOORD_ADMIN_LISTEN)." environ:"TXCOORD_ADMIN_LISTEN" placeholder:"HOST:PORT" group:"observe"`
	OTLPEndpoint  string   `name:"otlp-endpoint" help:"Send traces and metrics to an OTLP receiver, by gRPC; without it $$OTEL_EXPORTER_OTLP_ENDPOINT says ($$TXCOORD_OTLP_ENDPOINT)." environ:"TXCOORD_OTLP_ENDPOINT" placeholder:"URL" group:"observe"`
	TraceSample   *float64 `help:"Share of the calls that are traced, from 0 to 1, where their client does not say; without it $$OTEL_TRACES_SAMPLER says, else 0.01 ($$TXCOORD_TRACE_SAMPLE)." environ:"TXCOORD_TRACE_SAMPLE" placeholder:"SHARE" group:"observe"`
	MetricsTables int      `help:"How many tables metrics may name ($$TXCOORD_METRICS_TABLES)." default:"0" environ:"TXCOORD_METRICS_TABLES" placeholder:"NUMBER" group:"observe"`
}

func (c *Config) validateObserve() error {
	var all []error
	if c.AdminListen != "" {
		err := validAddress("--admin-listen", c.AdminListen, true)
		if err == nil {
			err = c.reachable("--admin-listen", c.AdminListen)
		}
		all = append(all, err)
	}
	if c.MetricsTables < 0 || c.MetricsTables > maxMetricsTables {
		all = append(all, usage("--metrics-tables", "", "give a number from 0 to 10000"))
	}
	e := c.exports("")
	return allOf(append(all, validExports(&e))...)
}

// validExports says all that is wrong with where traces and metrics go.
func validExports(e *export.Config) error {
	var all []error
	for _, err := range split(e.Validate()) {
		all = append(all, usage("--otlp-endpoint, --trace-sample or a variable OTEL_*", "", err.Error()))
	}
	return allOf(all...)
}

const maxMetricsTables = 10_000

func (c *Config) exports(catalog string) export.Config {
	instance, err := os.Hostname()
	if err != nil {
		instance = ""
	}
	return export.Config{
		Catalog: catalog, Version: version(), Instance: instance, Prometheus: c.AdminListen != "",
		Endpoint: c.OTLPEndpoint, Sample: c.TraceSample, Tables: c.MetricsTables, Env: c.env,
	}
}

// What a replica that does not serve says of itself, to everybody who asks.
const (
	stateServing  = "ready"
	stateStarting = "starting"
	stateStopping = "stopping"
	stateBroken   = "takes no writes: its log says why"
	stateMoved    = "the catalog has moved"
)

// errStartingAgain: the journal went past this replica.
var errStartingAgain = errors.New(stateStarting)

// observing is what looks at a server, and lets others look.
type observing struct {
	telemetry *export.Telemetry
	admin     *admin // nil without --admin-listen
	log       *slog.Logger
	// now is one of the states above.
	now atomic.Value
}

// startObserving begins before the catalog is opened, which may take long.
func startObserving(ctx context.Context, c *Config, catalog string, g guards, log *slog.Logger) (*observing, error) {
	e := c.exports(catalog)
	if err := validExports(&e); err != nil { // now with the variables
		return nil, err
	}
	e.Log = log
	t, err := export.Start(ctx, e)
	if err != nil {
		return nil, err
	}
	o := &observing{telemetry: t, log: log}
	o.now.Store(stateStarting)
	c.recorder = t.Recorder()
	if c.AdminListen == "" {
		return o, nil
	}
	if o.admin, err = startAdmin(ctx, c, catalog, g, o); err != nil {
		o.close()
		return nil, err
	}
	return o, nil
}

// address is where HTTP is answered; empty if nowhere.
func (o *observing) address() string {
	if o.admin == nil {
		return ""
	}
	return o.admin.address
}

// dialling are options for connections to other replicas.
func (o *observing) dialling() []grpc.DialOption {
	if h := o.telemetry.Client(); h != nil {
		return []grpc.DialOption{grpc.WithStatsHandler(h)}
	}
	return nil
}

// readyEvery is how often it is looked whether the catalog is served.
const readyEvery = 250 * time.Millisecond

// follow says whether the catalog is served here, until ctx ends: to /readyz and to
// those who check its health by gRPC.
func (o *observing) follow(ctx context.Context, ready func() error, server *rpc.Server, catalog string) {
	tick := time.NewTicker(readyEvery)
	defer tick.Stop()
	for {
		state, before := stateOf(ready()), o.now.Load()
		if before != stateStopping && before != state && o.now.CompareAndSwap(before, state) {
			server.SetServing(catalog, state == stateServing)
			o.log.Info("whether the catalog is served here", "catalog", catalog, "state", state)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// telemetryLimit is how long may be spent at the end on sending what was noted.
const telemetryLimit = 5 * time.Second

func (o *observing) close() {
	ctx, cancel := context.WithTimeout(context.Background(), telemetryLimit)
	defer cancel()
	if o.admin != nil {
		if err := o.admin.close(ctx); err != nil {
			o.log.Warn("end the HTTP server", "error", err)
		}
	}
	if err := o.telemetry.Shutdown(ctx); err != nil {
		o.log.Warn("what was noted last is not sent", "error", err)
	}
}
