package coordinator_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/txcoord/txcoord/coordinator"
	"github.com/txcoord/txcoord/coordinator/telemetry"
	"github.com/txcoord/txcoord/lock"
	"github.com/txcoord/txcoord/lock/locktest"
	"github.com/txcoord/txcoord/tables/objstore"
	"github.com/txcoord/txcoord/tables/objstore/objtest"
	"github.com/txcoord/txcoord/twophase"
)

// observed is a world whose doings are noted, and counted beside that.
type observed struct {
	*world
	reader  *metric.ManualReader
	spans   *tracetest.InMemoryExporter
	keys    *locktest.Counting
	objects *objtest.Counting
}

func newObserved(t *testing.T, traced bool) *observed {
	t.Helper()
	o := &observed{world: &world{}, reader: metric.NewManualReader(), spans: tracetest.NewInMemoryExporter()}
	c := telemetry.Config{Metrics: metric.NewMeterProvider(metric.WithReader(o.reader)), Traces: noop.NewTracerProvider(), Catalog: "default", Tables: 2}
	if traced {
		c.Traces = sdktrace.NewTracerProvider(sdktrace.WithSyncer(o.spans))
	}
	r, err := telemetry.New(c)
	if err != nil {
		t.Fatal(err)
	}
	o.cfg.Telemetry = r
	o.wrapStore = func(s lock.Store) lock.Store {
		o.keys = locktest.NewCounting(s, func(string) string { return "" })
		return r.Store(o.keys.Batching())
	}
	o.wrapObjects = func(s objstore.Store) objstore.Store {
		o.objects = objtest.NewCounting(s, func(string) string { return "" })
		return r.Objects(o.objects)
	}
	o.open(t)
	return o
}

// settled waits until everything is published and has its manifest.
func (o *observed) settled() {
	o.t.Helper()
	if err := o.catalog.Drain(o.ctx()); err != nil {
		o.t.Fatal(err)
	}
}

// point is one series: what was counted, or how often and how much in all.
type point struct {
	n   uint64
	sum float64
}

// collect reads all series, by metric and the value of its own label.
func (o *observed) collect() map[string]map[string]point {
	o.t.Helper()
	var all metricdata.ResourceMetrics
	if err := o.reader.Collect(o.ctx(), &all); err != nil {
		o.t.Fatal(err)
	}
	out := map[string]map[string]point{}
	for _, s := range all.ScopeMetrics {
		for _, m := range s.Metrics {
			out[m.Name] = series(m.Data)
		}
	}
	return out
}

func series(data metricdata.Aggregation) map[string]point {
	out := map[string]point{}
	switch d := data.(type) {
	case metricdata.Sum[int64]:
		for _, p := range d.DataPoints {
			out[own(p.Attributes)] = point{n: uint64(p.Value)}
		}
	case metricdata.Gauge[int64]:
		for _, p := range d.DataPoints {
			out[own(p.Attributes)] = point{n: uint64(p.Value)}
		}
	case metricdata.Gauge[float64]:
		for _, p := range d.DataPoints {
			out[own(p.Attributes)] = point{sum: p.Value}
		}
	case metricdata.Histogram[float64]:
		for _, p := range d.DataPoints {
			out[own(p.Attributes)] = point{n: p.Count, sum: p.Sum}
		}
	}
	return out
}

// own is the value of a series' labels beside the catalog.
func own(set attribute.Set) (out string) {
	for _, kv := range set.ToSlice() {
		if kv.Key != "catalog" {
			out += "/" + kv.Value.AsString()
		}
	}
	return strings.TrimPrefix(out, "/")
}

