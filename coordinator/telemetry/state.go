package telemetry

import (
	"context"
	"errors"
	"maps"
	"runtime/metrics"
	"time"

	"go.opentelemetry.io/otel/metric"

	"github.com/txcoord/txcoord/twophase"
)

// State is how a catalog is when somebody asks.
type State struct {
	Tables  map[twophase.Mode]int
	Frozen  map[twophase.Cause]int
	Rounds  int
	Waiting int
	// Reserved are tables on which a key goes first, HeldBack commits behind such a key.
	Reserved int
	HeldBack int
	Lag      time.Duration // of publication
	Snapshot twophase.SnapshotVersion
	Manifest twophase.SnapshotVersion
	Late     time.Duration // of manifests
	Position twophase.Position
	Free     twophase.Position // of the ring's slots
	Slots    twophase.Position
	Open     int // transactions
	Backlog  int64
	Limit    int64 // of the backlog
	// Quotas say how full principals' limits are, in per cent, for whom each is fullest.
	Quotas map[string]int64
	// Remembered are outcomes and snapshots.
	Remembered int
	Unread     int // places that cannot be read at present
	Unput      int // and written
	Replicas   int
	Broken     bool
}

// Watch names whom to ask how the catalog is; nil: nobody, and nothing is said.
func (r *Recorder) Watch(state func() State) {
	if r == nil {
		return
	}
	if state == nil {
		r.state.Store(nil)
		return
	}
	r.state.Store(&state)
}

// WatchQuotas names whom else to ask for State.Quotas: who counts calls.
func (r *Recorder) WatchQuotas(of func() map[string]int64) {
	if r != nil {
		r.quotas.Store(&of)
	}
}

// value is a figure of a gauge.
type value struct {
	at labels
	n  int64
}

func one(n int64) []value { return []value{{n: n}} }

// states say what each gauge over a catalog's state shows.
var states = []struct {
	m  *Metric
	of func(State) []value
}{
	{tablesGauge, func(s State) (out []value) {
		for _, m := range []twophase.Mode{twophase.ModeOpen, twophase.ModeExclusive, twophase.ModeFenced, twophase.ModeDeltaStorage} {
			out = append(out, value{labels{m.String()}, int64(s.Tables[m])})
		}
		return out
	}},
	{frozenGauge, func(s State) (out []value) {
		for c := twophase.CauseStalled; c.String() != "unknown"; c++ {
			out = append(out, value{labels{c.String()}, int64(s.Frozen[c])})
		}
		return out
	}},
	{troublesGauge, func(s State) []value {
		return []value{{labels{"read"}, int64(s.Unread)}, {labels{"written"}, int64(s.Unput)}}
	}},
	{roundsGauge, func(s State) []value { return one(int64(s.Rounds)) }},
	{waitingGauge, func(s State) []value { return one(int64(s.Waiting)) }},
	{reservedGauge, func(s State) []value { return one(int64(s.Reserved)) }},
	{heldBackGauge, func(s State) []value { return one(int64(s.HeldBack)) }},
	{manifestLag, func(s State) []value { return one(max(int64(s.Snapshot)-int64(s.Manifest), 0)) }},
	{snapshotGauge, func(s State) []value { return one(int64(s.Snapshot)) }},
	{positionGauge, func(s State) []value { return one(int64(s.Position)) }},
	{ringFree, func(s State) []value { return one(int64(s.Free)) }},
	{ringSlots, func(s State) []value { return one(int64(s.Slots)) }},
	{openGauge, func(s State) []value { return one(int64(s.Open)) }},
	{backlogBytes, func(s State) []value { return one(s.Backlog) }},
	{backlogLimit, func(s State) []value { return one(s.Limit) }},
	{quotaUsed, func(s State) (out []value) {
		for _, name := range quotaLabel.Values {
			out = append(out, value{labels{name}, s.Quotas[name]})
		}
		return out
	}},
	{rememberedGauge, func(s State) []value { return one(int64(s.Remembered)) }},
	{replicasGauge, func(s State) []value { return one(int64(s.Replicas)) }},
	{brokenGauge, func(s State) []value {
		if s.Broken {
			return one(1)
		}
		return one(0)
	}},
}

// observe has the gauges ask when they are read.
func (r *Recorder) observe(meter metric.Meter) error {
	var all []metric.Observable
	var errs []error
	gauges := map[*Metric]metric.Int64ObservableGauge{}
	for _, m := range append(stateMetrics(), memoryGauge, goroutinesGauge) {
		g, err := meter.Int64ObservableGauge(m.Name, metric.WithUnit(m.Unit), metric.WithDescription(m.About))
		errs, all = append(errs, err), append(all, g)
		gauges[m] = g
	}
	ages := map[*Metric]metric.Float64ObservableGauge{}
	for _, m := range []*Metric{publishLag, manifestAge} {
		g, err := meter.Float64ObservableGauge(m.Name, metric.WithUnit(m.Unit), metric.WithDescription(m.About))
		errs, all = append(errs, err), append(all, g)
		ages[m] = g
	}
	show := func(o metric.Observer, m *Metric, values []value) {
		for _, v := range values {
			o.ObserveInt64(gauges[m], v.n, metric.WithAttributeSet(m.set(r.catalog, v.at)))
		}
	}
	var err error
	r.gauge, err = meter.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		total, heap, goroutines := process()
		show(o, memoryGauge, []value{{labels{"total"}, total}, {labels{"heap"}, heap}})
		show(o, goroutinesGauge, one(goroutines))
		ask := r.state.Load()
		if ask == nil {
			return nil
		}
		s := (*ask)()
		if of := r.quotas.Load(); of != nil {
			s.Quotas = fuller(s.Quotas, (*of)())
		}
		for _, g := range states {
			show(o, g.m, g.of(s))
		}
		for m, age := range map[*Metric]time.Duration{publishLag: s.Lag, manifestAge: s.Late} {
			o.ObserveFloat64(ages[m], age.Seconds(), metric.WithAttributeSet(m.set(r.catalog, labels{})))
		}
		return nil
	}, all...)
	return errors.Join(append(errs, err)...)
}

// fuller is, of each limit, the fuller one.
func fuller(a, b map[string]int64) map[string]int64 {
	out := maps.Clone(b)
	for name, n := range a {
		out[name] = max(out[name], n)
	}
	return out
}

func stateMetrics() []*Metric {
	out := make([]*Metric, len(states))
	for i, g := range states {
		out[i] = g.m
	}
	return out
}

func process() (total, heap, goroutines int64) {
	s := []metrics.Sample{{Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/objects:bytes"}, {Name: "/sched/goroutines:goroutines"}}
	metrics.Read(s)
	return int64(s[0].Value.Uint64()), int64(s[1].Value.Uint64()), int64(s[2].Value.Uint64())
}
