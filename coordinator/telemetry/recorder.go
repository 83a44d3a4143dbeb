package telemetry

import (
	"errors"
	"sync"
	"sync/atomic"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"
)

// Scope is the instrumentation scope of all that the package notes.
const Scope = "github.com/txcoord/txcoord"

// Config says what a Recorder notes, and for whom.
type Config struct {
	Metrics metric.MeterProvider
	Traces  trace.TracerProvider
	// Catalog is on every metric.
	Catalog string
	// Tables is how many tables metrics may name; 0 names none.
	Tables int
}

// Recorder notes what one catalog does. It is safe for concurrent use, and nil notes
// nothing.
type Recorder struct {
	tracer  trace.Tracer
	catalog attribute.KeyValue

	commit, phase, group, version, torn, store, objects histogram
	// phases are those of every transaction.
	phases                                      phases
	committed, aborted, reserved, lost, foreign counter
	garbage, garbageSize, refused               counter

	tables tableCounter
	lives  lives
	rounds rounds

	state  atomic.Pointer[func() State]
	quotas atomic.Pointer[func() map[string]int64]
	gauge  metric.Registration
}

// New makes a Recorder. Close it.
func New(c Config) (*Recorder, error) {
	meter := c.Metrics.Meter(Scope)
	r := &Recorder{tracer: c.Traces.Tracer(Scope), catalog: attribute.String(catalogLabel, c.Catalog)}
	r.lives.m, r.rounds.m = map[txnID]life{}, map[string]mark{}
	var errs []error
	for _, h := range []struct {
		to *histogram
		m  *Metric
	}{
		{&r.commit, commitDuration},
		{&r.phase, phaseDuration},
		{&r.group, groupSize},
		{&r.version, versionSize},
		{&r.torn, tornDuration},
		{&r.store, storeRequests},
		{&r.objects, objectRequests},
	} {
		var err error
		*h.to, err = h.m.histogram(meter, r.catalog)
		errs = append(errs, err)
	}
	for _, n := range []struct {
		to *counter
		m  *Metric
	}{
		{&r.committed, committedTotal},
		{&r.aborted, abortedTotal},
		{&r.reserved, reservationsTotal},
		{&r.lost, positionsLost},
		{&r.foreign, foreignCommits},
		{&r.tables.counter, tableVersions},
		{&r.garbage, garbageTotal},
		{&r.garbageSize, garbageBytes},
		{&r.refused, quotaRefused},
	} {
		var err error
		*n.to, err = n.m.counter(meter, r.catalog)
		errs = append(errs, err)
	}
	r.phases = phasesOf(&r.phase)
	r.tables.most, r.tables.catalog = c.Tables, r.catalog
	errs = append(errs, r.observe(meter))
	return r, errors.Join(errs...)
}

// phases are the series of a commit's phases.
type phases struct{ stage, queue, append, publish, manifest series }

func phasesOf(h *histogram) phases {
	of := func(p Phase) series { return h.at(labels{string(p)}) }
	return phases{of(PhaseStage), of(PhaseQueue), of(PhaseAppend), of(PhasePublish), of(PhaseManifest)}
}

// Close ends what looks at the catalog's state.
func (r *Recorder) Close() error {
	if r == nil {
		return nil
	}
	return r.gauge.Unregister()
}

// tableCounter counts by table, up to a number of them.
type tableCounter struct {
	counter
	most    int
	catalog attribute.KeyValue
	mu      sync.Mutex
}

// of are the options of a table. The first tables have their own; those that come
// later share one.
func (t *tableCounter) of(table string) []metric.AddOption {
	t.mu.Lock()
	defer t.mu.Unlock()
	at := labels{table}
	if o, ok := t.options[at]; ok {
		return o
	}
	if len(t.options) >= t.most {
		at[0] = other
	}
	o, ok := t.options[at]
	if !ok {
		o = []metric.AddOption{metric.WithAttributeSet(tableVersions.set(t.catalog, at))}
		t.options[at] = o
	}
	return o
}