// A storm, and what was counted of it independently.
func TestMetricsAgreeWithAStorm(t *testing.T) {
	o := newObserved(t, false)
	names := []string{"a", "b", "c"}
	for _, n := range names {
		o.create(n, twophase.ModeExclusive)
	}
	for i := range 20 {
		o.commit(fmt.Sprintf("seed-%d", i), blind("a", fmt.Sprintf("seed-%d", i)))
	}
	o.commit("second", blind("b", "second")) // so that these two have names
	o.settled()
	before := o.collect()
	log := map[string]int{}
	for _, n := range names {
		log[n] = o.versions(n)
	}
	entries := o.position()
	told := o.storm(names)
	o.settled()
	after := o.collect()

	added := func(metric, series string) uint64 { return after[metric][series].n - before[metric][series].n }
	sum := func(metric, series string) float64 { return after[metric][series].sum - before[metric][series].sum }
	aborted := 0
	for rule, n := range told.aborted {
		aborted += n
		if got := added("txcoord.transactions.aborted", rule); got != uint64(n) {
			t.Errorf("%d aborted by %q are counted, clients were told %d", got, rule, n)
		}
	}
	if aborted == 0 {
		t.Error("nothing was aborted: the storm shows less than it should")
	}
	versions, parts := 0, 0
	for i, n := range names {
		own := o.versions(n) - log[n]
		versions += own
		parts += told.parts[n]
		if got := added("txcoord.table.versions", n); i < 2 && got != uint64(own) {
			t.Errorf("%d versions of %s are counted, its log has %d", got, n, own)
		}
	}
	all := told.committed
	for what, c := range map[string]struct{ got, want float64 }{
		"committed":                       {float64(added("txcoord.transactions.committed", "")), float64(all)},
		"calls that committed":            {float64(added("txcoord.commit.duration", "committed")), float64(all)},
		"calls that were aborted":         {float64(added("txcoord.commit.duration", "aborted")), float64(aborted)},
		"transactions in groups":          {sum("txcoord.group.transactions", ""), float64(all + aborted)},
		"versions":                        {float64(added("txcoord.version.transactions", "")), float64(versions)},
		"transactions in versions":        {sum("txcoord.version.transactions", ""), float64(parts)},
		"versions of tables beyond two":   {float64(added("txcoord.table.versions", "other")), float64(o.versions("c") - log["c"])},
		"parts":                           {float64(added("txcoord.commit.phase.duration", "stage")), float64(told.staged)},
		"queue":                           {float64(added("txcoord.commit.phase.duration", "queue")), float64(all)},
		"append":                          {float64(added("txcoord.commit.phase.duration", "append")), float64(all)},
		"publish":                         {float64(added("txcoord.commit.phase.duration", "publish")), float64(all)},
		"manifest":                        {float64(added("txcoord.commit.phase.duration", "manifest")), float64(all)},
		"lost":                            {float64(added("txcoord.positions.lost", "")), 0},
		"journal":                         {float64(added("txcoord.journal.position", "")), float64(o.position() - entries)},
		"tables":                          {float64(after["txcoord.tables"]["exclusive"].n), float64(len(names))},
		"open rounds":                     {float64(after["txcoord.rounds.open"][""].n), 0},
		"snapshots without a manifest":    {float64(after["txcoord.manifest.lag"][""].n), 0},
		"age of the oldest of them":       {float64(after["txcoord.manifest.age"][""].n), 0},
		"snapshot":                        {float64(after["txcoord.snapshot"][""].n), float64(o.catalog.Shown())},
		"bytes that wait to be published": {float64(after["txcoord.backlog"][""].n), 0},
		"transactions that are open":      {float64(after["txcoord.transactions.open"][""].n), 0},
		"frozen":                          {float64(after["txcoord.tables.frozen"]["diverged"].n), 0},
	} {
		if c.got != c.want {
			t.Errorf("%s: %v, want %v", what, c.got, c.want)
		}
	}
	if torn := added("txcoord.round.torn.duration", ""); torn == 0 || torn > uint64(all) {
		t.Errorf("%d rounds over several tables, of %d transactions", torn, all)
	}
	o.stop() // and with it all that asks stores in the background
	for metric, want := range map[string]map[string]uint64{
		"txcoord.store.request.duration":   kinds(o.keys.Counts(), func(c locktest.Call) string { return string(c.Kind) }),
		"txcoord.objects.request.duration": kinds(o.objects.Counts(), func(c objtest.Call) string { return string(c.Kind) }),
	} {
		got := map[string]uint64{}
		for at, p := range o.collect()[metric] {
			kind, _, _ := strings.Cut(at, "/")
			got[kind] += p.n
		}
		delete(want, "batched") // part of their batch
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-counted +noted):\n%s", metric, diff)
		}
	}
}

// kinds adds calls up by their kind, as metrics write it.
func kinds[C comparable](calls map[C]int, kind func(C) string) map[string]uint64 {
	out := map[string]uint64{}
	for c, n := range calls {
		out[strings.NewReplacer(" ", "_", "-", "_").Replace(kind(c))] += uint64(n)
	}
	return out
}

// told is what the clients of a storm heard.
type told struct {
	mu        sync.Mutex
	committed int
	staged    int // parts that were taken
	aborted   map[string]int
	parts     map[string]int
}

// storm has clients append to some tables, and fight over files of one.
func (o *observed) storm(names []string) *told {
	out := &told{aborted: map[string]int{}, parts: map[string]int{}}
	info := o.info(names[0])
	var running sync.WaitGroup
	for client := range 8 {
		running.Go(func() {
			dice := rand.New(rand.NewPCG(7, uint64(client)))
			for n := range 15 {
				var parts []coordinator.OnceTable
				for _, name := range names {
					if dice.IntN(2) == 0 {
						parts = append(parts, blind(name, fmt.Sprintf("f-%d-%d", client, n)))
					}
				}
				if len(parts) == 0 || dice.IntN(3) == 0 {
					parts = []coordinator.OnceTable{change(names[0], readWhole(info.Version), remove(fmt.Sprintf("seed-%d", dice.IntN(20))))}
				}
				_, err := o.try(fmt.Sprintf("storm-%d-%d", client, n), parts...)
				out.note(o.t, parts, err)
			}
		})
	}
	running.Wait()
	return out
}

func (o *told) note(t testing.TB, parts []coordinator.OnceTable, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.staged += len(parts)
	var own *coordinator.Error
	switch {
	case err == nil:
		o.committed++
		for _, p := range parts {
			o.parts[p.Table]++
		}
	case errors.As(err, &own) && own.Conflict != nil:
		o.aborted[own.Conflict.Rule.String()]++
	default:
		t.Errorf("the storm met %v", err)
	}
}

func (o *observed) position() uint64 {
	o.t.Helper()
	st, err := o.catalog.Status(o.ctx())
	if err != nil {
		o.t.Fatal(err)
	}
	return uint64(st.Position)
}

// The spans of one transaction over three tables: each once or once per table, in its
// client's trace, and in order.
func TestTraceOfATransaction(t *testing.T) {
	o := newObserved(t, true)
	for _, n := range []string{"a", "b", "c"} {
		o.create(n, twophase.ModeExclusive)
	}
	client := trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{1}, SpanID: trace.SpanID{2}, TraceFlags: trace.FlagsSampled, Remote: true})
	ctx := trace.ContextWithRemoteSpanContext(o.ctx(), client)
	out, _, err := o.catalog.CommitOnce(ctx, once("k", blind("a", "x"), blind("b", "x"), blind("c", "x")))
	if err != nil {
		t.Fatal(err)
	}
	o.settled()
	o.stop() // the last span is written after the manifest

	byName := map[string][]tracetest.SpanStub{}
	for _, s := range o.spans.GetSpans() {
		byName[s.Name] = append(byName[s.Name], s)
	}
	want := map[string]int{
		telemetry.CommitSpan: 1, telemetry.StageSpan: 3, telemetry.QueueSpan: 1, telemetry.AppendSpan: 1, telemetry.GroupSpan: 1,
		telemetry.PutSpan: 3, telemetry.PublishSpan: 1, telemetry.ManifestSpan: 1,
	}
	got := map[string]int{}
	for name, spans := range byName {
		got[name] = len(spans)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatalf("spans (-want +got):\n%s", diff)
	}
	commit := byName[telemetry.CommitSpan][0]
	if commit.Parent.SpanID() != client.SpanID() {
		t.Errorf("the call is under %s, and not under its client", commit.Parent.SpanID())
	}
	for name, spans := range byName {
		for _, s := range spans {
			o.belongs(name, s, commit, out.Txn.String())
		}
	}
	tables := map[string]bool{}
	for _, s := range byName[telemetry.PutSpan] {
		tables[about(s, telemetry.TableKey)] = true
	}
	if len(tables) != 3 {
		t.Errorf("puts into %v", tables)
	}
	order := []string{telemetry.StageSpan, telemetry.QueueSpan, telemetry.AppendSpan, telemetry.PutSpan, telemetry.ManifestSpan}
	for i, name := range order[1:] {
		for _, earlier := range byName[order[i]] {
			for _, later := range byName[name] {
				if later.StartTime.Before(earlier.EndTime) {
					t.Errorf("%s begins at %s, before %s ends at %s", name, later.StartTime, order[i], earlier.EndTime)
				}
			}
		}
	}
	publish, group, member := byName[telemetry.PublishSpan][0], byName[telemetry.GroupSpan][0], byName[telemetry.AppendSpan][0]
	for _, put := range byName[telemetry.PutSpan] {
		if put.StartTime.Before(publish.StartTime) || put.EndTime.After(publish.EndTime) {
			t.Errorf("a put from %s to %s is not within the publication from %s to %s", put.StartTime, put.EndTime, publish.StartTime, publish.EndTime)
		}
	}
	if len(member.Links) != 1 || member.Links[0].SpanContext.SpanID() != group.SpanContext.SpanID() {
		t.Errorf("the append is linked with %v, and not with its group %s", member.Links, group.SpanContext.SpanID())
	}
	if len(group.Links) != 1 || group.Links[0].SpanContext.SpanID() != commit.SpanContext.SpanID() {
		t.Errorf("the group is linked with %v, and not with its member %s", group.Links, commit.SpanContext.SpanID())
	}
}

// belongs checks that a span stands where it should.
func (o *observed) belongs(name string, s, commit tracetest.SpanStub, txn string) {
	o.t.Helper()
	same := s.SpanContext.TraceID() == commit.SpanContext.TraceID()
	if name == telemetry.GroupSpan {
		if same {
			o.t.Error("the group's span is in its member's trace")
		}
		return
	}
	if !same || name != telemetry.CommitSpan && s.Parent.SpanID() != commit.SpanContext.SpanID() {
		o.t.Errorf("%s is not under its commit", name)
	}
	if got := about(s, telemetry.TxnKey); got != txn {
		o.t.Errorf("%s is about transaction %q, want %s", name, got, txn)
	}
	if s.EndTime.Before(s.StartTime) {
		o.t.Errorf("%s ends before it begins", name)
	}
}

func about(s tracetest.SpanStub, key attribute.Key) string {
	for _, kv := range s.Attributes {
		if kv.Key == key {
			return kv.Value.AsString()
		}
	}
	return ""
}

// Without a client's trace, and where nothing is sampled, no span is made.
func TestUntracedTransactionsMakeNoSpans(t *testing.T) {
	o := newObserved(t, true)
	o.create("a", twophase.ModeExclusive)
	o.spans.Reset()
	client := trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{1}, SpanID: trace.SpanID{2}, Remote: true})
	if _, _, err := o.catalog.CommitOnce(trace.ContextWithRemoteSpanContext(o.ctx(), client), once("k", blind("a", "x"))); err != nil {
		t.Fatal(err)
	}
	o.settled()
	o.stop()
	if spans := o.spans.GetSpans(); len(spans) != 0 {
		t.Errorf("%d spans of a call that is not sampled, such as %s", len(spans), spans[0].Name)
	}
}

// Not ready is who does not serve: one that is closed, one whose journal is not its own.
func TestReady(t *testing.T) {
	w := newWorld(t)
	if err := w.catalog.Ready(); err != nil {
		t.Errorf("an open catalog: %v", err)
	}
	c := w.catalog
	w.stop()
	wantReason(t, "a closed catalog", c.Ready(), coordinator.ShuttingDown)
}
